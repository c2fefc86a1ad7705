// One connection after another: bytes in, bytes out, and a new one with growing patience when one drops.
// Path 10/13: from the session, by whichever of ways.ts is there first, to engine.ts; and back.
// Knows ways and time; never what the bytes say.

import { invitation, SocketWay, StreamWay, type Invitation, type Way, type WayHandlers, type WayKind } from "./ways";

/** First wait before trying again, doubled after each failure: a server that restarts is back in well under a second. */
const RETRY_MS_MIN = 200;
/** Longest wait: about as long as a person watches a dimmed screen before reaching for the button. */
const RETRY_MS_MAX = 8_000;
/** An attempt begun so lately is left to itself when the network comes back. */
const ATTEMPT_MS_FRESH = 1_500;
/**
 * How long an attempt to come back may take, by the time for which nothing has been heard, before it makes room for the next: its first
 * packet was lost. Longer after a while, for a browser opens one WebSocket to a machine at a time, and lets each wait for up to 1.25 s at
 * fourteen that have failed in the last minutes and for up to five at sixteen; and the kernel repeats the first packet once a second at first.
 */
const PATIENCE_MS: readonly { lostMs: number; patienceMs: number }[] = [
  { lostMs: 2_000, patienceMs: 300 },
  { lostMs: 4_000, patienceMs: 500 },
  { lostMs: 30_000, patienceMs: 4_900 },
  { lostMs: Infinity, patienceMs: 7_400 },
];
/** Round trips of a handshake, and one for a busy machine; and what those take there that are not on the way. */
const HANDSHAKE_ROUND_TRIPS = 5;
const HANDSHAKE_MS = 200;
/**
 * A WebSocket that is open waits for WebTransport, which is the better way, no longer than it took itself, and no longer than
 * this, which nobody notices; where WebTransport has failed, not at all. With an invitation at hand it is there first: it takes
 * two round trips, a WebSocket three.
 */
const WAIT_MS_MAX = 100;
/** An invitation is asked for again after so long, at the next connection; it is good for longer. */
const INVITATION_MS_FRESH = 3_600_000;
/** A network on which WebTransport opened and then failed is not trusted with another before this has passed. */
const DISTRUST_MS = 60_000;

/** `auto`: the better of the two, as the network lets. */
export type TransportChoice = "auto" | WayKind;

export interface TransportUrls {
  /** wss:// address of the session. */
  socket: string;
  /** https:// address where it says how to come by WebTransport, and where that is asked for. */
  webTransport: string;
  /** Asked for when no way opens, to learn whether this browser is still let in. */
  probe: string;
}

export interface TransportHandlers {
  connecting(attempt: number): void;
  opened(): void;
  received(bytes: Uint8Array): void;
  /** Came by itself, beside those: some are lost, and they come in any order. */
  receivedDatagram(bytes: Uint8Array): void;
  /** The connection is gone; another attempt follows in `retryMs`, after so many that failed. */
  dropped(retryMs: number, failures: number): void;
  /** Another connection has taken the place of one that was silent; it opens now. */
  replaced(): void;
  /** The server does not know this browser (any more): trying again is of no use. */
  refused(): void;
}

export class Transport {
  /** Those that are opening, … */
  private trying: Way[] = [];
  /** … one that is open and waits a moment for a better one, with what has come by it, … */
  private waiting: { way: Way; early: Uint8Array[]; timer: ReturnType<typeof setTimeout> } | undefined;
  /** … and the one that was taken. */
  private way: Way | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private attemptAtMs = 0;
  /** Since when nothing has been heard; undefined before the first connection, and while all is well. */
  private lostAtMs: number | undefined;
  private patience: ReturnType<typeof setTimeout> | undefined;
  /** The shortest round trip of the last connection. */
  roundTripMs = 0;
  private failures = 0;
  private ended = false;

  private invited: { answer: Promise<Invitation | undefined>; untilMs: number } | undefined;
  /** WebTransport did not make it in time, on this network. */
  private late = false;
  private distrustedUntilMs = 0;
  private isProven = false;

