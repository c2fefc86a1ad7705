// Night colours and gamma in real browsers against a scripted session: what is on the display has
// the tables' colours, and the viewer's pixels have the session's.
// Beside page.test.mjs; tests/tests/gamma.rs has an X server that sets the tables.
// Needs web/dist (./dev build web), Chromium and Firefox.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, FakeSession, message } from "./fake-session.mjs";
import { Firefox } from "./firefox.mjs";
import { framebuffer, isConnected, openPage, screenshotWithoutStatus } from "./opened.mjs";
import { readPng } from "./png.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

const WIDTH = 400;
const HEIGHT = 300;
const ALL = [0, 0, 16384, 16384];
const PAINT_MS_MAX = 30_000;

/** What each value is shown as, of each channel. */
const table = (of) =>
  [0, 1, 2].map((channel) => Array.from({ length: 256 }, (_, v) => of(v, channel)));
const BLACK = table(() => 0);
const INVERTED = table((value) => 255 - value);
/** As programs for night colours set it. */
const NIGHT = table((value, channel) => Math.floor(value * [1, 0.77, 0.55][channel]));
/** Every value, in no order: nothing may be interpolated. */
const SHUFFLED = table((value, channel) => (value * 101 + channel * 37) % 256);

/** All 256 values of each channel, and some colours beside them. */
function picture() {
  const fills = [draw.fill(0, 0, WIDTH, HEIGHT, 0x204060)];
  for (let value = 0; value < 256; value += 1)
    fills.push(draw.fill(value, 0, 1, HEIGHT, (value << 16) | ((255 - value) << 8) | (value ^ 85)));
  return fills;
}

const hello = () => [message.hello("desk"), message.geometry(1, WIDTH, HEIGHT)];

async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  await viewer.receive((m) => m.kind === "hello");
  viewer.send(...hello(), message.update(1, 1, picture()));
  await isConnected(page);
  await menuGone(page);
  await page.evaluate(() => window.thinc.quiet());
  return { session, page, viewer };
}

/** It hints at itself over the picture, at first. */
async function menuGone(page) {
  await page.waitForFunction(() => !document.getElementById("menu").classList.contains("open"));
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
}

const filterOf = () => document.getElementById("screen").style.filter;

/** Sends areas, and waits until the filter has their tables, or only those that can be `seen`. */
async function send(page, viewer, areas, seen = areas) {
  viewer.send(message.gamma(areas));
  await page.waitForFunction(
    (wanted) => {
      const functions = document.querySelectorAll("#gamma > feComponentTransfer > *");
      const entries = Array.from(functions, (one) =>
        one
          .getAttribute("tableValues")
          .split(" ")
          .map((value) => Math.floor(value * 255)),
      );
      return JSON.stringify(entries) === wanted;
    },
    JSON.stringify(seen.flatMap(({ channels }) => channels)),
  );
  await page.evaluate(() => window.thinc.quiet());
}

/** What is on the display, and the viewer's pixels. */
async function both(page) {
  const { data } = await framebuffer(page);
  const shown = readPng(await screenshotWithoutStatus(page));
  assert.deepEqual([shown.width, shown.height], [WIDTH, HEIGHT]);
  return { pixels: data, shown: shown.data };
}

/** `tableAt`: what each pixel is shown by; undefined: as it is. */
function assertShown({ pixels, shown }, tableAt, words) {
  for (let at = 0; at < pixels.length; at += 4) {
    const [x, y] = [(at / 4) % WIDTH, Math.floor(at / 4 / WIDTH)];
    const channels = tableAt(x, y);
    for (let channel = 0; channel < 3; channel += 1) {
      const own = pixels[at + channel];
      const wanted = channels === undefined ? own : channels[channel][own];
      if (shown[at + channel] !== wanted)
        assert.fail(`${words}: ${own} is ${shown[at + channel]}, not ${wanted}, at ${x}, ${y}`);
    }
  }
}

