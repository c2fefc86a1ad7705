// Everything a person does on the page, as the session's input events: keys, texts, pointer, fingers.
// Path back: from the browser, through keys.ts, keyrow.ts, typing.ts, pointer.ts, touch.ts and fingers.ts, to engine.ts.
// Knows whether there is a session to send to, and the order of what is sent; never sockets or sequence numbers.

import { Fingers } from "./fingers";
import { Keys, type KeysOptions } from "./keys";
import type { KeyRow, KeyRowOptions } from "./keyrow";
import { nowUs, type ToEngine } from "./messages";
import { NOTCH, Pointer } from "./pointer";
import type { Stage } from "./stage";
import { Touch, type Place } from "./touch";
import { Typing } from "./typing";

/** CSS pixels that fingers move a page while a wheel turns one notch: about what GTK scrolls for it, so that the page follows the fingers. */
const PIXELS_PER_NOTCH = 60;
/** What the words beside a resting finger need, in CSS pixels: their width, and the height from the finger to above them. */
const HINT_ROOM = { width: 230, height: 90 };
/** A hand that lies on the glass comes and goes with the pen: touches so soon after it are none. */
const PALM_MS = 500;
/** MouseEvent.buttons of a pen turned round. */
const ERASER = 32;

/** Where the parts of the input put what they make. */
export interface Outlet {
  /** Whether there is a session to send to. */
  readonly active: boolean;
  /**
   * Keys are the session's: there is one, or will be again soon, and until then they are kept for it. Nor does the browser get them,
   * which would close the page for a Ctrl+W. Without a session to come the browser keeps its keys.
   */
  readonly takesKeys: boolean;
  send(message: ToEngine): void;
}

export interface InputOptions {
  stage: HTMLElement;
  /** Says that a finger rests, and what that means. */
  hold: HTMLElement;
  /** Takes texts. */
  keys: HTMLTextAreaElement;
  send(message: ToEngine): void;
  /** Where the picture lies. */
  view: Stage;
  row(options: Omit<KeyRowOptions, "row">): KeyRow;
  /** A shortcut of the viewer itself: true when it was one. */
  shortcut(event: KeyboardEvent): boolean;
  /** This key is for something else on the page. */
  elsewhere(event: KeyboardEvent): boolean;
  clipboard: KeysOptions["clipboard"];
  /** Says something to the person, for a moment. */
  notice(words: string): void;
  /** The pointer is here, in CSS pixels; undefined when it left. */
  pointerAt(x: number | undefined, y: number | undefined): void;
  /** Something touches the picture: a mouse, a pen or a finger. */
  pressed(kind: string): void;
  /** Fingers are the session's own: its applications know gestures. */
  passThrough: boolean;
}

export class Input implements Outlet {
  active = false;
  takesKeys = false;
  readonly typing: Typing;
  private readonly keys: Keys;
  private readonly pointer: Pointer;
  private readonly fingers: Fingers;
  private readonly touch: Touch;
  private readonly row: KeyRow;
  private pen = { down: false, atMs: -Infinity };