  constructor(
    private readonly urls: TransportUrls,
    private readonly choice: TransportChoice,
    private readonly handlers: TransportHandlers,
  ) {}

  /** The way that was taken. */
  get kind(): WayKind | undefined {
    return this.way?.kind;
  }

  /** Asks how to come by WebTransport, while there is other work to do. */
  prepare(): void {
    if (this.takesStreams()) this.invite();
  }

  /** Opens a connection now; one that is open or opening is left alone. */
  open(): void {
    if (this.ended || this.busy) return;
    clearTimeout(this.timer);
    this.handlers.connecting(this.failures + 1);
    this.attempt();
  }

  /** Nothing is heard by the way that is open: others are tried beside it, and the first that opens takes its place. */
  seek(): void {
    if (this.way === undefined || this.trying.length > 0) return;
    this.lostAtMs ??= performance.now();
    this.attempt();
  }

  /** Something is. */
  heard(): void {
    this.lostAtMs = undefined;
    clearTimeout(this.patience);
    if (this.trying.length > 0) this.giveUpTrying();
  }

  private attempt(): void {
    this.attemptAtMs = performance.now();
    if (this.lostAtMs !== undefined) {
      const lostMs = this.attemptAtMs - this.lostAtMs;
      const patienceMs = PATIENCE_MS.find((patience) => lostMs < patience.lostMs)?.patienceMs ?? 0;
      const handshakeMs = this.roundTripMs * HANDSHAKE_ROUND_TRIPS + HANDSHAKE_MS;
      clearTimeout(this.patience);
      this.patience = setTimeout(() => {
        if (this.waiting !== undefined) return;
        this.giveUpTrying();
        this.attempt();
      }, Math.max(patienceMs, handshakeMs));
    }
    const isTrusted = this.choice === "webtransport" || this.attemptAtMs >= this.distrustedUntilMs;
    const streams = this.takesStreams() && isTrusted;
    if (this.choice !== "webtransport" || !streams) this.trying.push(new SocketWay(this.urls.socket, this.ways));
    if (streams) this.trying.push(new StreamWay(this.urls.webTransport, this.invite(), this.ways));
  }

  private giveUpTrying(): void {
    clearTimeout(this.patience);
    this.stopWaiting();
    for (const way of this.trying.splice(0)) way.abandon();
  }

  /** False when nothing is open to take the bytes. */
  send(bytes: Uint8Array): boolean {
    return this.way?.send(bytes) ?? false;
  }

  /** The way that was taken has datagrams beside its stream. */
  get carriesDatagrams(): boolean {
    return this.way?.carriesDatagrams ?? false;
  }

  /** It costs nothing if it is lost. */
  sendDatagram(bytes: Uint8Array): void {
    this.way?.sendDatagram(bytes);
  }

  /** True while what was sent has not left this machine: a pointer position that can be replaced should wait. */
  get congested(): boolean {
    return this.way?.congested ?? false;
  }

  /** The connection has shown that it works: the next drop is tried again at once. */
  proven(): void {
    this.failures = 0;
    this.lostAtMs = undefined;
    this.isProven = true;
  }

  /** Drops the connection, and tries again. */
  drop(): void {
    if (!this.busy) return;
    this.leave();
    this.retryLater();
  }

  /** A person or an event says that now is a good moment: no more waiting. */
  retryNow(): void {
    this.ended = false;
    this.open();
  }

  /** The machine slept, or the network came back: an attempt made before that, or the wait for the next, is of no use. */
  wake(): void {
    if (this.ended) return;
    if (this.busy && performance.now() - this.attemptAtMs < ATTEMPT_MS_FRESH) return;
    this.leave();
    // It may be another network.
    this.late = false;
    this.distrustedUntilMs = 0;
    this.open();
  }

  /** Closes for good, until `retryNow`. */
  end(): void {
    this.ended = true;
    this.leave();
  }

  private get busy(): boolean {
    return this.way !== undefined || this.trying.length > 0;
  }

