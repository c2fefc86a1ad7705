// Joins the browser's clipboard and the session's: pastes go to the session, session copies to the
// browser.
// Path beside the pixels, in both directions: beside input.ts, between the browser's paste events
// and clipboard, and engine.ts.
// Reads nothing without a paste and asks for no permission; knows contents, never bytes of the
// protocol.

import {
  type ClipboardPolicy,
  ClipFailure,
  ClipFormat,
  type FromEngine,
  type ToEngine,
} from "../engine/messages";

/**
 * A paste event follows its key in the same task or a little later; without one the clipboard is
 * empty.
 */
const PASTE_MS_MAX = 250;
/**
 * A busy browser sends it later still; a paste event this soon after a key belongs to it, and not
 * to the menu.
 */
const LATE_PASTE_MS_MAX = 2000;
/** Text that identifies a clipboard content; longer texts are compared by length and beginning. */
const FINGERPRINT_CHARS_MAX = 1 << 20;

const CONTROL = { code: 29, keysym: 0xffe3 };
/** Keys that copy, cut and paste on a Mac, where Command takes Control's role. */
const MAC_KEYS = {
  KeyC: { code: 46, keysym: 0x63 },
  KeyX: { code: 45, keysym: 0x78 },
  KeyV: { code: 47, keysym: 0x76 },
} as const;

const TYPES: Record<ClipFormat, string> = {
  [ClipFormat.Text]: "text/plain",
  [ClipFormat.Html]: "text/html",
  [ClipFormat.Png]: "image/png",
};
const FORMATS = [ClipFormat.Text, ClipFormat.Html, ClipFormat.Png] as const;

/** The policy that `?clipboard=` names; an unknown name permits nothing. */
export function policyOf(query: string | null): ClipboardPolicy {
  const toSession = query === null || query === "both" || query === "to-session";
  const fromSession = query === null || query === "both" || query === "from-session";
  return { toSession, fromSession };
}

export interface ClipboardOptions {
  policy: ClipboardPolicy;
  /**
   * Has the keyboard focus: receives pastes; without the asynchronous clipboard, copies are
   * selected in it.
   */
  keys: HTMLTextAreaElement;
  send(message: ToEngine, transfer?: Transferable[]): void;
  /** Releases all pressed keys. */
  releaseAll(): void;
  /** Shows a message to the user for a few seconds. */
  notice(words: string): void;
}

/** A clipboard content in the formats it has. */
type Contents = Map<ClipFormat, string | Blob>;

/** An offer of the session: what it had at the connection, or what was copied since. */
class Offer {
  private readonly fetched = new Map<ClipFormat, Promise<Blob>>();
  /** Formats whose content was not delivered. */
  readonly failed = new Set<ClipFormat>();
  /** Whether it is on the browser's clipboard, as far as known, and its text. */
  written = false;
  text: string | undefined;
  /** Writing began in a gesture of the user; it continues when the page has the focus again. */
  started = false;
  /** The page has had the focus since the offer: nothing else was copied on this computer. */
  undisturbed = true;

  constructor(
    readonly formats: readonly ClipFormat[],
    private readonly fetch: (format: ClipFormat) => Promise<Uint8Array<ArrayBuffer>>,
  ) {}

  get remaining(): ClipFormat[] {
    return this.formats.filter((format) => !this.failed.has(format));
  }

  /** Requested once, for any number of users. */
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
    // Callers handle the error; there may be none.
    content.catch(() => undefined);
    this.fetched.set(format, content);
    return content;
  }
}

export class Clipboard {
  /** The session's newest offer; undefined if this page or nobody owns its clipboard. */
  private offer: Offer | undefined;
  /** The last paste, which the session may still request. */
  private provided: Contents | undefined;
  private lastProvided = 0;
  /** Fingerprint of the browser's clipboard when it was last read. */
  private lastFingerprint: string | undefined;
  /** Messages that wait for the paste event; undefined if none is expected. */
  private queued: ToEngine[] | undefined;
  private queueTimer: ReturnType<typeof setTimeout> | undefined;
  /** Time of a paste key without a paste event yet. */
  private pasteKeyAtMs = -Infinity;
  private readonly requests = new Map<
    number,
    { resolve(bytes: Uint8Array<ArrayBuffer>): void; reject(error: Error): void }
  >();
  private lastRequest = 0;
  /** How often a connection ended before it had delivered what was requested. */
  private interruptions = 0;
  private connected = false;
  /** The browser permits writes without a gesture while the page has the focus. */
  private canAlwaysWrite = false;
  private copying: Contents | undefined;

