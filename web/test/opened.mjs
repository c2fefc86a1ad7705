// A scripted session, and a page of a real browser that has opened its link.
// Used by the tests of the page, which send the first messages of both.

import { openTab } from "./chromium.mjs";
import { FakeSession } from "./fake-session.mjs";

/**
 * Both end with the test. `script` runs in the page before its own, `workerScript` in its worker;
 * `query` is added to the address.
 */
export async function openPage(t, browser, options = {}) {
  const { query = "", tab = {}, script, workerScript } = options;
  const session = await FakeSession.start();
  if (workerScript !== undefined) session.scripts.set("worker.js", `(${workerScript})();\n`);
  t.after(() => session.stop());
  const page = await openTab(browser, tab);
  t.after(() => page.context().close());
  if (script !== undefined) await page.addInitScript(script);
  await page.goto(session.link("good-token", query));
  await page.waitForURL(session.url + query);
  return { session, page, viewer: await session.viewer(0) };
}

/** Waits until the viewer is connected; before it, the page of the login has no status to hide. */
export async function isConnected(page) {
  await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
}

/** The viewer's framebuffer: RGBA. A list of numbers would keep this process busy for seconds. */
export async function framebuffer(page) {
  const { width, height, data } = await page.evaluate(async () => {
    const { width, height, data } = await window.thinc.pixels();
    let binary = "";
    for (let at = 0; at < data.length; at += 32768)
      binary += String.fromCharCode(...data.subarray(at, at + 32768));
    return { width, height, data: btoa(binary) };
  });
  return { width, height, data: Buffer.from(data, "base64") };
}

/**
 * A screenshot of `target`, the page or a part of it, without the status line: a busy machine may
 * show it over the picture for a moment. The page's policy forbids Playwright's own style sheet.
 */
export async function screenshotWithoutStatus(page, target = page.locator("#screen")) {
  const set = (visibility) =>
    page.evaluate((value) => {
      document.getElementById("state").style.visibility = value;
    }, visibility);
  await set("hidden");
  try {
    return await target.screenshot({ animations: "disabled" });
  } finally {
    await set("");
  }
}

/**
 * Ctrl+Alt+Y is typed in the moment in which the next question appears: a busy machine would be too
 * late for that from outside of the page. Before the question is sent.
 */
export function agreeWhenAsked(page) {
  return page.evaluate(() => {
    const question = document.getElementById("files-question");
    const observer = new MutationObserver(() => {
      if (question.hidden) return;
      observer.disconnect();
      const key = { key: "y", code: "KeyY", ctrlKey: true, altKey: true };
      const options = { ...key, bubbles: true, cancelable: true };
      for (const type of ["keydown", "keyup"])
        document.activeElement.dispatchEvent(new KeyboardEvent(type, options));
      window.agreed = true;
    });
    observer.observe(question, { attributes: true });
  });
}

/** Waits until an entry of the menu is named so, for screen readers too. */
export async function says(page, words) {
  await page.waitForFunction(
    (words) =>
      [...document.querySelectorAll("#menu-entries > button")].some(
        (entry) => entry.textContent === words,
      ),
    words,
  );
}
