// The browser's decoders: coded pictures from viewer-core, and decoded back to it.
// Path 11/13: beside decoder.ts, between a stream's pictures as they come and viewer-core, which paints them.
// Knows WebCodecs, and which pictures are in whose hands; never where they are seen, nor when the session is told what.

import { Form, type CodedPicture, type Decoder, type VideoTask } from "./decoder";
import { nowUs } from "./messages";
import type { Size } from "./view";

/** Calls viewer-core, and sends what it has to say. */
type Act = <T>(call: (decoder: Decoder) => T) => T | undefined;

/** A decoder that has not given a picture of 16 × 16 pixels after this long is of no use. */
const TRY_MS_MAX = 2_000;
/** 16 Mi: samples of luma that the pictures of all streams have together, two of 3840 × 2160; a decoder keeps several of each. */
const SAMPLES_MAX = 16 * 1024 * 1024;
/** Constrained baseline. */
const PROFILE = "avc1.42E0";
/** Levels of H.264 by the macroblocks of a picture that they allow (ITU-T H.264, table A-1), as the last byte of a codec's name. */
const LEVELS = [
  [3600, "1F"], // 3.1: 1280 × 720
  [8192, "28"], // 4: 1920 × 1088
  [36864, "33"], // 5.1: 4096 × 2304
] as const;
/** Gray: one key picture, made by `ffmpeg -f lavfi -i color=gray:size=16x16 -frames:v 1 -profile:v baseline`, its remarks (SEI) taken out. */
const GRAY = "AAAAAWdCwAqmEXsBEAAAAwAQAAADACDxImEYAAAAAWjIQg8sgAAAAWWIggK+TFAAEC3A";

/** What of a browser's pictures viewer-core takes. Others are in a GPU's hands, or are colours already. */
const FORMS = new Map<VideoPixelFormat | null, Form>([
  ["I420", Form.Planar],
  ["NV12", Form.Paired],
]);

/** What a decoder for pictures of such a size is asked for; undefined where there can be none. */
function configOf({ width, height }: Size, hardwareAcceleration: HardwareAcceleration): VideoDecoderConfig | undefined {
  const macroblocks = Math.ceil(width / 16) * Math.ceil(height / 16);
  const level = LEVELS.find(([most]) => macroblocks <= most)?.[1];
  if (level === undefined) return undefined;
  return { codec: PROFILE + level, codedWidth: width, codedHeight: height, optimizeForLatency: true, hardwareAcceleration };
}

/** What this browser decodes pictures of such a size by; undefined where it cannot. */
async function supported(size: Size): Promise<HardwareAcceleration | undefined> {
  if (typeof VideoDecoder !== "function") return undefined;
  // In memory is where the pixels are wanted: what a GPU has decoded would have to be fetched from there.
  for (const by of ["prefer-software", "no-preference"] as const) {
    const config = configOf(size, by);
    try {
      if (config !== undefined && (await VideoDecoder.isConfigSupported(config)).supported === true) return by;
    } catch {
      // It does not know some word of it.
    }
  }
  return undefined;
}

/** Whether this browser decodes H.264, and gives what it decoded in a form that is of use here. */
export async function decodesH264(): Promise<boolean> {
  const by = await supported({ width: 1280, height: 720 });
  const config = by && configOf({ width: 16, height: 16 }, by);
  if (config === undefined) return false;
  let decoder: VideoDecoder | undefined;
  const format = new Promise<VideoPixelFormat | null>((resolve) => {
    const output = (frame: VideoFrame) => {
      resolve(frame.format);
      frame.close();
    };
    decoder = new VideoDecoder({ output, error: () => resolve(null) });
    decoder.configure(config);
    const data = Uint8Array.from(atob(GRAY), (character) => character.charCodeAt(0));
    decoder.decode(new EncodedVideoChunk({ type: "key", timestamp: 0, data }));
    decoder.flush().then(() => resolve(null), () => resolve(null));
    setTimeout(() => resolve(null), TRY_MS_MAX);
  });
  try {
    return FORMS.has(await format);
  } catch {
    return false;
  } finally {
    if (decoder !== undefined && decoder.state !== "closed") decoder.close();
  }
}

