// The browser's clipboard and the session's: what is pasted here is offered there, what is copied there is put here.
// Path back and 13/13, beside input.ts: between the browser's paste events and its clipboard, and engine.ts.
// Reads nothing without a paste and asks for no permission; knows contents, never bytes of the protocol.

import { ClipFormat, ClipWhy, type ClipboardPolicy, type FromEngine, type ToEngine } from "./messages";

/** The browser says what is pasted in the same task as the key, or a little later; one that says nothing has nothing. */
const PASTE_MS_MAX = 250;
/** A browser that is busy says it later still; what comes so soon after a key is that key's all the same, and not the menu's. */
const LATE_PASTE_MS_MAX = 2000;
/** A piece of text that tells one clipboard from another; longer ones are compared by their length and beginning. */
const PRINT_CHARS_MAX = 1 << 20;

const CONTROL = { code: 29, keysym: 0xffe3 };
/** Keys that copy, cut and paste on a Mac, where Command has Control's place. */
const MAC_KEYS = { KeyC: { code: 46, keysym: 0x63 }, KeyX: { code: 45, keysym: 0x78 }, KeyV: { code: 47, keysym: 0x76 } } as const;

const TYPES: Record<ClipFormat, string> = {
  [ClipFormat.Text]: "text/plain",
  [ClipFormat.Html]: "text/html",
  [ClipFormat.Png]: "image/png",
};
const FORMATS = [ClipFormat.Text, ClipFormat.Html, ClipFormat.Png] as const;

/** As `?clipboard=` names it; what is not understood lets nothing through. */
export function policyOf(query: string | null): ClipboardPolicy {
  const toSession = query === null || query === "both" || query === "to-session";
  const fromSession = query === null || query === "both" || query === "from-session";
  return { toSession, fromSession };
}

export interface ClipboardOptions {
  policy: ClipboardPolicy;
  /** Has the keyboard: pastes happen there, and what is copied without the asynchronous clipboard is selected there. */
  keys: HTMLTextAreaElement;
  send(message: ToEngine, transfer?: Transferable[]): void;
  /** No key is down any more. */
  releaseAll(): void;
  /** Says something to the person, for a moment. */
  notice(words: string): void;
}

/** What something on one side has copied. */
type Contents = Map<ClipFormat, string | Blob>;

/** What the session offers: what is there now, or what was copied just now. */
class Offer {
  private readonly fetched = new Map<ClipFormat, Promise<Blob>>();
  /** Formats whose content did not come. */
  readonly failed = new Set<ClipFormat>();
  /** On the browser's clipboard as far as is known, with this text. */
  written = false;
  text: string | undefined;
  /** Begun while the person was here: goes on when they come back. */
  begun = false;
  /** The page has had the keyboard ever since: nothing else was copied on this computer. */
  undisturbed = true;

  constructor(
    readonly formats: readonly ClipFormat[],
    private readonly fetch: (format: ClipFormat) => Promise<Uint8Array<ArrayBuffer>>,
  ) {}

  get left(): ClipFormat[] {
    return this.formats.filter((format) => !this.failed.has(format));
  }

  /** Asked for once, whoever wants it how often. */
  content(format: ClipFormat): Promise<Blob> {
    const before = this.fetched.get(format);
    if (before !== undefined) return before;
    const content = this.fetch(format).then(
      (bytes) => {
        if (format === ClipFormat.Text) this.text = new TextDecoder().decode(bytes);
        return new Blob([bytes], { type: TYPES[format] });
      },
      (error: unknown) => {
        this.failed.add(format);
        throw error;
      },
    );
    // Whoever waits is told; nobody need wait.
    content.catch(() => undefined);
    this.fetched.set(format, content);
    return content;
  }
}

export class Clipboard {
  /** The session's newest offer; undefined where this page, or nothing, owns its clipboard. */
  private offer: Offer | undefined;
  /** What was pasted last, which the session may still ask for. */
  private given: Contents | undefined;
  private lastGiven = 0;
  /** What the browser's clipboard held when it was last seen. */
  private seen: string | undefined;
  /** Keys that wait for the browser to say what is pasted; undefined while nothing waits. */
  private held: ToEngine[] | undefined;
  private heldTimer: ReturnType<typeof setTimeout> | undefined;
  /** When a key pasted for which the browser has said nothing yet. */
  private heldAtMs = -Infinity;
  private readonly requests = new Map<number, { resolve(bytes: Uint8Array<ArrayBuffer>): void; reject(error: Error): void }>();
  private lastRequest = 0;
  private connected = false;
  /** The browser lets a page that has the keyboard write, gesture or not. */
  private writesFreely = false;
  private copying: Contents | undefined;

