// Fingers and pens on the page, as the browsers of phones and tablets report them, and what the
// session receives.
// Beside page.test.mjs, against the same scripted session; a real one is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test as nodeTest } from "node:test";
import { chromiumForTests, PHONE } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { Fingers } from "./fingers.mjs";
import { openPage } from "./opened.mjs";
import { assertSamePixels, readPng } from "./png.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/**
 * A phone that shows a session of its own size, before any input; phones with a part of a larger
 * screen are in zoom.test.mjs.
 */
async function opened(t, { query = "?size=follow", tab = PHONE } = {}) {
  const { page, viewer } = await openPage(t, browser, { query, tab });
  const hello = await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("phone"), message.geometry(1, hello.width, hello.height));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, hello.width, hello.height, 0x406080)]));
  await page.evaluate(() => window.thinc.quiet());
  viewer.received.length = 0;
  return { page, viewer, hello, fingers: await Fingers.of(page) };
}

/** Kinds of input messages, without acknowledgements. */
const DONE = new Set(["motion", "button", "scroll", "touch", "key", "releaseAll"]);

function done(viewer) {
  return viewer.received
    .filter((m) => DONE.has(m.kind))
    .map((m) =>
      m.kind === "motion"
        ? `to ${m.x},${m.y}`
        : m.kind === "button"
          ? `${m.down ? "press" : "release"} ${m.button}`
          : m.kind,
    );
}

const released = (viewer, button) =>
  viewer.receive((m) => m.kind === "button" && m.button === button && !m.down);

test("a phone requests a screen for dialogs and readable text, in whole pixels", async (t) => {
  for (const [width, height, ratio, wanted] of [
    [360, 640, 3, [540, 960]],
    [414, 896, 2, [828, 1792]],
    [1024, 1366, 2, [1024, 1366]],
    [320, 568, 1, [320, 568]],
  ]) {
    const { page, hello } = await opened(t, {
      tab: { ...PHONE, viewport: { width, height }, deviceScaleFactor: ratio },
    });
    assert.deepEqual([hello.width, hello.height], wanted, `${width} x ${height} at ${ratio}`);
    const box = await page.locator("#screen").boundingBox();
    assert.deepEqual(
      [box.x, box.y, box.width, box.height],
      [0, 0, width, height],
      "the whole window",
    );
    assert.equal(await page.locator("#screen.blended").count(), 0, "crisp");
    await page.context().close();
  }
});

test("a tap is a click at the finger; two taps are a double click at one place", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  await fingers.tap([100, 200]);
  await released(viewer, 1);
  assert.deepEqual(done(viewer), ["to 150,300", "press 1", "release 1"]);

  // Longer than a double click.
  await page.waitForTimeout(400);
  viewer.received.length = 0;
  await fingers.tap([40, 50]);
  await fingers.soon().tap([48, 57]);
  await viewer.receive(() => viewer.received.filter((m) => m.kind === "button").length === 4);
  assert.deepEqual(
    done(viewer),
    ["to 60,75", "press 1", "release 1", "press 1", "release 1"],
    "the second tap was beside the first",
  );
  assert.deepEqual(page.problems, []);
});

test("a long press shows its meaning: lifting clicks the right button, moving drags", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  const hint = (what) =>
    page.waitForFunction((what) => document.getElementById("hold").dataset.hint === what, what);
  await fingers.down([120, 240]);
  await hint("held");
  await page.getByText("Right button · move to drag").waitFor();
  const label = await page.locator("#hold span").boundingBox();
  assert.ok(label.y + label.height < 240 - 30, "above the finger, visible");
  assert.deepEqual(done(viewer), [], "nothing is sent before the gesture is known");
  await fingers.up();
  await released(viewer, 3);
  await hint("none");
  assert.deepEqual(done(viewer), ["to 180,360", "press 3", "release 3"]);

  viewer.received.length = 0;
  await fingers.down([60, 60]);
  await hint("held");
  const below = await page.locator("#hold span").boundingBox();
  assert.ok(
    below.y > 60 + 30 && below.x >= 0,
    "below if there is no room above, and completely visible",
  );
  await fingers.move([90, 60]);
  await hint("none");
  await fingers.up();
  await released(viewer, 1);
  const [to, press, ...rest] = done(viewer);
  assert.deepEqual(
    [to, press, rest.at(-2), rest.at(-1)],
    ["to 90,90", "press 1", "to 135,90", "release 1"],
  );
  assert.deepEqual(page.problems, []);
});

