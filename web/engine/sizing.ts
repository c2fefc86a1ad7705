// The session's size follows the tab's: one request is in flight, and only the newest size waits
// behind it.
// Path back: under engine.ts, to decoder.ts.
// Knows sizes and time; never what is shown.

import type { DisplaySize } from "./messages";

/**
 * A session that has not taken a new size after this time will not, because another viewer controls
 * it: the next request may follow.
 */
const RESIZE_ANSWER_MS_MAX = 1_000;

export class Sizing {
  /** The size that the session's screen is to have; 0 × 0 keeps its size. */
  wanted: DisplaySize = { width: 0, height: 0, scale: 0 };
  /** Whether the session has been asked for it. */
  private state: "asked" | "unasked" | "settled" = "settled";
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ask: (wanted: DisplaySize) => void) {}

  /** The tab has this size now. */
  want(wanted: DisplaySize): void {
    this.wanted = wanted;
    if (wanted.width === 0) return;
    if (this.state === "settled") this.request();
    else this.state = "unasked";
  }

  private request(): void {
    this.state = "asked";
    this.ask(this.wanted);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.answered(), RESIZE_ANSWER_MS_MAX);
  }

  /** The session has another size. */
  answered(): void {
    clearTimeout(this.timer);
    if (this.state === "unasked") this.request();
    else this.state = "settled";
  }

  /** The connection has ended; the next one begins with the size. */
  lost(): void {
    clearTimeout(this.timer);
    this.state = "settled";
  }
}
