// The two ways for bytes between page and session: a WebSocket, and a stream of WebTransport with datagrams beside it, which a lost packet
// holds up less.
// Path 10/13: under transport.ts, which opens both and takes one.
// Knows sockets; never time beyond its own patience, nor what the bytes say.

export type WayKind = "websocket" | "webtransport";

/** A way not open after this long is given up: a handshake is three round trips, and 4 s of those is no network. */
const OPEN_MS_MAX = 12_000;
/** Bytes handed over and not yet on the network, above which what can wait does: a newer pointer position replaces it. */
const QUEUED_BYTES_MAX = 16 * 1024;
/** A session takes no longer WebSocket message than 64 KiB; frames of the protocol may be cut anywhere. */
const MESSAGE_BYTES_MAX = 32 * 1024;
/** Datagrams that wait for this thread; browsers drop the oldest beyond one. As many as viewer-core's order.rs keeps waiting. */
const DATAGRAMS_UNREAD_MAX = 128;

export interface Way {
  readonly kind: WayKind;
  /** True while what was sent has not left this machine: a pointer position that can be replaced should wait. */
  readonly congested: boolean;
  /** False when it is not open. What is sent is copied at once, so a view of WASM memory may be handed over. */
  send(bytes: Uint8Array): boolean;
  /** True where there are datagrams beside that, once it is open. */
  readonly carriesDatagrams: boolean;
  /** Sends one, or loses it where it would have to wait; copied as well. */
  sendDatagram(bytes: Uint8Array): void;
  /** Ends it, and nothing more is heard of it. */
  close(): void;
  /** As `close`, where it is in the way of another: browsers open one WebSocket to a machine at a time. */
  abandon(): void;
}

export interface WayHandlers {
  opened(way: Way): void;
  received(way: Way, bytes: Uint8Array): void;
  receivedDatagram(way: Way, bytes: Uint8Array): void;
  /** It broke, ended or did not open. */
  closed(way: Way): void;
}

export class SocketWay implements Way {
  readonly kind = "websocket";
  readonly carriesDatagrams = false;
  private readonly socket: WebSocket;
  private readonly timer: ReturnType<typeof setTimeout>;

  constructor(url: string, handlers: WayHandlers) {
    const socket = new WebSocket(url);
    this.socket = socket;
    socket.binaryType = "arraybuffer";
    this.timer = setTimeout(() => socket.close(), OPEN_MS_MAX);
    socket.onopen = () => {
      clearTimeout(this.timer);
      handlers.opened(this);
    };
    // A text message is none of ours; an empty chunk is a legal one.
    socket.onmessage = ({ data }) => handlers.received(this, data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array());
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
    // Browsers call it an error where one is closed before it was open; it keeps its own patience until then.
    socket.onopen = () => socket.close();
    if (socket.readyState === WebSocket.OPEN) socket.close(1000);
  }

  abandon(): void {
    this.close();
    this.socket.close();
  }
}

/** How to come by WebTransport, as the session tells a page that has shown its cookie. */
export interface Invitation {
  /** SHA-256 of the certificate that will be shown. */
  certificate: Uint8Array<ArrayBuffer>;
  key: string;
  seconds: number;
}

/** Undefined where the session takes nobody that way; throws where it cannot be asked. */
export async function invitation(url: string): Promise<Invitation | undefined> {
  const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(OPEN_MS_MAX) });
  if (response.status !== 200) return undefined;
  const { certificate, key, seconds } = (await response.json()) as { certificate: string; key: string; seconds: number };
  const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
  return { certificate: Uint8Array.from(bytes, (character) => character.charCodeAt(0)), key, seconds };
}

export class StreamWay implements Way {
  readonly kind = "webtransport";
  private session: WebTransport | undefined;
  private writer: WritableStreamDefaultWriter<Uint8Array> | undefined;
  private datagrams: WritableStreamDefaultWriter<Uint8Array> | undefined;
  private readonly timer: ReturnType<typeof setTimeout>;
  private queuedBytes = 0;
  private over = false;

  constructor(url: string, invited: Promise<Invitation | undefined>, handlers: WayHandlers) {
    this.timer = setTimeout(() => this.end(handlers), OPEN_MS_MAX);
    this.run(url, invited, handlers).then(() => this.end(handlers), () => this.end(handlers));
  }

  get congested(): boolean {
    return this.queuedBytes > QUEUED_BYTES_MAX;
  }

  send(bytes: Uint8Array): boolean {
    if (this.writer === undefined || this.over) return false;
    const { length } = bytes;
    this.queuedBytes += length;
    // What fails here has broken the stream, which its reader notices.
    this.writer.write(bytes.slice()).then(() => (this.queuedBytes -= length), () => undefined);
    return true;
  }

  get carriesDatagrams(): boolean {
    return this.datagrams !== undefined;
  }

  sendDatagram(bytes: Uint8Array): void {
    const longest = this.session?.datagrams.maxDatagramSize ?? 0;
    // The next says more than one that would wait for it.
    if (this.over || (this.datagrams?.desiredSize ?? 0) <= 0 || bytes.length > longest) return;
    this.datagrams?.write(bytes.slice()).catch(() => undefined);
  }

  close(): void {
    this.over = true;
    clearTimeout(this.timer);
    try {
      this.session?.close();
    } catch {
      // It is not open yet, and some browsers say so: it then closes by itself.
    }
  }

  abandon(): void {
    this.close();
  }

  private end(handlers: WayHandlers): void {
    if (this.over) return;
    this.close();
    handlers.closed(this);
  }

  private async run(url: string, invited: Promise<Invitation | undefined>, handlers: WayHandlers): Promise<void> {
    const invitation = await invited;
    if (invitation === undefined || this.over) return;
    const session = new WebTransport(`${url}?key=${invitation.key}`, {
      serverCertificateHashes: [{ algorithm: "sha-256", value: invitation.certificate }],
      congestionControl: "low-latency",
    });
    this.session = session;
    // How it ended is said by what is read.
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

  private openDatagrams({ datagrams }: WebTransport, handlers: WayHandlers): void {
    if (datagrams.maxDatagramSize === 0) return;
    datagrams.incomingHighWaterMark = DATAGRAMS_UNREAD_MAX;
    // Newer browsers, and the standard, have the second in place of the first.
    const { createWritable } = datagrams as { createWritable?: () => WritableStream<Uint8Array> };
    this.datagrams = (createWritable?.call(datagrams) ?? datagrams.writable).getWriter();
    this.datagrams.closed.catch(() => undefined);
    // That they end is said by the stream.
    this.readDatagrams(datagrams.readable, handlers).catch(() => undefined);
  }

  private async readDatagrams(readable: ReadableStream<Uint8Array>, handlers: WayHandlers): Promise<void> {
    const reader = readable.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.over) return;
      handlers.receivedDatagram(this, value);
    }
  }
}