  constructor(private readonly options: InputOptions) {
    const { stage, view, shortcut, elsewhere, clipboard } = options;
    const positionAt = (x: number, y: number) => view.point(x, y);
    this.keys = new Keys({ outlet: this, shortcut, elsewhere, clipboard });
    this.typing = new Typing(options.keys, this, options.notice);
    this.pointer = new Pointer({ outlet: this, positionAt });
    this.fingers = new Fingers({ outlet: this, positionAt });
    this.row = options.row({ active: () => this.takesKeys, send: (message) => this.send(message) });
    this.touch = this.gestures();

    addEventListener("blur", () => this.releaseAll());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.releaseAll();
    });

    for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const) {
      stage.addEventListener(type, (event) => this.handlePointer(event));
    }
    // Where there is one, it comes as soon as the mouse moved; "pointermove" waits for the next frame.
    if ("onpointerrawupdate" in stage) {
      stage.addEventListener("pointerrawupdate", (event) => this.handlePointer(event as PointerEvent));
    }
    stage.addEventListener("pointerleave", () => options.pointerAt(undefined, undefined));
    stage.addEventListener("wheel", (event) => this.handleWheel(event), { passive: false });
    // The middle button would scroll, "back" would leave, a long touch would open a menu.
    for (const type of ["mousedown", "mouseup", "auxclick", "contextmenu", "dragstart", "selectstart"] as const) {
      stage.addEventListener(type, (event) => {
        if (this.active) event.preventDefault();
      });
    }
  }

  setConnection(connection: "on" | "away" | "off"): void {
    this.takesKeys = connection !== "off";
    const active = connection === "on";
    if (active === this.active && this.takesKeys) return;
    this.active = active;
    // The session lets go of what a viewer held that has gone; keys go down and up meanwhile as ever, and viewer-core knows which count.
    if (this.takesKeys) this.keys.forgetLocks();
    else this.forgetKeys();
    this.forgetPointers();
  }

  /** The keyboard belongs to somebody else now. */
  releaseAll(): void {
    if (![this.keys, this.pointer, this.fingers, this.touch, this.row].some((part) => part.busy)) return;
    this.forget();
    this.options.send({ type: "releaseAll" });
  }

  /** Where the pointer is goes out before what is done there. */
  send(message: ToEngine): void {
    if (message.type !== "motion") this.pointer.flush();
    for (const one of this.row.passing(message)) this.options.send(one);
  }

  private forget(): void {
    this.forgetKeys();
    this.forgetPointers();
  }

  private forgetKeys(): void {
    this.keys.forget();
    this.row.forget();
  }

  private forgetPointers(): void {
    this.pointer.forget();
    this.fingers.forget();
    this.touch.forget();
  }

  private gestures(): Touch {
    const { view, hold } = this.options;
    return new Touch({
      get zoomed() {
        return view.view.zoomed;
      },
      pointAt: ({ x, y }: Place) => {
        const position = view.point(x, y);
        if (position) this.pointer.motion(position, true);
      },
      pushAt: (place) => view.pushAt(place),
      button: (button, down, timeStamp) => this.pointer.button(button, down, timeStamp),
      // Fingers take hold of the page: it goes where they go, which is the other way than a wheel's.
      scrollBy: (right, down) => this.pointer.scroll((-right * NOTCH) / PIXELS_PER_NOTCH, (-down * NOTCH) / PIXELS_PER_NOTCH),
      zoomAt: (factor, place) => view.zoomAt(factor, place),
      panBy: (right, down) => view.panBy(right, down),
      settle: (place) => view.settle(place),
      hint: (hint, { x, y }) => {
        hold.dataset.hint = hint;
        if (hint === "none") return;
        hold.style.left = `${x}px`;
        hold.style.top = `${y}px`;
        hold.classList.toggle("low", y < HINT_ROOM.height);
        hold.style.setProperty("--inward", `${clamp(x, HINT_ROOM.width / 2, innerWidth - HINT_ROOM.width / 2) - x}px`);
        if (hint === "held") navigator.vibrate?.(10);
      },
    });
  }

  private handlePointer(event: PointerEvent): void {
    if (event.pointerType === "pen") this.pen = { down: event.buttons !== 0 && event.type !== "pointercancel", atMs: event.timeStamp };
    if (event.type === "pointerdown") {
      this.typing.placeAt(event.clientX, event.clientY);
      this.options.pressed(event.pointerType);
      this.typing.focus();
      this.options.stage.setPointerCapture(event.pointerId);
    }
    if (!this.active) {
      this.miss(event);
      return;
    }
    event.preventDefault();
    if (event.pointerType !== "touch") {
      if (event.type === "pointerdown" && event.pointerType === "pen") this.touch.cancelAll(event.timeStamp);
      if ((event.buttons & ERASER) !== 0) return;
      this.options.pointerAt(event.clientX, event.clientY);
      // Where only a part is seen, the rest comes in sight as the pointer goes there.
      if (event.type !== "pointerdown") this.options.view.pushAt({ x: event.clientX, y: event.clientY });
      this.pointer.handle(event);
    } else if (event.type === "pointerdown" && (this.pen.down || event.timeStamp - this.pen.atMs < PALM_MS)) {
      // The hand that holds the pen; what is not known from its beginning means nothing later.
    } else if (this.options.passThrough) {
      this.fingers.handle(event);
    } else {
      this.handleFinger(event);
    }
  }

  /** What is pressed now, or let go, while there is no session means nothing later; but it decides where the keys behind it would go. */
  private miss(event: PointerEvent): void {
    if (event.type === "pointerdown" && this.takesKeys) {
      this.options.send({ type: "button", button: 1, down: true, timeUs: absoluteUs(event.timeStamp) });
    }
    if (event.pointerType !== "touch") this.pointer.miss(event);
    else if (event.type === "pointerup" || event.type === "pointercancel") this.touch.cancel(event.pointerId, event.timeStamp);
  }

  private handleFinger({ type, pointerId, clientX, clientY, timeStamp }: PointerEvent): void {
    const place = { x: clientX, y: clientY };
    if (type === "pointerdown") this.touch.down(pointerId, place, timeStamp);
    else if (type === "pointerup") this.touch.up(pointerId, timeStamp);
    else if (type === "pointercancel") this.touch.cancel(pointerId, timeStamp);
    else this.touch.move(pointerId, place, timeStamp);
  }

  private handleWheel(event: WheelEvent): void {
    if (!this.active) return;
    event.preventDefault();
    this.pointer.wheel(event);
  }
}

/** True on phones and tablets: no mouse, so the keyboard is on the glass too. */
export function isTouchOnly(): boolean {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

/** The moment of an event on the clock the engine uses. */
export function absoluteUs(timeStamp: number): number {
  const us = Math.round((performance.timeOrigin + timeStamp) * 1000);
  const now = nowUs();
  // Events made by programs carry other clocks' moments; such a one happened now.
  return us > now || us < now - 10_000_000 ? now : us;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
