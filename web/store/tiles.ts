// A tab's picture in IndexedDB, tile by tile, encrypted with a key that the store does not have.
// Path 12/13: from saver.ts to the store, and back in the tab's next page.
// Knows pixels as bytes, and their positions; never the decoder, nor when a tile is saved.

import type { Rect, Size } from "../display/view";
import type { Tab } from "./tab";

const DATABASE = "thinc tabs";
const TABS = "tabs";
const TILES = "tiles";
/**
 * Version of the format, authenticated with each entry: a later version does not read an earlier
 * one.
 */
const FORMAT = "thinc tiles 1";
/** Length of an AES-GCM nonce. */
const IV_BYTES = 12;
/**
 * Tabs in the store, the newest, and the age at which a tab is deleted. Entries of closed tabs
 * cannot be decrypted by anybody.
 */
const TABS_MAX = 4;
const TAB_MS_MAX = 24 * 3_600_000;

/** A picture's size, the session's screen, and the part of it that is shown. */
export interface Picture extends Size {
  screen: Size;
  part: Rect;
}

export interface Tile {
  x: number;
  y: number;
  /** Blue, green, red of each pixel. */
  pixels: Uint8Array<ArrayBuffer>;
}

interface Sealed {
  iv: Uint8Array<ArrayBuffer>;
  sealed: ArrayBuffer;
}

interface TabEntry extends Sealed {
  tab: string;
  savedMs: number;
}

export interface TileEntry extends Sealed {
  tab: string;
  x: number;
  y: number;
}

export class TileStore {
  private imported: Promise<CryptoKey> | undefined;
  private database: Promise<IDBDatabase> | undefined;
  /** The picture that the stored tiles belong to, as JSON. */
  private stored: string | undefined;
  private tidied = false;
  private forgets = 0;

  constructor(private readonly tab: Tab) {}

  /** What an earlier page of this tab saved, without entries that cannot be decrypted. */
  async load(): Promise<{ picture: Picture; tiles: Tile[] } | undefined> {
    const transaction = (await this.open()).transaction([TABS, TILES]);
    const [entry, entries] = await Promise.all([
      done<TabEntry | undefined>(transaction.objectStore(TABS).get(this.tab.name)),
      done<TileEntry[]>(transaction.objectStore(TILES).getAll(tilesOf(this.tab.name))),
    ]);
    if (entry === undefined) return undefined;
    const words = new TextDecoder().decode(await this.unseal(entry, FORMAT));
    this.stored = words;
    const tiles = entries.map(async (entry) => {
      const { x, y } = entry;
      return { x, y, pixels: await inflate(await this.unseal(entry, bindingOf(words, x, y))) };
    });
    const read = await Promise.allSettled(tiles);
    return {
      picture: JSON.parse(words) as Picture,
      tiles: read.flatMap((tile) => (tile.status === "fulfilled" ? [tile.value] : [])),
    };
  }

  /** Encrypts a tile. */
  async seal(picture: Picture, { x, y, pixels }: Tile): Promise<TileEntry> {
    const packed = await deflate(pixels);
    return {
      tab: this.tab.name,
      x,
      y,
      ...(await this.sealed(packed, bindingOf(JSON.stringify(picture), x, y))),
    };
  }

  /** Stores tiles of this picture and deletes those of any other, in one transaction. */
  async put(picture: Picture, entries: TileEntry[]): Promise<void> {
    const { forgets } = this;
    const words = JSON.stringify(picture);
    const sealed = await this.sealed(new TextEncoder().encode(words), FORMAT);
    const database = await this.open();
    if (forgets !== this.forgets) return; // it was deleted meanwhile
    const transaction = database.transaction([TABS, TILES], "readwrite", { durability: "relaxed" });
    const written = whole(transaction);
    const [tabs, tiles] = [transaction.objectStore(TABS), transaction.objectStore(TILES)];
    if (words !== this.stored) tiles.delete(tilesOf(this.tab.name));
    tabs.put({ tab: this.tab.name, savedMs: Date.now(), ...sealed } satisfies TabEntry);
    for (const entry of entries) tiles.put(entry);
    if (!this.tidied) {
      tabs.getAll().onsuccess = (event) => {
        const others = (event.target as IDBRequest<TabEntry[]>).result.sort(
          (a, b) => b.savedMs - a.savedMs,
        );
        const old = others.filter(
          ({ savedMs }, i) => i >= TABS_MAX || Date.now() - savedMs > TAB_MS_MAX,
        );
        for (const { tab } of old) {
          tabs.delete(tab);
          tiles.delete(tilesOf(tab));
        }
      };
    }
    await written;
    [this.stored, this.tidied] = [words, true];
  }

  /** Deletes everything of this tab. */
  async forget(): Promise<void> {
    this.forgets += 1;
    const transaction = (await this.open()).transaction([TABS, TILES], "readwrite");
    const written = whole(transaction);
    transaction.objectStore(TABS).delete(this.tab.name);
    transaction.objectStore(TILES).delete(tilesOf(this.tab.name));
    this.stored = undefined;
    await written;
  }

  private open(): Promise<IDBDatabase> {
    this.database ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(DATABASE, 1);
      request.onupgradeneeded = () => {
        request.result.createObjectStore(TABS, { keyPath: "tab" });
        request.result.createObjectStore(TILES, { keyPath: ["tab", "x", "y"] });
      };
      request.onsuccess = () => {
        // The user clears the browser's data, or a later page has another version.
        request.result.onversionchange = () => request.result.close();
        resolve(request.result);
      };
      request.onerror = () => reject(reasonOf(request.error));
    });
    return this.database;
  }

  /** Imported when first needed. */
  private key(): Promise<CryptoKey> {
    this.imported ??= crypto.subtle.importKey("raw", this.tab.key, "AES-GCM", false, [
      "encrypt",
      "decrypt",
    ]);
    return this.imported;
  }

  private async sealed(bytes: Uint8Array<ArrayBuffer>, what: string): Promise<Sealed> {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
    return { iv, sealed: await crypto.subtle.encrypt(seal(iv, what), await this.key(), bytes) };
  }

  private async unseal({ iv, sealed }: Sealed, what: string): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await crypto.subtle.decrypt(seal(iv, what), await this.key(), sealed));
  }
}

/**
 * The authenticated position of a tile: a tile that was moved to another place or picture fails to
 * decrypt.
 */
function bindingOf(picture: string, x: number, y: number): string {
  return `${FORMAT} ${picture} ${x} ${y}`;
}

function seal(iv: Uint8Array<ArrayBuffer>, what: string): AesGcmParams {
  return { name: "AES-GCM", iv, additionalData: new TextEncoder().encode(what) };
}

function tilesOf(tab: string): IDBKeyRange {
  return IDBKeyRange.bound([tab], [tab, []]); // an array sorts after every number
}

function deflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return through(bytes, new CompressionStream("deflate-raw"));
}

function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return through(bytes, new DecompressionStream("deflate-raw"));
}

async function through(
  bytes: Uint8Array<ArrayBuffer>,
  stream: GenericTransformStream,
): Promise<Uint8Array<ArrayBuffer>> {
  const writer = (stream.writable as WritableStream<Uint8Array>).getWriter();
  // The reader below receives the error.
  writer.write(bytes).catch(() => undefined);
  writer.close().catch(() => undefined);
  return new Uint8Array(
    await new Response(stream.readable as ReadableStream<Uint8Array>).arrayBuffer(),
  );
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(reasonOf(request.error));
  });
}

function whole(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(reasonOf(transaction.error));
  });
}

function reasonOf(error: DOMException | null): Error {
  return error ?? new Error("the browser gives no reason");
}
