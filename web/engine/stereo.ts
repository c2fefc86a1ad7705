// How stereo programs are shown, on its way through the engine: what the page chooses goes to the
// session, on every connection; that there is such a program, to the page.
// Path back: from ui/stereo.ts, to decoder.ts.
// Knows the choice; viewer-core knows whether the session takes it, and composes both pictures.

import type { Decoder } from "./decoder";
import type { FromEngine, StereoMode } from "./messages";

export class EngineStereo {
  /** As every connection begins. */
  chosen: StereoMode = "off";
  /** The page knows of a program in this connection. */
  private seen = false;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly withDecoder: <T>(call: (decoder: Decoder) => T) => T | undefined,
  ) {}

  choose(mode: StereoMode): void {
    this.chosen = mode;
    this.withDecoder((decoder) => decoder.chooseStereo(mode));
  }

  /** A connection begins, and the session has not been told that it is open. */
  prepare(decoder: Decoder): void {
    this.seen = false;
    decoder.chooseStereo(this.chosen);
  }

  /** The decoder may have received something. */
  take(decoder: Decoder): void {
    // The session sends nothing of the right eye to who does not want it.
    if (this.seen || this.chosen === "off" || !decoder.hasSeenStereo) return;
    this.seen = true;
    this.post({ type: "stereoSeen" });
  }
}
