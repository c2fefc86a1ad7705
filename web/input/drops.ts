// Files that a person drops on the page.
// Path back, beside the pixels: from the browser's drag and drop, to files/files.ts.
// Knows the browser's events; never what is in a file.

import { listDropped, type Source } from "../files/list";
import type { Place } from "../files/messages";

export interface DropsOptions {
  /** Marked while files are over the page. */
  stage: HTMLElement;
  /** Whether a drop would be taken; otherwise the person is told why when they drop. */
  taken(): boolean;
  /** The session's pixel there, in CSS pixels of the page; undefined beside the picture. */
  pixelAt(x: number, y: number): Place | undefined;
  dropped(listed: Promise<Source[]>, at: Place | undefined): void;
}

export class Drops {
  /** Elements that the pointer is in: a drag enters the next one before it leaves the last. */
  private depth = 0;

  constructor(private readonly options: DropsOptions) {
    addEventListener("dragenter", (event) => {
      this.over(event);
      this.mark(hasFiles(event) ? this.depth + 1 : 0);
    });
    addEventListener("dragover", (event) => this.over(event));
    addEventListener("dragleave", () => this.mark(this.depth - 1));
    addEventListener("drop", (event) => this.drop(event));
  }

  /** Without this the browser would open what is dropped in the page's place. */
  private over(event: DragEvent): void {
    if (isForField(event)) return;
    event.preventDefault();
    if (event.dataTransfer === null) return;
    event.dataTransfer.dropEffect = hasFiles(event) && this.options.taken() ? "copy" : "none";
  }

  private drop(event: DragEvent): void {
    this.mark(0);
    if (isForField(event)) return;
    event.preventDefault();
    const { dataTransfer } = event;
    if (dataTransfer === null || !hasFiles(event)) return;
    const at = this.options.pixelAt(event.clientX, event.clientY);
    this.options.dropped(listDropped(dataTransfer), at);
  }

  private mark(depth: number): void {
    this.depth = Math.max(0, depth);
    this.options.stage.classList.toggle("dropping", this.depth > 0 && this.options.taken());
  }
}

function hasFiles(event: DragEvent): boolean {
  return event.dataTransfer?.types.includes("Files") === true;
}

/** A text that is dragged into a field of the page. */
function isForField(event: DragEvent): boolean {
  const { target } = event;
  return !hasFiles(event) && target instanceof Element && target.closest("input") !== null;
}
