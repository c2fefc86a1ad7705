// Saves the viewer's cache of pixels for a later page, and loads what an earlier one saved.
// Path 12/13: under engine/saved.ts, between decoder.ts, which has the cache, and cache.ts.
// Knows when; after an error it saves nothing more.

import type { Decoder } from "../engine/decoder";
import { messageOf } from "../engine/words";
import { loadCache, saveCache } from "./cache";

/**
 * Interval at which the cache is saved; also saved when the page is hidden, for a page that closes
 * has no time for it.
 */
const SAVE_MS = 60_000;

export class CacheSaver {
  private saving = false;
  private failed = false;

  /** `session`: its address. */
  constructor(
    private readonly session: string,
    private readonly decoder: () => Decoder | undefined,
  ) {}

  /** Loads the cache that an earlier page saved, and starts saving it. */
  async load(decoder: Decoder): Promise<void> {
    setInterval(() => void this.save(), SAVE_MS);
    try {
      const saved = await loadCache(this.session);
      const refused = saved && decoder.loadCache(saved);
      if (refused !== undefined) console.warn(`thinc: the saved cache is not used: ${refused}`);
    } catch (error) {
      console.warn(`thinc: the saved cache cannot be read: ${messageOf(error)}`);
    }
  }

  async save(): Promise<void> {
    if (this.failed || this.saving) return;
    const bytes = this.decoder()?.saveCache();
    if (bytes === undefined) return;
    this.saving = true;
    try {
      await saveCache(this.session, bytes);
    } catch (error) {
      console.warn(`thinc: the cache cannot be saved: ${messageOf(error)}`);
      this.failed = true;
    } finally {
      this.saving = false;
    }
  }
}
