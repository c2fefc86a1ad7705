// The viewer: joins connection, decoder and canvas, in a worker if the browser can, else in the
// page.
// Path 10/13 to 13/13: from connection.ts, through decoder.ts, to present.ts; input goes back the
// same way.
// Decoding and acknowledging follow the socket, presenting follows the display: neither waits for
// the other.

import { choosePresenter } from "../display/present";
import { CacheSaver } from "../store/cachesaver";
import { TileSaver } from "../store/saver";
import type { Picture } from "../store/tiles";
import { logout } from "../store/token";
import { Connection } from "../transport/connection";
import { EngineClipboard } from "./clipboard";
import { Deadline, watchSleep } from "./clock";
import { type Decoder, DecoderError } from "./decoder";
import {
  crashed,
  DISCONNECTED,
  DISCONNECTED_HERE_ONLY,
  endOf,
  failed,
  notStarted,
  REFUSED,
} from "./ends";
import type { DecoderEvent } from "./events";
import { EngineFiles } from "./files";
import { EngineInput } from "./input";
import { Lifecycle } from "./lifecycle";
import { DecoderLoader } from "./loader";
import { type FromEngine, nowUs, type ToEngine } from "./messages";
import { Presentation } from "./presentation";
import { EngineQuality } from "./quality";
import { Queries } from "./queries";
import { SavedState } from "./saved";
import { Sizing } from "./sizing";
import { EngineSound } from "./sound";
import { EngineStereo } from "./stereo";
import { EngineVideo } from "./video";

export class Engine {
  private readonly loader = new DecoderLoader((state) => this.lifecycle.tell(state));
  /** Undefined until it is loaded, and after it panicked. */
  private decoder: Decoder | undefined;
  private readonly deadline = new Deadline(() =>
    this.withDecoder((decoder) => decoder.timeout(nowUs())),
  );
  private readonly lifecycle: Lifecycle;
  /** What ends the browser's login. */
  private login: { url: string; secret: string } | undefined;

  private readonly sizing = new Sizing((call) => this.withDecoder(call));
  private readonly presentation: Presentation;
  private readonly saved: SavedState;
  private readonly video = new EngineVideo((call) => this.withDecoder(call));
  /** Undefined until the page can play or record. */
  private sound: EngineSound | undefined;
  private readonly input: EngineInput;
  private readonly clipboard: EngineClipboard;
  private readonly quality = new EngineQuality((call) => this.withDecoder(call));
  private readonly stereo: EngineStereo;
  private readonly files: EngineFiles;
  private readonly queries: Queries;

  constructor(private readonly post: (message: FromEngine, transfer?: Transferable[]) => void) {
    this.lifecycle = new Lifecycle(post, {
      decoder: () => this.decoder,
      mayBeReplaced: () => this.mayBeReplaced,
      ended: ({ title, reason }) => {
        this.lost(new Error(title));
        this.presentation.close(new Error(`${title}. ${reason}`));
      },
    });
    this.presentation = new Presentation(post, {
      decoder: () => this.decoder,
      connected: () => this.lifecycle.connected,
      presented: () => {
        this.withDecoder((decoder) => decoder.presented(nowUs()));
        this.saved.schedule();
      },
    });
    this.saved = new SavedState(post, () => this.decoder, {
      restored: (decoder, picture) => this.showRestored(decoder, picture),
      opened: () => this.opened(),
      closed: () => this.lifecycle.closed,
    });
    this.queries = new Queries(post, (call) => this.withDecoder(call), {
      presentation: this.presentation,
      saved: this.saved,
      decoder: () => this.decoder,
      transport: () => this.lifecycle.transport,
    });
    this.input = new EngineInput(post, {
      send: (call, urgency) => this.withDecoder(call, urgency),
      sendOrBuffer: (call) => this.sendOrBuffer(call),
    });
    this.clipboard = new EngineClipboard(post, (call) => this.withDecoder(call));
    this.files = new EngineFiles(post, (call) => this.withDecoder(call));
    this.stereo = new EngineStereo(post, (call) => this.withDecoder(call));
  }

