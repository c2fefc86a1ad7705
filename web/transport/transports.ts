// The two transports between page and session: a WebSocket, and WebTransport (a QUIC stream, which
// a lost packet delays less, and datagrams).
// Path 10/13: under connection.ts, which opens both and uses one.
// Knows sockets; never time beyond its own time-out, nor what the bytes say.

import { headersOf, protocolsOf } from "../store/token";

export type TransportKind = "websocket" | "webtransport";

/**
 * A transport that has not opened after this time is given up: a handshake is three round trips,
 * and no usable network has 4 s of them.
 */
const OPEN_MS_MAX = 12_000;
/**
 * Bytes that the browser has not sent yet, above which replaceable messages wait: a newer pointer
 * position replaces an older one.
 */
const QUEUED_BYTES_MAX = 16 * 1024;
/**
 * A session accepts WebSocket messages of up to 64 KiB; a protocol frame may be split over several.
 */
const MESSAGE_BYTES_MAX = 32 * 1024;
/**
 * Datagrams that may wait for this thread; a browser keeps one by default and drops the oldest. As
 * many as viewer-core's order.rs keeps.
 */
const DATAGRAMS_UNREAD_MAX = 128;

export interface Transport {
  readonly kind: TransportKind;
  /**
   * True while sent bytes wait on this machine: a pointer position that a newer one can replace
   * should wait.
   */
  readonly congested: boolean;
  /**
   * False if it is not open. The bytes are copied at once, so they may be a view of WASM memory.
   */
  send(bytes: Uint8Array): boolean;
  /** Whether there are datagrams beside the stream; known once it is open. */
  readonly carriesDatagrams: boolean;
  /** Sends a datagram, or drops it if it would have to wait; copies the bytes. */
  sendDatagram(bytes: Uint8Array): void;
  /** Closes it; no handler is called any more. */
  close(): void;
  /** As `close`, for one that blocks another: browsers open one WebSocket to a host at a time. */
  abandon(): void;
}

export interface TransportHandlers {
  opened(transport: Transport): void;
  received(transport: Transport, bytes: Uint8Array): void;
  receivedDatagram(transport: Transport, bytes: Uint8Array): void;
  /** It failed, ended or did not open. */
  closed(transport: Transport): void;
}

export class WebSocketTransport implements Transport {
  readonly kind = "websocket";
  readonly carriesDatagrams = false;
  private readonly socket: WebSocket;
  private readonly timer: ReturnType<typeof setTimeout>;

  constructor(session: { socket: string; secret: string }, handlers: TransportHandlers) {
    const socket = new WebSocket(session.socket, protocolsOf(session.secret));
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    this.timer = setTimeout(() => socket.close(), OPEN_MS_MAX);
    socket.onopen = () => {
      clearTimeout(this.timer);
      handlers.opened(this);
    };
    // The protocol has no text messages; an empty chunk is legal.
    socket.onmessage = ({ data }) =>
      handlers.received(
        this,
        data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(),
      );
    socket.onclose = () => {
      clearTimeout(this.timer);
      handlers.closed(this);
    };
  }

  get congested(): boolean {
    return this.socket.bufferedAmount > QUEUED_BYTES_MAX;
  }

  send(bytes: Uint8Array): boolean {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX) {
      this.socket.send(bytes.subarray(at, at + MESSAGE_BYTES_MAX) as Uint8Array<ArrayBuffer>);
    }
    return true;
  }

  sendDatagram(): void {}

  close(): void {
    const socket = this.socket;
    socket.onmessage = null;
    socket.onclose = () => clearTimeout(this.timer);
    // Browsers log an error if a socket is closed before it is open; its own time-out runs until
    // then.
    socket.onopen = () => socket.close();
    if (socket.readyState === WebSocket.OPEN) socket.close(1000);
  }

  abandon(): void {
    this.close();
    this.socket.close();
  }
}

/** How to connect over WebTransport, as the session tells a page that has shown its login. */
export interface WebTransportOffer {
  /** SHA-256 of the certificate that the session will present. */
  certificate: Uint8Array<ArrayBuffer>;
  key: string;
  seconds: number;
}

