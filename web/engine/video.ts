// The browser's video decoders: encoded frames from viewer-core in, decoded frames back to it.
// Path 11/13: beside decoder.ts, between a stream's encoded frames and viewer-core, which paints
// them.
// Knows WebCodecs and the frames that a decoder has; never where they are visible, nor the
// protocol.

import type { Size } from "../display/view";
import {
  ChromaLayout,
  chromaSize,
  type Decoder,
  type EncodedFrame,
  type VideoCodec,
  type VideoTask,
} from "./decoder";
import { nowUs } from "./messages";

/** Calls viewer-core, and sends its output. */
type WithDecoder = <T>(call: (decoder: Decoder) => T) => T | undefined;

/**
 * A decoder that has not decoded the frames of its trial, or one of another codec than H.264, after
 * this time fails.
 */
const TRIAL_MS_MAX = 2_000;
/**
 * 16 Mi: luma samples of one frame of each stream, added up; two of 3840 × 2160. A decoder keeps
 * several frames.
 */
const SAMPLES_MAX = 16 * 1024 * 1024;
/**
 * Levels of H.264 (constrained baseline) by the macroblocks of a frame (ITU-T H.264, table A-1),
 * in codec strings.
 */
const H264_LEVELS = [
  [3600, "avc1.42E01F"], // 3.1: 1280 × 720
  [8192, "avc1.42E028"], // 4: 1920 × 1088
  [36864, "avc1.42E033"], // 5.1: 4096 × 2304
] as const;
/** The same of its High 4:4:4 Predictive profile. */
const H264_YUV444_LEVELS = [
  [3600, "avc1.F4001F"],
  [8192, "avc1.F40028"],
  [36864, "avc1.F40033"],
] as const;
/** Levels of AV1 (main profile, 8 bits) by the samples of a frame (its specification, A.3). */
const AV1_LEVELS = [
  [1_065_024, "av01.0.05M.08"], // 3.1: 1280 × 720
  [2_359_296, "av01.0.09M.08"], // 4.1: 1920 × 1080
  [8_912_896, "av01.0.13M.08"], // 5.1: 3840 × 2160
] as const;
interface Trial {
  size: Size;
  /** A gray keyframe, and frames that refer to it. */
  frames: readonly string[];
}
/**
 * Made by `ffmpeg -f lavfi -i color=gray:size=…`; H.264 with `-profile:v baseline` and without its
 * SEI, AV1 with `-c:v libaom-av1 -usage realtime -lag-in-frames 0 -still-picture 0 -f obu`;
 * 4:4:4 as crates/viewer-native/src/video_decoding/by_process.rs says, with all samples 128.
 */
const TRIALS: Record<VideoCodec, Trial> = {
  h264: {
    size: { width: 16, height: 16 },
    frames: ["AAAAAWdCwAqmEXsBEAAAAwAQAAADACDxImEYAAAAAWjIQg8sgAAAAWWIggK+TFAAEC3A"],
  },
  av1: {
    size: { width: 256, height: 256 },
    frames: [
      "EgAKCwAAAAO///m18gCAMiEQAIQAAgggiAAAwbTQwU31EIlEJ2c+pBAnAIIuW+OVIX4=",
      "EgAyFzADgID9+AaQABZZZYoEEIAAl723g/4w",
    ],
  },
  h264Yuv444: {
    size: { width: 16, height: 16 },
    frames: ["AAAAAWf0AAqRlkewEQAAAwABAAADADKPEiZIAAAAAWjLwbESEQAAAWWIhD8nwA==", "AAAAAUGaOx6g"],
  },
};
/**
 * So many failures of another codec in a connection's decoders, and the session sends H.264 again.
 */
const FAILURES_MAX = 2;

/** The pixel formats that viewer-core accepts. Others are in a GPU's memory, or are RGB. */
const CHROMA_LAYOUTS = new Map<VideoPixelFormat | null, ChromaLayout>([
  ["I420", ChromaLayout.Planar],
  ["NV12", ChromaLayout.Interleaved],
  ["I444", ChromaLayout.Full],
]);

