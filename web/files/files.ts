// The page's transfers of files: what a person drops on it or chooses goes to the session, and what
// the session sends is saved once the person has said so.
// Path beside the pixels, in both directions: between list.ts and destination.ts, which know the
// browser, and engine/files.ts.
// Knows transfers and what people are told of them; never bytes of the protocol. A transfer
// outlives a connection: on the next one it is offered again, and goes on where it stopped.

import type { FromEngine, ToEngine } from "../engine/messages";
import type { FilesSide } from "../ui/entries";
import { chooseDestination, type Destination, NoRoom, TooManyFiles } from "./destination";
import { Finished } from "./finished";
import { newKey } from "./keys";
import { ListError, type Source } from "./list";
import {
  type Entry,
  FileAnswer,
  FileEnd,
  type FilesCall,
  type FilesEvent,
  type Offered,
  type Place,
} from "./messages";
import { describe, sizeOf } from "./names";

/** As in crates/protocol/src/limits.rs: of each side. */
const TRANSFERS_MAX = 8;
/** A session offers at once what its viewer had received in part. */
export const AGAIN_MS_MAX = 30_000;

/** In which directions this page sends files. */
export interface FilesChoice {
  /** The session may offer files; the person is asked. */
  toViewer: boolean;
  toSession: boolean;
}

/** The choice that `?files=` names; an unknown name permits nothing. */
export function filesChoiceOf(query: string | null): FilesChoice {
  const toViewer = query === null || query === "both" || query === "to-viewer";
  const toSession = query === null || query === "both" || query === "to-session";
  return { toViewer, toSession };
}

/** What the person sees of transfers. */
export interface FilesView {
  /** Asks about these files of the session; undefined: about none. */
  ask(asked: { key: number; words: string } | undefined): void;
  /** Shows how far a transfer is; `cancel` ends it. */
  show(key: number, words: string, share: number, cancel: () => void): void;
  /** The transfer has ended, and this is to be read. */
  fail(key: number, words: string): void;
  /** The transfer has ended. */
  remove(key: number): void;
  /** Whether the session takes files. */
  setGives(gives: boolean): void;
}

export interface FilesOptions {
  choice: FilesChoice;
  view: FilesView;
  send(message: ToEngine, transfer?: Transferable[]): void;
  /** Shows a message to the user for a few seconds. */
  notice(words: string): void;
}

/** Files for the session. */
interface Outgoing {
  key: number;
  sources: readonly Source[];
  words: string;
  total: number;
  dropped: Place | undefined;
  /** The number on this connection; undefined while there is none. */
  id: number | undefined;
  done: number;
}

interface Chunk {
  connection: number;
  entry: number;
  bytes: Uint8Array<ArrayBuffer>;
  last: boolean;
}

/** Files of the session. */
interface Incoming {
  key: number;
  /** The session's number on this connection; undefined while there is none. */
  id: number | undefined;
  identity: string;
  entries: readonly Entry[];
  words: string;
  total: number;
  /** The person is asked; the browser's dialog is open; it was accepted. */
  stage: "asked" | "choosing" | "accepted";
  /** Some of it has arrived: on another connection it goes on there. */
  arrived: boolean;
  destination: Destination | undefined;
  /** Chunks that are not stored. The engine limits them. */
  chunks: Chunk[];
  storing: boolean;
  /** The file that the destination has begun. */
  current: number | undefined;
  /** Files that are not complete. */
  missing: number;
  stored: number;
  /** The session has to offer it again until then. */
  again: ReturnType<typeof setTimeout> | undefined;
}

export class Files {
  private connection = 0;
  private connected = false;
  private gives = false;
  private outgoing: Outgoing[] = [];
  private incoming: Incoming[] = [];
  private readonly finished = new Finished();

  constructor(private readonly options: FilesOptions) {
    // A transfer is lost with the page.
    addEventListener("beforeunload", (event) => {
      if (this.transfers > 0) event.preventDefault();
    });
  }

