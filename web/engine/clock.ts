// The engine's timers: viewer-core's deadline, and a watch for time in which the machine slept.
// Beside the path, under engine.ts. Knows time; never what is done then.

import { nowUs } from "./messages";

/** Interval of the clock check, and a jump that a busy machine does not cause: it slept. */
const CLOCK_MS = 2_000;
const CLOCK_JUMP_MS_MIN = 4_000;

/** The time at which viewer-core wants to be called. */
export class Deadline {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private atUs = 0;

  constructor(private readonly reached: () => void) {}

  /** An earlier deadline stays: who is called then sets the next one. */
  set(atUs: number | undefined): void {
    if (atUs === undefined || (this.timer !== undefined && atUs >= this.atUs)) return;
    clearTimeout(this.timer);
    this.atUs = atUs;
    this.timer = setTimeout(
      () => {
        this.timer = undefined;
        this.reached();
      },
      Math.max(0, (atUs - nowUs()) / 1000),
    );
  }

  clear(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** Calls `woke` when the machine or page has slept. */
export function watchSleep(woke: () => void): void {
  let lastMs = Date.now();
  setInterval(() => {
    const nowMs = Date.now();
    const slept = nowMs - lastMs > CLOCK_MS + CLOCK_JUMP_MS_MIN;
    lastMs = nowMs;
    if (slept) woke();
  }, CLOCK_MS);
}