  constructor(private readonly options: ClipboardOptions) {
    addEventListener("paste", (event) => this.pasted(event), { capture: true });
    addEventListener("copy", (event) => this.copied(event), { capture: true });
    addEventListener("blur", () => {
      if (this.offer !== undefined) this.offer.undisturbed = false;
    });
    // What could not be written for want of a gesture is written at the next.
    for (const type of ["focus", "keydown", "pointerdown", "pointerup"] as const) {
      addEventListener(type, () => void this.write(), { capture: true });
    }
    if (options.policy.fromSession) void this.askWhetherWritingIsFree();
  }

  /**
   * A key goes down. One that pastes is the browser's too, and what `pass` is given from now on waits until the browser has
   * said what is pasted. On a Mac Command's shortcuts are said to the session here, as Control's.
   */
  keyDown(event: KeyboardEvent): { browsers: boolean; said: boolean } {
    const { ctrlKey, shiftKey, altKey, metaKey, code } = event;
    const mac = metaKey && !ctrlKey && !altKey && navigator.platform.startsWith("Mac");
    const macKey = mac && code in MAC_KEYS ? MAC_KEYS[code as keyof typeof MAC_KEYS] : undefined;
    const pastes =
      (ctrlKey && !altKey && !metaKey && code === "KeyV") ||
      (shiftKey && !ctrlKey && !altKey && !metaKey && code === "Insert") ||
      (macKey !== undefined && code === "KeyV");
    const browsers = pastes && this.options.policy.toSession && !event.repeat;
    if (browsers) this.hold();
    if (macKey !== undefined && !event.repeat) {
      // The session was told of Command: it is let go, and Control stands for it.
      this.options.releaseAll();
      this.chord(macKey);
    }
    return { browsers, said: macKey !== undefined };
  }

  /** Everything a person does goes through here, so that nothing overtakes what they paste. */
  pass(message: ToEngine): void {
    if (this.held === undefined) this.options.send(message);
    else this.held.push(message);
  }

  /** The connection is there, or no longer. */
  setConnected(connected: boolean): void {
    if (connected === this.connected) return;
    this.connected = connected;
    if (!connected) {
      for (const { reject } of this.requests.values()) reject(new ContentError("the connection dropped"));
      this.requests.clear();
      // Input is never kept for another connection.
      this.held = undefined;
      clearTimeout(this.heldTimer);
    }
  }

  told(message: Extract<FromEngine, { type: `clip${string}` }>): void {
    switch (message.type) {
      case "clipOffer":
        // One that was on its way when this page offered something: that is the newer one.
        if (message.after === this.lastGiven) this.offered(message.formats, message.copied);
        break;
      case "clipWanted":
        void this.provide(message.id, message.format);
        break;
      case "clipContent":
        this.requests.get(message.request)?.resolve(message.bytes);
        this.requests.delete(message.request);
        break;
      case "clipFailed":
        this.requests.get(message.request)?.reject(new ContentError(wordsOf(message.why, message.bytes, message.limit)));
        this.requests.delete(message.request);
        break;
      case "clipRefused":
        // A program that changes its mind is no news.
        if (message.why === ClipWhy.TooLarge) {
          this.options.notice(`Not pasted into the session: ${wordsOf(message.why, message.bytes, message.limit)}.`);
        }
        break;
    }
  }

  // To the session

  private hold(): void {
    if (this.held !== undefined) this.release();
    this.held = [];
    this.heldAtMs = performance.now();
    this.heldTimer = setTimeout(() => this.release(), PASTE_MS_MAX);
  }

  private release(): void {
    clearTimeout(this.heldTimer);
    const held = this.held ?? [];
    this.held = undefined;
    for (const message of held) this.options.send(message);
  }

