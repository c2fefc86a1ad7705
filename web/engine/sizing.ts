// What the page asks of the session's screen: its size, which follows the tab's, and the view. One
// request for a size is in flight, and only the newest size waits behind it.
// Path back: under engine.ts, to decoder.ts.
// Knows sizes and time; never pixels.

import type { ViewRequest } from "../display/view";
import type { Picture } from "../store/tiles";
import type { Decoder } from "./decoder";
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
  /** What the page shows, if it has said; sent on every connection. */
  private view: ViewRequest | undefined;

  constructor(private readonly withDecoder: (call: (decoder: Decoder) => void) => void) {}

  /** A connection begins, whose hello has the size. */
  open(decoder: Decoder): void {
    const { wanted } = this;
    if (wanted.scale !== 0) decoder.display(wanted, wanted.scale);
    if (this.view) decoder.view(this.view);
  }

  /** The page shows this. */
  show(view: ViewRequest): void {
    this.view = view;
    this.withDecoder((decoder) => decoder.view(view));
  }

  /** The page shows this picture of an earlier one: the same view is wanted, unless it has said. */
  restored({ width, height, screen, part }: Picture): void {
    const whole = part.width === screen.width && part.height === screen.height;
    if (!whole || width !== part.width || height !== part.height)
      this.view ??= { size: { width, height }, part };
  }

  /** The tab has this size now. */
  want(wanted: DisplaySize): void {
    this.wanted = wanted;
    if (wanted.width === 0) return;
    if (this.state === "settled") this.request();
    else this.state = "unasked";
  }

  private request(): void {
    this.state = "asked";
    const { wanted } = this;
    this.withDecoder((decoder) => {
      decoder.resize(wanted.width, wanted.height);
      if (wanted.scale !== 0) decoder.display(wanted, wanted.scale);
    });
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
