// A pen on the page: what the session receives of it, and what a program of the session sees.
// Against a scripted session, and a real one with a program of GTK 3; touch.test.mjs has a pen of a
// session that takes none.
// Needs target/release/thinc with the web viewer inside and the driver (./dev build), Chromium, and
// GTK for Python.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { fileURLToPath } from "node:url";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { isConnected, openPage } from "./opened.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** The session takes pens, and distances. */
const [PEN, RELATIVE] = [512, 8];
const [TIP, BUTTON2, BUTTON3, NEAR, ERASER] = [1, 2, 4, 8, 16];
const PRESSURE_MAX = 65_535;
const TAB = { viewport: { width: 640, height: 480 } };

/** A pen of the browser's own, as a tablet's events become Chromium's. */
async function penOf(page) {
  const devtools = await page.context().newCDPSession(page);
  const send = (type, x, y, more) =>
    devtools.send("Input.dispatchMouseEvent", { type, x, y, pointerType: "pen", ...more });
  return {
    hover: (x, y, more) => send("mouseMoved", x, y, more),
    draw: (x, y, more) => send("mouseMoved", x, y, { button: "left", buttons: 1, ...more }),
    down: (x, y, more) => send("mousePressed", x, y, { button: "left", buttons: 1, ...more }),
    up: (x, y) => send("mouseReleased", x, y, { button: "left", buttons: 0 }),
  };
}

async function opened(t, options = {}) {
  const { page, session, viewer } = await openPage(t, browser, { tab: TAB, ...options });
  viewer.send(message.hello("desk", PEN | RELATIVE), message.geometry(1, 640, 480));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, 640, 480, 0x406080)]));
  await page.evaluate(() => window.thinc.quiet());
  viewer.received.length = 0;
  return { page, session, viewer };
}

const samples = (viewer) => viewer.received.filter((m) => m.kind === "pen");
const pressed = (viewer) =>
  viewer.received.filter((m) => ["motion", "button"].includes(m.kind)).map((m) => m.kind);

test("a stroke arrives with pressure, tilt and fractions of pixels", async (t) => {
  const { page, viewer } = await opened(t);
  const pen = await penOf(page);
  await pen.hover(300.5, 250.25, { tiltX: 30, tiltY: -45 });
  await pen.down(301, 250, { force: 0.25, tiltX: 30, tiltY: -45 });
  for (let step = 1; step <= 20; step++) {
    await pen.draw(301 + step, 250 + step / 4, { force: step / 20, tiltX: step, tiltY: -step });
  }
  await pen.up(321, 255);
  await viewer.receive((m) => m.kind === "pen" && m.x === 321 * 64 && m.state === NEAR);
  const [hover, down, ...stroke] = samples(viewer);
  assert.deepEqual(
    hover,
    {
      kind: "pen",
      state: NEAR,
      x: 300.5 * 64,
      y: 250.25 * 64,
      pressure: 0,
      tiltX: 30,
      tiltY: -45,
    },
    "it hovers",
  );
  assert.deepEqual(
    [down.state, down.x, down.y, down.pressure],
    [NEAR | TIP, 301 * 64, 250 * 64, Math.round(PRESSURE_MAX / 4)],
  );
  const lifted = stroke.pop();
  assert.equal(lifted.state, NEAR);
  assert.deepEqual(
    stroke.map((m) => [m.state, m.x, m.y, m.pressure, m.tiltX, m.tiltY]),
    Array.from({ length: 20 }, (_, at) => {
      const step = at + 1;
      const pressure = Math.round(PRESSURE_MAX * Math.fround(step / 20));
      return [NEAR | TIP, (301 + step) * 64, (250 + step / 4) * 64, pressure, step, -step];
    }),
    "each sample once",
  );
  assert.deepEqual(pressed(viewer), [], "it is no mouse");
  assert.deepEqual(page.problems, []);
});

