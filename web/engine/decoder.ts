// viewer-core in WASM, seen from TypeScript: bytes in, bytes out, damage and pixels. Events, files
// and attempts to connect have files of their own.
// Path 11/13 and 12/13: from connection.ts through crates/viewer-web, to present.ts.
// Calls and copies only: every decision and all parsing are on the other side of these exports.

import type { Size, ViewRequest } from "../display/view";
import type { PlayerReport } from "../sound/messages";
import type { Picture, Tile } from "../store/tiles";
import type { AttemptEnd } from "../transport/connection";
import { AttemptCalls, type AttemptExports } from "./attempts";
import { CLIPBOARD, EventCalls, type EventExports } from "./events";
import { FileCalls, type FileExports } from "./filecalls";
import { DecoderMemory, type MemoryExports } from "./memory";
import {
  type ClipboardPolicy,
  type ClipFormat,
  type CommandStats,
  type Offers,
  type Opening,
  type PenSample,
  PICTURE_QUALITIES,
  type PictureQuality,
  type ShareAction,
  STEREO_MODES,
  type StereoMode,
  type TouchPhase,
  type VideoStats,
} from "./messages";

/** The exports of crates/viewer-web/src/lib.rs. */
interface Exports extends MemoryExports, EventExports, FileExports, AttemptExports {
  viewer_open(nameBytes: number, width: number, height: number): void;
  viewer_instance(): void;
  viewer_lost(): void;
  viewer_can_buffer_input(nowUs: number): number;
  viewer_load_cache(bytes: number): number;
  viewer_save_cache(): number;
  viewer_saved_cache_at(): number;
  viewer_restore(
    width: number,
    height: number,
    x: number,
    y: number,
    partWidth: number,
    partHeight: number,
  ): number;
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
  viewer_share(
    request: number,
    action: number,
    guest: number,
    rights: number,
    lifeS: number,
    uses: number,
    passwordBytes: number,
  ): number;
  viewer_motion(x: number, y: number, nowUs: number): number;
  viewer_motion_by(dx: number, dy: number, nowUs: number): number;
  viewer_button(button: number, down: number, nowUs: number): number;
  viewer_scroll(dx: number, dy: number, nowUs: number): number;
  viewer_touch(id: number, phase: number, x: number, y: number, nowUs: number): number;
  viewer_pen(
    x: number,
    y: number,
    pressure: number,
    tiltX: number,
    tiltY: number,
    state: number,
    nowUs: number,
  ): number;
  viewer_takes_pens(): number;
  viewer_release_all(nowUs: number): number;
  viewer_clip_policy(give: number, take: number): void;
  viewer_clip_offer(selection: number, formats: number): void;
  viewer_clip_request(selection: number, format: number, nowUs: number): number;
  viewer_clip_provide(id: number, bytes: number, nowUs: number): void;
  viewer_clip_refuse(id: number, nowUs: number): void;
  viewer_deadline(): number;
  viewer_opened(replaces: number, nowUs: number): void;
  viewer_liveness(): number;
  viewer_wake(nowUs: number): void;
  viewer_idle_probes(on: number): void;
  viewer_watch_path(): void;
  viewer_path_change(nowUs: number): number;
  viewer_transport_attempt(state: number, nowUs: number): void;
  viewer_may_be_replaced(): number;
  viewer_holds_input(): number;
  viewer_timeout(nowUs: number): void;
  viewer_resize(width: number, height: number): void;
  viewer_view(
    width: number,
    height: number,
    x: number,
    y: number,
    partWidth: number,
    partHeight: number,
  ): void;
  viewer_display(width: number, height: number, scalePercent: number): void;
  viewer_clip_wanted(bits: number): void;
  viewer_choose_quality(byte: number): void;
  viewer_exact_frame(): number;
  viewer_takes_quality(): number;
  viewer_choose_stereo(mode: number): void;
  viewer_takes_stereo(): number;
  viewer_has_seen_stereo(): number;
  viewer_opening(opening: number): void;
  viewer_codecs(codecs: number): void;
  viewer_datagrams(supported: number): void;
  viewer_video(): number;
  viewer_video_at(): number;
  viewer_video_bytes(): number;
  viewer_video_ready(stream: number, ready: number): void;
  viewer_video_wanted(serial: number): number;
  viewer_video_skipped(serial: number): void;
  viewer_video_failed(serial: number): void;
  viewer_video_buffer(chroma: number, width: number, height: number): number;
  viewer_video_frame(
    serial: number,
    chroma: number,
    width: number,
    height: number,
    nowUs: number,
  ): void;
  viewer_want_sound(muted: number): void;
  viewer_has_sound(): number;
  viewer_sound(): number;
  viewer_sound_at(): number;
  viewer_report_sound(
    heard: number,
    delayUs: number,
    received: number,
    lost: number,
    concealed: number,
    runs: number,
    nowUs: number,
  ): number;
  viewer_announce_microphone(): void;
  viewer_may_give_microphone(): number;
  viewer_give_microphone(given: number): void;
  viewer_microphone_frame(bytes: number, timeUs: number, nowUs: number): void;
  viewer_barrier(): number;
  viewer_close(): void;
  viewer_presented(nowUs: number): void;
  viewer_output(): number;
  viewer_datagram_output(): number;
  viewer_output_at(): number;
  viewer_screen_at(): number;
  viewer_screen_width(): number;
  viewer_screen_height(): number;
  viewer_damaged(): number;
  viewer_damage(): number;
  viewer_damage_at(): number;
  viewer_lossy(): number;
  viewer_lossy_at(): number;
  viewer_rgba(x: number, y: number, width: number, height: number): number;
  viewer_stats(): number;
  viewer_stats_at(): number;
  viewer_panic_at(): number;
  viewer_panic_bytes(): number;
}