interface Decoded {
  stream: number;
  serial: number;
  size: Size;
  frame: VideoFrame;
}

/**
 * All streams of one connection. Nothing grows here: viewer-core hands out a few pictures of each stream, and no more until those
 * have come back, or the stream is given up.
 */
export class Videos {
  private readonly streams = new Map<number, Stream>();
  /** Ended; what is inside of them still comes out, and takes memory until then. */
  private readonly ending = new Map<Stream, Promise<void>>();
  /** Decoded, in the order they were, and not yet copied. */
  private readonly decoded: Decoded[] = [];
  /** Settles when none is copied any more. */
  private copying: Promise<void> | undefined;
  private over = false;

  /** `before`: what `close` gave for the connection before. */
  constructor(
    private readonly act: Act,
    private readonly before: Promise<void> | undefined,
  ) {}

  take(task: VideoTask): void {
    if (this.over) return;
    switch (task.type) {
      case "begin":
        void this.begin(task.stream, task.size);
        break;
      case "picture": {
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

  /** The connection is over: its numbers mean others' pictures in the next. A picture under way has the room until what this gives settles. */
  close(): Promise<void> | undefined {
    this.over = true;
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
    this.ending.set(stream, stream.end().finally(() => this.ending.delete(stream)));
  }

  private async begin(number: number, size: Size): Promise<void> {
    const stream: Stream = new Stream(size, {
      decoded: (frame, { serial, size }) => this.show({ stream: number, serial, size, frame }),
      failed: (serial) => this.failed(serial),
      room: (size) => this.samples(stream) + size.width * size.height <= SAMPLES_MAX,
    });
    this.streams.set(number, stream);
    const fits = () => this.samples(stream) + stream.samples <= SAMPLES_MAX;
    if (!fits()) await Promise.all(this.ending.values());
    if (fits()) stream.by = await supported(size);
    if (this.streams.get(number) !== stream) return;
    const ready = stream.by !== undefined;
    if (!ready) this.streams.delete(number);
    this.act((decoder) => decoder.videoReady(number, ready));
  }

  /** Of all streams but this. */
  private samples(but: Stream): number {
    let sum = 0;
    for (const stream of this.all()) if (stream !== but) sum += stream.samples;
    return sum;
  }

  private failed(serial: number): void {
    if (!this.over) this.act((decoder) => decoder.videoFailed(serial));
  }

  private show(picture: Decoded): void {
    if (this.over) return picture.frame.close();
    this.decoded.push(picture);
    this.copying ??= this.copyAll();
  }

  /** One after the other: there is room for one. */
  private async copyAll(): Promise<void> {
    await this.before;
    for (let next = this.decoded.shift(); next; next = this.decoded.shift()) {
      try {
        await this.copy(next);
      } catch {
        this.failed(next.serial); // a GPU that went away has taken it along
      } finally {
        next.frame.close();
      }
    }
    this.copying = undefined;
  }

  private async copy({ stream, serial, size, frame }: Decoded): Promise<void> {
    if (this.act((decoder) => decoder.videoWanted(serial)) !== true) {
      this.act((decoder) => decoder.videoSkipped(serial));
      return;
    }
    const form = FORMS.get(frame.format);
    const { visibleRect } = frame;
    if (form === undefined || visibleRect === null) {
      this.streams.get(stream)?.close();
      this.streams.delete(stream);
      this.act((decoder) => decoder.videoReady(stream, false));
      return;
    }
    // What is more than the picture is a decoder's own; what is less, viewer-core takes for no picture.
    const { x, y } = visibleRect;
    const [width, height] = [Math.min(size.width, visibleRect.width), Math.min(size.height, visibleRect.height)];
    const [half, luma] = [Math.ceil(width / 2), width * height];
    const chroma = half * Math.ceil(height / 2);
    const planar = [{ offset: luma, stride: half }, { offset: luma + chroma, stride: half }];
    const paired = [{ offset: luma, stride: 2 * half }];
    const layout = [{ offset: 0, stride: width }, ...(form === Form.Planar ? planar : paired)];
    for (;;) {
      const room = this.act((decoder) => decoder.videoRoom({ width, height }));
      if (room === undefined) return this.failed(serial);
      await frame.copyTo(room, { rect: { x, y, width, height }, layout });
      if (this.over) return;
      // Memory that grew meanwhile has left this view behind.
      if (room.byteLength > 0) break;
    }
    this.act((decoder) => decoder.videoPicture(serial, form, { width, height }, nowUs()));
  }
}

interface StreamOptions {
  decoded(frame: VideoFrame, picture: { serial: number; size: Size }): void;
  failed(serial: number): void;
  /** Whether pictures of this size may be decoded, beside those of the other streams. */
  room(size: Size): boolean;
}

/** One stream's decoder; after an error a new one begins with the next key picture. */
class Stream {
  /** Not known yet, or there is nothing that decodes it. */
  by: HardwareAcceleration | undefined;
  private decoder: VideoDecoder | undefined;
  /** Handed to the decoder, in the order in which they come out. */
  private inside: { serial: number; size: Size }[] = [];
  private closed = false;

  constructor(
    private size: Size,
    private readonly options: StreamOptions,
  ) {}

  /** Of a picture. */
  get samples(): number {
    return this.size.width * this.size.height;
  }

  decode({ serial, key, size, data }: CodedPicture): void {
    try {
      // Copied first: whatever is said of other pictures may call for the memory it lies in.
      const chunk = new EncodedVideoChunk({ type: key ? "key" : "delta", timestamp: serial, data });
      const resized = size.width !== this.size.width || size.height !== this.size.height;
      // A browser takes decoders away from tabs that nobody looks at.
      if (key && (resized || this.decoder?.state !== "configured")) this.restart(size);
      if (this.closed || this.decoder === undefined) throw new Error("there is no decoder, and nothing to begin one with");
      this.inside.push({ serial, size });
      this.decoder.decode(chunk);
    } catch {
      this.lose();
      this.options.failed(serial);
    }
  }

  /** No more pictures come; those inside still come out. */
  async end(): Promise<void> {
    this.closed = true;
    if (this.decoder?.state === "configured") await this.decoder.flush().catch(() => undefined);
    this.lose();
  }

  /** Nothing more comes out. */
  close(): void {
    this.closed = true;
    this.inside = [];
    this.lose();
  }

  private restart(size: Size): void {
    this.lose();
    const config = this.closed || this.by === undefined ? undefined : configOf(size, this.by);
    if (config === undefined || !this.options.room(size)) return;
    const decoder: VideoDecoder = new VideoDecoder({
      output: (frame) => (this.decoder === decoder ? this.came(frame) : frame.close()),
      error: () => this.decoder === decoder && this.lose(),
    });
    this.decoder = decoder;
    this.size = size;
    decoder.configure(config);
  }

  private came(frame: VideoFrame): void {
    const at = this.inside.findIndex(({ serial }) => serial === frame.timestamp);
    const picture = this.inside[at];
    if (picture === undefined) return frame.close();
    // Those before it were swallowed.
    const swallowed = this.inside.splice(0, at + 1).slice(0, -1);
    for (const { serial } of swallowed) this.options.failed(serial);
    this.options.decoded(frame, picture);
  }

  /** What is inside will not come out. */
  private lose(): void {
    const { decoder } = this;
    this.decoder = undefined;
    if (decoder !== undefined && decoder.state !== "closed") decoder.close();
    for (const { serial } of this.inside.splice(0)) this.options.failed(serial);
  }
}
