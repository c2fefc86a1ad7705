// The page's menu: hidden until the user opens it, so that it covers no pixel of the session.
// Beside the path: a mouse at the top edge, a tap on the handle, or Ctrl+Alt+M opens it; an entry
// opens its part of it, and only one part is open.
// Knows the menu's elements and the pointer's position; main.ts knows what its buttons do.

/** It is shown for this time when a session opens, so that users know it. */
const HINT_MS = 2_500;
/** The pointer must rest this long at the middle of the top edge to open it. */
const DWELL_MS = 400;
/** CSS pixels: the strip that is the middle of the top edge. */
const STRIP = { width: 160, height: 2 };

export interface MenuOptions {
  menu: HTMLElement;
  handle: HTMLButtonElement;
  /** The session has the keyboard again. */
  left(): void;
}

/** Keys that go from one control to another, and how far; `Infinity`: to the last. */
const STEPS: Readonly<Record<string, number>> = {
  ArrowDown: 1,
  ArrowRight: 1,
  ArrowUp: -1,
  ArrowLeft: -1,
  Home: -Infinity,
  End: Infinity,
};

/** Controls that have a meaning of their own for these keys. */
const TAKES_KEYS = 'select, input:not([type="checkbox"])';

function partOf(entry: HTMLElement): HTMLElement {
  return document.getElementById(entry.getAttribute("aria-controls") ?? "") as HTMLElement;
}

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("select, input, label") !== null;
}

export class Menu {
  private dwellTimer: ReturnType<typeof setTimeout> | undefined;
  private hinted = false;
  /** It was used by a pointer last, and not by keyboard. */
  private isPointed = false;

  constructor(private readonly options: MenuOptions) {
    const { menu, handle } = options;
    menu.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.closeUnlessUsed();
    });
    // A click leaves the keyboard focus with the session; only keyboard users have it in the menu.
    for (const type of ["pointerdown", "mousedown"] as const) {
      menu.addEventListener(type, (event) => {
        // A list would not open, and a field would not get the keyboard.
        if (!isField(event.target)) event.preventDefault();
        this.isPointed = true;
      });
    }
    // In a form the user goes on to the next field; by keyboard, to the next choice or control.
    menu.addEventListener("change", ({ target }) => {
      const isInForm = target instanceof Element && target.closest("form") !== null;
      if (this.isPointed && !isInForm) options.left();
    });
    menu.addEventListener("keydown", (event) => {
      this.isPointed = false;
      if (event.key === "Escape") this.leave();
      else this.step(event);
    });
    menu.addEventListener("focusout", (event) => {
      // A list that is written again removes what has the focus, and gives it to what follows.
      if (!(event.relatedTarget instanceof Node && menu.contains(event.relatedTarget)))
        queueMicrotask(() => this.closeUnlessUsed());
    });
    handle.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
    for (const entry of this.entries) entry.addEventListener("click", () => this.openPart(entry));
    this.show();
  }

  get isOpen(): boolean {
    return this.options.menu.classList.contains("open");
  }

  /** Shows the handle, for devices without a mouse. */
  useHandle(): void {
    this.options.menu.classList.add("handle");
  }

  /** Shows the menu once, with the first picture. */
  hint(): void {
    if (this.hinted) return;
    this.hinted = true;
    if (this.options.menu.classList.contains("handle")) return; // the handle is always visible
    this.open();
    setTimeout(() => this.closeUnlessUsed(), HINT_MS);
  }

  open(): void {
    this.options.menu.classList.add("open");
    this.show();
  }

  close(): void {
    const hadFocus = this.focused;
    this.options.menu.classList.remove("open");
    // The next time it covers little again.
    this.closeParts();
    this.show();
    if (hadFocus) this.options.left();
  }

  /** Opens the menu for the keyboard, or leaves it. */
  toggleByKeyboard(): void {
    if (this.isOpen && this.focused) return this.leave();
    this.open();
    this.controls[0]?.focus();
  }

  /** In CSS pixels; undefined when the pointer has left the stage. */
  pointerAt(x: number | undefined, y: number | undefined): void {
    const near =
      x !== undefined &&
      y !== undefined &&
      y < STRIP.height &&
      Math.abs(x - innerWidth / 2) < STRIP.width / 2;
    if (!near) {
      clearTimeout(this.dwellTimer);
      this.dwellTimer = undefined;
      if (y !== undefined && y > this.options.menu.offsetHeight) this.closeUnlessUsed();
    } else {
      this.dwellTimer ??= setTimeout(() => this.open(), DWELL_MS);
    }
  }

  /** The user pressed the session's picture. */
  elsewhere(): void {
    if (!this.focused) this.close();
  }

  /** Somebody uses it by keyboard. */
  get focused(): boolean {
    return this.options.menu.contains(document.activeElement);
  }

  /** Buttons that open a part of the menu. */
  private get entries(): NodeListOf<HTMLElement> {
    return this.options.menu.querySelectorAll("[aria-controls]:not(.handles *)");
  }

  /** What can have the focus now, in order. */
  private get controls(): HTMLElement[] {
    const found = this.options.menu.querySelectorAll<HTMLElement>(
      ":is(button, select, input):enabled:not(.handles *)",
    );
    return [...found].filter((control) => control.getClientRects().length > 0);
  }

  private step(event: KeyboardEvent): void {
    const steps = STEPS[event.key];
    const { target } = event;
    if (steps === undefined || !(target instanceof HTMLElement) || target.matches(TAKES_KEYS))
      return;
    event.preventDefault();
    const { controls } = this;
    const at = controls.indexOf(target) + steps;
    controls[Math.min(Math.max(at, 0), controls.length - 1)]?.focus();
  }

  /** Opens the part of this entry in place of another's, or closes it. */
  private openPart(entry: HTMLElement): void {
    const opens = entry.getAttribute("aria-expanded") === "false";
    this.closeParts();
    if (!opens) return;
    entry.setAttribute("aria-expanded", "true");
    const part = partOf(entry);
    part.hidden = false;
    // A phone's menu scrolls.
    part.scrollIntoView({ block: "nearest" });
  }

  private closeParts(): void {
    for (const entry of this.entries) {
      const part = partOf(entry);
      // What is hidden has no focus; the entry is next to it.
      if (this.isOpen && part.contains(document.activeElement)) entry.focus();
      entry.setAttribute("aria-expanded", "false");
      part.hidden = true;
    }
  }

  private closeUnlessUsed(): void {
    if (!this.options.menu.matches(":hover") && !this.focused) this.close();
  }

  private leave(): void {
    this.close();
    this.options.left();
  }

  private show(): void {
    this.options.handle.setAttribute("aria-expanded", String(this.isOpen));
  }
}
