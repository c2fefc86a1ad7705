// viewer-core in WASM, seen from TypeScript: bytes in, bytes out, events, damage and pixels.
// Path 11/13 and 12/13: from transport.ts through crates/viewer-web, to present.ts.
// Calls and copies only: every decision and all parsing lie on the other side of these exports.

import type { CommandStats, TouchPhase } from "./messages";

/** What crates/viewer-web/src/lib.rs exports; addresses and lengths are bytes of `memory`. */
interface Exports {
  memory: WebAssembly.Memory;
  viewer_buffer(bytes: number): number;
  viewer_open(nameBytes: number, width: number, height: number): void;
  viewer_load_cache(bytes: number): number;
  viewer_save_cache(): number;
  viewer_saved_cache_at(): number;
  viewer_bytes(bytes: number, nowUs: number): number;
  viewer_key(code: number, keysym: number, down: number, nowUs: number): number;
  viewer_motion(x: number, y: number, nowUs: number): number;
  viewer_button(button: number, down: number, nowUs: number): number;
  viewer_scroll(dx: number, dy: number, nowUs: number): number;
  viewer_touch(id: number, phase: number, x: number, y: number, nowUs: number): number;
  viewer_release_all(nowUs: number): number;
  viewer_resize(width: number, height: number): void;
  viewer_barrier(): number;
  viewer_close(): void;
  viewer_presented(nowUs: number): void;
  viewer_output(): number;
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
  | { type: "geometry"; width: number; height: number }
  | { type: "cursor"; width: number; height: number; hotX: number; hotY: number; rgba: Uint8ClampedArray }
  | { type: "cursorShow"; shown: boolean }
  | { type: "barrier"; id: number }
  | { type: "frameEnd" }
  | { type: "hello"; name: string }
  | { type: "closed"; code: number; reason: string };

/** The stream broke the protocol, or a limit of ours: the connection must end. */
export class DecoderError extends Error {}

const COMMAND_NAMES = ["COPY", "SFILL", "PFILL", "BITMAP", "RAW", "KEEP", "RECALL"] as const;

export interface DecoderStats {
  updates: number;
  bytesIn: number;
  bytesOut: number;
  packedBytes: number;
  unpackedBytes: number;
  inexactPixels: number;
  rttUs: number;
  rttMinUs: number;
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

  /** Begins a connection: all that was known of the last one is forgotten. Width and height are the window's. */
  open(name: string, width: number, height: number): void {
    this.calls.viewer_open(this.put(new TextEncoder().encode(name)), width, height);
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

  /** Applies the next bytes of the stream. */
  bytes(bytes: Uint8Array, nowUs: number): void {
    if (this.calls.viewer_bytes(this.put(bytes), nowUs) !== 0) throw new DecoderError(this.text());
  }

  key(code: number, keysym: number, down: boolean, nowUs: number): void {
    this.calls.viewer_key(code, keysym, Number(down), nowUs);
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

  resize(width: number, height: number): void {
    this.calls.viewer_resize(width, height);
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
    const bytes = this.calls.viewer_output() >>> 0;
    return new Uint8Array(this.calls.memory.buffer, this.calls.viewer_output_at() >>> 0, bytes);
  }

  /** The next event, or undefined. */
  event(): DecoderEvent | undefined {
    for (;;) {
      const kind = this.calls.viewer_event();
      const [a = 0, b = 0, c = 0, d = 0] = new Float64Array(this.calls.memory.buffer, this.calls.viewer_event_at() >>> 0, 4);
      switch (kind) {
        case 0:
          return undefined;
        case 1:
          return { type: "geometry", width: a, height: b };
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
    const [updates = 0, , , bytesIn = 0, bytesOut = 0, ...more] = values;
    const [packedBytes = 0, unpackedBytes = 0, inexactPixels = 0, rttUs = 0, rttMinUs = 0, ...rest] = more;
    const commands = COMMAND_NAMES.map((name, i) => ({ name, count: rest[3 * i] ?? 0, bytes: rest[3 * i + 1] ?? 0 }));
    const photonUs = rest.slice(3 * COMMAND_NAMES.length);
    return { updates, bytesIn, bytesOut, packedBytes, unpackedBytes, inexactPixels, rttUs, rttMinUs, commands, photonUs };
  }

  /** What a panic said that has just thrown out of one of these calls; the instance is of no use any more. */
  panicWords(): string | undefined {
    const bytes = this.calls.viewer_panic_bytes();
    return bytes === 0 ? undefined : this.decode(this.calls.viewer_panic_at() >>> 0, bytes);
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
