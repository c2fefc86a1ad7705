// Keys of a physical keyboard, as the session's key events.
// Path back: from the browser, to input.ts.
// Knows which keys are pressed; never texts (typing.ts), pointers or sockets.

import { absoluteUs, type InputSink } from "./input";
import { EVDEV, keysymOf } from "./keymap";
import { isModifierCode, ModifierKinds, platformOf, writesWithModifiers } from "./modifiers";

/** Windows reports AltGr as ControlLeft and AltRight at the same time; no user is that quick. */
const ALTGR_PAIR_MS_MAX = 20;

export interface KeysOptions {
  sink: InputSink;
  /** Whether it was a shortcut of the viewer itself. */
  shortcut(event: KeyboardEvent): boolean;
  /** Whether this key is for another element of the page: its menu, a button. */
  forPage(event: KeyboardEvent): boolean;
  /**
   * Whether the browser has to see it too, because it pastes, and whether it has been sent already.
   */
  clipboard(event: KeyboardEvent): { forBrowser: boolean; handled: boolean };
}

interface HeldKey {
  code: number;
  keysym: number;
  /** The session has it pressed; otherwise it waits for what is pressed with it. */
  sent: boolean;
  /** A modifier that has written a character: its own press and release mean nothing. */
  wrote: boolean;
}

export class Keys {
  /** Pressed keys: KeyboardEvent.code → what was sent for it, or will be. */
  private readonly held = new Map<string, HeldKey>();
  private readonly kinds = new ModifierKinds();
  private readonly platform = platformOf(navigator.platform);
  private controlLeftAtMs = -Infinity;
  /** The lock states that were sent last. */
  private locks: string | undefined;

  constructor(private readonly options: KeysOptions) {
    addEventListener("keydown", (event) => this.down(event), { capture: true });
    addEventListener("keyup", (event) => this.up(event), { capture: true });
  }

  /** Whether any key is pressed. */
  get busy(): boolean {
    return this.held.size > 0;
  }

  /** The session has released everything. */
  forget(): void {
    this.held.clear();
    this.forgetLocks();
  }

  /** The session's locks may differ from what was sent. */
  forgetLocks(): void {
    this.locks = undefined;
  }

  /** A button or a wheel: the modifiers that wait for what is done with them are pressed. */
  settle(): void {
    for (const key of this.held.values()) this.press(key, performance.now());
  }

  private down(event: KeyboardEvent): void {
    const { sink, shortcut, forPage, clipboard } = this.options;
    if (!sink.takesKeys) return;
    // An input method is composing; its text arrives in typing.ts.
    if (event.isComposing || event.keyCode === 229 || event.key === "Process") return;
    // The browser composes a dead key with the next one, whose key or text has the result.
    if (event.key === "Dead") return;
    if (shortcut(event)) {
      event.preventDefault();
      return;
    }
    if (forPage(event)) return;
    const code = EVDEV[event.code] ?? 0;
    const isModifier = isModifierCode(event.code);
    const others = [...this.held.keys()].some(
      (held) => held !== event.code && isModifierCode(held),
    );
    const key = this.kinds.keyOf(event, others);
    const keysym = keysymOf(key, isModifier ? sideOf(event.code) : event.location);
    if (code === 0 && keysym === 0) return;
    // Touch keyboards give no code; what they write arrives as text.
    if (event.code === "" && keysym < 0xff00) return;
    const { forBrowser, handled } = clipboard(event);
    if (!forBrowser) event.preventDefault();
    if (handled) return;
    if (event.repeat || this.held.has(event.code)) return;
    if (event.code === "ControlLeft") this.controlLeftAtMs = event.timeStamp;
    if (key === "AltGraph" && event.timeStamp - this.controlLeftAtMs < ALTGR_PAIR_MS_MAX) {
      this.release("ControlLeft", event.timeStamp);
    }
    this.syncLocks(event);
    if (!isModifier) this.settleOrWithhold(event);
    const held = { code, keysym, sent: false, wrote: false };
    this.held.set(event.code, held);
    // Option may be for a character or be Alt: what is pressed with it decides.
    if (this.platform !== "mac" || key !== "Alt") this.press(held, event.timeStamp);
  }

  /** Before a key that is no modifier: the session has those that are not for writing it. */
  private settleOrWithhold(event: KeyboardEvent): void {
    const writes = writesWithModifiers(event, this.platform);
    const writers = this.platform === "windows" ? [KEY.Control, KEY.Alt] : [KEY.Alt];
    const of = ({ keysym }: HeldKey) => writers.find((pair) => pair.includes(keysym));
    const held = [...this.held.values()];
    const pressed = new Set(held.map(of));
    for (const key of held) {
      if (writes && of(key) !== undefined && writers.every((pair) => pressed.has(pair))) {
        key.wrote = true;
        this.lift(key, event.timeStamp);
      } else {
        this.press(key, event.timeStamp);
      }
    }
  }

  private press(key: HeldKey, timeStamp: number): void {
    if (key.sent) return;
    key.sent = true;
    this.sendKey(key, true, timeStamp);
  }

  private lift(key: HeldKey, timeStamp: number): void {
    if (!key.sent) return;
    key.sent = false;
    this.sendKey(key, false, timeStamp);
  }

  private sendKey({ code, keysym }: HeldKey, down: boolean, timeStamp: number): void {
    this.options.sink.send({ type: "key", code, keysym, down, timeUs: absoluteUs(timeStamp) });
  }

  /**
   * Browsers report lock states with key events only. Mac keyboards have no Num Lock, but their
   * keypads write digits.
   */
  private syncLocks(event: KeyboardEvent): void {
    if (event.code === "CapsLock" || event.code === "NumLock" || event.code === "") return;
    const caps = event.getModifierState("CapsLock");
    const num = event.getModifierState("NumLock") || this.platform === "mac";
    if (this.locks === `${caps} ${num}`) return;
    this.locks = `${caps} ${num}`;
    this.options.sink.send({ type: "locks", caps, num });
  }

  private up(event: KeyboardEvent): void {
    if (!this.options.sink.takesKeys) return;
    if (this.held.has(event.code)) event.preventDefault();
    this.release(event.code, event.timeStamp);
    // macOS reports no release of a key while Command is pressed.
    if (event.key === "Meta" && this.platform === "mac") {
      for (const code of [...this.held.keys()]) this.release(code, event.timeStamp);
    }
  }

  private release(name: string, timeStamp: number): void {
    const key = this.held.get(name);
    if (key === undefined) return;
    this.held.delete(name);
    // Pressed alone, as to open a menu.
    if (!key.wrote) this.press(key, timeStamp);
    this.lift(key, timeStamp);
  }
}

/** The keysyms of the modifiers that write characters. */
const KEY: Readonly<Record<"Control" | "Alt", readonly number[]>> = {
  Control: [0xffe3, 0xffe4],
  Alt: [0xffe9, 0xffea],
};

/** KeyboardEvent.location of a modifier; scripts leave it out. */
function sideOf(code: string): number {
  return code.endsWith("Right") ? 2 : 1;
}
