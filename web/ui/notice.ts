// A message at the bottom of the page that disappears by itself.
// Beside the path: from main.ts and its parts, for what a user should know and need not answer.
// Knows texts and how long they are shown.

/** Enough to read two lines. */
const SHOWN_MS = 6_000;

export class Notice {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly element: HTMLElement) {}

  /** Replaces the message before. */
  show(words: string): void {
    clearTimeout(this.timer);
    this.element.textContent = words;
    this.element.hidden = false;
    this.timer = setTimeout(() => (this.element.hidden = true), SHOWN_MS);
  }
}
