// Keys, pointer, wheel, fingers and texts of a page, as the session's input events.
// Path back: from the browser, to engine.ts.
// Knows what is held and where the screen lies on the page; never sockets or sequence numbers.

import { EVDEV, keysymOf, keysymOfCodePoint } from "./keymap";
import { nowUs, TouchPhase, type ToEngine } from "./messages";

/** One notch of a wheel, in the protocol's units. */
const NOTCH = 120;
/** Pixels and lines a browser scrolls for one notch, where it does not say notches itself. */
const PIXELS_PER_NOTCH = 100;
const LINES_PER_NOTCH = 3;
/** Positions closer together than this wait for the next one; a display shows none of the difference. */
const MOTION_MS_MIN = 2;
/** Windows says AltGr as ControlLeft and AltRight at one moment; a person is not that quick. */
const ALTGR_PAIR_MS_MAX = 20;
/** As the protocol numbers fingers. */
const FINGERS_MAX = 16;

const BACKSPACE = { code: 14, keysym: 0xff08 };
const DELETE = { code: 111, keysym: 0xffff };

/** Bits of MouseEvent.buttons → X button numbers. */
const BUTTONS = [
  [1, 1],
  [4, 2],
  [2, 3],
  [8, 8],
  [16, 9],
] as const;

/** Where the screen is on the page, and how large. */
export interface Placement {
  /** CSS pixels. */
  left: number;
  top: number;
  width: number;
  height: number;
  /** Pixels of the session's screen. */
  screenWidth: number;
  screenHeight: number;
}

export interface InputOptions {
  stage: HTMLElement;
  /** Takes texts: what input methods compose and on-screen keyboards write. */
  keys: HTMLTextAreaElement;
  send(message: ToEngine): void;
  placement(): Placement | undefined;
  /** A shortcut of the viewer itself: true when it was one. */
  shortcut(event: KeyboardEvent): boolean;
  /** The pointer is here, in CSS pixels; undefined when it left. */
  pointerAt(x: number | undefined, y: number | undefined): void;
}

export class Input {
  /** Keys pressed and not yet released: KeyboardEvent.code → what was sent for it. */
  private readonly held = new Map<string, { code: number; keysym: number }>();
  private controlLeftAtMs = -Infinity;
  /** Buttons pressed, as MouseEvent.buttons. */
  private buttons = 0;
  private lastMotionMs = -Infinity;
  private pendingMotion: { x: number; y: number } | undefined;
  /** Fingers on the glass: pointerId → its number; the place in the array is the number. */
  private readonly fingers: (number | undefined)[] = [];
  private remainder = { x: 0, y: 0 };
  /** What has been sent of the text being composed. */
  private composed = "";
  private active = false;

