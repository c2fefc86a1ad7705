// Keys of a keyboard, as the session's key events.
// Path back: from the browser, to input.ts.
// Knows which keys are held; never texts (typing.ts), pointers or sockets.

import { EVDEV, keysymOf } from "./keymap";
import { absoluteUs, type Outlet } from "./input";

/** Windows says AltGr as ControlLeft and AltRight at one moment; a person is not that quick. */
const ALTGR_PAIR_MS_MAX = 20;

export interface KeysOptions {
  outlet: Outlet;
  /** A shortcut of the viewer itself: true when it was one. */
  shortcut(event: KeyboardEvent): boolean;
  /** This key is for something else on the page: its menu, a button. */
  elsewhere(event: KeyboardEvent): boolean;
  /** Whether the browser has to see it too, because it pastes, and whether the session has been told of it already. */
  clipboard(event: KeyboardEvent): { browsers: boolean; said: boolean };
}

export class Keys {
  /** Keys pressed and not yet released: KeyboardEvent.code → what was sent for it. */
  private readonly held = new Map<string, { code: number; keysym: number }>();
  private controlLeftAtMs = -Infinity;
  /** The locks that the session was told of. */
  private locks: string | undefined;

  constructor(private readonly options: KeysOptions) {
    addEventListener("keydown", (event) => this.down(event), { capture: true });
    addEventListener("keyup", (event) => this.up(event), { capture: true });
  }

  /** Whether any key is held. */
  get busy(): boolean {
    return this.held.size > 0;
  }

  /** Nothing is held any more, as far as the session knows. */
  forget(): void {
    this.held.clear();
    this.forgetLocks();
  }

  /** The session's may be others than it was told. */
  forgetLocks(): void {
    this.locks = undefined;
  }

  private down(event: KeyboardEvent): void {
    const { outlet, shortcut, elsewhere, clipboard } = this.options;
    if (!outlet.takesKeys) return;
    // An input method is composing: its text arrives by itself.
    if (event.isComposing || event.keyCode === 229 || event.key === "Process") return;
    // The browser composes a dead key with the next one; that one's key, or a text, then says what came of it.
    if (event.key === "Dead") return;
    if (shortcut(event)) {
      event.preventDefault();
      return;
    }
    if (elsewhere(event)) return;
    const code = EVDEV[event.code] ?? 0;
    const keysym = keysymOf(event.key, event.location);
    if (code === 0 && keysym === 0) return;
    // On-screen keyboards name no place; what they write comes as text.
    if (event.code === "" && keysym < 0xff00) return;
    const { browsers, said } = clipboard(event);
    if (!browsers) event.preventDefault();
    if (said) return;
    if (event.repeat || this.held.has(event.code)) return;
    if (event.code === "ControlLeft") this.controlLeftAtMs = event.timeStamp;
    if (event.key === "AltGraph" && event.timeStamp - this.controlLeftAtMs < ALTGR_PAIR_MS_MAX) {
      this.release("ControlLeft", event.timeStamp);
    }
    this.syncLocks(event);
    this.held.set(event.code, { code, keysym });
    outlet.send({ type: "key", code, keysym, down: true, timeUs: absoluteUs(event.timeStamp) });
  }

  /** Browsers say the locks with keys only. Keyboards of Macs have no Num Lock, and digits on the keypad all the same. */
  private syncLocks(event: KeyboardEvent): void {
    if (event.code === "CapsLock" || event.code === "NumLock" || event.code === "") return;
    const caps = event.getModifierState("CapsLock");
    const num = event.getModifierState("NumLock") || navigator.platform.startsWith("Mac");
    if (this.locks === `${caps} ${num}`) return;
    this.locks = `${caps} ${num}`;
    this.options.outlet.send({ type: "locks", caps, num });
  }

  private up(event: KeyboardEvent): void {
    if (!this.options.outlet.takesKeys) return;
    if (this.held.has(event.code)) event.preventDefault();
    this.release(event.code, event.timeStamp);
    // macOS tells of no key that goes up while Command is down.
    if (event.key === "Meta" && navigator.platform.startsWith("Mac")) {
      for (const code of [...this.held.keys()]) this.release(code, event.timeStamp);
    }
  }

  private release(name: string, timeStamp: number): void {
    const key = this.held.get(name);
    if (key === undefined) return;
    this.held.delete(name);
    this.options.outlet.send({ type: "key", ...key, down: false, timeUs: absoluteUs(timeStamp) });
  }
}
