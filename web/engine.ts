// The viewer itself: transport, decoder and canvas joined, in a worker where the browser can, else in the page.
// Path 10/13 to 13/13: from transport.ts, through decoder.ts, to present.ts; input goes back the same way.
// Decoding and acknowledging follow the socket, presenting follows the display: neither waits for the other.

import { Decoder, DecoderError, compileDecoder, type DecoderEvent } from "./decoder";
import { nowUs, type ConnectionState, type FromEngine, type Pixels, type Stats, type ToEngine } from "./messages";
import { loadKept, saveKept } from "./kept";
import { choosePresenter, type Presenter } from "./present";
import { Transport } from "./transport";

/** After this much silence in answer to something sent, the session is asked for a sign of life … */
const SILENCE_MS_MAX = 5_000;
/** … which must come within this time, or the path is taken for dead: the socket alone needs minutes to notice. */
const SIGN_OF_LIFE_MS_MAX = 8_000;
/** Half of what viewer-core allows; whoever asks waits for each. */
const BARRIERS_MAX = 4;
/** A session that has not taken a new size after this long will not (another viewer controls it): the next may be asked. */
const RESIZE_ANSWER_MS_MAX = 1_000;
/** After a new size or connection the old picture stays until the new one is whole, but no longer than this. */
const HOLD_MS_MAX = 400;
/** What is kept is saved so often, and when the page is hidden: a page that is closed is given no time for it. */
const SAVE_MS = 60_000;
// As `CloseCode` of crates/protocol/src/session.rs.
const CLOSE = { ended: 1, version: 2, unauthorized: 3, protocol: 4, tooSlow: 5, replaced: 6, restart: 7 } as const;

interface Waiting {
  resolve(): void;
  reject(error: Error): void;
}

export class Engine {
  private module: WebAssembly.Module | undefined;
  private decoder: Decoder | undefined;
  private transport: Transport | undefined;
  private presenter: Presenter | undefined;
  private silenceTimer: ReturnType<typeof setTimeout> | undefined;

  private connected = false;
  private closed = false;
  /** Size of the tab in device pixels, and whether the session has been asked for it. */
  private wanted = { width: 0, height: 0 };
  private resizeState: "asked" | "unasked" | "settled" = "settled";
  private resizeTimer: ReturnType<typeof setTimeout> | undefined;

  private visible = true;
  private presentScheduled = false;
  private presents = 0;
  private tellsInexact = false;
  /** The session's address where what is kept is saved, and whether that is under way. */
  private keptAs: string | undefined;
  private saving = false;
  /** Until when the old picture is held back from a new, still incomplete one; 0: it is not. */
  private holdUntilMs = 0;
  private newSize: { width: number; height: number } | undefined;

  private readonly barriers = new Map<number, Waiting>();
  private readonly awaitPicture: Waiting[] = [];
  private readonly awaitPresent: Waiting[] = [];

  constructor(private readonly tell: (message: FromEngine, transfer?: Transferable[]) => void) {}

  /** Takes one message of the page; nothing is thrown, what goes wrong is told. */
  handle(message: ToEngine): void {
    switch (message.type) {
      case "start":
        this.start(message).catch((error: unknown) => this.close("The viewer cannot start", wordsOf(error), false));
        break;
      case "key":
        this.act((decoder) => decoder.key(message.code, message.keysym, message.down, message.timeUs));
        break;
      case "button":
        this.act((decoder) => decoder.button(message.button, message.down, message.timeUs));
        break;
      case "motion":
        this.act((decoder) => decoder.motion(message.x, message.y, nowUs()), "may wait");
        break;
      case "scroll":
        this.act((decoder) => decoder.scroll(message.dx, message.dy, nowUs()));
        break;
      case "touch":
        this.act((decoder) => decoder.touch(message.id, message.phase, message.x, message.y, nowUs()));
        break;
      case "releaseAll":
        this.act((decoder) => decoder.releaseAll(nowUs()));
        break;
      case "resize":
        this.wanted = { width: message.width, height: message.height };
        if (this.resizeState === "settled") this.askResize();
        else this.resizeState = "unasked";
        break;
      case "visible":
        this.visible = message.visible;
        if (this.visible) this.schedulePresent();
        else void this.save();
        break;
      case "tellInexact":
        this.tellsInexact = message.tell;
        this.tellInexact();
        break;
      case "retry":
        this.retry().catch((error: unknown) => this.close("The viewer cannot start", wordsOf(error), false));
        break;
      case "disconnect":
        this.act((decoder) => decoder.close());
        this.close("Disconnected", "The session goes on without you.", true);
        break;
      case "ask":
        this.answer(message.what).then(
          (value) => this.tell({ type: "answer", id: message.id, value }, value && "data" in value ? [value.data.buffer] : []),
          (error: unknown) => this.tell({ type: "failed", id: message.id, reason: wordsOf(error) }),
        );
        break;
    }
  }

