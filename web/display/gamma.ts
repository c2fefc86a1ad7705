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

export class Gamma {
  private areas: GammaArea[] = [];
  /** Of the session's screen, on the canvas. */
  private part: Rect | undefined;
  private readonly filter = document.createElementNS(SVG, "filter");
  /** The functions of each area, in the order of `areas`. */
  private transfers: Element[] = [];

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
    svg.append(this.filter);
    document.body.append(svg);
  }

  /** The session's programs have set these tables; of several the first counts. */
  show(areas: GammaArea[]): void {
    if (!this.options.isOn) return;
    const isSame = areas.length === this.areas.length;
    this.areas = areas;
    if (isSame && areas.length > 0) this.setTables();
    else this.build();
    this.place();
    this.options.cursorChanged(cursorTable(areas));
  }

  /** The canvas shows this part of the session's screen. */
  setPicture(part: Rect): void {
    this.part = part;
    this.place();
  }

  private build(): void {
    const { style } = this.options.canvas;
    this.transfers = this.areas.map((_, index) => {
      const transfer = create("feComponentTransfer", {
        in: "SourceGraphic",
        result: `area-${index}`,
      });
      transfer.append(
        ...["R", "G", "B"].map((channel) => create(`feFunc${channel}`, { type: "discrete" })),
      );
      return transfer;
    });
    const layers = ["SourceGraphic", ...this.areas.map((_, index) => `area-${index}`).reverse()];
    const merge = create("feMerge", {});
    merge.append(...layers.map((layer) => create("feMergeNode", { in: layer })));
    this.filter.replaceChildren(...this.transfers, ...(this.isWhole ? [] : [merge]));
    this.setTables();
    // Without a filter the canvas is shown by the shortest way.
    style.filter = this.areas.length === 0 ? "" : `url(#${ID})`;
  }

  private get isWhole(): boolean {
    return this.areas.length === 1 && this.areas[0] !== undefined && isWhole(this.areas[0]);
  }

  private setTables(): void {
    for (const [index, { channels }] of this.areas.entries()) {
      for (const [channel, entries] of Array.from(this.transfers[index]?.children ?? []).entries())
        entries.setAttribute("tableValues", tableValues(channels, channel));
    }
  }

  /** The areas' places on the canvas, which may be any part of the screen at any scale. */
  private place(): void {
    const { part } = this;
    if (part === undefined) return;
    const fraction = (at: number, from: number, length: number) =>
      Math.min(1, Math.max(0, (at - from) / length));
    for (const [index, { rect }] of this.areas.entries()) {
      const transfer = this.transfers[index];
      if (transfer === undefined) continue;
      const [x, y] = [fraction(rect.x, part.x, part.width), fraction(rect.y, part.y, part.height)];
      const right = fraction(rect.x + rect.width, part.x, part.width);
      const bottom = fraction(rect.y + rect.height, part.y, part.height);
      setAll(transfer, { x, y, width: right - x, height: bottom - y });
    }
  }
}

function isWhole({ rect }: GammaArea): boolean {
  const { x, y, width, height } = rect;
  return x === 0 && y === 0 && width === SCREEN_EDGE_MAX && height === SCREEN_EDGE_MAX;
}

/** The browser draws the cursor, on whichever monitor it is: only a table of all applies. */
function cursorTable([first]: GammaArea[]): Uint8Array | undefined {
  return first !== undefined && isWhole(first) ? first.channels : undefined;
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
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}
