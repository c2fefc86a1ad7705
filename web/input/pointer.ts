// Mouse and wheel, and a pen where the session takes none, as the session's pointer events.
// Path back: from the browser, to input.ts.
// Knows buttons and positions; never touches (gestures.ts), keys or sockets.

import type { Position } from "../display/view";
import { absoluteUs, clamp, type InputSink } from "./input";

/** One notch of a wheel, in the protocol's units. */
export const NOTCH = 120;
/** Pixels and lines that a browser scrolls for one notch, if it does not report notches itself. */
const PIXELS_PER_NOTCH = 100;
const LINES_PER_NOTCH = 3;
/** Positions in quicker succession wait for the next one; no display shows the difference. */
const MOTION_MS_MIN = 2;

/**
 * Bits of MouseEvent.buttons → X button numbers. A pen's barrel button is the right one; its
 * eraser, bit 32, is none.
 */
const BUTTONS = [
  [1, 1],
  [4, 2],
  [2, 3],
  [8, 8],
  [16, 9],
] as const;

export interface PointerOptions {
  sink: InputSink;
  /**
   * A position on the page in pixels of the session's screen; beside the screen, the nearest at its
   * edge.
   */
  positionAt(clientX: number, clientY: number): Position | undefined;
}

export class Pointer {
  /** Pressed buttons, as MouseEvent.buttons. */
  private buttons = 0;
  /**
   * Buttons pressed without a connection, or on an earlier one: not sent until they are released.
   */
  private stale = 0;
  private lastMotionMs = -Infinity;
  private pending: Position | undefined;
  private lastSent: Position | undefined;
  private remainder = { x: 0, y: 0 };

  constructor(private readonly options: PointerOptions) {}

  get busy(): boolean {
    return this.buttons !== 0;
  }

  /** The session has released everything. */
  forget(): void {
    this.stale |= this.buttons;
    this.buttons = 0;
    this.pending = undefined;
    this.lastSent = undefined;
  }

  /** The session's pointer is somewhere else now. */
  forgetPosition(): void {
    this.pending = undefined;
    this.lastSent = undefined;
  }

  /** A mouse or pen event that is not sent. */
  ignore(event: PointerEvent): void {
    this.stale = event.buttons;
  }

  /** A mouse or pen event. */
  handle(event: PointerEvent): void {
    const position = this.options.positionAt(event.clientX, event.clientY);
    if (position) this.motion(position, event.type === "pointermove");
    // Only the first and last of several buttons have events of their own; the mask has them all.
    const pressed = event.type === "pointercancel" ? 0 : event.buttons;
    this.stale &= pressed;
    const buttons = pressed & ~this.stale;
    if (buttons === this.buttons) return;
    for (const [bit, button] of BUTTONS) {
      if (((buttons ^ this.buttons) & bit) !== 0)
        this.button(button, (buttons & bit) !== 0, event.timeStamp);
    }
    this.buttons = buttons;
  }

  wheel(event: WheelEvent): void {
    const notches = notchesOf(event);
    this.scroll(notches.x * NOTCH, notches.y * NOTCH);
  }

  button(button: number, down: boolean, timeStamp: number): void {
    this.options.sink.send({ type: "button", button, down, timeUs: absoluteUs(timeStamp) });
  }

  /** The pointer's position; `frame` if no newer one arrives before the display's next frame. */
  motion(position: Position, frame: boolean): void {
    this.pending = position;
    const now = performance.now();
    // The event of each frame sends a pending position, so the last one is never lost.
    if (frame || now - this.lastMotionMs >= MOTION_MS_MIN) {
      this.lastMotionMs = now;
      this.flush();
    }
  }

  /** Sends a pending position, before what happens there. */
  flush(): void {
    const position = this.pending;
    this.pending = undefined;
    if (position === undefined) return;
    if (
      this.lastSent !== undefined &&
      this.lastSent.x === position.x &&
      this.lastSent.y === position.y
    )
      return;
    this.lastSent = position;
    this.options.sink.send({ type: "motion", ...position });
  }

  /** In 1/120 of a notch, right and down positive; fractions are kept for the next call. */
  scroll(right: number, down: number): void {
    // At a reversal the remainder would only delay the first notch.
    if (right * this.remainder.x < 0) this.remainder.x = 0;
    if (down * this.remainder.y < 0) this.remainder.y = 0;
    const x = this.remainder.x + right;
    const y = this.remainder.y + down;
    const dx = clamp(Math.trunc(x), -32768, 32767);
    const dy = clamp(Math.trunc(y), -32768, 32767);
    this.remainder = { x: x - Math.trunc(x), y: y - Math.trunc(y) };
    if (dx !== 0 || dy !== 0) this.options.sink.send({ type: "scroll", dx, dy });
  }
}

/** Notches of a wheel, right and down positive, with fractions if the device is finer. */
export function notchesOf(
  event: Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode"> & WheelNotches,
): { x: number; y: number } {
  // The legacy property counts 120 per notch, independent of the page's zoom and the system's lines
  // per notch.
  if (
    event.wheelDeltaX !== undefined &&
    event.wheelDeltaY !== undefined &&
    (event.wheelDeltaX || event.wheelDeltaY)
  ) {
    return { x: -event.wheelDeltaX / NOTCH || 0, y: -event.wheelDeltaY / NOTCH || 0 };
  }
  const unit =
    event.deltaMode === 0 ? PIXELS_PER_NOTCH : event.deltaMode === 1 ? LINES_PER_NOTCH : 1;
  return { x: event.deltaX / unit, y: event.deltaY / unit };
}

interface WheelNotches {
  wheelDeltaX?: number;
  wheelDeltaY?: number;
}