  constructor(private readonly options: InputOptions) {
    const { stage, keys } = options;
    addEventListener("keydown", (event) => this.keyDown(event), { capture: true });
    addEventListener("keyup", (event) => this.keyUp(event), { capture: true });
    keys.addEventListener("beforeinput", (event) => this.beforeInput(event));
    keys.addEventListener("input", () => this.resetText());
    keys.addEventListener("compositionstart", () => (this.composed = ""));
    keys.addEventListener("compositionupdate", (event) => this.compositionUpdate(event.data));
    keys.addEventListener("compositionend", (event) => this.compositionEnd(event.data));
    this.resetText();

    addEventListener("blur", () => this.releaseAll());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.releaseAll();
    });

    for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const) {
      stage.addEventListener(type, (event) => this.pointer(event));
    }
    // Where there is one, it comes as soon as the mouse moved; "pointermove" waits for the next frame.
    if ("onpointerrawupdate" in stage) {
      stage.addEventListener("pointerrawupdate", (event) => this.pointer(event as PointerEvent));
    }
    stage.addEventListener("pointerleave", () => options.pointerAt(undefined, undefined));
    stage.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    // The middle button would scroll, "back" would leave, a long touch would open a menu.
    for (const type of ["mousedown", "mouseup", "auxclick", "contextmenu", "dragstart", "selectstart"] as const) {
      stage.addEventListener(type, (event) => {
        if (this.active) event.preventDefault();
      });
    }
  }

  /** Whether there is a session to send to; without one the browser keeps its keys. */
  setActive(active: boolean): void {
    if (active === this.active) return;
    this.active = active;
    this.held.clear();
    this.buttons = 0;
    this.fingers.length = 0;
    this.pendingMotion = undefined;
  }

  /** The keyboard belongs to somebody else now. */
  releaseAll(): void {
    if (this.held.size === 0 && this.buttons === 0 && this.fingers.every((finger) => finger === undefined)) return;
    this.held.clear();
    this.buttons = 0;
    this.fingers.length = 0;
    this.options.send({ type: "releaseAll" });
  }

  // Keys

  private keyDown(event: KeyboardEvent): void {
    if (!this.active) return;
    // An input method is composing: its text arrives by itself.
    if (event.isComposing || event.keyCode === 229 || event.key === "Process") return;
    // The browser composes a dead key with the next one; that one's key, or a text, then says what came of it.
    if (event.key === "Dead") return;
    if (this.options.shortcut(event)) {
      event.preventDefault();
      return;
    }
    const code = EVDEV[event.code] ?? 0;
    const keysym = keysymOf(event.key, event.location);
    if (code === 0 && keysym === 0) return;
    // On-screen keyboards name no place; what they write comes as text.
    if (event.code === "" && keysym < 0xff00) return;
    event.preventDefault();
    if (event.repeat || this.held.has(event.code)) return;
    if (event.code === "ControlLeft") this.controlLeftAtMs = event.timeStamp;
    if (event.key === "AltGraph" && event.timeStamp - this.controlLeftAtMs < ALTGR_PAIR_MS_MAX) {
      this.release("ControlLeft", event.timeStamp);
    }
    this.held.set(event.code, { code, keysym });
    this.key(code, keysym, true, event.timeStamp);
  }

  private keyUp(event: KeyboardEvent): void {
    if (!this.active) return;
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
    this.key(key.code, key.keysym, false, timeStamp);
  }

  private key(code: number, keysym: number, down: boolean, timeStamp: number): void {
    this.flushMotion();
    this.options.send({ type: "key", code, keysym, down, timeUs: absoluteUs(timeStamp) });
  }

  // Texts

  private beforeInput(event: InputEvent): void {
    if (!this.active) return;
    switch (event.inputType) {
      case "insertCompositionText":
      case "insertFromComposition":
      case "deleteCompositionText":
        return; // the composition events carry it
      case "deleteContentBackward":
      case "deleteWordBackward":
      case "deleteSoftLineBackward":
        this.tap(BACKSPACE.code, BACKSPACE.keysym);
        break;
      case "deleteContentForward":
      case "deleteWordForward":
        this.tap(DELETE.code, DELETE.keysym);
        break;
      case "insertLineBreak":
      case "insertParagraph":
        this.text("\n");
        break;
      default:
        this.text(event.data ?? event.dataTransfer?.getData("text/plain") ?? "");
    }
    event.preventDefault();
  }

  /**
   * On-screen keyboards compose plain letters too, a word at a time, and a person wants to see each one; a text in
   * another script may still be anything until it is chosen.
   */
  private compositionUpdate(text: string): void {
    if (this.active && isTouchOnly() && /^[\u0020-\u024f]*$/.test(text)) this.compose(text);
  }

  private compositionEnd(text: string): void {
    if (this.active) this.compose(text);
    this.composed = "";
    this.resetText();
  }

  /** Makes what has been sent of a composition into `text`. */
  private compose(text: string): void {
    const before = [...this.composed];
    const after = [...text];
    let same = 0;
    while (same < before.length && before[same] === after[same]) same += 1;
    for (let i = same; i < before.length; i += 1) this.tap(BACKSPACE.code, BACKSPACE.keysym);
    this.text(after.slice(same).join(""));
    this.composed = text;
  }

  private text(text: string): void {
    for (const character of text.replaceAll("\r\n", "\n")) this.tap(0, keysymOfCodePoint(character.codePointAt(0) ?? 0));
  }

  private tap(code: number, keysym: number): void {
    if (code === 0 && keysym === 0) return;
    const now = performance.now();
    this.key(code, keysym, true, now);
    this.key(code, keysym, false, now);
  }

  /** On-screen keyboards tell of a deletion only where there is something to delete. */
  private resetText(): void {
    const { keys } = this.options;
    keys.value = "    ";
    keys.setSelectionRange(4, 4);
  }

  // Pointer

  private pointer(event: PointerEvent): void {
    if (event.type === "pointerdown") {
      const { stage, keys } = this.options;
      // A window of an input method opens where the person is writing.
      keys.style.left = `${event.clientX}px`;
      keys.style.top = `${event.clientY}px`;
      keys.focus({ preventScroll: true });
      stage.setPointerCapture(event.pointerId);
    }
    if (!this.active) return;
    event.preventDefault();
    if (event.pointerType === "touch") {
      this.touch(event);
      return;
    }
    this.options.pointerAt(event.clientX, event.clientY);
    const position = this.position(event);
    if (position) this.motion(position, event.type === "pointermove");
    // Only the first and last button of several have events of their own; the mask has them all.
    const buttons = event.type === "pointercancel" ? 0 : event.buttons;
    if (buttons === this.buttons) return;
    this.flushMotion();
    for (const [bit, button] of BUTTONS) {
      if (((buttons ^ this.buttons) & bit) === 0) continue;
      const down = (buttons & bit) !== 0;
      this.options.send({ type: "button", button, down, timeUs: absoluteUs(event.timeStamp) });
    }
    this.buttons = buttons;
  }

  private motion(position: { x: number; y: number }, frame: boolean): void {
    this.pendingMotion = position;
    const now = performance.now();
    // The one that comes with each frame sends whatever still waits, so the last position is never lost.
    if (frame || now - this.lastMotionMs >= MOTION_MS_MIN) {
      this.lastMotionMs = now;
      this.flushMotion();
    }
  }

  private lastSent: { x: number; y: number } | undefined;

  private flushMotion(): void {
    const position = this.pendingMotion;
    this.pendingMotion = undefined;
    if (position === undefined) return;
    if (this.lastSent !== undefined && this.lastSent.x === position.x && this.lastSent.y === position.y) return;
    this.lastSent = position;
    this.options.send({ type: "motion", ...position });
  }

  private touch(event: PointerEvent): void {
    const position = this.position(event);
    if (position === undefined) return;
    let id = this.fingers.indexOf(event.pointerId);
    if (event.type === "pointerdown") {
      id = this.fingers.indexOf(undefined);
      if (id < 0) id = this.fingers.length;
      if (id >= FINGERS_MAX) return;
      this.fingers[id] = event.pointerId;
      this.options.send({ type: "touch", id, phase: TouchPhase.Begin, ...position });
    } else if (id < 0) {
      return;
    } else if (event.type === "pointermove") {
      this.options.send({ type: "touch", id, phase: TouchPhase.Update, ...position });
    } else if (event.type === "pointerup" || event.type === "pointercancel") {
      this.fingers[id] = undefined;
      this.options.send({ type: "touch", id, phase: TouchPhase.End, ...position });
    }
  }

  /** Of the session's screen; a pointer beside it, or dragged out of the window, is at its edge. */
  private position(event: MouseEvent): { x: number; y: number } | undefined {
    const placement = this.options.placement();
    if (placement === undefined) return undefined;
    const { left, top, width, height, screenWidth, screenHeight } = placement;
    const x = Math.floor(((event.clientX - left) * screenWidth) / width);
    const y = Math.floor(((event.clientY - top) * screenHeight) / height);
    return { x: clamp(x, 0, screenWidth - 1), y: clamp(y, 0, screenHeight - 1) };
  }

  private wheel(event: WheelEvent): void {
    if (!this.active) return;
    event.preventDefault();
    this.flushMotion();
    const notches = notchesOf(event);
    // A turn the other way begins anew: what is left of the first one would only delay it.
    if (notches.x * this.remainder.x < 0) this.remainder.x = 0;
    if (notches.y * this.remainder.y < 0) this.remainder.y = 0;
    const x = this.remainder.x + notches.x * NOTCH;
    const y = this.remainder.y + notches.y * NOTCH;
    const dx = clamp(Math.trunc(x), -32768, 32767);
    const dy = clamp(Math.trunc(y), -32768, 32767);
    this.remainder = { x: x - Math.trunc(x), y: y - Math.trunc(y) };
    if (dx !== 0 || dy !== 0) this.options.send({ type: "scroll", dx, dy });
  }
}

