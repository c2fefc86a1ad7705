// User input on the page, as the session's input events: keys, texts, pointer, pen, touches.
// Path back: from the browser, through keys.ts, keyrow.ts, typing.ts, pointer.ts, pen.ts,
// gestures.ts and touches.ts, to engine.ts.
// Knows whether there is a connection, and the order of messages; never sockets or sequence
// numbers.

import type { Stage } from "../display/stage";
import { nowUs, type ToEngine } from "../engine/messages";
import { Capture } from "./capture";
import { Gestures, type Place } from "./gestures";
import type { KeyRow, KeyRowOptions } from "./keyrow";
import { Keys, type KeysOptions } from "./keys";
import { Pen, presses } from "./pen";
import { NOTCH, Pointer } from "./pointer";
import { Touches } from "./touches";
import { Typing } from "./typing";

/**
 * CSS pixels of touch scrolling for one notch of a wheel: about what GTK scrolls for it, so that
 * the content follows the fingers.
 */
const PIXELS_PER_NOTCH = 60;
/**
 * Size of the hint beside a resting finger, in CSS pixels: its width, and its height above the
 * finger.
 */
const HINT_ROOM = { width: 230, height: 90 };
/**
 * The palm beside a pen touches and leaves with it: touches this soon after the pen are
 * ignored.
 */
const PALM_MS = 500;
/** MouseEvent.buttons of a pen's eraser. */
const ERASER = 32;

/** Where the parts of the input send their messages. */
export interface InputSink {
  /** Whether there is a connection. */
  readonly active: boolean;
  /**
   * Whether keys go to the session: there is a connection, or a reconnection is expected and they
   * are buffered for it. The browser must not receive them, for it would close the page on Ctrl+W.
   * Once the connection is closed, the browser gets its keys back.
   */
  readonly takesKeys: boolean;
  send(message: ToEngine): void;
}

export interface InputOptions {
  stage: HTMLElement;
  /** The hint that a finger rests, and what that means. */
  hold: HTMLElement;
  /** Receives texts. */
  keys: HTMLTextAreaElement;
  send(message: ToEngine): void;
  /** Where the picture is. */
  view: Stage;
  row(options: Omit<KeyRowOptions, "row">): KeyRow;
  /** Whether it was a shortcut of the viewer itself. */
  shortcut(event: KeyboardEvent): boolean;
  /** Whether this key is for another element of the page. */
  forPage(event: KeyboardEvent): boolean;
  clipboard: KeysOptions["clipboard"];
  /** Shows a message to the user for a few seconds. */
  notice(words: string): void;
  /** The pointer's position in CSS pixels; undefined when it has left. */
  pointerAt(x: number | undefined, y: number | undefined): void;
  /** A mouse, pen or finger pressed the picture. */
  pressed(kind: string): void;
  /** An application wants to capture the pointer, or no longer. */
  captureWanted(wanted: boolean): void;
  /** Touches are sent as such, for applications that handle gestures. */
  passThrough: boolean;
}

export class Input implements InputSink {
  active = false;
  takesKeys = false;
  readonly typing: Typing;
  readonly capture: Capture;
  private readonly keys: Keys;
  private readonly pointer: Pointer;
  private readonly pen: Pen;
  private readonly touches: Touches;
  private readonly gestures: Gestures;
  private readonly row: KeyRow;
  /** Of a pen: whether it touches, and when it did something last. */
  private penSeen = { down: false, atMs: -Infinity };

