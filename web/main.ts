// The page: starts the engine, shows the screen, and joins the parts of the user interface.
// Path 13/13: around present.ts; and the start of the path back, for input.
// Knows the page and the browser; never bytes of the protocol.

import { Cursor } from "./display/cursor";
import { Gamma, gammaOf } from "./display/gamma";
import { LossyOverlay } from "./display/lossy";
import { type Sizing, Stage } from "./display/stage";
import { Engine } from "./engine/engine";
import type {
  ConnectionState,
  FromEngine,
  Offers,
  Pixels,
  PresenterKind,
  Stats,
  ToEngine,
} from "./engine/messages";
import { Files, filesChoiceOf } from "./files/files";
import { listFiles } from "./files/list";
import { Printer } from "./files/printer";
import { Printing } from "./files/printing";
import { Clipboard, policyOf } from "./input/clipboard";
import { Drops } from "./input/drops";
import { Input, isTouchOnly } from "./input/input";
import { KeyRow } from "./input/keyrow";
import { followLayout } from "./input/layout";
import { addSendKeys } from "./input/sendkeys";
import type { PlayerReport } from "./sound/messages";
import { Sound } from "./sound/sound";
import { deskName, forgetLogin, homePath } from "./store/desk";
import { forgetDevice } from "./store/device";
import { pageNumber, tellWhenLeft } from "./store/page";
import { forgetTab, rememberTab, type Tab, takeTab } from "./store/tab";
import { forgetSecret, invitationOf, loadSecret, NEW_LINK, redeem, takeToken } from "./store/token";
import type { TransportChoice } from "./transport/connection";
import { Channels } from "./ui/channels";
import { CopyingChoice } from "./ui/copying";
import type { EntryName } from "./ui/entries";
import { Entry } from "./ui/entry";
import { Menu } from "./ui/menu";
import { Microphone } from "./ui/microphone";
import { Announcement, Notice } from "./ui/notice";
import { People } from "./ui/people";
import { QualityChoice } from "./ui/quality";
import { type Question, Questions } from "./ui/questions";
import { StatsOverlay } from "./ui/stats";
import { StatusCard } from "./ui/status";
import { StereoChoice } from "./ui/stereo";
import { Transfers } from "./ui/transfers";

/**
 * A worker that has not answered after this time will not; the page then runs the engine itself.
 */
const WORKER_MS_MAX = 10_000;

const NAME = "thinc";

/** The interface for scripts and tests; the page's security policy admits no other script. */
interface Hook {
  /** Resolves when the session has nothing more to send, and all of it is on the canvas. */
  quiet(): Promise<void>;
  /** Resolves when the tab's next page would have what is shown. */
  saved(): Promise<void>;
  /** The viewer's framebuffer. */
  pixels(): Promise<Pixels>;
  stats(): Promise<Stats>;
  /** What the player of sound has told last; undefined if it has played nothing. */
  sound(): PlayerReport | undefined;
}

declare global {
  interface Window {
    thinc: Hook;
  }
}

function element<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`index.html has no #${id}`);
  return found as T;
}

const stageElement = element("stage");
const keys = element<HTMLTextAreaElement>("keys");
const canvas = element<HTMLCanvasElement>("screen");

/** There is a picture, of this connection or the last. */
let pictured = false;
let connection: ConnectionState | undefined;
/** What this page shares with the tab's next one. */
let tab: Tab | undefined;

// The engine, in a worker or here

let send: (message: ToEngine, transfer?: Transferable[]) => void = () => undefined;

interface PendingQuery {
  resolve(value: undefined | Pixels | Stats): void;
  reject(error: Error): void;
}

const queries = new Map<number, PendingQuery>();
let queryId = 0;

function query(what: "idle" | "saved" | "pixels" | "stats"): Promise<undefined | Pixels | Stats> {
  return new Promise((resolve, reject) => {
    queryId += 1;
    queries.set(queryId, { resolve, reject });
    send({ type: "query", id: queryId, what });
  });
}