  constructor(private readonly options: ClipboardOptions) {
    addEventListener("paste", (event) => this.handlePaste(event), { capture: true });
    addEventListener("copy", (event) => this.handleCopy(event), { capture: true });
    addEventListener("blur", () => {
      if (this.offer !== undefined) this.offer.undisturbed = false;
    });
    // A write that was refused for lack of a gesture is repeated at the next one.
    for (const type of ["focus", "keydown", "pointerdown", "pointerup"] as const) {
      addEventListener(type, () => void this.write(), { capture: true });
    }
    if (options.policy.fromSession) void this.queryWritePermission();
  }

  /**
   * Handles a key press. A paste key also goes to the browser, and messages wait in `queued` until
   * the paste event. On a Mac, Command's shortcuts are sent as Control's from here.
   */
  keyDown(event: KeyboardEvent): { forBrowser: boolean; handled: boolean } {
    const { ctrlKey, shiftKey, altKey, metaKey, code } = event;
    const mac = metaKey && !ctrlKey && !altKey && navigator.platform.startsWith("Mac");
    const macKey = mac && code in MAC_KEYS ? MAC_KEYS[code as keyof typeof MAC_KEYS] : undefined;
    const pastes =
      (ctrlKey && !altKey && !metaKey && code === "KeyV") ||
      (shiftKey && !ctrlKey && !altKey && !metaKey && code === "Insert") ||
      (macKey !== undefined && code === "KeyV");
    const forBrowser = pastes && this.options.policy.toSession && !event.repeat;
    if (forBrowser) this.queueInput();
    if (macKey !== undefined && !event.repeat) {
      // The session has received Command: release it and send Control instead.
      this.options.releaseAll();
      this.chord(macKey);
    }
    return { forBrowser, handled: macKey !== undefined };
  }

  /** Every message of user input passes here, so that none overtakes a paste. */
  send(message: ToEngine): void {
    if (this.queued === undefined) this.options.send(message);
    else this.queued.push(message);
  }

  /** The connection was established or lost. */
  setConnected(connected: boolean): void {
    if (connected === this.connected) return;
    this.connected = connected;
    if (!connected) {
      this.interrupt();
      // Input is never kept for another connection here.
      this.queued = undefined;
      clearTimeout(this.queueTimer);
    }
  }

  /** The session offers again what it has, and the next gesture requests it again. */
  private interrupt(): void {
    this.interruptions += 1;
    for (const { reject } of this.requests.values())
      reject(new ContentError("the connection dropped"));
    this.requests.clear();
  }

  handle(message: Extract<FromEngine, { type: `clip${string}` }>): void {
    switch (message.type) {
      case "clipOffer":
        // An offer that the session sent before it received this page's newer one is stale.
        if (message.after === this.lastProvided) this.handleOffer(message.formats, message.copied);
        break;
      case "clipWanted":
        void this.provide(message.id, message.format);
        break;
      case "clipContent":
        this.requests.get(message.request)?.resolve(message.bytes);
        this.requests.delete(message.request);
        break;
      case "clipFailed":
        this.requests
          .get(message.request)
          ?.reject(new ContentError(describe(message.why, message.bytes, message.limit)));
        this.requests.delete(message.request);
        break;
      case "clipInterrupted":
        this.interrupt();
        break;
      case "clipRefused":
        // An application that cancels is no news to the user.
        if (message.why === ClipFailure.TooLarge) {
          this.options.notice(
            `Not pasted into the session: ${describe(message.why, message.bytes, message.limit)}.`,
          );
        }
        break;
    }
  }

  // To the session

  private queueInput(): void {
    if (this.queued !== undefined) this.sendQueued();
    this.queued = [];
    this.pasteKeyAtMs = performance.now();
    this.queueTimer = setTimeout(() => this.sendQueued(), PASTE_MS_MAX);
  }

  private sendQueued(): void {
    clearTimeout(this.queueTimer);
    const queued = this.queued ?? [];
    this.queued = undefined;
    for (const message of queued) this.options.send(message);
  }

