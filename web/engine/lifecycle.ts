// The life of the engine's connection: its phase, what the page is told of it, and what is done
// about a session that does not answer.
// Path 10/13, and path back: between transport/connection.ts, whose transports come and go, and
// engine.ts.
// Obeys viewer-core's liveness; knows no pixels and no input, only whether input is buffered.

import type { Connection } from "../transport/connection";
import { type Decoder, Liveness } from "./decoder";
import type { End } from "./ends";
import {
  type ConnectionState,
  type FromEngine,
  INSTANCE_BYTES,
  nowUs,
  type Opening,
} from "./messages";

export interface LifecycleHandlers {
  /** Undefined while there is none. */
  decoder(): Decoder | undefined;
  /** Whether nothing is released, sent twice or requested in vain if the connection ends now. */
  mayBeReplaced(): boolean;
  /** No connection follows, unless the user asks for one. */
  ended(end: End): void;
}

export class Lifecycle {
  /** Undefined until the engine starts. */
  private connection: Connection | undefined;
  /**
   * "greeted": the session has answered this connection's hello. "lost": there is no connection,
   * and the next one follows by itself.
   */
  private phase: "lost" | "open" | "greeted" | "closed" = "lost";
  /** What viewer-core last said of this connection. */
  private liveness = Liveness.Responsive;
  /** What the next connection does, until the session has answered one. */
  private opening: Opening = "opens";
  /**
   * Random identifier of this page, sent on every connection: the session then ignores keys that
   * arrive late over a dead path.
   */
  private instance = crypto.getRandomValues(new Uint8Array(INSTANCE_BYTES));
  /** Whether keys typed without a connection will be sent; as the page was told last. */
  private buffering = true;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly handlers: LifecycleHandlers,
  ) {}

  /** Prepares the first connection. `instance`: of the tab, whose earlier pages had it too. */
  start(connection: Connection, opening: Opening, instance?: Uint8Array<ArrayBuffer>): void {
    this.connection = connection;
    this.opening = opening;
    if (instance) this.instance = instance;
    connection.prepare();
  }

  get connected(): boolean {
    return this.phase === "open" || this.phase === "greeted";
  }

  /** The session has answered this connection. */
  get greeted(): boolean {
    return this.phase === "greeted";
  }

  get closed(): boolean {
    return this.phase === "closed";
  }

  /** What carries the connection, for the statistics. */
  get transport(): Pick<Connection, "kind" | "reason"> | undefined {
    return this.connection;
  }

  /** Opens the first connection. */
  connect(): void {
    this.connection?.open();
  }

  /** Connects again; the user may have said what the connection does. */
  retry(): void {
    if (this.closed) this.phase = "lost";
    this.connection?.retryNow();
  }

  /** What the next connection does, as the user says. */
  choose(opening: Opening): void {
    this.opening = opening;
  }

  /** A connection has opened. */
  opened(): void {
    this.phase = "open";
  }

  /** Says who connects, and how; before the decoder's `open`. */
  prepare(decoder: Decoder): void {
    decoder.instance(this.instance);
    decoder.opening(this.opening);
    decoder.datagrams(this.connection?.carriesDatagrams ?? false);
  }

  /** The hello is written: the session has to answer. */
  open(decoder: Decoder): void {
    decoder.opened(this.connection?.reason !== undefined, nowUs());
    if (this.connection?.canImprove) decoder.watchPath();
  }

  /** The session has answered the hello. */
  greet(): void {
    this.phase = "greeted";
    this.opening = "reconnects";
    this.connection?.proven();
    this.tell({ name: "connected" });
  }

  /** Sends what the decoder has for the session. */
  send(decoder: Decoder, urgency: "now" | "may wait"): void {
    const datagram = decoder.datagramOutput();
    if (datagram.length > 0) this.connection?.sendDatagram(datagram);
    if (urgency === "may wait" && this.connection?.congested !== false) return;
    const output = decoder.output();
    if (output.length > 0) this.connection?.send(output);
  }

  /** Bytes of the session have arrived: attempts to replace the connection are given up. */
  bytesReceived(): void {
    this.connection?.bytesReceived();
  }

  /** Tries another transport beside this one if the path has become long. */
  improve(): void {
    const { connection } = this;
    const decoder = this.handlers.decoder();
    if (!this.connected || decoder === undefined || !connection?.canImprove) return;
    const roundTripUs = decoder.pathChange(nowUs());
    if (roundTripUs === undefined) return;
    decoder.transportAttempt("begun", nowUs());
    connection.improve(`the round trip grew to ${(roundTripUs / 1000).toFixed(1)} ms`);
  }

  /** Does what viewer-core says of the connection. */
  follow({ liveness }: Decoder): void {
    if (this.connection?.awaitsTurn && this.handlers.mayBeReplaced()) this.replaceLater();
    const before = this.liveness;
    if (liveness === before || !this.connected) return;
    this.liveness = liveness;
    if (liveness === Liveness.Dead) {
      this.drop();
    } else if (liveness === Liveness.Responsive) {
      this.tell({ name: "connected" });
    } else {
      if (before === Liveness.Responsive) this.tell({ name: "unresponsive" });
      if (liveness === Liveness.Replaceable) this.connection?.tryOthers();
    }
  }

  /** Ends the connection; the next one follows. */
  drop(): void {
    this.connection?.drop();
  }

  /** The machine slept or the network came back, and no session has answered yet. */
  wake(): void {
    if (!this.closed) this.connection?.wake();
  }

  /** The connection has ended. */
  lost(): void {
    if (!this.closed) this.phase = "lost";
    this.liveness = Liveness.Responsive;
  }

  /** Ends the connection; none follows. */
  close(end: End): void {
    if (this.closed) return;
    this.phase = "closed";
    this.handlers.ended(end);
    this.connection?.end();
    this.tell(end);
  }

  /** Tells the page the state, and before it whether input is buffered in that. */
  tell(state: ConnectionState): void {
    if (state.name !== "closed" && this.closed) this.phase = "lost";
    this.tellBuffering();
    this.post({ type: "state", state });
  }

  /** Tells the page whether keys typed without a connection will be sent, if that has changed. */
  tellBuffering(): void {
    const buffering = this.handlers.decoder()?.canBufferInput(nowUs()) ?? false;
    if (buffering !== this.buffering) this.post({ type: "buffering", buffering });
    this.buffering = buffering;
  }

  /**
   * The connection may be replaced now, and a transport waits for that. Later: the caller may go on
   * with this one.
   */
  private replaceLater(): void {
    setTimeout(() => {
      if (this.handlers.mayBeReplaced()) this.connection?.replace();
    });
  }
}