for (const present of ["2d", "webgl2"])
  test(`the display has the table's colours, the pixels the session's: ${present}`, async (t) => {
    const { page, viewer } = await opened(t, { query: `?present=${present}` });
    const before = await both(page);
    assertShown(before, () => undefined, "plain");
    assert.equal(await page.evaluate(filterOf), "", "no filter is in the way");
    for (const [words, channels] of Object.entries({ NIGHT, INVERTED, BLACK, SHUFFLED })) {
      await send(page, viewer, [{ rect: ALL, channels }]);
      const now = await both(page);
      assert.deepEqual(now.pixels, before.pixels, words);
      assertShown(now, () => channels, words);
    }
    // What is drawn now is shown by it too, also a video's frame.
    const size = { width: 64, height: 32 };
    const place = { x: 20, y: 180, ...size };
    const frame = Buffer.from(
      Array.from({ length: 64 * 32 * 1.5 }, (_, at) => (at < 64 * 32 ? 16 + (at % 220) : 90)),
    );
    viewer.send(
      message.update(2, 1, [
        draw.fill(0, 100, WIDTH, 50, 0x123456),
        draw.videoInit(0, 0, size, { x: 0, y: 0, ...size }, place),
        draw.videoPlain(0, 1, [place], frame),
      ]),
    );
    await page.evaluate(() => window.thinc.quiet());
    const drawn = await both(page);
    for (const [what, x, y] of [
      ["the fill", 10, 120],
      ["the frame", 50, 200],
    ]) {
      const at = (y * WIDTH + x) * 4;
      const colors = [before, drawn].map(({ pixels }) => pixels.slice(at, at + 3));
      assert.notDeepEqual(colors[0], colors[1], what);
    }
    assertShown(drawn, () => SHUFFLED, "drawn later");
    viewer.send(message.gamma([]));
    await page.waitForFunction(() => document.getElementById("screen").style.filter === "");
    assertShown(await both(page), () => undefined, "plain again");
    assert.deepEqual(page.problems, [], "the page's policy allows it");
  });

test("each monitor has its own table, and of two the first counts", async (t) => {
  const { page, viewer } = await opened(t);
  await send(page, viewer, [
    { rect: [0, 0, 150, 200], channels: INVERTED },
    { rect: [100, 0, 200, 250], channels: NIGHT },
  ]);
  const at = (x, y) => {
    if (x < 150 && y < 200) return INVERTED;
    return x >= 100 && x < 300 && y < 250 ? NIGHT : undefined;
  };
  assertShown(await both(page), at, "two monitors");
  // All of a screen, at half its size.
  const screen = { width: 2 * WIDTH, height: 2 * HEIGHT };
  const shown = { screen, part: { x: 0, y: 0, ...screen } };
  viewer.send(message.geometry(2, WIDTH, HEIGHT, shown), message.update(2, 2, picture()));
  await page.evaluate(() => window.thinc.quiet());
  await send(page, viewer, [
    { rect: [0, 0, 200, 1000], channels: INVERTED },
    { rect: [200, 0, 600, 600], channels: NIGHT },
  ]);
  assertShown(await both(page), (x) => (x < 100 ? INVERTED : NIGHT), "half the size");
});

test("monitors that the canvas does not show change no colour of it", async (t) => {
  const { page, viewer } = await opened(t);
  const near = { rect: [0, 0, 150, 200], channels: INVERTED };
  const all = { rect: [0, 0, WIDTH, HEIGHT], channels: NIGHT };
  const beside = { rect: [WIDTH, 0, 300, 300], channels: BLACK };
  const below = { rect: [0, HEIGHT, 300, 300], channels: BLACK };
  const isNear = (x, y) => x < 150 && y < 200;
  await send(page, viewer, [beside, near, below], [near]);
  assertShown(await both(page), (x, y) => (isNear(x, y) ? INVERTED : undefined), "one is here");
  await send(page, viewer, [near, beside, all, { rect: ALL, channels: BLACK }], [near, all]);
  assertShown(await both(page), (x, y) => (isNear(x, y) ? INVERTED : NIGHT), "one is behind");
  await send(page, viewer, [beside, below], []);
  assert.equal(await page.evaluate(filterOf), "", "no filter is in the way");
  assertShown(await both(page), () => undefined, "none is here");
  // The canvas comes to show them: all of a larger screen, at half its size.
  const screen = { width: 2 * WIDTH, height: 2 * HEIGHT };
  const shown = { screen, part: { x: 0, y: 0, ...screen } };
  viewer.send(message.geometry(2, WIDTH, HEIGHT, shown), message.update(2, 2, picture()));
  await page.waitForFunction(() => document.getElementById("screen").style.filter !== "");
  await page.evaluate(() => window.thinc.quiet());
  const isBlack = (x, y) => (y < 150 ? x >= 200 && x < 350 : x < 150);
  const at = (x, y) => (isBlack(x, y) ? BLACK : undefined);
  assertShown(await both(page), at, "both are here now");
});

