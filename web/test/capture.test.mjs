// The captured pointer in a real browser against a scripted session: when the page locks it, what
// it sends then, and who ends that.
// Beside the path; tests/tests/relative.rs has an application in a real X server.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";

/** Some tests wait for the other side; the limit names the one that waits without end. */
const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** The session accepts distances. */
const RELATIVE = 8;

/** A page that shows a session, its mouse in the middle. */
async function shown(t, { options, width = 400, height = 300 } = {}) {
  const { page, viewer } = await openPage(t, browser, options);
  viewer.send(
    message.hello("game", RELATIVE),
    message.geometry(1, width, height),
    message.update(1, 1, [draw.fill(0, 0, width, height, 0x336699)]),
  );
  await page.evaluate(() => window.thinc.quiet());
  await page.mouse.move(200, 150);
  await viewer.receive((m) => m.kind === "motion");
  return { page, viewer };
}

const isLocked = () => document.pointerLockElement === document.getElementById("stage");
const locked = (page) => page.waitForFunction(isLocked);
const free = (page) => page.waitForFunction(() => document.pointerLockElement === null);

/** The page's message contains this. */
const told = (page, words) =>
  page.waitForFunction((part) => {
    const notice = document.getElementById("notice");
    return !notice.hidden && notice.textContent.includes(part);
  }, words);

async function wants(page, viewer, wanted) {
  viewer.send(message.relativeWanted(wanted));
  await page.waitForFunction(
    (hidden) => document.getElementById("menu-capture").hidden === hidden,
    !wanted,
  );
}

/** The pointer's input after the first `from` messages, up to one that `last` takes. */
async function pointerInput(viewer, from, last) {
  await viewer.receive((m) => viewer.received.indexOf(m) >= from && last(m));
  return viewer.received
    .slice(from)
    .filter((m) => ["motion", "motionBy", "button"].includes(m.kind));
}

/** The sum of the distances after the first `from` messages, once it is `wanted` or beyond. */
async function distance(viewer, from, wanted) {
  const sum = { x: 0, y: 0 };
  let seen = from;
  while (Math.abs(sum.x) < Math.abs(wanted.x) || Math.abs(sum.y) < Math.abs(wanted.y)) {
    const next = await viewer.receive(
      (m) => viewer.received.indexOf(m) >= seen && m.kind === "motionBy",
    );
    seen = viewer.received.indexOf(next) + 1;
    sum.x += next.dx;
    sum.y += next.dy;
  }
  return sum;
}

test("a click captures the pointer, and a distance is sent beyond the edges", async (t) => {
  const { page, viewer } = await shown(t);
  await page.mouse.click(210, 150);
  assert.equal(await page.evaluate(isLocked), false, "nobody wants it");
  await wants(page, viewer, true);
  await told(page, "click");
  await page.mouse.click(200, 150);
  await locked(page);
  await told(page, "Escape");
  const from = viewer.received.length;
  await page.mouse.move(190, 150);
  await page.mouse.move(240, 120);
  assert.deepEqual(await distance(viewer, from, { x: 40, y: -30 }), { x: 40, y: -30 });
  await page.mouse.down();
  await page.mouse.up();
  const after = await pointerInput(viewer, from, (m) => m.kind === "button" && !m.down);
  assert.deepEqual(
    after.filter((m) => m.kind === "motion"),
    [],
    "no positions while it is captured",
  );
  // What the browser does for Escape.
  await page.evaluate(() => document.exitPointerLock());
  await free(page);
  const later = viewer.received.length;
  await page.mouse.move(50, 60);
  await viewer.receive((m) => viewer.received.indexOf(m) >= later && m.kind === "motion");
});

test("in a picture of half the screen's size the distance is twice as far", async (t) => {
  const { page, viewer } = await shown(t, {
    options: { query: "?size=fit" },
    width: 800,
    height: 600,
  });
  await wants(page, viewer, true);
  await page.mouse.click(200, 150);
  await locked(page);
  const from = viewer.received.length;
  await page.mouse.move(211, 143);
  assert.deepEqual(await distance(viewer, from, { x: 22, y: -14 }), { x: 22, y: -14 });
});

test("the application gives it back and gets it again, and the user's end stays", async (t) => {
  const { page, viewer } = await shown(t);
  await wants(page, viewer, true);
  await page.mouse.click(200, 150);
  await locked(page);
  await wants(page, viewer, false);
  await free(page);
  await wants(page, viewer, true);
  // Chromium may ask for a click again; the page says so.
  await Promise.race([locked(page), told(page, "click")]);
  if (!(await page.evaluate(isLocked))) await page.mouse.click(200, 150);
  await locked(page);
  await page.evaluate(() => document.exitPointerLock());
  await free(page);
  await wants(page, viewer, false);
  await wants(page, viewer, true);
  await told(page, "click");
  assert.equal(await page.evaluate(isLocked), false, "the user ended it");
});

test("a drag in which the application wants the pointer has it", async (t) => {
  const { page, viewer } = await shown(t);
  await page.mouse.down();
  await viewer.receive((m) => m.kind === "button" && m.down);
  await wants(page, viewer, true);
  await locked(page);
  const from = viewer.received.length;
  await page.mouse.move(205, 150);
  assert.deepEqual(await distance(viewer, from, { x: 5, y: 0 }), { x: 5, y: 0 });
  await wants(page, viewer, false);
  await free(page);
  await page.mouse.up();
  await viewer.receive((m) => m.kind === "button" && !m.down);
});

test("where the browser refuses, positions are sent as before", async (t) => {
  const { page, viewer } = await shown(t, {
    options: {
      script: () => {
        Element.prototype.requestPointerLock = () =>
          Promise.reject(new DOMException("refused by the test", "NotSupportedError"));
      },
    },
  });
  await wants(page, viewer, true);
  await page.mouse.click(200, 150);
  await told(page, "does not let");
  const from = viewer.received.length;
  await page.mouse.move(60, 70);
  await viewer.receive((m) => viewer.received.indexOf(m) >= from && m.kind === "motion");
  assert.deepEqual(page.problems, []);
});

test("a lost connection releases the pointer", async (t) => {
  const { page, viewer } = await shown(t);
  await wants(page, viewer, true);
  await page.mouse.click(200, 150);
  await locked(page);
  viewer.socket.destroy();
  await free(page);
});