function handleMessage(message: FromEngine): void {
  switch (message.type) {
    case "state":
      showState(message.state);
      break;
    case "buffering":
      status.setBuffering(message.buffering);
      break;
    case "geometry": {
      if (!pictured && connection !== undefined) status.show(connection, true);
      pictured = true;
      const { width, height, part, screen } = message;
      lossy.resize(width, height);
      gamma.setPicture(part);
      stage.setPicture({ size: { width, height }, part }, screen);
      break;
    }
    case "name":
      document.title = message.name === "" ? NAME : `${message.name} – ${NAME}`;
      break;
    case "clearSavedState":
      forgetTab();
      break;
    case "forgetLogin":
      forgetSecret();
      if (deskName() !== undefined) {
        forgetLogin();
        // Else the next page would sign in again.
        void forgetDevice().finally(() => location.replace(homePath()));
      }
      break;
    case "loginRefused":
      // The desktop may have ended, or the login: the broker's own page knows.
      if (deskName() !== undefined) location.replace(homePath(deskName()));
      break;
    case "cursor":
      cursor.setImage(message);
      break;
    case "cursorShow":
      cursor.setShown(message.shown);
      break;
    case "gamma":
      gamma.show(message.areas);
      break;
    case "relativeWanted":
      input.capture.setWanted(message.wanted);
      break;
    case "lossy":
      lossy.show(message.rects);
      break;
    case "people":
      people.show(message.own, message.people);
      channels.setPeople(message.own, message.people);
      break;
    case "notice":
      if (message.brief) notice.show(message.text);
      else announcement.show(message.text);
      break;
    case "players":
      sound.showPlayers(message.names);
      break;
    case "microphone":
      // An engine that has failed may go on.
      if (connection?.name !== "closed") microphone.handle(message);
      break;
    case "clipPolicy":
      copying.show(message.policy);
      break;
    case "invitations":
      people.showInvitations(message.invitations);
      break;
    case "personPointer":
      people.showPointer(message);
      break;
    case "shared":
      people.answer(message);
      break;
    case "clipOffer":
    case "clipWanted":
    case "clipContent":
    case "clipFailed":
    case "clipInterrupted":
    case "clipRefused":
      clipboard.handle(message);
      break;
    case "offers":
      setOffers(message.offers);
      break;
    case "stereoSeen":
      stereo.setSeen();
      break;
    case "soundArrived":
      sound.arrived();
      break;
    case "files":
      files.handle(message);
      printing.handle(message);
      break;
    case "answer":
      queries.get(message.id)?.resolve(message.value);
      queries.delete(message.id);
      break;
    case "failed":
      queries.get(message.id)?.reject(new Error(message.reason));
      queries.delete(message.id);
      break;
    case "supported":
      break;
  }
}

/**
 * Whether this page was loaded again, or found again in the tab's history: its person opens nothing
 * with that, and it may have been taken over.
 */
function wasReloaded(): boolean {
  const [navigation] = performance.getEntriesByType("navigation");
  return (
    navigation !== undefined && (navigation as PerformanceNavigationTiming).type !== "navigate"
  );
}

/** The worker, once it has reported its support; undefined if the page must run the engine. */
function startWorker(): Promise<Worker | undefined> {
  if (!("Worker" in window) || !("transferControlToOffscreen" in canvas))
    return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const worker = new Worker("worker.js", { name: "thinc viewer" });
    const timer = setTimeout(() => resolve(undefined), WORKER_MS_MAX);
    worker.onmessage = (event: MessageEvent<FromEngine>) => {
      clearTimeout(timer);
      resolve(event.data.type === "supported" && event.data.supported ? worker : undefined);
    };
    worker.onerror = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
}

