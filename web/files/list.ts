// Lists the files and folders that a person drops on the page or chooses, with what is in them.
// Path back, beside the pixels: from the browser's events, to files.ts.
// Knows names, sizes and limits; reads no content.

import type { Entry } from "./messages";
import { bytesOf, numbered, wireName } from "./names";

// As in crates/protocol/src/limits.rs; the engine checks them again.
const ENTRIES_MAX = 10_000;
const DEPTH_MAX = 32;
const PATH_BYTES_MAX = 1024;

/** An entry of an offer; a folder has no file. */
export interface Source {
  entry: Entry;
  file: File | undefined;
}

/** What cannot be sent, as a sentence without its end. */
export class ListError extends Error {}

/** What a person has chosen: files only. */
export async function listFiles(files: Iterable<File>): Promise<Source[]> {
  const list = new List();
  const names = new Set<string>();
  for (const file of files) list.add(freeName(file.name, "", names, true), file);
  return list.sources;
}

/** What was dropped. Called within the event: afterwards its data is gone. */
export function listDropped(data: DataTransfer): Promise<Source[]> {
  const roots = [...data.items]
    .filter(({ kind }) => kind === "file")
    .map((item) => item.webkitGetAsEntry() ?? item.getAsFile())
    .filter((root) => root !== null);
  return walk(roots);
}

class List {
  readonly sources: Source[] = [];

  add(path: string, file: File | undefined): void {
    if (this.sources.length === ENTRIES_MAX)
      throw new ListError(
        `there are more than ${ENTRIES_MAX} files and folders, which is the limit at a time`,
      );
    const bytes = bytesOf(path);
    if (bytes > PATH_BYTES_MAX)
      throw new ListError(
        `the path ${path.slice(0, 80)}… has ${bytes} bytes, and ${PATH_BYTES_MAX} is the limit`,
      );
    const depth = path.split("/").length;
    if (depth > DEPTH_MAX)
      throw new ListError(
        `${path.slice(0, 80)}… is in ${depth - 1} folders, and ${DEPTH_MAX - 1} is the limit`,
      );
    const { size = 0, lastModified = 0 } = file ?? {};
    const modifiedMs = Math.max(0, Math.round(lastModified));
    this.sources.push({ entry: { folder: file === undefined, size, modifiedMs, path }, file });
  }
}

/** A name that the session accepts, and that no other entry of the folder has. */
function freeName(name: string, folder: string, taken: Set<string>, hasEnding: boolean): string {
  const wire = wireName(name, folder === "");
  let free = wire;
  for (let number = 2; taken.has(free); number += 1) free = numbered(wire, number, hasEnding);
  taken.add(free);
  return folder === "" ? free : `${folder}/${free}`;
}

async function walk(roots: readonly (FileSystemEntry | File)[]): Promise<Source[]> {
  const list = new List();
  const add = async (within: readonly (FileSystemEntry | File)[], folder: string) => {
    const names = new Set<string>();
    for (const one of within) {
      const isFolder = !(one instanceof File) && one.isDirectory;
      const path = freeName(one.name, folder, names, !isFolder);
      try {
        if (isFolder) {
          list.add(path, undefined);
          await add(await contentOf(one as FileSystemDirectoryEntry), path);
        } else {
          list.add(path, one instanceof File ? one : await fileOf(one as FileSystemFileEntry));
        }
      } catch (error) {
        if (error instanceof ListError) throw error;
        throw new ListError(`${path} cannot be read`);
      }
    }
  };
  await add(roots, "");
  return list.sources;
}

function fileOf(entry: FileSystemFileEntry): Promise<File> {
  return new Promise((resolve, reject) => entry.file(resolve, reject));
}

/** In the order of their names, so that the same folder is the same offer again. */
async function contentOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  // Browsers give some at a time, and none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (some.length === 0) break;
    all.push(...some);
    if (all.length > ENTRIES_MAX)
      throw new ListError(
        `${folder.name} has more than ${ENTRIES_MAX} files and folders, ` +
          "which is the limit at a time",
      );
  }
  return all.sort((a, b) => (a.name < b.name ? -1 : 1));
}
