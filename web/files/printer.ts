// What this browser does with a document that a program of the session prints: its own dialog
// prints it, another tab shows it, or it is saved.
// Path beside the pixels: from printing.ts, to the browser.
// Knows frames, tabs and downloads; never the session. Called only after the person's answer.

import { isTouchOnly } from "../input/input";
import { download } from "./destination";

/** What the answer does. */
export type PrintMethod = "print" | "open" | "save";

/** The browser has to show a document in its frame within this time. */
const LOAD_MS_MAX = 20_000;
/**
 * A browser's viewer of PDF reads the document after its frame has loaded, and nothing tells when
 * it has. Before, Firefox refuses to print, and Safari prints an empty page. Time for the viewer, …
 */
const READ_MS_MIN = 1_000;
/** … and bytes of the document a millisecond. */
const READ_PER_MS = 20_000;
/**
 * 10 min: so long a document is kept for the browser, whose dialog reads it in its own time and
 * tells nobody when it has. The next document ends it too: one dialog is open at a time.
 */
const KEPT_MS = 600_000;

export const PDF_TYPE = "application/pdf";

/** The best that this browser can do. */
export function printMethod(): PrintMethod {
  // Browsers that do not say so are older than 2022, and most of those have a viewer.
  if (navigator.pdfViewerEnabled === false) return "save";
  // Phones print what a tab shows, by its menu; of a frame they print a part, or the page.
  return isTouchOnly() ? "open" : "print";
}

export class Printer {
  private release: () => void = () => undefined;

  /**
   * The browser's dialog opens; resolves once it has. Rejects if this browser cannot print a
   * document in a frame.
   */
  async print(content: Blob): Promise<void> {
    const frame = document.createElement("iframe");
    const url = this.keep(content, () => frame.remove());
    // It needs a place in the layout, or viewers of PDF draw nothing.
    frame.className = "printed";
    frame.title = "The document that is printed";
    // No key and no click reaches it, and no screen reader reads it.
    frame.inert = true;
    frame.src = url;
    try {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`it was not shown within ${LOAD_MS_MAX / 1000} s`)),
          LOAD_MS_MAX,
        );
        frame.addEventListener("load", () => {
          clearTimeout(timer);
          resolve();
        });
        document.body.append(frame);
      });
      const readMs = READ_MS_MIN + content.size / READ_PER_MS;
      await new Promise((resolve) => setTimeout(resolve, readMs));
      // Where the browser shows an error in place of a document, this fails.
      frame.contentWindow?.print();
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** Another tab shows it. Called in the person's gesture, without which browsers open none. */
  open(content: Blob): void {
    const link = document.createElement("a");
    link.href = this.keep(content, () => undefined);
    link.target = "_blank";
    // The tab has no way back to this page.
    link.rel = "noopener";
    link.click();
  }

  save(name: string, content: Blob): void {
    download(name, content);
  }

  /** The document's URL, which is good until the next one. */
  private keep(content: Blob, released: () => void): string {
    this.release();
    const url = URL.createObjectURL(content);
    const timer = setTimeout(() => this.release(), KEPT_MS);
    this.release = () => {
      clearTimeout(timer);
      released();
      URL.revokeObjectURL(url);
      this.release = () => undefined;
    };
    return url;
  }
}
