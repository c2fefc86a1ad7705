// The session's sound on its way through the engine: messages go to the player on the audio
// thread, and its reports to the session. microphone.ts has the other direction.
// Path 11/13, beside the pixels: from decoder.ts, through a port of its own, to sound/worklet.ts.
// Knows bytes and numbers; never when anything is played.

import type { PlayerReport, ToPlayerFromEngine } from "../sound/messages";
import type { Decoder } from "./decoder";
import { type FromEngine, nowUs, type ToEngine } from "./messages";
import { EngineMicrophone } from "./microphone";

/** A packet that arrives while the audio is suspended wakes the page, but no more often. */
const WAKE_MS = 1_000;

export class EngineSound {
  private port: MessagePort | undefined;
  private muted = true;
  private suspended = false;
  private wokenAtMs = -WAKE_MS;
  /** The page can play. */
  private plays = false;
  readonly microphone: EngineMicrophone;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly withDecoder: (call: (decoder: Decoder) => void) => void,
  ) {
    this.microphone = new EngineMicrophone(post, withDecoder);
  }

  /** The page has a player, which listens here, or nobody hears it; or it has a microphone. */
  set(message: Extract<ToEngine, { type: "sound" | "microphone" }>): void {
    if (message.type === "microphone") return this.microphone.set(message);
    this.plays = true;
    if (message.port) {
      this.port?.close();
      this.port = message.port;
      this.port.onmessage = (event: MessageEvent<PlayerReport>) => this.report(event.data);
    }
    this.muted = message.muted;
    this.suspended = message.suspended;
    this.withDecoder((decoder) => decoder.wantSound(this.muted));
  }

  private report(report: PlayerReport): void {
    this.withDecoder((decoder) => {
      const extraUs = decoder.reportSound(report, nowUs());
      const message: ToPlayerFromEngine = { extraUs };
      this.port?.postMessage(message);
    });
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    this.port?.postMessage("reset");
    if (this.plays) decoder.wantSound(this.muted);
    this.microphone.open(decoder);
  }

  /** Passes on what has arrived. */
  take(decoder: Decoder): void {
    for (let message = decoder.sound(); message !== undefined; message = decoder.sound()) {
      this.port?.postMessage(message, [message.buffer]);
      const nowMs = performance.now();
      if (!this.suspended || nowMs - this.wokenAtMs < WAKE_MS) continue;
      this.wokenAtMs = nowMs;
      this.post({ type: "soundArrived" });
    }
  }
}
