// The viewer itself: transport, decoder and canvas joined, in a worker where the browser can, else in the page.
// Path 10/13 to 13/13: from transport.ts, through decoder.ts, to present.ts; input goes back the same way.
// Decoding and acknowledging follow the socket, presenting follows the display: neither waits for the other.

import { CLIPBOARD, Decoder, DecoderError, compileDecoder, type DecoderEvent } from "./decoder";
import { ClipWhy, INSTANCE_BYTES, nowUs, type ClipboardPolicy, type ConnectionState, type DisplaySize, type FromEngine, type Pixels, type Stats, type ToEngine } from "./messages";
import { Keeper, type Kept } from "./keeper";
import { loadKept, saveKept } from "./kept";
import { choosePresenter, type Presenter } from "./present";
import { Transport } from "./transport";
import { decodesH264, Videos } from "./video";
import type { Picture } from "./tiles";
import type { Rect, Size, Wish } from "./view";

/** What a person does asks for an answer. It is due after two round trips and this, … */
const ACT_SILENCE_MS = 170;
/** … of which the first is not measured yet: a satellite's. */
const ROUND_TRIP_MS_MAX = 700;
/** After so much silence in answer to anything else, or to nothing at all, the session is asked for a sign of life: somebody may be
 * watching a picture that stands still for another reason. */
const SILENCE_MS_MAX = 5_000;
const REST_MS_MAX = 20_000;
/** The person is told when it does not come within this time, which a satellite needs for an answer … */
const ANSWER_MS_MAX = 1_500;
/** … and after this time more the path is taken for dead: the socket alone needs minutes to notice. */
const DEAD_MS_MAX = 5_000;
/** Meanwhile the session is asked again this often, as the native viewer does: where the path carries again, a new question finds out
 * soonest. */
const ASK_MS = 200;
/** Others are tried beside a connection that has said nothing for so long more; by WebTransport each question is a packet of its own, which no
 * lost one before it holds up, and what was lost is said again as soon as that arrives: no new connection is sooner. */