test("a moving finger drags from where it began, also after a tap", async (t) => {
  const { viewer, fingers } = await opened(t);
  await fingers.down([100, 100]);
  for (const x of [104, 120, 140, 160]) await fingers.move([x, 100]);
  await fingers.up();
  await released(viewer, 1);
  const steps = done(viewer);
  assert.deepEqual(steps.slice(0, 2), ["to 150,150", "press 1"]);
  assert.deepEqual(steps.slice(-2), ["to 240,150", "release 1"]);

  viewer.received.length = 0;
  await fingers.tap([200, 300]);
  await fingers.soon().down([204, 300]);
  await viewer.receive(
    () => viewer.received.filter((m) => m.kind === "button" && m.down).length === 2,
  );
  await fingers.move([204, 340]);
  await fingers.up();
  await viewer.receive(() => viewer.received.filter((m) => m.kind === "button").length === 4);
  assert.deepEqual(done(viewer), [
    "to 300,450",
    "press 1",
    "release 1",
    "press 1",
    "to 306,510",
    "release 1",
  ]);
});

test("two fingers scroll as far as they move, by fractions of a notch, no inertia", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  await fingers.down([100, 300], [160, 300]);
  for (let y = 290; y >= 180; y -= 10) await fingers.move([100, y], [161, y]);
  await fingers.up();
  // Something after it, so that all of it has arrived.
  await fingers.tap([10, 600]);
  await released(viewer, 1);
  const scrolls = viewer.received.filter((m) => m.kind === "scroll");
  assert.ok(scrolls.length > 3, "smoothly");
  assert.ok(
    scrolls.every((m) => m.dx === 0),
    "along one axis, although the fingers are not quite",
  );
  // From where it became a scroll: 120 pixels less the first steps, 60 pixels per notch of 120.
  const sum = scrolls.reduce((sum, m) => sum + m.dy, 0);
  assert.ok(sum >= 200 && sum <= 240, `the page follows the fingers up: ${sum}`);
  const first = viewer.received.findIndex((m) => m.kind === "scroll");
  assert.equal(
    viewer.received
      .slice(0, first)
      .filter((m) => m.kind === "motion")
      .at(-1).x,
    195,
    "at the point between the fingers",
  );
  const last = viewer.received.findLastIndex((m) => m.kind === "scroll");
  const tap = viewer.received.findIndex((m) => m.kind === "button");
  assert.ok(last < tap && !viewer.received.some((m) => m.kind === "button" && m.button !== 1));
  assert.deepEqual(page.problems, []);
});

test("two fingers tap for the right button, three for the middle one", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  await fingers.tap([100, 200], [140, 200]);
  await released(viewer, 3);
  assert.deepEqual(done(viewer), ["to 180,300", "press 3", "release 3"]);
  viewer.received.length = 0;
  await fingers.tap([100, 300], [140, 300], [180, 300]);
  await released(viewer, 2);
  assert.deepEqual(done(viewer), ["to 210,450", "press 2", "release 2"]);
  assert.deepEqual(page.problems, []);
});

