// viewer-core in WASM, seen from TypeScript: bytes in, bytes out, events, damage and pixels.
// Path 11/13 and 12/13: from transport.ts through crates/viewer-web, to present.ts.
// Calls and copies only: every decision and all parsing lie on the other side of these exports.

import type { ClipboardPolicy, ClipFormat, ClipWhy, CommandStats, TouchPhase, VideoStats } from "./messages";
import type { Picture, Tile } from "./tiles";
import type { Rect, Size, Wish } from "./view";

/** What crates/viewer-web/src/lib.rs exports; addresses and lengths are bytes of `memory`. */
interface Exports {
  memory: WebAssembly.Memory;
  viewer_buffer(bytes: number): number;
  viewer_open(nameBytes: number, width: number, height: number): void;
  viewer_instance(): void;
  viewer_lost(): void;
  viewer_keeps(nowUs: number): number;
  viewer_load_cache(bytes: number): number;
  viewer_save_cache(): number;
  viewer_saved_cache_at(): number;
  viewer_restore(width: number, height: number, x: number, y: number, partWidth: number, partHeight: number): number;
  viewer_restore_tile(x: number, y: number, bytes: number): number;
  viewer_tile_due(): number;
  viewer_tile(last: number, nowUs: number): number;
  viewer_tile_at(): number;
  viewer_tiles_forget(): void;
  viewer_bytes(bytes: number, nowUs: number): number;
  viewer_datagram(bytes: number, nowUs: number): number;
  viewer_key(code: number, keysym: number, down: number, nowUs: number): number;
  viewer_char(codePoint: number, nowUs: number): number;
  viewer_locks(locks: number, nowUs: number): number;
  viewer_layout(layoutBytes: number, variantBytes: number): void;
  viewer_motion(x: number, y: number, nowUs: number): number;
  viewer_button(button: number, down: number, nowUs: number): number;
  viewer_scroll(dx: number, dy: number, nowUs: number): number;
  viewer_touch(id: number, phase: number, x: number, y: number, nowUs: number): number;
  viewer_release_all(nowUs: number): number;
  viewer_clip_policy(give: number, take: number): void;
  viewer_clip_offer(selection: number, formats: number): void;
  viewer_clip_request(selection: number, format: number, nowUs: number): number;
  viewer_clip_provide(id: number, bytes: number, nowUs: number): void;
  viewer_clip_refuse(id: number, nowUs: number): void;
  viewer_clip_at(): number;
  viewer_clip_bytes(): number;
  viewer_clip_forget(): void;
  viewer_deadline(): number;
  viewer_quiet(nowUs: number): void;
  viewer_timeout(nowUs: number): void;
  viewer_resize(width: number, height: number): void;
  viewer_view(width: number, height: number, x: number, y: number, partWidth: number, partHeight: number): void;
  viewer_display(width: number, height: number, scalePercent: number): void;
  viewer_h264(decodes: number): void;
  viewer_alone(takes: number): void;
  viewer_video(): number;
  viewer_video_at(): number;
  viewer_video_bytes(): number;
  viewer_video_ready(stream: number, ready: number): void;
  viewer_video_wanted(serial: number): number;
  viewer_video_skipped(serial: number): void;
  viewer_video_failed(serial: number): void;
  viewer_video_room(width: number, height: number): number;
  viewer_video_picture(serial: number, form: number, width: number, height: number, nowUs: number): void;
  viewer_barrier(): number;
  viewer_close(): void;
  viewer_presented(nowUs: number): void;
  viewer_output(): number;
  viewer_datagram_output(): number;
  viewer_output_at(): number;
  viewer_event(): number;
  viewer_event_at(): number;
  viewer_text_at(): number;
  viewer_text_bytes(): number;
  viewer_image_at(): number;
  viewer_image_bytes(): number;
  viewer_screen_at(): number;
  viewer_screen_width(): number;
  viewer_screen_height(): number;
  viewer_damaged(): number;
  viewer_damage(): number;
  viewer_damage_at(): number;
  viewer_inexact(): number;
  viewer_inexact_at(): number;
  viewer_rgba(x: number, y: number, width: number, height: number): number;
  viewer_stats(): number;
  viewer_stats_at(): number;
  viewer_panic_at(): number;
  viewer_panic_bytes(): number;
}