  /** Tells the engine whether the session may offer files. */
  announce(): void {
    this.options.send({ type: "takeFiles", takes: this.options.choice.toViewer });
  }

  /** For the menu. */
  get side(): FilesSide {
    const isOff = !this.options.choice.toSession;
    return { isOff, missing: undefined, transfers: this.transfers };
  }

  /** How many are sent or received. */
  private get transfers(): number {
    const received = this.incoming.filter(({ stage }) => stage === "accepted");
    return this.outgoing.length + received.length;
  }

  /** Whether a drop would be taken. */
  get takesDrops(): boolean {
    return this.options.choice.toSession && this.connected && this.gives;
  }

  /** The connection was established or lost; `closed`: for good, with the reason. */
  setConnection(connected: boolean, closed?: string): void {
    this.connected = connected;
    if (closed === undefined) return;
    for (const { key, words } of this.outgoing)
      this.options.view.fail(key, `Not sent: ${words}: the connection was closed. ${closed}`);
    for (const one of [...this.incoming])
      this.endIncoming(one, one.stage === "accepted" ? "the connection was closed" : undefined);
    this.outgoing = [];
  }

  handle(message: Extract<FromEngine, { type: "files" }>): void {
    const { connection, event } = message;
    switch (event.name) {
      case "connected":
        this.begin(connection, event.gives);
        break;
      case "offering":
        this.handleOffering(event);
        break;
      case "answered":
        this.handleAnswer(event);
        break;
      case "wanted":
        void this.supply(event);
        break;
      case "ended": {
        const found = this.outgoing.find(({ id }) => id === event.id);
        if (found === undefined) break;
        if (event.why === FileEnd.Done) {
          this.endOutgoing(found);
          this.options.notice(`Sent ${found.words}`);
        } else {
          this.failOutgoing(found, wordsOf(event.why));
        }
        break;
      }
      case "offered":
        this.handleOffer(event);
        break;
      case "data": {
        const found = this.incoming.find(({ id }) => id === event.id);
        if (found === undefined) break;
        const { entry, bytes, last } = event;
        found.arrived = true;
        found.chunks.push({ connection, entry, bytes, last });
        void this.store(found);
        break;
      }
      case "stopped": {
        const found = this.incoming.find(({ id }) => id === event.id);
        if (found)
          this.endIncoming(found, found.stage === "asked" ? undefined : wordsOf(event.why));
        break;
      }
    }
  }

  // To the session

  /** The person wants these files in the session. */
  async give(listed: Promise<Source[]>, dropped?: Place): Promise<void> {
    const { notice, choice } = this.options;
    // Where nothing is sent, nobody is told that nothing could be read.
    listed.catch(() => undefined);
    if (!choice.toSession) return notice("Not sent: this page sends no files (?files=)");
    if (!this.connected) return notice("Not sent: there is no connection");
    if (!this.gives) return notice("Not sent: the session takes no files");
    let sources: Source[];
    try {
      sources = await listed;
    } catch (error) {
      const reason = error instanceof ListError ? error.message : String(error);
      return this.options.view.fail(newKey(), `Not sent: ${reason}`);
    }
    if (sources.length === 0) return;
    if (this.outgoing.length >= TRANSFERS_MAX)
      return notice(
        `Not sent: ${TRANSFERS_MAX} transfers are in progress; try again when one has ended`,
      );
    const entries = sources.map(({ entry }) => entry);
    const total = entries.reduce((sum, { size }) => sum + size, 0);
    const words = describe(entries);
    const key = newKey();
    const one: Outgoing = { key, sources, words, total, dropped, id: undefined, done: 0 };
    this.outgoing.push(one);
    this.showOutgoing(one);
    if (this.connected) this.offer(one);
  }

  private offer({ key, sources, dropped }: Outgoing): void {
    const entries = sources.map(({ entry }) => entry);
    this.call({ name: "offer", key, entries, dropped });
  }