/** Undefined if the session does not offer WebTransport; throws if it cannot be asked. */
export async function fetchOffer(session: {
  webTransport: string;
  secret: string;
}): Promise<WebTransportOffer | undefined> {
  const response = await fetch(session.webTransport, {
    headers: headersOf(session.secret),
    cache: "no-store",
    signal: AbortSignal.timeout(OPEN_MS_MAX),
  });
  if (response.status !== 200) return undefined;
  const { certificate, key, seconds } = (await response.json()) as {
    certificate: string;
    key: string;
    seconds: number;
  };
  const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
  return {
    certificate: Uint8Array.from(bytes, (character) => character.charCodeAt(0)),
    key,
    seconds,
  };
}

export class QuicTransport implements Transport {
  readonly kind = "webtransport";
  private session: WebTransport | undefined;
  private writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
  private datagrams: WritableStreamDefaultWriter<Uint8Array> | undefined;
  private readonly timer: ReturnType<typeof setTimeout>;
  private queuedBytes = 0;
  private over = false;

  constructor(
    session: { webTransport: string; page: string },
    offered: Promise<WebTransportOffer | undefined>,
    handlers: TransportHandlers,
  ) {
    this.timer = setTimeout(() => this.end(handlers), OPEN_MS_MAX);
    this.run(session, offered, handlers).then(
      () => this.end(handlers),
      () => this.end(handlers),
    );
  }

  get congested(): boolean {
    return this.queuedBytes > QUEUED_BYTES_MAX;
  }

  send(bytes: Uint8Array): boolean {
    if (this.writer === undefined || this.over) return false;
    const { length } = bytes;
    this.queuedBytes += length;
    // A failed write has broken the stream; its reader notices.
    this.writer.write(bytes.slice()).then(
      () => (this.queuedBytes -= length),
      () => undefined,
    );
    return true;
  }

  get carriesDatagrams(): boolean {
    return this.datagrams !== undefined;
  }

  sendDatagram(bytes: Uint8Array): void {
    const longest = this.session?.datagrams.maxDatagramSize ?? 0;
    // A newer datagram is worth more than one that waits.
    if (this.over || (this.datagrams?.desiredSize ?? 0) <= 0 || bytes.length > longest) return;
    this.datagrams?.write(bytes.slice()).catch(() => undefined);
  }

  close(): void {
    this.over = true;
    clearTimeout(this.timer);
    try {
      this.session?.close();
    } catch {
      // It is not open yet, which some browsers report: it then closes by itself.
    }
  }

  abandon(): void {
    this.close();
  }

  private end(handlers: TransportHandlers): void {
    if (this.over) return;
    this.close();
    handlers.closed(this);
  }

  private async run(
    { webTransport, page }: { webTransport: string; page: string },
    offered: Promise<WebTransportOffer | undefined>,
    handlers: TransportHandlers,
  ): Promise<void> {
    const offer = await offered;
    if (offer === undefined || this.over) return;
    const session = new WebTransport(`${webTransport}?key=${offer.key}&page=${page}`, {
      serverCertificateHashes: [{ algorithm: "sha-256", value: offer.certificate }],
      congestionControl: "low-latency",
    });
    this.session = session;
    // The reader below reports how the session ended.
    session.closed.catch(() => undefined);
    await session.ready;
    if (this.over) return session.close();
    const { readable, writable } = await session.createBidirectionalStream();
    this.writer = writable.getWriter() as WritableStreamDefaultWriter<Uint8Array>;
    this.writer.closed.catch(() => undefined);
    this.openDatagrams(session, handlers);
    if (this.over) return;
    clearTimeout(this.timer);
    handlers.opened(this);
    const reader = readable.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.over) return;
      handlers.received(this, value as Uint8Array);
    }
  }

  private openDatagrams({ datagrams }: WebTransport, handlers: TransportHandlers): void {
    if (datagrams.maxDatagramSize === 0) return;
    datagrams.incomingHighWaterMark = DATAGRAMS_UNREAD_MAX;
    // Newer browsers and the standard have `createWritable` in place of `writable`.
    const { createWritable } = datagrams as { createWritable?: () => WritableStream<Uint8Array> };
    this.datagrams = (createWritable?.call(datagrams) ?? datagrams.writable).getWriter();
    this.datagrams.closed.catch(() => undefined);
    // The stream's reader reports that the session ended.
    this.readDatagrams(datagrams.readable, handlers).catch(() => undefined);
  }

  private async readDatagrams(
    readable: ReadableStream<Uint8Array>,
    handlers: TransportHandlers,
  ): Promise<void> {
    const reader = readable.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.over) return;
      handlers.receivedDatagram(this, value);
    }
  }
}