  private handlePaste(event: ClipboardEvent): void {
    // Text fields of the page itself are not the session's.
    if (isElsewhere(event.target, this.options.keys)) return;
    event.preventDefault();
    const byKey = performance.now() - this.pasteKeyAtMs <= LATE_PASTE_MS_MAX;
    this.pasteKeyAtMs = -Infinity;
    const { policy } = this.options;
    if (policy.toSession && this.connected && event.clipboardData !== null) {
      const contents = contentsOf(event.clipboardData);
      const fingerprint = fingerprintOf(contents);
      if (contents.size > 0 && !this.isFromSession(contents, fingerprint)) {
        this.provided = contents;
        this.offer = undefined;
        this.sendOffer(contents);
      }
      this.lastFingerprint = fingerprint;
      // Pasted from the browser's menu: the session has not received a key.
      if (!byKey) this.chord(MAC_KEYS.KeyV);
    }
    this.sendQueued();
  }

  /**
   * Whether the browser pastes what came from the session, or content older than the session's:
   * then the session's own application provides it better.
   */
  private isFromSession(contents: Contents, fingerprint: string): boolean {
    const { offer } = this;
    if (offer === undefined) return false;
    if (!offer.written) return offer.undisturbed || fingerprint === this.lastFingerprint;
    const text = contents.get(ClipFormat.Text);
    if (offer.text !== undefined || text !== undefined) return text === offer.text;
    // Browsers encode images again.
    return offer.undisturbed;
  }

  private sendOffer(contents: Contents): void {
    let formats = 0;
    for (const format of contents.keys()) formats |= 1 << format;
    this.lastProvided += 1;
    this.options.send({ type: "clipOffer", number: this.lastProvided, formats });
  }

  private async provide(id: number, format: ClipFormat): Promise<void> {
    const content = this.provided?.get(format);
    try {
      if (content === undefined) throw new ContentError("the content is gone");
      const bytes =
        typeof content === "string"
          ? new TextEncoder().encode(content)
          : new Uint8Array(await content.arrayBuffer());
      this.options.send({ type: "clipProvide", id, bytes }, [bytes.buffer]);
    } catch {
      this.options.send({ type: "clipProvide", id, bytes: undefined });
    }
  }

  private chord(key: { code: number; keysym: number }): void {
    const timeUs = Math.round((performance.timeOrigin + performance.now()) * 1000);
    for (const [{ code, keysym }, down] of [
      [CONTROL, true],
      [key, true],
      [key, false],
      [CONTROL, false],
    ] as const) {
      this.send({ type: "key", code, keysym, down, timeUs });
    }
  }

  // From the session