/** The layout of a frame's samples; undefined if it is none that frames of this codec have. */
function layoutOf(codec: VideoCodec, format: VideoPixelFormat | null): ChromaLayout | undefined {
  const chroma = CHROMA_LAYOUTS.get(format);
  const isFull = chroma === ChromaLayout.Full;
  return isFull === (codec === "h264Yuv444") ? chroma : undefined;
}

/** Luma samples of a frame; one of 4:4:4 takes as much memory as two. */
function samplesOf(codec: VideoCodec, { width, height }: Size): number {
  return width * height * (codec === "h264Yuv444" ? 2 : 1);
}

/** A decoder's configuration for frames of this size; undefined if no level permits it. */
function configOf(
  decoded: VideoCodec,
  { width, height }: Size,
  hardwareAcceleration: HardwareAcceleration,
): VideoDecoderConfig | undefined {
  const macroblocks = Math.ceil(width / 16) * Math.ceil(height / 16);
  const codec = {
    h264: () => H264_LEVELS.find(([most]) => macroblocks <= most)?.[1],
    h264Yuv444: () => H264_YUV444_LEVELS.find(([most]) => macroblocks <= most)?.[1],
    av1: () => AV1_LEVELS.find(([most]) => width * height <= most)?.[1],
  }[decoded]();
  if (codec === undefined) return undefined;
  return {
    codec,
    codedWidth: width,
    codedHeight: height,
    optimizeForLatency: true,
    hardwareAcceleration,
  };
}

/** How this browser decodes frames of this size; undefined if it does not. */
async function supported(codec: VideoCodec, size: Size): Promise<HardwareAcceleration | undefined> {
  if (typeof VideoDecoder !== "function") return undefined;
  // The samples are needed in memory: frames that a GPU decoded would have to be read back.
  for (const acceleration of ["prefer-software", "no-preference"] as const) {
    const config = configOf(codec, size, acceleration);
    try {
      if (config !== undefined && (await VideoDecoder.isConfigSupported(config)).supported === true)
        return acceleration;
    } catch {
      // It does not know a part of the configuration.
    }
  }
  return undefined;
}

/** How this browser decodes it into a pixel format that viewer-core accepts; undefined if not. */
async function tried(codec: VideoCodec): Promise<HardwareAcceleration | undefined> {
  const trial = TRIALS[codec];
  const acceleration = await supported(codec, { width: 1280, height: 720 });
  const config = acceleration && configOf(codec, trial.size, acceleration);
  if (config === undefined) return undefined;
  let decoder: VideoDecoder | undefined;
  const decoded = new Promise<boolean>((resolve) => {
    let left = trial.frames.length;
    const output = (frame: VideoFrame) => {
      left -= 1;
      const fits = layoutOf(codec, frame.format) !== undefined;
      frame.close();
      if (left === 0 || !fits) resolve(fits);
    };
    decoder = new VideoDecoder({ output, error: () => resolve(false) });
    decoder.configure(config);
    trial.frames.forEach((text, timestamp) => {
      const data = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
      const type = timestamp === 0 ? "key" : "delta";
      decoder?.decode(new EncodedVideoChunk({ type, timestamp, data }));
    });
    // Of the others each frame must come without a flush, as in a stream: a decoder that keeps one
    // back would count as one that has failed.
    if (codec === "h264") {
      const ended = () => resolve(false);
      decoder.flush().then(ended, ended);
    }
    setTimeout(() => resolve(false), TRIAL_MS_MAX);
  });
  try {
    return (await decoded) ? acceleration : undefined;
  } catch {
    return undefined;
  } finally {
    if (decoder !== undefined && decoder.state !== "closed") decoder.close();
  }
}

/** A frame in a decoder. */
interface PendingFrame {
  serial: number;
  size: Size;
  codec: VideoCodec;
}

interface DecodedFrame extends PendingFrame {
  stream: number;
  frame: VideoFrame;
}

/**
 * The streams of one connection. Memory is bounded: viewer-core issues a few frames of each
 * stream, and no more until those have come back or the stream has ended.
 */
