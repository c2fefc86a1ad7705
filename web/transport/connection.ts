// The page's connection to its session: opens it, replaces it, and reconnects when viewer-core
// says.
// Path 10/13, and path back: between the session, over the transport of transports.ts that opens
// first, and engine.ts.
// Knows transports and time; never what the bytes say.

import { headersOf } from "../store/token";
import {
  fetchOffer,
  QuicTransport,
  type Transport,
  type TransportHandlers,
  type TransportKind,
  WebSocketTransport,
  type WebTransportOffer,
} from "./transports";

/** `wake` leaves an attempt alone that is younger than this. */
const ATTEMPT_MS_RECENT = 1_500;
/**
 * An open WebSocket waits for WebTransport, which it prefers, no longer than its own handshake took
 * and no longer than this, which users do not notice; not at all if WebTransport has failed. With
 * an offer at hand WebTransport usually wins: it takes two round trips, a WebSocket three.
 */
const STANDBY_MS_MAX = 100;
/**
 * An offer of WebTransport is fetched again after this time, at the next connection; it is valid
 * for longer.
 */
const OFFER_MS_MAX = 3_600_000;
/** After WebTransport opened and then failed on a network, it is not tried again for this time. */
const WEBTRANSPORT_BLOCK_MS = 60_000;
/** `auto`: WebTransport if the network permits it, else a WebSocket. */
export type TransportChoice = "auto" | TransportKind;

/** Why a WebTransport did not replace the WebSocket: it did not open, or there was no moment. */
export type AttemptEnd = "failed" | "postponed";

/** When attempts are made: the decisions of viewer-core. */
export interface Attempts {
  /** No connection works: attempts begin, unless they have. */
  begin(): void;
  /** Counts another attempt, which follows after so long. */
  waitMs(): number;
  /** After how long an unanswered attempt is given up for the next; undefined: it is not. */
  intervalMs(): number | undefined;
  /** Since a session last answered. */
  readonly count: number;
  /**
   * A WebTransport that is to replace a WebSocket waits no longer than this until no key, button or
   * finger is down and no picture is on its way. A picture that is still on its way then is sent
   * twice: while the screen is drawn without pause, there is no better moment.
   */
  readonly replacementWaitMs: number;
  /** So often one replaced a WebSocket and no session answered on it; then the WebSocket stays. */
  readonly replacementFailuresMax: number;
}

export interface SessionAccess {
  /** wss:// address of the session. */
  socket: string;
  /** https:// address at which WebTransport is offered and opened. */
  webTransport: string;
  /** Requested when no transport opens, to learn whether this browser's login is still valid. */
  login: string;
  /** Of the login. */
  secret: string;
  /** The page's number (store/page.ts). */
  page: string;
}

export interface ConnectionHandlers {
  connecting(attempt: number): void;
  opened(): void;
  received(bytes: Uint8Array): void;
  /** An unordered, unreliable message, beside the stream. */
  receivedDatagram(bytes: Uint8Array): void;
  /**
   * The connection is lost; the next attempt follows in `retryMs`, after `failures` failed ones.
   */
  dropped(retryMs: number, failures: number): void;
  /**
   * A new transport has replaced one that was unresponsive, or whose path had changed; `opened`
   * follows.
   */
  replaced(): void;
  /** Whether the connection may be replaced now, without a key released or a picture sent twice. */
  mayBeReplaced(): boolean;
  /** Whether a key, button or finger is down, which replacing the connection would release. */
  holdsInput(): boolean;
  /** `improve` led to nothing. */
  notImproved(end: AttemptEnd): void;
  /** The server does not know this browser (any more): retrying is useless. */
  refused(): void;
}

export class Connection {
  /** Transports whose handshake is in progress. */
  private opening: Transport[] = [];
  /** An open transport that waits for a better one, with the bytes received on it. */
  private standby:
    | { transport: Transport; early: Uint8Array[]; timer: ReturnType<typeof setTimeout> }
    | undefined;
  /** The transport in use. */
  private active: Transport | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private attemptAtMs = 0;
  private attemptTimer: ReturnType<typeof setTimeout> | undefined;
  private ended = false;

  private offer: { answer: Promise<WebTransportOffer | undefined>; untilMs: number } | undefined;
  /** WebTransport did not open in time on this network. */
  private webTransportLate = false;
  private blockedUntilMs = 0;
  private isProven = false;
  /** A WebTransport beside the active WebSocket, to replace it; with a timer once it is open. */
  private better:
    | { transport: Transport; why: string; timer?: ReturnType<typeof setTimeout> }
    | undefined;
  /** Why the transport in use took another's place; undefined if it was the first choice. */
  reason: string | undefined;
  /** Count of transports that took another's place, and on which no session answered. */
  private replacementFailures = 0;

  constructor(
    private readonly session: SessionAccess,
    private readonly choice: TransportChoice,
    /** Undefined while there is no decoder: then nobody connects. */
    private readonly attempts: () => Attempts | undefined,
    private readonly handlers: ConnectionHandlers,
  ) {}

  /** Kind of the transport in use. */
  get kind(): TransportKind | undefined {
    return this.active?.kind;
  }

