// Parts of a screen that is larger than the display: what is requested, what is visible meanwhile,
// and where taps arrive.
// Beside touch.test.mjs, against a session that scales on request, whose pixels encode their
// position as colour.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests, PHONE } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { Fingers } from "./fingers.mjs";
import { openPage, screenshotWithoutStatus } from "./opened.mjs";
import { readPng } from "./png.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests();

const SCREEN = { width: 1600, height: 1000 };
const ALL = { x: 0, y: 0, ...SCREEN };
/** Longer than a view must rest before it is requested. */
const REST_MS = 600;

// A session that scales

/** A colour, as blue, green, red, that encodes the position of the screen's pixel. */
const namesOf = (x, y) => [((x >> 8) << 4) | (y >> 8), y & 255, x & 255];
const pixelNamed = ([red, green, blue]) => ({
  x: red | ((blue >> 4) << 8),
  y: green | ((blue & 15) << 8),
});

/** The screen's pixel in the middle of a picture's. */
const under = (at, size, from, length) => from + Math.floor(((2 * at + 1) * length) / (2 * size));

function picture({ width, height }, part) {
  const bgr = Buffer.alloc(width * height * 3);
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      bgr.set(
        namesOf(under(x, width, part.x, part.width), under(y, height, part.y, part.height)),
        (y * width + x) * 3,
      );
    }
  }
  return draw.raw(0, 0, width, height, bgr);
}

/** Shows its screen, and any requested view of it. */
class Scaling {
  epoch = 0;
  seq = 0;

  constructor(viewer, page) {
    Object.assign(this, { viewer, page });
  }

  show(size, part, screen = SCREEN) {
    const shows = part && { screen, part };
    this.viewer.send(message.geometry((this.epoch += 1), size.width, size.height, shows));
    this.viewer.send(message.update((this.seq += 1), this.epoch, [picture(size, part ?? ALL)]));
  }

  get views() {
    return this.viewer.received.filter((m) => m.kind === "view");
  }

  /** The next view that is requested after `asked`, answered and on the canvas. */
  async answer(asked) {
    await this.viewer.receive(() => this.views.length > asked);
    const view = this.views[asked];
    const size = view.width === 0 ? SCREEN : { width: view.width, height: view.height };
    const part = view.part.width === 0 ? ALL : view.part;
    this.show(size, part);
    await this.shown(size);
    return view;
  }

  /** Waits until a picture of this size is on the canvas and laid out. */
  async shown({ width, height }) {
    await this.page.waitForFunction(
      async ([w, h]) => {
        const { width, height } = await window.thinc.stats();
        return width === w && height === h;
      },
      [width, height],
    );
    await this.page.evaluate(() => window.thinc.quiet());
  }
}

async function opened(t, { query = "", tab = PHONE } = {}) {
  const { session, page, viewer } = await openPage(t, browser, { query, tab });
  const hello = await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("large"));
  const scaling = new Scaling(viewer, page);
  scaling.show(SCREEN);
  await page.evaluate(() => window.thinc.quiet());
  return { session, page, viewer, hello, scaling };
}

const box = (page) => page.locator("#screen").boundingBox();

/** The screen's pixel that is visible at each of these places. */
async function seenAt(page, places, ratio) {
  const { width, data } = readPng(await screenshotWithoutStatus(page, page));
  return places.map(([x, y]) =>
    pixelNamed([
      ...data.subarray(
        (y * ratio * width + x * ratio) * 4,
        (y * ratio * width + x * ratio) * 4 + 3,
      ),
    ]),
  );
}

/** Asserts that a tap at each of these places, in CSS pixels, arrives at the visible pixel. */
async function assertTaps({ page, viewer }, fingers, places, off) {
  const seen = await seenAt(page, places, 3);
  for (const [i, place] of places.entries()) {
    viewer.received.length = 0;
    await page.waitForTimeout(300); // no second tap
    await fingers.tap(place);
    await viewer.receive((m) => m.kind === "button" && !m.down);
    const { x, y } = viewer.received.find((m) => m.kind === "motion");
    const far = Math.max(Math.abs(x - seen[i].x), Math.abs(y - seen[i].y));
    assert.ok(
      far <= off,
      `a tap at ${place} arrived at ${x},${y}, and ${seen[i].x},${seen[i].y} is seen there`,
    );
  }
}

