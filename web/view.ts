// Where the session's screen lies in the window, how large, and back from a place in the window to a pixel of the screen.
// Path 13/13 and back: between main.ts, which lays the canvas out, and the pointer's and fingers' positions.
// Knows sizes in pixels of the display; never the page, events or the session.

/** Largest zoom over the whole picture: a letter of 8 pixels fills a phone's width. */
const ZOOM_MAX = 8;
/** Fingers let go this near to a whole number of pixels meant it: there each pixel of the session is as large as the others. */
const SNAP = 0.08;
/** What is shown larger than whole by less than this is meant to be whole. */
const WHOLE = 1.06;
/** Steps of a finger at the very edge in which the picture moves by that margin. */
const PUSHES = 4;
/** More of the screen than is seen is asked for, so much of the stage at each side: a small move then shows what is there already. */
const MARGIN = 0.25;
/** A picture with so many times the pixels that are wanted is too large: less is asked for. */
const SPARE = 2;
/** Between the pointer's place and what covers the picture, in pixels of the display. */
const REVEAL_MARGIN = 48;
/**
 * Pixels of the session along the shorter side of a phone: what dialogs of desktop programs need at least. Fewer would be
 * larger letters of which half lie outside.
 */
const SHORT_SIDE_MIN = 480;

export interface Size {
  width: number;
  height: number;
}

export interface Position {
  x: number;
  y: number;
}

export interface Rect extends Position, Size {}

/** What the session is asked to send: a picture of this size, of this part of its screen. No size: as large as the part; no part: all. */
export interface Wish {
  size: Size;
  part: Rect;
}

/** What a picture shows, and how large it is in its own pixels. */
export interface Picture {
  size: Size;
  part: Rect;
}

/**
 * How many pixels of the display, across and down, one pixel of the session has on glass that fingers touch: desktop
 * programs draw for screens with a third of a phone's density, so as near to a CSS pixel as leaves room for dialogs.
 * A whole number, or pixels would blur.
 */
export function pixelsOnGlass(stage: Size, ratio: number): number {
  const roomFor = Math.floor(Math.min(stage.width, stage.height) / SHORT_SIDE_MIN);
  return Math.max(1, Math.min(Math.round(ratio), roomFor));
}

export class View {
  private screen: Size = { width: 0, height: 0 };
  private stage: Size = { width: 0, height: 0 };
  /** Pixels of the display for one of the session while nothing is zoomed and all fits. */
  private unit = 1;
  /** The part of the stage that nothing covers: an on-screen keyboard takes its lower half. */
  private clear = { top: 0, bottom: 0 };
  private zoom = 1;
  private left = 0;
  private top = 0;

  setScreen(screen: Size): void {
    this.screen = screen;
    this.confine();
  }

  setStage(stage: Size, unit: number, clear = { top: 0, bottom: stage.height }): void {
    this.stage = stage;
    this.unit = unit;
    this.clear = clear;
    this.confine();
  }

  /** Pixels of the display for one of the session. */
  get scale(): number {
    const scale = this.whole * this.zoom;
    // A product of fractions misses by a hair the whole number that it means.
    const nearest = Math.round(scale);
    return nearest > 0 && Math.abs(scale - nearest) < 1e-6 ? nearest : scale;
  }

  /** Whether a part of the picture lies outside the window because somebody zoomed in. */
  get zoomed(): boolean {
    return this.zoom > 1;
  }

  /**
   * What the session is to send, for as many of its pixels as can be told apart here; undefined where the picture that is
   * there serves as well.
   */
  wishFor({ size, part }: Picture): Wish | undefined {
    const { screen, stage, scale } = this;
    if (screen.width === 0 || stage.width === 0) return undefined;
    const scaled = (part: Rect, by: number): Size => ({ width: Math.max(1, Math.round(part.width * by)), height: Math.max(1, Math.round(part.height * by)) });
    const all = { x: 0, y: 0, ...screen };
    // Where the whole screen is worth its pixels, a closer look needs no others.
    const whole = !this.zoomed || this.whole >= 1;
    const wanted = whole ? all : this.seen(MARGIN);
    const by = Math.min(1, whole ? this.whole : scale);
    const wish = { size: scaled(wanted, by), part: wanted };
    if (whole) return same(part, all) && near(size, wish.size) ? undefined : wish;
    const serves = holds(part, this.seen(0)) && near(size, scaled(part, by));
    return serves && area(size) <= SPARE * area(wish.size) ? undefined : wish;
  }

  /** The part of the screen that is in sight, in whole pixels of it, and beside it `margin` of the stage. */
  private seen(margin: number): Rect {
    const { scale, stage, screen } = this;
    const span = (at: number, stage: number, size: number) => {
      const low = Math.max(0, Math.floor((-at - margin * stage) / scale));
      const high = Math.min(size, Math.ceil((-at + (1 + margin) * stage) / scale));
      return [low, Math.max(1, high - low)] as const;
    };
    const [x, width] = span(this.left, stage.width, screen.width);
    const [y, height] = span(this.top, stage.height, screen.height);
    return { x, y, width, height };
  }

