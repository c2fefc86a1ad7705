// The page: starts the engine, lays the screen out one pixel to one, and says in words how things stand.
// Path 13/13: round present.ts; and where input begins its way back.
// Knows the page and the browser; never bytes of the protocol.

import { Cursor } from "./cursor";
import { Engine } from "./engine";
import { InexactOverlay } from "./inexact";
import { Input, isTouchOnly, type Placement } from "./input";
import type { ConnectionState, FromEngine, Pixels, PresenterKind, Stats, ToEngine } from "./messages";
import { StatsOverlay } from "./stats";
import { redeem, takeToken } from "./token";

/** The menu shows itself this long when a session opens, so that people know there is one. */
const MENU_HINT_MS = 2_500;
/** The pointer rests this long at the middle of the top edge before the menu opens: passing by is not asking. */
const MENU_DWELL_MS = 400;
/** CSS pixels: the strip that counts as the middle of the top edge. */
const MENU_STRIP = { width: 160, height: 2 };
/** A worker that has not spoken after this long will not; the page then does the work itself. */
const WORKER_MS_MAX = 10_000;

const NAME = "thinc";

/** What scripts and tests may ask; the page's security policy lets in no script but its own. */
interface Hook {
  /** Until the session has nothing more to send, and what it sent is on the canvas. */
  quiet(): Promise<void>;
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

const stage = element("stage");
const keys = element<HTMLTextAreaElement>("keys");
const menu = element("menu");
const veil = element("veil");
const veilTitle = element("veil-title");
const veilWords = element("veil-words");
const veilButton = element<HTMLButtonElement>("veil-button");
let canvas = element<HTMLCanvasElement>("screen");

let screenSize: { width: number; height: number } | undefined;
let stageSize = { width: 0, height: 0 };
let connection: ConnectionState = { name: "connecting", attempt: 1 };

// The engine, near or far

let send: (message: ToEngine, transfer?: Transferable[]) => void = () => undefined;

interface Question {
  resolve(value: undefined | Pixels | Stats): void;
  reject(error: Error): void;
}

const questions = new Map<number, Question>();
let questionId = 0;

function ask(what: "quiet" | "pixels" | "stats"): Promise<undefined | Pixels | Stats> {
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
    case "geometry":
      screenSize = { width: message.width, height: message.height };
      layOut();
      inexact.resize(message.width, message.height);
      break;
    case "name":
      document.title = message.name === "" ? NAME : `${message.name} – ${NAME}`;
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
  const choice = new URLSearchParams(location.search).get("present");
  const presenter: PresenterKind | undefined = choice === "2d" || choice === "webgl2" ? choice : undefined;
  const start = {
    type: "start" as const,
    socketUrl: socketUrl.href,
    wasmUrl: new URL("viewer.wasm", base).href,
    probeUrl: new URL("viewer.wasm", base).href,
    width: stageSize.width,
    height: stageSize.height,
    ...(presenter && { presenter }),
    keep: new URLSearchParams(location.search).get("keep") === "yes",
  };
  const worker = new URLSearchParams(location.search).get("thread") === "page" ? undefined : await startWorker();
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

/** The session's screen at one pixel to one where it fits, in the middle; smaller where it does not. */
function layOut(): void {
  if (screenSize === undefined || screenSize.width === 0 || screenSize.height === 0) return;
  const ratio = devicePixelRatio;
  const { width, height } = screenSize;
  const scale = Math.min(1, stageSize.width / width, stageSize.height / height) || 1;
  // Whole device pixels, or the browser would blend neighbours.
  const left = Math.max(0, Math.floor((stageSize.width - width * scale) / 2));
  const top = Math.max(0, Math.floor((stageSize.height - height * scale) / 2));
  for (const { style } of [canvas, inexact.canvas]) {
    style.width = `${(width * scale) / ratio}px`;
    style.height = `${(height * scale) / ratio}px`;
    style.left = `${left / ratio}px`;
    style.top = `${top / ratio}px`;
  }
  canvas.classList.toggle("scaled", scale !== 1);
}

function placement(): Placement | undefined {
  if (screenSize === undefined) return undefined;
  const { left, top, width, height } = canvas.getBoundingClientRect();
  if (width === 0 || height === 0) return undefined;
  return { left, top, width, height, screenWidth: screenSize.width, screenHeight: screenSize.height };
}

function watchStage(): void {
  const changed = (width: number, height: number) => {
    if (width === stageSize.width && height === stageSize.height) return;
    stageSize = { width, height };
    layOut();
    if (width > 0 && height > 0) send({ type: "resize", width, height });
  };
  const observer = new ResizeObserver((entries) => {
    const entry = entries[0];
    if (entry === undefined) return;
    const { width, height } = entry.contentRect;
    const near = { width: width * devicePixelRatio, height: height * devicePixelRatio };
    const exact = entry.devicePixelContentBoxSize?.[0];
    // It knows how the browser rounds; a browser that plays another device's ratio knows nothing of it, and is far off.
    if (exact && Math.abs(exact.inlineSize - near.width) < 2) changed(exact.inlineSize, exact.blockSize);
    else changed(Math.floor(near.width), Math.floor(near.height));
  });
  try {
    // A change of the device pixel ratio alone is seen by this box only.
    observer.observe(stage, { box: "device-pixel-content-box" });
  } catch {
    observer.observe(stage);
  }
  const box = stage.getBoundingClientRect();
  stageSize = { width: Math.round(box.width * devicePixelRatio), height: Math.round(box.height * devicePixelRatio) };
}

let hinted = false;

function showState(state: ConnectionState): void {
  connection = state;
  input.setActive(state.name === "connected");
  veil.hidden = state.name === "connected";
  veilButton.hidden = true;
  switch (state.name) {
    case "connected":
      keys.focus({ preventScroll: true });
      if (!hinted) {
        hinted = true;
        openMenu();
        setTimeout(() => closeMenu(), MENU_HINT_MS);
      }
      break;
    case "connecting":
      veilTitle.textContent = state.attempt === 1 ? "Connecting…" : "Connecting again…";
      veilWords.textContent = "";
      break;
    case "waiting":
      veilTitle.textContent = "The connection dropped";
      veilWords.textContent = "The session goes on. Trying again…";
      veilButton.textContent = "Try now";
      veilButton.hidden = state.retryMs < 1000;
      break;
    case "closed":
      veilTitle.textContent = state.title;
      veilWords.textContent = state.reason;
      veilButton.textContent = "Connect again";
      veilButton.hidden = !state.again;
      veilButton.focus();
      break;
  }
}

// The menu: hidden, so that no pixel of the session is covered, until the pointer rests at the top edge.

let dwellTimer: ReturnType<typeof setTimeout> | undefined;

function openMenu(): void {
  menu.classList.add("open");
}

function closeMenu(): void {
  if (!menu.matches(":hover")) menu.classList.remove("open");
}

function menuPointerAt(x: number | undefined, y: number | undefined): void {
  const near = x !== undefined && y !== undefined && y < MENU_STRIP.height && Math.abs(x - innerWidth / 2) < MENU_STRIP.width / 2;
  if (!near) {
    clearTimeout(dwellTimer);
    dwellTimer = undefined;
    if (y !== undefined && y > menu.offsetHeight) closeMenu();
  } else if (dwellTimer === undefined) {
    dwellTimer = setTimeout(openMenu, MENU_DWELL_MS);
  }
}

function prepareMenu(): void {
  menu.classList.toggle("handle", isTouchOnly());
  menu.addEventListener("pointerleave", () => closeMenu());
  // The keyboard stays with the session.
  menu.addEventListener("pointerdown", (event) => event.preventDefault());
  element("menu-handle").addEventListener("click", () => menu.classList.toggle("open"));
  element("menu-fullscreen").addEventListener("click", () => void toggleFullscreen());
  element("menu-stats").addEventListener("click", () => stats.toggle());
  element("menu-inexact").addEventListener("click", () => inexact.toggle());
  element("menu-keyboard").addEventListener("click", () => {
    keys.inputMode = "text";
    keys.blur();
    keys.focus({ preventScroll: true });
  });
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

function shortcut(event: KeyboardEvent): boolean {
  if (!event.ctrlKey || !event.altKey || event.shiftKey || event.metaKey) return false;
  if (event.getModifierState("AltGraph")) return false;
  const overlay = event.code === "KeyS" ? stats : event.code === "KeyE" ? inexact : undefined;
  if (overlay === undefined) return false;
  if (!event.repeat) overlay.toggle();
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

const cursor = new Cursor(stage);
const inexact = new InexactOverlay(element("inexact"), (tell) => send({ type: "tellInexact", tell }));
const stats = new StatsOverlay(element("stats"), async () => (await ask("stats")) as Stats);
const input = new Input({
  stage,
  keys,
  send: (message) => send(message),
  placement,
  shortcut,
  pointerAt: (x, y) => {
    cursor.pointerAt(x, y);
    menuPointerAt(x, y);
  },
});

async function main(): Promise<void> {
  const lack = lacking();
  if (lack !== undefined) {
    showState({ name: "closed", title: "This browser cannot show the session", reason: lack, again: false });
    return;
  }
  if (isTouchOnly()) keys.inputMode = "none";
  watchStage();
  prepareMenu();
  veilButton.addEventListener("click", () => send({ type: "retry" }));
  addEventListener("online", () => retryIfWaiting());
  document.addEventListener("visibilitychange", () => {
    send({ type: "visible", visible: !document.hidden });
    if (!document.hidden) retryIfWaiting();
  });
  window.thinc = {
    quiet: async () => {
      await ask("quiet");
      // What the worker put on its canvas is on the page one frame later.
      if (!document.hidden) await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    },
    pixels: async () => (await ask("pixels")) as Pixels,
    stats: async () => (await ask("stats")) as Stats,
  };
  // A link opened where an older cookie lies: its token makes a new one. A used token is no harm while the cookie is good.
  const token = takeToken();
  if (token !== undefined) await redeem(token);
  await startEngine();
}

function retryIfWaiting(): void {
  if (connection.name === "waiting") send({ type: "retry" });
}

// A link pasted into this tab changes only the fragment, which loads nothing by itself.
addEventListener("hashchange", () => location.reload());
main().catch((error: unknown) => {
  showState({ name: "closed", title: "The viewer cannot start", reason: error instanceof Error ? error.message : String(error), again: false });
});
