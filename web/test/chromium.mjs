// Starts the system's Chromium for a test, without a display, a GPU or a word to the network.
// Used by the tests that need a real browser; THINC_CHROMIUM names another binary.

import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const BINARY = process.env.THINC_CHROMIUM ?? "/usr/bin/chromium";

const START_MS_MAX = 60_000;
/** A start that fails is ended by playwright within 30 s, and so is an end. */
const LIFE_MS_MAX = 90_000;

const ARGUMENTS = [
  "--no-sandbox", // tests run as root in containers; the page under test is ours
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A Chromium for the tests of a file: there from before the first until after the last of them, or they fail. */
export function chromiumForTests(...more) {
  let browser;
  const limit = { timeout: LIFE_MS_MAX };
  before(async () => {
    if (!existsSync(BINARY)) throw new Error(`no Chromium at ${BINARY}: apt-get install chromium, or set THINC_CHROMIUM`);
    browser = await chromium.launch({ executablePath: BINARY, args: [...ARGUMENTS, ...more], timeout: START_MS_MAX });
  }, limit);
  after(() => browser?.close(), limit);
  return { newContext: (options) => browser.newContext(options) };
}

/** A tab of its own, with its own cookies; the certificates of tests are self-signed. */
export async function openTab(browser, options = {}) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 400, height: 300 }, ...options });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.problems.push(message.text());
  });
  return page;
}

/** A small phone held upright, as options of a tab. */
export const PHONE = { viewport: { width: 360, height: 640 }, deviceScaleFactor: 3, isMobile: true, hasTouch: true };
