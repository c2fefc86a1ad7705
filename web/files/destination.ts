// Where received files go: downloads of the browser, which are collected as blobs or in the
// origin's private file system; a file or a folder that the person chooses.
// Path beside the pixels: under files.ts, to the browser.
// Knows names and bytes; never the session. Nothing is replaced, except a file that the person
// names in the browser's own dialog.

import type { Entry } from "./messages";
import { downloadName, isWindows, localName, numbered } from "./names";

/** So much is collected as blobs, which some browsers keep in memory. */
const BLOB_BYTES_MAX = 64 * 1024 * 1024;
/** The same where there is no other place. */
const ONLY_BLOB_BYTES_MAX = 256 * 1024 * 1024;
/** From this size on, the person is asked where to save, so that bytes are written only once. */
const CHOICE_BYTES_MIN = 256 * 1024 * 1024;
/**
 * More files, and folders, go to a folder that the person chooses, where a browser lets them: each
 * download may be a question of the browser.
 */
const FOLDER_FILES_MIN = 10;
/** More files are not saved one by one. */
const DOWNLOADS_MAX = 100;
/** Chromium drops downloads that begin faster than ten in a second, and tells nobody. */
const DOWNLOAD_PAUSE_MS = 150;
/** How fast a browser at least copies a download, in bytes a millisecond. */
const COPIED_PER_MS = 20_000;
/** … and how long it takes to begin. */
const COPY_MS_MIN = 60_000;
/** The folder in the private file system, and how long what is there is kept. */
const PRIVATE_FOLDER = "received";
const PRIVATE_AGE_MS_MAX = 24 * 60 * 60 * 1000;

/** Files of one transfer, in the order of their entries. */
export interface Destination {
  begin(entry: Entry): Promise<void>;
  write(parts: Uint8Array<ArrayBuffer>[]): Promise<void>;
  /** The file that has begun is complete. */
  end(): Promise<void>;
  /** All are; resolves with where they are, for a person. */
  finish(): Promise<string>;
  /** Removes what is there. */
  discard(): Promise<void>;
}

/** Why there is no destination. */
export class NoRoom extends Error {
  constructor(
    /** Bytes that there is room for, or that this browser saves. */
    readonly bytes: number,
    readonly why: "space" | "too large",
  ) {
    super(why);
  }
}

/** More files than this browser saves without a folder. */
export class TooManyFiles extends Error {
  constructor(files: number) {
    super(
      `there are ${files} files, and this browser saves at most ${DOWNLOADS_MAX} at a time; ` +
        "an archive is one file",
    );
  }
}

interface Pickers {
  showSaveFilePicker?(options: { suggestedName: string }): Promise<FileSystemFileHandle>;
  showDirectoryPicker?(options: {
    id: string;
    mode: "readwrite";
  }): Promise<FileSystemDirectoryHandle>;
}

/**
 * Called in the gesture in which the person accepts. Undefined if they have closed the browser's
 * dialog.
 */
export async function chooseDestination(
  entries: readonly Entry[],
  total: number,
): Promise<Destination | undefined> {
  const files = entries.filter(({ folder }) => !folder);
  const pickers = window as Pickers;
  try {
    const wantsFolder = files.length < entries.length || files.length >= FOLDER_FILES_MIN;
    if (wantsFolder && pickers.showDirectoryPicker) {
      const options = { id: "thinc", mode: "readwrite" } as const;
      return await Folder.prepare(await pickers.showDirectoryPicker(options), entries);
    }
    const [only] = files;
    if (only && total > CHOICE_BYTES_MIN && pickers.showSaveFilePicker) {
      const suggestedName = downloadName(only.path, isWindows());
      return new ChosenFile(await pickers.showSaveFilePicker({ suggestedName }));
    }
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    if (error.name === "AbortError") return undefined;
    // The browser or its administrator allows no dialog; the others need none.
    if (error.name !== "SecurityError" && error.name !== "NotAllowedError") throw error;
  }
  if (files.length > DOWNLOADS_MAX) throw new TooManyFiles(files.length);
  if (total <= BLOB_BYTES_MAX) return new Downloads(newBlob);
  const folder = await privateFolder(total);
  if (folder !== undefined) return new Downloads(() => privateFile(folder), folder.remove);
  if (total > ONLY_BLOB_BYTES_MAX) throw new NoRoom(ONLY_BLOB_BYTES_MAX, "too large");
  return new Downloads(newBlob);
}

