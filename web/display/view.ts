// The place and scale of the session's screen in the window, and the pixel of the screen at a point
// of the window.
// Path 13/13, and path back: between main.ts, which places the canvas, and positions of pointer and
// touches.
// Knows sizes in display pixels; never the page, events or the session.

/** Largest zoom relative to the whole picture: a glyph of 8 pixels fills a phone's width. */
const ZOOM_MAX = 8;
/**
 * A zoom that ends this close to a whole number of display pixels per session pixel snaps to it, so
 * that all pixels have one size.
 */
const SNAP = 0.08;
/** A zoom that ends below this snaps to the whole picture. */
const WHOLE = 1.06;
/** Steps of a finger at the very edge in which the picture moves by `margin`. */
const PUSHES = 4;
/**
 * Margin that is requested around the visible part, as a fraction of the stage: a small move then
 * needs no request.
 */
const MARGIN = 0.25;
/** A picture with more than this multiple of the needed pixels is replaced by a smaller one. */
const SPARE = 2;
/** Distance between the pointer and what covers the picture, in display pixels. */
const REVEAL_MARGIN = 48;
/**
 * Session pixels along the shorter side of a phone: the minimum that dialogs of desktop
 * applications need.
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

/**
 * What the session is asked to send: a picture of this size, of this part of its screen. No size:
 * that of the part; no part: all.
 */
export interface ViewRequest {
  size: Size;
  part: Rect;
}

/** A picture's size in its own pixels, and the part of the screen that it shows. */
export interface Picture {
  size: Size;
  part: Rect;
}

/**
 * Display pixels per session pixel, across and down, on a touch screen: desktop applications draw
 * for a third of a phone's density, so close to a CSS pixel, but with room for dialogs. A whole
 * number, because others blur.
 */
export function pixelsOnTouchScreen(stage: Size, ratio: number): number {
  const roomFor = Math.floor(Math.min(stage.width, stage.height) / SHORT_SIDE_MIN);
  return Math.max(1, Math.min(Math.round(ratio), roomFor));
}

export class View {
  private screen: Size = { width: 0, height: 0 };
  private stage: Size = { width: 0, height: 0 };
  /** Display pixels per session pixel while nothing is zoomed and all fits. */
  private unit = 1;
  /** The part of the stage that a touch keyboard does not cover. */
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

  /** Display pixels per session pixel. */
  get scale(): number {
    const scale = this.whole * this.zoom;
    // Rounding errors of the product must not miss a whole number.
    const nearest = Math.round(scale);
    return nearest > 0 && Math.abs(scale - nearest) < 1e-6 ? nearest : scale;
  }

  /** Whether the user has zoomed in, so that a part of the picture is outside the window. */
  get zoomed(): boolean {
    return this.zoom > 1;
  }

  /**
   * What the session should send, with no more pixels than the display can show; undefined if the
   * present picture will do.
   */
  requestFor({ size, part }: Picture): ViewRequest | undefined {
    const { screen, stage, scale } = this;
    if (screen.width === 0 || stage.width === 0) return undefined;
    const scaled = (part: Rect, by: number): Size => ({
      width: Math.max(1, Math.round(part.width * by)),
      height: Math.max(1, Math.round(part.height * by)),
    });
    const all = { x: 0, y: 0, ...screen };
    // If the whole screen is sent with all its pixels, a zoomed view needs no others.
    const whole = !this.zoomed || this.whole >= 1;
    const wanted = whole ? all : this.visiblePart(MARGIN);
    const by = Math.min(1, whole ? this.whole : scale);
    const request = { size: scaled(wanted, by), part: wanted };
    if (whole) return same(part, all) && near(size, request.size) ? undefined : request;
    const serves = holds(part, this.visiblePart(0)) && near(size, scaled(part, by));
    return serves && area(size) <= SPARE * area(request.size) ? undefined : request;
  }

