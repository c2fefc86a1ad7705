// How the connection stands, in words: a card before the first picture and at the end, a small line while a picture is there.
// Path 13/13: from engine.ts through main.ts, to the person; never over the last picture more than a line.
// Knows states and words; never sockets.

import type { ConnectionState } from "./messages";

/** A wait shorter than this is over before it is read. */
const WAIT_MS_WORTH_SAYING = 1_500;
/** After so many attempts, about ten seconds, it is hardly the way alone. */
const FAILURES_WORTH_ASKING = 6;

export interface StatesOptions {
  element: HTMLElement;
  title: HTMLElement;
  words: HTMLElement;
  /** Says again what `words` says, for eyes alone: it changes every second. */
  countdown: HTMLElement;
  button: HTMLButtonElement;
  retry(): void;
}

export class States {
  private timer: ReturnType<typeof setInterval> | undefined;
  private keeps = true;
  /** The words speak of what is typed. */
  private ofKeys = false;

  constructor(private readonly options: StatesOptions) {
    options.button.addEventListener("click", () => options.retry());
  }

  /** What is typed without a connection will be sent when it is back, or will not. */
  setKeeps(keeps: boolean): void {
    this.keeps = keeps;
    if (this.ofKeys) this.options.words.textContent = this.fate();
  }

  /** `pictured`: there is a picture, which stays in sight. */
  show(state: ConnectionState, pictured: boolean): void {
    const { element, button, countdown } = this.options;
    clearInterval(this.timer);
    countdown.textContent = "";
    button.hidden = true;
    element.hidden = state.name === "connected";
    element.className = !pictured ? "card" : state.name === "closed" ? "card aside" : "pill";
    this.ofKeys = pictured && (state.name === "connecting" || (state.name === "waiting" && state.failures < FAILURES_WORTH_ASKING));
    this.options.words.classList.toggle("keys", this.ofKeys);
    switch (state.name) {
      case "connected":
        break;
      case "connecting":
        this.say(state.attempt === 1 && !pictured ? "Connecting…" : "Connecting again…", pictured ? this.fate() : "");
        break;
      case "silent":
        this.say("No answer", pictured ? "What you type may come late." : "");
        break;
      case "waiting":
        this.say("Connection dropped", this.wait(state.failures, pictured));
        if (state.retryMs >= WAIT_MS_WORTH_SAYING) this.count(state.retryMs);
        break;
      case "closed":
        this.say(state.title, state.reason);
        button.textContent = "Connect again";
        button.hidden = !state.again;
        button.focus();
        break;
    }
  }

  private wait(failures: number, pictured: boolean): string {
    if (failures >= FAILURES_WORTH_ASKING) return "Is its machine on, and the session running?";
    return pictured ? this.fate() : "The session goes on. Trying again…";
  }

  /** Of what is typed meanwhile. */
  private fate(): string {
    return this.keeps ? "What you type is sent when it is back." : "What you type is not sent.";
  }

  private say(title: string, words: string): void {
    this.options.title.textContent = title;
    this.options.words.textContent = words;
  }

  private count(retryMs: number): void {
    const { element, button, countdown } = this.options;
    element.classList.add("counting");
    const untilMs = performance.now() + retryMs;
    const tick = () => {
      const seconds = Math.ceil((untilMs - performance.now()) / 1000);
      countdown.textContent = seconds > 0 ? `Again in ${seconds} s` : "Trying…";
    };
    tick();
    this.timer = setInterval(tick, 1_000);
    button.textContent = "Now";
    button.hidden = false;
  }
}