  private handleOffer(formats: number, copied: boolean): void {
    const known = FORMATS.filter((format) => (formats & (1 << format)) !== 0);
    if (known.length === 0) {
      this.offer = undefined;
      return;
    }
    const before = this.offer;
    this.provided = undefined;
    this.offer = new Offer(known, (format) => this.fetch(format));
    if (copied) {
      this.offer.undisturbed = document.hasFocus();
      void this.write();
    } else {
      // An offer that the session had before this connection does not replace what was copied here.
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

  private async queryWritePermission(): Promise<void> {
    try {
      const { state } = await navigator.permissions.query({
        name: "clipboard-write" as PermissionName,
      });
      this.canAlwaysWrite = state === "granted";
    } catch {
      // A browser without this permission requires a gesture.
    }
  }

  private writing = false;

  /**
   * Writes the session's newest offer to the browser's clipboard, if the browser permits it now.
   */
  private async write(): Promise<void> {
    const { offer } = this;
    if (
      offer === undefined ||
      offer.written ||
      this.writing ||
      !this.connected ||
      !this.options.policy.fromSession
    )
      return;
    // Something else may have been copied on this computer meanwhile.
    if (!offer.undisturbed && !offer.started) return;
    if (!document.hasFocus() || offer.remaining.length === 0) return;
    const gesture = navigator.userActivation?.isActive ?? true;
    if (!this.canAlwaysWrite && !gesture) return;
    this.writing = true;
    offer.started = true;
    const tried = offer.remaining.length;
    const { interruptions } = this;
    const isInterrupted = () => this.interruptions !== interruptions;
    try {
      if (typeof ClipboardItem === "function" && typeof navigator.clipboard?.write === "function") {
        // The contents are promises: the gesture counts now, and may be over when they arrive.
        const item = new ClipboardItem(
          Object.fromEntries(
            offer.remaining.map((format) => [TYPES[format], offer.content(format)]),
          ),
        );
        await navigator.clipboard.write([item]);
      } else {
        await this.writeByCopyEvent(offer);
      }
      offer.written = true;
    } catch (error) {
      if (this.offer === offer && !isInterrupted()) this.reportNotWritten(offer, error, tried);
    } finally {
      this.writing = false;
      // Another offer has come, or the remaining formats may succeed.
      if (
        this.offer !== offer ||
        (!offer.written && !isInterrupted() && offer.remaining.length < tried)
      )
        void this.write();
    }
  }

  /** `tried`: number of formats in the attempt. */
  private reportNotWritten(offer: Offer, error: unknown, tried: number): void {
    const remaining = offer.remaining.length;
    // The next gesture may permit it.
    if (error instanceof DOMException && error.name === "NotAllowedError" && remaining === tried)
      return;
    // Some contents were not delivered: the others are tried. If all were, the browser would refuse
    // again.
    if (remaining > 0 && remaining < tried) return;
    this.options.notice(
      `Not copied from the session: ${error instanceof Error ? error.message : String(error)}.`,
    );
    offer.failed.clear();
    offer.started = false;
    offer.undisturbed = false;
  }

  /**
   * For browsers without clipboard.write(): a `copy` event in a gesture, with contents that have
   * arrived.
   */
  private async writeByCopyEvent(offer: Offer): Promise<void> {
    const contents: Contents = new Map();
    for (const format of offer.remaining) {
      if (format !== ClipFormat.Png)
        contents.set(format, await (await offer.content(format)).text());
    }
    const { keys } = this.options;
    const { selectionStart, selectionEnd } = keys;
    this.copying = contents;
    // A browser copies only if something is selected.
    keys.select();
    const done = document.execCommand("copy");
    keys.setSelectionRange(selectionStart, selectionEnd);
    this.copying = undefined;
    if (!done) throw new DOMException("the browser copies only in a gesture", "NotAllowedError");
  }

  private handleCopy(event: ClipboardEvent): void {
    if (this.copying === undefined || event.clipboardData === null) return;
    event.preventDefault();
    for (const [format, content] of this.copying) {
      if (typeof content === "string") event.clipboardData.setData(TYPES[format], content);
    }
  }
}

/** Why a content was not delivered, as the end of a sentence. */
class ContentError extends Error {}

function describe(why: ClipFailure, bytes: number, limit: number): string {
  switch (why) {
    case ClipFailure.TooLarge:
      return bytes > 0
        ? `it has ${size(bytes)}, and ${size(limit)} is the limit`
        : `it has more than ${size(limit)}, which is the limit`;
    case ClipFailure.Gone:
      return "something else was copied meanwhile, or its application has ended";
    case ClipFailure.Cancelled:
    case ClipFailure.Failed:
      return "its application did not provide it";
  }
}

function size(bytes: number): string {
  return bytes >= 1 << 20
    ? `${Math.round((bytes / (1 << 20)) * 10) / 10} MiB`
    : `${Math.ceil(bytes / 1024)} KiB`;
}

/**
 * The formats of a paste event that a session takes; an image is not read before the session
 * requests it.
 */
function contentsOf(data: DataTransfer): Contents {
  const contents: Contents = new Map();
  const text = data.getData("text/plain");
  // The session's lines end in LF.
  if (text !== "") contents.set(ClipFormat.Text, text.replaceAll("\r\n", "\n"));
  const html = data.getData("text/html");
  if (html !== "") contents.set(ClipFormat.Html, html);
  const picture = [...data.files].find(({ type }) => type === TYPES[ClipFormat.Png]);
  if (picture !== undefined) contents.set(ClipFormat.Png, picture);
  return contents;
}

function fingerprintOf(contents: Contents): string {
  const parts = [...contents].map(([format, content]) =>
    typeof content === "string"
      ? `${format} ${content.length} ${content.slice(0, FINGERPRINT_CHARS_MAX)}`
      : `${format} ${content.size}`,
  );
  return parts.join("\n");
}

function isElsewhere(target: EventTarget | null, keys: HTMLElement): boolean {
  return (
    target !== keys &&
    target instanceof Element &&
    target.matches("input, textarea, [contenteditable]")
  );
}