/** Notches of a wheel, right and down positive, with fractions where the device is finer. */
export function notchesOf(event: Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode"> & WheelNotches): { x: number; y: number } {
  // The old property counts 120 a notch whatever the page's zoom and the system's lines a notch are, where it exists.
  if (event.wheelDeltaX !== undefined && event.wheelDeltaY !== undefined && (event.wheelDeltaX || event.wheelDeltaY)) {
    return { x: -event.wheelDeltaX / NOTCH || 0, y: -event.wheelDeltaY / NOTCH || 0 };
  }
  const unit = event.deltaMode === 0 ? PIXELS_PER_NOTCH : event.deltaMode === 1 ? LINES_PER_NOTCH : 1;
  return { x: event.deltaX / unit, y: event.deltaY / unit };
}

interface WheelNotches {
  wheelDeltaX?: number;
  wheelDeltaY?: number;
}

/** True on phones and tablets: no mouse, so the keyboard is on the glass too. */
export function isTouchOnly(): boolean {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

/** The moment of an event on the clock the engine uses. */
function absoluteUs(timeStamp: number): number {
  const us = Math.round((performance.timeOrigin + timeStamp) * 1000);
  const now = nowUs();
  // Events made by programs carry other clocks' moments; such a one happened now.
  return us > now || us < now - 10_000_000 ? now : us;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
