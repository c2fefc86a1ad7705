// Night colours, gamma and brightness that programs of the session have set: the canvas is shown
// through a filter, and the cursor's image is converted.
// Path 13/13: beside present.ts, between main.ts and the page.
// Knows elements and tables; the picture's pixels are the session's, here as elsewhere.

import type { GammaArea } from "../engine/messages";
import type { Rect } from "./view";

const SVG = "http://www.w3.org/2000/svg";
const ID = "gamma";
/** Values of a channel. */
export const GAMMA_ENTRIES = 256;
/** An area as large as this is all of the screen; as crates/protocol/src/gamma.rs has it. */
const SCREEN_EDGE_MAX = 16384;

export interface GammaOptions {
  /** What shows the picture. */
  canvas: HTMLElement;
  /** False: the user's own screen does it, and twice would be too much. */
  isOn: boolean;
  /** What the cursor's colours are shown as: red, green, blue; undefined: as they are. */
  cursorChanged(channels: Uint8Array | undefined): void;
}

/** Whether `?gamma=` asks for it. */
export function gammaOf(word: string | null): boolean {
  if (word !== null && word !== "off" && word !== "session")
    console.warn(`thinc: ?gamma=${word} is not one of session, off`);
  return word !== "off";
}

/** An area that is on the canvas. */
interface Layer {
  transfer: Element;
  /** What puts it over those behind it. */
  node: Element;
  /** As `transfer` has them. */
  channels?: Uint8Array;
}

export class Gamma {
  private areas: GammaArea[] = [];
  /** Of the session's screen, on the canvas. */
  private part: Rect | undefined;
  private readonly filter = document.createElementNS(SVG, "filter");
  /** The filter's last element, from the rearmost layer to the first one. */
  private readonly merge = create("feMerge", {});
  /** The canvas as it is, behind all layers; in `merge` only where it can be seen. */
  private readonly ground = create("feMergeNode", { in: "SourceGraphic" });
  /** Kept while tables change: two monitors' tables are one area and two areas by turns. */
  private readonly layers: Layer[] = [];

  constructor(private readonly options: GammaOptions) {
    // Laid out, since a filter in what is not has no effect in every browser, but without a size.
    const svg = document.createElementNS(SVG, "svg");
    svg.id = "filters";
    svg.setAttribute("aria-hidden", "true");
    setAll(this.filter, {
      id: ID,
      // Of the canvas: none of the pixels around it are of interest.
      x: 0,
      y: 0,
      width: 1,
      height: 1,
      primitiveUnits: "objectBoundingBox",
      // Values are looked up as they are.
      "color-interpolation-filters": "sRGB",
    });
    this.filter.append(this.merge);
    svg.append(this.filter);
    document.body.append(svg);
  }

  /** The session's programs have set these tables; of several the first counts. */
  show(areas: GammaArea[]): void {
    if (!this.options.isOn) return;
    this.areas = areas;
    this.update();
    // The browser draws the cursor, on whichever monitor it is, so only a table of all applies.
    // Between two of those, programs set one monitor after the other: it keeps what it has.
    const [first] = areas;
    if (first === undefined) this.options.cursorChanged(undefined);
    else if (isWhole(first)) this.options.cursorChanged(first.channels);
  }

  /** The canvas shows this part of the session's screen. */
  setPicture(part: Rect): void {
    this.part = part;
    this.update();
  }

  private update(): void {
    const { part, layers } = this;
    const areas = part === undefined ? [] : visible(this.areas, part);
    while (layers.length > areas.length) this.removeLayer();
    while (layers.length < areas.length) this.addLayer();
    for (const [index, { rect, channels }] of areas.entries()) {
      const layer = layers[index];
      if (layer === undefined || part === undefined) continue;
      if (layer.channels !== channels) setTables(layer.transfer, channels);
      layer.channels = channels;
      setAll(layer.transfer, place(rect, part));
    }
    const last = areas.at(-1);
    if (part !== undefined && last !== undefined && covers(last.rect, part)) this.ground.remove();
    else if (!this.ground.isConnected) this.merge.prepend(this.ground);
    // Without a filter the canvas is shown by the shortest way.
    this.options.canvas.style.filter = last === undefined ? "" : `url(#${ID})`;
  }

  private addLayer(): void {
    const { merge, layers } = this;
    const result = `area-${layers.length}`;
    const transfer = create("feComponentTransfer", { in: "SourceGraphic", result });
    transfer.append(
      ...["R", "G", "B"].map((channel) => create(`feFunc${channel}`, { type: "discrete" })),
    );
    const node = create("feMergeNode", { in: result });
    merge.before(transfer);
    merge.insertBefore(node, layers.at(-1)?.node ?? null);
    layers.push({ transfer, node });
  }

  private removeLayer(): void {
    const last = this.layers.pop();
    last?.node.remove();
    last?.transfer.remove();
  }
}

function isWhole({ rect }: GammaArea): boolean {
  const { x, y, width, height } = rect;
  return x === 0 && y === 0 && width === SCREEN_EDGE_MAX && height === SCREEN_EDGE_MAX;
}

/** Those that have a pixel of this part: no others, since browsers differ in what is empty. */
function visible(areas: GammaArea[], part: Rect): GammaArea[] {
  const within = areas.filter(
    ({ rect }) =>
      rect.x < part.x + part.width &&
      rect.x + rect.width > part.x &&
      rect.y < part.y + part.height &&
      rect.y + rect.height > part.y,
  );
  const front = within.findIndex(({ rect }) => covers(rect, part));
  return front < 0 ? within : within.slice(0, front + 1);
}

function covers(rect: Rect, part: Rect): boolean {
  return (
    rect.x <= part.x &&
    rect.y <= part.y &&
    rect.x + rect.width >= part.x + part.width &&
    rect.y + rect.height >= part.y + part.height
  );
}

/** Where it is on a canvas that shows this part of the screen, at any scale. */
function place(rect: Rect, part: Rect): Record<string, number> {
  const fraction = (at: number, from: number, length: number) =>
    Math.min(1, Math.max(0, (at - from) / length));
  const [x, y] = [fraction(rect.x, part.x, part.width), fraction(rect.y, part.y, part.height)];
  const right = fraction(rect.x + rect.width, part.x, part.width);
  const bottom = fraction(rect.y + rect.height, part.y, part.height);
  return { x, y, width: right - x, height: bottom - y };
}

function setTables(transfer: Element, channels: Uint8Array): void {
  for (const [channel, entries] of Array.from(transfer.children).entries())
    entries.setAttribute("tableValues", tableValues(channels, channel));
}

/**
 * "discrete" with 256 steps takes each value of 8 bits from its own step. A quarter more than the
 * entry is that entry to browsers that round down, and to those that round.
 */
function tableValues(channels: Uint8Array, channel: number): string {
  const entries = channels.subarray(channel * GAMMA_ENTRIES, (channel + 1) * GAMMA_ENTRIES);
  return Array.from(entries, (entry) => Math.min(1, (entry + 0.25) / 255).toFixed(5)).join(" ");
}

function create(name: string, attributes: Record<string, string | number>): Element {
  return setAll(document.createElementNS(SVG, name), attributes);
}

function setAll(element: Element, attributes: Record<string, string | number>): Element {
  for (const [name, value] of Object.entries(attributes)) {
    const text = String(value);
    // Browsers make the filter again for an attribute that is set to what it was.
    if (element.getAttribute(name) !== text) element.setAttribute(name, text);
  }
  return element;
}