  private handleOffering({ key, id, refusal }: Extract<FilesEvent, { name: "offering" }>): void {
    const one = this.outgoing.find((known) => known.key === key);
    if (one === undefined) {
      // Cancelled meanwhile.
      if (id !== undefined) this.call({ name: "withdraw", id, why: FileEnd.Cancelled });
      return;
    }
    if (id === undefined) this.failOutgoing(one, refusal);
    else one.id = id;
  }

  private handleAnswer({ id, answer, bytes }: Extract<FilesEvent, { name: "answered" }>): void {
    const one = this.outgoing.find((known) => known.id === id);
    if (one === undefined) return;
    const refusal = refusalOf(answer, bytes);
    if (refusal !== undefined) {
      this.failOutgoing(one, refusal);
    } else if (answer === FileAnswer.Yes) {
      one.done = bytes;
      this.showOutgoing(one);
    }
  }

  private async supply(event: Extract<FilesEvent, { name: "wanted" }>): Promise<void> {
    const { id, entry, offset, done } = event;
    const one = this.outgoing.find((known) => known.id === id);
    const source = one?.sources[entry];
    if (one === undefined || source?.file === undefined) return;
    const { connection } = this;
    one.done = done;
    this.showOutgoing(one);
    try {
      const slice = source.file.slice(offset, offset + event.bytes);
      const bytes = new Uint8Array(await slice.arrayBuffer());
      this.call({ name: "supply", id, entry, offset, bytes }, connection, [bytes.buffer]);
    } catch {
      if (connection !== this.connection || !this.outgoing.includes(one)) return;
      this.call({ name: "withdraw", id, why: FileEnd.Changed });
      this.failOutgoing(one, `${source.entry.path} was changed, or cannot be read any more`);
    }
  }

  private cancelOutgoing(one: Outgoing): void {
    if (one.id !== undefined) this.call({ name: "withdraw", id: one.id, why: FileEnd.Cancelled });
    this.endOutgoing(one);
    this.options.notice(`Cancelled: ${one.words}`);
  }

  private failOutgoing(one: Outgoing, reason: string): void {
    this.outgoing = this.outgoing.filter((other) => other !== one);
    this.options.view.fail(one.key, `Not sent: ${one.words}: ${reason}`);
  }

  private endOutgoing(one: Outgoing): void {
    this.outgoing = this.outgoing.filter((other) => other !== one);
    this.options.view.remove(one.key);
  }

  private showOutgoing(one: Outgoing): void {
    this.options.view.show(one.key, `Sending ${one.words}`, shareOf(one.done, one.total), () =>
      this.cancelOutgoing(one),
    );
  }

  // From the session

  /** The person's answer to the question; true if there was one. Called in their gesture. */
  answer(takes: boolean): boolean {
    const asked = this.incoming.find(({ stage }) => stage === "asked");
    if (asked === undefined) return false;
    if (takes) {
      void this.accept(asked);
    } else {
      if (asked.id !== undefined) this.refuse(asked.id, FileAnswer.No);
      this.endIncoming(asked, undefined);
      this.options.notice("Refused");
    }
    return true;
  }

  private handleOffer({ id, identity, total, entries, ticket }: Offered): void {
    // What is printed is printing.ts' part.
    if (ticket !== undefined) return;
    if (this.finished.has(identity, this.connection)) {
      this.call({ name: "accept", id, accepts: "complete" });
      this.call({ name: "finish", id });
      return;
    }
    const before = this.incoming.find(
      (known) => known.identity === identity && known.id === undefined,
    );
    if (before !== undefined) {
      clearTimeout(before.again);
      before.id = id;
      if (before.stage !== "accepted") this.call({ name: "ask", id });
      else this.tellAccepted(before);
      return;
    }
    this.call({ name: "ask", id });
    this.incoming.push({
      key: newKey(),
      id,
      identity,
      entries,
      words: describe(entries),
      total,
      stage: "asked",
      arrived: false,
      destination: undefined,
      chunks: [],
      storing: false,
      current: undefined,
      missing: entries.filter(({ folder }) => !folder).length,
      stored: 0,
      again: undefined,
    });
    this.ask();
  }

