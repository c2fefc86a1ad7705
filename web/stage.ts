// The stage: how large it is in pixels of the display, what of it an on-screen keyboard covers, and where the picture lies on it.
// Path 13/13: between main.ts and the page; view.ts does the sums.
// Knows elements and the browser's viewports; never the session.

import { isTouchOnly } from "./input";
import type { DisplaySize } from "./messages";
import { pixelsOnGlass, View, type Picture, type Position, type Size, type Wish } from "./view";

/** CSS pixels: less is a browser's bar that comes or goes, more is a keyboard on the glass. */
const KEYBOARD_PX_MIN = 120;
/** CSS pixels from an edge within which a drag moves a zoomed picture: half a finger. */
const PUSH_PX = 36;

/** The view has rested, and other pixels are worth asking for: a pinch goes through a hundred views, and stays at one. */
const REST_MS = 250;
/** CSS pixels: glass whose shorter side is no longer is a phone's. */
const PHONE_PX_MAX = 600;

/** How the session's screen and the window come together. */
export type Sizing =
  /** The screen becomes as large as the window. */
  | "follow"
  /** The screen keeps its size, and all of it is shown … */
  | "fit"
  /** … or it is shown pixel by pixel, and a part of it is seen. */
  | "actual";

const NOT_FOLLOWED: DisplaySize = { width: 0, height: 0, scale: 0 };
/** All of the screen, as if nothing had ever been asked for. */
const ALL: Wish = { size: { width: 0, height: 0 }, part: { x: 0, y: 0, width: 0, height: 0 } };

export interface StageOptions {
  stage: HTMLElement;
  /** Lies at the lower edge of what is seen, while it is shown. */
  row: HTMLElement;
  /** Elements that lie where the picture lies. */
  layers: HTMLElement[];
  /** The session's screen is to become this; 0 × 0: it may keep its size. */
  resized(display: DisplaySize): void;
  /** This is what the session is to send. */
  wished(wish: Wish): void;
  /** Pixels of the display for one of the session. */
  scaled(scale: number): void;
  /** The keyboard on the glass that was there has gone. */
  keyboardGone(): void;
}

export class Stage {
  readonly view = new View();
  /** Pixels of the display. */
  private size: Size = { width: 0, height: 0 };
  /** Pixels of the display for one of the session. */
  private unit = 1;
  private keyboard: "none" | "wanted" | "seen" = "none";
  private sizing: Sizing;
  /** What is on the canvas, and the session's screen. */
  private picture: Picture = { size: { width: 0, height: 0 }, part: ALL.part };
  private screen: Size = { width: 0, height: 0 };
  /** What was last asked for; nothing, until then. */
  private asked: Wish = ALL;
  private restTimer: ReturnType<typeof setTimeout> | undefined;
  /** Where the pointer last was, in the session's pixels: that place stays in sight. */
  private pointer: Position | undefined;

  constructor(private readonly options: StageOptions, sizing: Sizing | undefined) {
    // A phone comes to look at a desktop that is in use elsewhere, and would squeeze what is open there.
    this.sizing = sizing ?? (isTouchOnly() && Math.min(screen.width, screen.height) <= PHONE_PX_MAX ? "fit" : "follow");
    const box = options.stage.getBoundingClientRect();
    this.size = { width: Math.round(box.width * devicePixelRatio), height: Math.round(box.height * devicePixelRatio) };
    this.measure();
    const observer = new ResizeObserver((entries) => {
      const entry = entries[0];
      if (entry === undefined) return;
      const { width, height } = entry.contentRect;
      const near = { width: width * devicePixelRatio, height: height * devicePixelRatio };
      const exact = entry.devicePixelContentBoxSize?.[0];
      // It knows how the browser rounds; a browser that plays another device's ratio knows nothing of it, and is far off.
      if (exact && Math.abs(exact.inlineSize - near.width) < 2) this.resize({ width: exact.inlineSize, height: exact.blockSize });
      else this.resize({ width: Math.floor(near.width), height: Math.floor(near.height) });
    });
    try {
      // A change of the device pixel ratio alone is seen by this box only.
      observer.observe(options.stage, { box: "device-pixel-content-box" });
    } catch {
      observer.observe(options.stage);
    }
    for (const type of ["resize", "scroll"] as const) visualViewport?.addEventListener(type, () => this.measure());
  }

  /** What the session's screen is to become. */
  get wanted(): DisplaySize {
    if (this.sizing !== "follow") return NOT_FOLLOWED;
    const [width, height] = [Math.floor(this.size.width / this.unit), Math.floor(this.size.height / this.unit)];
    // On glass, pixels are as large as they have to be already.
    return { width, height, scale: isTouchOnly() ? 0 : Math.round(devicePixelRatio * 100) };
  }

  setSizing(sizing: Sizing): void {
    this.sizing = sizing;
    this.options.resized(this.wanted);
    this.view.zoomTo(sizing === "actual" ? "unit" : "whole");
    this.layOut();
  }

  get sizingNow(): Sizing {
    return this.sizing;
  }

  /** The canvas shows this now. */
  setPicture(picture: Picture, screen: Size): void {
    const resized = screen.width !== this.screen.width || screen.height !== this.screen.height;
    this.picture = picture;
    this.screen = screen;
    this.view.setScreen(screen);
    if (resized && this.sizing === "actual") this.view.zoomTo("unit");
    this.layOut();
    // A screen that keeps its size will not fit by itself after a while.
    if (resized && this.sizing !== "follow") this.ask();
  }

