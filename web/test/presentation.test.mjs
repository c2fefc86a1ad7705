// When the page shows a picture: web/engine/presentation.ts on a canvas that notes what it is told.
// Beside the path, for step 13; real canvases are in page.test.mjs.
// Needs no browser: the display's frames and time are the test's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./modules.mjs";
import { around, PICTURE, recorder, stopTime } from "./parts.mjs";

const { Presentation } = await load("engine/presentation.ts");

const time = stopTime();

/** A canvas, and a display that shows frames when the test says so. */
function presentation() {
  const frames = [];
  globalThis.requestAnimationFrame = (frame) => frames.push(frame);
  const about = around({
    width: 16,
    height: 16,
    takeDamage: () => "damage",
    lossy: () => Int32Array.of(1, 2, 3, 4),
  });
  const canvas = recorder({ kind: "webgl2" });
  const part = new Presentation(about.post, {
    decoder: () => about.decoder,
    connected: () => about.connected,
    presented: () => about.decoder.presented(),
  });
  let lost;
  part.start((whenLost) => {
    lost = whenLost;
    return canvas.object;
  });
  return {
    ...about,
    about,
    part,
    lost: () => lost(),
    /** What the canvas was told with the display's next frame, in words. */
    frame: () => {
      for (const frame of frames.splice(0)) frame();
      return canvas
        .taken()
        .map(([name, ...args]) => [name, ...args.filter((a) => a !== about.decoder)]);
    },
  };
}

const SHOWN = ["present", "damage"];
const RESIZED = ["resize", 16, 16];

test("one frame of the display shows all that changed before it", () => {
  const { part, frame } = presentation();
  part.schedule();
  part.schedule();
  assert.deepEqual(frame(), [SHOWN]);
  assert.deepEqual(frame(), []);
  assert.equal(part.count, 1);
});

test("a hidden page shows nothing, and all once it is visible", () => {
  const { part, decoder, calls, frame } = presentation();
  part.setVisible(false);
  part.schedule();
  part.open(decoder);
  assert.deepEqual(calls(), [["idleProbes", false]]);
  assert.deepEqual(frame(), []);
  part.setVisible(true);
  assert.deepEqual(frame(), [SHOWN]);
});

test("the old picture stays until the new one is complete", () => {
  const { part, decoder, frame, posted } = presentation();
  part.open(decoder);
  part.begin(PICTURE);
  part.schedule();
  assert.deepEqual(frame(), [], "a part of it has arrived");
  assert.ok(!part.pictureShown);
  part.complete();
  assert.deepEqual(frame(), [RESIZED, SHOWN]);
  assert.ok(part.pictureShown);
  part.schedule();
  assert.deepEqual(frame(), [SHOWN], "it is resized once");
  part.open(decoder);
  assert.ok(!part.pictureShown, "nor has the next connection's been shown");
  assert.deepEqual(posted(), [{ type: "geometry", ...PICTURE }]);
});

test("a picture that is not complete in time is shown as it is", () => {
  const { part, frame } = presentation();
  part.begin(PICTURE);
  time.pass(399);
  part.schedule();
  assert.deepEqual(frame(), []);
  time.pass(1);
  assert.deepEqual(frame(), [RESIZED, SHOWN]);
});

test("a restored picture is shown at once, and is not the session's", async () => {
  const { part, about, decoder, frame, posted } = presentation();
  about.connected = false;
  assert.ok(part.restore(decoder, PICTURE));
  assert.deepEqual(frame(), [RESIZED, SHOWN]);
  assert.deepEqual(posted(), [{ type: "geometry", ...PICTURE }]);
  let seen = false;
  const first = part.first().then(() => (seen = true));
  part.schedule();
  const settled = part.settled();
  frame();
  await settled;
  assert.deepEqual([seen, part.count], [false, 0]);
  about.connected = true;
  part.schedule();
  frame();
  await first;
  assert.equal(part.count, 1);
  await part.first();
  await part.settled();
});

test("who waits for the first picture learns why there is none", async () => {
  const { part } = presentation();
  const first = part.first();
  part.close(new Error("ended"));
  await assert.rejects(first, /ended/);
});

test("a canvas that lost its content shows the whole picture", () => {
  const { about, lost, frame } = presentation();
  lost();
  assert.deepEqual(frame(), [["present", Int32Array.of(0, 0, 16, 16)]]);
  about.decoder = undefined;
  lost();
  assert.deepEqual(frame(), []);
});

test("lossy parts are told while the page wants that", () => {
  const { part, frame, posted } = presentation();
  const lossy = { type: "lossy", rects: Int32Array.of(1, 2, 3, 4) };
  part.schedule();
  frame();
  assert.deepEqual(posted(), []);
  part.reportLossy(true);
  part.schedule();
  frame();
  assert.deepEqual(posted(), [lossy, lossy]);
  part.reportLossy(false);
  assert.deepEqual(posted(), []);
});
