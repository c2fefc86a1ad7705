// A line of words at the bottom of the page that goes away by itself.
// Beside the path: main.ts and what it starts say things here that a person should know and need not answer.
// Knows words and how long they are read.

/** Long enough for two lines to be read. */
const SHOWN_MS = 6_000;

export class Notice {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly element: HTMLElement) {}

  /** Takes the place of what was said before. */
  say(words: string): void {
    clearTimeout(this.timer);
    this.element.textContent = words;
    this.element.hidden = false;
    this.timer = setTimeout(() => (this.element.hidden = true), SHOWN_MS);
  }
}