  private async start(message: Extract<ToEngine, { type: "start" }>): Promise<void> {
    this.wanted = { width: message.width, height: message.height };
    this.presenter = choosePresenter(message.canvas, message.presenter, () => this.presentAll());
    this.transport = new Transport(message.socketUrl, message.probeUrl, {
      connecting: (attempt) => this.state({ name: "connecting", attempt }),
      opened: () => this.opened(),
      received: (bytes) => this.received(bytes),
      dropped: (retryMs) => {
        this.lost(new Error("the connection dropped"));
        this.state({ name: "waiting", retryMs });
      },
      refused: () =>
        this.close("This link is no longer good", "The session does not know this browser. Ask for a new link: thinc link.", true),
    });
    this.module = await compileDecoder(message.wasmUrl);
    this.decoder = await Decoder.load(this.module);
    if (message.keep) await this.load(this.decoder, message.socketUrl);
    this.transport.open();
  }

  /** What an earlier page kept, and from now on what this one keeps. */
  private async load(decoder: Decoder, session: string): Promise<void> {
    this.keptAs = session;
    setInterval(() => void this.save(), SAVE_MS);
    try {
      const saved = await loadKept(session);
      const refused = saved && decoder.loadCache(saved);
      if (refused !== undefined) console.warn(`thinc: what an earlier page kept is not used: ${refused}`);
    } catch (error) {
      console.warn(`thinc: what an earlier page kept is not to be had: ${wordsOf(error)}`);
    }
  }

  private async save(): Promise<void> {
    if (this.keptAs === undefined || this.saving) return;
    const bytes = this.decoder?.saveCache();
    if (bytes === undefined) return;
    this.saving = true;
    try {
      await saveKept(this.keptAs, bytes);
    } catch (error) {
      console.warn(`thinc: what is kept is not saved: ${wordsOf(error)}`);
      this.keptAs = undefined;
    } finally {
      this.saving = false;
    }
  }

  private async retry(): Promise<void> {
    if (this.connected || this.module === undefined) return;
    // One that trapped is not to be trusted again.
    this.decoder ??= await Decoder.load(this.module);
    this.closed = false;
    this.transport?.retryNow();
  }

  private opened(): void {
    this.connected = true;
    this.holdUntilMs = performance.now() + HOLD_MS_MAX;
    this.act((decoder) => decoder.open("thinc-web", this.wanted.width, this.wanted.height));
  }

  private received(bytes: Uint8Array): void {
    clearTimeout(this.silenceTimer);
    this.silenceTimer = undefined;
    this.act((decoder) => decoder.bytes(bytes, nowUs()));
  }

  /**
   * Something was sent: within a while something should come. Nothing need come after an acknowledgement, so silence
   * alone proves nothing; but viewer-core pings with whatever happens, and no bytes are a happening too.
   */
  private expectAnswer(): void {
    this.silenceTimer ??= setTimeout(() => {
      this.silenceTimer = setTimeout(() => this.transport?.drop(), SIGN_OF_LIFE_MS_MAX);
      this.act((decoder) => decoder.bytes(new Uint8Array(), nowUs()));
    }, SILENCE_MS_MAX);
  }

  /**
   * Calls the decoder, sends what it has to say and takes its events: the one way in, so that none is forgotten. What may
   * wait stays with viewer-core while the link is full; there a newer position of the pointer takes its place.
   */
  private act<T>(call: (decoder: Decoder) => T, urgency: "now" | "may wait" = "now"): T | undefined {
    const decoder = this.decoder;
    if (!this.connected || decoder === undefined) return undefined;
    try {
      const result = call(decoder);
      if (urgency === "now" || this.transport?.congested === false) {
        const output = decoder.output();
        if (output.length > 0 && this.transport?.send(output)) this.expectAnswer();
      }
      for (let event = decoder.event(); event !== undefined; event = decoder.event()) this.happened(event);
      if (decoder.damaged) this.schedulePresent();
      return result;
    } catch (error) {
      if (error instanceof DecoderError) {
        this.close("The connection broke off", error.message, true);
      } else {
        this.decoder = undefined;
        this.close("The viewer failed", `This is a bug of thinc: ${decoder.panicWords() ?? wordsOf(error)}`, true);
      }
      return undefined;
    }
  }

  private happened(event: DecoderEvent): void {
    switch (event.type) {
      case "hello":
        this.transport?.proven();
        this.state({ name: "connected" });
        this.tell({ type: "name", name: event.name });
        break;
      case "geometry":
        this.newSize = { width: event.width, height: event.height };
        this.holdUntilMs = performance.now() + HOLD_MS_MAX;
        this.resizeAnswered();
        setTimeout(() => this.schedulePresent(), HOLD_MS_MAX);
        break;
      case "frameEnd":
        this.holdUntilMs = 0;
        this.schedulePresent();
        break;
      case "cursor": {
        const { width, height, hotX, hotY, rgba } = event;
        this.tell({ type: "cursor", width, height, hotX, hotY, rgba }, [rgba.buffer]);
        break;
      }
      case "cursorShow":
        this.tell({ type: "cursorShow", shown: event.shown });
        break;
      case "barrier":
        this.barriers.get(event.id)?.resolve();
        this.barriers.delete(event.id);
        break;
      case "closed":
        this.sessionClosed(event.code, event.reason);
        break;
    }
  }

