// Saves the picture for the tab's next page, tile by tile, and restores what an earlier page saved.
// Path 12/13: under engine/saved.ts, between decoder.ts, which chooses the tiles, and tiles.ts.
// Knows when to ask the decoder. After an error it saves nothing more, and the next page receives
// all pixels.

import type { Decoder } from "../engine/decoder";
import { nowUs } from "../engine/messages";
import type { Tab } from "./tab";
import { type Picture, type Tile, type TileEntry, TileStore } from "./tiles";

/** Tiles of one transaction: some hundred kilobytes at most. */
const BATCH_TILES_MAX = 16;
/** Pause after a batch, as a multiple of its duration: presenting and input need the thread. */
const PAUSE_FACTOR = 9;

export interface SavedPicture {
  picture: Picture;
  tiles: Tile[];
}

export class TileSaver {
  private readonly store: TileStore;
  /** The picture that the decoder shows. */
  private picture: Picture | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private saving: Promise<void> | undefined;
  private pauseUntilMs = 0;
  private failed = false;

  constructor(
    tab: Tab,
    private readonly decoder: () => Decoder | undefined,
  ) {
    this.store = new TileStore(tab);
  }

  /** The picture that an earlier page of the tab saved, if it is read within `ms`. */
  async read(ms: number): Promise<SavedPicture | undefined> {
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), ms));
    const loaded = this.store.load().catch(() => undefined);
    return Promise.race([loaded, late]);
  }

  /** Restores it in the decoder, before the first connection; the picture to show until then. */
  restore(decoder: Decoder, { picture, tiles }: SavedPicture): Picture | undefined {
    if (tiles.length === 0 || !decoder.restore(picture)) return undefined;
    for (const tile of tiles) decoder.restoreTile(tile);
    this.picture = picture;
    return picture;
  }

  /** The decoder has another picture, or the same one on another connection. */
  setPicture({ width, height, screen, part }: Picture): void {
    const picture = { width, height, screen, part };
    if (JSON.stringify(picture) !== JSON.stringify(this.picture)) this.picture = picture;
  }

  /** Schedules the next save; the decoder knows when a tile comes to rest. */
  schedule(): void {
    if (this.timer !== undefined || this.saving !== undefined || this.failed) return;
    const due = this.decoder()?.tileDue();
    if (due === undefined) return;
    this.timer = setTimeout(
      () => {
        this.timer = undefined;
        void this.save("at rest");
      },
      Math.max(0, (due - nowUs()) / 1000, this.pauseUntilMs - performance.now()),
    );
  }

  /** Saves the tiles at rest or, with `last`, all: the page may be closing. */
  async save(which: "at rest" | "last"): Promise<void> {
    while (this.saving !== undefined) await this.saving;
    if (this.failed) return;
    const begunMs = performance.now();
    this.saving = (which === "last" ? this.saveAll() : this.saveSome(false))
      .catch(() => (this.failed = true))
      .then(() => {
        this.saving = undefined;
        this.pauseUntilMs = performance.now() + PAUSE_FACTOR * (performance.now() - begunMs);
        this.schedule();
      });
    await this.saving;
  }

  /** Deletes what is saved; the next picture starts again. */
  forget(): void {
    this.picture = undefined;
    this.decoder()?.forgetTiles();
    this.store.forget().catch(() => undefined);
  }

  private async saveAll(): Promise<void> {
    while ((await this.saveSome(true)) > 0);
  }

  /** Number of tiles saved. */
  private async saveSome(last: boolean): Promise<number> {
    const { picture } = this;
    const entries: TileEntry[] = [];
    while (picture !== undefined && entries.length < BATCH_TILES_MAX) {
      const tile = this.decoder()?.nextTile(nowUs(), last);
      if (tile === undefined) break;
      entries.push(await this.store.seal(picture, tile));
      // The picture is gone, and its tiles with it.
      if (this.picture !== picture) return 0;
    }
    if (picture !== undefined && entries.length > 0) await this.store.put(picture, entries);
    return entries.length;
  }
}
