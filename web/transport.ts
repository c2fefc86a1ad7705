// One WebSocket after another: bytes in, bytes out, and a new socket with growing patience when one drops.
// Path 10/13: from the session's /ws, to engine.ts; and back.
// Knows sockets and time; never what the bytes say.

/** First wait before trying again, doubled after each failure: a server that restarts is back in well under a second. */
const RETRY_MS_MIN = 200;
/** Longest wait: about as long as a person watches a dimmed screen before reaching for the button. */
const RETRY_MS_MAX = 8_000;
/** A socket not open after this long is given up: a handshake is three round trips, and 4 s of those is no network. */
const OPEN_MS_MAX = 12_000;
/** Bytes handed to the socket and not yet to the network, above which what can wait does: a newer pointer position replaces it. */
const QUEUED_BYTES_MAX = 16 * 1024;

export interface TransportHandlers {
  connecting(attempt: number): void;
  opened(): void;
  received(bytes: Uint8Array): void;
  /** The connection is gone; another attempt follows in `retryMs`. */
  dropped(retryMs: number): void;
  /** The server does not know this browser (any more): trying again is of no use. */
  refused(): void;
}

export class Transport {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;
  private ended = false;

  constructor(
    private readonly socketUrl: string,
    private readonly probeUrl: string,
    private readonly handlers: TransportHandlers,
  ) {}

  /** Opens a socket now; one that is open or opening is left alone. */
  open(): void {
    if (this.ended || this.socket !== undefined) return;
    clearTimeout(this.timer);
    this.handlers.connecting(this.failures + 1);
    const socket = new WebSocket(this.socketUrl);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    let opened = false;
    this.timer = setTimeout(() => socket.close(), OPEN_MS_MAX);
    socket.onopen = () => {
      if (this.socket !== socket) return;
      clearTimeout(this.timer);
      opened = true;
      this.handlers.opened();
    };
    socket.onmessage = (event: MessageEvent) => {
      if (this.socket !== socket) return;
      // A text message is none of ours; an empty chunk is a legal one.
      this.handlers.received(event.data instanceof ArrayBuffer ? new Uint8Array(event.data) : new Uint8Array());
    };
    socket.onclose = () => {
      if (this.socket !== socket) return;
      this.socket = undefined;
      clearTimeout(this.timer);
      if (opened) this.retryLater();
      else void this.retryUnlessRefused();
    };
  }

  /** False when nothing is open to take the bytes. */
  send(bytes: Uint8Array): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    // send() takes its copy at once, so a view of WASM memory may be handed over.
    this.socket.send(bytes as Uint8Array<ArrayBuffer>);
    return true;
  }

  /** True while what was sent has not left this machine: a pointer position that can be replaced should wait. */
  get congested(): boolean {
    return (this.socket?.bufferedAmount ?? 0) > QUEUED_BYTES_MAX;
  }

  /** The connection has shown that it works: the next drop is tried again at once. */
  proven(): void {
    this.failures = 0;
  }

  /** Drops the socket, and tries again. */
  drop(): void {
    const socket = this.socket;
    if (socket === undefined) return;
    this.socket = undefined;
    clearTimeout(this.timer);
    socket.close();
    this.retryLater();
  }

  /** A person or an event says that now is a good moment: no more waiting. */
  retryNow(): void {
    this.ended = false;
    this.open();
  }

  /** Closes for good, until `retryNow`. */
  end(): void {
    this.ended = true;
    clearTimeout(this.timer);
    const socket = this.socket;
    this.socket = undefined;
    socket?.close(1000);
  }

  private retryLater(): void {
    if (this.ended) return;
    const wait = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** this.failures);
    // Between half and all of it, so that many tabs do not knock together.
    const retryMs = wait * (0.5 + Math.random() / 2);
    this.failures += 1;
    this.timer = setTimeout(() => this.open(), retryMs);
    this.handlers.dropped(retryMs);
  }

  /** A page may not see why a WebSocket failed; an ordinary request tells a server that is away from one that refuses. */
  private async retryUnlessRefused(): Promise<void> {
    let status = 0;
    try {
      status = (await fetch(this.probeUrl, { method: "HEAD", cache: "no-store" })).status;
    } catch {
      // No answer at all: away.
    }
    if (this.ended || this.socket !== undefined) return;
    if (status === 401 || status === 403 || status === 404) {
      this.ended = true;
      this.handlers.refused();
    } else {
      this.retryLater();
    }
  }
}