  private async accept(one: Incoming): Promise<void> {
    one.stage = "choosing";
    this.ask();
    try {
      one.destination = await chooseDestination(one.entries, one.total);
    } catch (error) {
      if (!this.incoming.includes(one)) return;
      if (one.id !== undefined) {
        if (!(error instanceof NoRoom)) this.refuse(one.id, FileAnswer.No);
        else if (error.why === "space") this.refuse(one.id, FileAnswer.Space, error.bytes);
        else this.refuse(one.id, FileAnswer.TooLarge, error.bytes);
      }
      this.endIncoming(one, destinationError(error));
      return;
    }
    if (!this.incoming.includes(one)) {
      await one.destination?.discard();
    } else if (one.destination === undefined) {
      one.stage = "asked";
      this.ask();
    } else {
      one.stage = "accepted";
      this.showIncoming(one);
      this.tellAccepted(one);
    }
  }

  /** Tells the session that the person has accepted, if it is there. */
  private tellAccepted(one: Incoming): void {
    if (one.id === undefined) return;
    const accepts = one.arrived ? "continue" : "begin";
    this.call({ name: "accept", id: one.id, accepts });
    // Only folders: nothing follows.
    void this.store(one);
  }

  /** Stores what has arrived, in order; all that waits for the same file is written at once. */
  private async store(one: Incoming): Promise<void> {
    const { destination } = one;
    if (one.storing || destination === undefined) return;
    one.storing = true;
    try {
      while (one.chunks.length > 0) {
        await this.storeNext(one, destination);
        if (!this.incoming.includes(one)) return;
      }
      one.storing = one.missing === 0;
      if (one.missing > 0) return;
      const place = await destination.finish();
      if (!this.incoming.includes(one)) return;
      this.finished.add(one.identity, one.id === undefined ? 0 : this.connection);
      if (one.id !== undefined) this.call({ name: "finish", id: one.id });
      clearTimeout(one.again);
      this.incoming = this.incoming.filter((other) => other !== one);
      this.options.view.remove(one.key);
      this.options.notice(`Received ${one.words}, in ${place}`);
    } catch (error) {
      if (!this.incoming.includes(one)) return;
      const isFull = error instanceof DOMException && error.name === "QuotaExceededError";
      const why = isFull ? FileEnd.Space : FileEnd.Failed;
      if (one.id !== undefined) this.call({ name: "stop", id: one.id, why });
      this.endIncoming(one, destinationError(error));
    }
  }

