// What kind of modifier a key is, and which modifiers wrote a character with it.
// Path back: under keys.ts.
// Knows one keyboard event at a time and what it was told of others; never what was sent.

/** KeyboardEvent.code of a modifier → what it is in most layouts, first without AltGr. */
const USUAL: Readonly<Record<string, readonly string[]>> = {
  ShiftLeft: ["Shift"],
  ShiftRight: ["Shift"],
  ControlLeft: ["Control"],
  ControlRight: ["Control"],
  AltLeft: ["Alt"],
  AltRight: ["Alt", "AltGraph"],
  MetaLeft: ["Meta", "OS", "Super", "Hyper"],
  MetaRight: ["Meta", "OS", "Super", "Hyper"],
  OSLeft: ["Meta", "OS", "Super", "Hyper"],
  OSRight: ["Meta", "OS", "Super", "Hyper"],
};

/** KeyboardEvent.key of what a layout may make of them. */
const KINDS = new Set([...Object.values(USUAL).flat(), "CapsLock"]);

/** Whether this key is a modifier by its place. */
export function isModifierCode(code: string): boolean {
  return code in USUAL;
}

export type Platform = "mac" | "windows" | "other";

export function platformOf(name: string): Platform {
  if (/^(Mac|iP)/.test(name)) return "mac";
  return name.startsWith("Win") ? "windows" : "other";
}

/**
 * The kind of each modifier. Alone, a key is what the browser calls it, as somebody may have
 * exchanged two in the layout. With another modifier the browser may give the meaning of another
 * level: Chromium on X calls Alt "Meta" with Shift, and both browsers call a modifier "GroupNext"
 * that changes the layout together with another. Then the key is what it was alone, else what its
 * code says.
 */
export class ModifierKinds {
  /** KeyboardEvent.code → key, where it is not the usual one. */
  private readonly exchanged = new Map<string, string>();

  /** KeyboardEvent.key as it would be without other modifiers; `others`: one is pressed. */
  keyOf(event: KeyboardEvent, others: boolean): string {
    const { code, key, altKey, shiftKey } = event;
    const usual = USUAL[code];
    // Nothing but AltGr is called so, and Windows presses Control with it.
    if (usual === undefined || key === "AltGraph") return key;
    // Shift may have been pressed before the page had the keyboard focus.
    if (others || (shiftKey && usual[0] !== "Shift" && key !== "Shift")) {
      const level = !KINDS.has(key) || (key === "Meta" && altKey && usual[0] === "Alt");
      return this.exchanged.get(code) ?? (level ? (usual[0] as string) : key);
    }
    if (KINDS.has(key) && !usual.includes(key)) this.exchanged.set(code, key);
    else this.exchanged.delete(code);
    return key;
  }
}

/**
 * Whether this key wrote a character that it writes only with the pressed modifiers, which are no
 * part of a shortcut then: Option on macOS, Control and Alt on Windows where a layout has AltGr.
 */
export function writesWithModifiers(event: KeyboardEvent, platform: Platform): boolean {
  const { code, key, ctrlKey, metaKey } = event;
  if ([...key].length !== 1) return false;
  if (platform === "windows") return event.getModifierState("AltGraph");
  // Where a layout gives Option no meaning, the key writes what it writes alone.
  const plain = (code.startsWith("Key") && /^[a-z]$/i.test(key)) || code === `Digit${key}`;
  return platform === "mac" && !ctrlKey && !metaKey && !plain;
}