async function startEngine(secret: string): Promise<void> {
  const base = new URL("./", document.baseURI);
  const socketUrl = new URL("ws", base);
  socketUrl.protocol = "wss:";
  const thread = new URLSearchParams(location.search).get("thread");
  const [worker, taken] = await Promise.all([
    thread === "page" ? undefined : startWorker(),
    takeTab(),
  ]);
  tab = taken;
  const choice = new URLSearchParams(location.search).get("present");
  const presenter: PresenterKind | undefined =
    choice === "2d" || choice === "webgl2" ? choice : undefined;
  const start = {
    type: "start" as const,
    socketUrl: socketUrl.href,
    webTransportUrl: new URL("webtransport", base).href,
    loginUrl: new URL("login", base).href,
    logoutUrl: new URL("logout", base).href,
    secret,
    page: pageNumber,
    opening: wasReloaded() ? ("reconnects" as const) : ("opens" as const),
    transport: transportOf(new URLSearchParams(location.search).get("transport")),
    wasmUrl: new URL("viewer.wasm", base).href,
    display: stage.wanted,
    ...(presenter && { presenter }),
    persistCache: new URLSearchParams(location.search).get("keep") === "yes",
    clipboard: clipboardPolicy,
    quality: quality.chosen,
    stereo: stereo.chosen,
    ...(tab && { tab }),
  };
  if (worker) {
    worker.onmessage = (event: MessageEvent<FromEngine>) => handleMessage(event.data);
    worker.onerror = (event) => {
      // It would go on with what it can, unseen: a program that records would be heard.
      worker.terminate();
      showState({
        name: "closed",
        title: "The viewer failed",
        reason: `This is a bug of thinc: ${event.message}`,
        canRetry: false,
      });
    };
    send = (message, transfer) => worker.postMessage(message, transfer ?? []);
    const offscreen = canvas.transferControlToOffscreen();
    send({ ...start, canvas: offscreen }, [offscreen]);
  } else {
    const engine = new Engine(handleMessage);
    send = (message) => engine.handle(message);
    send({ ...start, canvas });
  }
  sound.announce();
  files.announce();
  printing.announce();
  microphone.announce();
  send({ type: "visible", visible: !document.hidden });
  tellWhenLeft(new URL("left", base).href, secret);
}

// The page

function showState(state: ConnectionState): void {
  connection = state;
  const connected = state.name === "connected" || state.name === "unresponsive";
  input.setConnection(connected ? "on" : state.name === "closed" ? "off" : "away");
  clipboard.setConnected(connected);
  people.setConnected(connected);
  if (!connected) {
    setOffers(undefined);
    channels.setPeople(0, []);
    // Nobody can hear it.
    microphone.handle({ type: "microphone", wanted: undefined });
  }
  files.setConnection(connected, state.name === "closed" ? state.title : undefined);
  printing.setConnection(connected, state.name === "closed");
  status.show(state, pictured);
  if (state.name === "connected") {
    if (tab) rememberTab(tab);
    // A session that answers again leaves the keyboard to who uses the menu.
    if (!menu.focused) input.typing.focus();
    menu.hint();
  }
}

/** What the session has for this viewer; undefined without a connection. */
function setOffers(offers: Offers | undefined): void {
  sound.setOffered(offers?.sound === true);
  microphone.setOffered(offers?.microphone === true);
  quality.setOffered(offers?.quality);
  stereo.setOffered(offers?.stereo);
  input.setTakesPens(offers?.pens === true);
  channels.setOffers(offers);
}

/** Shows or hides the touch keyboard, with the row of keys. */
function showKeyboard(wanted: boolean): void {
  stage.setKeyboard(wanted);
  for (const id of ["menu-keyboard", "handle-keyboard"]) showPressed(id, wanted);
  if (wanted) input.typing.showKeyboard();
  else input.typing.hideKeyboard();
}

function prepareMenu(): void {
  channels.changed();
  addSendKeys(element("menu-send"), (message) => input.send(message));
  if (isTouchOnly()) menu.useHandle();
  for (const id of ["menu-keyboard", "handle-keyboard"])
    element(id).addEventListener("click", () => showKeyboard(!stage.keyboardWanted));
  const size = element<HTMLSelectElement>("menu-size");
  size.value = stage.sizingNow;
  size.addEventListener("change", () => stage.setSizing(sizingOf(size.value) ?? "follow"));
  element("menu-fullscreen").addEventListener("click", () => void toggleFullscreen());
  document.addEventListener("fullscreenchange", () =>
    showPressed("menu-fullscreen", document.fullscreenElement !== null),
  );
  const chosen = element<HTMLInputElement>("files-input");
  element("menu-files").addEventListener("click", () => chosen.click());
  chosen.addEventListener("change", () => {
    void files.give(listFiles(chosen.files ?? []));
    // The same file may be chosen again.
    chosen.value = "";
  });
  element("menu-capture").addEventListener("click", () => input.capture.toggle());
  element("menu-stats").addEventListener("click", toggleStatistics);
  element("menu-lossy").addEventListener("click", toggleLossy);
  element("menu-disconnect").addEventListener("click", () => send({ type: "disconnect" }));
}

function showPressed(id: string, isPressed: boolean): void {
  element(id).setAttribute("aria-pressed", String(isPressed));
}

function toggleStatistics(): void {
  stats.toggle();
  showPressed("menu-stats", stats.open);
}

