// The captured pointer, by the browser's Pointer Lock: how far the mouse moves, not where it is.
// Path back: beside pointer.ts, from the browser, to input.ts.
// Knows whether an application wants it, and distances; never buttons or positions.

import { clamp, type InputSink } from "./input";

const OFFER =
  "An application wants to capture the pointer: click to let it. Escape releases it again.";
const CAPTURED = "The pointer is captured. Escape releases it.";
const REFUSED = "This browser does not let the application capture the pointer.";
const UNWANTED = "No application wants to capture the pointer.";

export interface CaptureOptions {
  stage: HTMLElement;
  sink: InputSink;
  notice(words: string): void;
  /** Whether a mouse button is pressed. */
  pressed(): boolean;
  /** An application wants the pointer, or no longer. */
  changed(wanted: boolean): void;
  /** The pointer is the application's now. */
  begun(): void;
  /** The pointer is the page's again. */
  released(): void;
}

export class Capture {
  private wanted = false;
  /** The application gave it back, and not the user: it gets it again. */
  private lent = false;
  /** The pointer was captured when the browser last said so. */
  private captured = false;
  /** Display pixels per pixel of the session. */
  private scale = 1;
  /** Fractions of the session's pixels. */
  private remainder = { x: 0, y: 0 };

  constructor(private readonly options: CaptureOptions) {
    document.addEventListener("pointerlockchange", () => this.handleChange());
  }

  get isOn(): boolean {
    return document.pointerLockElement === this.options.stage;
  }

  setScale(scale: number): void {
    this.scale = scale;
  }

  /**
   * Whether an application wants the pointer. In the middle of a drag it gets it at once: that is
   * why it wants it. So does a game whose menu was closed.
   */
  setWanted(wanted: boolean): void {
    if (wanted === this.wanted) return;
    this.wanted = wanted;
    this.options.changed(wanted);
    if (!wanted) {
      this.lent = this.isOn;
      if (this.isOn) document.exitPointerLock();
    } else if (this.lent || this.options.pressed()) {
      void this.request(OFFER);
    } else {
      this.options.notice(OFFER);
    }
  }

  /** The user clicked the picture. */
  clicked(): void {
    if (this.wanted && !this.isOn) void this.request(REFUSED);
  }

  /** The user asks for the pointer to be captured, or released. */
  toggle(): void {
    if (this.isOn) document.exitPointerLock();
    else if (this.wanted) void this.request(REFUSED);
    else this.options.notice(UNWANTED);
  }

  /** The connection is lost: nobody has the pointer. */
  release(): void {
    this.lent = false;
    if (this.isOn) document.exitPointerLock();
  }

  /** The captured mouse moved. */
  moved(event: Pick<MouseEvent, "movementX" | "movementY">): void {
    const perPixel = devicePixelRatio / this.scale;
    const axis = (before: number, movement: number): [number, number] => {
      const sum = before + movement * perPixel;
      const whole = clamp(Math.trunc(sum), -32768, 32767);
      return [whole, sum - Math.trunc(sum)];
    };
    const [dx, restX] = axis(this.remainder.x, event.movementX);
    const [dy, restY] = axis(this.remainder.y, event.movementY);
    this.remainder = { x: restX, y: restY };
    if (dx !== 0 || dy !== 0) this.options.sink.send({ type: "motionBy", dx, dy });
  }

  /** Where the browser refuses, positions are sent as before. */
  private async request(otherwise: string): Promise<void> {
    try {
      // Older browsers return nothing, and tell of a failure by an event only.
      await this.options.stage.requestPointerLock();
    } catch {
      this.options.notice(otherwise);
    }
  }

  private handleChange(): void {
    if (this.isOn === this.captured) return;
    this.captured = this.isOn;
    this.remainder = { x: 0, y: 0 };
    if (this.isOn) {
      this.options.begun();
      // The wish may be over by the time that the browser grants it.
      if (this.wanted) this.options.notice(CAPTURED);
      else document.exitPointerLock();
    } else {
      // While the application still wants it, the user or the browser has ended it.
      if (this.wanted) this.lent = false;
      this.options.released();
    }
  }
}