/** An event of a pen, which has merged these, as a browser makes one for each frame. */
function dispatch(page, type, events) {
  return page.evaluate(
    ([type, events]) => {
      const stage = document.getElementById("stage");
      // There is no such pointer to capture.
      stage.setPointerCapture = () => undefined;
      const made = events.map(({ at, ...options }) => {
        const event = new PointerEvent(type, {
          pointerId: 7,
          pointerType: "pen",
          bubbles: true,
          cancelable: true,
          ...options,
        });
        Object.defineProperty(event, "timeStamp", { value: at });
        return event;
      });
      const last = made.at(-1);
      last.getCoalescedEvents = () => made;
      stage.dispatchEvent(last);
    },
    [type, events],
  );
}

test("what the browser has merged arrives one by one, and nothing twice", async (t) => {
  const { page, viewer } = await opened(t);
  const one = (at, clientX, more) => ({
    at,
    clientX,
    clientY: 10,
    buttons: 1,
    pressure: 0.5,
    ...more,
  });
  await dispatch(page, "pointerdown", [one(1, 10)]);
  await dispatch(page, "pointerrawupdate", [one(2, 11)]);
  await dispatch(page, "pointermove", [one(2, 11), one(3, 12), one(4, 13.5)]);
  await dispatch(page, "pointerrawupdate", [one(4, 13.5)]);
  // The buttons of the barrel have no event of their own while the tip is down.
  await dispatch(page, "pointermove", [one(4, 13.5, { buttons: 1 | 2 })]);
  await dispatch(page, "pointermove", [one(5, 14, { buttons: 4 })]);
  await dispatch(page, "pointermove", [one(6, 14, { buttons: 32 })]);
  await dispatch(page, "pointerleave", [one(7, 14, { buttons: 0 })]);
  await viewer.receive((m) => m.kind === "pen" && (m.state & NEAR) === 0);
  assert.deepEqual(
    samples(viewer).map((m) => [m.x / 64, m.state & ~NEAR]),
    [
      [10, TIP],
      [11, TIP],
      [12, TIP],
      [13.5, TIP],
      [13.5, TIP | BUTTON3],
      [14, BUTTON2],
      [14, TIP | ERASER],
      [14, ERASER],
    ],
  );
  assert.deepEqual(pressed(viewer), []);
  assert.deepEqual(page.problems, []);
});

test("samples of one instant are told apart by what they say", async (t) => {
  const { page, viewer } = await opened(t);
  const one = (at, clientX, more) => ({ at, clientX, clientY: 10, buttons: 1, ...more });
  const [first, second] = [one(5, 10, { pressure: 0.5 }), one(5, 11, { pressure: 0.5 })];
  const harder = one(5, 11, { pressure: 1 });
  const tilted = one(5, 11, { pressure: 1, tiltX: 9 });
  for (const sample of [first, second, harder, tilted])
    await dispatch(page, "pointerrawupdate", [sample]);
  await dispatch(page, "pointermove", [first, second, harder, tilted]);
  await dispatch(page, "pointermove", [one(4, 9, { buttons: 0 }), tilted]);
  await dispatch(page, "pointermove", [one(6, 12)]);
  await viewer.receive((m) => m.kind === "pen" && m.x === 12 * 64);
  assert.deepEqual(
    samples(viewer).map((m) => [m.x / 64, m.state, Math.round((m.pressure / PRESSURE_MAX) * 2)]),
    [
      [10, NEAR | TIP, 1],
      [11, NEAR | TIP, 1],
      [11, NEAR | TIP, 2],
      [11, NEAR | TIP, 2],
      [12, NEAR | TIP, 0],
    ],
  );
});