test("a pinch zooms around the fingers, one finger pans, and positions stay exact", async (t) => {
  const { page, viewer, hello, fingers } = await opened(t);
  const box = () => page.locator("#screen").boundingBox();
  await fingers.down([160, 320], [200, 320]);
  for (const by of [10, 20, 30, 40]) await fingers.move([160 - by, 320], [200 + by, 320]);
  await fingers.up();
  const zoomed = await box();
  const scale = (zoomed.width * 3) / hello.width;
  assert.ok(scale > 3 && scale <= 6, `${scale} pixels of the display for each of the session`);
  assert.deepEqual(done(viewer), [], "only the view changes: nothing is sent");

  // The pixel under the finger is the one that is clicked.
  const tapped = async (x, y) => {
    viewer.received.length = 0;
    await fingers.tap([x, y]);
    await released(viewer, 1);
    const { x: left, y: top, width } = await box();
    const factor = hello.width / width;
    const wanted = [
      Math.floor((x + 0.001 - left) * factor),
      Math.floor((y + 0.001 - top) * factor),
    ];
    const { x: gotX, y: gotY } = viewer.received.find((m) => m.kind === "motion");
    assert.deepEqual([gotX, gotY], wanted);
  };
  await tapped(31, 77);
  await page.waitForTimeout(300); // so that the next touch is no second tap

  viewer.received.length = 0;
  await fingers.down([200, 400]);
  for (const y of [420, 440, 460]) await fingers.move([200, y]);
  await fingers.up();
  const panned = await box();
  assert.equal(Math.round(panned.y - zoomed.y), 60, "the picture follows the finger");
  assert.deepEqual(done(viewer), []);
  await tapped(299, 555);
  await page.waitForTimeout(300);

  // A long press and a drag to the edge: the picture moves along, and the pointer goes further than
  // was visible.
  const before = await box();
  viewer.received.length = 0;
  await fingers.down([180, 320]);
  await page.waitForFunction(() => document.getElementById("hold").dataset.hint === "held");
  for (const x of [240, 300, 340, 352, 354, 356, 357, 358]) await fingers.move([x, 320]);
  await fingers.up();
  await released(viewer, 1);
  const after = await box();
  assert.ok(
    after.x < before.x && Math.abs(after.width - before.width) < 0.01,
    `${before.x} to ${after.x}`,
  );
  const furthest = Math.max(...viewer.received.filter((m) => m.kind === "motion").map((m) => m.x));
  assert.ok(
    furthest > ((360 - before.x) * hello.width) / before.width,
    `${furthest} was out of sight`,
  );

  // Out again, further than the whole picture.
  await fingers.down([60, 320], [300, 320]);
  for (const by of [20, 50, 80, 100]) await fingers.move([60 + by, 320], [300 - by, 320]);
  await fingers.up();
  assert.deepEqual(await box(), { x: 0, y: 0, width: 360, height: 640 });
  assert.deepEqual(page.problems, []);
});

test("a zoom that ends near a whole number of pixels snaps to it", async (t) => {
  const { page, viewer, hello, fingers } = await opened(t);
  const noise = randomBytes(hello.width * hello.height * 3);
  viewer.send(message.update(2, 1, [draw.raw(0, 0, hello.width, hello.height, noise)]));
  await page.evaluate(() => window.thinc.quiet());
  await fingers.down([140, 320], [220, 320]);
  // It becomes a pinch at a distance of 102; 200 is from 2 display pixels to 3.92, and so to 4.
  for (const by of [11, 30]) await fingers.move([140 - by, 320], [220 + by, 320]);
  assert.equal(await page.locator("#screen.blended").count(), 1, "a fractional scale");
  await fingers.move([80, 320], [280, 320]);
  await fingers.up();
  assert.equal(await page.locator("#screen.blended").count(), 0);
  const box = await page.locator("#screen").boundingBox();
  assert.deepEqual([(box.width * 3) / hello.width, (box.height * 3) / hello.height], [4, 4]);
  const shown = readPng(await page.screenshot({ animations: "disabled" }));
  assert.deepEqual([shown.width, shown.height], [1080, 1920]);
  const [left, top] = [Math.round(-box.x * 3), Math.round(-box.y * 3)];
  const wanted = Buffer.alloc(200 * 200 * 4, 255);
  const seen = Buffer.alloc(200 * 200 * 4, 255);
  for (let y = 0; y < 200; y += 1) {
    for (let x = 0; x < 200; x += 1) {
      const [atX, atY] = [400 + x, 800 + y];
      const pixel = Math.floor((top + atY) / 4) * hello.width + Math.floor((left + atX) / 4);
      for (const channel of [0, 1, 2])
        wanted[(y * 200 + x) * 4 + channel] = noise[pixel * 3 + 2 - channel];
      shown.data.copy(seen, (y * 200 + x) * 4, (atY * 1080 + atX) * 4, (atY * 1080 + atX) * 4 + 3);
    }
  }
  assertSamePixels(
    { width: 200, height: 200, data: seen },
    { width: 200, height: 200, data: wanted },
    "four display pixels per pixel",
  );
});

