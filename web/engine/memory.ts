// The memory of viewer-core in WASM, through which its calls exchange bytes, text and numbers.
// Path 11/13 and 12/13: under decoder.ts and filecalls.ts, to crates/viewer-web.
// Copies and views only; never what is in them.

/** Exports of crates/viewer-web/src/lib.rs; addresses and lengths are bytes of `memory`. */
export interface MemoryExports {
  memory: WebAssembly.Memory;
  viewer_buffer(bytes: number): number;
  viewer_event_at(): number;
  viewer_text_at(): number;
  viewer_text_bytes(): number;
}

export class DecoderMemory {
  constructor(private readonly calls: MemoryExports) {}

  /** Copies bytes into the input buffer of the next call; their count. */
  write(bytes: Uint8Array): number {
    this.view(this.calls.viewer_buffer(bytes.length), bytes.length).set(bytes);
    return bytes.length;
  }

  /** The last text. */
  text(): string {
    return this.textAt(this.calls.viewer_text_at(), this.calls.viewer_text_bytes());
  }

  /** Numeric fields of the last event or task. */
  fields(): Float64Array {
    return this.numbers(this.calls.viewer_event_at(), 8);
  }

  textAt(at: number, bytes: number): string {
    return new TextDecoder().decode(this.view(at, bytes));
  }

  /** Numbers that the next call invalidates. */
  numbers(at: number, count: number): Float64Array {
    return new Float64Array(this.buffer, at >>> 0, count);
  }

  /** Rectangles, as x, y, width, height of each. */
  rects(at: number, count: number): Int32Array {
    return new Int32Array(this.buffer, at >>> 0, count * 4).slice();
  }

  bytes(at: number, length: number): Uint8Array<ArrayBuffer> {
    return this.view(at, length).slice();
  }

  /** Bytes that the next call invalidates: if the memory grows, the view has none any more. */
  view(at: number, length: number): Uint8Array<ArrayBuffer> {
    // WASM's numbers are signed.
    return new Uint8Array(this.buffer, at >>> 0, length >>> 0);
  }

  /** Another one after the memory has grown. */
  private get buffer(): ArrayBuffer {
    return this.calls.memory.buffer as ArrayBuffer;
  }
}