  private readonly ways: WayHandlers = {
    opened: (way) => {
      const better = this.trying.find((other) => other !== way && other.kind === "webtransport");
      const waitMs = Math.min(WAIT_MS_MAX, performance.now() - this.attemptAtMs);
      if (better === undefined || this.late) this.take(way);
      else this.waiting = { way, early: [], timer: setTimeout(() => this.take(way), waitMs) };
    },
    received: (way, bytes) => {
      if (way === this.way) this.handlers.received(bytes);
      else this.waiting?.early.push(bytes);
    },
    // No session says anything so before it has heard, on the way that was taken, that it may.
    receivedDatagram: (way, bytes) => {
      if (way === this.way) this.handlers.receivedDatagram(bytes);
    },
    closed: (way) => {
      if (way === this.way) {
        this.way = undefined;
        // Open, and no word of the session's: a network that lets no more than the beginning through.
        if (way.kind === "webtransport" && !this.isProven) this.distrust();
        this.retryLater();
        return;
      }
      this.trying = this.trying.filter((other) => other !== way);
      if (way === this.waiting?.way) this.stopWaiting();
      else if (way.kind === "webtransport") this.invited = undefined;
      if (this.waiting !== undefined) this.take(this.waiting.way);
      // Beside a silent one, what does not open is tried again when its time is over.
      else if (this.trying.length === 0 && this.way === undefined) {
        clearTimeout(this.patience);
        void this.retryUnlessRefused();
      }
    },
  };

  private take(way: Way): void {
    const early = this.waiting?.way === way ? this.waiting.early : [];
    this.stopWaiting();
    const others = this.trying.filter((other) => other !== way);
    this.late = others.some(({ kind }) => kind === "webtransport");
    this.trying = [];
    clearTimeout(this.patience);
    const silent = this.way;
    this.way = way;
    this.isProven = false;
    for (const other of others) other.close();
    if (silent !== undefined) {
      silent.close();
      this.handlers.replaced();
    }
    this.handlers.opened();
    for (const bytes of early) this.handlers.received(bytes);
  }

  /** Closes whatever is open or opening. */
  private leave(): void {
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    this.stopWaiting();
    const ways = [...this.trying, ...(this.way ? [this.way] : [])];
    if (this.way?.kind === "webtransport" && !this.isProven) this.distrust();
    this.trying = [];
    this.way = undefined;
    for (const way of ways) way.close();
  }

  private stopWaiting(): void {
    clearTimeout(this.waiting?.timer);
    this.waiting = undefined;
  }

  private distrust(): void {
    this.distrustedUntilMs = performance.now() + DISTRUST_MS;
  }

  private takesStreams(): boolean {
    return this.choice !== "websocket" && typeof WebTransport === "function";
  }

  /** The invitation there is, or a new one. */
  private invite(): Promise<Invitation | undefined> {
    const nowMs = performance.now();
    if (this.invited === undefined || nowMs > this.invited.untilMs) {
      const invited = { answer: invitation(this.urls.webTransport), untilMs: nowMs + INVITATION_MS_FRESH };
      this.invited = invited;
      invited.answer.catch(() => {
        if (this.invited === invited) this.invited = undefined;
      });
    }
    return this.invited.answer;
  }

  private retryLater(): void {
    if (this.ended) return;
    this.lostAtMs ??= performance.now();
    const wait = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.failures);
    // Between half and all of it, so that many tabs do not knock together.
    const retryMs = wait * (0.5 + Math.random() / 2);
    this.failures += 1;
    this.timer = setTimeout(() => this.open(), retryMs);
    this.handlers.dropped(retryMs, this.failures - 1);
  }

  /** A page may not see why a connection failed; an ordinary request tells a server that is away from one that refuses. */
  private async retryUnlessRefused(): Promise<void> {
    let status = 0;
    try {
      status = (await fetch(this.urls.probe, { method: "HEAD", cache: "no-store" })).status;
    } catch {
      // No answer at all: away.
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