  private pasted(event: ClipboardEvent): void {
    // Boxes of the page's own, where there are some, are none of the session's business.
    if (isElsewhere(event.target, this.options.keys)) return;
    event.preventDefault();
    const byKey = performance.now() - this.heldAtMs <= LATE_PASTE_MS_MAX;
    this.heldAtMs = -Infinity;
    const { policy } = this.options;
    if (policy.toSession && this.connected && event.clipboardData !== null) {
      const contents = contentsOf(event.clipboardData);
      const print = printOf(contents);
      if (contents.size > 0 && !this.isTheSessions(contents, print)) {
        this.given = contents;
        this.offer = undefined;
        this.sayOffer(contents);
      }
      this.seen = print;
      // From the browser's menu: no key has told the session to paste.
      if (!byKey) this.chord(MAC_KEYS.KeyV);
    }
    this.release();
  }

  /** What the browser pastes came from the session, or is older than what it has: its own program gives it better. */
  private isTheSessions(contents: Contents, print: string): boolean {
    const { offer } = this;
    if (offer === undefined) return false;
    if (!offer.written) return offer.undisturbed || print === this.seen;
    const text = contents.get(ClipFormat.Text);
    if (offer.text !== undefined || text !== undefined) return text === offer.text;
    // Pictures are written anew by the browser.
    return offer.undisturbed;
  }

  private sayOffer(contents: Contents): void {
    let formats = 0;
    for (const format of contents.keys()) formats |= 1 << format;
    this.lastGiven += 1;
    this.options.send({ type: "clipOffer", number: this.lastGiven, formats });
  }

  private async provide(id: number, format: ClipFormat): Promise<void> {
    const content = this.given?.get(format);
    try {
      if (content === undefined) throw new ContentError("it is gone");
      const bytes = typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(await content.arrayBuffer());
      this.options.send({ type: "clipProvide", id, bytes }, [bytes.buffer]);
    } catch {
      this.options.send({ type: "clipProvide", id, bytes: undefined });
    }
  }

  private chord(key: { code: number; keysym: number }): void {
    const timeUs = Math.round((performance.timeOrigin + performance.now()) * 1000);
    for (const [{ code, keysym }, down] of [[CONTROL, true], [key, true], [key, false], [CONTROL, false]] as const) {
      this.pass({ type: "key", code, keysym, down, timeUs });
    }
  }

  // From the session

  private offered(formats: number, copied: boolean): void {
    const known = FORMATS.filter((format) => (formats & (1 << format)) !== 0);
    if (known.length === 0) {
      this.offer = undefined;
      return;
    }
    const before = this.offer;
    this.given = undefined;
    this.offer = new Offer(known, (format) => this.fetch(format));
    if (copied) {
      this.offer.undisturbed = document.hasFocus();
      void this.write();
    } else {
      // What the session held when it was connected to is no reason to forget what was copied here.
      this.offer.undisturbed = before?.undisturbed ?? false;
      this.offer.written = before?.written ?? false;
      this.offer.text = before?.text;
    }
  }

  private fetch(format: ClipFormat): Promise<Uint8Array<ArrayBuffer>> {
    return new Promise((resolve, reject) => {
      if (!this.connected) return reject(new ContentError("the connection dropped"));
      this.lastRequest += 1;
      this.requests.set(this.lastRequest, { resolve, reject });
      this.options.send({ type: "clipRequest", request: this.lastRequest, format });
    });
  }

  private async askWhetherWritingIsFree(): Promise<void> {
    try {
      const { state } = await navigator.permissions.query({ name: "clipboard-write" as PermissionName });
      this.writesFreely = state === "granted";
    } catch {
      // A browser without this permission wants a gesture.
    }
  }

  private writing = false;

