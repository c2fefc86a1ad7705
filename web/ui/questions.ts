// Questions of the session to the person, one at a time in the order in which they came up.
// Path 13/13, beside the pixels: from transfers.ts, files/printing.ts and microphone.ts, to the
// person and back.
// Knows elements, keys and time; never what a question is about.

/**
 * An answer sooner than this was meant for the session: the question has just appeared where the
 * person clicks or types.
 */
const ANSWER_MS_MIN = 500;

/** What asks. Several may share elements: one question is shown at a time. */
export interface Question {
  element: HTMLElement;
  /** Has the role of an alert. */
  words: HTMLElement;
  yes: HTMLButtonElement;
  no: HTMLButtonElement;
  /** The person's answer; called in their gesture. */
  answer(agrees: boolean): void;
  /** It was shown or hidden. */
  changed?(): void;
}

export interface Asked {
  /** Another number is another question. */
  key: number;
  words: string;
  /** What the button that agrees says, where it does not always say the same. */
  yes?: string;
}

interface Waiting extends Asked {
  question: Question;
}

export class Questions {
  /** The first one is shown. */
  private readonly asked: Waiting[] = [];
  private shown: Waiting | undefined;
  private shownAtMs = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `left`: the focus goes back to the session. */
  constructor(private readonly left: () => void) {}

  add(question: Question): void {
    question.yes.addEventListener("click", () => this.answer(question, true));
    question.no.addEventListener("click", () => this.answer(question, false));
  }

  /** Asks this, in place of what the same asked before; undefined: nothing any more. */
  ask(question: Question, asked: Asked | undefined): void {
    const at = this.asked.findIndex((waiting) => waiting.question === question);
    if (asked?.key === this.asked[at]?.key) return;
    if (at >= 0) this.asked.splice(at, 1);
    // Another question waits for its turn.
    if (asked !== undefined) this.asked.push({ question, ...asked });
    this.show();
  }

  isAsked(question: Question): boolean {
    return this.asked.some((asked) => asked.question === question);
  }

  /** What these keys answer, with Ctrl and Alt; undefined while nothing is asked. */
  shortcut(code: string): (() => void) | undefined {
    const question = this.shown?.question;
    if (question === undefined) return undefined;
    if (code === "KeyY") return () => this.answer(question, true);
    if (code === "KeyX") return () => this.answer(question, false);
    return undefined;
  }

  answer(question: Question, agrees: boolean): void {
    if (this.shown?.question !== question) return;
    if (performance.now() - this.shownAtMs >= ANSWER_MS_MIN) question.answer(agrees);
  }

  private show(): void {
    const [before, now] = [this.shown, this.asked[0]];
    if (before === now) return;
    this.shown = now;
    clearTimeout(this.timer);
    const hadFocus = before?.question.element.contains(document.activeElement) ?? false;
    if (before !== undefined) {
      before.question.element.hidden = true;
      before.question.words.textContent = "";
    }
    if (now !== undefined) {
      const { element, words, yes, no } = now.question;
      this.shownAtMs = performance.now();
      for (const button of [yes, no]) button.disabled = true;
      this.timer = setTimeout(() => {
        for (const button of [yes, no]) button.disabled = false;
        // Who answered one question by keyboard goes on with the next.
        if (hadFocus) no.focus();
      }, ANSWER_MS_MIN);
      if (now.yes !== undefined) yes.textContent = now.yes;
      element.hidden = false;
      words.textContent = now.words;
    } else if (hadFocus) {
      this.left();
    }
    before?.question.changed?.();
    now?.question.changed?.();
  }
}
