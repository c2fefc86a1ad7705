// Stereo in a real browser against a scripted session: what a person chooses in the menu, by key or
// by the address reaches the session, both eyes' pictures are on the display as that defines, and
// the menu says nothing of it without a stereo program.
// Beside page.test.mjs. Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { isConnected, openPage, says, screenshotWithoutStatus } from "./opened.mjs";
import { readPng } from "./png.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** Of the session's hello. */
const STEREO = 1024;
const [WIDTH, HEIGHT] = [400, 300];
/** Of the stereo program's window; a part of it is covered by another. */
const PLACE = { x: 51, y: 40, width: 120, height: 80 };
const CLIP = [
  { ...PLACE, height: 30 },
  { x: 91, y: 70, width: 80, height: 50 },
];

const left = (x, y) => [(x * 7) & 255, (y * 5) & 255, (x + y) & 255];
const right = (x, y) => [255 - ((x * 3) & 255), (x * y) & 255, (y * 11) & 255];
const isIn = (rect, x, y) =>
  x >= rect.x && y >= rect.y && x < rect.x + rect.width && y < rect.y + rect.height;
/** What the right eye sees. */
const seen = (x, y) => (CLIP.some((rect) => isIn(rect, x, y)) ? right(x, y) : left(x, y));
const mean = (a, b) => a.map((value, channel) => (value + b[channel]) >> 1);

/** What is on the display. */
const SHOWN = {
  off: left,
  anaglyph: (x, y) => [left(x, y)[0], ...seen(x, y).slice(1)],
  interleaved: (x, y) => (y % 2 === 0 ? left(x, y) : seen(x, y)),
  "side-by-side": (x, y) => {
    if (!isIn(PLACE, x, y)) return left(x, y);
    const half = PLACE.width / 2;
    const [eye, at] = x - PLACE.x < half ? [left, x - PLACE.x] : [seen, x - PLACE.x - half];
    return mean(eye(PLACE.x + 2 * at, y), eye(PLACE.x + 2 * at + 1, y));
  },
};

function pixels(rect, of, bytes) {
  const data = [];
  for (let y = rect.y; y < rect.y + rect.height; y += 1)
    for (let x = rect.x; x < rect.x + rect.width; x += 1) {
      const [r, g, b] = of(x, y);
      data.push(...[b, g, r, 0].slice(0, bytes));
    }
  return Buffer.from(data);
}

const ALL = { x: 0, y: 0, width: WIDTH, height: HEIGHT };

/** The session answers, and shows something. */
async function greet(page, viewer, caps = STEREO) {
  await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("desk", caps), message.geometry(1, WIDTH, HEIGHT));
  viewer.send(message.update(1, 1, [draw.raw(0, 0, WIDTH, HEIGHT, pixels(ALL, left, 3))]));
  await isConnected(page);
  await page.waitForFunction(() => !document.getElementById("menu").classList.contains("open"));
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  await page.evaluate(() => window.thinc.quiet());
}

async function opened(t, { caps, ...options } = {}) {
  const { session, page, viewer } = await openPage(t, browser, options);
  await greet(page, viewer, caps);
  return { session, page, viewer };
}

/** A stereo program is shown. */
async function begin(page, viewer) {
  const { width, height } = PLACE;
  const size = { width, height };
  viewer.send(
    message.update(2, 1, [
      draw.videoInit(3, 0, size, { x: 0, y: 0, ...size }, PLACE, { right: true }),
      draw.videoPixels(3, 1, CLIP, pixels(PLACE, right, 4)),
    ]),
  );
  await page.evaluate(() => window.thinc.quiet());
}

const wishes = ({ received }) =>
  received.filter(({ kind }) => kind === "stereo").map(({ wanted }) => wanted);
const notices = (page, words) =>
  page
    .locator("#notice")
    .filter({ hasText: new RegExp(`^${words}$`) })
    .waitFor();

