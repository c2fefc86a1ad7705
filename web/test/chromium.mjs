// Starts the system's Chromium for a test, without a display, a GPU or a word to the network.
// Used by the tests that need a real browser; THINC_CHROMIUM names another binary.

import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const BINARY = process.env.THINC_CHROMIUM ?? "/usr/bin/chromium";

const ARGUMENTS = [
  "--no-sandbox", // tests run as root in containers; the page under test is ours
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

export async function startChromium(...more) {
  if (!existsSync(BINARY)) throw new Error(`no Chromium at ${BINARY}: apt-get install chromium, or set THINC_CHROMIUM`);
  return chromium.launch({ executablePath: BINARY, args: [...ARGUMENTS, ...more] });
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
