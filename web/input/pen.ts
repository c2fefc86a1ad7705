// A pen, with pressure and tilt: every sample that the tablet reports.
// Path back: from the browser, to input.ts.
// Knows one pen; never mice or fingers. For sessions that take no pens it is a mouse (pointer.ts).

import type { Position } from "../display/view";
import { PEN_FRACTION, type PenSample, PenState } from "../engine/messages";
import { clamp, type InputSink } from "./input";

/**
 * Bits of PointerEvent.buttons → those of a sample: the tip, the barrel's buttons as the mouse's
 * right and middle one, and the tip of the other end.
 */
const BUTTONS = [
  [1, PenState.Tip],
  [2, PenState.Button3],
  [4, PenState.Button2],
  [32, PenState.Tip | PenState.Eraser],
] as const;
const PRESSED = PenState.Tip | PenState.Button2 | PenState.Button3;

const PRESSURE_MAX = 65_535;
const TILT_MAX = 90;

export interface PenOptions {
  sink: InputSink;
  /** A position on the page in pixels of the session's screen, with fractions, at most its edge. */
  placeAt(clientX: number, clientY: number): Position | undefined;
}

export class Pen {
  /** Whether the session takes pens. */
  isTaken = false;
  /** Of the last sample: what is pressed, and whether the session has the pen near. */
  private state = 0;
  private lastMs = -Infinity;
  /** The samples of that time, in the same state: some browsers have coarse clocks. */
  private lastSamples: PenSample[] = [];
  /** What is pressed belongs to an earlier connection. */
  private stale = false;
  private last: PenSample | undefined;

  constructor(private readonly options: PenOptions) {}

  get busy(): boolean {
    return (this.state & PRESSED) !== 0;
  }

  /** The session has released everything. */
  forget(): void {
    this.stale = this.stale || this.busy;
    this.state = 0;
    this.last = undefined;
  }

  /** Pens do not count now: the pointer is captured. What is pressed is not sent until it is up. */
  withdraw(): void {
    const stale = this.stale || this.busy;
    this.leave();
    this.stale = stale;
  }

  /** A pen's event that is not sent. */
  ignore(event: PointerEvent): void {
    this.stale = event.buttons !== 0 && event.type !== "pointercancel";
  }

  handle(event: PointerEvent): void {
    if (event.type === "pointercancel") {
      this.leave();
      return;
    }
    const samples: PenSample[] = [];
    let lifted = false;
    for (const one of samplesOf(event)) {
      const sample = this.sampleOf(one);
      if (sample === undefined) continue;
      lifted ||= (this.state & PRESSED & ~sample.state) !== 0;
      this.state = sample.state;
      this.last = sample;
      samples.push(sample);
    }
    if (samples.length > 0) this.options.sink.send({ type: "pen", samples, lifted });
  }

  /** The pen has left the tablet, or the picture. */
  leave(): void {
    this.stale = false;
    if (this.last === undefined) return;
    const lifted = this.busy;
    const sample = { ...this.last, pressure: 0, state: this.state & PenState.Eraser };
    this.state = 0;
    this.last = undefined;
    this.options.sink.send({ type: "pen", samples: [sample], lifted });
  }

  private sampleOf(event: PointerEvent): PenSample | undefined {
    let state: number = PenState.Near;
    for (const [bit, pressed] of BUTTONS) if ((event.buttons & bit) !== 0) state |= pressed;
    if ((state & PRESSED) === 0) this.stale = false;
    // Each movement has two events, "pointerrawupdate" at once and "pointermove" with the frame.
    if (event.timeStamp < this.lastMs || this.stale) return undefined;
    const place = this.options.placeAt(event.clientX, event.clientY);
    if (place === undefined) return undefined;
    const tilt = (degrees: number) => clamp(Math.round(degrees || 0), -TILT_MAX, TILT_MAX);
    const sample = {
      x: Math.floor(place.x * PEN_FRACTION),
      y: Math.floor(place.y * PEN_FRACTION),
      pressure: Math.round(clamp(event.pressure, 0, 1) * PRESSURE_MAX),
      tiltX: tilt(event.tiltX),
      tiltY: tilt(event.tiltY),
      state,
    };
    if (event.timeStamp > this.lastMs || state !== this.state) this.lastSamples = [];
    this.lastMs = event.timeStamp;
    if (this.lastSamples.some((known) => isEqual(known, sample))) return undefined;
    this.lastSamples.push(sample);
    return sample;
  }
}

/** Whether these samples press something. */
export function presses(samples: readonly PenSample[]): boolean {
  return samples.some(({ state }) => (state & PRESSED) !== 0);
}

function isEqual(one: PenSample, two: PenSample): boolean {
  const fields = ["x", "y", "pressure", "tiltX", "tiltY", "state"] as const;
  return fields.every((field) => one[field] === two[field]);
}

/** What the browser has merged, one by one: a tablet reports more often than a display shows. */
function samplesOf(event: PointerEvent): PointerEvent[] {
  const moves = event.type === "pointermove" || event.type === "pointerrawupdate";
  const merged = moves ? (event.getCoalescedEvents?.() ?? []) : [];
  return merged.length > 0 ? merged : [event];
}