test("a pen points, hovers, presses; its barrel is the right button, no palm", async (t) => {
  const { page, viewer } = await opened(t);
  const pen = (type, x, y, buttons = 0, pointerType = "pen") =>
    page.evaluate(
      ([type, x, y, buttons, pointerType]) => {
        const options = {
          pointerId: pointerType === "pen" ? 7 : 8,
          pointerType,
          clientX: x,
          clientY: y,
          buttons,
          bubbles: true,
          cancelable: true,
        };
        // there is no such pointer to capture
        document.getElementById("stage").setPointerCapture = () => undefined;
        document.getElementById("stage").dispatchEvent(new PointerEvent(type, options));
      },
      [type, x, y, buttons, pointerType],
    );
  await pen("pointermove", 20, 20);
  await pen("pointerdown", 20, 20, 1);
  await pen("pointerdown", 200, 500, 1, "touch"); // the palm
  await pen("pointermove", 40, 20, 1);
  await pen("pointermove", 210, 500, 1, "touch");
  await pen("pointerup", 40, 20, 0);
  await pen("pointerup", 210, 500, 0, "touch");
  await pen("pointerdown", 60, 20, 2);
  await pen("pointerup", 60, 20, 0);
  await pen("pointermove", 80, 20, 32);
  await pen("pointermove", 100, 20, 0);
  await viewer.receive((m) => m.kind === "motion" && m.x === 150);
  assert.deepEqual(done(viewer), [
    "to 30,30",
    "press 1",
    "to 60,30",
    "release 1",
    "to 90,30",
    "press 3",
    "release 3",
    "to 150,30",
  ]);
  assert.deepEqual(page.problems, []);
});

test("applications receive the touches themselves if the user asks for it", async (t) => {
  const { viewer, fingers } = await opened(t, { query: "?touch=applications&size=follow" });
  await fingers.down([100, 100], [200, 100]);
  await fingers.move([100, 120], [200, 120]);
  await fingers.up();
  await viewer.receive(
    () => viewer.received.filter((m) => m.kind === "touch" && m.phase === 2).length === 2,
  );
  const touches = viewer.received.filter((m) => m.kind === "touch");
  assert.deepEqual(
    touches.slice(0, 2).map((m) => [m.phase, m.id, m.x, m.y]),
    [
      [0, 0, 150, 150],
      [0, 1, 300, 150],
    ],
  );
  assert.equal(
    viewer.received.some((m) => m.kind === "button"),
    false,
  );
});

const code = { Escape: 1, Control: 29, Left: 105 };
const keysOf = (viewer) =>
  viewer.received
    .filter((m) => m.kind === "key")
    .map((m) => `${m.code || String.fromCodePoint(m.keysym)} ${m.down ? "down" : "up"}`);