  /** Handles one message of the page. Never throws; errors are posted. */
  handle(message: ToEngine): void {
    switch (message.type) {
      case "start":
        this.start(message).catch((error: unknown) => this.lifecycle.close(notStarted(error)));
        break;
      case "key":
      case "char":
      case "locks":
      case "layout":
      case "button":
      case "motion":
      case "motionBy":
      case "scroll":
      case "touch":
      case "pen":
      case "releaseAll":
        this.input.handle(message);
        break;
      case "display":
        this.sizing.want(message.display);
        break;
      case "view":
        this.sizing.show(message.view);
        break;
      case "visible":
        this.presentation.setVisible(message.visible);
        this.withDecoder((decoder) => decoder.idleProbes(message.visible));
        if (!message.visible) this.saved.hidden();
        break;
      case "reportLossy":
        this.presentation.reportLossy(message.report);
        break;
      case "share": {
        const { request, action } = message;
        if (this.withDecoder((decoder) => decoder.share(request, action)) !== true)
          this.post({ type: "shared", request, refused: true, text: "Not connected." });
        break;
      }
      case "clipPolicy":
      case "clipOffer":
      case "clipRequest":
      case "clipProvide":
        this.clipboard.handle(message);
        break;
      case "pictureQuality":
      case "exactFrame":
        this.quality.handle(message);
        break;
      case "stereo":
        this.stereo.choose(message.mode);
        break;
      case "sound":
      case "microphone":
        this.sound ??= new EngineSound(this.post, (call) => this.withDecoder(call));
        this.sound.set(message);
        break;
      case "takeFiles":
      case "takePrints":
      case "files":
        this.files.handle(message);
        break;
      case "wake":
        this.wake();
        break;
      case "retry":
        if (message.opening) this.lifecycle.choose(message.opening);
        this.retry().catch((error: unknown) => this.lifecycle.close(notStarted(error)));
        break;
      case "disconnect":
        void this.disconnect();
        break;
      case "query":
        this.queries.handle(message);
        break;
    }
  }

  private async start(message: Extract<ToEngine, { type: "start" }>): Promise<void> {
    this.sizing.wanted = message.display;
    this.clipboard.policy = message.clipboard;
    this.quality.chosen = message.quality;
    this.stereo.chosen = message.stereo;
    this.presentation.start((lost) => choosePresenter(message.canvas, message.presenter, lost));
    this.login = { url: message.logoutUrl, secret: message.secret };
    const session = {
      socket: message.socketUrl,
      webTransport: message.webTransportUrl,
      login: message.loginUrl,
      secret: message.secret,
      page: message.page,
    };
    const attempts = () => this.decoder?.attempts;
    const connection = new Connection(session, message.transport, attempts, {
      connecting: (attempt) => this.lifecycle.tell({ name: "connecting", attempt }),
      opened: () => this.opened(),
      received: (bytes) => this.received((decoder) => decoder.bytes(bytes, nowUs())),
      receivedDatagram: (bytes) => this.received((decoder) => decoder.datagram(bytes, nowUs())),
      dropped: (retryMs, failures) => {
        this.lost(new Error("the connection dropped"));
        this.lifecycle.tell({ name: "waiting", retryMs, failures });
      },
      replaced: () => {
        this.lost(new Error("another connection took the place of this one"));
        this.post({ type: "clipInterrupted" });
      },
      mayBeReplaced: () => this.mayBeReplaced,
      holdsInput: () => this.decoder?.holdsInput === true,
      notImproved: (end) => this.decoder?.transportAttempt(end, nowUs()),
      refused: () => {
        this.saved.clear();
        this.post({ type: "loginRefused" });
        this.lifecycle.close(REFUSED);
      },
    });
    const { tab } = message;
    this.lifecycle.start(connection, message.opening, tab?.instance);
    if (tab) this.saved.keepTiles(new TileSaver(tab, () => this.decoder), tab.reloaded);
    const trial = this.video.prepare();
    await this.loader.fetch(message.wasmUrl);
    this.decoder = await this.loader.load();
    if (message.persistCache)
      await this.saved.keepCache(
        new CacheSaver(message.socketUrl, () => this.decoder),
        this.decoder,
      );
    await trial;
    watchSleep(() => this.wake());
    this.lifecycle.connect();
    await this.saved.restore();
  }

  /**
   * Shows the picture of an earlier page as if the connection had dropped, and requests the same
   * view.
   */
  private showRestored(decoder: Decoder, picture: Picture): void {
    if (!this.presentation.restore(decoder, picture)) return;
    this.sizing.restored(picture);
    this.lifecycle.tellBuffering();
  }

  /** Closes the connection and ends the login, also if the session cannot be told. */
  private async disconnect(): Promise<void> {
    this.withDecoder((decoder) => decoder.close());
    this.saved.clear();
    this.post({ type: "forgetLogin" });
    this.lifecycle.close(DISCONNECTED);
    if (this.login === undefined || (await logout(this.login.url, this.login.secret))) return;
    this.lifecycle.tell(DISCONNECTED_HERE_ONLY);
  }

  private async retry(): Promise<void> {
    if (this.lifecycle.connected || !this.loader.fetched) return;
    // An instance that panicked is unusable.
    this.decoder ??= await this.loader.load();
    this.lifecycle.retry();
  }

  private opened(): void {
    if (this.saved.delaysConnection()) return;
    this.lifecycle.opened();
    this.withDecoder((decoder) => {
      this.lifecycle.prepare(decoder);
      this.video.open(decoder);
      this.clipboard.prepare(decoder);
      this.quality.prepare(decoder);
      this.stereo.prepare(decoder);
      this.sound?.open(decoder);
      this.files.open(decoder);
      this.input.open(decoder);
      const { wanted } = this.sizing;
      this.presentation.open(decoder);
      decoder.open("thinc-web", wanted.width, wanted.height);
      this.lifecycle.open(decoder);
      this.sizing.open(decoder);
      this.clipboard.open(decoder);
    });
  }