// Downloads

/** Where the bytes of one download are collected. */
interface Collector {
  write(parts: Uint8Array<ArrayBuffer>[]): Promise<void>;
  close(): Promise<Blob>;
  abort(): Promise<void>;
}

class Downloads implements Destination {
  private readonly complete: { name: string; content: Blob }[] = [];
  private current: { name: string; collector: Collector } | undefined;

  constructor(
    private readonly collect: () => Promise<Collector>,
    private readonly remove: () => Promise<void> = () => Promise.resolve(),
  ) {}

  async begin({ path }: Entry): Promise<void> {
    this.current = { name: downloadName(path, isWindows()), collector: await this.collect() };
  }

  async write(parts: Uint8Array<ArrayBuffer>[]): Promise<void> {
    await this.current?.collector.write(parts);
  }

  async end(): Promise<void> {
    if (this.current === undefined) return;
    const { name, collector } = this.current;
    this.complete.push({ name, content: await collector.close() });
    this.current = undefined;
  }

  async finish(): Promise<string> {
    const urls: string[] = [];
    let bytes = 0;
    for (const [index, { name, content }] of this.complete.entries()) {
      if (index > 0) await new Promise((resolve) => setTimeout(resolve, DOWNLOAD_PAUSE_MS));
      urls.push(beginDownload(name, content));
      bytes += content.size;
    }
    onceCopied(bytes, () => {
      for (const url of urls) URL.revokeObjectURL(url);
      void this.remove();
    });
    return "the browser's downloads";
  }

  async discard(): Promise<void> {
    await this.current?.collector.abort();
    await this.remove();
  }
}

/** The browser saves it under this name. Returns the URL that it copies it from. */
function beginDownload(name: string, content: Blob): string {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  return link.href;
}

/** No event tells that the browser has copied so many bytes. */
function onceCopied(bytes: number, call: () => void): void {
  setTimeout(call, COPY_MS_MIN + bytes / COPIED_PER_MS);
}

/** One download, of what is in the browser already. */
export function download(name: string, content: Blob): void {
  const url = beginDownload(name, content);
  onceCopied(content.size, () => URL.revokeObjectURL(url));
}

async function newBlob(): Promise<Collector> {
  const blobs: Blob[] = [];
  return {
    // A blob's bytes are the browser's, and not this page's, from here on.
    write: async (parts) => void blobs.push(new Blob(parts)),
    close: async () => new Blob(blobs),
    abort: async () => void blobs.splice(0),
  };
}

/** A folder of this transfer in the origin's private file system. */
interface PrivateFolder {
  handle: FileSystemDirectoryHandle;
  files: number;
  remove(): Promise<void>;
}

/** Undefined if this browser has no such file system, or does not let a page write there. */
async function privateFolder(total: number): Promise<PrivateFolder | undefined> {
  if (
    typeof FileSystemFileHandle !== "function" ||
    !("createWritable" in FileSystemFileHandle.prototype)
  )
    return undefined;
  let all: FileSystemDirectoryHandle;
  try {
    const root = await navigator.storage.getDirectory();
    all = await root.getDirectoryHandle(PRIVATE_FOLDER, { create: true });
    await removeOld(all);
  } catch {
    // A private window has none.
    return undefined;
  }
  const { quota = 0, usage = 0 } = await navigator.storage.estimate();
  if (total > quota - usage) throw new NoRoom(Math.max(0, quota - usage), "space");
  const name = `${Date.now()}-${crypto.randomUUID()}`;
  const handle = await all.getDirectoryHandle(name, { create: true });
  const remove = () => all.removeEntry(name, { recursive: true }).catch(() => undefined);
  return { handle, files: 0, remove };
}

/** Pages that were closed have left files. */
async function removeOld(all: FileSystemDirectoryHandle): Promise<void> {
  const names: string[] = [];
  for await (const name of (all as unknown as { keys(): AsyncIterable<string> }).keys())
    names.push(name);
  for (const name of names) {
    const ageMs = Date.now() - Number.parseInt(name, 10);
    // One that another tab writes is in use, and is kept.
    if (!(ageMs < PRIVATE_AGE_MS_MAX))
      await all.removeEntry(name, { recursive: true }).catch(() => undefined);
  }
}

