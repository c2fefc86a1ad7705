// A message at the bottom of the page that disappears by itself, and one that does not.
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

interface AnnouncementOptions {
  element: HTMLElement;
  words: HTMLElement;
  button: HTMLButtonElement;
  /** The focus goes back to the session. */
  left(): void;
}

/** Most characters that are kept unread; a session sends few. */
const ANNOUNCEMENT_MAX = 4_000;

/** A message of the administrator that stays until the user has closed it. */
export class Announcement {
  constructor(private readonly options: AnnouncementOptions) {
    options.button.addEventListener("click", () => this.close());
    options.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close();
    });
  }

  /** Adds to what is not closed yet; keys go on to the session meanwhile. */
  show(text: string): void {
    const { element, words } = this.options;
    const before = element.hidden ? "" : `${words.textContent}\n`;
    words.textContent = `${before}${text}`.slice(-ANNOUNCEMENT_MAX);
    element.hidden = false;
  }

  private close(): void {
    const { element, words } = this.options;
    element.hidden = true;
    words.textContent = "";
    this.options.left();
  }
}
