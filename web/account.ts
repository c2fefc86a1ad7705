// Logs a person in to their account, and lists, opens, starts and ends their desktops.
// Before the path: the broker answers strangers with nothing but pages. From PAM's questions, to
// the page of one desktop.
// Knows what the person types only until it is sent.

import { deskPath, forgetLogin, homePath, loadLogin, saveLogin } from "./store/desk";
import { forgetDevice, rememberDevice, signIn } from "./store/device";
import { forgetSecret, headersOf, saveSecret } from "./store/token";
import { type Answer, type Desktop, DesktopList, titleOf } from "./ui/desktops";
import { DeviceList } from "./ui/devices";
import { Preferences } from "./ui/preferences";
import { say, translatePage } from "./ui/words";

/** A question of the system, or something to read. */
interface Prompt {
  style: "hidden" | "shown" | "text";
  text: string;
}

type LoginAnswer = { originSecret: string } | { attempt: string; prompts: Prompt[] };

const find = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

const title = find("title");
const banner = find("banner");
const words = find("words");
const error = find("error");
const loginForm = find<HTMLFormElement>("login");
const user = find<HTMLInputElement>("user");
const password = find<HTMLInputElement>("password");
const stayField = find("stay-field");
const stay = find<HTMLInputElement>("stay");
const questions = find<HTMLFormElement>("questions");
const asked = find("asked");
const desktops = find("desktops");
const list = new DesktopList({
  list: find<HTMLUListElement>("list"),
  isShown: () => !desktops.hidden,
  request: requestOrAsk,
  counted: (count) => {
    if (count === 0) words.textContent = say("none");
    else if (words.textContent === say("none")) words.textContent = "";
  },
  open: (desktop) => during(async () => open(desktop.name)),
  end: (desktop) => during(() => end(desktop)),
  rename,
  done,
});
const preferences = new Preferences({
  element: find("preferences"),
  opening: find<HTMLSelectElement>("opening"),
  clipboard: find<HTMLSelectElement>("clipboard"),
  scale: find<HTMLSelectElement>("scale"),
  layout: find<HTMLInputElement>("layout"),
  request: requestOrAsk,
  done,
  failed: (text) => {
    error.textContent = text;
  },
});
const stopWaiting = find<HTMLButtonElement>("stop-waiting");
const startForm = find<HTMLFormElement>("start");
const choice = find<HTMLDetailsElement>("choice");
const what = find<HTMLSelectElement>("what");
const programField = find("program-field");
const program = find<HTMLInputElement>("program");
const sessionName = find<HTMLInputElement>("name");

/** The attempt that the questions belong to. */
let attempt = "";

/** This browser has not been refused on this page: it may sign its person in. */
let maySignIn = true;
/** Why it was, for the person. */
let signInProblem = "";

function show(part: HTMLElement | undefined, heading: string, text = "", problem = ""): void {
  for (const other of [loginForm, questions, desktops]) other.hidden = other !== part;
  stopWaiting.hidden = true;
  banner.hidden = banner.textContent === "" || part === desktops || part === undefined;
  title.textContent = heading;
  document.title = `${heading} – thinc`;
  words.textContent = text;
  error.textContent = problem;
}

/** Forms and buttons, while a request is on its way. */
function setBusy(busy: boolean): void {
  for (const element of document.querySelectorAll<HTMLButtonElement>("button"))
    element.disabled = busy;
}

function askToLogIn(problem = signInProblem): void {
  show(loginForm, say("logIn"), say("withAccount"), problem);
  signInProblem = "";
  password.value = "";
  (user.value === "" ? user : password).focus();
}

function describe(status: number): string {
  switch (status) {
    case 401:
      return say("refused");
    case 429:
      return say("busy");
    case 503:
      return say("closed");
    default:
      return say("answered", status);
  }
}

/** Whether this browser could keep a login. */
function canKeepLogin(): boolean {
  try {
    localStorage.setItem("thinc broker test", "");
    localStorage.removeItem("thinc broker test");
    return navigator.cookieEnabled;
  } catch {
    return false;
  }
}

async function send(body: object): Promise<void> {
  if (!canKeepLogin()) {
    askToLogIn(say("keepsNothing"));
    return;
  }
  setBusy(true);
  try {
    const response = await fetch("login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      cache: "no-store",
    });
    if (!response.ok) {
      askToLogIn(describe(response.status));
      return;
    }
    const answer = (await response.json()) as LoginAnswer;
    if ("attempt" in answer) {
      ask(answer.attempt, answer.prompts);
      return;
    }
    saveLogin(answer.originSecret);
    password.value = "";
    asked.replaceChildren();
    maySignIn = true;
    const problem = stay.checked ? await rememberDevice() : undefined;
    stay.checked = false;
    await showDesktops(problem === undefined ? "login" : "end");
    if (problem !== undefined) error.textContent = say("notRemembered", problem);
  } catch (reason) {
    askToLogIn(say("unreachable", messageOf(reason)));
  } finally {
    setBusy(false);
  }
}