// Programs for night colours set one monitor after the other at each step of a fade.
test("between two tables of all monitors filter and cursor keep what they have", async (t) => {
  const { page, viewer } = await opened(t);
  await send(page, viewer, [{ rect: ALL, channels: INVERTED }]);
  const color = () => document.getElementById("stage").style.cursor;
  const before = await page.evaluate(color);
  viewer.send(message.cursor(2, 1, 0, 0, Buffer.from([32, 16, 8, 255, 0, 0, 0, 0])));
  await page.waitForFunction(
    (old) => document.getElementById("stage").style.cursor !== old,
    before,
  );
  await page.evaluate(() => {
    window.cursors = [];
    const stage = document.getElementById("stage");
    new MutationObserver(() => window.cursors.push(stage.style.cursor)).observe(stage, {
      attributeFilter: ["style"],
    });
    window.transfer = document.querySelector("#gamma > feComponentTransfer");
  });
  const both = [
    { rect: [0, 0, 200, HEIGHT], channels: NIGHT },
    { rect: [200, 0, 200, HEIGHT], channels: INVERTED },
  ];
  await send(page, viewer, both);
  await page.evaluate(() => new Promise(requestAnimationFrame));
  assert.deepEqual(await page.evaluate(() => window.cursors), [], "it keeps what it had");
  await send(page, viewer, [{ rect: ALL, channels: NIGHT }]);
  await page.waitForFunction(() => window.cursors.length > 0);
  const cursors = await page.evaluate(() => new Set(window.cursors).size);
  assert.equal(cursors, 1, "one change in all");
  const stays = () => document.querySelector("#gamma > feComponentTransfer") === window.transfer;
  assert.ok(await page.evaluate(stays), "the same filter");
});

test("what is shown stays while the page reconnects, and then the session says it", async (t) => {
  const { session, page, viewer } = await opened(t);
  await send(page, viewer, [{ rect: ALL, channels: NIGHT }]);
  session.pause();
  viewer.socket.destroy();
  await page.locator("#state").waitFor();
  assert.notEqual(await page.evaluate(filterOf), "", "while there is no connection");
  session.resume();
  const second = await session.viewer(1);
  await second.receive((m) => m.kind === "hello");
  second.send(...hello(), message.gamma([{ rect: ALL, channels: INVERTED }]));
  second.send(message.update(1, 1, picture()));
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
  assertShown(await both(page), () => INVERTED, "the session has another table");
  second.socket.destroy();
  const third = await session.viewer(2);
  await third.receive((m) => m.kind === "hello");
  third.send(...hello(), message.update(1, 1, picture()));
  await page.waitForFunction(() => document.getElementById("screen").style.filter === "");
  await page.evaluate(() => window.thinc.quiet());
  assertShown(await both(page), () => undefined, "the session has none any more");
});

