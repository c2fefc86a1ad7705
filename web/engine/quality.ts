// How good moving pictures are, on its way through the engine: what the page chooses goes to the
// session, on every connection.
// Path back: from ui/quality.ts, to decoder.ts.
// Knows the choice; viewer-core knows whether the session takes it.

import type { Decoder } from "./decoder";
import type { PictureQuality, ToEngine } from "./messages";

type FromPage = Extract<ToEngine, { type: "pictureQuality" | "exactFrame" }>;

export class EngineQuality {
  /** As every connection begins. */
  chosen: PictureQuality = "auto";

  constructor(private readonly withDecoder: <T>(call: (decoder: Decoder) => T) => T | undefined) {}

  handle(message: FromPage): void {
    switch (message.type) {
      case "pictureQuality":
        this.chosen = message.quality;
        this.withDecoder((decoder) => decoder.chooseQuality(message.quality));
        break;
      case "exactFrame":
        this.withDecoder((decoder) => decoder.requestExactFrame());
        break;
    }
  }

  /** A connection begins, and the session has not been told that it is open. */
  prepare(decoder: Decoder): void {
    decoder.chooseQuality(this.chosen);
  }
}
