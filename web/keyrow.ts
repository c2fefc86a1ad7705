// The row of keys that keyboards on glass lack: Esc, Tab, Ctrl, Alt, Super and arrows.
// Path back: beside keys.ts, to input.ts; what is typed elsewhere passes by here, for a key that sticks holds until then.
// Knows the row's buttons and what they hold; never where the keyboard on the glass is.

import { absoluteUs } from "./input";
import { EVDEV, keysymOf, keysymOfCodePoint } from "./keymap";
import type { ToEngine } from "./messages";

/** Two taps so soon lock a key that sticks. */
const LOCK_MS_MAX = 400;

/** A key of the row; those that stick are held from a tap on, until another key has been typed, or until another tap. */
interface RowKey {
  button: HTMLButtonElement;
  code: number;
  keysym: number;
  sticks: boolean;
  state: "up" | "held" | "locked";
  tappedMs: number;
}

export interface KeyRowOptions {
  row: HTMLElement;
  active(): boolean;
  send(message: ToEngine): void;
}

export class KeyRow {
  private readonly keys: RowKey[];

  constructor(private readonly options: KeyRowOptions) {
    const buttons = [...options.row.querySelectorAll<HTMLButtonElement>("button[data-code]")];
    this.keys = buttons.map((button) => {
      const { code = "", key = "" } = button.dataset;
      const sticks = button.hasAttribute("aria-pressed");
      return { button, code: EVDEV[code] ?? 0, keysym: keysymOf(key, 1), sticks, state: "up", tappedMs: -Infinity };
    });
    for (const key of this.keys) this.listen(key);
    // The focus, and with it the keyboard on the glass, stays where it is.
    for (const type of ["pointerdown", "mousedown", "touchstart"] as const) {
      options.row.addEventListener(type, (event) => event.preventDefault(), { passive: false });
    }
    options.row.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  get busy(): boolean {
    return this.keys.some((key) => key.state !== "up");
  }

  /** Nothing is held any more, as far as the session knows. */
  forget(): void {
    for (const key of this.keys) this.show(key, "up");
  }

  /** What the session gets for this: with Ctrl held a letter is a key and not a text, and keys that stick let go after one. */
  passing(message: ToEngine): ToEngine[] {
    const held = this.keys.filter((key) => key.sticks && key.state !== "up");
    if (held.length === 0) return [message];
    const timeUs = absoluteUs(performance.now());
    if (message.type === "char") {
      const keysym = keysymOfCodePoint(message.codePoint);
      if (keysym === 0) return [];
      const key = { type: "key", code: 0, keysym, timeUs } as const;
      return [{ ...key, down: true }, { ...key, down: false }, ...this.letGo(held, timeUs)];
    }
    const ends = (message.type === "key" || message.type === "button") && !message.down;
    // One that stuck and is now pressed on a real keyboard as well goes up with that.
    if (!ends || (message.type === "key" && held.some((key) => key.code === message.code))) return [message];
    return [message, ...this.letGo(held, timeUs)];
  }

  private letGo(held: RowKey[], timeUs: number): ToEngine[] {
    const sticking = held.filter((key) => key.state === "held");
    for (const key of sticking) this.show(key, "up");
    return sticking.map(({ code, keysym }) => ({ type: "key", code, keysym, down: false, timeUs }));
  }

  private listen(key: RowKey): void {
    const { button } = key;
    button.addEventListener("pointerdown", (event) => {
      button.setPointerCapture(event.pointerId);
      if (key.sticks) this.tap(key, event.timeStamp);
      else this.press(key, true, event.timeStamp);
    });
    for (const type of ["pointerup", "pointercancel"] as const) {
      button.addEventListener(type, (event) => {
        if (!key.sticks) this.press(key, false, event.timeStamp);
      });
    }
    // Of a keyboard or a screen reader; the pointer's own were heard above.
    button.addEventListener("click", (event) => {
      if (event.detail !== 0) return;
      if (key.sticks) this.tap(key, event.timeStamp);
      else for (const down of [true, false]) this.press(key, down, event.timeStamp);
    });
  }

  /** A key that repeats in the session for as long as it is held here. */
  private press(key: RowKey, down: boolean, timeStamp: number): void {
    if (!this.options.active() || down === (key.state !== "up")) return;
    this.show(key, down ? "held" : "up");
    this.say(key, down, timeStamp);
  }

  /** One that sticks: held, locked where the next tap comes at once, and let go. */
  private tap(key: RowKey, timeStamp: number): void {
    if (!this.options.active()) return;
    const atOnce = timeStamp - key.tappedMs <= LOCK_MS_MAX;
    key.tappedMs = timeStamp;
    if (key.state === "up") {
      this.show(key, "held");
      this.say(key, true, timeStamp);
    } else if (key.state === "held" && atOnce) {
      this.show(key, "locked");
    } else {
      this.show(key, "up");
      this.say(key, false, timeStamp);
    }
  }

  private say(key: RowKey, down: boolean, timeStamp: number): void {
    this.options.send({ type: "key", code: key.code, keysym: key.keysym, down, timeUs: absoluteUs(timeStamp) });
  }

  private show(key: RowKey, state: RowKey["state"]): void {
    key.state = state;
    key.button.dataset.state = state;
    if (key.sticks) key.button.setAttribute("aria-pressed", String(state !== "up"));
  }
}
