// The row of keys that touch keyboards do not have: Esc, Tab, Ctrl, Alt, Super and arrows.
// Path back: beside keys.ts, to input.ts; other keystrokes pass through it, because they release
// its sticky keys.
// Knows the row's buttons and their states; never where the touch keyboard is.

import type { ToEngine } from "../engine/messages";
import { absoluteUs } from "./input";
import { EVDEV, keysymOf, keysymOfCodePoint } from "./keymap";

/** Two taps within this time lock a sticky key. */
const DOUBLE_TAP_MS_MAX = 400;

/** A key of the row; a tap holds a sticky one until another key was typed, or until another tap. */
interface RowKey {
  button: HTMLButtonElement;
  code: number;
  keysym: number;
  sticky: boolean;
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
      const sticky = button.hasAttribute("aria-pressed");
      return {
        button,
        code: EVDEV[code] ?? 0,
        keysym: keysymOf(key, 1),
        sticky,
        state: "up",
        tappedMs: -Infinity,
      };
    });
    for (const key of this.keys) this.listen(key);
    // The focus stays where it is, and with it the touch keyboard.
    for (const type of ["pointerdown", "mousedown", "touchstart"] as const) {
      options.row.addEventListener(type, (event) => event.preventDefault(), { passive: false });
    }
    options.row.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  get busy(): boolean {
    return this.keys.some((key) => key.state !== "up");
  }

  /** The session has released everything. */
  forget(): void {
    for (const key of this.keys) this.show(key, "up");
  }

  /**
   * The messages to send for this one: with Ctrl held a character becomes a keystroke, and sticky
   * keys are released after it.
   */
  transform(message: ToEngine): ToEngine[] {
    const held = this.keys.filter((key) => key.sticky && key.state !== "up");
    if (held.length === 0) return [message];
    const timeUs = absoluteUs(performance.now());
    if (message.type === "char") {
      const keysym = keysymOfCodePoint(message.codePoint);
      if (keysym === 0) return [];
      const key = { type: "key", code: 0, keysym, timeUs } as const;
      return [{ ...key, down: true }, { ...key, down: false }, ...this.releaseSticky(held, timeUs)];
    }
    const ends =
      message.type === "pen"
        ? message.lifted
        : (message.type === "key" || message.type === "button") && !message.down;
    // A sticky key that is also pressed on a real keyboard is released by it.
    if (!ends || (message.type === "key" && held.some((key) => key.code === message.code)))
      return [message];
    return [message, ...this.releaseSticky(held, timeUs)];
  }

  private releaseSticky(held: RowKey[], timeUs: number): ToEngine[] {
    const released = held.filter((key) => key.state === "held");
    for (const key of released) this.show(key, "up");
    return released.map(({ code, keysym }) => ({ type: "key", code, keysym, down: false, timeUs }));
  }

  private listen(key: RowKey): void {
    const { button } = key;
    button.addEventListener("pointerdown", (event) => {
      button.setPointerCapture(event.pointerId);
      if (key.sticky) this.tap(key, event.timeStamp);
      else this.press(key, true, event.timeStamp);
    });
    for (const type of ["pointerup", "pointercancel"] as const) {
      button.addEventListener(type, (event) => {
        if (!key.sticky) this.press(key, false, event.timeStamp);
      });
    }
    // From a keyboard or a screen reader; pointer events are handled above.
    button.addEventListener("click", (event) => {
      if (event.detail !== 0) return;
      if (key.sticky) this.tap(key, event.timeStamp);
      else for (const down of [true, false]) this.press(key, down, event.timeStamp);
    });
  }

  /** A key without stickiness; the session repeats it while it is held here. */
  private press(key: RowKey, down: boolean, timeStamp: number): void {
    if (!this.options.active() || down === (key.state !== "up")) return;
    this.show(key, down ? "held" : "up");
    this.sendKey(key, down, timeStamp);
  }

  /** A tap on a sticky key: hold, lock at a double tap, release. */
  private tap(key: RowKey, timeStamp: number): void {
    if (!this.options.active()) return;
    const isDoubleTap = timeStamp - key.tappedMs <= DOUBLE_TAP_MS_MAX;
    key.tappedMs = timeStamp;
    if (key.state === "up") {
      this.show(key, "held");
      this.sendKey(key, true, timeStamp);
    } else if (key.state === "held" && isDoubleTap) {
      this.show(key, "locked");
    } else {
      this.show(key, "up");
      this.sendKey(key, false, timeStamp);
    }
  }

  private sendKey(key: RowKey, down: boolean, timeStamp: number): void {
    this.options.send({
      type: "key",
      code: key.code,
      keysym: key.keysym,
      down,
      timeUs: absoluteUs(timeStamp),
    });
  }

  private show(key: RowKey, state: RowKey["state"]): void {
    key.state = state;
    key.button.dataset.state = state;
    if (key.sticky) key.button.setAttribute("aria-pressed", String(state !== "up"));
  }
}