test("a phone keeps the screen's size and receives what it shows; taps arrive there", async (t) => {
  const all = await opened(t);
  const { page, viewer, hello, scaling } = all;
  assert.deepEqual([hello.width, hello.height], [0, 0], "no other size is requested");
  const view = await scaling.answer(0);
  assert.deepEqual([view.width, view.height, view.part], [1080, 675, ALL]);
  const { x, y, width, height } = await box(page);
  assert.deepEqual(
    [x, y, width, height].map((edge) => Math.round(edge * 3)),
    [0, 622, 1080, 675],
    "as wide as the display, in the middle",
  );
  assert.equal(
    await page.locator("#screen.blended").count(),
    0,
    "a picture pixel is a display pixel",
  );
  const fingers = await Fingers.of(page);
  // Less than the width of a picture's pixel, which is 1.5 of the screen's.
  await assertTaps(
    all,
    fingers,
    [
      [20, 220],
      [181, 300],
      [300, 415],
      [341, 251],
    ],
    1,
  );
  assert.equal(
    viewer.received.some((m) => ["view", "resize", "displays"].includes(m.kind)),
    false,
    "and nothing else is requested",
  );
  assert.deepEqual(page.problems, []);
});

test("a pinch enlarges the picture at once, and after a rest the real pixels arrive", async (t) => {
  const all = await opened(t);
  const { page, viewer, scaling } = all;
  await scaling.answer(0);
  const fingers = await Fingers.of(page);
  const before = await box(page);
  await fingers.down([160, 320], [200, 320]);
  for (const by of [11, 30, 50]) await fingers.move([160 - by, 320], [200 + by, 320]);
  const pinched = await box(page);
  assert.ok(pinched.width > before.width * 1.8, "at once, from the present picture");
  assert.equal(scaling.views.length, 1, "no request while fingers move");
  await fingers.up();
  const close = await scaling.answer(1);
  const scale = ((await box(page)).width * 3) / close.part.width;
  assert.ok(
    close.part.width < SCREEN.width / 1.5 && close.part.height <= SCREEN.height,
    JSON.stringify(close),
  );
  // As many pixels as the display or the screen has.
  assert.ok(
    Math.abs(close.width - close.part.width * Math.min(1, scale)) <= 1,
    `${JSON.stringify(close)} at ${scale}`,
  );
  // All that is visible is of that part.
  const across = await seenAt(
    page,
    [
      [1, 320],
      [358, 320],
    ],
    3,
  );
  assert.ok(across[1].x - across[0].x > 300 && across[0].x > 0, JSON.stringify(across));
  await assertTaps(
    all,
    fingers,
    [
      [31, 300],
      [180, 320],
      [333, 350],
    ],
    1,
  );

  // A short pan is within the picture; a long one is not.
  viewer.received.length = 0;
  await page.waitForTimeout(300);
  const pan = async (by) => {
    await fingers.down([180, 320]);
    for (const part of [0.5, 1]) await fingers.move([180 + by * part, 320]);
    await fingers.up();
  };
  await pan(40);
  await page.waitForTimeout(REST_MS);
  assert.equal(scaling.views.length, 0, "the margin was present already");
  await pan(150);
  const beside = await scaling.answer(0);
  assert.ok(beside.part.x < close.part.x && beside.part.width > 0);
  await assertTaps(
    all,
    fingers,
    [
      [12, 310],
      [180, 320],
      [350, 330],
    ],
    1,
  );

  // Two to one: the visible pixel is exactly the tapped one.
  viewer.received.length = 0;
  await page.waitForTimeout(300);
  const now = ((await box(page)).width * 3) / beside.part.width;
  await fingers.down([130, 320], [230, 320]);
  await fingers.move([118, 320], [242, 320]);
  const further = (124 * 1.97) / now - 124;
  await fingers.move([118 - further / 2, 320], [242 + further / 2, 320]);
  await fingers.up();
  await page.waitForTimeout(REST_MS);
  assert.equal(scaling.views.length, 0, "there are no more pixels");
  assert.equal(Math.round((await box(page)).width * 3), beside.part.width * 2);
  assert.equal(await page.locator("#screen.blended").count(), 0);
  await assertTaps(
    all,
    fingers,
    [
      [12, 310],
      [99, 333],
      [180, 320],
      [351, 330],
    ],
    0,
  );

  viewer.received.length = 0;
  await page.waitForTimeout(300);
  await fingers.down([30, 320], [330, 320]);
  for (const by of [30, 80, 130]) await fingers.move([30 + by, 320], [330 - by, 320]);
  await fingers.up();
  const back = await scaling.answer(0);
  assert.deepEqual([back.width, back.height, back.part], [1080, 675, ALL]);
  const { width } = await box(page);
  assert.equal(Math.round(width * 3), 1080);
  assert.deepEqual(page.problems, []);
});