  private sessionClosed(code: number, reason: string): void {
    switch (code) {
      case CLOSE.restart:
      case CLOSE.tooSlow:
        this.transport?.drop();
        break;
      case CLOSE.ended:
        this.close("The session has ended", reason, false);
        break;
      case CLOSE.replaced:
        this.close("Another viewer took over", reason, true);
        break;
      case CLOSE.version:
        this.close("This page and the session speak different versions", reason, true);
        break;
      case CLOSE.unauthorized:
        this.close("This link is no longer good", reason, true);
        break;
      default:
        this.close("The session closed the connection", reason, true);
    }
  }

  // Presenting

  private schedulePresent(): void {
    if (this.presentScheduled || !this.visible) return;
    this.presentScheduled = true;
    requestAnimationFrame(() => {
      this.presentScheduled = false;
      this.present();
    });
  }

  private present(): void {
    const decoder = this.decoder;
    const presenter = this.presenter;
    if (decoder === undefined || presenter === undefined) return;
    if (this.newSize !== undefined) {
      if (performance.now() < this.holdUntilMs) return; // a whole frame, or the timer set with the hold, comes back here
      const { width, height } = this.newSize;
      this.newSize = undefined;
      presenter.resize(width, height);
      this.tell({ type: "geometry", width, height });
    }
    const damage = decoder.takeDamage();
    presenter.present(decoder, damage);
    this.presents += 1;
    this.tellInexact();
    this.act(() => decoder.presented(nowUs()));
    for (const waiting of [...this.awaitPicture.splice(0), ...this.awaitPresent.splice(0)]) waiting.resolve();
  }

  private tellInexact(): void {
    if (!this.tellsInexact || this.decoder === undefined) return;
    const rects = this.decoder.inexact();
    this.tell({ type: "inexact", rects }, [rects.buffer]);
  }

  /** After the canvas lost what it showed. */
  private presentAll(): void {
    const decoder = this.decoder;
    if (decoder === undefined) return;
    this.presenter?.present(decoder, Int32Array.of(0, 0, decoder.width, decoder.height));
  }

  // The session follows the tab's size: one request under way, and only the newest size waits behind it.

  private askResize(): void {
    this.resizeState = "asked";
    this.act((decoder) => decoder.resize(this.wanted.width, this.wanted.height));
    clearTimeout(this.resizeTimer);
    this.resizeTimer = setTimeout(() => this.resizeAnswered(), RESIZE_ANSWER_MS_MAX);
  }

  private resizeAnswered(): void {
    clearTimeout(this.resizeTimer);
    if (this.resizeState === "unasked") this.askResize();
    else this.resizeState = "settled";
  }

  // Questions of the page

  private async answer(what: "quiet" | "pixels" | "stats"): Promise<undefined | Pixels | Stats> {
    if (what === "stats") return this.stats();
    if (what === "pixels") {
      const decoder = this.decoder;
      if (decoder === undefined) throw new Error("there is no picture");
      const { width, height } = decoder;
      return { width, height, data: decoder.rgba(0, 0, width, height).slice() };
    }
    return this.quiet();
  }

  /** Until a barrier's whole round brought no update, and what came before is on the canvas. */
  private async quiet(): Promise<undefined> {
    if (this.presents === 0) await new Promise<void>((resolve, reject) => this.awaitPicture.push({ resolve, reject }));
    for (let before = -1; before !== this.updates(); ) {
      before = this.updates();
      await new Promise<void>((resolve, reject) => {
        const id = this.barriers.size < BARRIERS_MAX ? this.act((decoder) => decoder.barrier()) : undefined;
        if (id === undefined) reject(new Error("there is no connection, or too many wait already"));
        else this.barriers.set(id, { resolve, reject });
      });
    }
    if (this.presentScheduled) await new Promise<void>((resolve, reject) => this.awaitPresent.push({ resolve, reject }));
    return undefined;
  }

  private updates(): number {
    return this.decoder?.stats().updates ?? 0;
  }

  private stats(): Stats {
    const decoder = this.decoder;
    if (decoder === undefined) throw new Error("there is no viewer");
    return {
      ...decoder.stats(),
      presenter: this.presenter?.kind ?? "2d",
      width: decoder.width,
      height: decoder.height,
      presents: this.presents,
    };
  }

  // Endings

  private lost(why: Error): void {
    this.connected = false;
    clearTimeout(this.silenceTimer);
    this.silenceTimer = undefined;
    clearTimeout(this.resizeTimer);
    this.resizeState = "settled";
    for (const waiting of this.barriers.values()) waiting.reject(why);
    this.barriers.clear();
  }

  private close(title: string, reason: string, again: boolean): void {
    if (this.closed) return;
    this.closed = true;
    this.lost(new Error(title));
    for (const waiting of this.awaitPicture.splice(0)) waiting.reject(new Error(`${title}. ${reason}`));
    this.transport?.end();
    this.state({ name: "closed", title, reason, again });
  }

  private state(state: ConnectionState): void {
    if (state.name !== "closed") this.closed = false;
    this.tell({ type: "state", state });
  }
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
