// How good moving pictures are: what a person chooses in the menu, by key or by the address reaches
// the session, is shown, and is remembered.
// Beside page.test.mjs, against the same scripted session. Needs web/dist (./dev build web) and
// Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { isConnected, openPage, says } from "./opened.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** Of the session's hello: it takes choices of quality. */
const QUALITY = 256;
/** By their bytes. */
const CHOICES = ["auto", "exact", "high", "medium", "low"];
const LOW = "Quality: low — moving pictures are lossy, and take few bytes";

/** The session answers, and shows something. */
async function greet(page, viewer, caps = QUALITY) {
  await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("desk", caps), message.geometry(1, 400, 300));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, 400, 300, 0x406080)]));
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
}

async function opened(t, { caps, ...options } = {}) {
  const { session, page, viewer } = await openPage(t, browser, options);
  await greet(page, viewer, caps);
  return { session, page, viewer };
}

const chosen = (viewer) => choices(viewer).map(({ choice }) => CHOICES[choice]);
const choices = ({ received }) => received.filter(({ kind }) => kind === "pictureQuality");
const notices = (page, words) =>
  page
    .locator("#notice")
    .filter({ hasText: new RegExp(`^${words}$`) })
    .waitFor();

test("a choice of the menu is sent, shown and remembered, and a key goes on", async (t) => {
  const { session, page, viewer } = await opened(t);
  await says(page, "Quality: auto — as the connection allows");
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-quality").press("Enter");
  await page.getByRole("combobox", { name: "Quality of moving pictures" }).selectOption("low");
  await viewer.receive((m) => m.kind === "pictureQuality");
  assert.deepEqual(chosen(viewer), ["low"]);
  await says(page, LOW);
  const words = page.locator("#menu-quality-words");
  assert.equal(await words.textContent(), "Moving pictures are lossy, and take few bytes.");

  await page.reload();
  const second = await session.viewer(1);
  await greet(page, second);
  assert.deepEqual(chosen(second), ["low"]);
  await says(page, LOW);
  assert.equal(await page.locator("#menu-quality").inputValue(), "low");

  second.received.length = 0;
  for (const [at, choice] of [...CHOICES, "auto"].entries()) {
    await page.keyboard.press("Control+Alt+h");
    await notices(page, `Quality: ${choice}`);
    await second.receive(() => choices(second).length > at);
    assert.equal(chosen(second).at(-1), choice);
    assert.equal(await page.locator("#menu-quality").inputValue(), choice);
  }
  const pressed = second.received.filter((m) => m.kind === "key" && m.down).map((m) => m.code);
  assert.deepEqual(new Set(pressed), new Set([29, 56]), "H is the page's");

  // What is chosen while there is no connection holds for the next one.
  session.pause();
  second.socket.destroy();
  await page.locator("#state").waitFor();
  await page.keyboard.press("Control+Alt+h");
  await says(page, "Quality: exact — nothing is lossy; moving pictures may have fewer frames");
  session.resume();
  const third = await session.viewer(2);
  await greet(page, third);
  assert.deepEqual(chosen(third), ["exact"]);
});

test("a key or the menu requests that all is exact for a moment", async (t) => {
  const { page, viewer } = await opened(t);
  const wishes = () => viewer.received.filter((m) => m.kind === "exactFrame").length;
  await page.keyboard.press("Control+Alt+a");
  await notices(page, "For a moment everything is exact");
  await viewer.receive(() => wishes() === 1);
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-quality").press("Enter");
  await page.getByRole("button", { name: "Show it exactly now" }).press("Enter");
  await viewer.receive(() => wishes() === 2);
  assert.deepEqual(page.problems, []);
});

test("a session that sends nothing lossy is asked for nothing", async (t) => {
  const { page, viewer } = await opened(t, { caps: 0 });
  await says(page, "Quality: as it is — this session takes no choice");
  await page.keyboard.press("Control+Alt+a");
  await notices(page, "This session takes no choice of quality");
  await page.evaluate(() => {
    const select = document.getElementById("menu-quality");
    select.value = "low";
    select.dispatchEvent(new Event("change"));
  });
  // What was sent before is read before the barrier that is answered.
  await page.evaluate(() => window.thinc.quiet());
  const kinds = viewer.received.map(({ kind }) => kind);
  assert.ok(!kinds.includes("pictureQuality") && !kinds.includes("exactFrame"), String(kinds));
  await says(page, "Quality: as it is — this session takes no choice");

  viewer.socket.destroy();
  await says(page, LOW);
  await page.keyboard.press("Control+Alt+a");
  await notices(page, "Not connected");
});

test("the address goes before what is remembered, if it names a choice", async (t) => {
  const script = () => localStorage.setItem("thinc quality", "high");
  const { session, page, viewer } = await opened(t, { script, query: "?quality=medium" });
  assert.deepEqual(chosen(viewer), ["medium"]);
  await says(page, "Quality: medium — moving pictures are slightly lossy");
  assert.equal(await page.evaluate(() => localStorage.getItem("thinc quality")), "high");

  const warned = page.waitForEvent("console", (said) => said.type() === "warning");
  await page.goto(`${session.url}?quality=best`);
  const second = await session.viewer(1);
  await greet(page, second);
  assert.match((await warned).text(), /\?quality=best is not one of auto, exact, high/);
  assert.deepEqual(chosen(second), ["high"]);
});