/**
 * Tasks for the browser's video decoders, in order; the numbers in `video` are those of `VideoTask`
 * in crates/viewer-web/src/page.rs.
 */
export type VideoTask =
  | { type: "begin"; stream: number; size: Size }
  | EncodedFrame
  | { type: "end"; stream: number };

export type VideoCodec = "h264" | "av1" | "h264Yuv444";
/** By their numbers in the protocol. */
const VIDEO_CODECS: readonly (VideoCodec | undefined)[] = [undefined, "h264", "av1", "h264Yuv444"];

export interface EncodedFrame {
  type: "frame";
  stream: number;
  serial: number;
  /** For a frame that refers to no other: the codec of it, and of those after it. */
  keyframe: VideoCodec | undefined;
  size: Size;
  /** One access unit; a view that the next call invalidates. */
  data: Uint8Array<ArrayBuffer>;
}

/**
 * Memory layout of a decoded frame; as `ChromaLayout` of crates/viewer-web/src/samples.rs.
 */
export enum ChromaLayout {
  /** Planes Y, Cb, Cr (I420). */
  Planar = 0,
  /** Plane Y, then Cb and Cr interleaved (NV12). */
  Interleaved = 1,
  /** Planes Y, Cb, Cr with chroma of full resolution (I444). */
  Full = 2,
}

/** Width and height of a plane of chroma. */
export function chromaSize(chroma: ChromaLayout, { width, height }: Size): Size {
  return chroma === ChromaLayout.Full
    ? { width, height }
    : { width: Math.ceil(width / 2), height: Math.ceil(height / 2) };
}

/** Whether the session answers, and what is done if not; as `Liveness` of crates/viewer-core. */
export enum Liveness {
  Responsive = 0,
  Unresponsive = 1,
  /** Other connections are tried beside this one. */
  Replaceable = 2,
  Dead = 3,
}

/** The session's bytes violated the protocol or one of our limits: the connection must end. */
export class DecoderError extends Error {}

/** Key of the hashes of retained tiles: without it nobody can draw content with the same hash. */
const RETAINED_KEY_BYTES = 32;

