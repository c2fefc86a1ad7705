// What the microphone hears, on the browser's audio thread, in frames for engine/microphone.ts.
// Path back, beside the pixels: bundled with worklet.ts, which has the player.
// Copies only.

/** The part of AudioWorkletGlobalScope used here; TypeScript has no types of it. */
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(
  name: string,
  processor: new (options: { processorOptions: CaptureOptions }) => AudioWorkletProcessor,
): void;

export interface CaptureOptions {
  /** Of a frame. */
  samples: number;
  channels: number;
}

class ThincCapture extends AudioWorkletProcessor {
  private readonly options: CaptureOptions;
  private frame: Float32Array<ArrayBuffer>;
  private filled = 0;
  /** The engine listens here. */
  private engine: MessagePort | undefined;

  constructor(options: { processorOptions: CaptureOptions }) {
    super();
    this.options = options.processorOptions;
    this.frame = this.empty();
    this.port.onmessage = (event: MessageEvent<MessagePort>) => (this.engine = event.data);
  }

  private empty(): Float32Array<ArrayBuffer> {
    return new Float32Array(this.options.samples * this.options.channels);
  }

  process(inputs: Float32Array[][]): boolean {
    const input = inputs[0] ?? [];
    const first = input[0];
    // Nothing is connected yet, or the microphone is gone.
    if (first === undefined) return true;
    const { samples, channels } = this.options;
    for (let at = 0; at < first.length; at += 1) {
      for (let channel = 0; channel < channels; channel += 1)
        this.frame[channel * samples + this.filled] = (input[channel] ?? first)[at] ?? 0;
      this.filled += 1;
      if (this.filled < samples) continue;
      this.engine?.postMessage(this.frame, [this.frame.buffer]);
      this.frame = this.empty();
      this.filled = 0;
    }
    return true;
  }
}

registerProcessor("thinc-capture", ThincCapture);
