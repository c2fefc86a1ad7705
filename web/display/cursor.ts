// The session's cursor as the browser's own, so that it moves without delay.
// Path 13/13: from engine.ts, to the page.
// Knows one image and the device pixel ratio; the pointer's position only if the browser cannot
// show the image.

/** CSS pixels: browsers refuse larger cursor images. */
const CSS_EDGE_MAX = 128;

export interface CursorImage {
  width: number;
  height: number;
  hotX: number;
  hotY: number;
  /** Straight (not premultiplied) red, green, blue, alpha. */
  rgba: Uint8ClampedArray;
}

export class Cursor {
  private scale = 1;
  private image: CursorImage | undefined;
  private shown = true;
  /** What its colours are shown as: 256 values of red, green and blue; undefined: as they are. */
  private channels: Uint8Array | undefined;
  /** Replaces an image that the browser would refuse. */
  private readonly large = document.createElement("canvas");
  private largeUsed = false;
  private at: { x: number; y: number } | undefined;

  constructor(private readonly stage: HTMLElement) {
    this.large.className = "cursor";
    this.large.hidden = true;
    stage.append(this.large);
    // Another monitor may have another ratio.
    const watch = () => {
      matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener("change", watch, {
        once: true,
      });
      this.update();
    };
    watch();
  }

  /** Display pixels per session pixel: the image is scaled up with the picture, and never down. */
  setScale(scale: number): void {
    const before = this.ratio;
    this.scale = Math.max(1, scale);
    if (this.ratio !== before) this.update();
  }

  setImage(image: CursorImage): void {
    this.image = image;
    this.update();
  }

  setGamma(channels: Uint8Array | undefined): void {
    if (channels === undefined && this.channels === undefined) return;
    this.channels = channels;
    this.update();
  }

  setShown(shown: boolean): void {
    this.shown = shown;
    this.update();
  }

  /** In CSS pixels; undefined when the pointer is elsewhere. */
  pointerAt(x: number | undefined, y: number | undefined): void {
    this.at = x === undefined || y === undefined ? undefined : { x, y };
    if (this.largeUsed) this.placeLarge();
  }

  /** Image pixels per CSS pixel. */
  private get ratio(): number {
    return devicePixelRatio / this.scale;
  }

  private update(): void {
    const image = this.image && shownAs(this.image, this.channels);
    this.largeUsed = false;
    this.large.hidden = true;
    if (image === undefined) {
      this.stage.style.cursor = "default";
      return;
    }
    if (!this.shown || image.width === 0 || image.height === 0) {
      this.stage.style.cursor = "none";
      return;
    }
    const { ratio } = this;
    if (Math.max(image.width, image.height) / ratio > CSS_EDGE_MAX) {
      paint(this.large, image);
      this.large.style.width = `${image.width / ratio}px`;
      this.large.style.height = `${image.height / ratio}px`;
      this.largeUsed = true;
      this.stage.style.cursor = "none";
      this.placeLarge();
      return;
    }
    this.stage.style.cursor = cursorOf(image, ratio);
    if (this.stage.style.cursor === "") this.stage.style.cursor = "default";
  }

  private placeLarge(): void {
    const image = this.image;
    this.large.hidden = this.at === undefined || image === undefined;
    if (this.at === undefined || image === undefined) return;
    const { ratio } = this;
    const [x, y] = [this.at.x - image.hotX / ratio, this.at.y - image.hotY / ratio];
    this.large.style.transform = `translate(${x}px, ${y}px)`;
  }
}

/** The image in the colours that it is shown in. */
function shownAs(image: CursorImage, channels: Uint8Array | undefined): CursorImage {
  if (channels === undefined) return image;
  const rgba = image.rgba.map((value, at) =>
    at % 4 === 3 ? value : (channels[(at % 4) * 256 + value] ?? value),
  );
  return { ...image, rgba };
}

function cursorOf(image: CursorImage, ratio: number): string {
  const canvas = document.createElement("canvas");
  paint(canvas, image);
  const hot = `${Math.floor(image.hotX / ratio)} ${Math.floor(image.hotY / ratio)}`;
  if (ratio === 1) return `url(${canvas.toDataURL()}) ${hot}, default`;
  // One image pixel per display pixel, if the browser supports a resolution for it.
  const sharp = `image-set(url("${canvas.toDataURL()}") ${ratio}x) ${hot}, default`;
  if (CSS.supports("cursor", sharp)) return sharp;
  const scaled = document.createElement("canvas");
  scaled.width = Math.max(1, Math.round(image.width / ratio));
  scaled.height = Math.max(1, Math.round(image.height / ratio));
  scaled.getContext("2d")?.drawImage(canvas, 0, 0, scaled.width, scaled.height);
  return `url(${scaled.toDataURL()}) ${hot}, default`;
}

function paint(canvas: HTMLCanvasElement, image: CursorImage): void {
  canvas.width = image.width;
  canvas.height = image.height;
  const rgba = image.rgba as Uint8ClampedArray<ArrayBuffer>;
  canvas.getContext("2d")?.putImageData(new ImageData(rgba, image.width, image.height), 0, 0);
}