function toggleLossy(): void {
  lossy.toggle();
  showPressed("menu-lossy", lossy.open);
}

async function toggleFullscreen(): Promise<void> {
  if (document.fullscreenElement) {
    await document.exitFullscreen();
    return;
  }
  try {
    await document.documentElement.requestFullscreen({ navigationUI: "hide" });
    // Only in fullscreen, and only in some browsers: the session receives Escape, Alt+Tab and the
    // like.
    await (navigator as { keyboard?: { lock(): Promise<void> } }).keyboard?.lock();
  } catch {
    // Refused; the session stays in the window.
  }
}

function sizingOf(word: string | null): Sizing | undefined {
  return word === "follow" || word === "fit" || word === "actual" ? word : undefined;
}

function transportOf(word: string | null): TransportChoice {
  return word === "websocket" || word === "webtransport" ? word : "auto";
}

/** With Ctrl and Alt, by KeyboardEvent.code. */
const SHORTCUTS: Readonly<Record<string, () => void>> = {
  KeyA: () => quality.showExactly(),
  KeyE: toggleLossy,
  KeyH: () => quality.chooseNext(),
  KeyM: () => menu.toggleByKeyboard(),
  KeyP: () => input.capture.toggle(),
  KeyS: toggleStatistics,
  KeyV: () => sound.toggleMute(),
  KeyW: () => stereo.chooseNext(),
  Comma: () => sound.changeVolume(-1),
  Period: () => sound.changeVolume(1),
};

function shortcut(event: KeyboardEvent): boolean {
  if (!event.ctrlKey || !event.altKey || event.shiftKey || event.metaKey) return false;
  if (event.getModifierState("AltGraph")) return false;
  // What answers a question is the session's otherwise.
  const toggle =
    microphone.shortcut(event.code) ?? SHORTCUTS[event.code] ?? questions.shortcut(event.code);
  if (toggle === undefined) return false;
  if (!event.repeat) toggle();
  return true;
}

/** What this browser lacks, for the user; undefined if nothing. */
function missingFeature(): string | undefined {
  if (!isSecureContext) return "Open this page over https, as in the link.";
  if (typeof WebAssembly !== "object")
    return "This browser has no WebAssembly, or it is disabled; thinc's viewer needs it.";
  if (typeof WebSocket !== "function")
    return "This browser has no WebSocket; thinc's viewer needs it.";
  if (typeof ResizeObserver !== "function" || typeof PointerEvent !== "function")
    return "This browser is too old: it has no ResizeObserver or no pointer events.";
  return undefined;
}