  /** Fetches the offer of WebTransport while there is other work to do. */
  prepare(): void {
    if (this.canUseWebTransport()) this.currentOffer();
  }

  /** Opens a connection now, unless one is open or opening. */
  open(): void {
    if (this.ended || this.busy) return;
    clearTimeout(this.timer);
    this.handlers.connecting((this.attempts()?.count ?? 0) + 1);
    this.attempt();
  }

  /**
   * The active transport is unresponsive: opens others beside it; the first that opens replaces it.
   */
  tryOthers(): void {
    if (this.active === undefined || this.opening.length > 0) return;
    this.attempts()?.begin();
    this.attempt();
  }

  /** Whether `improve` may lead to another transport. */
  get canImprove(): boolean {
    return (
      this.choice === "auto" &&
      this.active?.kind === "websocket" &&
      this.replacementFailures < (this.attempts()?.replacementFailuresMax ?? 0) &&
      this.canUseWebTransport()
    );
  }

  /**
   * The path of the active WebSocket has changed, as `why` says: opens a WebTransport beside it,
   * which replaces it, and which a lost packet delays less.
   */
  improve(why: string): void {
    if (!this.canImprove || performance.now() < this.blockedUntilMs)
      return this.handlers.notImproved("failed");
    if (this.better !== undefined) return;
    const offer = this.currentOffer();
    const transport = new QuicTransport(this.session, offer, this.transportHandlers);
    this.better = { transport, why };
  }

  /** A WebTransport is open and waits until the WebSocket may be replaced. */
  get awaitsTurn(): boolean {
    return this.better?.timer !== undefined;
  }

  /** The WebSocket may be replaced now. */
  replace(): void {
    if (this.better?.timer !== undefined) this.useBetter(this.better);
  }

  private betterOpened(better: NonNullable<Connection["better"]>): void {
    if (this.handlers.mayBeReplaced()) return this.useBetter(better);
    better.timer = setTimeout(() => {
      if (!this.handlers.holdsInput()) return this.useBetter(better);
      this.abandonBetter();
      this.handlers.notImproved("postponed");
    }, this.attempts()?.replacementWaitMs);
  }

  private useBetter({ transport, why, timer }: NonNullable<Connection["better"]>): void {
    clearTimeout(timer);
    this.better = undefined;
    this.use(transport, why);
  }

  private abandonBetter(): void {
    clearTimeout(this.better?.timer);
    this.better?.transport.close();
    this.better = undefined;
  }

  /** Bytes have arrived on the active transport: it is responsive. */
  bytesReceived(): void {
    clearTimeout(this.attemptTimer);
    if (this.opening.length > 0) this.abandonOpening();
  }

  private attempt(): void {
    this.attemptAtMs = performance.now();
    clearTimeout(this.attemptTimer);
    const intervalMs = this.attempts()?.intervalMs();
    if (intervalMs !== undefined)
      this.attemptTimer = setTimeout(() => {
        if (this.standby !== undefined) return;
        this.abandonOpening();
        this.attempt();
      }, intervalMs);
    const isAllowed = this.choice === "webtransport" || this.attemptAtMs >= this.blockedUntilMs;
    const useWebTransport = this.canUseWebTransport() && isAllowed;
    if (this.choice !== "webtransport" || !useWebTransport)
      this.opening.push(new WebSocketTransport(this.session, this.transportHandlers));
    if (useWebTransport)
      this.opening.push(
        new QuicTransport(this.session, this.currentOffer(), this.transportHandlers),
      );
  }

  private abandonOpening(): void {
    clearTimeout(this.attemptTimer);
    this.clearStandby();
    for (const transport of this.opening.splice(0)) transport.abandon();
  }

  /** False if no transport is open. */
  send(bytes: Uint8Array): boolean {
    return this.active?.send(bytes) ?? false;
  }

  /** Whether the active transport has datagrams beside its stream. */
  get carriesDatagrams(): boolean {
    return this.active?.carriesDatagrams ?? false;
  }

  /** Sends a message that may be lost. */
  sendDatagram(bytes: Uint8Array): void {
    this.active?.sendDatagram(bytes);
  }

  /**
   * True while sent bytes wait on this machine: a pointer position that a newer one can replace
   * should wait.
   */
  get congested(): boolean {
    return this.active?.congested ?? false;
  }

  /** The session has answered on this connection. */
  proven(): void {
    this.isProven = true;
  }

  /** Drops the connection and reconnects. */
  drop(): void {
    if (!this.busy) return;
    this.closeAll();
    this.retryLater();
  }

  /** Connects now, without waiting for the delay; also after `end`. */
  retryNow(): void {
    this.ended = false;
    this.open();
  }

  /**
   * The machine slept or the network came back: attempts made before that, and the delay, are
   * useless.
   */
  wake(): void {
    if (this.ended) return;
    if (this.busy && performance.now() - this.attemptAtMs < ATTEMPT_MS_RECENT) return;
    this.closeAll();
    // It may be another network.
    this.webTransportLate = false;
    this.blockedUntilMs = 0;
    this.replacementFailures = 0;
    this.open();
  }

