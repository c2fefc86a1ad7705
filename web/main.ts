// The page: starts the engine, lays the screen out one pixel to one, and says in words how things stand.
// Path 13/13: round present.ts; and where input begins its way back.
// Knows the page and the browser; never bytes of the protocol.

import { Clipboard, policyOf } from "./clipboard";
import { Cursor } from "./cursor";
import { Engine } from "./engine";
import { InexactOverlay } from "./inexact";
import { Input, isTouchOnly } from "./input";
import { KeyRow } from "./keyrow";
import { followLayout } from "./layout";
import { Menu } from "./menu";
import type { ConnectionState, FromEngine, Pixels, PresenterKind, Stats, ToEngine } from "./messages";
import { Notice } from "./notice";
import { addSendKeys } from "./sendkeys";
import { Stage, type Sizing } from "./stage";
import { States } from "./states";
import { StatsOverlay } from "./stats";
import { forgetTab, rememberTab, takeTab, type Tab } from "./tab";
import { redeem, takeToken } from "./token";
import type { TransportChoice } from "./transport";

/** A worker that has not spoken after this long will not; the page then does the work itself. */
const WORKER_MS_MAX = 10_000;

const NAME = "thinc";

/** What scripts and tests may ask; the page's security policy lets in no script but its own. */
interface Hook {
  /** Until the session has nothing more to send, and what it sent is on the canvas. */
  quiet(): Promise<void>;
  /** Until the tab's next page would have what is shown. */
  kept(): Promise<void>;
  /** The screen as the viewer holds it. */
  pixels(): Promise<Pixels>;
  stats(): Promise<Stats>;
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
/** What this page has in common with the tab's next one. */
let tab: Tab | undefined;

// The engine, near or far

let send: (message: ToEngine, transfer?: Transferable[]) => void = () => undefined;

interface Question {
  resolve(value: undefined | Pixels | Stats): void;
  reject(error: Error): void;
}

const questions = new Map<number, Question>();
let questionId = 0;

function ask(what: "quiet" | "kept" | "pixels" | "stats"): Promise<undefined | Pixels | Stats> {
  return new Promise((resolve, reject) => {
    questionId += 1;
    questions.set(questionId, { resolve, reject });
    send({ type: "ask", id: questionId, what });
  });
}

function told(message: FromEngine): void {
  switch (message.type) {
    case "state":
      showState(message.state);
      break;
    case "keeps":
      states.setKeeps(message.keeps);
      break;
    case "geometry":
      if (!pictured && connection !== undefined) states.show(connection, true);
      pictured = true;
      inexact.resize(message.width, message.height);
      stage.setPicture({ size: { width: message.width, height: message.height }, part: message.part }, message.screen);
      break;
    case "name":
      document.title = message.name === "" ? NAME : `${message.name} – ${NAME}`;
      break;
    case "forget":
      forgetTab();
      break;
    case "cursor":
      cursor.setImage(message);
      break;
    case "cursorShow":
      cursor.setShown(message.shown);
      break;
    case "inexact":
      inexact.show(message.rects);
      break;
    case "clipOffer":
    case "clipWanted":
    case "clipContent":
    case "clipFailed":
    case "clipRefused":
      clipboard.told(message);
      break;
    case "answer":
      questions.get(message.id)?.resolve(message.value);
      questions.delete(message.id);
      break;
    case "failed":
      questions.get(message.id)?.reject(new Error(message.reason));
      questions.delete(message.id);
      break;
    case "able":
      break;
  }
}

/** The worker, once it has said that it can do the work; undefined where the page must. */
function startWorker(): Promise<Worker | undefined> {
  if (!("Worker" in window) || !("transferControlToOffscreen" in canvas)) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const worker = new Worker("worker.js", { name: "thinc viewer" });
    const timer = setTimeout(() => resolve(undefined), WORKER_MS_MAX);
    worker.onmessage = (event: MessageEvent<FromEngine>) => {
      clearTimeout(timer);
      resolve(event.data.type === "able" && event.data.able ? worker : undefined);
    };
    worker.onerror = () => {
      clearTimeout(timer);
      resolve(undefined);
    };
  });
}

