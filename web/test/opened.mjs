// A session that does what a test says, and a page of a real browser that has opened its link.
// Used by the tests of the page; what either says first is theirs.

import { openTab } from "./chromium.mjs";
import { FakeSession } from "./fake-session.mjs";

/** Both end with the test. `script` runs in the page before its own; `query`: as a person would add it to the address. */
export async function openPage(t, browser, { query = "", tab = {}, script } = {}) {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const page = await openTab(browser, tab);
  t.after(() => page.context().close());
  if (script !== undefined) await page.addInitScript(script);
  await page.goto(session.link("good-token", query));
  await page.waitForURL(session.url + query);
  return { session, page, viewer: await session.viewer(0) };
}