async function privateFile(folder: PrivateFolder): Promise<Collector> {
  folder.files += 1;
  const file = await folder.handle.getFileHandle(String(folder.files), { create: true });
  const writable = await file.createWritable();
  return {
    write: (parts) => writable.write(new Blob(parts)),
    close: async () => {
      await writable.close();
      return file.getFile();
    },
    abort: () => writable.abort(),
  };
}

// What the person chooses

class ChosenFile implements Destination {
  private writable: FileSystemWritableFileStream | undefined;

  constructor(private readonly file: FileSystemFileHandle) {}

  async begin(): Promise<void> {
    this.writable = await this.file.createWritable();
  }

  async write(parts: Uint8Array<ArrayBuffer>[]): Promise<void> {
    await this.writable?.write(new Blob(parts));
  }

  async end(): Promise<void> {}

  async finish(): Promise<string> {
    // Until then its name has what it had before.
    await this.writable?.close();
    return this.file.name;
  }

  async discard(): Promise<void> {
    await this.writable?.abort();
  }
}

class Folder implements Destination {
  /** Folders of the transfer by their paths, "" for the chosen one. */
  private readonly folders = new Map<string, FileSystemDirectoryHandle>();
  /** What is in the chosen folder because of this transfer. */
  private readonly made: string[] = [];
  private writable: FileSystemWritableFileStream | undefined;

  private constructor(private readonly chosen: FileSystemDirectoryHandle) {
    this.folders.set("", chosen);
  }

  static async prepare(
    chosen: FileSystemDirectoryHandle,
    entries: readonly Entry[],
  ): Promise<Folder> {
    const folder = new Folder(chosen);
    for (const { path } of entries.filter((entry) => entry.folder)) {
      const made = await folder.make(path, true, (parent, name) =>
        parent.getDirectoryHandle(name, { create: true }),
      );
      folder.folders.set(path, made);
    }
    return folder;
  }

  async begin({ path }: Entry): Promise<void> {
    const file = await this.make(path, false, (parent, name) =>
      parent.getFileHandle(name, { create: true }),
    );
    this.writable = await file.createWritable();
  }

  async write(parts: Uint8Array<ArrayBuffer>[]): Promise<void> {
    await this.writable?.write(new Blob(parts));
  }

  async end(): Promise<void> {
    await this.writable?.close();
    this.writable = undefined;
  }

  async finish(): Promise<string> {
    return this.chosen.name;
  }

  async discard(): Promise<void> {
    await this.writable?.abort();
    for (const name of this.made)
      await this.chosen.removeEntry(name, { recursive: true }).catch(() => undefined);
  }

  /** Makes the entry under a name that is free and that the browser accepts. */
  private async make<T>(
    path: string,
    isFolder: boolean,
    create: (parent: FileSystemDirectoryHandle, name: string) => Promise<T>,
  ): Promise<T> {
    const at = path.lastIndexOf("/");
    const parent = this.folders.get(at < 0 ? "" : path.slice(0, at));
    if (parent === undefined) throw new Error(`${path} has no folder`);
    const wanted = localName(path.slice(at + 1), isWindows());
    try {
      return await this.makeFree(parent, wanted, isFolder, create);
    } catch (error) {
      // Browsers refuse the endings of shortcuts, and others that their systems act on.
      if (!(error instanceof TypeError)) throw error;
      return this.makeFree(parent, `${wanted}_`, isFolder, create);
    }
  }

  private async makeFree<T>(
    parent: FileSystemDirectoryHandle,
    wanted: string,
    isFolder: boolean,
    create: (parent: FileSystemDirectoryHandle, name: string) => Promise<T>,
  ): Promise<T> {
    let name = wanted;
    for (let number = 2; await exists(parent, name); number += 1)
      name = numbered(wanted, number, !isFolder);
    const made = await create(parent, name);
    if (parent === this.chosen) this.made.push(name);
    return made;
  }
}

async function exists(parent: FileSystemDirectoryHandle, name: string): Promise<boolean> {
  try {
    await parent.getFileHandle(name);
    return true;
  } catch (error) {
    if (!(error instanceof DOMException)) throw error;
    // A folder has this name.
    if (error.name === "TypeMismatchError") return true;
    if (error.name === "NotFoundError") return false;
    throw error;
  }
}