async function startEngine(): Promise<void> {
  const base = new URL("./", document.baseURI);
  const socketUrl = new URL("ws", base);
  socketUrl.protocol = "wss:";
  const thread = new URLSearchParams(location.search).get("thread");
  const [worker, taken] = await Promise.all([thread === "page" ? undefined : startWorker(), takeTab()]);
  tab = taken;
  const choice = new URLSearchParams(location.search).get("present");
  const presenter: PresenterKind | undefined = choice === "2d" || choice === "webgl2" ? choice : undefined;
  const start = {
    type: "start" as const,
    socketUrl: socketUrl.href,
    webTransportUrl: new URL("webtransport", base).href,
    transport: transportOf(new URLSearchParams(location.search).get("transport")),
    wasmUrl: new URL("viewer.wasm", base).href,
    probeUrl: new URL("viewer.wasm", base).href,
    display: stage.wanted,
    ...(presenter && { presenter }),
    keep: new URLSearchParams(location.search).get("keep") === "yes",
    clipboard: clipboardPolicy,
    ...(tab && { tab }),
  };
  if (worker) {
    worker.onmessage = (event: MessageEvent<FromEngine>) => told(event.data);
    worker.onerror = (event) => {
      showState({ name: "closed", title: "The viewer failed", reason: `This is a bug of thinc: ${event.message}`, again: false });
    };
    send = (message, transfer) => worker.postMessage(message, transfer ?? []);
    const offscreen = canvas.transferControlToOffscreen();
    send({ ...start, canvas: offscreen }, [offscreen]);
  } else {
    const engine = new Engine(told);
    send = (message) => engine.handle(message);
    send({ ...start, canvas });
  }
  send({ type: "visible", visible: !document.hidden });
}

// The page

function showState(state: ConnectionState): void {
  connection = state;
  const connected = state.name === "connected" || state.name === "silent";
  input.setConnection(connected ? "on" : state.name === "closed" ? "off" : "away");
  clipboard.setConnected(connected);
  states.show(state, pictured);
  if (state.name === "connected") {
    if (tab) rememberTab(tab);
    input.typing.focus();
    menu.hint();
  }
}

/** Shows or hides the keyboard on the glass, with the row of keys it lacks. */
function showKeyboard(wanted: boolean): void {
  stage.setKeyboard(wanted);
  for (const id of ["menu-keyboard", "handle-keyboard"]) element(id).setAttribute("aria-pressed", String(wanted));
  if (wanted) input.typing.showKeyboard();
  else input.typing.hideKeyboard();
}

function prepareMenu(): void {
  addSendKeys(element("menu-send"), (message) => input.send(message));
  if (isTouchOnly()) menu.useHandle();
  for (const id of ["menu-keyboard", "handle-keyboard"]) element(id).addEventListener("click", () => showKeyboard(!stage.keyboardWanted));
  const size = element<HTMLSelectElement>("menu-size");
  size.value = stage.sizingNow;
  size.addEventListener("change", () => stage.setSizing(sizingOf(size.value) ?? "follow"));
  element("menu-fullscreen").addEventListener("click", () => void toggleFullscreen());
  element("menu-keys").addEventListener("click", ({ currentTarget }) => {
    const keys = element("menu-send");
    keys.hidden = !keys.hidden;
    (currentTarget as HTMLElement).setAttribute("aria-expanded", String(!keys.hidden));
  });
  element("menu-stats").addEventListener("click", () => stats.toggle());
  element("menu-inexact").addEventListener("click", () => inexact.toggle());
  element("menu-disconnect").addEventListener("click", () => send({ type: "disconnect" }));
}