async function assertShown(page, mode) {
  await page.locator("#notice").waitFor({ state: "hidden" });
  await page.evaluate(() => window.thinc.quiet());
  const { width, data } = readPng(await screenshotWithoutStatus(page));
  assert.equal(width, WIDTH);
  for (let at = 0; at < data.length; at += 4) {
    const [x, y] = [(at / 4) % WIDTH, Math.floor(at / 4 / WIDTH)];
    const wanted = SHOWN[mode](x, y);
    const found = [...data.subarray(at, at + 3)];
    if (String(found) !== String(wanted))
      assert.fail(`${mode}: ${found} and not ${wanted} at ${x}, ${y}`);
  }
}

for (const present of ["2d", "webgl2"])
  test(`both eyes' pictures are shown as chosen: ${present}`, async (t) => {
    const query = `?present=${present}&stereo=anaglyph`;
    const { page, viewer } = await opened(t, { query });
    assert.deepEqual(wishes(viewer), [true]);
    await assertShown(page, "off");
    await begin(page, viewer);
    await assertShown(page, "anaglyph");
    for (const mode of ["side-by-side", "interleaved"]) {
      await page.keyboard.press("Control+Alt+w");
      await notices(page, `Stereo: ${mode}`);
      await assertShown(page, mode);
    }
    assert.deepEqual(wishes(viewer), [true]);
    await page.keyboard.press("Control+Alt+w");
    await notices(page, "Stereo: off");
    await viewer.receive(() => wishes(viewer).length === 2);
    assert.deepEqual(wishes(viewer), [true, false]);
    await assertShown(page, "off");
    assert.deepEqual(page.problems, []);
  });

test("the menu has the choice while there is something to choose", async (t) => {
  const { session, page, viewer } = await opened(t);
  const entry = page.locator("#entry-stereo");
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-quality").waitFor();
  assert.equal(await entry.isHidden(), true, "people without stereo programs see nothing of it");
  await page.keyboard.press("Escape");
  assert.deepEqual(wishes(viewer), []);
  await page.keyboard.press("Control+Alt+w");
  await says(page, "Stereo: anaglyph — for red-cyan glasses");
  await viewer.receive(() => wishes(viewer).length === 1);
  await page.keyboard.press("Control+Alt+m");
  await entry.press("Enter");
  const select = page.getByRole("combobox", { name: "Stereo programs" });
  assert.equal(await select.inputValue(), "anaglyph");
  await begin(page, viewer);
  await select.selectOption("off");
  await says(page, "Stereo: off — only the left eye's picture of stereo programs");
  await viewer.receive(() => wishes(viewer).length === 2);
  assert.equal(await entry.isVisible(), true, "there is a stereo program");
  await select.selectOption("interleaved");
  await viewer.receive(() => wishes(viewer).length === 3);
  assert.deepEqual(wishes(viewer), [true, false, true]);

  // It is remembered, and said on each connection.
  await page.reload();
  const second = await session.viewer(1);
  await greet(page, second);
  assert.deepEqual(wishes(second), [true]);
  await says(page, "Stereo: interleaved — even rows for the left eye, odd rows for the right");
  second.socket.destroy();
  const third = await session.viewer(2);
  await greet(page, third);
  assert.deepEqual(wishes(third), [true]);
});

test("a session without stereo is not asked", async (t) => {
  const { page, viewer } = await opened(t, { caps: 0, query: "?stereo=anaglyph" });
  await says(page, "Stereo: off — this session has no stereo");
  await page.keyboard.press("Control+Alt+w");
  await notices(page, "This session has no stereo");
  await page.evaluate(() => window.thinc.quiet());
  assert.deepEqual(wishes(viewer), []);
});

test("the address goes before what is remembered, if it names a mode", async (t) => {
  const script = () => localStorage.setItem("thinc stereo", "interleaved");
  const { session, page } = await opened(t, { script, query: "?stereo=side-by-side" });
  await says(page, "Stereo: side-by-side — the left eye's picture in the left half");
  const warned = page.waitForEvent("console", (said) => said.type() === "warning");
  await page.goto(`${session.url}?stereo=quad`);
  await greet(page, await session.viewer(1));
  assert.match((await warned).text(), /\?stereo=quad is not one of off, anaglyph, side-by-side/);
  await says(page, "Stereo: interleaved — even rows for the left eye, odd rows for the right");
});