const cursor = new Cursor(stageElement);
const gamma = new Gamma({
  canvas,
  isOn: gammaOf(new URLSearchParams(location.search).get("gamma")),
  cursorChanged: (channels) => cursor.setGamma(channels),
});
const lossy = new LossyOverlay(element("lossy"), (report) => send({ type: "reportLossy", report }));
const stage = new Stage(
  {
    stage: stageElement,
    row: element("keyrow"),
    layers: [canvas, lossy.canvas],
    resized: (display) => send({ type: "display", display }),
    viewRequested: (view) => send({ type: "view", view }),
    scaled: (scale) => {
      cursor.setScale(scale);
      input.capture.setScale(scale);
    },
    laidOut: () => people.layOut(),
    keyboardGone: () => showKeyboard(false),
  },
  sizingOf(new URLSearchParams(location.search).get("size")),
);
const menu = new Menu({
  menu: element("menu"),
  handle: element<HTMLButtonElement>("handle-menu"),
  left: () => input.typing.focus(),
});
const status = new StatusCard({
  element: element("state"),
  title: element("state-title"),
  words: element("state-words"),
  countdown: element("state-countdown"),
  button: element<HTMLButtonElement>("state-button"),
  other: element<HTMLButtonElement>("state-other"),
  retry: (opening) => send({ type: "retry", ...(opening && { opening }) }),
});
const stats = new StatsOverlay(element("stats"), async () => (await query("stats")) as Stats);
const clipboardPolicy = policyOf(new URLSearchParams(location.search).get("clipboard"));
const clipboard = new Clipboard({
  policy: clipboardPolicy,
  keys,
  send: (message, transfer) => send(message, transfer),
  releaseAll: () => input.releaseAll(),
  notice: (words) => notice.show(words),
});
const notice = new Notice(element("notice"));
const announcement = new Announcement({
  element: element("announcement"),
  words: element("announcement-words"),
  button: element<HTMLButtonElement>("announcement-button"),
  left: () => input.typing.focus(),
});
const entry = (name: EntryName) => {
  const id = name.toLowerCase();
  return new Entry(element<HTMLButtonElement>(`entry-${id}`), element(`menu-${id}-words`), name);
};
const channels: Channels = new Channels({
  entries: {
    Sound: entry("Sound"),
    Microphone: entry("Microphone"),
    Files: entry("Files"),
    Printing: entry("Printing"),
    Sharing: entry("Sharing"),
    Copying: entry("Copying"),
    Quality: entry("Quality"),
    Stereo: entry("Stereo"),
  },
  sound: () => sound.side,
  microphone: () => microphone.side,
  files: () => files.side,
  printing: () => printing.side,
  copying: () => copying.side,
  quality: () => quality.chosen,
  stereo: () => stereo.chosen,
});
const copying = new CopyingChoice(
  element<HTMLSelectElement>("menu-clipboard"),
  (policy) => send({ type: "clipPolicy", policy }),
  () => channels.changed(),
);
const quality = new QualityChoice({
  select: element<HTMLSelectElement>("menu-quality"),
  exact: element<HTMLButtonElement>("menu-exact"),
  named: new URLSearchParams(location.search).get("quality"),
  send: (message) => send(message),
  notice: (words) => notice.show(words),
  changed: () => channels.changed(),
});
const stereo = new StereoChoice({
  entry: element("entry-stereo"),
  select: element<HTMLSelectElement>("menu-stereo"),
  named: new URLSearchParams(location.search).get("stereo"),
  send: (message) => send(message),
  notice: (words) => notice.show(words),
  changed: () => channels.changed(),
});
const sound = new Sound({
  mute: element<HTMLButtonElement>("menu-mute"),
  volume: element<HTMLInputElement>("menu-volume"),
  controls: element("menu-sound-controls"),
  choice: new URLSearchParams(location.search).get("sound"),
  base: new URL("./", document.baseURI),
  send: (message, transfer) => send(message, transfer),
  notice: (words) => notice.show(words),
  changed: () => channels.changed(),
});
const questions = new Questions(() => input.typing.focus());
/** Of files, and of what is printed; each answers its own. */
const filesQuestion: Omit<Question, "answer"> = {
  element: element("files-question"),
  words: element("files-words"),
  yes: element<HTMLButtonElement>("files-save"),
  no: element<HTMLButtonElement>("files-refuse"),
  changed: () => transfers.showPanel(),
};
const transfers: Transfers = new Transfers({
  questions,
  panel: element("files"),
  question: filesQuestion,
  list: element("files-list"),
  give: element<HTMLButtonElement>("menu-files"),
  answer: (takes) => files.answer(takes),
  changed: () => channels.changed(),
  left: () => input.typing.focus(),
});
const files: Files = new Files({
  choice: filesChoiceOf(new URLSearchParams(location.search).get("files")),
  view: transfers,
  send: (message, transfer) => send(message, transfer),
  notice: (words) => notice.show(words),
});
const printQuestion: Question = {
  ...filesQuestion,
  answer: (prints) => printing.answer(prints),
};
questions.add(printQuestion);
const printing: Printing = new Printing({
  choice: new URLSearchParams(location.search).get("printing"),
  view: {
    show: (key, words, share, cancel) => transfers.show(key, words, share, cancel),
    fail: (key, words) => transfers.fail(key, words),
    remove: (key) => transfers.remove(key),
    askToPrint: (asked) => questions.ask(printQuestion, asked),
  },
  printer: new Printer(),
  send: (message) => send(message),
  notice: (words) => notice.show(words),
  left: () => input.typing.focus(),
});
new Drops({
  stage: stageElement,
  taken: () => files.takesDrops,
  pixelAt: (x, y) => stage.pixelWithin(x, y),
  dropped: (listed, at) => void files.give(listed, at),
});
const microphone = new Microphone({
  questions,
  question: element("microphone-question"),
  questionWords: element("microphone-question-words"),
  allow: element<HTMLButtonElement>("microphone-allow"),
  refuse: element<HTMLButtonElement>("microphone-refuse"),
  mark: element("microphone"),
  stop: element<HTMLButtonElement>("microphone-stop"),
  button: element<HTMLButtonElement>("menu-microphone"),
  base: new URL("./", document.baseURI),
  choice: new URLSearchParams(location.search).get("microphone"),
  send: (message, transfer) => send(message, transfer),
  notice: (words) => notice.show(words),
  changed: () => channels.changed(),
  left: () => input.typing.focus(),
});
const people = new People({
  button: element<HTMLButtonElement>("entry-sharing"),
  list: element("people-list"),
  invited: element("invited"),
  form: element<HTMLFormElement>("invite"),
  link: element<HTMLInputElement>("invite-link"),
  copy: element<HTMLButtonElement>("invite-copy"),
  words: element("people-words"),
  pointers: element("pointers"),
  send: (request, action) => send({ type: "share", request, action }),
  placeOf: (pixel) => stage.placeOf(pixel),
  notice: (words) => notice.show(words),
});
const input: Input = new Input({
  stage: stageElement,
  hold: element("hold"),
  keys,
  view: stage,
  // User input waits behind a paste.
  send: (message) => clipboard.send(message),
  clipboard: (event) => clipboard.keyDown(event),
  notice: (words) => notice.show(words),
  shortcut,
  forPage: (event) =>
    event.target instanceof Element &&
    event.target.closest(
      "#menu, #files, #state, #announcement, #microphone, #microphone-question, #keyrow",
    ) !== null,
  passThrough: new URLSearchParams(location.search).get("touch") === "applications",
  pointerAt: (x, y) => {
    cursor.pointerAt(x, y);
    menu.pointerAt(x, y);
  },
  pressed: (kind) => {
    menu.elsewhere();
    if (kind === "touch") menu.useHandle();
    // A touch keyboard is shown on request, not at each touch.
    if (!stage.keyboardWanted) keys.inputMode = kind === "mouse" ? "text" : "none";
  },
  captureWanted: (wanted) => {
    element("menu-capture").hidden = !wanted;
  },
  row: (options) => new KeyRow({ row: element("keyrow"), ...options }),
});