const SEEK_MS = { websocket: 500, webtransport: 2_000 } as const;
/** After waking up, a path is more likely dead than slow. */
const WAKE_DEAD_MS_MAX = 1_000;
/** viewer-core pings no sooner after the last ping. */
const PING_MS = 1_000;
/** An open socket on which no session speaks for this long leads to none. */
const HELLO_MS_MAX = 10_000;
/** The program is asked for so often, with a growing wait between: together a quarter of a minute. */
const FETCHES_MAX = 6;
const FETCH_RETRY_MS = 500;
/** How often a clock is looked at, and a jump of it that a busy machine does not make: it slept. */
const CLOCK_MS = 2_000;
const CLOCK_JUMP_MS_MIN = 4_000;
/** Half of what viewer-core allows; whoever asks waits for each. */
const BARRIERS_MAX = 4;
/** A session that has not taken a new size after this long will not (another viewer controls it): the next may be asked. */
const RESIZE_ANSWER_MS_MAX = 1_000;
/** After a new size or connection the old picture stays until the new one is whole, but no longer than this. */
const HOLD_MS_MAX = 400;
/** What is kept is saved so often, and when the page is hidden: a page that is closed is given no time for it. */
const SAVE_MS = 60_000;
/** The picture that an earlier page of the tab kept holds up the first connection no longer than this. */
const RESTORE_MS_MAX = 1_000;
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
  /** What this page is known by in every connection, and nobody guesses: keys typed into a path that died must not arrive later. */
  private instance = crypto.getRandomValues(new Uint8Array(INSTANCE_BYTES));
  private presenter: Presenter | undefined;
  /** Until when something has to come; undefined while nothing is awaited. */
  private awaited: { atMs: number; timer: ReturnType<typeof setTimeout> } | undefined;
  private seekTimer: ReturnType<typeof setTimeout> | undefined;
  private askTimer: ReturnType<typeof setInterval> | undefined;
  /** The person has been told that no answer comes. */
  private silent = false;
  /** Chunks handed to the socket. */
  private sends = 0;
  private receivedAtMs = 0;

  private connected = false;
  /** The session has answered this connection's hello. */
  private greeted = false;
  private closed = false;
  /** What the page was told last: keys typed without a connection will be sent. */
  private keeps = true;
  /** What the session's screen is to become, and whether the session has been asked for it. */
  private wanted: DisplaySize = { width: 0, height: 0, scale: 0 };
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
  private newPicture: { width: number; height: number; screen: Size; part: Rect } | undefined;
  /** What the page shows, where it has ever said; told to every connection. */
  private wish: Wish | undefined;
  /** What the tab's next page is to have of the picture. */
  private keeper: Keeper | undefined;
  /** What an earlier page kept is still read; a connection has opened, and waits for that. */
  private beginning: "read" | "opened" | undefined;
  private videos: Videos | undefined;
  /** A picture of the connection before that still has the room. */
  private copying: Promise<void> | undefined;
  private takingVideos = false;
  private h264 = false;

  private clipPolicy: ClipboardPolicy = { toSession: false, fromSession: false };
  /** The page's newest offer, said again to a new connection; no formats where the session has copied something since. */
  private given = { number: 0, formats: 0 };
  /** Contents asked of the session: viewer-core's numbers → the page's. */
  private readonly clipRequests = new Map<number, number>();
  /** The connection's first picture was shown: what the session offers from now on was copied just now. */
  private settled = false;
  private deadlineTimer: ReturnType<typeof setTimeout> | undefined;
  private deadlineUs = 0;
  /** How the keyboard is laid out, told to every connection. */
  private layout: { layout: string; variant: string } | undefined;

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
        this.type((decoder) => decoder.key(message.code, message.keysym, message.down, message.timeUs));
        break;
      case "char":
        this.type((decoder) => decoder.char(message.codePoint, nowUs()));
        break;
      case "locks":
        this.type((decoder) => decoder.locks(message.caps, message.num, nowUs()), "page");
        break;
      case "layout":
        this.layout = message;
        this.act((decoder) => decoder.layout(message.layout, message.variant));
        break;
      case "button":
        this.type((decoder) => decoder.button(message.button, message.down, message.timeUs));
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
        this.type((decoder) => decoder.releaseAll(nowUs()), "page");
        break;
      case "display":
        this.wanted = message.display;
        if (this.wanted.width === 0) break; // which nobody need be asked for
        if (this.resizeState === "settled") this.askResize();
        else this.resizeState = "unasked";
        break;
      case "view":
        this.wish = message.wish;
        this.act((decoder) => decoder.view(message.wish));
        break;
      case "visible":
        this.visible = message.visible;
        if (this.visible) this.schedulePresent();
        else {
          void this.save();
          void this.keeper?.save("last");
        }
        break;
      case "tellInexact":
        this.tellsInexact = message.tell;
        this.tellInexact();
        break;
      case "clipOffer":
        this.given = { number: message.number, formats: message.formats };
        this.act((decoder) => decoder.clipOffer(message.formats));
        break;
      case "clipRequest": {
        const id = this.act((decoder) => decoder.clipRequest(message.format, nowUs()));
        if (id !== undefined) this.clipRequests.set(id, message.request);
        else this.tell({ type: "clipFailed", request: message.request, why: ClipWhy.Gone, bytes: 0, limit: 0 });
        break;
      }
      case "clipProvide":
        this.act((decoder) => decoder.clipProvide(message.id, message.bytes, nowUs()));
        break;
      case "wake":
        this.wake();
        break;
      case "retry":
        this.retry().catch((error: unknown) => this.close("The viewer cannot start", wordsOf(error), false));
        break;
      case "disconnect":
        this.act((decoder) => decoder.close());
        this.forget();
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
    this.wanted = message.display;
    this.clipPolicy = message.clipboard;
    this.presenter = choosePresenter(message.canvas, message.presenter, () => this.presentAll());
    const urls = { socket: message.socketUrl, webTransport: message.webTransportUrl, probe: message.probeUrl };
    this.transport = new Transport(urls, message.transport, {
      connecting: (attempt) => this.state({ name: "connecting", attempt }),
      opened: () => this.opened(),
      received: (bytes) => this.received((decoder) => decoder.bytes(bytes, nowUs())),
      receivedDatagram: (bytes) => this.received((decoder) => decoder.datagram(bytes, nowUs())),
      dropped: (retryMs, failures) => {
        this.lost(new Error("the connection dropped"));
        this.state({ name: "waiting", retryMs, failures });
      },
      replaced: () => this.lost(new Error("the connection was silent")),
      refused: () => {
        this.forget();
        this.close("This link is no longer good", `The session does not know this browser any more. ${NEW_LINK}`, false);
      },
    });
    this.transport.prepare();
    const { tab } = message;
    if (tab) {
      this.instance = tab.instance;
      this.keeper = new Keeper(tab, () => this.decoder);
    }
    const before = tab?.again ? this.keeper?.read(RESTORE_MS_MAX) : undefined;
    if (before) this.beginning = "read";
    const h264 = decodesH264();
    this.module = await this.fetchDecoder(message.wasmUrl);
    this.decoder = await Decoder.load(this.module);
    if (message.keep) await this.load(this.decoder, message.socketUrl);
    this.h264 = await h264;
    this.watchClock();
    this.transport.open();
    if (before) this.begin(await before);
  }

  /** What an earlier page of the tab showed is read, and a connection may have opened meanwhile. */
  private begin(kept: Kept | undefined): void {
    const { decoder, beginning } = this;
    this.beginning = undefined;
    if (kept && decoder && !this.closed) this.showBefore(decoder, this.keeper?.restore(decoder, kept));
    if (beginning === "opened") this.opened();
  }

  /** What an earlier page of the tab showed stays in sight, as if the connection had dropped; and the same view is asked for. */
  private showBefore(decoder: Decoder, picture: Picture | undefined): void {
    const { presenter } = this;
    if (picture === undefined || presenter === undefined) return;
    const { width, height, screen, part } = picture;
    const whole = part.width === screen.width && part.height === screen.height;
    if (!whole || width !== part.width || height !== part.height) this.wish ??= { size: { width, height }, part };
    presenter.resize(width, height);
    this.tell({ type: "geometry", width, height, screen, part });
    presenter.present(decoder, decoder.takeDamage());
    this.tellKeeps();
  }

  /** Nothing of this session stays in the browser. */
  private forget(): void {
    this.keeper?.forget();
    this.tell({ type: "forget" });
  }

  /** The program itself may be what a connection was cut in. */
  private async fetchDecoder(url: string): Promise<WebAssembly.Module> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await compileDecoder(url);
      } catch (error) {
        if (attempt === FETCHES_MAX) throw error;
        const retryMs = FETCH_RETRY_MS * 2 ** (attempt - 1);
        this.state({ name: "waiting", retryMs, failures: attempt });
        await new Promise((resolve) => setTimeout(resolve, retryMs));
        this.state({ name: "connecting", attempt: attempt + 1 });
      }
    }
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
    if (this.beginning !== undefined) {
      this.beginning = "opened";
      return;
    }
    this.connected = true;
    this.holdUntilMs = performance.now() + HOLD_MS_MAX;
    this.settled = false;
    this.expect(HELLO_MS_MAX, () => this.transport?.drop());
    this.videos = new Videos((call) => this.act(call), this.copying);
    this.act((decoder) => {
      decoder.instance(this.instance);
      decoder.h264(this.h264);
      decoder.alone(this.transport?.carriesDatagrams ?? false);
      decoder.clipPolicy(this.clipPolicy);
      if (this.layout) decoder.layout(this.layout.layout, this.layout.variant);
      decoder.open("thinc-web", this.wanted.width, this.wanted.height);
      if (this.wanted.scale !== 0) decoder.display(this.wanted, this.wanted.scale);
      if (this.wish) decoder.view(this.wish);
      if (this.given.formats !== 0) decoder.clipOffer(this.given.formats);
    });
  }

  private received(take: (decoder: Decoder) => void): void {
    this.receivedAtMs = performance.now();
    this.transport?.heard();
    this.endSilence();
    this.act(take);
  }

  // Silence. Nothing need come after an acknowledgement, so silence alone proves nothing; but viewer-core pings with whatever
  // happens, and no bytes are a happening too.

  /** Something should come within `ms`; what is awaited already sooner stays awaited. */
  private expect(ms: number, then: () => void): void {
    const atMs = performance.now() + ms;
    if (this.awaited !== undefined && this.awaited.atMs <= atMs) return;
    clearTimeout(this.awaited?.timer);
    this.awaited = { atMs, timer: setTimeout(then, ms) };
  }

  private sent(by: "person" | "page"): void {
    this.sends += 1;
    if (!this.greeted || this.silent) return;
    if (by === "person") this.expect(2 * this.roundTripMs() + ACT_SILENCE_MS, () => this.beSilent(DEAD_MS_MAX));
    else this.expect(SILENCE_MS_MAX, () => this.probe(DEAD_MS_MAX));
  }

  /** The shortest there was: what waits behind a picture in a queue is not silence. */
  private roundTripMs(): number {
    const us = this.decoder?.stats().rttMinUs ?? 0;
    return us > 0 ? Math.min(us / 1000, ROUND_TRIP_MS_MAX) : ROUND_TRIP_MS_MAX;
  }

  /** The person is told and the session asked; others are tried beside it, and it is left when none has opened for long. */
  private beSilent(deadMs: number): void {
    if (this.transport) this.transport.roundTripMs = this.roundTripMs();
    clearTimeout(this.awaited?.timer);
    this.awaited = undefined;
    this.silent = true;
    this.state({ name: "silent" });
    this.seekTimer = setTimeout(() => this.transport?.seek(), SEEK_MS[this.transport?.kind ?? "websocket"]);
    this.expect(deadMs, () => this.transport?.drop());
    const ask = () => this.act((decoder) => decoder.quiet(nowUs()));
    clearInterval(this.askTimer);
    this.askTimer = setInterval(ask, ASK_MS);
    ask();
  }

  private endSilence(): void {
    clearTimeout(this.awaited?.timer);
    this.awaited = undefined;
    clearTimeout(this.seekTimer);
    clearInterval(this.askTimer);
    if (this.silent && this.connected) this.state({ name: "connected" });
    this.silent = false;
  }

  /** Asks for a sign of life; without one, for so long after the person was told, the connection is made anew. */
  private probe(deadMs: number, attempts = 2): void {
    if (!this.greeted) return; // a new connection has its own patience
    clearTimeout(this.awaited?.timer);
    this.awaited = undefined;
    const before = this.sends;
    this.act((decoder) => decoder.bytes(new Uint8Array(), nowUs()));
    if (this.sends === before && attempts > 1) {
      this.expect(PING_MS, () => this.probe(deadMs, attempts - 1));
      return;
    }
    this.expect(ANSWER_MS_MAX, () => this.beSilent(deadMs));
  }

  /** The machine or the page slept, or the network came back: does the connection still stand? */
  private wake(): void {
    if (this.greeted) this.probe(WAKE_DEAD_MS_MAX);
    else if (!this.closed) this.transport?.wake();
  }

  private watchClock(): void {
    let lastMs = Date.now();
    setInterval(() => {
      const nowMs = Date.now();
      const slept = nowMs - lastMs > CLOCK_MS + CLOCK_JUMP_MS_MIN;
      lastMs = nowMs;
      if (slept) this.wake();
      else if (this.visible && performance.now() - this.receivedAtMs > REST_MS_MAX && this.awaited === undefined) {
        this.probe(DEAD_MS_MAX);
      }
    }, CLOCK_MS);
  }

  /**
   * Calls the decoder, sends what it has to say and takes its events: the one way in, so that none is forgotten. What may
   * wait stays with viewer-core while the link is full; there a newer position of the pointer takes its place.
   */
  private act<T>(call: (decoder: Decoder) => T, urgency: "now" | "may wait" = "now", by: "person" | "page" = "page"): T | undefined {
    const decoder = this.decoder;
    if (!this.connected || decoder === undefined) return undefined;
    return this.guarded(decoder, () => {
      const result = call(decoder);
      const datagram = decoder.datagramOutput();
      if (datagram.length > 0) this.transport?.sendDatagram(datagram);
      if (urgency === "now" || this.transport?.congested === false) {
        const output = decoder.output();
        if (output.length > 0 && this.transport?.send(output)) this.sent(by);
      }
      for (let event = decoder.event(); event !== undefined; event = decoder.event()) this.happened(event);
      this.takeVideos(decoder);
      if (decoder.damaged) this.schedulePresent();
      this.heedDeadline(decoder);
      return result;
    });
  }

  /** A decoder that fails is the end of the connection. */
  private guarded<T>(decoder: Decoder, call: () => T): T | undefined {
    try {
      return call();
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

  /** What a person types is said, or kept for the next connection while there is none; what else is pressed then, viewer-core looks at only. */
  private type(call: (decoder: Decoder) => void, by: "person" | "page" = "person"): void {
    const decoder = this.decoder;
    if (this.connected) this.act(call, "now", by);
    else if (decoder !== undefined && !this.closed) this.guarded(decoder, () => call(decoder));
    if (!this.greeted) this.tellKeeps();
  }

  private tellKeeps(): void {
    const keeps = this.decoder?.keeps(nowUs()) ?? false;
    if (keeps !== this.keeps) this.tell({ type: "keeps", keeps });
    this.keeps = keeps;
  }

  /** In their order: what is said while one is taken leaves the next to whoever takes it. */
  private takeVideos(decoder: Decoder): void {
    if (this.takingVideos) return;
    this.takingVideos = true;
    try {
      for (let task = decoder.video(); task !== undefined; task = decoder.video()) this.videos?.take(task);
    } finally {
      this.takingVideos = false;
    }
  }

  /** What is waited for is waited for so long and no longer. */
  private heedDeadline(decoder: Decoder): void {
    const deadline = decoder.deadline();
    if (deadline === undefined || (this.deadlineTimer !== undefined && deadline >= this.deadlineUs)) return;
    clearTimeout(this.deadlineTimer);
    this.deadlineUs = deadline;
    this.deadlineTimer = setTimeout(() => {
      this.deadlineTimer = undefined;
      this.act((decoder) => decoder.timeout(nowUs()));
    }, Math.max(0, (deadline - nowUs()) / 1000));
  }

  private happened(event: DecoderEvent): void {
    switch (event.type) {
      case "hello":
        this.greeted = true;
        this.transport?.proven();
        this.state({ name: "connected" });
        this.tell({ type: "name", name: event.name });
        break;
      case "geometry":
        this.newPicture = event;
        this.keeper?.setPicture(event);
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
      case "clipOffer":
        if (event.selection !== CLIPBOARD) break;
        if (event.formats !== 0) this.given.formats = 0;
        this.tell({ type: "clipOffer", after: this.given.number, formats: event.formats, copied: this.settled });
        break;
      case "clipWanted":
        this.tell({ type: "clipWanted", id: event.id, format: event.format });
        break;
      case "clipContent": {
        const request = this.clipRequests.get(event.id);
        this.clipRequests.delete(event.id);
        if (request !== undefined) this.tell({ type: "clipContent", request, bytes: event.bytes }, [event.bytes.buffer]);
        break;
      }
      case "clipEnded": {
        const { id, why, bytes, limit } = event;
        const request = this.clipRequests.get(id);
        this.clipRequests.delete(id);
        this.tell(request !== undefined ? { type: "clipFailed", request, why, bytes, limit } : { type: "clipRefused", why, bytes, limit });
        break;
      }
    }
  }

  private sessionClosed(code: number, reason: string): void {
    switch (code) {
      case CLOSE.restart:
      case CLOSE.tooSlow:
        this.transport?.drop();
        break;
      case CLOSE.ended:
        this.forget();
        this.close("The session has ended", `${sentence(reason)}Start it again on its machine and open its new link: thinc serve.`, false);
        break;
      case CLOSE.replaced:
        this.close("Another viewer took over", reason, true);
        break;
      case CLOSE.version:
        this.close("This page and the session speak different versions", reason, true);
        break;
      case CLOSE.unauthorized:
        this.forget();
        this.close("This link is no longer good", `${sentence(reason)}${NEW_LINK}`, false);
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
    if (this.newPicture !== undefined) {
      if (performance.now() < this.holdUntilMs) return; // a whole frame, or the timer set with the hold, comes back here
      const { width, height, screen, part } = this.newPicture;
      this.newPicture = undefined;
      presenter.resize(width, height);
      this.tell({ type: "geometry", width, height, screen, part });
    }
    const damage = decoder.takeDamage();
    presenter.present(decoder, damage);
    this.settled = decoder.width > 0;
    if (this.connected) this.presents += 1;
    this.tellInexact();
    this.act(() => decoder.presented(nowUs()));
    this.keeper?.heed();
    // What an earlier page showed is no picture of the session's yet.
    if (this.connected) for (const waiting of this.awaitPicture.splice(0)) waiting.resolve();
    for (const waiting of this.awaitPresent.splice(0)) waiting.resolve();
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
    this.act((decoder) => {
      decoder.resize(this.wanted.width, this.wanted.height);
      if (this.wanted.scale !== 0) decoder.display(this.wanted, this.wanted.scale);
    });
    clearTimeout(this.resizeTimer);
    this.resizeTimer = setTimeout(() => this.resizeAnswered(), RESIZE_ANSWER_MS_MAX);
  }

  private resizeAnswered(): void {
    clearTimeout(this.resizeTimer);
    if (this.resizeState === "unasked") this.askResize();
    else this.resizeState = "settled";
  }

  // Questions of the page

  private async answer(what: "quiet" | "kept" | "pixels" | "stats"): Promise<undefined | Pixels | Stats> {
    if (what === "kept") return this.keeper?.save("last").then(() => undefined);
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
      transport: this.transport?.kind,
      presenter: this.presenter?.kind ?? "2d",
      width: decoder.width,
      height: decoder.height,
      presents: this.presents,
    };
  }

  // Endings

  private lost(why: Error): void {
    this.connected = false;
    this.greeted = false;
    if (this.beginning === "opened") this.beginning = "read";
    this.decoder?.lost();
    if (this.videos) this.copying = this.videos.close();
    this.videos = undefined;
    this.endSilence();
    clearTimeout(this.resizeTimer);
    this.resizeState = "settled";
    this.clipRequests.clear();
    clearTimeout(this.deadlineTimer);
    this.deadlineTimer = undefined;
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
    this.tellKeeps();
    this.tell({ type: "state", state });
  }
}

const NEW_LINK = "On the session's machine, thinc link prints a new one: open that, in this tab or another.";

/** A reason that somebody else worded, with what follows it. */
function sentence(reason: string): string {
  const words = reason.trim();
  if (words === "") return "";
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? " " : ". "}`;
}

function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