async function toggleFullscreen(): Promise<void> {
  if (document.fullscreenElement) {
    await document.exitFullscreen();
    return;
  }
  try {
    await document.documentElement.requestFullscreen({ navigationUI: "hide" });
    // Only in fullscreen, and only in some browsers: Escape, Alt+Tab and the like reach the session too.
    await (navigator as { keyboard?: { lock(): Promise<void> } }).keyboard?.lock();
  } catch {
    // Not given; the session stays in the window.
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
  KeyE: () => inexact.toggle(),
  KeyM: () => menu.toggleByKeyboard(),
  KeyS: () => stats.toggle(),
};

function shortcut(event: KeyboardEvent): boolean {
  if (!event.ctrlKey || !event.altKey || event.shiftKey || event.metaKey) return false;
  if (event.getModifierState("AltGraph")) return false;
  const toggle = SHORTCUTS[event.code];
  if (toggle === undefined) return false;
  if (!event.repeat) toggle();
  return true;
}

/** What this browser lacks, in words; undefined when nothing. */
function lacking(): string | undefined {
  if (!isSecureContext) return "This page must be opened by https, as the link says.";
  if (typeof WebAssembly !== "object") return "This browser has no WebAssembly (or it is switched off), and thinc's viewer is made of it.";
  if (typeof WebSocket !== "function") return "This browser has no WebSocket, which brings the screen here.";
  if (typeof ResizeObserver !== "function" || typeof PointerEvent !== "function") return "This browser is too old: it has no ResizeObserver or no pointer events.";
  return undefined;
}

const cursor = new Cursor(stageElement);
const inexact = new InexactOverlay(element("inexact"), (tell) => send({ type: "tellInexact", tell }));
const stage = new Stage({
  stage: stageElement,
  row: element("keyrow"),
  layers: [canvas, inexact.canvas],
  resized: (display) => send({ type: "display", display }),
  wished: (wish) => send({ type: "view", wish }),
  scaled: (scale) => cursor.setScale(scale),
  keyboardGone: () => showKeyboard(false),
}, sizingOf(new URLSearchParams(location.search).get("size")));
const menu = new Menu({ menu: element("menu"), handle: element<HTMLButtonElement>("handle-menu"), left: () => input.typing.focus() });
const states = new States({
  element: element("state"),
  title: element("state-title"),
  words: element("state-words"),
  countdown: element("state-countdown"),
  button: element<HTMLButtonElement>("state-button"),
  retry: () => send({ type: "retry" }),
});
const stats = new StatsOverlay(element("stats"), async () => (await ask("stats")) as Stats);
const clipboardPolicy = policyOf(new URLSearchParams(location.search).get("clipboard"));
const clipboard = new Clipboard({
  policy: clipboardPolicy,
  keys,
  send: (message, transfer) => send(message, transfer),
  releaseAll: () => input.releaseAll(),
  notice: (words) => notice.say(words),
});
const notice = new Notice(element("notice"));
const input: Input = new Input({
  stage: stageElement,
  hold: element("hold"),
  keys,
  view: stage,
  // What a person does waits behind what they paste.
  send: (message) => clipboard.pass(message),
  clipboard: (event) => clipboard.keyDown(event),
  notice: (words) => notice.say(words),
  shortcut,
  elsewhere: (event) => event.target instanceof Element && event.target.closest("#menu, #state, #keyrow") !== null,
  passThrough: new URLSearchParams(location.search).get("touch") === "applications",
  pointerAt: (x, y) => {
    cursor.pointerAt(x, y);
    menu.pointerAt(x, y);
  },
  pressed: (kind) => {
    menu.elsewhere();
    if (kind === "touch") menu.useHandle();
    // A keyboard on the glass comes when it is asked for, and not with each touch.
    if (!stage.keyboardWanted) keys.inputMode = kind === "mouse" ? "text" : "none";
  },
  row: (options) => new KeyRow({ row: element("keyrow"), ...options }),
});

async function main(): Promise<void> {
  const lack = lacking();
  if (lack !== undefined) {
    showState({ name: "closed", title: "This browser cannot show the session", reason: lack, again: false });
    return;
  }
  if (isTouchOnly()) keys.inputMode = "none";
  prepareMenu();
  // Each of these may be a machine that wakes up: better to ask the session at once than to trust the connection.
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
      await ask("quiet");
      // What the worker put on its canvas is on the page one frame later.
      if (!document.hidden) await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    },
    kept: async () => void (await ask("kept")),
    pixels: async () => (await ask("pixels")) as Pixels,
    stats: async () => (await ask("stats")) as Stats,
  };
  // A link opened where an older cookie lies: its token makes a new one. A used token is no harm while the cookie is good.
  const token = takeToken();
  if (token !== undefined) {
    // It may be another session's, to which what an earlier one showed is nothing.
    forgetTab();
    await redeem(token);
  }
  await startEngine();
  followLayout(new URLSearchParams(location.search).get("layout") ?? "auto", (message) => send(message));
}

// A link pasted into this tab changes only the fragment, which loads nothing by itself.
addEventListener("hashchange", () => location.reload());
main().catch((error: unknown) => {
  showState({ name: "closed", title: "The viewer cannot start", reason: error instanceof Error ? error.message : String(error), again: false });
});
