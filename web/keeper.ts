// Keeps the picture for the tab's next page: what of it is due goes to the store, and what an earlier page kept is shown and not sent again.
// Path 12/13: beside engine.ts, between decoder.ts, which knows what is due, and tiles.ts.
// Knows when the decoder is asked; what fails here is never said, the next page then takes everything.

import type { Decoder } from "./decoder";
import { nowUs } from "./messages";
import type { Tab } from "./tab";
import { TileStore, type Picture, type Tile, type TileEntry } from "./tiles";

/** Written together: some hundred kilobytes at most; … */
const TILES_TOGETHER = 16;
/** … and then nothing for so many times as long as that took: pictures and keys need the thread. */
const PAUSES = 9;

export interface Kept {
  picture: Picture;
  tiles: Tile[];
}

export class Keeper {
  private readonly store: TileStore;
  /** What the decoder shows. */
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

  /** What an earlier page of the tab kept, if that comes within `ms`. */
  async read(ms: number): Promise<Kept | undefined> {
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), ms));
    const loaded = this.store.load().catch(() => undefined);
    return Promise.race([loaded, late]);
  }

  /** Puts it where the first connection lies over it; gives what is to be shown until then. Before that connection. */
  restore(decoder: Decoder, { picture, tiles }: Kept): Picture | undefined {
    if (tiles.length === 0 || !decoder.restore(picture)) return undefined;
    for (const tile of tiles) decoder.restoreTile(tile);
    this.picture = picture;
    return picture;
  }

  /** The decoder has another picture now, or the same one on another connection. */
  setPicture({ width, height, screen, part }: Picture): void {
    const picture = { width, height, screen, part };
    if (JSON.stringify(picture) !== JSON.stringify(this.picture)) this.picture = picture;
  }

  /** Something was shown, or looked at: the decoder knows when the next tile is due. */
  heed(): void {
    if (this.timer !== undefined || this.saving !== undefined || this.failed) return;
    const due = this.decoder()?.tileDue();
    if (due === undefined) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      void this.save("rested");
    }, Math.max(0, (due - nowUs()) / 1000, this.pauseUntilMs - performance.now()));
  }

  /** Keeps what is due, or `last` all that can be kept: there may be no later. */
  async save(which: "rested" | "last"): Promise<void> {
    while (this.saving !== undefined) await this.saving;
    if (this.failed) return;
    const begunMs = performance.now();
    this.saving = (which === "last" ? this.saveAll() : this.saveSome(false))
      .catch(() => (this.failed = true))
      .then(() => {
        this.saving = undefined;
        this.pauseUntilMs = performance.now() + PAUSES * (performance.now() - begunMs);
        this.heed();
      });
    await this.saving;
  }

  /** Nothing is kept any more, before there is another picture. */
  forget(): void {
    this.picture = undefined;
    this.decoder()?.forgetTiles();
    this.store.forget().catch(() => undefined);
  }

  private async saveAll(): Promise<void> {
    while ((await this.saveSome(true)) > 0);
  }

  /** How many were kept. */
  private async saveSome(last: boolean): Promise<number> {
    const { picture } = this;
    const entries: TileEntry[] = [];
    while (picture !== undefined && entries.length < TILES_TOGETHER) {
      const tile = this.decoder()?.nextTile(nowUs(), last);
      if (tile === undefined) break;
      entries.push(await this.store.seal(picture, tile));
      // It is gone, and its tiles with it.
      if (this.picture !== picture) return 0;
    }
    if (picture !== undefined && entries.length > 0) await this.store.put(picture, entries);
    return entries.length;
  }
}
