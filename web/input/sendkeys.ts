// Buttons for keys that the browser or the desktop around it does not pass on.
// Path back, beside keyrow.ts: to input.ts.
// Knows names of keys and the menu's group for the buttons; never whether the menu is open.

import { nowUs, type ToEngine } from "../engine/messages";
import { EVDEV, keysymOf } from "./keymap";

/** Chords by key names, in the order of pressing. */
const CHORDS: readonly string[] = [
  "Ctrl+Alt+Del",
  "Alt+Tab",
  "Alt+F4",
  "Super",
  "Print",
  "Ctrl+W",
  "Ctrl+T",
  "Ctrl+N",
  "Ctrl+Shift+T",
  ...Array.from({ length: 12 }, (_, i) => `Ctrl+Alt+F${i + 1}`),
];

/** Key name in a chord → KeyboardEvent.code and key. */
const NAMES: Readonly<Record<string, readonly [code: string, key: string]>> = {
  Ctrl: ["ControlLeft", "Control"],
  Alt: ["AltLeft", "Alt"],
  Shift: ["ShiftLeft", "Shift"],
  Super: ["MetaLeft", "Meta"],
  Del: ["Delete", "Delete"],
  Tab: ["Tab", "Tab"],
  Print: ["PrintScreen", "PrintScreen"],
};

/** The keys of a chord, as evdev codes and keysyms. */
export function keysOf(chord: string): { code: number; keysym: number }[] {
  return chord.split("+").map((name) => {
    const [code, key] =
      NAMES[name] ?? (name.length === 1 ? [`Key${name}`, name.toLowerCase()] : [name, name]);
    return { code: EVDEV[code] ?? 0, keysym: keysymOf(key, 1) };
  });
}

/** Fills the menu's group. */
export function addSendKeys(group: HTMLElement, send: (message: ToEngine) => void): void {
  const press = (chord: string) => {
    const keys = keysOf(chord);
    for (const key of keys) send({ type: "key", ...key, down: true, timeUs: nowUs() });
    for (const key of keys.reverse()) send({ type: "key", ...key, down: false, timeUs: nowUs() });
  };
  const consoles = document.createElement("select");
  consoles.setAttribute("aria-label", "Send Ctrl+Alt and a function key");
  consoles.append(new Option("Ctrl+Alt+F…", ""));
  consoles.addEventListener("change", () => {
    if (consoles.value !== "") press(consoles.value);
    consoles.value = "";
  });
  for (const chord of CHORDS) {
    if (/\+F\d+$/.test(chord) && chord.startsWith("Ctrl+Alt")) {
      consoles.append(new Option(chord, chord));
      continue;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = chord;
    button.title = `Sends ${chord} to the session`;
    button.addEventListener("click", () => press(chord));
    group.append(button);
  }
  group.append(consoles);
}