  /** The keyboard on the glass, and with it the row of keys, is to be there or not. */
  setKeyboard(wanted: boolean): void {
    this.keyboard = wanted ? "wanted" : "none";
    this.options.row.hidden = !wanted;
    this.measure();
  }

  get keyboardWanted(): boolean {
    return this.keyboard !== "none";
  }

  /** The session's pixel at a place of the page, in CSS pixels, where the pointer is now. */
  point(clientX: number, clientY: number): Position | undefined {
    const pixel = this.view.pixelAt(this.displayAt({ x: clientX, y: clientY }));
    if (pixel !== undefined) this.pointer = pixel;
    return pixel;
  }

  zoomAt(factor: number, place: Position): void {
    this.view.zoomAt(factor, this.displayAt(place));
    this.layOut();
  }

  panBy(right: number, down: number): void {
    this.view.panBy(right * devicePixelRatio, down * devicePixelRatio);
    this.layOut();
  }

  pushAt(place: Position): void {
    if (!this.view.zoomed) return;
    this.view.pushAt(this.displayAt(place), PUSH_PX * devicePixelRatio);
    this.layOut();
  }

  settle(place: Position): void {
    this.view.settle(this.displayAt(place));
    this.layOut();
  }

  private displayAt({ x, y }: Position): Position {
    const { left, top } = this.options.stage.getBoundingClientRect();
    return { x: (x - left) * devicePixelRatio, y: (y - top) * devicePixelRatio };
  }

  private resize(size: Size): void {
    // Some browsers make the page itself smaller for their keyboard; the session has no use for that.
    const forKeyboard = this.keyboard !== "none" && size.width === this.size.width && size.height < this.size.height;
    const same = size.width === this.size.width && size.height === this.size.height;
    if (!forKeyboard && !same) {
      this.size = size;
      this.unit = isTouchOnly() ? pixelsOnGlass(size, devicePixelRatio) : 1;
      const { wanted } = this;
      if (wanted.width > 0 && wanted.height > 0) this.options.resized(wanted);
      if (this.sizing === "actual") this.view.zoomTo("unit");
    }
    this.measure();
  }

  /** What is seen of the stage: a keyboard on the glass covers its lower part, and the row lies on the keyboard. */
  private measure(): void {
    const { stage, row, keyboardGone } = this.options;
    this.unit = isTouchOnly() ? pixelsOnGlass(this.size, devicePixelRatio) : 1;
    const seen = visualViewport;
    const full = this.size.height / devicePixelRatio;
    // Zoomed by the browser itself, what it says it shows is not what something covers.
    const plain = seen !== null && Math.abs(seen.scale - 1) < 0.01;
    const top = plain ? seen.offsetTop : 0;
    const bottom = plain ? Math.min(full, top + seen.height) : full;
    if (full - (bottom - top) > KEYBOARD_PX_MIN) {
      if (this.keyboard === "wanted") this.keyboard = "seen";
    } else if (this.keyboard === "seen") {
      this.keyboard = "none";
      keyboardGone();
      return; // which comes back here
    }
    stage.parentElement?.style.setProperty("--covered", `${full - bottom}px`);
    const rowHeight = row.hidden ? 0 : row.offsetHeight;
    const covered = this.keyboard !== "none";
    const ratio = devicePixelRatio;
    const clear = covered ? { top: top * ratio, bottom: (bottom - rowHeight) * ratio } : { top: 0, bottom: this.size.height };
    this.view.setStage(this.size, this.unit, clear);
    if (covered && this.pointer) this.view.reveal(this.pointer);
    this.layOut();
  }

  private layOut(): void {
    const { picture, view } = this;
    if (picture.size.width === 0 || view.shown.width === 0) return;
    const ratio = devicePixelRatio;
    const { x, y, width, height } = view.placeOf(picture);
    const perPixel = width / picture.size.width;
    const { size } = picture;
    for (const { style, classList } of this.options.layers) {
      style.width = `${size.width}px`;
      style.height = `${size.height}px`;
      // Places and lengths are cut to whole pixels of CSS or parts of them; here nothing is.
      style.transform = `translate(${x / ratio}px, ${y / ratio}px) scale(${width / size.width / ratio}, ${height / size.height / ratio})`;
      // Blending is what is wanted where pixels cannot all be equally large.
      classList.toggle("blended", !Number.isInteger(perPixel));
    }
    this.options.scaled(view.scale);
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => this.ask(), REST_MS);
  }

  /** Asks for what is seen, where that is not what is there. */
  private ask(): void {
    clearTimeout(this.restTimer);
    let wish = this.view.wishFor(this.picture);
    if (wish === undefined) return;
    // Whoever lets the session follow the window asks for nothing that the session would have to scale.
    const { size, part } = wish;
    const { width, height } = this.screen;
    if (this.sizing === "follow" && part.width === width && part.height === height && size.width === width && size.height === height) wish = ALL;
    if (JSON.stringify(wish) === JSON.stringify(this.asked)) return;
    this.asked = wish;
    this.options.wished(wish);
  }
}