/** An event of viewer-core; the numbers in `event` are those of `EventKind` in crates/viewer-web/src/page.rs. */
export type DecoderEvent =
  /** The picture's size, the session's screen, and which part of it the picture shows. */
  | { type: "geometry"; width: number; height: number; screen: Size; part: Rect }
  | { type: "cursor"; width: number; height: number; hotX: number; hotY: number; rgba: Uint8ClampedArray }
  | { type: "cursorShow"; shown: boolean }
  | { type: "barrier"; id: number }
  | { type: "frameEnd" }
  | { type: "hello"; name: string }
  | { type: "closed"; code: number; reason: string }
  | { type: "clipOffer"; selection: number; formats: number }
  | { type: "clipWanted"; id: number; selection: number; format: ClipFormat }
  | { type: "clipContent"; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { type: "clipEnded"; id: number; why: ClipWhy; bytes: number; limit: number };

/** What a browser's decoders are to do, in this order; the numbers in `video` are those of `VideoTask` in crates/viewer-web/src/page.rs. */
export type VideoTask =
  | { type: "begin"; stream: number; size: Size }
  | CodedPicture
  | { type: "end"; stream: number };

export interface CodedPicture {
  type: "picture";
  stream: number;
  serial: number;
  /** It leans on none before it. */
  key: boolean;
  size: Size;
  /** One access unit; a view that the next call invalidates. */
  data: Uint8Array<ArrayBuffer>;
}

/** How a decoded 4:2:0 picture lies; as `Form` of crates/viewer-web/src/samples.rs. */
export enum Form {
  /** Luma, blue, red. */
  Planar = 0,
  /** Luma, then blue and red in turn. */
  Paired = 1,
}

/** As `Selection` of crates/protocol/src/clip.rs; what is marked (PRIMARY) has no counterpart in a browser. */
export const CLIPBOARD = 0;

/** The stream broke the protocol, or a limit of ours: the connection must end. */
export class DecoderError extends Error {}

/** Of the hashes of what is still shown: what is drawn to look the same cannot be made without it. */
const HELD_KEY_BYTES = 32;

const COMMAND_NAMES = ["COPY", "SFILL", "PFILL", "BITMAP", "RAW", "KEEP", "RECALL", "VIDEO"] as const;

export interface DecoderStats {
  updates: number;
  /** Of those, how many came alone; and how many came so and too late, and are not among them. */
  updatesAlone: number;
  updatesLate: number;
  bytesIn: number;
  bytesOut: number;
  packedBytes: number;
  unpackedBytes: number;
  inexactPixels: number;
  rttUs: number;
  rttMinUs: number;
  video: VideoStats;
  /** From an input to the present of its effect, oldest first. */
  photonUs: number[];
  commands: CommandStats[];
}

export async function compileDecoder(wasmUrl: string): Promise<WebAssembly.Module> {
  const response = await fetch(wasmUrl);
  if (!response.ok) throw new Error(`${wasmUrl}: the server answered ${response.status}`);
  // compileStreaming insists on the MIME type, which a proxy may have changed.
  if (response.headers.get("content-type") === "application/wasm") return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** One instance of the WASM module, which holds one viewer: that of the current connection. */
export class Decoder {
  private readonly calls: Exports;

  private constructor(instance: WebAssembly.Instance) {
    this.calls = instance.exports as unknown as Exports;
  }

  static async load(module: WebAssembly.Module): Promise<Decoder> {
    return new Decoder(await WebAssembly.instantiate(module, {}));
  }

  /** Begins a connection: of the last one the picture stays, until the session says what differs. Width and height are the window's. */
  open(name: string, width: number, height: number): void {
    const bytes = new TextEncoder().encode(name);
    const behind = new Uint8Array(bytes.length + HELD_KEY_BYTES);
    behind.set(bytes);
    crypto.getRandomValues(behind.subarray(bytes.length));
    this.put(behind);
    this.calls.viewer_open(bytes.length, width, height);
  }

  /** This page's own number, 16 bytes: the session ends its older connection where a later one says it too. Before `open`. */
  instance(number: Uint8Array): void {
    this.put(number);
    this.calls.viewer_instance();
  }

  /** The connection is gone: until the next one's hello keys are kept for it. */
  lost(): void {
    this.calls.viewer_lost();
  }

  /** What is typed without a connection would be sent by the next. */
  keeps(nowUs: number): boolean {
    return this.calls.viewer_keeps(nowUs) !== 0;
  }

  /** Takes what an earlier page kept, before the first connection; the words why not, where it is of no use. */
  loadCache(saved: Uint8Array): string | undefined {
    return this.calls.viewer_load_cache(this.put(saved)) === 0 ? undefined : this.text();
  }

  /** What is kept, for a later page; undefined where nothing is new. */
  saveCache(): Uint8Array<ArrayBuffer> | undefined {
    const length = this.calls.viewer_save_cache();
    return length === 0 ? undefined : new Uint8Array(this.calls.memory.buffer, this.calls.viewer_saved_cache_at() >>> 0, length >>> 0).slice();
  }

  /** An earlier page showed this, which the first connection lies over; false: there is no such picture. Before `open`. */
  restore({ width, height, part }: Picture): boolean {
    return this.calls.viewer_restore(width, height, part.x, part.y, part.width, part.height) !== 0;
  }

  /** A tile of it; one that is none is left out. */
  restoreTile({ x, y, pixels }: Tile): void {
    this.calls.viewer_restore_tile(x, y, this.put(pixels));
  }

  /** When `nextTile` is to be called, in microseconds; undefined for never. */
  tileDue(): number | undefined {
    return this.calls.viewer_tile_due() || undefined;
  }

  /** The next tile that the tab's next page is to have: of those that have rested, or `last` of all. It is then taken to be kept. */
  nextTile(nowUs: number, last: boolean): Tile | undefined {
    const length = this.calls.viewer_tile(Number(last), nowUs);
    if (length === 0) return undefined;
    const [x = 0, y = 0] = this.numbers();
    return { x, y, pixels: new Uint8Array(this.calls.memory.buffer, this.calls.viewer_tile_at() >>> 0, length).slice() };
  }

  /** None of the tiles is kept any more. */
  forgetTiles(): void {
    this.calls.viewer_tiles_forget();
  }

  /** Applies the next bytes of the stream. */
  bytes(bytes: Uint8Array, nowUs: number): void {
    if (this.calls.viewer_bytes(this.put(bytes), nowUs) !== 0) throw new DecoderError(this.text());
  }

  /** Applies what came beside the stream. */
  datagram(bytes: Uint8Array, nowUs: number): void {
    if (this.calls.viewer_datagram(this.put(bytes), nowUs) !== 0) throw new DecoderError(this.text());
  }

  key(code: number, keysym: number, down: boolean, nowUs: number): void {
    this.calls.viewer_key(code, keysym, Number(down), nowUs);
  }

  char(codePoint: number, nowUs: number): void {
    this.calls.viewer_char(codePoint, nowUs);
  }

  locks(caps: boolean, num: boolean, nowUs: number): void {
    this.calls.viewer_locks(Number(caps) | (Number(num) << 1), nowUs);
  }

  /** For this connection, if there is one, and all later ones. */
  layout(layout: string, variant: string): void {
    const bytes = this.put(new TextEncoder().encode(layout + variant));
    this.calls.viewer_layout(layout.length, bytes - layout.length);
  }

  motion(x: number, y: number, nowUs: number): void {
    this.calls.viewer_motion(x, y, nowUs);
  }

  button(button: number, down: boolean, nowUs: number): void {
    this.calls.viewer_button(button, Number(down), nowUs);
  }

  scroll(dx: number, dy: number, nowUs: number): void {
    this.calls.viewer_scroll(dx, dy, nowUs);
  }

  touch(id: number, phase: TouchPhase, x: number, y: number, nowUs: number): void {
    this.calls.viewer_touch(id, phase, x, y, nowUs);
  }

  releaseAll(nowUs: number): void {
    this.calls.viewer_release_all(nowUs);
  }

  /** For this connection and later ones; before `open`. */
  clipPolicy({ toSession, fromSession }: ClipboardPolicy): void {
    this.calls.viewer_clip_policy(Number(toSession), Number(fromSession));
  }

  /** The page has something to paste in these formats. */
  clipOffer(formats: number): void {
    this.calls.viewer_clip_offer(CLIPBOARD, formats);
  }

  /** Wants what the session has copied; the number that `clipContent` or `clipEnded` comes with, undefined where there is nothing. */
  clipRequest(format: ClipFormat, nowUs: number): number | undefined {
    return this.calls.viewer_clip_request(CLIPBOARD, format, nowUs) >>> 0 || undefined;
  }

  /** Answers `clipWanted`; without bytes it cannot be had. */
  clipProvide(id: number, bytes: Uint8Array | undefined, nowUs: number): void {
    if (bytes === undefined) this.calls.viewer_clip_refuse(id, nowUs);
    else this.calls.viewer_clip_provide(id, this.put(bytes), nowUs);
  }

  /** When `timeout` is to be called, in microseconds; undefined for never. */
  deadline(): number | undefined {
    return this.calls.viewer_deadline() || undefined;
  }

  /** Nothing is heard though an answer is due: the session is asked once more. */
  quiet(nowUs: number): void {
    this.calls.viewer_quiet(nowUs);
  }

  timeout(nowUs: number): void {
    this.calls.viewer_timeout(nowUs);
  }

  resize(width: number, height: number): void {
    this.calls.viewer_resize(width, height);
  }

  /** What the page shows, and so is to be sent. */
  view({ size, part }: Wish): void {
    this.calls.viewer_view(size.width, size.height, part.x, part.y, part.width, part.height);
  }

  /** The page is a display of this size, on which things are to be drawn so large. */
  display(size: Size, scalePercent: number): void {
    this.calls.viewer_display(size.width, size.height, scalePercent);
  }

  /** This browser decodes H.264, or does not; before `open`. */
  h264(decodes: boolean): void {
    this.calls.viewer_h264(Number(decodes));
  }

  /** The connection carries datagrams, or does not; before `open`. */
  alone(takes: boolean): void {
    this.calls.viewer_alone(Number(takes));
  }

  /** The next thing for the browser's decoders, or undefined. */
  video(): VideoTask | undefined {
    const kind = this.calls.viewer_video();
    if (kind === 0) return undefined;
    const [stream = 0, b = 0, c = 0, d = 0, e = 0] = this.numbers();
    switch (kind) {
      case 1:
        return { type: "begin", stream, size: { width: c, height: d } };
      case 2: {
        const at = this.calls.viewer_video_at() >>> 0;
        const data = new Uint8Array(this.calls.memory.buffer as ArrayBuffer, at, this.calls.viewer_video_bytes());
        return { type: "picture", stream, serial: b, key: c !== 0, size: { width: d, height: e }, data };
      }
      default:
        return { type: "end", stream };
    }
  }

  /** The stream's decoder stands ready, or cannot be had, now or any more. */
  videoReady(stream: number, ready: boolean): void {
    this.calls.viewer_video_ready(stream, Number(ready));
  }

  /** Some of the picture would still be seen. */
  videoWanted(serial: number): boolean {
    return this.calls.viewer_video_wanted(serial) !== 0;
  }

  /** It was decoded, and nobody would see it. */
  videoSkipped(serial: number): void {
    this.calls.viewer_video_skipped(serial);
  }

  videoFailed(serial: number): void {
    this.calls.viewer_video_failed(serial);
  }

  /**
   * Room for a decoded 4:2:0 picture of this size, rows without gaps; undefined where none is so large. It stays good until this
   * is asked for a larger one, but the memory's buffer may be replaced: then the view has no bytes.
   */
  videoRoom({ width, height }: Size): Uint8Array<ArrayBuffer> | undefined {
    const at = this.calls.viewer_video_room(width, height) >>> 0;
    const bytes = width * height + 2 * Math.ceil(width / 2) * Math.ceil(height / 2);
    return at === 0 ? undefined : new Uint8Array(this.calls.memory.buffer as ArrayBuffer, at, bytes);
  }

  /** The picture lies in that room. */
  videoPicture(serial: number, form: Form, { width, height }: Size, nowUs: number): void {
    this.calls.viewer_video_picture(serial, form, width, height, nowUs);
  }

  barrier(): number {
    return this.calls.viewer_barrier() >>> 0;
  }

  close(): void {
    this.calls.viewer_close();
  }

  presented(nowUs: number): void {
    this.calls.viewer_presented(nowUs);
  }

  /** What is to be sent now, empty for nothing; a view that the next call invalidates. */
  output(): Uint8Array {
    return this.outputOf(this.calls.viewer_output() >>> 0);
  }

  /** What is to be sent beside it and may be lost; the same. */
  datagramOutput(): Uint8Array {
    return this.outputOf(this.calls.viewer_datagram_output() >>> 0);
  }

  private outputOf(bytes: number): Uint8Array {
    return new Uint8Array(this.calls.memory.buffer, this.calls.viewer_output_at() >>> 0, bytes);
  }

  /** The next event, or undefined. */
  event(): DecoderEvent | undefined {
    for (;;) {
      const kind = this.calls.viewer_event();
      const [a = 0, b = 0, c = 0, d = 0, x = 0, y = 0, width = 0, height = 0] = this.numbers();
      switch (kind) {
        case 0:
          return undefined;
        case 1:
          return { type: "geometry", width: a, height: b, screen: { width: c, height: d }, part: { x, y, width, height } };
        case 2: {
          const at = this.calls.viewer_image_at() >>> 0;
          const bytes = this.calls.viewer_image_bytes() >>> 0;
          const rgba = new Uint8ClampedArray(this.calls.memory.buffer, at, bytes).slice();
          return { type: "cursor", width: a, height: b, hotX: c, hotY: d, rgba };
        }
        case 3:
          return { type: "cursorShow", shown: a !== 0 };
        case 4:
          return { type: "barrier", id: a };
        case 6:
          return { type: "frameEnd" };
        case 7:
          return { type: "closed", code: a, reason: this.text() };
        case 8:
          return { type: "hello", name: this.text() };
        case 16:
          return { type: "clipOffer", selection: a, formats: b };
        case 17:
          return { type: "clipWanted", id: a, selection: b, format: c };
        case 18: {
          const bytes = new Uint8Array(this.calls.memory.buffer, this.calls.viewer_clip_at() >>> 0, this.calls.viewer_clip_bytes() >>> 0).slice();
          this.calls.viewer_clip_forget();
          return { type: "clipContent", id: a, bytes };
        }
        case 19:
          return { type: "clipEnded", id: a, why: b, bytes: c, limit: d };
        default:
          // Of no use here: an echo (it is in the statistics), a pointer that the session moved (a page cannot).
          continue;
      }
    }
  }

  get width(): number {
    return this.calls.viewer_screen_width();
  }

  get height(): number {
    return this.calls.viewer_screen_height();
  }

  /** The screen in WASM memory: 4 bytes a pixel, blue, green, red, 255; a view that the next call invalidates. */
  screen(): Uint8Array {
    const at = this.calls.viewer_screen_at() >>> 0;
    return new Uint8Array(this.calls.memory.buffer, at, this.width * this.height * 4);
  }

  /** Something is to be shown. */
  get damaged(): boolean {
    return this.calls.viewer_damaged() !== 0;
  }

  /** Rectangles changed since the last call: x, y, width, height of each, disjoint. */
  takeDamage(): Int32Array {
    const rects = this.calls.viewer_damage();
    return new Int32Array(this.calls.memory.buffer, this.calls.viewer_damage_at() >>> 0, rects * 4).slice();
  }

  /** Where the screen is not exact yet: x, y, width, height of each rectangle, disjoint. */
  inexact(): Int32Array {
    const rects = this.calls.viewer_inexact();
    return new Int32Array(this.calls.memory.buffer, this.calls.viewer_inexact_at() >>> 0, rects * 4).slice();
  }

  /** A rectangle's pixels as red, green, blue, 255; a view that the next call invalidates. */
  rgba(x: number, y: number, width: number, height: number): Uint8ClampedArray {
    const at = this.calls.viewer_rgba(x, y, width, height) >>> 0;
    return new Uint8ClampedArray(this.calls.memory.buffer, at, width * height * 4);
  }

  stats(): DecoderStats {
    const count = this.calls.viewer_stats();
    const values = new Float64Array(this.calls.memory.buffer, this.calls.viewer_stats_at() >>> 0, count);
    const [updates = 0, updatesAlone = 0, updatesLate = 0, , , bytesIn = 0, bytesOut = 0, ...more] = values;
    const [packedBytes = 0, unpackedBytes = 0, inexactPixels = 0, rttUs = 0, rttMinUs = 0, ...others] = more;
    const [coded = 0, shown = 0, late = 0, dropped = 0, lost = 0, refused = 0, delayUs = 0, ...rest] = others;
    const video = { coded, shown, late, dropped, lost, refused, delayUs };
    const commands = COMMAND_NAMES.map((name, i) => ({ name, count: rest[3 * i] ?? 0, bytes: rest[3 * i + 1] ?? 0 }));
    const photonUs = rest.slice(3 * COMMAND_NAMES.length);
    const pixels = { packedBytes, unpackedBytes, inexactPixels };
    return { updates, updatesAlone, updatesLate, bytesIn, bytesOut, ...pixels, rttUs, rttMinUs, video, commands, photonUs };
  }

  /** What a panic said that has just thrown out of one of these calls; the instance is of no use any more. */
  panicWords(): string | undefined {
    const bytes = this.calls.viewer_panic_bytes();
    return bytes === 0 ? undefined : this.decode(this.calls.viewer_panic_at() >>> 0, bytes);
  }

  /** Of the last event or task. */
  private numbers(): Float64Array {
    return new Float64Array(this.calls.memory.buffer, this.calls.viewer_event_at() >>> 0, 8);
  }

  private put(bytes: Uint8Array): number {
    const at = this.calls.viewer_buffer(bytes.length) >>> 0;
    new Uint8Array(this.calls.memory.buffer, at, bytes.length).set(bytes);
    return bytes.length;
  }

  private text(): string {
    return this.decode(this.calls.viewer_text_at() >>> 0, this.calls.viewer_text_bytes());
  }

  private decode(at: number, bytes: number): string {
    return new TextDecoder().decode(new Uint8Array(this.calls.memory.buffer, at, bytes));
  }
}