  constructor(private readonly options: InputOptions) {
    const { stage, view, shortcut, forPage, clipboard } = options;
    const positionAt = (x: number, y: number) => view.point(x, y);
    this.keys = new Keys({ sink: this, shortcut, forPage, clipboard });
    this.typing = new Typing(options.keys, this, options.notice);
    this.pointer = new Pointer({
      sink: this,
      // A captured pointer has no position.
      positionAt: (x, y) => (this.capture.isOn ? undefined : positionAt(x, y)),
    });
    this.capture = new Capture({
      stage,
      sink: this,
      notice: options.notice,
      pressed: () => this.pointer.busy,
      changed: options.captureWanted,
      begun: () => this.pen.withdraw(),
      released: () => this.pointer.forgetPosition(),
    });
    this.pen = new Pen({ sink: this, placeAt: (x, y) => view.placeAt(x, y) });
    this.touches = new Touches({ sink: this, positionAt });
    this.row = options.row({ active: () => this.takesKeys, send: (message) => this.send(message) });
    this.gestures = this.makeGestures();

    addEventListener("blur", () => this.releaseAll());
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.releaseAll();
    });

    for (const type of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const) {
      stage.addEventListener(type, (event) => this.handlePointer(event));
    }
    // Arrives as soon as the mouse has moved; "pointermove" waits for the next frame.
    if ("onpointerrawupdate" in stage) {
      stage.addEventListener("pointerrawupdate", (event) =>
        this.handlePointer(event as PointerEvent),
      );
    }
    stage.addEventListener("pointerleave", (event) => {
      options.pointerAt(undefined, undefined);
      if (event.pointerType === "pen") this.pen.leave();
    });
    stage.addEventListener("wheel", (event) => this.handleWheel(event), { passive: false });
    // The middle button would scroll, "back" would leave, a long press would open a menu.
    for (const type of [
      "mousedown",
      "mouseup",
      "auxclick",
      "contextmenu",
      "dragstart",
      "selectstart",
    ] as const) {
      stage.addEventListener(type, (event) => {
        if (this.active) event.preventDefault();
      });
    }
  }

  /** Whether the session takes pens; otherwise they are mice. */
  setTakesPens(takes: boolean): void {
    this.pen.isTaken = takes;
  }

  setConnection(connection: "on" | "away" | "off"): void {
    this.takesKeys = connection !== "off";
    const active = connection === "on";
    if (!active) this.capture.release();
    if (active === this.active && this.takesKeys) return;
    this.active = active;
    // The session releases what a lost viewer held; keys go down and up as usual meanwhile, and
    // viewer-core knows which count.
    if (this.takesKeys) this.keys.forgetLocks();
    else this.forgetKeys();
    this.forgetPointers();
  }

  /** Something else has the keyboard focus now. */
  releaseAll(): void {
    const { keys, pointer, pen, touches, gestures, row } = this;
    if (![keys, pointer, pen, touches, gestures, row].some((part) => part.busy)) return;
    this.forget();
    this.options.send({ type: "releaseAll" });
  }

  /** A pending pointer position is sent before what happens there, and so are modifiers. */
  send(message: ToEngine): void {
    if (message.type !== "motion") this.pointer.flush();
    if (isDone(message)) this.keys.settle();
    for (const one of this.row.transform(message)) this.options.send(one);
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
    this.pen.forget();
    this.touches.forget();
    this.gestures.forget();
  }

  private makeGestures(): Gestures {
    const { view, hold } = this.options;
    return new Gestures({
      get zoomed() {
        return view.view.zoomed;
      },
      pointAt: ({ x, y }: Place) => {
        const position = view.point(x, y);
        if (position) this.pointer.motion(position, true);
      },
      pushAt: (place) => view.pushAt(place),
      button: (button, down, timeStamp) => this.pointer.button(button, down, timeStamp),
      // The content follows the fingers, opposite to a wheel.
      scrollBy: (right, down) =>
        this.pointer.scroll(
          (-right * NOTCH) / PIXELS_PER_NOTCH,
          (-down * NOTCH) / PIXELS_PER_NOTCH,
        ),
      zoomAt: (factor, place) => view.zoomAt(factor, place),
      panBy: (right, down) => view.panBy(right, down),
      settle: (place) => view.settle(place),
      hint: (hint, { x, y }) => {
        hold.dataset.hint = hint;
        if (hint === "none") return;
        hold.style.left = `${x}px`;
        hold.style.top = `${y}px`;
        hold.classList.toggle("low", y < HINT_ROOM.height);
        hold.style.setProperty(
          "--inward",
          `${clamp(x, HINT_ROOM.width / 2, innerWidth - HINT_ROOM.width / 2) - x}px`,
        );
        if (hint === "held") navigator.vibrate?.(10);
      },
    });
  }

  private handlePointer(event: PointerEvent): void {
    if (event.pointerType === "pen")
      this.penSeen = {
        down: event.buttons !== 0 && event.type !== "pointercancel",
        atMs: event.timeStamp,
      };
    if (event.type === "pointerdown") {
      this.typing.placeAt(event.clientX, event.clientY);
      this.options.pressed(event.pointerType);
      this.typing.focus();
      // A captured pointer belongs to the stage anyway, and browsers refuse.
      if (!this.capture.isOn) this.options.stage.setPointerCapture(event.pointerId);
    }
    if (!this.active) {
      this.ignore(event);
      return;
    }
    event.preventDefault();
    if (event.pointerType !== "touch") {
      if (event.type === "pointerdown" && event.pointerType === "pen")
        this.gestures.cancelAll(event.timeStamp);
      const draws = event.pointerType === "pen" && this.pen.isTaken && !this.capture.isOn;
      if ((event.buttons & ERASER) !== 0 && !draws) return;
      if (this.capture.isOn) {
        this.handleCaptured(event);
        return;
      }
      this.options.pointerAt(event.clientX, event.clientY);
      // If only a part is visible, the view follows the pointer to its edges.
      if (event.type !== "pointerdown")
        this.options.view.pushAt({ x: event.clientX, y: event.clientY });
      if (draws) this.handlePen(event);
      else this.pointer.handle(event);
      if (event.type === "pointerdown" && event.pointerType === "mouse") this.capture.clicked();
    } else if (
      event.type === "pointerdown" &&
      (this.penSeen.down || event.timeStamp - this.penSeen.atMs < PALM_MS)
    ) {
      // The palm; a touch whose beginning was ignored is ignored until its end.
    } else if (this.options.passThrough) {
      this.touches.handle(event);
    } else {
      this.handleFinger(event);
    }
  }

  private handlePen(event: PointerEvent): void {
    // The session's pointer goes with the pen, and the mouse finds it there.
    this.pointer.forgetPosition();
    this.pen.handle(event);
  }

  private handleCaptured(event: PointerEvent): void {
    // Each movement has both events, and the other one has no distance in some browsers.
    if (event.type === "pointermove") this.capture.moved(event);
    if (event.pointerType === "pen") this.pen.ignore(event);
    if (event.type !== "pointerrawupdate") this.pointer.handle(event);
  }

  /**
   * A press or release without a connection is not sent; but it decides whether keys after it would
   * be.
   */
  private ignore(event: PointerEvent): void {
    if (event.type === "pointerdown" && this.takesKeys) {
      this.options.send({
        type: "button",
        button: 1,
        down: true,
        timeUs: absoluteUs(event.timeStamp),
      });
    }
    if (event.pointerType === "pen") this.pen.ignore(event);
    if (event.pointerType !== "touch") this.pointer.ignore(event);
    else if (event.type === "pointerup" || event.type === "pointercancel")
      this.gestures.cancel(event.pointerId, event.timeStamp);
  }

  private handleFinger({ type, pointerId, clientX, clientY, timeStamp }: PointerEvent): void {
    const place = { x: clientX, y: clientY };
    if (type === "pointerdown") this.gestures.down(pointerId, place, timeStamp);
    else if (type === "pointerup") this.gestures.up(pointerId, timeStamp);
    else if (type === "pointercancel") this.gestures.cancel(pointerId, timeStamp);
    else this.gestures.move(pointerId, place, timeStamp);
  }

  private handleWheel(event: WheelEvent): void {
    if (!this.active) return;
    event.preventDefault();
    this.pointer.wheel(event);
  }
}

/** Whether a message is of something done with the modifiers; a pen only hovers now and then. */
function isDone(message: ToEngine): boolean {
  if (message.type === "pen") return message.lifted || presses(message.samples);
  return ["button", "scroll", "touch"].includes(message.type);
}

/** True on phones and tablets: there is no mouse, and the keyboard is on the touch screen. */
export function isTouchOnly(): boolean {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

/** The time of an event on the engine's clock. */
export function absoluteUs(timeStamp: number): number {
  const us = Math.round((performance.timeOrigin + timeStamp) * 1000);
  const now = nowUs();
  // Synthetic events may have other clocks; they happened now.
  return us > now || us < now - 10_000_000 ? now : us;
}

export function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