test("the keyboard button shows the key row; Ctrl is sticky, arrows are held", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  assert.equal(await page.locator("#keyrow").isVisible(), false);
  assert.equal(
    await page.evaluate(() => document.getElementById("keys").inputMode),
    "none",
    "no keyboard unless requested",
  );
  const middle = async (locator) => {
    const { x, y, width, height } = await locator.boundingBox();
    return [x + width / 2, y + height / 2];
  };
  await page.locator("#handle-keyboard").tap();
  await page.locator("#keyrow").waitFor();
  assert.equal(await page.evaluate(() => document.getElementById("keys").inputMode), "text");
  assert.equal(await page.evaluate(() => document.activeElement.id), "keys");
  for (const box of await Promise.all(
    (await page.locator("#keyrow button").all()).map((button) => button.boundingBox()),
  )) {
    assert.ok(
      box.width >= 36 && box.height >= 44 && box.x >= 0 && box.x + box.width <= 360,
      JSON.stringify(box),
    );
  }

  const key = (name) => page.getByRole("button", { name, exact: true });
  await fingers.tap(await middle(key("Escape")));
  await viewer.receive((m) => m.kind === "key" && m.code === code.Escape && !m.down);
  await fingers.tap(await middle(key("Control")));
  await page.locator('[data-code=ControlLeft][aria-pressed="true"]').waitFor();
  await page.keyboard.insertText("c");
  await viewer.receive((m) => m.kind === "key" && m.code === code.Control && !m.down);
  assert.deepEqual(keysOf(viewer), ["1 down", "1 up", "29 down", "c down", "c up", "29 up"]);
  assert.equal(await key("Control").getAttribute("aria-pressed"), "false");

  viewer.received.length = 0;
  await page.waitForTimeout(450); // only the next two taps belong together
  const control = await middle(key("Control"));
  await fingers.tap(control);
  await fingers.soon().tap(control);
  await page.locator("[data-code=ControlLeft][data-state=locked]").waitFor();
  await page.keyboard.insertText("ab");
  await page.waitForTimeout(450);
  await fingers.tap(await middle(key("Control")));
  await viewer.receive((m) => m.kind === "key" && m.code === code.Control && !m.down);
  assert.deepEqual(keysOf(viewer), ["29 down", "a down", "a up", "b down", "b up", "29 up"]);

  viewer.received.length = 0;
  await fingers.tap(await middle(key("Control")));
  await fingers.tap([100, 200]);
  await viewer.receive((m) => m.kind === "key" && m.code === code.Control && !m.down);
  const order = viewer.received
    .filter((m) => ["key", "button"].includes(m.kind))
    .map((m) => `${m.kind} ${m.down ? "down" : "up"}`);
  assert.deepEqual(order, ["key down", "button down", "button up", "key up"], "a click with Ctrl");

  viewer.received.length = 0;
  await page.waitForTimeout(450);
  await fingers.down(await middle(key("Left arrow")));
  await viewer.receive((m) => m.kind === "key" && m.code === code.Left && m.down);
  await page.waitForTimeout(100);
  assert.deepEqual(keysOf(viewer), ["105 down"], "the session repeats it");
  await fingers.up();
  await viewer.receive((m) => m.kind === "key" && m.code === code.Left && !m.down);
  assert.equal(await page.evaluate(() => document.activeElement.id), "keys", "the keyboard stayed");
  await page.locator("#handle-keyboard").tap();
  await page.locator("#keyrow").waitFor({ state: "hidden" });
  assert.deepEqual(page.problems, []);
});

test("a touch keyboard moves the picture and leaves the session's screen unchanged", async (t) => {
  const { page, viewer, fingers } = await opened(t);
  await fingers.tap([180, 600]);
  await released(viewer, 1);
  await page.locator("#handle-keyboard").tap();
  await page.locator("#keyrow").waitFor();
  // Chromium without a display has no such keyboard: this one covers the lower 300 pixels.
  await page.evaluate(() => {
    Object.defineProperty(visualViewport, "height", { value: 340, configurable: true });
    visualViewport.dispatchEvent(new Event("resize"));
  });
  const row = await page.locator("#keyrow").boundingBox();
  assert.equal(Math.round(row.y + row.height), 340, "the row is above the keyboard");
  const picture = await page.locator("#screen").boundingBox();
  assert.deepEqual([picture.width, picture.height], [360, 640], "as large as before");
  const place = picture.y + 600;
  assert.ok(place > 0 && place < row.y, `what was tapped is in sight, at ${place}`);
  viewer.received.length = 0;
  await page.waitForTimeout(300);
  await fingers.tap([180, 200]);
  await released(viewer, 1);
  assert.equal(
    viewer.received.find((m) => m.kind === "motion").y,
    Math.floor(((200 - picture.y) * 3) / 2),
    "and taps arrive at the visible pixel",
  );
  await page.evaluate(() => {
    delete visualViewport.height;
    visualViewport.dispatchEvent(new Event("resize"));
  });
  await page.locator("#keyrow").waitFor({ state: "hidden" });
  assert.equal((await page.locator("#screen").boundingBox()).y, 0);
  assert.equal(
    viewer.received.some((m) => m.kind === "resize"),
    false,
  );
  assert.deepEqual(page.problems, []);
});
