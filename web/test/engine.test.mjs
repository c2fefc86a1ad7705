// The parts of web/engine/engine.ts, one by one: what each sends, says and remembers over several
// connections.
// Beside the path; the engine as a whole is in page.test.mjs and reconnect.test.mjs.
// Needs no browser: a recorder stands for the decoder, and time is the test's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./modules.mjs";

const { EngineClipboard } = await load("engine/clipboard.ts");
const { SavedState } = await load("engine/saved.ts");
const { EngineVideo } = await load("engine/video.ts");

/**
 * Notes every call as [name, ...arguments], without times. `answers` has properties, and functions
 * that answer calls.
 */
function recorder(answers = {}) {
  const calls = [];
  const object = new Proxy(answers, {
    get: (_, name) => {
      if (name in answers && typeof answers[name] !== "function") return answers[name];
      return (...args) => {
        calls.push([name, ...args.filter((one) => !(one > 1e15))]);
        return answers[name]?.(...args);
      };
    },
  });
  return { object, taken: () => calls.splice(0) };
}

/** A part's surroundings: what it posts, and a decoder that is there while `connected`. */
function around(answers) {
  const { object: decoder, taken } = recorder(answers);
  const posted = [];
  const surroundings = {
    connected: true,
    decoder,
    calls: taken,
    posted: () => posted.splice(0),
    post: (message) => posted.push(message),
    withDecoder: (call) => (surroundings.connected ? call(decoder) : undefined),
  };
  return surroundings;
}

const CLIPBOARD = 0;
const [TEXT, GONE, FAILED] = [0, 1, 3];
const bytes = new Uint8Array([1, 2, 3]);

function clipboard(answers) {
  const about = around(answers);
  return { ...about, about, part: new EngineClipboard(about.post, about.withDecoder) };
}

test("clipboard: an offer is repeated on each connection until the session copies", () => {
  const { part, decoder, about, calls, posted } = clipboard();
  const policy = { toSession: true, fromSession: false };
  part.policy = policy;
  about.connected = false;
  part.handle({ type: "clipOffer", number: 1, formats: 5 });
  assert.deepEqual(calls(), [], "nobody hears it");
  about.connected = true;
  for (const _ of ["first", "second"]) {
    part.prepare(decoder);
    part.open(decoder);
    assert.deepEqual(calls(), [
      ["clipPolicy", policy],
      ["clipOffer", 5],
    ]);
    part.lost();
  }
  part.handleEvent({ type: "clipOffer", selection: CLIPBOARD, formats: 0 }, true);
  part.open(decoder);
  assert.deepEqual(calls(), [["clipOffer", 5]], "the session has nothing of its own");
  part.handleEvent({ type: "clipOffer", selection: 1, formats: 1 }, true);
  part.handleEvent({ type: "clipOffer", selection: CLIPBOARD, formats: 1 }, false);
  part.open(decoder);
  assert.deepEqual(calls(), []);
  assert.deepEqual(posted(), [
    { type: "clipOffer", after: 1, formats: 0, copied: true },
    { type: "clipOffer", after: 1, formats: 1, copied: false },
  ]);
});

test("clipboard: content reaches the request that wanted it, once", () => {
  let id = 7;
  const { part, posted } = clipboard({ clipRequest: () => id++ });
  part.handle({ type: "clipRequest", request: 1, format: TEXT });
  part.handle({ type: "clipRequest", request: 2, format: TEXT });
  assert.ok(part.awaitsContent);
  part.handleEvent({ type: "clipContent", id: 8, bytes });
  part.handleEvent({ type: "clipContent", id: 8, bytes });
  part.handleEvent({ type: "clipEnded", id: 7, why: FAILED, bytes: 0, limit: 0 });
  assert.ok(!part.awaitsContent);
  // What the page was to give has other numbers.
  part.handleEvent({ type: "clipEnded", id: 7, why: FAILED, bytes: 9, limit: 8 });
  assert.deepEqual(posted(), [
    { type: "clipContent", request: 2, bytes },
    { type: "clipFailed", request: 1, why: FAILED, bytes: 0, limit: 0 },
    { type: "clipRefused", why: FAILED, bytes: 9, limit: 8 },
  ]);
});

test("clipboard: a request fails at once without content, and ends with its connection", () => {
  const { part, about, posted } = clipboard({ clipRequest: () => 7 });
  const failed = { type: "clipFailed", request: 1, why: GONE, bytes: 0, limit: 0 };
  about.connected = false;
  part.handle({ type: "clipRequest", request: 1, format: TEXT });
  assert.deepEqual(posted(), [failed]);
  about.connected = true;
  part.handle({ type: "clipRequest", request: 2, format: TEXT });
  part.lost();
  assert.ok(!part.awaitsContent);
  part.handleEvent({ type: "clipContent", id: 7, bytes });
  assert.deepEqual(posted(), [], "the next connection uses the same numbers");
});