const COMMAND_NAMES = [
  "COPY",
  "SFILL",
  "PFILL",
  "BITMAP",
  "RAW",
  "KEEP",
  "RECALL",
  "VIDEO",
] as const;

export interface DecoderStats {
  updates: number;
  /**
   * How many of them arrived as datagrams. `lateUpdates` arrived as datagrams, already replaced,
   * and are not counted in `updates`.
   */
  datagramUpdates: number;
  lateUpdates: number;
  bytesIn: number;
  bytesOut: number;
  packedBytes: number;
  unpackedBytes: number;
  lossyPixels: number;
  rttUs: number;
  rttMinUs: number;
  video: VideoStats;
  /** Time from an input to the presentation of its echo, oldest first. */
  inputToPresentUs: number[];
  commands: CommandStats[];
}

export async function compileDecoder(wasmUrl: string): Promise<WebAssembly.Module> {
  const response = await fetch(wasmUrl);
  if (!response.ok) throw new Error(`${wasmUrl}: the server answered ${response.status}`);
  // compileStreaming requires this MIME type, which a proxy may have changed.
  if (response.headers.get("content-type") === "application/wasm")
    return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}

/** One instance of the WASM module; it holds the viewer of the current connection. */
export class Decoder {
  private readonly calls: Exports;
  private readonly memory: DecoderMemory;
  readonly events: EventCalls;
  readonly files: FileCalls;
  readonly attempts: AttemptCalls;

  private constructor(instance: WebAssembly.Instance) {
    this.calls = instance.exports as unknown as Exports;
    this.memory = new DecoderMemory(this.calls);
    this.events = new EventCalls(this.calls, this.memory);
    this.attempts = new AttemptCalls(this.calls);
    this.files = new FileCalls(this.calls, this.memory);
  }

  static async load(module: WebAssembly.Module): Promise<Decoder> {
    return new Decoder(await WebAssembly.instantiate(module, {}));
  }

  /**
   * Begins a connection: the last one's picture stays until the session sends the differences.
   * Width and height are the window's.
   */
  open(name: string, width: number, height: number): void {
    const bytes = new TextEncoder().encode(name);
    const nameAndKey = new Uint8Array(bytes.length + RETAINED_KEY_BYTES);
    nameAndKey.set(bytes);
    crypto.getRandomValues(nameAndKey.subarray(bytes.length));
    this.memory.write(nameAndKey);
    this.calls.viewer_open(bytes.length, width, height);
  }

  /**
   * This page's identifier, 16 bytes: the session ends its older connection when a newer one sends
   * it too. Before `open`.
   */
  instance(number: Uint8Array): void {
    this.memory.write(number);
    this.calls.viewer_instance();
  }

  /** The connection is lost: keys are buffered until the next one's hello. */
  lost(): void {
    this.calls.viewer_lost();
  }

  /** Whether the next connection would send what is typed without one. */
  canBufferInput(nowUs: number): boolean {
    return this.calls.viewer_can_buffer_input(nowUs) !== 0;
  }

  /**
   * Loads the cache that an earlier page saved, before the first connection; the reason if it is
   * unusable.
   */
  loadCache(saved: Uint8Array): string | undefined {
    return this.calls.viewer_load_cache(this.memory.write(saved)) === 0
      ? undefined
      : this.memory.text();
  }

  /** The cache for a later page; undefined if nothing has changed. */
  saveCache(): Uint8Array<ArrayBuffer> | undefined {
    const length = this.calls.viewer_save_cache();
    return length === 0 ? undefined : this.memory.bytes(this.calls.viewer_saved_cache_at(), length);
  }

  /**
   * Restores the picture of an earlier page; the first connection updates it. False if it is
   * invalid. Before `open`.
   */
  restore({ width, height, part }: Picture): boolean {
    return this.calls.viewer_restore(width, height, part.x, part.y, part.width, part.height) !== 0;
  }

  /** Restores one of its tiles; an invalid one is ignored. */
  restoreTile({ x, y, pixels }: Tile): void {
    this.calls.viewer_restore_tile(x, y, this.memory.write(pixels));
  }

