// The page with an administrator's figures, in a real browser, with figures that the test prepares.
// Beside the path: broker_metrics.rs has the real ones.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab } from "./chromium.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests();

/** As in session-server/src/monitor/http.rs. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const FILES = { "/": "monitor.html", "/monitor.js": "monitor.js", "/monitor.css": "monitor.css" };
/** More than from one reading to the next. */
const INTERVAL_MS = 6000;

const times = (count) => ({ counts: [0, 0, 0, count, ...Array(11).fill(0)], sum_us: 800 * count });

function figures(sentBytes, broker) {
  return {
    sessions: 3,
    viewed_sessions: 2,
    viewers: [["tcp", 2]],
    counts: {
      echo: times(4),
      round_trip: times(4),
      encode: times(4),
      command_bytes: Array(9).fill(0),
      sent_bytes: sentBytes,
      updates: 4,
    },
    memory: [["helper", 4 << 20]],
    broker,
    rows: [],
  };
}

const BROKER = {
  open_logins: 1,
  logins: 1,
  refusals: [["refused", 0]],
  unauthenticated: 0,
  is_draining: false,
  waiting: 0,
  refused_starts: 0,
  waited_starts: 0,
  pressure_percent: [["memory", 3]],
  implausible: 0,
};

/** A page whose time and figures are the test's. */
async function opened(t) {
  const page = await openTab(browser);
  t.after(() => page.context().close());
  // Readings that wait for their answer.
  const asked = [];
  let wake = () => {};
  await page.route("**/*", (route) => {
    const { pathname } = new URL(route.request().url());
    if (pathname === "/figures.json") {
      asked.push(route);
      return wake();
    }
    const file = FILES[pathname];
    return route.fulfill({
      body: readFileSync(new URL(`../dist/${file}`, import.meta.url)),
      contentType: { html: "text/html", js: "text/javascript", css: "text/css" }[
        file.split(".").pop()
      ],
      headers: { "Content-Security-Policy": POLICY },
    });
  });
  await page.clock.install();
  await page.goto("http://localhost:9187/");
  const reading = async () => {
    while (asked.length === 0) await new Promise((resolve) => (wake = resolve));
    return asked.shift();
  };
  return { page, asked, reading };
}

const state = (page, text) => page.locator("#state").filter({ hasText: text }).waitFor();

/** How many lines the plot of this title has, and what stands below it. */
const plot = (page, title) =>
  page.evaluate((title) => {
    const all = [...document.querySelectorAll("figure")];
    const figure = all.find((one) => one.firstElementChild.textContent === title);
    const [picture] = figure.querySelectorAll("svg");
    const lines = picture.querySelectorAll("polyline").length;
    return { lines, text: figure.querySelector("ul").textContent };
  }, title);

const SENT = "Sent in a second";

/** What stands below the plot once that is another text. The page's policy forbids other waits. */
async function sentAfter(page, text) {
  for (;;) {
    const now = (await plot(page, SENT)).text;
    if (now !== text) return now;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test("a restart is no negative rate, a failed reading a gap, and a pause too", async (t) => {
  const { page, asked, reading } = await opened(t);
  await (await reading()).fulfill({ json: figures(1_000_000, BROKER) });
  await state(page, "Read every");
  assert.equal((await plot(page, SENT)).lines, 1);
  assert.equal(await page.locator("#caption").isVisible(), true);

  // An answer takes longer than it is from one reading to the next: nobody asks again meanwhile.
  await page.clock.runFor(INTERVAL_MS);
  const slow = await reading();
  await page.clock.runFor(2 * INTERVAL_MS);
  assert.equal(asked.length, 0);
  await slow.fulfill({ json: figures(19_000_000, BROKER) });
  const sent = await sentAfter(page, "bytes: 0 B");
  assert.match(sent, /^bytes: \d+ KiB$/);

  // Started again, the server counts from 0.
  await page.clock.runFor(INTERVAL_MS);
  await (await reading()).fulfill({ json: figures(1800, BROKER) });
  assert.match(await sentAfter(page, sent), /^bytes: [1-3]\d\d B$/);
  assert.equal((await plot(page, SENT)).lines, 1);

  // A reading without figures is a gap in every line.
  await page.clock.runFor(INTERVAL_MS);
  await (await reading()).fulfill({ status: 503, body: "no figures at this moment" });
  await state(page, "no figures at this moment");
  assert.equal((await plot(page, SENT)).text, "bytes: none");
  await page.clock.runFor(INTERVAL_MS);
  await (await reading()).fulfill({ json: figures(3600, BROKER) });
  await state(page, "Read every");
  assert.equal((await plot(page, SENT)).lines, 2);
  assert.equal((await plot(page, "Sessions")).lines, 4);

  // Paused while a reading is on its way: its answer changes nothing, and no other follows.
  await page.clock.runFor(INTERVAL_MS);
  const late = await reading();
  await page.locator("#pause").click();
  const before = await page.locator("main").innerHTML();
  await Promise.all([
    page.waitForResponse((answer) => answer.url().endsWith("figures.json")),
    late.fulfill({ json: figures(9_000_000, null) }),
  ]);
  await page.clock.runFor(2 * INTERVAL_MS);
  assert.equal(await page.locator("main").innerHTML(), before);
  assert.equal(await page.locator("#state").textContent(), "Paused.");
  assert.equal(asked.length, 0);
  await page.locator("#pause").click();
  await (await reading()).fulfill({ json: figures(5400, null) });
  await state(page, "Read every");
  assert.equal((await plot(page, SENT)).lines, 3);
  // What a session tells of itself, no agent has told.
  assert.equal(await page.locator("#caption").isVisible(), false);
  assert.deepEqual(
    page.problems.filter((problem) => !problem.includes("503")),
    [],
  );
});
