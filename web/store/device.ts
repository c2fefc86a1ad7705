// This browser as a device that a broker remembers: its key, and how it signs its person in.
// Before the path: used by account.ts; main.ts deletes the key when somebody logs out of a desktop.
// Knows a key that no script can read, and the login's storage; never a password.

import { base64url } from "./base64url";
import { forgetLogin, loadLogin, saveLogin } from "./desk";
import { headersOf } from "./token";

const DATABASE = "thinc device";
const STORE = "keys";
/** One key for each origin. */
const KEY = "device";
const ALGORITHM = { name: "ECDSA", namedCurve: "P-256" };
const SIGNATURE = { name: "ECDSA", hash: "SHA-256" };
/** Begins what is signed (crates/transport/src/device.rs). */
const PURPOSE = "thinc sign-in 1";
/** Bytes of a device's ID, the first of its public key's SHA-256. */
const ID_BYTES = 16;
/**
 * Refusals in a row after which the key is deleted. One may be temporary, as while nobody may log
 * in, and the answer does not tell which.
 */
const REFUSALS_MAX = 3;
/** Longest name of a device, in bytes. */
const NAME_BYTES_MAX = 64;

interface Device {
  id: string;
  /** Not extractable: it can be used in this browser, and not copied from it by a script. */
  key: CryptoKey;
  refusals: number;
}

/** What became of an attempt: an HTTP status if it failed. */
export type SignIn = "signedIn" | "none" | number;

/** Runs one request on the store. */
function stored<T>(
  mode: IDBTransactionMode,
  use: (store: IDBObjectStore) => IDBRequest<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => reject(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      const transaction = database.transaction(STORE, mode);
      const request = use(transaction.objectStore(STORE));
      transaction.oncomplete = () => {
        database.close();
        resolve(request.result);
      };
      transaction.onabort = () => {
        database.close();
        reject(transaction.error);
      };
    };
  });
}

/** Undefined if this browser has no key, or cannot keep one. */
async function loadDevice(): Promise<Device | undefined> {
  try {
    return await stored<Device | undefined>("readonly", (store) => store.get(KEY));
  } catch {
    return undefined;
  }
}

/** From now on this browser signs nobody in. */
export async function forgetDevice(): Promise<void> {
  try {
    await stored("readwrite", (store) => store.delete(KEY));
  } catch {
    // There is none.
  }
}

/** A request of a page: an object as JSON. */
const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    cache: "no-store",
  });

/** Browser and system, as people call them. */
export function deviceName(agent: string): string {
  const browsers: [RegExp, string][] = [
    [/\bEdgA?\//, "Edge"],
    [/\bOPR\//, "Opera"],
    [/\bFirefox\/|\bFxiOS\//, "Firefox"],
    [/Chrome\/|\bCriOS\//, "Chrome"],
    [/\bSafari\//, "Safari"],
  ];
  const systems: [RegExp, string][] = [
    [/\biPhone\b/, "iPhone"],
    [/\biPad\b/, "iPad"],
    [/\bAndroid\b/, "Android"],
    [/\bCrOS\b/, "ChromeOS"],
    [/\bWindows\b/, "Windows"],
    [/\bMacintosh\b/, "macOS"],
    [/\bLinux\b/, "Linux"],
  ];
  const of = (names: [RegExp, string][]) => names.find(([word]) => word.test(agent))?.[1];
  const name = [of(browsers), of(systems)].filter((part) => part !== undefined).join(", ");
  return name === "" ? "Browser" : name.slice(0, NAME_BYTES_MAX);
}

/**
 * Makes a key for this browser and has the server remember it, for the login that has just begun.
 * Undefined, or why not.
 */
export async function rememberDevice(): Promise<string | undefined> {
  const secret = loadLogin();
  if (secret === undefined) return "";
  const headers = headersOf(secret);
  try {
    const before = await loadDevice();
    if (before !== undefined) await post("devices/forget", { device: before.id }, headers);
    const pair = await crypto.subtle.generateKey(ALGORITHM, false, ["sign", "verify"]);
    const point = await crypto.subtle.exportKey("raw", pair.publicKey);
    const id = base64url((await crypto.subtle.digest("SHA-256", point)).slice(0, ID_BYTES));
    // Kept first: of a device that the server remembers in vain, the person has the name.
    const device: Device = { id, key: pair.privateKey, refusals: 0 };
    await stored("readwrite", (store) => store.put(device, KEY));
    const name = deviceName(navigator.userAgent);
    const response = await post("devices", { key: base64url(point), name }, headers);
    if (response.ok) return undefined;
    await forgetDevice();
    return await response.text();
  } catch (reason) {
    await forgetDevice();
    return reason instanceof Error ? reason.message : String(reason);
  }
}

/**
 * Logs this browser's person in without asking, if the server remembers it. Of several tabs that
 * want that at the same time, one does it for all.
 */
export async function signIn(): Promise<SignIn> {
  const before = loadLogin();
  const alone = async (): Promise<SignIn> => {
    const now = loadLogin();
    return now !== undefined && now !== before ? "signedIn" : signInAlone();
  };
  return "locks" in navigator ? navigator.locks.request("thinc sign-in", alone) : alone();
}

async function signInAlone(): Promise<SignIn> {
  const device = await loadDevice();
  if (device === undefined) return "none";
  const begun = await post("login", { device: device.id });
  if (!begun.ok) return refused(device, begun.status);
  const { attempt, challenge } = (await begun.json()) as { attempt: string; challenge: string };
  const text = `${PURPOSE}\n${location.origin.toLowerCase()}\n${device.id}\n${challenge}`;
  const message = new TextEncoder().encode(text);
  const signature = base64url(await crypto.subtle.sign(SIGNATURE, device.key, message));
  const response = await post("login", { attempt, signature });
  if (!response.ok) return refused(device, response.status);
  const { originSecret } = (await response.json()) as { originSecret: string };
  saveLogin(originSecret);
  if (device.refusals > 0)
    await stored("readwrite", (store) => store.put({ ...device, refusals: 0 }, KEY));
  return "signedIn";
}

async function refused(device: Device, status: number): Promise<number> {
  if (status !== 401) return status;
  forgetLogin();
  const refusals = device.refusals + 1;
  if (refusals >= REFUSALS_MAX) await forgetDevice();
  else await stored("readwrite", (store) => store.put({ ...device, refusals }, KEY));
  return status;
}
