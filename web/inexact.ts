// Hatches what is only nearly what the session shows: photographs on a slow link, until their exact pixels come.
// Beside the path: over the canvas of present.ts, told by the engine after each present while it is open, and never otherwise.
// Knows rectangles of the screen; touches none of its pixels.

/** From one line to the next, in pixels of the screen: thin and far apart, so that the picture stays readable. */
const STEP = 8;
const COLOR = "#ff00a0";

export class InexactOverlay {
  private readonly context: CanvasRenderingContext2D | null;

  constructor(
    readonly canvas: HTMLCanvasElement,
    private readonly wanted: (tell: boolean) => void,
  ) {
    this.context = canvas.getContext("2d");
  }

  get open(): boolean {
    return !this.canvas.hidden;
  }

  toggle(): void {
    this.canvas.hidden = this.open;
    this.wanted(this.open);
  }

  /** The screen has this size now. */
  resize(width: number, height: number): void {
    this.canvas.width = width;
    this.canvas.height = height;
  }

  /** These rectangles (x, y, width, height of each) are not exact, and all else is. */
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