  /**
   * The visible part of the screen in whole session pixels, with a margin around it as a fraction
   * of the stage.
   */
  private visiblePart(margin: number): Rect {
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

  /**
   * The place of a picture of this part, in display pixels; aligned to them if its pixels are as
   * large.
   */
  placeOf({ size, part }: Picture): Rect {
    const { corner, scale } = this;
    const place = {
      x: corner.x + part.x * scale,
      y: corner.y + part.y * scale,
      width: part.width * scale,
      height: part.height * scale,
    };
    return near(size, place) ? { x: Math.round(place.x), y: Math.round(place.y), ...size } : place;
  }

  /** Size of the whole picture in display pixels. */
  get shown(): Size {
    return { width: this.screen.width * this.scale, height: this.screen.height * this.scale };
  }

  /**
   * The picture's upper left corner in whole display pixels, because the browser would blend
   * neighbours otherwise.
   */
  get corner(): Position {
    return { x: Math.floor(this.left), y: Math.floor(this.top) };
  }

  /** The session's pixel at a place of the stage; beside the picture, the nearest at its edge. */
  pixelAt(place: Position): Position | undefined {
    const inside = this.insideAt(place);
    if (inside === undefined) return undefined;
    const { width, height } = this.screen;
    const pixel = (at: number, size: number) => Math.min(size - 1, Math.floor(at));
    return { x: pixel(inside.x, width), y: pixel(inside.y, height) };
  }

  /** As `pixelAt`, with fractions. */
  insideAt({ x, y }: Position): Position | undefined {
    const { width, height } = this.screen;
    if (width === 0 || height === 0) return undefined;
    const { corner, scale } = this;
    const within = (value: number, size: number) => Math.min(size, Math.max(0, value));
    return { x: within((x - corner.x) / scale, width), y: within((y - corner.y) / scale, height) };
  }

  /** Whether the picture is at this place of the stage. */
  covers({ x, y }: Position): boolean {
    const { corner, shown } = this;
    const [right, down] = [x - corner.x, y - corner.y];
    return right >= 0 && right < shown.width && down >= 0 && down < shown.height;
  }

  /** Shows session pixels at unit size, or the whole screen. */
  zoomTo(what: "unit" | "whole"): void {
    const middle = { x: this.stage.width / 2, y: (this.clear.top + this.clear.bottom) / 2 };
    this.zoomAt((what === "unit" ? this.unit : this.whole) / this.scale, middle);
  }

  /** Zooms around this place of the stage. */
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

  /** The zoom gesture ended: snaps to the whole picture, or to a whole number of pixels. */
  settle(around: Position): void {
    const nearest = Math.max(
      1,
      Math.min(Math.floor(this.whole * ZOOM_MAX), Math.round(this.scale)),
    );
    if (this.zoom < WHOLE) this.zoomAt(1 / this.zoom, around);
    else if (Math.abs(this.scale / nearest - 1) < SNAP) this.zoomAt(nearest / this.scale, around);
  }

  /** Within `margin` of an edge of the visible part, moves the picture, the faster the nearer. */
  pushAt({ x, y }: Position, margin: number): void {
    const push = (at: number, low: number, high: number) =>
      (Math.max(0, low + margin - at) - Math.max(0, at - (high - margin))) / PUSHES;
    this.panBy(push(x, 0, this.stage.width), push(y, this.clear.top, this.clear.bottom));
  }

  /** Moves the picture just so far that this session pixel is visible. */
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

  /** The scale at which the whole picture is visible; at most the unit. */
  private get whole(): number {
    const { screen, stage } = this;
    if (screen.width === 0 || screen.height === 0) return 1;
    return Math.min(this.unit, stage.width / screen.width, stage.height / screen.height) || 1;
  }

  /** Keeps the picture in the window: centred if it fits, else without a gap at any side. */
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

/** Equal up to rounding. */
function near(a: Size, b: Size): boolean {
  return Math.abs(a.width - b.width) <= 1 && Math.abs(a.height - b.height) <= 1;
}

function holds(outer: Rect, inner: Rect): boolean {
  const along = (low: number, size: number, from: number, length: number) =>
    low <= from && low + size >= from + length;
  return (
    along(outer.x, outer.width, inner.x, inner.width) &&
    along(outer.y, outer.height, inner.y, inner.height)
  );
}
