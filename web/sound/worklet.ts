// The player of sound on the browser's audio thread, which pulls samples when they are due.
// Path 13/13, beside the pixels: from engine/sound.ts's messages, through crates/sound-web, to the
// speakers.
// Calls and copies only: jitter buffer, decoder and resampling are on the other side of the
// exports. Its clock is the audio's own, so that packets are stamped by what was played meanwhile.

import "./capture";
import type { FromPlayer, PlayerReport, ToPlayer, ToPlayerFromEngine } from "./messages";

/** The exports of crates/sound-web/src/lib.rs; addresses are bytes of `memory`. */
interface Exports {
  memory: WebAssembly.Memory;
  player_buffer(): number;
  player_message(bytes: number, nowUs: number): number;
  player_pull(samples: number, nowUs: number): number;
  player_volume(volume: number): void;
  player_extra(us: number): void;
  player_reset(): void;
  player_clock_stopped(nowUs: number): void;
  player_silence(): number;
  player_report(nowUs: number, deviceUs: number): number;
}

/** The part of AudioWorkletGlobalScope used here; TypeScript has no types of it. */
declare const currentFrame: number;
declare const sampleRate: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(
  name: string,
  processor: new (options: { processorOptions: { module: ArrayBuffer } }) => AudioWorkletProcessor,
): void;

/** Longest message; as in crates/protocol/src/limits.rs. */
const MESSAGE_BYTES_MAX = 1200;
/** Interval of reports while there is sound, and the silence after which the page is told. */
const REPORT_SECONDS = 1;
const SILENCE_SECONDS = 10;

class ThincPlayer extends AudioWorkletProcessor {
  private readonly calls: Exports;
  private engine: MessagePort | undefined;
  private volume = 1;
  private deviceUs = 0;
  private reportAtFrame = 0;
  private silent = false;
  /** Views of what was pulled last. */
  private left = new Float32Array(0);
  private right = new Float32Array(0);

  constructor(options: { processorOptions: { module: ArrayBuffer } }) {
    super();
    // It is small, and nothing plays yet.
    const module = new WebAssembly.Module(options.processorOptions.module);
    this.calls = new WebAssembly.Instance(module, {}).exports as unknown as Exports;
    this.port.onmessage = (event: MessageEvent<ToPlayer>) => this.handle(event.data);
  }

  private get nowUs(): number {
    return (currentFrame / sampleRate) * 1e6;
  }

  private handle(message: ToPlayer): void {
    switch (message.type) {
      case "engine":
        this.engine = message.port;
        this.engine.onmessage = (event: MessageEvent<ToPlayerFromEngine>) =>
          this.receive(event.data);
        break;
      case "volume":
        this.volume = message.volume;
        this.calls.player_volume(message.volume);
        break;
      case "device":
        this.deviceUs = message.latencyUs;
        break;
      case "resumed":
        this.silent = false;
        this.calls.player_clock_stopped(this.nowUs);
        break;
    }
  }

  private receive(message: ToPlayerFromEngine): void {
    if (message === "reset") {
      this.calls.player_reset();
      this.calls.player_volume(this.volume);
      return;
    }
    if (!(message instanceof Uint8Array)) {
      this.calls.player_extra(message.extraUs);
      return;
    }
    if (message.length > MESSAGE_BYTES_MAX) return;
    const at = this.calls.player_buffer();
    new Uint8Array(this.calls.memory.buffer, at, message.length).set(message);
    this.calls.player_message(message.length, this.nowUs);
    this.silent = false;
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const [left, right] = outputs[0] ?? [];
    if (left === undefined || right === undefined) return true;
    const samples = left.length;
    const at = this.calls.player_pull(samples, this.nowUs);
    const { buffer } = this.calls.memory;
    // The same 375 times a second, unless the memory has grown: no garbage on the audio thread.
    if (
      this.left.buffer !== buffer ||
      this.left.byteOffset !== at ||
      this.left.length !== samples
    ) {
      this.left = new Float32Array(buffer, at, samples);
      this.right = new Float32Array(buffer, at + 4 * samples, samples);
    }
    left.set(this.left);
    right.set(this.right);
    if (currentFrame >= this.reportAtFrame) this.report();
    return true;
  }

  private report(): void {
    this.reportAtFrame = currentFrame + REPORT_SECONDS * sampleRate;
    const silence = this.calls.player_silence();
    if (silence > 0) {
      if (silence < SILENCE_SECONDS * sampleRate || this.silent) return;
      this.silent = true;
      this.tell({ type: "silent" });
      return;
    }
    const at = this.calls.player_report(this.nowUs, this.deviceUs);
    const [heard = 0, delayUs = 0, received = 0, lost = 0, concealed = 0, runs = 0] =
      new Float64Array(this.calls.memory.buffer, at, 6);
    const report: PlayerReport = { heard, delayUs, received, lost, concealed, runs };
    this.engine?.postMessage(report);
    this.tell({ type: "playing", report });
  }

  private tell(message: FromPlayer): void {
    this.port.postMessage(message);
  }
}

registerProcessor("thinc-player", ThincPlayer);
