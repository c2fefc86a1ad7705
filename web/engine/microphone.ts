// What the page's microphone hears, on its way through the engine: coded by the browser's own Opus,
// in frames of the length that the session wants.
// Path back, beside the pixels: from sound/capture.ts on the audio thread, through a port of its
// own, to decoder.ts.
// Knows samples and frames; never whether the user agrees, which ui/microphone.ts knows.

import type { Decoder } from "./decoder";
import { type FromEngine, type MicrophoneFormat, nowUs, type ToEngine } from "./messages";
import { messageOf } from "./words";

const RATE = 48_000;
/** As viewer-core's `MICROPHONE_BITRATE`. */
const BITRATE = 32_000;
/** Frames that wait to be coded; past it the browser is too slow, and the newest are left out. */
const WAITING_MAX = 5;

export class EngineMicrophone {
  /** The page can record. */
  private announced = false;
  private wanted: MicrophoneFormat | undefined;
  private port: MessagePort | undefined;
  private encoder: AudioEncoder | undefined;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly withDecoder: (call: (decoder: Decoder) => void) => void,
  ) {}

  /** The page can record; or it has opened the microphone, or does not give it. */
  set(message: Extract<ToEngine, { type: "microphone" }>): void {
    this.announced = true;
    this.stop();
    const { given, port } = message;
    if (given === undefined) return;
    if (given && port !== undefined && this.wanted !== undefined) {
      try {
        this.start(port, this.wanted);
      } catch (error) {
        this.fail(error);
        return;
      }
    } else port?.close();
    this.withDecoder((decoder) => decoder.giveMicrophone(given));
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    if (this.announced) decoder.announceMicrophone();
  }

  /** A program of the session records, or none does. */
  want(wanted: MicrophoneFormat | undefined): void {
    if (wanted === undefined && this.wanted === undefined) return;
    this.stop();
    this.wanted = wanted;
    this.post({ type: "microphone", wanted });
  }

  private start(port: MessagePort, wanted: MicrophoneFormat): void {
    const encoder = new AudioEncoder({
      output: (chunk) => {
        const frame = new Uint8Array(chunk.byteLength);
        chunk.copyTo(frame);
        this.withDecoder((decoder) => decoder.microphoneFrame(frame, chunk.timestamp, nowUs()));
      },
      error: (error) => this.fail(error),
    });
    encoder.configure({
      codec: "opus",
      sampleRate: RATE,
      numberOfChannels: wanted.channels,
      bitrate: BITRATE,
      opus: { frameDuration: (wanted.samples * 1_000_000) / RATE },
    });
    let samples = 0;
    port.onmessage = ({ data }: MessageEvent<Float32Array<ArrayBuffer>>) => {
      const before = samples;
      // Time goes on while frames are left out.
      samples += data.length / wanted.channels;
      if (encoder.state !== "configured" || encoder.encodeQueueSize > WAITING_MAX) return;
      const audio = new AudioData({
        format: "f32-planar",
        sampleRate: RATE,
        numberOfFrames: data.length / wanted.channels,
        numberOfChannels: wanted.channels,
        timestamp: Math.round((before * 1_000_000) / RATE),
        data,
      });
      encoder.encode(audio);
      audio.close();
    };
    this.port = port;
    this.encoder = encoder;
  }

  private stop(): void {
    this.port?.close();
    this.port = undefined;
    if (this.encoder?.state === "configured") this.encoder.close();
    this.encoder = undefined;
  }

  private fail(error: unknown): void {
    this.stop();
    this.wanted = undefined;
    this.withDecoder((decoder) => decoder.giveMicrophone(false));
    this.post({ type: "microphone", wanted: undefined, failed: messageOf(error) });
  }
}
