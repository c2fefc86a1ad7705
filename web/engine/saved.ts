// What the browser stores of a session for a later page: the tab's picture, and the cache if the
// user wants that.
// Path 12/13: under engine.ts, over store/saver.ts and store/cachesaver.ts.
// Knows when the decoder takes what was stored; never how it is stored.

import type { CacheSaver } from "../store/cachesaver";
import type { SavedPicture, TileSaver } from "../store/saver";
import type { Picture } from "../store/tiles";
import type { Decoder } from "./decoder";
import type { FromEngine } from "./messages";

/**
 * Reading the picture that an earlier page of the tab saved delays the first connection no longer
 * than this.
 */
const RESTORE_MS_MAX = 1_000;

export interface SavedStateHandlers {
  /** The decoder has an earlier page's picture, which is shown as if the connection had dropped. */
  restored(decoder: Decoder, picture: Picture): void;
  /** A connection that opened while the picture was read goes on. */
  opened(): void;
  /** Whether nothing is shown any more. */
  closed(): boolean;
}

export class SavedState {
  /** Saves the cache, if the user wants that. */
  private cache: CacheSaver | undefined;
  /** Saves the picture for the tab's next page. */
  private tiles: TileSaver | undefined;
  /** The picture of an earlier page while it is read, and whether a connection waits for it. */
  private restoring: { saved: Promise<SavedPicture | undefined>; delays: boolean } | undefined;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly decoder: () => Decoder | undefined,
    private readonly handlers: SavedStateHandlers,
  ) {}

  /** Saves the picture here. After a reload, starts to read what the tab's last page saved. */
  keepTiles(tiles: TileSaver, reloaded: boolean): void {
    this.tiles = tiles;
    if (reloaded) this.restoring = { saved: tiles.read(RESTORE_MS_MAX), delays: false };
  }

  /** Loads the cache, and saves it here from now on. */
  async keepCache(cache: CacheSaver, decoder: Decoder): Promise<void> {
    this.cache = cache;
    await cache.load(decoder);
  }

  /**
   * A connection has opened. Whether it has to wait: a picture is restored before the first
   * connection begins.
   */
  delaysConnection(): boolean {
    if (this.restoring === undefined) return false;
    this.restoring.delays = true;
    return true;
  }

  /** Restores the picture of an earlier page, if there is one, once it is read. */
  async restore(): Promise<void> {
    const { restoring } = this;
    if (restoring === undefined) return;
    const saved = await restoring.saved;
    this.restoring = undefined;
    const decoder = this.decoder();
    if (saved && decoder && !this.handlers.closed()) {
      const picture = this.tiles?.restore(decoder, saved);
      if (picture !== undefined) this.handlers.restored(decoder, picture);
    }
    if (restoring.delays) this.handlers.opened();
  }

  /** The connection has ended: none waits. */
  lost(): void {
    if (this.restoring !== undefined) this.restoring.delays = false;
  }

  /** The decoder has another picture, or the same one on another connection. */
  setPicture(picture: Picture): void {
    this.tiles?.setPicture(picture);
  }

  /** The picture has changed. */
  schedule(): void {
    this.tiles?.schedule();
  }

  /** The page is hidden: it may be closing. */
  hidden(): void {
    void this.cache?.save();
    void this.saveTiles();
  }

  /** Resolves when the whole picture is saved. */
  async saveTiles(): Promise<undefined> {
    await this.tiles?.save("last");
    return undefined;
  }

  /** Deletes what the browser has stored of this session. */
  clear(): void {
    this.tiles?.forget();
    this.post({ type: "clearSavedState" });
  }
}
