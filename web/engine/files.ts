// Files on their way through the engine: what the page reads goes to the session, what the session
// sends or prints to the page.
// Path 11/13, beside the pixels: from decoder.ts, to files/{files,printing}.ts, and back.
// Knows connections, so that no call reaches another one than it is for; never a file.

import { FileEnd, type FilesCall } from "../files/messages";
import type { Decoder } from "./decoder";
import { type FromEngine, nowUs, type ToEngine } from "./messages";

/**
 * So much of a transfer may wait for the page to store it; the session is told at once that it was
 * taken. A browser writes in its own time, which must not look like a queue on the path.
 */
const AHEAD_BYTES_MAX = 4 * 1024 * 1024;

/** Content on its way to the page. */
interface Flow {
  /** Posted, and not stored. */
  unstored: number;
  /** What of it the session has not been told of. */
  chunks: number;
  bytes: number;
}

const NO_FLOW: Flow = { unstored: 0, chunks: 0, bytes: 0 };

export class EngineFiles {
  private takes = false;
  private prints = false;
  /** Counts connections. */
  private connection = 0;
  /** Of this connection's transfers from the session. */
  private readonly flows = new Map<number, Flow>();

  constructor(
    private readonly post: (message: FromEngine, transfer?: Transferable[]) => void,
    private readonly withDecoder: (call: (decoder: Decoder) => void) => void,
  ) {}

  handle(message: Extract<ToEngine, { type: "files" | "takeFiles" | "takePrints" }>): void {
    if (message.type === "takeFiles") this.takes = message.takes;
    else if (message.type === "takePrints") this.prints = message.prints;
    else if (message.connection === this.connection)
      this.withDecoder((decoder) => this.call(decoder, message.call));
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    this.connection += 1;
    this.flows.clear();
    decoder.files.take(this.takes, this.prints);
  }

  /** The session has answered it. */
  begin(gives: boolean): void {
    const { connection } = this;
    this.post({ type: "files", connection, event: { name: "connected", gives } });
  }

  /** Passes on what has happened. */
  take(decoder: Decoder): void {
    const { connection } = this;
    const arrived = new Set<number>();
    for (
      let event = decoder.files.event(nowUs());
      event !== undefined;
      event = decoder.files.event(nowUs())
    ) {
      if (event.name === "data") {
        arrived.add(event.id);
        const { unstored, chunks, bytes } = this.flows.get(event.id) ?? NO_FLOW;
        const { length } = event.bytes;
        const flow = { unstored: unstored + length, chunks: chunks + 1, bytes: bytes + length };
        this.flows.set(event.id, flow);
        this.post({ type: "files", connection, event }, [event.bytes.buffer]);
      } else {
        if (event.name === "stopped") this.flows.delete(event.id);
        this.post({ type: "files", connection, event });
      }
    }
    if (arrived.size > 0)
      this.withDecoder(({ files }) => {
        for (const id of arrived) this.confirm(files, id);
      });
  }

  /** Tells the session what was taken, unless too much waits for the page. */
  private confirm(files: Decoder["files"], id: number): void {
    const flow = this.flows.get(id);
    if (flow === undefined || flow.chunks === 0 || flow.unstored > AHEAD_BYTES_MAX) return;
    files.stored(id, flow.chunks, flow.bytes, nowUs());
    [flow.chunks, flow.bytes] = [0, 0];
  }

  private call({ files }: Decoder, call: FilesCall): void {
    switch (call.name) {
      case "offer": {
        const id = files.offer(call.entries, call.dropped, nowUs());
        const refusal = id === undefined ? files.refusal() : "";
        const event = { name: "offering" as const, key: call.key, id, refusal };
        this.post({ type: "files", connection: this.connection, event });
        break;
      }
      case "supply":
        files.supply(call.id, call.entry, call.offset, call.bytes, nowUs());
        break;
      case "withdraw":
        files.withdraw(call.id, call.why, nowUs());
        break;
      case "ask":
        files.ask(call.id, nowUs());
        break;
      case "accept":
        if (!files.accept(call.id, call.accepts, nowUs())) {
          const why = FileEnd.Failed;
          files.stop(call.id, why, nowUs());
          const event = { name: "stopped" as const, id: call.id, why };
          this.post({ type: "files", connection: this.connection, event });
        }
        break;
      case "refuse":
        files.refuse(call.id, call.answer, call.bytes, nowUs());
        break;
      case "stored": {
        const flow = this.flows.get(call.id);
        if (flow) flow.unstored -= call.bytes;
        this.confirm(files, call.id);
        break;
      }
      case "finish":
        this.flows.delete(call.id);
        files.finish(call.id, nowUs());
        break;
      case "stop":
        this.flows.delete(call.id);
        files.stop(call.id, call.why, nowUs());
        break;
    }
  }
}