class VideoDecoders {
  private readonly streams = new Map<number, Stream>();
  /** Streams that have ended; their pending frames are still decoded, and use memory until then. */
  private readonly ending = new Map<Stream, Promise<void>>();
  /** Decoded frames in order, not copied yet. */
  private readonly decoded: DecodedFrame[] = [];
  /** Settles when the last of them is copied. */
  private copying: Promise<void> | undefined;
  private closed = false;
  /** Of codecs other than H.264. */
  private readonly failures = new Map<VideoCodec, number>();

  /** `previousCopy`: what `close` of the last connection's decoders returned. */
  constructor(
    private readonly withDecoder: WithDecoder,
    private readonly previousCopy: Promise<void> | undefined,
    /** What this browser decodes, and how. */
    private readonly codecs: ReadonlyMap<VideoCodec, HardwareAcceleration>,
    /** A codec other than H.264 is decoded no longer. */
    private readonly without: (codec: VideoCodec) => void,
  ) {}

  take(task: VideoTask): void {
    if (this.closed) return;
    switch (task.type) {
      case "begin":
        void this.begin(task.stream, task.size);
        break;
      case "frame": {
        const stream = this.streams.get(task.stream);
        if (stream) stream.decode(task);
        else this.failed(task.serial);
        break;
      }
      case "end":
        this.end(task.stream);
        break;
    }
  }

  /**
   * The connection is closed: the next one may use the same numbers for other frames. Until the
   * returned promise settles, a frame still occupies the sample buffer.
   */
  close(): Promise<void> | undefined {
    this.closed = true;
    for (const stream of this.all()) stream.close();
    this.streams.clear();
    for (const { frame } of this.decoded.splice(0)) frame.close();
    return this.copying;
  }

  private *all(): Iterable<Stream> {
    yield* this.streams.values();
    yield* this.ending.keys();
  }

  private end(number: number): void {
    const stream = this.streams.get(number);
    if (stream === undefined) return;
    this.streams.delete(number);
    this.ending.set(
      stream,
      stream.end().finally(() => this.ending.delete(stream)),
    );
  }

  private async begin(number: number, size: Size): Promise<void> {
    const stream: Stream = new Stream(size, {
      decoded: (frame, info) => this.show({ stream: number, ...info, frame }),
      failed: (serial) => this.failed(serial),
      acceleration: (codec) => this.codecs.get(codec),
      codecFailed: (codec) => this.codecFailed(codec),
      fits: (samples) => this.samples(stream) + samples <= SAMPLES_MAX,
    });
    this.streams.set(number, stream);
    const fits = () => this.samples(stream) + stream.samples <= SAMPLES_MAX;
    if (!fits()) await Promise.all(this.ending.values());
    if (fits()) stream.acceleration = await supported("h264", size);
    if (this.streams.get(number) !== stream) return;
    const ready = stream.acceleration !== undefined;
    if (!ready) this.streams.delete(number);
    this.withDecoder((decoder) => decoder.videoReady(number, ready));
  }

  /** Samples of all other streams. */
  private samples(but: Stream): number {
    let sum = 0;
    for (const stream of this.all()) if (stream !== but) sum += stream.samples;
    return sum;
  }

  private codecFailed(codec: VideoCodec, failures = 1): void {
    if (codec === "h264") return;
    const before = this.failures.get(codec) ?? 0;
    this.failures.set(codec, before + failures);
    const isEnough = before < FAILURES_MAX && before + failures >= FAILURES_MAX;
    if (isEnough && !this.closed) this.without(codec);
  }

  private failed(serial: number): void {
    if (!this.closed) this.withDecoder((decoder) => decoder.videoFailed(serial));
  }

  private show(decoded: DecodedFrame): void {
    if (this.closed) return decoded.frame.close();
    this.decoded.push(decoded);
    this.copying ??= this.copyAll();
  }

  /** One after the other: there is memory for one. */
  private async copyAll(): Promise<void> {
    await this.previousCopy;
    for (let next = this.decoded.shift(); next; next = this.decoded.shift()) {
      try {
        await this.copy(next);
      } catch {
        this.failed(next.serial); // its GPU is gone
      } finally {
        next.frame.close();
      }
    }
    this.copying = undefined;
  }