/** What kind of secret a question wants, for password managers. */
function autocompleteOf(prompt: Prompt): AutoFill {
  if (/new/i.test(prompt.text)) return "new-password";
  if (/code|token|otp|pin\b/i.test(prompt.text)) return "one-time-code";
  return prompt.style === "hidden" ? "current-password" : "off";
}

function ask(number: string, prompts: Prompt[]): void {
  attempt = number;
  const elements = prompts.flatMap((prompt, at): HTMLElement[] => {
    if (prompt.style === "text") {
      const text = document.createElement("p");
      text.textContent = prompt.text;
      return [text];
    }
    const label = document.createElement("label");
    label.htmlFor = `answer-${at}`;
    label.textContent = prompt.text.replace(/:\s*$/, "");
    const input = document.createElement("input");
    input.id = label.htmlFor;
    input.type = prompt.style === "hidden" ? "password" : "text";
    input.autocomplete = autocompleteOf(prompt);
    input.autocapitalize = "none";
    input.spellcheck = false;
    input.maxLength = 511;
    return [label, input];
  });
  asked.replaceChildren(...elements);
  show(questions, say("logIn"), say("asksMore"));
  setBusy(false);
  asked.querySelector("input")?.focus();
}

/**
 * A request of this login, or of the one that follows it where this browser is remembered;
 * undefined if there is none.
 */
async function request(
  path: string,
  method = "GET",
  body?: string,
  signal: AbortSignal | null = null,
): Promise<Response | undefined> {
  for (let isAgain = false; ; isAgain = true) {
    const secret = loadLogin();
    if (secret !== undefined) {
      const headers = { ...headersOf(secret), "content-type": "application/json" };
      const init = { method, headers, body: body ?? null, cache: "no-store" as const, signal };
      const response = await fetch(path, init);
      if (response.status !== 401) return response;
      if (loadLogin() === secret) forgetLogin();
    }
    if (isAgain || !(await signInAgain())) return undefined;
  }
}

/** Whether this browser's person is logged in again, without having been asked. */
async function signInAgain(): Promise<boolean> {
  if (!maySignIn) return false;
  if ([loginForm, questions, desktops].every((part) => part.hidden))
    show(undefined, say("signingIn"));
  const result = await signIn();
  if (result === "signedIn") return true;
  maySignIn = false;
  if (result !== "none") signInProblem = result === 401 ? say("signedOut") : describe(result);
  return false;
}

/** The same; without a valid login the person is asked for one. */
async function requestOrAsk(
  path: string,
  method?: string,
  body?: string,
): Promise<Response | undefined> {
  const response = await request(path, method, body);
  if (response === undefined) askToLogIn();
  return response;
}

/** Tells the person what was done. */
function done(text: string): void {
  words.textContent = text;
}

/** Who has just logged in wants to work: the desktop that was asked for, or the only one. */
async function showDesktops(after: "load" | "login" | "end"): Promise<void> {
  const response = await request("sessions");
  if (response === undefined) return askToLogIn();
  if (!response.ok) return askToLogIn(await response.text());
  const found = (await response.json()) as Answer;
  const wanted = new URLSearchParams(location.search).get("open");
  const only = found.sessions.length === 1 ? found.sessions[0] : undefined;
  const direct =
    found.sessions.find((desktop) => desktop.name === wanted) ??
    (after === "login" ? only : undefined);
  if (after !== "end" && direct !== undefined) return open(direct.name);
  if (after === "login" && found.sessions.length === 0) return start();
  show(desktops, say("desktopsOf", found.user));
  list.show(found.sessions);
  title.focus();
  await preferences.load();
}

function open(name: string): void {
  const secret = loadLogin();
  if (secret === undefined) return askToLogIn();
  saveSecret(secret, deskPath(name));
  show(undefined, say("opening"));
  location.assign(deskPath(name));
}

/** What is started: a desktop of the list, which is read when it is opened, or a program. */
function chosen(): string | undefined {
  if (!choice.open) return undefined;
  const [kind, id] = splitOnce(what.value, ":");
  const typed = sessionName.value.trim();
  const name = typed === "" ? null : typed;
  if (kind === "desktop") return JSON.stringify({ what: { desktop: id }, name });
  if (kind === "program") return JSON.stringify({ what: { program: program.value }, name });
  return name === null ? undefined : JSON.stringify({ what: "default", name });
}

function splitOnce(text: string, at: string): [string, string] {
  const place = text.indexOf(at);
  return place < 0 ? [text, ""] : [text.slice(0, place), text.slice(place + 1)];
}

/** Between the usual desktop and a program: the desktops that are installed. */
async function showChoices(): Promise<void> {
  const response = await request("choices");
  if (response === undefined) return askToLogIn();
  // The usual desktop and a program can be started without the list.
  if (!response.ok) return;
  const { desktops } = (await response.json()) as { desktops: { id: string; name: string }[] };
  for (const option of what.querySelectorAll('option[value^="desktop:"]')) option.remove();
  const options = desktops.map(({ id, name }) => new Option(name, `desktop:${id}`));
  what.options[0]?.after(...options);
  showFields();
}

function showFields(): void {
  programField.hidden = what.value !== "program";
  program.required = choice.open && !programField.hidden;
}

