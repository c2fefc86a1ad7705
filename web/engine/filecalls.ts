// The files channel of viewer-core in WASM, seen from TypeScript.
// Path 11/13, beside the pixels: under decoder.ts, from files.ts, to crates/viewer-web.
// Calls and copies only.

import {
  type Accepts,
  type Entry,
  type FileAnswer,
  type FileEnd,
  type FilesEvent,
  type Offered,
  type Place,
  SIDES,
  type Ticket,
} from "../files/messages";
import type { DecoderMemory } from "./memory";

/** Exports of crates/viewer-web/src/lib.rs. */
export interface FileExports {
  viewer_take_files(takes: number): void;
  viewer_take_prints(prints: number): void;
  viewer_gives_files(): number;
  viewer_prints(): number;
  viewer_file_offer(bytes: number, x: number, y: number, nowUs: number): number;
  viewer_file_supply(id: number, entry: number, offset: number, bytes: number, nowUs: number): void;
  viewer_file_withdraw(id: number, why: number, nowUs: number): void;
  viewer_file_ask(id: number, nowUs: number): void;
  viewer_file_accept(id: number, accepts: number, nowUs: number): number;
  viewer_file_refuse(id: number, answer: number, bytes: number, nowUs: number): void;
  viewer_file_stored(id: number, chunks: number, bytes: number, nowUs: number): void;
  viewer_file_finish(id: number, nowUs: number): void;
  viewer_file_stop(id: number, why: number, nowUs: number): void;
  viewer_file_event(nowUs: number): number;
  viewer_file_at(): number;
  viewer_file_bytes(): number;
}

/** Stands for "not dropped": no screen has such a pixel. */
const NO_PLACE: Place = { x: 0xffff_ffff, y: 0xffff_ffff };

export class FileCalls {
  constructor(
    private readonly calls: FileExports,
    private readonly memory: DecoderMemory,
  ) {}

  /** Whether the page receives files, and whether it prints; before `open`. */
  take(takes: boolean, prints: boolean): void {
    this.calls.viewer_take_files(Number(takes));
    this.calls.viewer_take_prints(Number(prints));
  }

  /** Whether the session takes files. */
  get gives(): boolean {
    return this.calls.viewer_gives_files() !== 0;
  }

  /** Whether the session's programs print here. */
  get prints(): boolean {
    return this.calls.viewer_prints() !== 0;
  }

  /** The offer's number; undefined if it is none, and `refusal` says why. */
  offer(entries: readonly Entry[], dropped: Place | undefined, nowUs: number): number | undefined {
    const lines = entries.map(
      ({ folder, size, modifiedMs, path }) =>
        `${Number(folder)}\t${size}\t${modifiedMs}\t${path}\n`,
    );
    const bytes = this.memory.write(new TextEncoder().encode(lines.join("")));
    const { x, y } = dropped ?? NO_PLACE;
    return this.calls.viewer_file_offer(bytes, x, y, nowUs) >>> 0 || undefined;
  }

  /** Why the last offer was none. */
  refusal(): string {
    return this.memory.text();
  }

  supply(id: number, entry: number, offset: number, bytes: Uint8Array, nowUs: number): void {
    this.calls.viewer_file_supply(id, entry, offset, this.memory.write(bytes), nowUs);
  }

  withdraw(id: number, why: FileEnd, nowUs: number): void {
    this.calls.viewer_file_withdraw(id, why, nowUs);
  }

  ask(id: number, nowUs: number): void {
    this.calls.viewer_file_ask(id, nowUs);
  }

  /** False if the transfer cannot go on where the last connection was lost. */
  accept(id: number, accepts: Accepts, nowUs: number): boolean {
    const number = ["begin", "continue", "complete"].indexOf(accepts);
    return this.calls.viewer_file_accept(id, number, nowUs) !== 0;
  }

  refuse(id: number, answer: FileAnswer, bytes: number, nowUs: number): void {
    this.calls.viewer_file_refuse(id, answer, bytes, nowUs);
  }

  stored(id: number, chunks: number, bytes: number, nowUs: number): void {
    this.calls.viewer_file_stored(id, chunks, bytes, nowUs);
  }

  finish(id: number, nowUs: number): void {
    this.calls.viewer_file_finish(id, nowUs);
  }

  stop(id: number, why: FileEnd, nowUs: number): void {
    this.calls.viewer_file_stop(id, why, nowUs);
  }

  /** The next event, or undefined. Its numbers are those of `FileEventKind` in page/files.rs. */
  event(nowUs: number): FilesEvent | undefined {
    const kind = this.calls.viewer_file_event(nowUs);
    if (kind === 0) return undefined;
    const [id = 0, b = 0, c = 0, d = 0, e = 0] = this.memory.fields();
    switch (kind) {
      case 1:
        return { name: "offered", id, total: b, ...offerOf(this.memory.text()) };
      case 2: {
        const at = this.calls.viewer_file_at();
        const bytes = this.memory.bytes(at, this.calls.viewer_file_bytes());
        return { name: "data", id, entry: b, offset: c, bytes, last: d !== 0 };
      }
      case 3:
        return { name: "stopped", id, why: b };
      case 4:
        return { name: "answered", id, answer: b, bytes: c };
      case 5:
        return { name: "wanted", id, entry: b, offset: c, bytes: d, done: e };
      default:
        return { name: "ended", id, why: b };
    }
  }
}

/** The lines of an offer, as `FileEventKind::Offered` has them. */
function offerOf(lines: string): Pick<Offered, "identity" | "entries" | "ticket"> {
  const [first = "", ...rest] = lines.split("\n");
  const [identity = "", ...wanted] = first.split("\t");
  const entries = rest.map((line) => {
    const [kind = "", size = "", modified = "", path = ""] = line.split("\t");
    return { folder: kind === "1", size: Number(size), modifiedMs: Number(modified), path };
  });
  return { identity, entries, ticket: wanted.length > 0 ? ticketOf(wanted) : undefined };
}

function ticketOf([copies, sides, colour, title = ""]: readonly string[]): Ticket {
  return {
    title,
    copies: Number(copies),
    sides: SIDES[Number(sides)] ?? "one",
    colour: colour === "1",
  };
}
