// A tab without thinc, as the other program that copies and pastes: by real keys and the browser's
// events.
// Used by clipboard.test.mjs and copying.test.mjs; requests no permission, so that none is granted
// by mistake.
// Knows pages; never sessions.

import assert from "node:assert/strict";
import { openTab } from "./chromium.mjs";

/** 2 × 2 pixels: red, green; blue, half-transparent white. */
export const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAE0lEQVR4nGP4z8DwHwyBNAg0AABJSQl4KKDbdwAAAABJRU5ErkJggg==",
  "base64",
);

export class OtherTab {
  static async open(browser, url, options = {}) {
    const tab = new OtherTab();
    tab.page = await openTab(browser, options);
    await tab.page.goto(url);
    await tab.#prepare();
    return tab;
  }

  async #prepare() {
    await this.page.evaluate(() => {
      document.body.replaceChildren(document.createElement("textarea"));
      document.querySelector("textarea").focus();
      document.addEventListener("copy", (event) => {
        event.preventDefault();
        for (const [type, data] of Object.entries(window.copying ?? {}))
          event.clipboardData.setData(type, data);
      });
      document.addEventListener("paste", (event) => {
        event.preventDefault();
        const { clipboardData: data } = event;
        const file = [...data.files].find(({ type }) => type === "image/png");
        window.pasted = (async () => ({
          text: data.getData("text/plain"),
          html: data.getData("text/html"),
          png: file && Array.from(new Uint8Array(await file.arrayBuffer())),
        }))();
      });
    });
  }

  /**
   * Puts these on the browser's clipboard. An image uses the asynchronous clipboard: a copy event
   * accepts none.
   */
  async copy({ text, html, png }) {
    await this.page.bringToFront();
    if (png === undefined) {
      await this.page.evaluate(
        ({ text, html }) => {
          window.copying = {
            ...(text !== undefined && { "text/plain": text }),
            ...(html !== undefined && { "text/html": html }),
          };
          document.querySelector("textarea").value = "x";
          document.querySelector("textarea").select();
        },
        { text, html },
      );
      await this.page.keyboard.press("Control+KeyC");
    } else {
      await this.page.evaluate(
        async ({ text, html, png }) => {
          const item = { "image/png": new Blob([Uint8Array.from(png)], { type: "image/png" }) };
          if (text !== undefined) item["text/plain"] = text;
          if (html !== undefined) item["text/html"] = html;
          await navigator.clipboard.write([new ClipboardItem(item)]);
        },
        { text, html, png: [...png] },
      );
    }
  }

  /** What a user's paste contains. */
  async paste() {
    await this.page.bringToFront();
    await this.page.evaluate(() => (window.pasted = undefined));
    await this.page.keyboard.press("Control+KeyV");
    const { text, html, png } = await this.page.evaluate(() => window.pasted);
    return { text, html, png: png && Buffer.from(png) };
  }

  /** Pastes until the content matches: a clipboard reports no change. */
  async pasteWhere(matches, ms = 120_000) {
    for (const end = performance.now() + ms; ; ) {
      const pasted = await this.paste();
      if (matches(pasted)) return pasted;
      assert.ok(
        performance.now() < end,
        `the clipboard has only ${JSON.stringify(pasted).slice(0, 300)}`,
      );
      // The program that changes it needs the processor too.
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  /** An image as width, height and pixel values: files of one image differ. */
  pixelsOf(png) {
    return this.page.evaluate(
      async (png) => {
        const bitmap = await createImageBitmap(
          new Blob([Uint8Array.from(png)], { type: "image/png" }),
        );
        const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
        context.drawImage(bitmap, 0, 0);
        return [
          bitmap.width,
          bitmap.height,
          ...context.getImageData(0, 0, bitmap.width, bitmap.height).data,
        ];
      },
      [...png],
    );
  }

  close() {
    return this.page.context().close();
  }
}
