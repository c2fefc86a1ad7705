// Mouse, pen and wheel, as the session's pointer events.
// Path back: from the browser, to input.ts.
// Knows buttons and positions; never fingers (touch.ts), keys or sockets.

import { absoluteUs, clamp, type Outlet } from "./input";
import type { Position } from "./view";

/** One notch of a wheel, in the protocol's units. */
export const NOTCH = 120;
/** Pixels and lines a browser scrolls for one notch, where it does not say notches itself. */
const PIXELS_PER_NOTCH = 100;
const LINES_PER_NOTCH = 3;
/** Positions closer together than this wait for the next one; a display shows none of the difference. */
const MOTION_MS_MIN = 2;

/** Bits of MouseEvent.buttons → X button numbers. A pen's barrel button is the right one; its eraser, bit 32, is none. */
const BUTTONS = [
  [1, 1],
  [4, 2],
  [2, 3],
  [8, 8],
  [16, 9],
] as const;

export interface PointerOptions {
  outlet: Outlet;
  /** A place on the page in pixels of the session's screen; at its edge for one beside it. */
  positionAt(clientX: number, clientY: number): Position | undefined;
}

export class Pointer {
  /** Buttons pressed, as MouseEvent.buttons. */
  private buttons = 0;
  /** … and those pressed for nobody, or for a connection that is no more: nothing to the session until they are released. */
  private stale = 0;
  private lastMotionMs = -Infinity;
  private pending: Position | undefined;
  private lastSent: Position | undefined;
  private remainder = { x: 0, y: 0 };

  constructor(private readonly options: PointerOptions) {}

  get busy(): boolean {
    return this.buttons !== 0;
  }

  /** Nothing is held any more, as far as the session knows. */
  forget(): void {
    this.stale |= this.buttons;
    this.buttons = 0;
    this.pending = undefined;
    this.lastSent = undefined;
  }

  /** A mouse or a pen did something that no session hears of. */
  miss(event: PointerEvent): void {
    this.stale = event.buttons;
  }

  /** A mouse or a pen did something. */
  handle(event: PointerEvent): void {
    const position = this.options.positionAt(event.clientX, event.clientY);
    if (position) this.motion(position, event.type === "pointermove");
    // Only the first and last button of several have events of their own; the mask has them all.
    const pressed = event.type === "pointercancel" ? 0 : event.buttons;
    this.stale &= pressed;
    const buttons = pressed & ~this.stale;
    if (buttons === this.buttons) return;
    for (const [bit, button] of BUTTONS) {
      if (((buttons ^ this.buttons) & bit) !== 0) this.button(button, (buttons & bit) !== 0, event.timeStamp);
    }
    this.buttons = buttons;
  }

  wheel(event: WheelEvent): void {
    const notches = notchesOf(event);
    this.scroll(notches.x * NOTCH, notches.y * NOTCH);
  }

  button(button: number, down: boolean, timeStamp: number): void {
    this.options.outlet.send({ type: "button", button, down, timeUs: absoluteUs(timeStamp) });
  }

  /** The pointer is here; `frame` where nothing newer comes before the display's next frame. */
  motion(position: Position, frame: boolean): void {
    this.pending = position;
    const now = performance.now();
    // The one that comes with each frame sends whatever still waits, so the last position is never lost.
    if (frame || now - this.lastMotionMs >= MOTION_MS_MIN) {
      this.lastMotionMs = now;
      this.flush();
    }
  }

  /** Sends a position that still waits: where the pointer is, before what it does. */
  flush(): void {
    const position = this.pending;
    this.pending = undefined;
    if (position === undefined) return;
    if (this.lastSent !== undefined && this.lastSent.x === position.x && this.lastSent.y === position.y) return;
    this.lastSent = position;
    this.options.outlet.send({ type: "motion", ...position });
  }

  /** In 1/120 of a notch, right and down positive; fractions are kept for the next time. */
  scroll(right: number, down: number): void {
    // A turn the other way begins anew: what is left of the first one would only delay it.
    if (right * this.remainder.x < 0) this.remainder.x = 0;
    if (down * this.remainder.y < 0) this.remainder.y = 0;
    const x = this.remainder.x + right;
    const y = this.remainder.y + down;
    const dx = clamp(Math.trunc(x), -32768, 32767);
    const dy = clamp(Math.trunc(y), -32768, 32767);
    this.remainder = { x: x - Math.trunc(x), y: y - Math.trunc(y) };
    if (dx !== 0 || dy !== 0) this.options.outlet.send({ type: "scroll", dx, dy });
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
