// The stage: its size in display pixels, the part that a touch keyboard covers, and the picture's
// place on it.
// Path 13/13: between main.ts and the page; view.ts computes.
// Knows elements and the browser's viewports; never the session.

import type { DisplaySize } from "../engine/messages";
import { isTouchOnly } from "../input/input";
import {
  type Picture,
  type Position,
  pixelsOnTouchScreen,
  type Size,
  View,
  type ViewRequest,
} from "./view";

/** CSS pixels: less is a browser's toolbar, more is a touch keyboard. */
const KEYBOARD_PX_MIN = 120;
/** CSS pixels from an edge within which a drag moves a zoomed picture: half a finger. */
const PUSH_PX = 36;

/**
 * The view must rest this long before other pixels are requested: a pinch passes through a hundred
 * views.
 */
const REST_MS = 250;
/** CSS pixels: a touch screen whose shorter side is no longer is a phone's. */
const PHONE_PX_MAX = 600;

/** How the session's screen and the window fit together. */
export type Sizing =
  /** The screen takes the window's size. */
  | "follow"
  /** The screen keeps its size, and all of it is shown. */
  | "fit"
  /** The screen keeps its size, and a part of it is shown 1:1. */
  | "actual";

const NOT_FOLLOWED: DisplaySize = { width: 0, height: 0, scale: 0 };
/** All of the screen, as before any request. */
const ALL: ViewRequest = {
  size: { width: 0, height: 0 },
  part: { x: 0, y: 0, width: 0, height: 0 },
};

export interface StageOptions {
  stage: HTMLElement;
  /** At the lower edge of the visible part, while it is shown. */
  row: HTMLElement;
  /** Elements at the picture's place. */
  layers: HTMLElement[];
  /** The size that the session's screen is to have; 0 × 0: any. */
  resized(display: DisplaySize): void;
  /** The session is to send this. */
  viewRequested(request: ViewRequest): void;
  /** Display pixels per session pixel. */
  scaled(scale: number): void;
  /** The picture has another place or scale. */
  laidOut(): void;
  /** The touch keyboard was hidden. */
  keyboardGone(): void;
}

export class Stage {
  readonly view = new View();
  /** In display pixels. */
  private size: Size = { width: 0, height: 0 };
  /** Display pixels per session pixel, unzoomed. */
  private unit = 1;
  private keyboard: "none" | "wanted" | "shown" = "none";
  private sizing: Sizing;
  /** What is on the canvas, and the size of the session's screen. */
  private picture: Picture = { size: { width: 0, height: 0 }, part: ALL.part };
  private screen: Size = { width: 0, height: 0 };
  /** The last request; initially none. */
  private requested: ViewRequest = ALL;
  private restTimer: ReturnType<typeof setTimeout> | undefined;
  /** The last pointer position in session pixels, which must stay visible. */
  private pointer: Position | undefined;

  constructor(
    private readonly options: StageOptions,
    sizing: Sizing | undefined,
  ) {
    // A phone's user looks at a desktop that is used elsewhere; following the phone would shrink
    // its windows.
    this.sizing =
      sizing ??
      (isTouchOnly() && Math.min(screen.width, screen.height) <= PHONE_PX_MAX ? "fit" : "follow");
    const box = options.stage.getBoundingClientRect();
    this.size = {
      width: Math.round(box.width * devicePixelRatio),
      height: Math.round(box.height * devicePixelRatio),
    };
    this.measure();
    const observer = new ResizeObserver((entries) => {
      const entry = entries[0];
      if (entry === undefined) return;
      const { width, height } = entry.contentRect;
      const near = { width: width * devicePixelRatio, height: height * devicePixelRatio };
      const exact = entry.devicePixelContentBoxSize?.[0];
      // It includes the browser's rounding; a browser that emulates another device's ratio ignores
      // it here, and is far off.
      if (exact && Math.abs(exact.inlineSize - near.width) < 2)
        this.resize({ width: exact.inlineSize, height: exact.blockSize });
      else this.resize({ width: Math.floor(near.width), height: Math.floor(near.height) });
    });
    try {
      // Only this box reports a change of the device pixel ratio alone.
      observer.observe(options.stage, { box: "device-pixel-content-box" });
    } catch {
      observer.observe(options.stage);
    }
    for (const type of ["resize", "scroll"] as const)
      visualViewport?.addEventListener(type, () => this.measure());
  }

