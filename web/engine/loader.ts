// Fetches viewer-core's WASM module, and makes decoders of it.
// Path 11/13: before decoder.ts, for engine.ts.
// Knows the module and attempts to fetch it; never what a decoder does.

import { compileDecoder, Decoder } from "./decoder";
import type { ConnectionState } from "./messages";

/** Attempts to fetch the module, with a growing delay: 15 s in all. */
const FETCHES_MAX = 6;
const FETCH_RETRY_MS = 500;

export class DecoderLoader {
  private module: WebAssembly.Module | undefined;

  /** `tell`: the page waits, as for a connection. */
  constructor(private readonly tell: (state: ConnectionState) => void) {}

  /** Whether `load` has what it needs. */
  get fetched(): boolean {
    return this.module !== undefined;
  }

  /** Fetches the module; the connection may have dropped meanwhile. */
  async fetch(url: string): Promise<void> {
    for (let attempt = 1; this.module === undefined; attempt += 1) {
      try {
        this.module = await compileDecoder(url);
      } catch (error) {
        if (attempt === FETCHES_MAX) throw error;
        const retryMs = FETCH_RETRY_MS * 2 ** (attempt - 1);
        this.tell({ name: "waiting", retryMs, failures: attempt });
        await new Promise((resolve) => setTimeout(resolve, retryMs));
        this.tell({ name: "connecting", attempt: attempt + 1 });
      }
    }
  }

  /** A new decoder, once the module is fetched. */
  async load(): Promise<Decoder> {
    if (this.module === undefined) throw new Error("the decoder's module is not fetched");
    return Decoder.load(this.module);
  }
}