function video(answers) {
  const about = around(answers);
  return { ...about, part: new EngineVideo(about.withDecoder) };
}

const SIZE = { width: 16, height: 16 };

test("video: a browser without decoders says so, and every frame of it fails", async () => {
  const tasks = [];
  const { part, decoder, calls } = video({ video: () => tasks.shift() });
  await part.prepare();
  part.open(decoder);
  assert.deepEqual(calls(), [["h264", false]]);
  tasks.push({ type: "begin", stream: 3, size: SIZE });
  part.take(decoder);
  await new Promise((resolve) => setImmediate(resolve));
  tasks.push({ type: "frame", stream: 3, serial: 9 });
  part.take(decoder);
  assert.deepEqual(
    calls().filter(([name]) => name !== "video"),
    [
      ["videoReady", 3, false],
      ["videoFailed", 9],
    ],
  );
});

test("video: what appears while a task is handled is taken after it", () => {
  const taken = [];
  const tasks = [1, 2].map((serial) => ({ type: "frame", stream: 0, serial }));
  const { part, decoder } = video({
    video: () => tasks.shift(),
    // As the engine does after every call.
    videoFailed: (serial) => {
      if (serial === 1) tasks.unshift({ type: "frame", stream: 0, serial: 7 });
      part.take(decoder);
      taken.push(serial);
    },
  });
  part.open(decoder);
  part.take(decoder);
  assert.deepEqual(taken, [1, 7, 2]);
});

test("video: between connections no task is handled", () => {
  const tasks = [{ type: "frame", stream: 0, serial: 1 }];
  const { part, decoder, calls } = video({ video: () => tasks.shift() });
  part.open(decoder);
  part.lost();
  part.take(decoder);
  assert.deepEqual(
    calls().filter(([name]) => name === "videoFailed"),
    [],
  );
});

const PICTURE = { ...SIZE, screen: SIZE, part: { x: 0, y: 0, ...SIZE } };

/** A page that was reloaded, whose picture is `read` later. */
function reloaded() {
  const events = [];
  const { post, posted, decoder } = around();
  const about = { closed: false, post, posted, decoder, events };
  about.part = new SavedState(post, () => about.decoder, {
    restored: (_, picture) => events.push(["restored", picture]),
    opened: () => events.push(["opened"]),
    closed: () => about.closed,
  });
  const saved = new Promise((resolve) => Object.assign(about, { read: resolve }));
  const tiles = recorder({ read: () => saved, restore: (_, { picture }) => picture });
  about.tiles = tiles;
  about.part.keepTiles(tiles.object, true);
  about.restored = about.part.restore();
  return about;
}

test("saved: a connection that opens meanwhile waits until the picture is restored", async () => {
  const { part, read, restored, events } = reloaded();
  assert.ok(part.delaysConnection());
  read({ picture: PICTURE, tiles: [] });
  await restored;
  assert.deepEqual(events, [["restored", PICTURE], ["opened"]]);
  assert.ok(!part.delaysConnection(), "only the first one waits");
});

test("saved: a connection that was lost meanwhile does not go on", async () => {
  const { part, read, restored, events } = reloaded();
  assert.ok(part.delaysConnection());
  part.lost();
  read(undefined);
  await restored;
  assert.deepEqual(events, []);
});

test("saved: nothing is restored in a closed page, nor without a decoder", async () => {
  for (const change of [{ closed: true }, { decoder: undefined }]) {
    const about = reloaded();
    Object.assign(about, change).read({ picture: PICTURE, tiles: [] });
    await about.restored;
    assert.deepEqual(about.events, [], JSON.stringify(change));
  }
});

test("saved: a page that is hidden saves all, and a login that ends deletes all", () => {
  const { part, tiles, posted } = reloaded();
  tiles.taken();
  part.setPicture(PICTURE);
  part.schedule();
  part.hidden();
  part.clear();
  assert.deepEqual(tiles.taken(), [
    ["setPicture", PICTURE],
    ["schedule"],
    ["save", "last"],
    ["forget"],
  ]);
  assert.deepEqual(posted(), [{ type: "clearSavedState" }]);
});

test("saved: a browser that stores nothing delays nothing", async () => {
  const { post } = around();
  const part = new SavedState(post, () => undefined, {});
  assert.ok(!part.delaysConnection());
  await part.restore();
  assert.equal(await part.saveTiles(), undefined);
});