test("a pen that hovers commits no Option of a Mac, and its press does", async (t) => {
  const script = () => Object.defineProperty(navigator, "platform", { value: "MacIntel" });
  const { page, viewer } = await opened(t, { script });
  const pen = await penOf(page);
  await page.keyboard.down("Alt");
  await pen.hover(300, 200);
  await pen.hover(310, 200);
  await viewer.receive((m) => m.kind === "pen" && m.x === 310 * 64);
  assert.deepEqual(
    viewer.received.filter((m) => m.kind === "key"),
    [],
  );
  await pen.down(310, 200, { force: 0.5 });
  await viewer.receive((m) => m.kind === "pen" && (m.state & TIP) !== 0);
  const kinds = viewer.received.filter((m) => ["key", "pen"].includes(m.kind));
  assert.deepEqual(
    kinds.map((m) => m.kind),
    ["pen", "pen", "key", "pen"],
  );
  await pen.up(310, 200);
  await page.keyboard.up("Alt");
});

test("a pen leaves when the pointer is captured, and its press is not sent after it", async (t) => {
  // As the browser grants and ends it: it does so for no script.
  const script = () => {
    let locked = null;
    Object.defineProperty(Document.prototype, "pointerLockElement", { get: () => locked });
    window.lock = (on) => {
      locked = on ? document.getElementById("stage") : null;
      document.dispatchEvent(new Event("pointerlockchange"));
    };
    Document.prototype.exitPointerLock = () => window.lock(false);
  };
  const { page, viewer } = await opened(t, { script });
  viewer.send(message.relativeWanted(true));
  await page.waitForFunction(() => !document.getElementById("menu-capture").hidden);
  const pen = await penOf(page);
  await pen.down(300, 200, { force: 0.5 });
  await viewer.receive((m) => m.kind === "pen" && m.state === (NEAR | TIP));
  await page.evaluate(() => window.lock(true));
  await viewer.receive((m) => m.kind === "pen" && (m.state & NEAR) === 0);
  await pen.draw(305, 200, { force: 0.5 });
  await page.evaluate(() => window.lock(false));
  viewer.received.length = 0;
  await pen.draw(310, 200, { force: 0.5 });
  await pen.up(310, 200);
  await viewer.receive((m) => m.kind === "pen");
  assert.deepEqual(
    samples(viewer).map((m) => m.state),
    [NEAR],
  );
});

test("a stroke ends with the page's focus, and goes on with the next press only", async (t) => {
  const { page, viewer } = await opened(t);
  const pen = await penOf(page);
  await pen.down(320, 220, { force: 0.5 });
  await viewer.receive((m) => m.kind === "pen" && m.state === (NEAR | TIP));
  await page.evaluate(() => dispatchEvent(new Event("blur")));
  await viewer.receive((m) => m.kind === "releaseAll");
  viewer.received.length = 0;
  await pen.draw(330, 220, { force: 0.5 });
  await pen.up(330, 220);
  await pen.down(340, 220, { force: 0.5 });
  await viewer.receive((m) => m.kind === "pen" && m.state === (NEAR | TIP));
  assert.deepEqual(
    samples(viewer).map((m) => [m.x / 64, m.state]),
    [
      [330, NEAR],
      [340, NEAR | TIP],
    ],
  );
});

test("a program of GTK sees the pen of a page, until its tab is closed", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-pen-"));
  t.after(() => removeFolder(folder));
  const out = join(folder, "out");
  const program = fileURLToPath(new URL("../../tests/gtk_drawing.py", import.meta.url));
  const session = await Session.start(["/usr/bin/python3", program, out], { size: "640x480" });
  t.after(() => session.stop());
  const page = await openTab(browser, TAB);
  await page.goto(session.link);
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
  const line = (beginning) =>
    fileHas(out, (now) => now.split("\n").find((one) => one.startsWith(beginning)));
  await line("shown");
  const pen = await penOf(page);
  await pen.hover(150.5, 100.25);
  await line("motion pen pen ");
  await pen.down(160, 100, { force: 0.5, tiltX: 63, tiltY: -64 });
  assert.equal(await line("press"), "press pen pen 60.000 50.000 0.500 1.000 -1.000");
  await page.context().close();
  await line("release pen pen 60.000 50.000 0.000");
});
