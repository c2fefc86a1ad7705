// The page's menu: hidden, so that no pixel of the session is covered, until somebody asks for it.
// Beside the path: a mouse that rests at the top edge, a finger on the handle, or Ctrl+Alt+M opens it.
// Knows the menu's element and where the pointer is; what its buttons do, main.ts knows.

/** It shows itself this long when a session opens, so that people know there is one. */
const HINT_MS = 2_500;
/** The pointer rests this long at the middle of the top edge before it opens: passing by is not asking. */
const DWELL_MS = 400;
/** CSS pixels: the strip that counts as the middle of the top edge. */
const STRIP = { width: 160, height: 2 };

export interface MenuOptions {
  menu: HTMLElement;
  handle: HTMLButtonElement;
  /** The keyboard goes back to the session. */
  left(): void;
}

export class Menu {
  private dwellTimer: ReturnType<typeof setTimeout> | undefined;
  private hinted = false;

  constructor(private readonly options: MenuOptions) {
    const { menu, handle } = options;
    menu.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.closeUnlessUsed();
    });
    // A click leaves the keyboard with the session; only those who come by the keyboard have it here.
    for (const type of ["pointerdown", "mousedown"] as const) {
      menu.addEventListener(type, (event) => {
        // A list would not open.
        if (!(event.target instanceof HTMLSelectElement)) event.preventDefault();
      });
    }
    menu.addEventListener("change", () => options.left());
    menu.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leave();
    });
    menu.addEventListener("focusout", (event) => {
      if (!(event.relatedTarget instanceof Node && menu.contains(event.relatedTarget))) this.closeUnlessUsed();
    });
    handle.addEventListener("click", () => (this.isOpen ? this.close() : this.open()));
    this.show();
  }

  get isOpen(): boolean {
    return this.options.menu.classList.contains("open");
  }

  /** Where there is no mouse to rest at the edge there is a handle. */
  useHandle(): void {
    this.options.menu.classList.add("handle");
  }

  /** Once, when the first picture is there. */
  hint(): void {
    if (this.hinted) return;
    this.hinted = true;
    if (this.options.menu.classList.contains("handle")) return; // which is in sight anyway
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

  /** Opened by the keyboard, and left by it. */
  toggleByKeyboard(): void {
    if (this.isOpen && this.focused) return this.leave();
    this.open();
    const buttons = [...this.options.menu.querySelectorAll<HTMLElement>("button:not(.handles *)")];
    buttons.find((button) => button.getClientRects().length > 0)?.focus();
  }

  /** In CSS pixels; undefined when the pointer left the stage. */
  pointerAt(x: number | undefined, y: number | undefined): void {
    const near = x !== undefined && y !== undefined && y < STRIP.height && Math.abs(x - innerWidth / 2) < STRIP.width / 2;
    if (!near) {
      clearTimeout(this.dwellTimer);
      this.dwellTimer = undefined;
      if (y !== undefined && y > this.options.menu.offsetHeight) this.closeUnlessUsed();
    } else {
      this.dwellTimer ??= setTimeout(() => this.open(), DWELL_MS);
    }
  }

  /** Somebody touched the session. */
  elsewhere(): void {
    if (!this.focused) this.close();
  }

  private get focused(): boolean {
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