async function start(what?: string): Promise<void> {
  show(undefined, say("starting"));
  const response = await startInTurn(what);
  if (response === "stopped") return showDesktops("end");
  if (response === undefined) return askToLogIn();
  if (response.ok) return open(((await response.json()) as { name: string }).name);
  const reason = await response.text();
  await showDesktops("end");
  error.textContent = say("notStarted", reason);
}

/** The server gives up a place that nobody asks for in this time; until then a restart of it, or a
 * change of networks, costs none. */
const PLACE_KEPT_MS = 20_000;
const RETRY_MS = 1000;

/**
 * The answer once the desktop has started, or cannot. While the server is short of something, the
 * person reads how many wait before them; who stops asking loses their place.
 */
async function startInTurn(what?: string): Promise<Response | undefined | "stopped"> {
  const stop = new AbortController();
  stopWaiting.onclick = () => stop.abort();
  let known: number | undefined;
  let askedMs = performance.now();
  for (;;) {
    // Who knows their place is answered once that has changed, or after some seconds.
    const path = known === undefined ? "start?waits" : `start?waits=${known}`;
    let ahead: number;
    try {
      const response = await request(path, "POST", what, stop.signal);
      if (response?.status !== 202) return response;
      ({ ahead } = (await response.json()) as { ahead: number });
    } catch (reason) {
      if (stop.signal.aborted) return "stopped";
      if (known === undefined || performance.now() - askedMs > PLACE_KEPT_MS) throw reason;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      continue;
    }
    askedMs = performance.now();
    if (ahead === known) continue;
    known = ahead;
    show(undefined, say("waiting"), ahead === 0 ? say("isNext") : say("isBehind", ahead));
    stopWaiting.hidden = false;
    stopWaiting.disabled = false;
  }
}

async function end(desktop: Desktop): Promise<void> {
  if (!confirm(say("confirmEnd", titleOf(desktop)))) return;
  const path = deskPath(desktop.name);
  const response = await request(`${path}end`, "POST");
  if (response === undefined) return askToLogIn();
  forgetSecret(path);
  const reason = response.ok ? "" : await response.text();
  await showDesktops("end");
  error.textContent = reason;
}

/** Resolves to what went wrong, for the person; to undefined if they have to log in first. */
async function rename({ name }: Desktop, title: string): Promise<string | undefined> {
  try {
    const body = JSON.stringify({ title });
    const response = await request(`${deskPath(name)}rename`, "POST", body);
    if (response === undefined) {
      askToLogIn();
      return undefined;
    }
    return response.ok ? "" : await response.text();
  } catch (reason) {
    return say("unreachable", messageOf(reason));
  }
}

async function logOut(): Promise<void> {
  maySignIn = false;
  // First: without an answer of the server the device must not sign in either.
  await forgetDevice();
  await request("logout", "POST");
  forgetLogin();
  askToLogIn();
}

/** How long the server remembers a device. */
function offerToStay(seconds: number): void {
  stayField.hidden = !(seconds > 0);
  devices.reset(!stayField.hidden);
  if (stayField.hidden) return;
  const days = seconds >= 2 * 86_400;
  const unit = days ? "day" : "hour";
  const count = Math.max(1, Math.floor(seconds / (days ? 86_400 : 3600)));
  const language = document.documentElement.lang;
  const style = { style: "unit", unit, unitDisplay: "long" } as const;
  const time = new Intl.NumberFormat(language, style).format(count);
  find("stay-hint").textContent = say("stayHint", time);
}

/** What the administrator wants everybody to read before a login, and offers them. */
async function showBanner(): Promise<void> {
  const response = await fetch("banner", { cache: "no-store" }).catch(() => undefined);
  offerToStay(Number(response?.headers.get("thinc-remembers") ?? 0));
  const text = response?.ok ? await response.text() : "";
  banner.textContent = text;
  banner.hidden = text === "" || (loginForm.hidden && questions.hidden);
}

async function during(act: () => Promise<void>): Promise<void> {
  setBusy(true);
  try {
    await act();
  } catch (reason) {
    error.textContent = say("unreachable", messageOf(reason));
  } finally {
    setBusy(false);
  }
}

function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

const devices = new DeviceList({
  part: find<HTMLDetailsElement>("devices"),
  list: find<HTMLUListElement>("device-list"),
  request,
  loggedOut: () => askToLogIn(),
  during,
  forgotten: forgetDevice,
});
loginForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void send({ user: user.value.trim(), password: password.value });
});
questions.addEventListener("submit", (event) => {
  event.preventDefault();
  const answers = [...asked.querySelectorAll("input")].map((input) => input.value);
  void send({ attempt, answers });
});
startForm.addEventListener("submit", (event) => {
  event.preventDefault();
  void during(() => start(chosen()));
});
choice.addEventListener("toggle", () => {
  showFields();
  if (choice.open) void during(showChoices);
});
what.addEventListener("change", showFields);
find("logout").addEventListener("click", () => void during(logOut));
// A browser shows the page as it was left when the person goes back to it.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.replace(homePath());
});
translatePage();
void showBanner();
void during(() => showDesktops("load"));
