// Marks the lossy areas with thin lines: photographs on a slow link, until they are refreshed.
// Beside the path: over the canvas of present.ts; while open, the engine reports the areas after
// each present.
// Knows rectangles of the screen; changes none of its pixels.

/** Distance of the lines in screen pixels: so far apart that the picture stays readable. */
const STEP = 8;
const COLOR = "#ff00a0";

export class LossyOverlay {
  private readonly context: CanvasRenderingContext2D | null;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly setReporting: (report: boolean) => void,
  ) {
    this.context = canvas.getContext("2d");
  }

  get open(): boolean {
    return !this.canvas.hidden;
  }

  toggle(): void {
    this.canvas.hidden = this.open;
    this.setReporting(this.open);
  }

  /** The screen has this size now. */
  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
  }

  /** These rectangles (x, y, width, height of each) are lossy, all else is lossless. */
  show(rects: Int32Array): void {
    const context = this.context;
    if (context === null || !this.open) return;
    const { width, height } = this.canvas;
    context.clearRect(0, 0, width, height);
    if (rects.length === 0) return;
    context.save();
    context.beginPath();
    for (let i = 0; i + 3 < rects.length; i += 4) {
      const [x = 0, y = 0, w = 0, h = 0] = rects.subarray(i, i + 4);
      context.rect(x, y, w, h);
    }
    context.clip();
    context.beginPath();
    for (let x = 0; x < width + height; x += STEP) {
      context.moveTo(x, 0);
      context.lineTo(x - height, height);
    }
    context.strokeStyle = COLOR;
    context.stroke();
    context.restore();
  }
}
