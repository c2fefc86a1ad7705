// The state of the connection in words: a card before the first picture and at the end, else one
// small line.
// Path 13/13: from engine.ts through main.ts, to the user; never more than a line over the last
// picture.
// Knows states and texts; never sockets.

import type { ConnectionState, Opening, ShownElsewhere } from "../engine/messages";
import { language, say } from "./words";

/** A shorter delay is over before it is read. */
const WAIT_MS_SHOWN_MIN = 1_500;
/** After this many attempts, about ten seconds, the network is probably not the only cause. */
const FAILURES_HINT_MIN = 8;

export interface StatusOptions {
  element: HTMLElement;
  title: HTMLElement;
  words: HTMLElement;
  /** Repeats the retry delay for sighted users: it changes every second. */
  countdown: HTMLElement;
  button: HTMLButtonElement;
  /** A second choice. */
  other: HTMLButtonElement;
  retry(opening?: Opening): void;
}

export class StatusCard {
  private timer: ReturnType<typeof setInterval> | undefined;
  private buffering = true;
  /** Whether the text is about buffered keys. */
  private aboutKeys = false;
  /** What the button's attempt does. */
  private opening: Opening | undefined;

  constructor(private readonly options: StatusOptions) {
    options.button.addEventListener("click", () => options.retry(this.opening));
    options.other.addEventListener("click", () => options.retry("joins"));
  }

  /** Whether keys typed without a connection will be sent. */
  setBuffering(buffering: boolean): void {
    this.buffering = buffering;
    if (this.aboutKeys) this.options.words.textContent = this.bufferingNote();
  }

  /** `pictured`: there is a picture, which stays visible. */
  show(state: ConnectionState, pictured: boolean): void {
    const { element, button, other, countdown } = this.options;
    clearInterval(this.timer);
    countdown.textContent = "";
    button.hidden = true;
    other.hidden = true;
    this.opening = undefined;
    element.lang = "en";
    element.hidden = state.name === "connected";
    element.className = !pictured ? "card" : state.name === "closed" ? "card aside" : "pill";
    this.aboutKeys =
      pictured &&
      (state.name === "connecting" ||
        (state.name === "waiting" && state.failures < FAILURES_HINT_MIN));
    this.options.words.classList.toggle("keys", this.aboutKeys);
    switch (state.name) {
      case "connected":
        break;
      case "connecting":
        this.setText(
          state.attempt === 1 && !pictured ? "Connecting…" : "Reconnecting…",
          pictured ? this.bufferingNote() : "",
        );
        break;
      case "unresponsive":
        this.setText("No answer", pictured ? "What you type may arrive late." : "");
        break;
      case "waiting":
        this.setText("Connection dropped", this.retryNote(state.failures, pictured));
        if (state.retryMs >= WAIT_MS_SHOWN_MIN) this.count(state.retryMs);
        break;
      case "closed":
        this.setText(state.title, state.reason);
        button.textContent = "Connect again";
        button.hidden = !state.canRetry;
        if (state.shown !== undefined) this.showElsewhere(state.shown);
        button.focus();
        break;
    }
  }

  /** In the person's language, as the list of their desktops is. */
  private showElsewhere(shown: ShownElsewhere): void {
    const { element, button, other } = this.options;
    element.lang = language;
    this.opening = "takes over";
    if (shown === "opened") {
      this.setText(say("openedElsewhere"), say("takenOver"));
      button.textContent = say("takeBack");
      return;
    }
    this.setText(say("shownElsewhere"), say("takeOrJoin"));
    button.textContent = say("takeOver");
    other.textContent = say("join");
    other.hidden = false;
  }

  private retryNote(failures: number, pictured: boolean): string {
    if (failures >= FAILURES_HINT_MIN) return "Is its machine on, and the session running?";
    return pictured ? this.bufferingNote() : "The session continues. Reconnecting…";
  }

  /** What happens to keys typed meanwhile. */
  private bufferingNote(): string {
    return this.buffering ? "What you type is sent when it is back." : "What you type is not sent.";
  }

  private setText(title: string, words: string): void {
    this.options.title.textContent = title;
    this.options.words.textContent = words;
  }

  private count(retryMs: number): void {
    const { element, button, countdown } = this.options;
    element.classList.add("counting");
    const untilMs = performance.now() + retryMs;
    const tick = () => {
      const seconds = Math.ceil((untilMs - performance.now()) / 1000);
      countdown.textContent = seconds > 0 ? `Retry in ${seconds} s` : "Trying…";
    };
    tick();
    this.timer = setInterval(tick, 1_000);
    button.textContent = "Now";
    button.hidden = false;
  }
}