  /** When `nextTile` is to be called, in microseconds; undefined for never. */
  tileDue(): number | undefined {
    return this.calls.viewer_tile_due() || undefined;
  }

  /**
   * The next tile to save for the tab's next page: one that no longer changes or, with `last`, any.
   * It then counts as saved.
   */
  nextTile(nowUs: number, last: boolean): Tile | undefined {
    const length = this.calls.viewer_tile(Number(last), nowUs);
    if (length === 0) return undefined;
    const [x = 0, y = 0] = this.memory.fields();
    return { x, y, pixels: this.memory.bytes(this.calls.viewer_tile_at(), length) };
  }

  /** No tile is saved any more. */
  forgetTiles(): void {
    this.calls.viewer_tiles_forget();
  }

  /** Handles the next bytes of the stream. */
  bytes(bytes: Uint8Array, nowUs: number): void {
    if (this.calls.viewer_bytes(this.memory.write(bytes), nowUs) !== 0)
      throw new DecoderError(this.memory.text());
  }

  /** Handles a datagram. */
  datagram(bytes: Uint8Array, nowUs: number): void {
    if (this.calls.viewer_datagram(this.memory.write(bytes), nowUs) !== 0)
      throw new DecoderError(this.memory.text());
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

  /** For this connection, if there is one, and later ones. */
  layout(layout: string, variant: string): void {
    const bytes = this.memory.write(new TextEncoder().encode(layout + variant));
    this.calls.viewer_layout(layout.length, bytes - layout.length);
  }

  motion(x: number, y: number, nowUs: number): void {
    this.calls.viewer_motion(x, y, nowUs);
  }

  motionBy(dx: number, dy: number, nowUs: number): void {
    this.calls.viewer_motion_by(dx, dy, nowUs);
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

  pen({ x, y, pressure, tiltX, tiltY, state }: PenSample, nowUs: number): void {
    this.calls.viewer_pen(x, y, pressure, tiltX, tiltY, state, nowUs);
  }

  releaseAll(nowUs: number): void {
    this.calls.viewer_release_all(nowUs);
  }

  /** For this connection and later ones; before `open`. */
  clipPolicy({ toSession, fromSession }: ClipboardPolicy): void {
    this.calls.viewer_clip_policy(Number(toSession), Number(fromSession));
  }

  /** Offers content of the browser's clipboard in these formats. */
  clipOffer(formats: number): void {
    this.calls.viewer_clip_offer(CLIPBOARD, formats);
  }

  /**
   * Requests what the session has copied; the number that `clipContent` or `clipEnded` will have,
   * undefined if there is nothing.
   */
  clipRequest(format: ClipFormat, nowUs: number): number | undefined {
    return this.calls.viewer_clip_request(CLIPBOARD, format, nowUs) >>> 0 || undefined;
  }

  /** Answers `clipWanted`; without bytes the content is not available. */
  clipProvide(id: number, bytes: Uint8Array | undefined, nowUs: number): void {
    if (bytes === undefined) this.calls.viewer_clip_refuse(id, nowUs);
    else this.calls.viewer_clip_provide(id, this.memory.write(bytes), nowUs);
  }

  /** When `timeout` is to be called, in microseconds; undefined for never. */
  deadline(): number | undefined {
    return this.calls.viewer_deadline() || undefined;
  }

  /** The connection is open: the session has to answer; `replaces`: another one worked. */
  opened(replaces: boolean, nowUs: number): void {
    this.calls.viewer_opened(Number(replaces), nowUs);
  }

  get liveness(): Liveness {
    return this.calls.viewer_liveness();
  }

  /** The machine slept, or the network is another: probes the connection. */
  wake(nowUs: number): void {
    this.calls.viewer_wake(nowUs);
  }

  /** Whether idle connections are probed, as the user sees the picture. */
  idleProbes(on: boolean): void {
    this.calls.viewer_idle_probes(Number(on));
  }

  /** Another transport could replace the connection's: watches its path. */
  watchPath(): void {
    this.calls.viewer_watch_path();
  }

  /** The round trip because of which another transport is to be tried now, in microseconds. */
  pathChange(nowUs: number): number | undefined {
    return this.calls.viewer_path_change(nowUs) || undefined;
  }

  /** Another transport is tried, or what became of it. */
  transportAttempt(state: "begun" | AttemptEnd, nowUs: number): void {
    this.calls.viewer_transport_attempt(["begun", "failed", "postponed"].indexOf(state), nowUs);
  }

  /**
   * Whether another connection may take the place of this one now: nothing is held down, and no
   * picture is on its way.
   */
  get mayBeReplaced(): boolean {
    return this.calls.viewer_may_be_replaced() !== 0;
  }

  /** Whether a key, a button or a finger is down. */
  get holdsInput(): boolean {
    return this.calls.viewer_holds_input() !== 0;
  }

  timeout(nowUs: number): void {
    this.calls.viewer_timeout(nowUs);
  }

  resize(width: number, height: number): void {
    this.calls.viewer_resize(width, height);
  }

  /** What the page shows, so that the session sends it. */
  view({ size, part }: ViewRequest): void {
    this.calls.viewer_view(size.width, size.height, part.x, part.y, part.width, part.height);
  }

  /** The page is a display of this size; applications should draw at this scale. */
  display(size: Size, scalePercent: number): void {
    this.calls.viewer_display(size.width, size.height, scalePercent);
  }

  /** The user wants the clipboard to be shared in these directions. */
  clipWanted({ toSession, fromSession }: ClipboardPolicy): void {
    this.calls.viewer_clip_wanted(Number(toSession) | (Number(fromSession) << 1));
  }

  /** How good moving pictures are from now on, also on later connections. */
  chooseQuality(quality: PictureQuality): void {
    this.calls.viewer_choose_quality(PICTURE_QUALITIES.indexOf(quality));
  }

  /** Requests what is shown now lossless; false if the session does not take the request. */
  requestExactFrame(): boolean {
    return this.calls.viewer_exact_frame() !== 0;
  }

  /** Whether the session takes both. */
  get takesQuality(): boolean {
    return this.calls.viewer_takes_quality() !== 0;
  }

  /** How stereo programs are shown from now on, also on later connections. */
  chooseStereo(mode: StereoMode): void {
    this.calls.viewer_choose_stereo(STEREO_MODES.indexOf(mode));
  }

  /** Whether a stereo program was shown in this connection. */
  get hasSeenStereo(): boolean {
    return this.calls.viewer_has_seen_stereo() !== 0;
  }

  /** What the next connection does where the session is shown elsewhere; before each `open`. */
  opening(opening: Opening): void {
    this.calls.viewer_opening(["reconnects", "opens", "takes over", "joins"].indexOf(opening));
  }

  /** What this browser decodes: H.264 before `open`, others at any time. */
  codecs(decoded: Iterable<VideoCodec>): void {
    let bits = 0;
    for (const codec of decoded) bits |= 1 << VIDEO_CODECS.indexOf(codec);
    this.calls.viewer_codecs(bits);
  }

  /** Whether the connection has datagrams; before `open`. */
  datagrams(supported: boolean): void {
    this.calls.viewer_datagrams(Number(supported));
  }

  /** The next task for the browser's decoders, or undefined. */
  video(): VideoTask | undefined {
    const kind = this.calls.viewer_video();
    if (kind === 0) return undefined;
    const [stream = 0, b = 0, c = 0, d = 0, e = 0] = this.memory.fields();
    switch (kind) {
      case 1:
        return { type: "begin", stream, size: { width: c, height: d } };
      case 2: {
        const at = this.calls.viewer_video_at();
        const data = this.memory.view(at, this.calls.viewer_video_bytes());
        return {
          type: "frame",
          stream,
          serial: b,
          keyframe: VIDEO_CODECS[c],
          size: { width: d, height: e },
          data,
        };
      }
      default:
        return { type: "end", stream };
    }
  }

  /** The stream's decoder is ready, or not available (any more). */
  videoReady(stream: number, ready: boolean): void {
    this.calls.viewer_video_ready(stream, Number(ready));
  }

  /** Whether some of the frame would still be visible. */
  videoWanted(serial: number): boolean {
    return this.calls.viewer_video_wanted(serial) !== 0;
  }

  /** The frame was decoded and would not be visible. */
  videoSkipped(serial: number): void {
    this.calls.viewer_video_skipped(serial);
  }

  videoFailed(serial: number): void {
    this.calls.viewer_video_failed(serial);
  }

  /**
   * Memory for a decoded frame of this size, rows without gaps; undefined if the size is over the
   * limit. It is valid until a larger one is requested; but if the WASM memory grows, the view
   * has no bytes any more.
   */
  videoBuffer(chroma: ChromaLayout, size: Size): Uint8Array<ArrayBuffer> | undefined {
    const { width, height } = size;
    const at = this.calls.viewer_video_buffer(chroma, width, height);
    const plane = chromaSize(chroma, size);
    const bytes = width * height + 2 * plane.width * plane.height;
    return at === 0 ? undefined : this.memory.view(at, bytes);
  }

  /** The decoded frame is in that memory. */
  videoFrame(serial: number, chroma: ChromaLayout, { width, height }: Size, nowUs: number): void {
    this.calls.viewer_video_frame(serial, chroma, width, height, nowUs);
  }

  /** Asks to share the session; false if there is no connection, or too much is unanswered. */
  share(request: number, action: ShareAction): boolean {
    const number = ["invite", "giveControl", "takeControl", "endVisit", "revoke"].indexOf(
      action.type,
    );
    if (action.type !== "invite") {
      const of = action.type === "revoke" ? action.invitation : action.guest;
      return this.calls.viewer_share(request, number, of, 0, 0, 0, 0) !== 0;
    }
    const { control, clipboard, sound, lifeS, uses, password } = action;
    const rights = Number(control) | (clipboard ? 6 : 0) | (sound ? 0 : 64);
    const bytes = this.memory.write(new TextEncoder().encode(password));
    return this.calls.viewer_share(request, number, 0, rights, lifeS, uses, bytes) !== 0;
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

  /** Bytes to send now, empty if there are none; a view that the next call invalidates. */
  output(): Uint8Array {
    return this.outputOf(this.calls.viewer_output() >>> 0);
  }

  /** A datagram to send now, which may be lost; likewise. */
  datagramOutput(): Uint8Array {
    return this.outputOf(this.calls.viewer_datagram_output() >>> 0);
  }

  /** The browser can play sound, from the next connection on; while `muted`, none is sent. */
  wantSound(muted: boolean): void {
    this.calls.viewer_want_sound(Number(muted));
  }

  get hasSound(): boolean {
    return this.calls.viewer_has_sound() !== 0;
  }

  /** What the session has for this viewer, once it has answered. */
  get offers(): Offers {
    const { gives: files, prints: printing } = this.files;
    return {
      sound: this.hasSound,
      microphone: this.mayGiveMicrophone,
      files,
      printing,
      quality: this.takesQuality,
      pens: this.calls.viewer_takes_pens() !== 0,
      stereo: this.calls.viewer_takes_stereo() !== 0,
    };
  }

  /** The next message for the player, or undefined. */
  sound(): Uint8Array<ArrayBuffer> | undefined {
    const length = this.calls.viewer_sound();
    if (length === 0) return undefined;
    return this.memory.bytes(this.calls.viewer_sound_at(), length);
  }

  /** What the player plays; returns how much later it is to play. */
  reportSound(report: PlayerReport, atUs: number): number {
    const { heard, delayUs, received, lost, concealed, runs } = report;
    return this.calls.viewer_report_sound(heard, delayUs, received, lost, concealed, runs, atUs);
  }

  /** The browser can record a microphone, from the next connection on. */
  announceMicrophone(): void {
    this.calls.viewer_announce_microphone();
  }

  /** Whether the session may want it. */
  get mayGiveMicrophone(): boolean {
    return this.calls.viewer_may_give_microphone() !== 0;
  }

  /** It is open, or it is not given. */
  giveMicrophone(given: boolean): void {
    this.calls.viewer_give_microphone(Number(given));
  }

  /** What it hears, coded. */
  microphoneFrame(frame: Uint8Array, timeUs: number, nowUs: number): void {
    this.calls.viewer_microphone_frame(this.memory.write(frame), timeUs, nowUs);
  }

  private outputOf(bytes: number): Uint8Array {
    return this.memory.view(this.calls.viewer_output_at(), bytes);
  }

  get width(): number {
    return this.calls.viewer_screen_width();
  }

  get height(): number {
    return this.calls.viewer_screen_height();
  }

  /**
   * The screen in WASM memory: 4 bytes a pixel, blue, green, red, 255; a view that the next call
   * invalidates.
   */
  screen(): Uint8Array {
    return this.memory.view(this.calls.viewer_screen_at(), this.width * this.height * 4);
  }

  /** Whether there is something to present. */
  get damaged(): boolean {
    return this.calls.viewer_damaged() !== 0;
  }

  /** Rectangles that have changed since the last call: x, y, width, height of each, disjoint. */
  takeDamage(): Int32Array {
    const rects = this.calls.viewer_damage();
    return this.memory.rects(this.calls.viewer_damage_at(), rects);
  }

  /** The lossy parts of the screen: x, y, width, height of each rectangle, disjoint. */
  lossy(): Int32Array {
    const rects = this.calls.viewer_lossy();
    return this.memory.rects(this.calls.viewer_lossy_at(), rects);
  }

  /** A rectangle's pixels as red, green, blue, 255; a view that the next call invalidates. */
  rgba(x: number, y: number, width: number, height: number): Uint8ClampedArray {
    const bytes = this.memory.view(this.calls.viewer_rgba(x, y, width, height), width * height * 4);
    return new Uint8ClampedArray(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  stats(): DecoderStats {
    const count = this.calls.viewer_stats();
    const values = this.memory.numbers(this.calls.viewer_stats_at(), count);
    const [
      updates = 0,
      datagramUpdates = 0,
      lateUpdates = 0,
      ,
      ,
      bytesIn = 0,
      bytesOut = 0,
      ...afterTransport
    ] = values;
    const [
      packedBytes = 0,
      unpackedBytes = 0,
      lossyPixels = 0,
      rttUs = 0,
      rttMinUs = 0,
      ...afterPixels
    ] = afterTransport;
    const [
      coded = 0,
      shown = 0,
      skipped = 0,
      dropped = 0,
      keyframeRequests = 0,
      refused = 0,
      delayUs = 0,
      ...afterVideo
    ] = afterPixels;
    const video = { coded, shown, skipped, dropped, keyframeRequests, refused, delayUs };
    const commands = COMMAND_NAMES.map((name, i) => ({
      name,
      count: afterVideo[3 * i] ?? 0,
      bytes: afterVideo[3 * i + 1] ?? 0,
    }));
    const inputToPresentUs = afterVideo.slice(3 * COMMAND_NAMES.length);
    const pixels = { packedBytes, unpackedBytes, lossyPixels };
    return {
      updates,
      datagramUpdates,
      lateUpdates,
      bytesIn,
      bytesOut,
      ...pixels,
      rttUs,
      rttMinUs,
      video,
      commands,
      inputToPresentUs,
    };
  }

  /**
   * Message of the panic that one of these calls has just thrown; the instance is unusable after
   * it.
   */
  panicMessage(): string | undefined {
    const bytes = this.calls.viewer_panic_bytes();
    return bytes === 0 ? undefined : this.memory.textAt(this.calls.viewer_panic_at(), bytes);
  }
}
