// The viewer's cache of pixels in the browser's IndexedDB, from one page to the next.
// Path 12/13: from engine.ts, to the store and back; only if the user asked for it (?keep=yes).
// Knows bytes and the session's address. A browser separates the stores of origins; errors mean an
// empty cache.

const DATABASE = "thinc";
const STORE = "kept";
/** Sessions in the store; the least recently saved are deleted. */
const SESSIONS_MAX = 4;

interface Entry {
  session: string;
  bytes: Blob;
  savedMs: number;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("the browser gives no reason"));
  });
}

function open(): Promise<IDBDatabase> {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "session" });
  return done(request);
}

/** The cache that an earlier page of this session saved. */
export async function loadCache(session: string): Promise<Uint8Array | undefined> {
  const database = await open();
  try {
    const entry: Entry | undefined = await done(
      database.transaction(STORE).objectStore(STORE).get(session),
    );
    return entry && new Uint8Array(await entry.bytes.arrayBuffer());
  } finally {
    database.close();
  }
}

/** Saves it for a later page, completely or not at all. */
export async function saveCache(session: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const database = await open();
  try {
    const transaction = database.transaction(STORE, "readwrite");
    const written = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = () =>
        reject(transaction.error ?? new Error("the browser gives no reason"));
    });
    const store = transaction.objectStore(STORE);
    store.put({ session, bytes: new Blob([bytes]), savedMs: Date.now() } satisfies Entry);
    store.getAll().onsuccess = (event) => {
      const entries = (event.target as IDBRequest<Entry[]>).result.sort(
        (a, b) => b.savedMs - a.savedMs,
      );
      for (const { session } of entries.slice(SESSIONS_MAX)) store.delete(session);
    };
    await written;
  } finally {
    database.close();
  }
}
