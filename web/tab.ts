// What makes a page that is loaded again the viewer it was: a number, and the name and the key of the picture that it left behind.
// Beside the path: from the tab's own storage (sessionStorage) through main.ts to engine.ts; login.ts and Disconnect end it.
// Knows three random numbers; never the picture, and of the session its address alone.

import { INSTANCE_BYTES } from "./messages";

const NAME_BYTES = 16;
/** AES with 256 bits. */
const KEY_BYTES = 32;
/** How long a page waits for the one before it to be gone. A tab that was duplicated waits in vain: it is another viewer. */
const LOCK_MS_MAX = 400;

export interface Tab {
  /** Under which the browser's store has this tab's picture. */
  name: string;
  /** Without which nobody reads what is there. */
  key: Uint8Array<ArrayBuffer>;
  /** What the session knows this viewer by; nobody guesses it. */
  instance: Uint8Array<ArrayBuffer>;
  /** An earlier page of this tab had all three. */
  again: boolean;
}

/** Sessions behind one proxy share an origin, and nothing else. */
function item(): string {
  return `thinc ${new URL("./", document.baseURI).pathname}`;
}

/** Undefined where this browser keeps nothing: it lacks something, or forbids it. */
export async function takeTab(): Promise<Tab | undefined> {
  if (!("locks" in navigator && "indexedDB" in window && "subtle" in crypto && "CompressionStream" in window)) return undefined;
  try {
    const before = read(sessionStorage.getItem(item()));
    if (before !== undefined && (await hold(before.name))) return before;
  } catch {
    return undefined;
  }
  const made = { name: hex(random(NAME_BYTES)), key: random(KEY_BYTES), instance: random(INSTANCE_BYTES), again: false };
  void hold(made.name);
  return made;
}

/** For the tab's next page. */
export function rememberTab({ name, key, instance }: Tab): void {
  try {
    sessionStorage.setItem(item(), JSON.stringify({ name, key: hex(key), instance: hex(instance) }));
  } catch {
    // There is none, or it is full: the next page begins anew.
  }
}

/** What this tab's pages have left behind is nobody's any more. */
export function forgetTab(): void {
  try {
    sessionStorage.removeItem(item());
  } catch {
    // There is none.
  }
}

/** Whether this page has the name, and has it to itself until it is gone. */
function hold(name: string): Promise<boolean> {
  return new Promise((resolve) => {
    const held = () => {
      resolve(true);
      return new Promise(() => undefined);
    };
    navigator.locks.request(`thinc ${name}`, { signal: AbortSignal.timeout(LOCK_MS_MAX) }, held).catch(() => resolve(false));
  });
}

function read(words: string | null): Tab | undefined {
  if (words === null) return undefined;
  try {
    const { name, key, instance } = JSON.parse(words) as Record<string, unknown>;
    const tab = { name: hex(bytes(name)), key: bytes(key), instance: bytes(instance), again: true };
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