  private received(take: (decoder: Decoder) => void): void {
    this.lifecycle.bytesReceived();
    this.withDecoder(take);
    this.lifecycle.improve();
  }

  /** The machine or page slept, or the network came back: probes the connection. */
  private wake(): void {
    if (this.lifecycle.greeted) this.withDecoder((decoder) => decoder.wake(nowUs()));
    else this.lifecycle.wake();
  }

  /**
   * Calls the decoder, sends its output and handles its events: the only entry, so that none is
   * forgotten. Output that may wait stays in viewer-core while the transport is congested.
   */
  private withDecoder<T>(
    call: (decoder: Decoder) => T,
    urgency: "now" | "may wait" = "now",
  ): T | undefined {
    const decoder = this.decoder;
    if (!this.lifecycle.connected || decoder === undefined) return undefined;
    return this.guarded(decoder, () => {
      const result = call(decoder);
      this.lifecycle.send(decoder, urgency);
      const { events } = decoder;
      for (let event = events.next(); event !== undefined; event = events.next())
        this.handleEvent(event);
      this.video.take(decoder);
      this.sound?.take(decoder);
      this.files.take(decoder);
      this.stereo.take(decoder);
      if (decoder.damaged) this.presentation.schedule();
      this.deadline.set(decoder.deadline());
      this.lifecycle.follow(decoder);
      return result;
    });
  }

  /** Whether nothing is released, sent twice or requested in vain if the connection ends now. */
  private get mayBeReplaced(): boolean {
    return this.decoder?.mayBeReplaced !== false && !this.clipboard.awaitsContent;
  }

  /** An error of the decoder ends the connection. */
  private guarded<T>(decoder: Decoder, call: () => T): T | undefined {
    try {
      return call();
    } catch (error) {
      if (error instanceof DecoderError) {
        this.lifecycle.close(failed(error));
      } else {
        this.decoder = undefined;
        this.lifecycle.close(crashed(decoder.panicMessage(), error));
      }
      return undefined;
    }
  }

  /** Calls the decoder, whether there is a connection or not. */
  private sendOrBuffer(call: (decoder: Decoder) => void): void {
    const decoder = this.decoder;
    const { lifecycle } = this;
    if (lifecycle.connected) this.withDecoder(call);
    else if (decoder !== undefined && !lifecycle.closed) this.guarded(decoder, () => call(decoder));
    if (!lifecycle.greeted) lifecycle.tellBuffering();
  }

  private handleEvent(event: DecoderEvent): void {
    switch (event.type) {
      case "hello":
        this.lifecycle.greet();
        this.post({ type: "name", name: event.name });
        if (this.decoder) this.post({ type: "offers", offers: this.decoder.offers });
        this.files.begin(this.decoder?.files.gives === true);
        break;
      case "geometry":
        this.presentation.begin(event);
        this.saved.setPicture(event);
        this.sizing.answered();
        break;
      case "frameEnd":
        this.presentation.complete();
        // The application may have ended while there was no connection.
        this.input.setRelativeWanted(event.relativeWanted);
        break;
      case "relativeWanted":
        this.input.setRelativeWanted(event.wanted);
        break;
      case "cursor": {
        const { width, height, hotX, hotY, rgba } = event;
        this.post({ type: "cursor", width, height, hotX, hotY, rgba }, [rgba.buffer]);
        break;
      }
      case "cursorShow":
      case "gamma":
      case "people":
      case "invitations":
      case "shared":
      case "personPointer":
      case "notice":
      case "name":
      case "clipPolicy":
      case "players":
        this.post(event);
        break;
      case "microphone":
        this.sound?.microphone.want(event.wanted);
        break;
      case "graphics":
        this.queries.graphics = event.line;
        break;
      case "barrier":
        this.queries.passed(event.id);
        break;
      case "closed":
        this.sessionClosed(event.code, event.reason);
        break;
      case "clipOffer":
      case "clipWanted":
      case "clipContent":
      case "clipEnded":
        this.clipboard.handleEvent(event, this.presentation.pictureShown);
        break;
    }
  }

  private sessionClosed(code: number, reason: string): void {
    const end = endOf(code, reason);
    if (end === undefined) return this.lifecycle.drop();
    if (!end.canRetry) this.saved.clear();
    this.lifecycle.close(end);
  }

  /** The connection has ended. */
  private lost(why: Error): void {
    this.lifecycle.lost();
    this.saved.lost();
    this.decoder?.lost();
    this.sound?.microphone.want(undefined);
    this.video.lost();
    this.sizing.lost();
    this.clipboard.lost();
    this.deadline.clear();
    this.queries.lost(why);
  }
}
