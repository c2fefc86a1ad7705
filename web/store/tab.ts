// What makes a reloaded page the same viewer: its identifier, and name and key of its saved
// picture.
// Beside the path: from sessionStorage through main.ts to engine.ts; login.ts and Disconnect delete
// it.
// Knows three random numbers and the session's address; never the picture.

import { INSTANCE_BYTES } from "../engine/messages";

const NAME_BYTES = 16;
/** AES-256. */
const KEY_BYTES = 32;
/**
 * How long a page waits for the page before it to end. A duplicated tab waits in vain: it is
 * another viewer.
 */
const LOCK_MS_MAX = 400;

export interface Tab {
  /** Key of this tab's picture in the browser's store. */
  name: string;
  /** Encryption key of that picture. */
  key: Uint8Array<ArrayBuffer>;
  /** Identifier by which the session knows this viewer; not guessable. */
  instance: Uint8Array<ArrayBuffer>;
  /** Whether an earlier page of this tab had all three. */
  reloaded: boolean;
}

/** Sessions behind one proxy share an origin. */
function storageKey(): string {
  return `thinc ${new URL("./", document.baseURI).pathname}`;
}

/** Undefined if this browser lacks a needed interface, or forbids its use. */
export async function takeTab(): Promise<Tab | undefined> {
  if (
    !(
      "locks" in navigator &&
      "indexedDB" in window &&
      "subtle" in crypto &&
      "CompressionStream" in window
    )
  )
    return undefined;
  try {
    const before = read(sessionStorage.getItem(storageKey()));
    if (before !== undefined && (await lock(before.name))) return before;
  } catch {
    return undefined;
  }
  const made = {
    name: hex(random(NAME_BYTES)),
    key: random(KEY_BYTES),
    instance: random(INSTANCE_BYTES),
    reloaded: false,
  };
  void lock(made.name);
  return made;
}

/** Stores it for the tab's next page. */
export function rememberTab({ name, key, instance }: Tab): void {
  try {
    sessionStorage.setItem(
      storageKey(),
      JSON.stringify({ name, key: hex(key), instance: hex(instance) }),
    );
  } catch {
    // sessionStorage is missing or full: the next page starts without saved state.
  }
}

/** The tab's next page starts without saved state. */
export function forgetTab(): void {
  try {
    sessionStorage.removeItem(storageKey());
  } catch {
    // sessionStorage is missing.
  }
}

/** Locks the name for this page's lifetime; false if another page has it. */
function lock(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const held = () => {
      resolve(true);
      return new Promise(() => undefined);
    };
    navigator.locks
      .request(`thinc ${name}`, { signal: AbortSignal.timeout(LOCK_MS_MAX) }, held)
      .catch(() => resolve(false));
  });
}

function read(words: string | null): Tab | undefined {
  if (words === null) return undefined;
  try {
    const { name, key, instance } = JSON.parse(words) as Record<string, unknown>;
    const tab = {
      name: hex(bytes(name)),
      key: bytes(key),
      instance: bytes(instance),
      reloaded: true,
    };
    return tab.key.length === KEY_BYTES && tab.instance.length === INSTANCE_BYTES ? tab : undefined;
  } catch {
    return undefined;
  }
}

function random(length: number): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(length));
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function bytes(words: unknown): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(String(words).match(/../g) ?? [], (byte) => parseInt(byte, 16));
}