  private async copy({ stream, serial, size, codec, frame }: DecodedFrame): Promise<void> {
    if (this.withDecoder((decoder) => decoder.videoWanted(serial)) !== true) {
      this.withDecoder((decoder) => decoder.videoSkipped(serial));
      return;
    }
    const chroma = layoutOf(codec, frame.format);
    const { visibleRect } = frame;
    if (chroma === undefined || visibleRect === null) {
      if (codec !== "h264") {
        // H.264 may be decoded to another format.
        this.codecFailed(codec, FAILURES_MAX);
        return this.failed(serial);
      }
      this.streams.get(stream)?.close();
      this.streams.delete(stream);
      this.withDecoder((decoder) => decoder.videoReady(stream, false));
      return;
    }
    // Padding of the decoder is cut off; viewer-core refuses a frame that is too small.
    const { x, y } = visibleRect;
    const [width, height] = [
      Math.min(size.width, visibleRect.width),
      Math.min(size.height, visibleRect.height),
    ];
    const luma = width * height;
    const plane = chromaSize(chroma, { width, height });
    const planar = [
      { offset: luma, stride: plane.width },
      { offset: luma + plane.width * plane.height, stride: plane.width },
    ];
    const interleaved = [{ offset: luma, stride: 2 * plane.width }];
    const layout = [
      { offset: 0, stride: width },
      ...(chroma === ChromaLayout.Interleaved ? interleaved : planar),
    ];
    for (;;) {
      const buffer = this.withDecoder((decoder) => decoder.videoBuffer(chroma, { width, height }));
      if (buffer === undefined) return this.failed(serial);
      await frame.copyTo(buffer, { rect: { x, y, width, height }, layout });
      if (this.closed) return;
      // The WASM memory has grown meanwhile, and this view is detached.
      if (buffer.byteLength > 0) break;
    }
    this.withDecoder((decoder) => decoder.videoFrame(serial, chroma, { width, height }, nowUs()));
  }
}

interface StreamOptions {
  decoded(frame: VideoFrame, info: PendingFrame): void;
  failed(serial: number): void;
  /** How a codec other than H.264 is decoded; undefined if it is not. */
  acceleration(codec: VideoCodec): HardwareAcceleration | undefined;
  /** The browser's decoder of this codec has reported an error, or returns nothing. */
  codecFailed(codec: VideoCodec): void;
  /** Whether frames of so many samples fit beside those of the other streams. */
  fits(samples: number): boolean;
}

/** One stream's decoder; after an error, the next keyframe starts a new one. */
class Stream {
  /** Of H.264; undefined while unknown, and if nothing decodes it. */
  acceleration: HardwareAcceleration | undefined;
  /** Of the newest keyframe. */
  codec: VideoCodec = "h264";
  private decoder: VideoDecoder | undefined;
  /** Frames in the decoder, in the order of its output. */
  private pending: PendingFrame[] = [];
  /** Runs while the oldest pending frame of another codec than H.264 is watched. */
  private watch: ReturnType<typeof setTimeout> | undefined;
  private closed = false;

  constructor(
    private size: Size,
    private readonly options: StreamOptions,
  ) {}

  /** Of a frame. */
  get samples(): number {
    return samplesOf(this.codec, this.size);
  }

  decode({ serial, keyframe, size, data }: EncodedFrame): void {
    try {
      // Copied first: calls about other frames may reuse its memory.
      const chunk = new EncodedVideoChunk({
        type: keyframe === undefined ? "delta" : "key",
        timestamp: serial,
        data,
      });
      const other =
        size.width !== this.size.width ||
        size.height !== this.size.height ||
        keyframe !== this.codec;
      // Browsers reclaim the decoders of hidden tabs.
      if (keyframe !== undefined && (other || this.decoder?.state !== "configured"))
        this.restart(keyframe, size);
      if (this.closed || this.decoder === undefined)
        throw new Error("no decoder, and this is not a keyframe");
      this.pending.push({ serial, size, codec: this.codec });
      this.decoder.decode(chunk);
      if (this.codec !== "h264") this.watchOldest(this.decoder);
    } catch {
      // Before the frame is reported as failed: the next keyframe may be of H.264 then.
      if (keyframe !== undefined && this.decoder !== undefined) this.options.codecFailed(keyframe);
      this.discard();
      this.options.failed(serial);
    }
  }

