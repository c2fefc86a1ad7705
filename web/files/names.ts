// Names of files and folders: those that the session accepts, those that are safe on this computer,
// and what people are told of them.
// Beside the path: under files.ts. Knows rules; never a file.

import type { Entry } from "./messages";

/** As in crates/protocol/src/limits.rs. */
export const NAME_BYTES_MAX = 255;
/** Names in a message; of more, only their number is told. */
const NAMES_MAX = 3;

/** Characters of a title in a message; a title has at most 255 bytes. */
const TITLE_MAX = 80;

/** As `is_deceptive` of crates/protocol/src/wire.rs. */
const DECEPTIVE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
/** The same, and what separates components somewhere. */
const REFUSED = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\\/]/gu;
/** Characters that Windows has a meaning for. */
const WINDOWS_REFUSED = /[<>:"|?*]/g;
/** Names of devices there, whatever their ending. */
const WINDOWS_DEVICE = /^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

/** Cut to so many bytes, at a character's end. */
function cut(name: string, bytesMax: number): string {
  let text = new TextDecoder().decode(new TextEncoder().encode(name));
  while (bytesOf(text) > bytesMax) text = [...text].slice(0, -1).join("");
  return text;
}

/**
 * A component of a path as the session accepts it. `_` replaces what it may not contain, so that a
 * person recognises the file.
 */
export function wireName(name: string, isTopLevel: boolean): string {
  // Macs decompose accents.
  const replaced = name.normalize("NFC").replace(REFUSED, "_");
  if (replaced === "" || replaced === "." || replaced === "..") return "_";
  const hides = replaced.startsWith("-") || (isTopLevel && replaced.startsWith("."));
  return cut(hides ? `_${replaced.slice(1)}` : replaced, NAME_BYTES_MAX);
}

/** The name with a number: `report (2).pdf`. Longer than a name may be, its stem is cut. */
export function numbered(name: string, number: number, hasEnding: boolean): string {
  const at = hasEnding ? name.lastIndexOf(".") : -1;
  const ending = at > 0 ? name.slice(at) : "";
  const suffix = ` (${number})`;
  const room = NAME_BYTES_MAX - bytesOf(suffix) - bytesOf(ending);
  // An ending that leaves no room is part of the name.
  return room > 0
    ? `${cut(ending === "" ? name : name.slice(0, at), room)}${suffix}${ending}`
    : `${cut(name, NAME_BYTES_MAX - bytesOf(suffix))}${suffix}`;
}

export function isWindows(): boolean {
  return navigator.platform.startsWith("Win");
}

/** A component of a path of the session as it is safe here. */
export function localName(name: string, windows: boolean): string {
  // The session's own check has refused these; nothing depends on it.
  let safe = wireName(name, false);
  if (!windows) return safe;
  safe = safe.replace(WINDOWS_REFUSED, "_").replace(/[. ]+$/, (end) => "_".repeat(end.length));
  return cut(WINDOWS_DEVICE.test(safe) ? `_${safe}` : safe, NAME_BYTES_MAX);
}

/** The name of a download: folders cannot be made, so their names precede the file's. */
export function downloadName(path: string, windows: boolean): string {
  const joined = path.split("/").join(" - ");
  const at = joined.lastIndexOf(".");
  const ending = at > 0 && bytesOf(joined.slice(at)) < NAME_BYTES_MAX ? joined.slice(at) : "";
  const stem = cut(
    joined.slice(0, joined.length - ending.length),
    NAME_BYTES_MAX - bytesOf(ending),
  );
  return localName(wireName(stem + ending, true), windows);
}

/** In the units of file managers, rounded up. */
export function sizeOf(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  if (bytes < 1_000_000) return `${Math.ceil(bytes / 1_000)} kB`;
  if (bytes < 1_000_000_000) return `${Math.ceil(bytes / 1_000_000)} MB`;
  const tenths = Math.ceil(bytes / 100_000_000);
  return `${Math.floor(tenths / 10)}.${tenths % 10} GB`;
}

/** A document's title on one line; what changes the direction of writing becomes a space. */
export function titleOf(title: string): string {
  const plain = [...title.replace(DECEPTIVE, " ").trim()];
  if (plain.length === 0) return "Untitled";
  return plain.length > TITLE_MAX ? `${plain.slice(0, TITLE_MAX).join("")}…` : plain.join("");
}

/** Names, number and size of what is sent, for a person. */
export function describe(entries: readonly Entry[]): string {
  const names = entries.filter(({ path }) => !path.includes("/")).map(({ path }) => path);
  const more = names.length - NAMES_MAX;
  const files = entries.filter(({ folder }) => !folder).length;
  const total = entries.reduce((sum, { size }) => sum + size, 0);
  const count = files === 1 && names.length === 1 ? "" : `${files} files, `;
  return (
    `${names.slice(0, NAMES_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""} ` +
    `(${count}${sizeOf(total)})`
  );
}