  /** Where a picture of this part of the screen is laid, in pixels of the display: on whole ones where each of its own has one. */
  placeOf({ size, part }: Picture): Rect {
    const { corner, scale } = this;
    const place = { x: corner.x + part.x * scale, y: corner.y + part.y * scale, width: part.width * scale, height: part.height * scale };
    return near(size, place) ? { x: Math.round(place.x), y: Math.round(place.y), ...size } : place;
  }

  /** How large the whole picture is, in pixels of the display. */
  get shown(): Size {
    return { width: this.screen.width * this.scale, height: this.screen.height * this.scale };
  }

  /** Where the picture's left upper corner is, in whole pixels of the display: else the browser would blend neighbours. */
  get corner(): Position {
    return { x: Math.floor(this.left), y: Math.floor(this.top) };
  }

  /** The session's pixel at a place of the stage; for one beside the picture, that at its edge. */
  pixelAt({ x, y }: Position): Position | undefined {
    const { width, height } = this.screen;
    if (width === 0 || height === 0) return undefined;
    const { corner, scale } = this;
    const within = (value: number, size: number) => Math.min(size - 1, Math.max(0, Math.floor(value)));
    return { x: within((x - corner.x) / scale, width), y: within((y - corner.y) / scale, height) };
  }

  /** Shows each pixel of the session as large as the unit, or the whole of them. */
  zoomTo(what: "unit" | "whole"): void {
    const middle = { x: this.stage.width / 2, y: (this.clear.top + this.clear.bottom) / 2 };
    this.zoomAt((what === "unit" ? this.unit : this.whole) / this.scale, middle);
  }

  /** Zooms so that what is at this place of the stage stays there. */
  zoomAt(factor: number, { x, y }: Position): void {
    const before = this.scale;
    this.zoom = Math.min(ZOOM_MAX, Math.max(1, this.zoom * factor));
    const grown = this.scale / before;
    this.left = x - (x - this.left) * grown;
    this.top = y - (y - this.top) * grown;
    this.confine();
  }

  panBy(right: number, down: number): void {
    this.left += right;
    this.top += down;
    this.confine();
  }

  /** The fingers left: what is nearly whole, or nearly a whole number of pixels, becomes that. */
  settle(around: Position): void {
    const nearest = Math.max(1, Math.min(Math.floor(this.whole * ZOOM_MAX), Math.round(this.scale)));
    if (this.zoom < WHOLE) this.zoomAt(1 / this.zoom, around);
    else if (Math.abs(this.scale / nearest - 1) < SNAP) this.zoomAt(nearest / this.scale, around);
  }

  /** Within `margin` of an edge of what is seen: moves the picture, the faster the nearer. */
  pushAt({ x, y }: Position, margin: number): void {
    const push = (at: number, low: number, high: number) =>
      (Math.max(0, low + margin - at) - Math.max(0, at - (high - margin))) / PUSHES;
    this.panBy(push(x, 0, this.stage.width), push(y, this.clear.top, this.clear.bottom));
  }

  /** Moves the picture no more than is needed for this pixel of the session to be seen. */
  reveal({ x, y }: Position): void {
    const { scale } = this;
    const within = (at: number, low: number, high: number) => {
      const margin = Math.min(REVEAL_MARGIN, (high - low) / 2);
      return Math.min(high - margin, Math.max(low + margin, at)) - at;
    };
    this.panBy(
      within(this.left + (x + 0.5) * scale, 0, this.stage.width),
      within(this.top + (y + 0.5) * scale, this.clear.top, this.clear.bottom),
    );
  }

  /** The scale at which the whole picture is seen; never more than the unit. */
  private get whole(): number {
    const { screen, stage } = this;
    if (screen.width === 0 || screen.height === 0) return 1;
    return Math.min(this.unit, stage.width / screen.width, stage.height / screen.height) || 1;
  }

  /** No further out of the window than is of use: in the middle where it fits, else without a gap at any side. */
  private confine(): void {
    const place = (at: number, size: number, stage: number, from: number, to: number) => {
      const high = Math.max(from, (stage - size) / 2);
      return Math.max(Math.min(high, to - size), Math.min(high, at));
    };
    const { scale, stage, clear } = this;
    this.left = place(this.left, this.screen.width * scale, stage.width, 0, stage.width);
    this.top = place(this.top, this.screen.height * scale, stage.height, clear.top, clear.bottom);
  }
}

function area({ width, height }: Size): number {
  return width * height;
}

function same(a: Rect, b: Rect): boolean {
  return a.x === b.x && a.y === b.y && a.width === b.width && a.height === b.height;
}

/** No more apart than rounding is. */
function near(a: Size, b: Size): boolean {
  return Math.abs(a.width - b.width) <= 1 && Math.abs(a.height - b.height) <= 1;
}

function holds(outer: Rect, inner: Rect): boolean {
  const along = (low: number, size: number, from: number, length: number) => low <= from && low + size >= from + length;
  return along(outer.x, outer.width, inner.x, inner.width) && along(outer.y, outer.height, inner.y, inner.height);
}