  /** Chromium's decoders of other codecs may say nothing of data that they do not understand. */
  private watchOldest(decoder: VideoDecoder): void {
    if (this.watch !== undefined) return;
    const oldest = this.pending[0]?.serial;
    this.watch = setTimeout(() => {
      this.watch = undefined;
      if (this.decoder !== decoder || this.pending.length === 0) return;
      if (this.pending[0]?.serial !== oldest) return this.watchOldest(decoder);
      this.options.codecFailed(this.codec);
      this.discard();
    }, TRIAL_MS_MAX);
  }

  /** Ends after the pending frames are decoded. */
  async end(): Promise<void> {
    this.closed = true;
    if (this.decoder?.state === "configured") await this.decoder.flush().catch(() => undefined);
    this.discard();
  }

  /** Ends at once. */
  close(): void {
    this.closed = true;
    this.pending = [];
    this.discard();
  }

  private restart(codec: VideoCodec, size: Size): void {
    this.discard();
    this.codec = codec;
    const acceleration = codec === "h264" ? this.acceleration : this.options.acceleration(codec);
    const config =
      this.closed || acceleration === undefined ? undefined : configOf(codec, size, acceleration);
    if (config === undefined || !this.options.fits(samplesOf(codec, size))) return;
    const decoder: VideoDecoder = new VideoDecoder({
      output: (frame) => (this.decoder === decoder ? this.handleFrame(frame) : frame.close()),
      error: ({ name }) => {
        if (this.decoder !== decoder) return;
        // Browsers reclaim the decoders of hidden tabs.
        if (name !== "QuotaExceededError") this.options.codecFailed(codec);
        this.discard();
      },
    });
    this.decoder = decoder;
    this.size = size;
    decoder.configure(config);
  }

  private handleFrame(frame: VideoFrame): void {
    const at = this.pending.findIndex(({ serial }) => serial === frame.timestamp);
    const info = this.pending[at];
    if (info === undefined) return frame.close();
    // The decoder has skipped those before it.
    const skipped = this.pending.splice(0, at + 1).slice(0, -1);
    for (const { serial } of skipped) this.options.failed(serial);
    this.options.decoded(frame, info);
  }

  /** Closes the decoder; pending frames fail. */
  private discard(): void {
    const { decoder } = this;
    this.decoder = undefined;
    if (decoder !== undefined && decoder.state !== "closed") decoder.close();
    for (const { serial } of this.pending.splice(0)) this.options.failed(serial);
  }
}

/** The video decoders of one connection after the other. */
export class EngineVideo {
  private decoders: VideoDecoders | undefined;
  /** A frame of the last connection still occupies the sample buffer. */
  private copying: Promise<void> | undefined;
  private taking = false;
  private readonly codecs = new Map<VideoCodec, HardwareAcceleration>();

  constructor(private readonly withDecoder: WithDecoder) {}

  /** Tries what this browser decodes, H.264 before the first connection. */
  async prepare(): Promise<void> {
    // The session may learn of the others later.
    for (const codec of ["av1", "h264Yuv444"] as const)
      void this.prepareCodec(codec).then((found) => found && this.tell());
    await this.prepareCodec("h264");
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    this.decoders = new VideoDecoders(this.withDecoder, this.copying, this.codecs, (codec) => {
      this.codecs.delete(codec);
      this.tell();
    });
    decoder.codecs([...this.codecs.keys()]);
  }

  private async prepareCodec(codec: VideoCodec): Promise<boolean> {
    const acceleration = await tried(codec);
    if (acceleration !== undefined) this.codecs.set(codec, acceleration);
    return acceleration !== undefined;
  }

  private tell(): void {
    this.withDecoder((decoder) => decoder.codecs([...this.codecs.keys()]));
  }

  /** In their order: tasks that appear while one is handled are taken by the same loop. */
  take(decoder: Decoder): void {
    if (this.taking) return;
    this.taking = true;
    try {
      for (let task = decoder.video(); task !== undefined; task = decoder.video())
        this.decoders?.take(task);
    } finally {
      this.taking = false;
    }
  }

  /** The connection has ended. */
  lost(): void {
    if (this.decoders) this.copying = this.decoders.close();
    this.decoders = undefined;
  }
}
