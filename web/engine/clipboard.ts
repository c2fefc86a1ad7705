// The clipboard on its way through the engine: what the page offers and requests goes to the
// session, what the session offers and requests to the page.
// Path 11/13, beside the pixels: between decoder.ts and input/clipboard.ts, in both directions.
// Knows numbers, formats and bytes; never the browser's clipboard.

import type { Decoder } from "./decoder";
import { CLIPBOARD, type DecoderEvent } from "./events";
import {
  type ClipboardPolicy,
  ClipFailure,
  type FromEngine,
  nowUs,
  type ToEngine,
} from "./messages";

type FromPage = Extract<
  ToEngine,
  { type: "clipPolicy" | "clipOffer" | "clipRequest" | "clipProvide" }
>;
type FromSession = Extract<
  DecoderEvent,
  { type: "clipOffer" | "clipWanted" | "clipContent" | "clipEnded" }
>;

export class EngineClipboard {
  /** Directions in which contents may go, as every connection begins. */
  policy: ClipboardPolicy = { toSession: false, fromSession: false };
  /**
   * The page's newest offer, repeated on a new connection; no formats if the session has copied
   * something since.
   */
  private offer = { number: 0, formats: 0 };
  /** Contents requested from the session: viewer-core's numbers → the page's. */
  private readonly requests = new Map<number, number>();

  constructor(
    private readonly post: (message: FromEngine, transfer?: Transferable[]) => void,
    private readonly withDecoder: <T>(call: (decoder: Decoder) => T) => T | undefined,
  ) {}

  handle(message: FromPage): void {
    switch (message.type) {
      case "clipPolicy":
        this.withDecoder((decoder) => decoder.clipWanted(message.policy));
        break;
      case "clipOffer":
        this.offer = { number: message.number, formats: message.formats };
        this.withDecoder((decoder) => decoder.clipOffer(message.formats));
        break;
      case "clipRequest": {
        const { request, format } = message;
        const id = this.withDecoder((decoder) => decoder.clipRequest(format, nowUs()));
        if (id !== undefined) this.requests.set(id, request);
        else this.post({ type: "clipFailed", request, why: ClipFailure.Gone, bytes: 0, limit: 0 });
        break;
      }
      case "clipProvide":
        this.withDecoder((decoder) => decoder.clipProvide(message.id, message.bytes, nowUs()));
        break;
    }
  }

  /** `copied`: what the session offers now was copied after the connection began. */
  handleEvent(event: FromSession, copied: boolean): void {
    switch (event.type) {
      case "clipOffer": {
        const { selection, formats } = event;
        if (selection !== CLIPBOARD) break;
        if (formats !== 0) this.offer.formats = 0;
        this.post({ type: "clipOffer", after: this.offer.number, formats, copied });
        break;
      }
      case "clipWanted":
        this.post({ type: "clipWanted", id: event.id, format: event.format });
        break;
      case "clipContent": {
        const request = this.take(event.id);
        if (request !== undefined)
          this.post({ type: "clipContent", request, bytes: event.bytes }, [event.bytes.buffer]);
        break;
      }
      case "clipEnded": {
        const { id, why, bytes, limit } = event;
        const request = this.take(id);
        this.post(
          request !== undefined
            ? { type: "clipFailed", request, why, bytes, limit }
            : { type: "clipRefused", why, bytes, limit },
        );
        break;
      }
    }
  }

  /** A request is answered: the page's number. */
  private take(id: number): number | undefined {
    const request = this.requests.get(id);
    this.requests.delete(id);
    return request;
  }

  /** Whether the session has yet to answer a request: another connection would not. */
  get awaitsContent(): boolean {
    return this.requests.size > 0;
  }

  /** A connection begins, and the session has not been told that it is open. */
  prepare(decoder: Decoder): void {
    decoder.clipPolicy(this.policy);
  }

  /** Repeats the page's offer on the connection that has begun. */
  open(decoder: Decoder): void {
    if (this.offer.formats !== 0) decoder.clipOffer(this.offer.formats);
  }

  /** The connection has ended, and answers no more. */
  lost(): void {
    this.requests.clear();
  }
}
