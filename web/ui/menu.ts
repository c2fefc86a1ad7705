// The page's menu: hidden until the user opens it, so that it covers no pixel of the session.
// Beside the path: a mouse at the top edge, a tap on the handle, or Ctrl+Alt+M opens it.
// Knows the menu's element and the pointer's position; main.ts knows what its buttons do.

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

function isField(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("select, input, label") !== null;
}

export class Menu {
  private dwellTimer: ReturnType<typeof setTimeout> | undefined;
  private hinted = false;

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
      });
    }
    // In a form the user goes on to the next field.
    menu.addEventListener("change", (event) => {
      if (event.target instanceof Element && event.target.closest("form") === null) options.left();
    });
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
    });
    menu.addEventListener("focusout", (event) => {
      if (!(event.relatedTarget instanceof Node && menu.contains(event.relatedTarget)))
        this.closeUnlessUsed();
    });
    handle.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
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
    this.options.menu.classList.remove("open");
    this.show();
  }

  /** Opens the menu for the keyboard, or leaves it. */
  toggleByKeyboard(): void {
    if (this.isOpen && this.focused) return this.leave();
    this.open();
    const buttons = [...this.options.menu.querySelectorAll<HTMLElement>("button:not(.handles *)")];
    buttons.find((button) => button.getClientRects().length > 0)?.focus();
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