  private async storeNext(one: Incoming, destination: Destination): Promise<void> {
    const [first] = one.chunks;
    if (first === undefined) return;
    const { connection, entry } = first;
    const others = one.chunks.findIndex(
      (chunk) => chunk.entry !== entry || chunk.connection !== connection,
    );
    const chunks = one.chunks.splice(0, others < 0 ? one.chunks.length : others);
    const file = one.entries[entry];
    if (file === undefined) throw new Error(`there is no entry ${entry}`);
    if (one.current !== entry) await destination.begin(file);
    one.current = entry;
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0);
    if (bytes > 0) await destination.write(chunks.map((chunk) => chunk.bytes));
    if (chunks.at(-1)?.last) {
      await destination.end();
      one.missing -= 1;
      one.current = undefined;
    }
    one.stored += bytes;
    if (!this.incoming.includes(one)) return;
    this.showIncoming(one);
    // What an earlier connection has brought, the next one counts as stored.
    if (one.id !== undefined) this.call({ name: "stored", id: one.id, bytes }, connection);
  }

  private cancelIncoming(one: Incoming): void {
    if (one.id !== undefined) this.call({ name: "stop", id: one.id, why: FileEnd.Cancelled });
    this.endIncoming(one, undefined);
    this.options.notice(`Cancelled: ${one.words}`);
  }

  /** Without a reason it is none that a person is told. */
  private endIncoming(one: Incoming, reason: string | undefined): void {
    clearTimeout(one.again);
    this.incoming = this.incoming.filter((other) => other !== one);
    // A write may be in progress, and fail because of this.
    void one.destination?.discard().catch(() => undefined);
    if (reason === undefined) this.options.view.remove(one.key);
    else this.options.view.fail(one.key, `Not received: ${one.words}: ${reason}`);
    this.ask();
  }

  private showIncoming(one: Incoming): void {
    const share = shareOf(one.stored, one.total);
    this.options.view.show(one.key, `Receiving ${one.words}`, share, () =>
      this.cancelIncoming(one),
    );
  }

  /** Asks about the oldest offer that waits. */
  private ask(): void {
    const asked = this.incoming.find(({ stage }) => stage === "asked");
    this.options.view.ask(asked && { key: asked.key, words: `The session sends ${asked.words}.` });
  }

  private refuse(id: number, answer: FileAnswer, bytes = 0): void {
    this.call({ name: "refuse", id, answer, bytes });
  }

  // Both

  /** A session has answered on a new connection: what is not complete is offered again. */
  private begin(connection: number, gives: boolean): void {
    this.connection = connection;
    this.connected = true;
    this.gives = gives;
    this.options.view.setGives(gives && this.options.choice.toSession);
    for (const one of this.incoming) {
      one.id = undefined;
      clearTimeout(one.again);
      one.again = setTimeout(() => {
        const isAccepted = one.stage === "accepted";
        this.endIncoming(one, isAccepted ? "the session did not send the rest" : undefined);
      }, AGAIN_MS_MAX);
    }
    for (const one of [...this.outgoing]) {
      one.id = undefined;
      if (gives) this.offer(one);
      else this.failOutgoing(one, "the session takes no files");
    }
  }

  private call(call: FilesCall, connection = this.connection, transfer?: Transferable[]): void {
    this.options.send({ type: "files", connection, call }, transfer);
  }
}

export function shareOf(done: number, total: number): number {
  return total === 0 ? 1 : Math.min(1, done / total);
}

/** Why there is no destination, or why nothing can be written there any more. */
function destinationError(error: unknown): string {
  if (error instanceof NoRoom)
    return error.why === "space"
      ? `this browser has room for ${sizeOf(error.bytes)} only`
      : `this browser saves at most ${sizeOf(error.bytes)} at a time`;
  if (error instanceof TooManyFiles) return error.message;
  if (error instanceof DOMException && error.name === "QuotaExceededError")
    return "there is not enough room";
  return error instanceof Error ? error.message : String(error);
}

/** Why a transfer ended, for a person. */
export function wordsOf(why: FileEnd): string {
  switch (why) {
    case FileEnd.Done:
      return "done";
    case FileEnd.Cancelled:
      return "it was cancelled in the session";
    case FileEnd.Changed:
      return "a file was changed while it was read; try again";
    case FileEnd.Space:
      return "there is not enough room";
    case FileEnd.Failed:
      return "it failed, or made no progress";
    case FileEnd.Policy:
      return "it is not allowed any more";
    case FileEnd.Mismatch:
      return "what arrived was damaged; try again";
  }
}

/** Why an offer was refused, for a person; undefined if it was not. */
function refusalOf(answer: FileAnswer, bytes: number): string | undefined {
  switch (answer) {
    case FileAnswer.Yes:
    case FileAnswer.Asking:
      return undefined;
    case FileAnswer.No:
      return "the session does not take it";
    case FileAnswer.Policy:
      return "the session takes no files";
    case FileAnswer.Space:
      return `the session has room for ${sizeOf(bytes)} only`;
    case FileAnswer.TooLarge:
      return `the session takes at most ${sizeOf(bytes)}`;
    case FileAnswer.Busy:
      return "too many transfers wait there; try again later";
  }
}