  /** Closes the connection until `retryNow`. */
  end(): void {
    this.ended = true;
    this.closeAll();
  }

  private get busy(): boolean {
    return this.active !== undefined || this.opening.length > 0;
  }

  private readonly transportHandlers: TransportHandlers = {
    opened: (transport) => {
      if (transport === this.better?.transport) return this.betterOpened(this.better);
      const better = this.opening.find(
        (other) => other !== transport && other.kind === "webtransport",
      );
      const standbyMs = Math.min(STANDBY_MS_MAX, performance.now() - this.attemptAtMs);
      if (better === undefined || this.webTransportLate) this.use(transport);
      else
        this.standby = {
          transport,
          early: [],
          timer: setTimeout(() => this.use(transport), standbyMs),
        };
    },
    received: (transport, bytes) => {
      if (transport === this.active) this.handlers.received(bytes);
      else this.standby?.early.push(bytes);
    },
    // A session sends datagrams only after it was told, on the active transport, that it may.
    receivedDatagram: (transport, bytes) => {
      if (transport === this.active) this.handlers.receivedDatagram(bytes);
    },
    closed: (transport) => {
      if (transport === this.better?.transport) {
        this.abandonBetter();
        // Another may be offered next time.
        this.offer = undefined;
        this.handlers.notImproved("failed");
        return;
      }
      if (transport === this.active) {
        this.abandonBetter();
        this.noteActiveEnd();
        this.active = undefined;
        this.retryLater();
        return;
      }
      this.opening = this.opening.filter((other) => other !== transport);
      if (transport === this.standby?.transport) this.clearStandby();
      else if (transport.kind === "webtransport") this.offer = undefined;
      if (this.standby !== undefined) this.use(this.standby.transport);
      // If an unresponsive transport is still active, `attemptTimer` starts the next attempt.
      else if (this.opening.length === 0 && this.active === undefined) {
        clearTimeout(this.attemptTimer);
        void this.retryUnlessRefused();
      }
    },
  };

  private use(transport: Transport, reason?: string): void {
    this.abandonBetter();
    this.reason = reason;
    const early = this.standby?.transport === transport ? this.standby.early : [];
    this.clearStandby();
    const others = this.opening.filter((other) => other !== transport);
    this.webTransportLate = others.some(({ kind }) => kind === "webtransport");
    this.opening = [];
    clearTimeout(this.attemptTimer);
    const replaced = this.active;
    this.active = transport;
    this.isProven = false;
    for (const other of others) other.close();
    if (replaced !== undefined) {
      replaced.close();
      this.handlers.replaced();
    }
    this.handlers.opened();
    for (const bytes of early) this.handlers.received(bytes);
  }

  /** Closes every transport, open or opening. */
  private closeAll(): void {
    clearTimeout(this.timer);
    clearTimeout(this.attemptTimer);
    this.clearStandby();
    this.abandonBetter();
    const transports = [...this.opening, ...(this.active ? [this.active] : [])];
    this.noteActiveEnd();
    this.opening = [];
    this.active = undefined;
    for (const transport of transports) transport.close();
  }

  private clearStandby(): void {
    clearTimeout(this.standby?.timer);
    this.standby = undefined;
  }

  /**
   * The active transport ends. If it opened and no session answered, the network passes the
   * handshake only.
   */
  private noteActiveEnd(): void {
    if (this.active?.kind !== "webtransport" || this.isProven) return;
    this.blockedUntilMs = performance.now() + WEBTRANSPORT_BLOCK_MS;
    if (this.reason !== undefined) this.replacementFailures += 1;
  }

  private canUseWebTransport(): boolean {
    return this.choice !== "websocket" && typeof WebTransport === "function";
  }

  /** The offer at hand, or a new one. */
  private currentOffer(): Promise<WebTransportOffer | undefined> {
    const nowMs = performance.now();
    if (this.offer === undefined || nowMs > this.offer.untilMs) {
      const offer = {
        answer: fetchOffer(this.session),
        untilMs: nowMs + OFFER_MS_MAX,
      };
      this.offer = offer;
      offer.answer.catch(() => {
        if (this.offer === offer) this.offer = undefined;
      });
    }
    return this.offer.answer;
  }

  private retryLater(): void {
    if (this.ended) return;
    const attempts = this.attempts();
    if (attempts === undefined) return;
    attempts.begin();
    const retryMs = attempts.waitMs();
    this.timer = setTimeout(() => this.open(), retryMs);
    this.handlers.dropped(retryMs, attempts.count - 1);
  }

  /**
   * A page cannot learn why a connection failed; a plain request tells an unreachable server from
   * one that refuses.
   */
  private async retryUnlessRefused(): Promise<void> {
    let status = 0;
    try {
      const headers = headersOf(this.session.secret);
      status = (await fetch(this.session.login, { headers, cache: "no-store" })).status;
    } catch {
      // No answer: unreachable.
    }
    if (this.ended || this.busy) return;
    if (status === 401 || status === 403 || status === 404) {
      this.ended = true;
      this.handlers.refused();
    } else {
      this.retryLater();
    }
  }
}