test("rotated or reconnected, a phone requests what it shows then", async (t) => {
  const { session, page, viewer, scaling } = await opened(t);
  await scaling.answer(0);
  await page.setViewportSize({ width: 640, height: 360 });
  const wide = await scaling.answer(1);
  assert.deepEqual(
    [wide.width, wide.height, wide.part],
    [1600, 1000, ALL],
    "the screen's own pixels are enough",
  );
  await page.setViewportSize({ width: 360, height: 640 });
  await scaling.answer(2);
  viewer.socket.destroy();
  const again = await session.viewer(1);
  const view = await again.receive((m) => m.kind === "view");
  assert.deepEqual(
    [view.width, view.height, view.part],
    [1080, 675, ALL],
    "at once, before a whole screen has been sent",
  );
});

const DESK = { viewport: { width: 800, height: 600 } };

test("a window without control of the screen's size requests less, later all", async (t) => {
  const { page, viewer, hello, scaling } = await opened(t, { tab: DESK });
  assert.deepEqual([hello.width, hello.height], [800, 600]);
  const view = await scaling.answer(0);
  assert.deepEqual([view.width, view.height, view.part], [800, 500, ALL]);
  await page.mouse.move(400, 300);
  const at = await viewer.receive((m) => m.kind === "motion");
  const [seen] = await seenAt(page, [[400, 300]], 1);
  assert.ok(
    Math.abs(at.x - seen.x) <= 2 && Math.abs(at.y - seen.y) <= 2,
    JSON.stringify([at, seen]),
  );
  // The controlling viewer has left: the screen follows this window, and nothing is scaled.
  scaling.show(
    { width: 800, height: 600 },
    { x: 0, y: 0, width: 800, height: 600 },
    { width: 800, height: 600 },
  );
  await scaling.shown({ width: 800, height: 600 });
  await page.waitForTimeout(REST_MS);
  assert.equal(scaling.views.length, 1, "the same size needs no request");
  assert.deepEqual(page.problems, []);
});

test("the menu offers 1:1, which follows the pointer, and the window's size", async (t) => {
  const { page, viewer, scaling } = await opened(t, { tab: DESK });
  await scaling.answer(0);
  viewer.received.length = 0;
  const choose = async (what) => {
    await page.keyboard.press("Control+Alt+m");
    await page.locator("#entry-view").click();
    await page.locator("#menu-size").selectOption(what);
    await page.mouse.move(400, 300);
    await page.waitForFunction(
      () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
    );
  };
  await choose("actual");
  const part = await scaling.answer(0);
  assert.deepEqual(
    [part.width, part.height],
    [part.part.width, part.part.height],
    "pixel by pixel",
  );
  assert.ok(part.part.width < SCREEN.width && part.part.width >= 800, JSON.stringify(part));
  assert.equal((await box(page)).width, part.part.width);
  const [middle] = await seenAt(page, [[400, 300]], 1);
  assert.deepEqual(middle, { x: 800, y: 500 }, "its middle");
  // To the right edge, and its content becomes visible.
  const furthest = () =>
    Math.max(...viewer.received.filter((m) => m.kind === "motion").map((m) => m.x));
  for (let i = 0; furthest() < SCREEN.width - 1 && i < 400; i += 1)
    await page.mouse.move(799, 300 + (i % 2));
  assert.equal(furthest(), SCREEN.width - 1);
  await scaling.answer(1);
  await page.mouse.move(500, 300);
  const [seen] = await seenAt(page, [[500, 300]], 1);
  const at = await viewer.receive((m) => m.kind === "motion" && m.x === seen.x);
  assert.equal(at.y, seen.y);

  viewer.received.length = 0;
  await choose("fit");
  const fit = await scaling.answer(0);
  assert.deepEqual([fit.width, fit.height, fit.part], [800, 500, ALL]);
  await page.setViewportSize({ width: 640, height: 400 });
  assert.equal((await scaling.answer(1)).width, 640);
  assert.equal(
    viewer.received.some((m) => m.kind === "resize" || m.kind === "displays"),
    false,
    "the screen keeps its size",
  );
  await choose("follow");
  const asked = await viewer.receive((m) => m.kind === "resize");
  assert.deepEqual([asked.width, asked.height], [640, 400]);
  assert.deepEqual(page.problems, []);
});

test("a session that follows is told the scale of the display", async (t) => {
  const { page, viewer } = await opened(t, { tab: { ...DESK, deviceScaleFactor: 2 } });
  const reported = await viewer.receive((m) => m.kind === "displays");
  assert.deepEqual(reported, {
    kind: "displays",
    scale: 200,
    displays: [{ x: 0, y: 0, width: 1600, height: 1200, mm: [0, 0] }],
  });
  await page.setViewportSize({ width: 500, height: 400 });
  await viewer.receive(
    (m) =>
      m.kind === "displays" &&
      m.displays[0].width === 1000 &&
      m.displays[0].height === 800 &&
      m.scale === 200,
  );
});
