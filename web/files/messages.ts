// Messages about files between page and engine.
// Beside the path, in both directions: files.ts on one side, engine/files.ts on the other.
// Plain data only. Numbers of transfers are those of one connection.

/** Why a transfer ends; as `FileEnd` of crates/protocol/src/file.rs. */
export enum FileEnd {
  Done = 0,
  Cancelled = 1,
  Changed = 2,
  Space = 3,
  Failed = 4,
  Policy = 5,
  Mismatch = 6,
}

/** Answers to an offer; as `FileAnswer` there is encoded. */
export enum FileAnswer {
  No = 0,
  Yes = 1,
  Asking = 2,
  Policy = 3,
  Space = 4,
  TooLarge = 5,
  Busy = 6,
}

/** How an offer is accepted: from the beginning, from where the last connection was lost, … */
export type Accepts = "begin" | "continue" | "complete";

/** A file, or a folder, which precedes what it contains. */
export interface Entry {
  folder: boolean;
  /** 0 for a folder. */
  size: number;
  /** Milliseconds since 1970; 0 if unknown. */
  modifiedMs: number;
  /** Relative, with `/` between its components. */
  path: string;
}

/**
 * What a program wants of a document that it prints; as `PrintTicket` of
 * crates/protocol/src/print.rs, without the paper, whose size is the document's.
 */
export interface Ticket {
  title: string;
  copies: number;
  sides: Sides;
  colour: boolean;
}

/** Sides of the paper; "long": both, turned over the long edge. In the order of their numbers. */
export const SIDES = ["one", "long", "short"] as const;
export type Sides = (typeof SIDES)[number];

/** A pixel of the session's screen. */
export interface Place {
  x: number;
  y: number;
}

/** Calls of the page; one that belongs to an earlier connection is ignored. */
export type FilesCall =
  /** Offers files, under the page's own number; `offering` answers. */
  | { name: "offer"; key: number; entries: Entry[]; dropped: Place | undefined }
  /** Answers `wanted`. */
  | { name: "supply"; id: number; entry: number; offset: number; bytes: Uint8Array<ArrayBuffer> }
  | { name: "withdraw"; id: number; why: FileEnd }
  /** The user is asked. */
  | { name: "ask"; id: number }
  | { name: "accept"; id: number; accepts: Accepts }
  | { name: "refuse"; id: number; answer: FileAnswer; bytes: number }
  /** So much of what has arrived is stored. */
  | { name: "stored"; id: number; bytes: number }
  /** All files are where they belong. */
  | { name: "finish"; id: number }
  | { name: "stop"; id: number; why: FileEnd };

/**
 * The session offers files, or with a ticket one document that a program prints. The same files
 * have the same identity on each connection.
 */
export interface Offered {
  name: "offered";
  id: number;
  identity: string;
  total: number;
  entries: Entry[];
  ticket: Ticket | undefined;
}

/** Events for the page. */
export type FilesEvent =
  /** A session has answered on this connection; `gives`: it takes files. */
  | { name: "connected"; gives: boolean }
  /** The offer's number; undefined if it is none, with the reason. */
  | { name: "offering"; key: number; id: number | undefined; refusal: string }
  /** `bytes`: with Yes, those that the session has already; else those that it has room for. */
  | { name: "answered"; id: number; answer: FileAnswer; bytes: number }
  /** These bytes are needed; `done`: bytes that the session has stored. */
  | { name: "wanted"; id: number; entry: number; offset: number; bytes: number; done: number }
  | { name: "ended"; id: number; why: FileEnd }
  | Offered
  | {
      name: "data";
      id: number;
      entry: number;
      offset: number;
      bytes: Uint8Array<ArrayBuffer>;
      /** The file is complete, and its hash is right. */
      last: boolean;
    }
  | { name: "stopped"; id: number; why: FileEnd };