test("the cursor is in the colours of a table of all monitors", async (t) => {
  const { page, viewer } = await opened(t);
  const image = () => document.getElementById("stage").style.cursor;
  /** Straight colours of the browser's cursor. */
  const rgba = () =>
    page.evaluate(async () => {
      const [, url] = /url\("([^"]+)"\)/.exec(document.getElementById("stage").style.cursor);
      const picture = new Image();
      picture.src = url;
      await picture.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [picture.width, picture.height];
      const context = canvas.getContext("2d");
      context.drawImage(picture, 0, 0);
      return Array.from(context.getImageData(0, 0, 2, 1).data);
    });
  const changed = (before) =>
    page.waitForFunction((old) => document.getElementById("stage").style.cursor !== old, before);
  const before = await page.evaluate(image);
  // An opaque pixel of blue 32, green 16, red 8, and a transparent one.
  viewer.send(message.cursor(2, 1, 0, 0, Buffer.from([32, 16, 8, 255, 0, 0, 0, 0])));
  await changed(before);
  const own = await page.evaluate(image);
  assert.deepEqual(await rgba(), [8, 16, 32, 255, 0, 0, 0, 0]);
  await send(page, viewer, [{ rect: ALL, channels: INVERTED }]);
  await changed(own);
  assert.deepEqual(await rgba(), [247, 239, 223, 255, 0, 0, 0, 0]);
  const inverted = await page.evaluate(image);
  // It may be on another monitor: it keeps the table that all have had last.
  await send(page, viewer, [{ rect: [0, 0, 100, 100], channels: INVERTED }]);
  assert.equal(await page.evaluate(image), inverted);
  const isThere = (x, y) => x < 100 && y < 100;
  const at = (x, y) => (isThere(x, y) ? INVERTED : undefined);
  assertShown(await both(page), at, "pixels in no area stay, after an area that was all");
  await send(page, viewer, []);
  await changed(inverted);
  assert.equal(await page.evaluate(image), own, "plain again");
});

test("with ?gamma=off colours are shown as they are", async (t) => {
  const { page, viewer } = await opened(t, { query: "?gamma=off" });
  viewer.send(message.gamma([{ rect: ALL, channels: BLACK }]));
  viewer.send(message.update(2, 1, [draw.fill(0, 100, WIDTH, 50, 0x123456)]));
  await page.evaluate(() => window.thinc.quiet());
  assertShown(await both(page), () => undefined, "off");
  assert.equal(await page.evaluate(filterOf), "");
});

test("the display has the table's colours in Firefox too", async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link("good-token"));
  const viewer = await session.viewer(0);
  const size = await firefox.run("return [innerWidth, innerHeight]");
  viewer.send(message.hello("desk"), message.geometry(1, ...size));
  viewer.send(message.update(1, 1, picture().slice(1)));
  await firefox.waitFor("return document.getElementById('state').hidden");
  for (const [areas, at] of [
    [[{ rect: ALL, channels: SHUFFLED }], () => SHUFFLED],
    [
      [
        { rect: [0, 0, 100, 16384], channels: INVERTED },
        { rect: ALL, channels: NIGHT },
      ],
      (x) => (x < 100 ? INVERTED : NIGHT),
    ],
  ]) {
    viewer.send(message.gamma(areas));
    await firefox.waitFor(
      `return document.querySelectorAll("#gamma > feComponentTransfer").length === ${areas.length}`,
    );
    const pixels = await firefox.run(`await page.thinc.quiet();
      const { data, width } = await page.thinc.pixels();
      return Array.from(data.slice(0, width * 4));`);
    /** The first colour of the display that is not the table's. */
    const wrong = ({ width, data }) => {
      for (let x = 0; x < 256; x += 1)
        for (let channel = 0; channel < 3; channel += 1) {
          // Below the status line.
          const there = data[(200 * width + x) * 4 + channel];
          const own = pixels[x * 4 + channel];
          const wanted = at(x)[channel][own];
          if (there !== wanted) return `${own} at ${x} is ${there}, not ${wanted}`;
        }
      return undefined;
    };
    // On a busy machine Firefox paints a new filter some frames after it was set.
    const end = performance.now() + PAINT_MS_MAX;
    let words = wrong(readPng(await firefox.screenshot()));
    while (words !== undefined && performance.now() < end)
      words = wrong(readPng(await firefox.screenshot()));
    assert.equal(words, undefined, `${areas.length} areas`);
  }
});