  /** Puts what the session's newest offer has on the browser's clipboard, if that may be done now. */
  private async write(): Promise<void> {
    const { offer } = this;
    if (offer === undefined || offer.written || this.writing || !this.connected || !this.options.policy.fromSession) return;
    // Something else may have been copied on this computer meanwhile.
    if (!offer.undisturbed && !offer.begun) return;
    if (!document.hasFocus() || offer.left.length === 0) return;
    const gesture = navigator.userActivation?.isActive ?? true;
    if (!this.writesFreely && !gesture) return;
    this.writing = true;
    offer.begun = true;
    const tried = offer.left.length;
    try {
      if (typeof ClipboardItem === "function" && typeof navigator.clipboard?.write === "function") {
        // Contents that are still on their way: the gesture counts now, and may be over when they are here.
        const item = new ClipboardItem(Object.fromEntries(offer.left.map((format) => [TYPES[format], offer.content(format)])));
        await navigator.clipboard.write([item]);
      } else {
        await this.writeOldWay(offer);
      }
      offer.written = true;
    } catch (error) {
      if (this.offer === offer && this.connected) this.notWritten(offer, error, tried);
    } finally {
      this.writing = false;
      // Another was copied meanwhile, or the rest of this one may do.
      if (this.offer !== offer || (!offer.written && offer.left.length < tried)) void this.write();
    }
  }

  /** `tried`: how many formats it was tried with. */
  private notWritten(offer: Offer, error: unknown, tried: number): void {
    const left = offer.left.length;
    // It may be written at the next gesture: nothing is lost yet.
    if (error instanceof DOMException && error.name === "NotAllowedError" && left === tried) return;
    // Some did not come: the others are tried. Where all came, the browser would not have them another time either.
    if (left > 0 && left < tried) return;
    this.options.notice(`What was copied stays in the session: ${error instanceof Error ? error.message : String(error)}.`);
    offer.failed.clear();
    offer.begun = false;
    offer.undisturbed = false;
  }

  /** For browsers whose clipboard has no write(): a `copy` event, in a gesture, of contents that are here already. */
  private async writeOldWay(offer: Offer): Promise<void> {
    const contents: Contents = new Map();
    for (const format of offer.left) {
      if (format !== ClipFormat.Png) contents.set(format, await (await offer.content(format)).text());
    }
    const { keys } = this.options;
    const { selectionStart, selectionEnd } = keys;
    this.copying = contents;
    // A browser copies only where something is selected.
    keys.select();
    const done = document.execCommand("copy");
    keys.setSelectionRange(selectionStart, selectionEnd);
    this.copying = undefined;
    if (!done) throw new DOMException("the browser copies only in a gesture", "NotAllowedError");
  }

  private copied(event: ClipboardEvent): void {
    if (this.copying === undefined || event.clipboardData === null) return;
    event.preventDefault();
    for (const [format, content] of this.copying) {
      if (typeof content === "string") event.clipboardData.setData(TYPES[format], content);
    }
  }
}

/** Why a content did not come, in words that end a sentence. */
class ContentError extends Error {}

function wordsOf(why: ClipWhy, bytes: number, limit: number): string {
  switch (why) {
    case ClipWhy.TooLarge:
      return bytes > 0 ? `it has ${size(bytes)}, and ${size(limit)} is the limit` : `it has more than ${size(limit)}, which is the limit`;
    case ClipWhy.Gone:
      return "something else was copied meanwhile, or its program has ended";
    case ClipWhy.Cancelled:
    case ClipWhy.Failed:
      return "its program did not give it";
  }
}

function size(bytes: number): string {
  return bytes >= 1 << 20 ? `${Math.round((bytes / (1 << 20)) * 10) / 10} MiB` : `${Math.ceil(bytes / 1024)} KiB`;
}

/** What a paste event has of what a session takes; a picture is not read before the session wants it. */
function contentsOf(data: DataTransfer): Contents {
  const contents: Contents = new Map();
  const text = data.getData("text/plain");
  // Lines end in LF there, on whatever system this is.
  if (text !== "") contents.set(ClipFormat.Text, text.replaceAll("\r\n", "\n"));
  const html = data.getData("text/html");
  if (html !== "") contents.set(ClipFormat.Html, html);
  const picture = [...data.files].find(({ type }) => type === TYPES[ClipFormat.Png]);
  if (picture !== undefined) contents.set(ClipFormat.Png, picture);
  return contents;
}

function printOf(contents: Contents): string {
  const parts = [...contents].map(([format, content]) =>
    typeof content === "string" ? `${format} ${content.length} ${content.slice(0, PRINT_CHARS_MAX)}` : `${format} ${content.size}`,
  );
  return parts.join("\n");
}

function isElsewhere(target: EventTarget | null, keys: HTMLElement): boolean {
  return target !== keys && target instanceof Element && target.matches("input, textarea, [contenteditable]");
}
