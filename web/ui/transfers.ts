// The list of transfers of files and of what is printed: how far each is, and why one has failed.
// Path 13/13, beside the pixels: from files/files.ts and files/printing.ts, to the person.
// Knows elements and words; never files.

import type { FilesView } from "../files/files";
import type { Question, Questions } from "./questions";

/** Lengths that a bar has, about one for each of its pixels. */
const BAR_STEPS = 200;

export interface TransfersOptions {
  questions: Questions;
  panel: HTMLElement;
  /** About the session's files. */
  question: Omit<Question, "answer">;
  list: HTMLElement;
  /** The menu's button, where the session takes files. */
  give: HTMLButtonElement;
  /** The person's answer about files; called in their gesture. */
  answer(takes: boolean): void;
  /** A transfer has begun or ended. */
  changed(): void;
  /** The focus goes back to the session. */
  left(): void;
}

interface Row {
  element: HTMLElement;
  words: HTMLElement;
  bar: HTMLProgressElement;
  share: HTMLElement;
  button: HTMLButtonElement;
  pressed: () => void;
}

export class Transfers implements FilesView {
  private readonly rows = new Map<number, Row>();
  private readonly question: Question;

  constructor(private readonly options: TransfersOptions) {
    const { panel } = options;
    this.question = { ...options.question, answer: (takes) => options.answer(takes) };
    options.questions.add(this.question);
    // A click leaves the keyboard with the session.
    for (const type of ["pointerdown", "mousedown"] as const)
      panel.addEventListener(type, (event) => event.preventDefault());
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") options.left();
    });
  }

  ask(asked: { key: number; words: string } | undefined): void {
    this.options.questions.ask(this.question, asked && { ...asked, yes: "Save" });
  }

  show(key: number, words: string, share: number, cancel: () => void): void {
    const row = this.rows.get(key) ?? this.addRow(key, words);
    row.pressed = cancel;
    // Content comes in small chunks, of which most change nothing that is seen.
    const shown = Math.floor(share * BAR_STEPS) / BAR_STEPS;
    if (row.bar.value === shown && row.share.textContent !== "") return;
    row.bar.value = shown;
    row.share.textContent = `${Math.floor(share * 100)} %`;
  }

  fail(key: number, words: string): void {
    const row = this.rows.get(key) ?? this.addRow(key, "");
    row.words.textContent = words;
    row.bar.hidden = true;
    row.share.hidden = true;
    row.button.textContent = "Close";
    row.button.setAttribute("aria-label", `Close: ${words}`);
    row.pressed = () => this.remove(key);
    this.options.changed();
  }

  remove(key: number): void {
    const row = this.rows.get(key);
    if (row === undefined) return;
    const hadFocus = row.element.contains(document.activeElement);
    row.element.remove();
    this.rows.delete(key);
    this.showPanel();
    if (hadFocus) this.options.left();
  }

  setGives(gives: boolean): void {
    this.options.give.hidden = !gives;
  }

  private addRow(key: number, text: string): Row {
    const element = document.createElement("li");
    const words = document.createElement("span");
    // A failure is read to who does not see it.
    words.setAttribute("role", "status");
    words.textContent = text;
    const bar = document.createElement("progress");
    bar.setAttribute("aria-label", text);
    const share = document.createElement("span");
    share.className = "share";
    // The bar says it too.
    share.setAttribute("aria-hidden", "true");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Cancel";
    button.setAttribute("aria-label", `Cancel: ${text}`);
    const row: Row = { element, words, bar, share, button, pressed: () => undefined };
    button.addEventListener("click", () => row.pressed());
    element.append(words, bar, share, button);
    this.rows.set(key, row);
    this.options.list.append(element);
    this.showPanel();
    return row;
  }

  /** The panel is there as long as something is in it. */
  showPanel(): void {
    const { panel, list } = this.options;
    list.hidden = this.rows.size === 0;
    panel.hidden = [...panel.children].every((part) => (part as HTMLElement).hidden);
    this.options.changed();
  }
}