  /** The size that the session's screen is to have. */
  get wanted(): DisplaySize {
    if (this.sizing !== "follow") return NOT_FOLLOWED;
    const [width, height] = [
      Math.floor(this.size.width / this.unit),
      Math.floor(this.size.height / this.unit),
    ];
    // On touch screens `unit` already makes the pixels large enough.
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

  /** The canvas shows this picture now. */
  setPicture(picture: Picture, screen: Size): void {
    const resized = screen.width !== this.screen.width || screen.height !== this.screen.height;
    this.picture = picture;
    this.screen = screen;
    this.view.setScreen(screen);
    if (resized && this.sizing === "actual") this.view.zoomTo("unit");
    this.layOut();
    // A screen that does not follow the window never fits by itself.
    if (resized && this.sizing !== "follow") this.requestView();
  }

  /** Shows or hides the touch keyboard, and with it the row of keys. */
  setKeyboard(wanted: boolean): void {
    this.keyboard = wanted ? "wanted" : "none";
    this.options.row.hidden = !wanted;
    this.measure();
  }

  get keyboardWanted(): boolean {
    return this.keyboard !== "none";
  }

  /** The session's pixel at the pointer's place on the page, in CSS pixels. */
  point(clientX: number, clientY: number): Position | undefined {
    const pixel = this.view.pixelAt(this.displayAt({ x: clientX, y: clientY }));
    if (pixel !== undefined) this.pointer = pixel;
    return pixel;
  }

  /** The place of a pen in the session's pixels, with fractions. */
  placeAt(clientX: number, clientY: number): Position | undefined {
    this.point(clientX, clientY);
    return this.view.insideAt(this.displayAt({ x: clientX, y: clientY }));
  }

  /** The session's pixel at a place on the page, in CSS pixels; undefined beside the picture. */
  pixelWithin(clientX: number, clientY: number): Position | undefined {
    const place = this.displayAt({ x: clientX, y: clientY });
    return this.view.covers(place) ? this.view.pixelAt(place) : undefined;
  }

  /** Where a pixel of the session's screen is on the stage, in CSS pixels. */
  placeOf({ x, y }: Position): Position {
    const { screen, view } = this;
    const whole = view.placeOf({ size: screen, part: { x: 0, y: 0, ...screen } });
    const ratio = devicePixelRatio;
    return { x: (whole.x + x * view.scale) / ratio, y: (whole.y + y * view.scale) / ratio };
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
    // Some browsers shrink the page for their keyboard; the session must not follow that.
    const forKeyboard =
      this.keyboard !== "none" && size.width === this.size.width && size.height < this.size.height;
    const same = size.width === this.size.width && size.height === this.size.height;
    if (!forKeyboard && !same) {
      this.size = size;
      this.unit = isTouchOnly() ? pixelsOnTouchScreen(size, devicePixelRatio) : 1;
      const { wanted } = this;
      if (wanted.width > 0 && wanted.height > 0) this.options.resized(wanted);
      if (this.sizing === "actual") this.view.zoomTo("unit");
    }
    this.measure();
  }

  /**
   * Computes the visible part of the stage: a touch keyboard covers its lower part, and the row is
   * above the keyboard.
   */
  private measure(): void {
    const { stage, row, keyboardGone } = this.options;
    this.unit = isTouchOnly() ? pixelsOnTouchScreen(this.size, devicePixelRatio) : 1;
    const viewport = visualViewport;
    const full = this.size.height / devicePixelRatio;
    // While the browser itself zooms, its viewport does not tell what is covered.
    const plain = viewport !== null && Math.abs(viewport.scale - 1) < 0.01;
    const top = plain ? viewport.offsetTop : 0;
    const bottom = plain ? Math.min(full, top + viewport.height) : full;
    if (full - (bottom - top) > KEYBOARD_PX_MIN) {
      if (this.keyboard === "wanted") this.keyboard = "shown";
    } else if (this.keyboard === "shown") {
      this.keyboard = "none";
      keyboardGone();
      return; // it calls this method again
    }
    stage.parentElement?.style.setProperty("--covered", `${full - bottom}px`);
    const rowHeight = row.hidden ? 0 : row.offsetHeight;
    const covered = this.keyboard !== "none";
    const ratio = devicePixelRatio;
    const clear = covered
      ? { top: top * ratio, bottom: (bottom - rowHeight) * ratio }
      : { top: 0, bottom: this.size.height };
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
    const [across, down] = [width / size.width / ratio, height / size.height / ratio];
    for (const { style, classList } of this.options.layers) {
      style.width = `${size.width}px`;
      style.height = `${size.height}px`;
      // Browsers round positions and lengths, but not transforms.
      style.transform = `translate(${x / ratio}px, ${y / ratio}px) scale(${across}, ${down})`;
      // Pixels of unequal size need blending.
      classList.toggle("blended", !Number.isInteger(perPixel));
    }
    this.options.scaled(view.scale);
    this.options.laidOut();
    clearTimeout(this.restTimer);
    this.restTimer = setTimeout(() => this.requestView(), REST_MS);
  }

  /** Requests what is visible, if the picture does not have it. */
  private requestView(): void {
    clearTimeout(this.restTimer);
    let request = this.view.requestFor(this.picture);
    if (request === undefined) return;
    // A session that follows the window should not scale anything.
    const { size, part } = request;
    const { width, height } = this.screen;
    if (
      this.sizing === "follow" &&
      part.width === width &&
      part.height === height &&
      size.width === width &&
      size.height === height
    )
      request = ALL;
    if (JSON.stringify(request) === JSON.stringify(this.requested)) return;
    this.requested = request;
    this.options.viewRequested(request);
  }
}