async function main(): Promise<void> {
  const missing = missingFeature();
  if (missing !== undefined) {
    showState({
      name: "closed",
      title: "This browser cannot show the session",
      reason: missing,
      canRetry: false,
    });
    return;
  }
  if (isTouchOnly()) keys.inputMode = "none";
  prepareMenu();
  // After each of these the machine may have slept: the connection is probed.
  addEventListener("online", () => send({ type: "wake" }));
  addEventListener("pageshow", (event) => {
    if (event.persisted) send({ type: "wake" });
  });
  document.addEventListener("visibilitychange", () => {
    send({ type: "visible", visible: !document.hidden });
    if (!document.hidden) send({ type: "wake" });
  });
  window.thinc = {
    quiet: async () => {
      await query("idle");
      // What the worker drew is on the page one frame later.
      if (!document.hidden)
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    },
    saved: async () => void (await query("saved")),
    pixels: async () => (await query("pixels")) as Pixels,
    stats: async () => (await query("stats")) as Stats,
    sound: () => sound.report,
  };
  // A link opened while the browser has an older cookie: its token makes a new one. A used token
  // does no harm while the cookie is valid.
  const token = takeToken();
  if (token !== undefined) {
    // It may be another session, which must not get this tab's saved picture.
    forgetTab();
    // Who has a login already is not asked for a name again, and uses no invitation up.
    if (invitationOf(token) === undefined) await redeem(token);
  }
  const secret = loadSecret();
  const desk = deskName();
  if (secret === undefined && desk !== undefined) {
    location.replace(homePath(desk));
    return;
  }
  if (secret === undefined) {
    showState({
      name: "closed",
      title: "This browser needs a new link",
      reason: `It has a cookie of this session, but not the secret that belongs to it. ${NEW_LINK}`,
      canRetry: false,
    });
    return;
  }
  await startEngine(secret);
  followLayout(new URLSearchParams(location.search).get("layout") ?? "auto", (message) =>
    send(message),
  );
}

// A link pasted into this tab changes only the fragment, which loads nothing by itself.
addEventListener("hashchange", () => location.reload());
main().catch((error: unknown) => {
  showState({
    name: "closed",
    title: "The viewer cannot start",
    reason: error instanceof Error ? error.message : String(error),
    canRetry: false,
  });
});
