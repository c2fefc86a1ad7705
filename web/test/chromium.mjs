// Starts the system's Chromium for a test, without a display, a GPU or network access.
// Used by the tests that need a real browser; THINC_CHROMIUM names another binary.

import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { chromium } from "playwright-core";

const BINARY = process.env.THINC_CHROMIUM ?? "/usr/bin/chromium";

const START_MS_MAX = 120_000;
/** Playwright ends a failed start by itself, and an end within 30 s. */
const LIFE_MS_MAX = 180_000;
/** Of each step; nothing waits for it to pass. */
const STEP_MS_MAX = 120_000;

const ARGUMENTS = [
  "--no-sandbox", // tests run as root in containers; the page under test is ours
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** A Chromium for the tests of a file, from before the first until after the last. */
export function chromiumForTests(...more) {
  let browser;
  const limit = { timeout: LIFE_MS_MAX };
  before(async () => {
    if (!existsSync(BINARY))
      throw new Error(`no Chromium at ${BINARY}: apt-get install chromium, or set THINC_CHROMIUM`);
    browser = await chromium.launch({
      executablePath: BINARY,
      args: [...ARGUMENTS, ...more],
      timeout: START_MS_MAX,
    });
  }, limit);
  after(() => browser?.close(), limit);
  return { newContext: (options) => browser.newContext(options) };
}

/** A tab with its own cookies; the certificates of tests are self-signed. */
export async function openTab(browser, options = {}) {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width: 400, height: 300 },
    ...options,
  });
  context.setDefaultTimeout(STEP_MS_MAX);
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") page.problems.push(message.text());
  });
  return page;
}

/** Tab options of a small phone in portrait orientation. */
export const PHONE = {
  viewport: { width: 360, height: 640 },
  deviceScaleFactor: 3,
  isMobile: true,
  hasTouch: true,
};
