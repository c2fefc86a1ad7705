// The parts of web/engine/engine.ts, one by one: what each sends, says and remembers over several
// connections. lifecycle.test.mjs and presentation.test.mjs have two more.
// Beside the path; the engine as a whole is in page.test.mjs and reconnect.test.mjs.
// Needs no browser: a recorder stands for the decoder, and time is the test's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./modules.mjs";
import { around, bytes, PICTURE, recorder, SIZE, settle, stopTime } from "./parts.mjs";

const { EngineClipboard } = await load("engine/clipboard.ts");
const { Deadline, watchSleep } = await load("engine/clock.ts");
const { crashed, endOf } = await load("engine/ends.ts");
const { EngineInput } = await load("engine/input.ts");
const { DecoderLoader } = await load("engine/loader.ts");
const { EngineQuality } = await load("engine/quality.ts");
const { Queries } = await load("engine/queries.ts");
const { SavedState } = await load("engine/saved.ts");
const { Sizing } = await load("engine/sizing.ts");
const { EngineStereo } = await load("engine/stereo.ts");
const { EngineVideo } = await load("engine/video.ts");

const time = stopTime();

const CLIPBOARD = 0;
const [TEXT, GONE, FAILED] = [0, 1, 3];

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

test("video: a browser without decoders says so, and every frame of it fails", async () => {
  const tasks = [];
  const { part, decoder, calls } = video({ video: () => tasks.shift() });
  await part.prepare();
  part.open(decoder);
  assert.deepEqual(calls(), [["codecs", []]]);
  tasks.push({ type: "begin", stream: 3, size: SIZE });
  part.take(decoder);
  await settle();
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

function queries() {
  let barrier = 0;
  const about = around({
    width: 1,
    height: 1,
    rgba: () => Uint8ClampedArray.of(1, 2, 3, 255),
    stats: () => ({ updates: about.updates }),
    barrier: () => (barrier += 1),
  });
  const steps = { first: Promise.resolve(), settled: Promise.resolve() };
  about.updates = 0;
  const part = new Queries(about.post, about.withDecoder, {
    presentation: { kind: "2d", count: 7, first: () => steps.first, settled: () => steps.settled },
    saved: { saveTiles: async () => undefined },
    decoder: () => about.decoder,
    transport: () => ({ kind: "websocket", reason: "because" }),
  });
  const ask = (what, id = 1) => part.handle({ type: "query", id, what });
  return { about, part, steps, posted: about.posted, ask };
}

test("queries: idle is when a barrier brings no update, and all is shown", async () => {
  const { about, part, steps, posted, ask } = queries();
  let show;
  steps.settled = new Promise((resolve) => (show = resolve));
  ask("idle");
  await settle();
  about.updates = 5;
  part.passed(1);
  await settle();
  assert.equal(about.calls().filter(([name]) => name === "barrier").length, 2);
  part.passed(2);
  part.passed(2);
  await settle();
  assert.deepEqual(posted(), [], "the last update is not on the canvas");
  show();
  await settle();
  assert.deepEqual(posted(), [{ type: "answer", id: 1, value: undefined }]);
});

test("queries: barriers are limited, and fail with their connection", async () => {
  const { about, part, posted, ask } = queries();
  const reason = "no connection, or 4 barriers in flight";
  for (const id of [1, 2, 3, 4, 5]) ask("idle", id);
  await settle();
  assert.deepEqual(posted(), [{ type: "failed", id: 5, reason }]);
  part.lost(new Error("it dropped"));
  about.connected = false;
  await settle();
  assert.deepEqual(
    posted(),
    [1, 2, 3, 4].map((id) => ({ type: "failed", id, reason: "it dropped" })),
  );
  ask("idle");
  await settle();
  assert.deepEqual(posted(), [{ type: "failed", id: 1, reason }]);
});

test("queries: pixels, figures and saving are answered, or why not", async () => {
  const { about, part, posted, ask } = queries();
  part.graphics = "3D: none";
  for (const what of ["pixels", "stats", "saved"]) ask(what);
  await settle();
  const size = { width: 1, height: 1 };
  const stats = { updates: 0, transport: "websocket", transportReason: "because" };
  assert.deepEqual(
    posted().map(({ value }) => value),
    [
      { ...size, data: Uint8ClampedArray.of(1, 2, 3, 255) },
      { ...stats, ...size, graphics: "3D: none", presenter: "2d", presents: 7 },
      undefined,
    ],
  );
  about.decoder = undefined;
  for (const what of ["pixels", "stats"]) ask(what);
  await settle();
  assert.deepEqual(
    posted().map(({ reason }) => reason),
    ["there is no picture", "there is no viewer"],
  );
});

function input() {
  const about = around();
  const ways = [];
  const noting = (way) => (call, urgency) => {
    ways.push(urgency ?? way);
    if (about.connected) call(about.decoder);
  };
  const part = new EngineInput(about.post, {
    send: noting("sent"),
    sendOrBuffer: noting("buffered"),
  });
  return { ...about, about, part, ways };
}

test("input: what is typed outlives a connection, and only positions may wait", () => {
  const { part, calls, ways } = input();
  for (const [message, ...call] of [
    [{ type: "key", code: 30, keysym: 97, down: true, timeUs: 5 }, "key", 30, 97, true, 5],
    [{ type: "char", codePoint: 233 }, "char", 233],
    [{ type: "locks", caps: true, num: false }, "locks", true, false],
    [{ type: "button", button: 1, down: true, timeUs: 6 }, "button", 1, true, 6],
    [{ type: "releaseAll" }, "releaseAll"],
    [{ type: "scroll", dx: 0, dy: 120 }, "scroll", 0, 120],
    [{ type: "touch", id: 2, phase: 1, x: 3, y: 4 }, "touch", 2, 1, 3, 4],
    [{ type: "motion", x: 7, y: 8 }, "motion", 7, 8],
    [{ type: "motionBy", dx: -1, dy: 1 }, "motionBy", -1, 1],
  ]) {
    part.handle(message);
    assert.deepEqual(calls(), [call]);
  }
  assert.deepEqual(ways, [
    ...Array(5).fill("buffered"),
    ...Array(2).fill("sent"),
    ...Array(2).fill("may wait"),
  ]);
});

test("input: the samples of a pen's frame are sent together, every one", () => {
  const { part, calls, ways } = input();
  const sample = (x) => ({ x, y: 0, pressure: 9, tiltX: 0, tiltY: 0, state: 9 });
  part.handle({ type: "pen", samples: [sample(1), sample(2), sample(3)], lifted: false });
  assert.deepEqual(calls(), [
    ["pen", sample(1)],
    ["pen", sample(2)],
    ["pen", sample(3)],
  ]);
  assert.deepEqual(ways, ["sent"]);
});

test("input: the keyboard's layout is said on every connection, once it is known", () => {
  const { part, about, decoder, calls } = input();
  part.open(decoder);
  assert.deepEqual(calls(), []);
  about.connected = false;
  part.handle({ type: "layout", layout: "de", variant: "neo" });
  assert.deepEqual(calls(), []);
  part.open(decoder);
  part.open(decoder);
  assert.deepEqual(calls(), Array(2).fill(["layout", "de", "neo"]));
});

test("quality: the last choice is said on every connection, and a change at once", () => {
  const about = around();
  const part = new EngineQuality(about.withDecoder);
  part.chosen = "high";
  part.prepare(about.decoder);
  part.handle({ type: "pictureQuality", quality: "low" });
  part.handle({ type: "exactFrame" });
  about.connected = false;
  part.handle({ type: "pictureQuality", quality: "medium" });
  part.handle({ type: "exactFrame" });
  assert.deepEqual(about.calls(), [
    ["chooseQuality", "high"],
    ["chooseQuality", "low"],
    ["requestExactFrame"],
  ]);
  part.prepare(about.decoder);
  assert.deepEqual(about.calls(), [["chooseQuality", "medium"]], "the request was for what moved");
});

test("stereo: the choice is said on every connection, and a program is told of once", () => {
  const about = around();
  const posted = [];
  const part = new EngineStereo((message) => posted.push(message), about.withDecoder);
  const receive = (hasSeenStereo) => part.take({ hasSeenStereo });
  part.prepare(about.decoder);
  // A session that sends it unasked.
  receive(true);
  assert.deepEqual(posted, []);
  part.choose("anaglyph");
  receive(false);
  receive(true);
  receive(true);
  assert.deepEqual(posted, [{ type: "stereoSeen" }]);
  about.connected = false;
  part.choose("interleaved");
  assert.deepEqual(about.calls(), [
    ["chooseStereo", "off"],
    ["chooseStereo", "anaglyph"],
  ]);
  part.prepare(about.decoder);
  assert.deepEqual(about.calls(), [["chooseStereo", "interleaved"]]);
  receive(true);
  assert.equal(posted.length, 2, "of the next connection's too");
});

test("input: the page is told of distances when that changes", () => {
  const { part, posted } = input();
  for (const wanted of [false, true, true, false]) part.setRelativeWanted(wanted);
  assert.deepEqual(posted(), [
    { type: "relativeWanted", wanted: true },
    { type: "relativeWanted", wanted: false },
  ]);
});

function sizing() {
  const about = around();
  return { ...about, about, part: new Sizing(about.withDecoder) };
}

const display = (width, scale = 0) => ({ width, height: 10, scale });

test("sizing: one size is in flight, and only the newest waits behind it", () => {
  const { part, calls } = sizing();
  for (const width of [1, 2, 3]) part.want(display(width));
  assert.deepEqual(calls(), [["resize", 1, 10]]);
  part.answered();
  assert.deepEqual(calls(), [["resize", 3, 10]]);
  part.answered();
  part.answered();
  assert.deepEqual(calls(), []);
});

test("sizing: a session that does not take a size is asked for the newest after a second", () => {
  const { part, calls } = sizing();
  part.want(display(1));
  part.want(display(2));
  time.pass(999);
  assert.deepEqual(calls(), [["resize", 1, 10]]);
  time.pass(1);
  assert.deepEqual(calls(), [["resize", 2, 10]]);
  part.lost();
  time.pass(2_000);
  assert.deepEqual(calls(), [], "no request outlives its connection");
});

test("sizing: every connection begins with the scale and the view of the page", () => {
  const { part, about, decoder, calls } = sizing();
  const view = { size: SIZE, part: { x: 1, y: 2, ...SIZE } };
  about.connected = false;
  part.want(display(5, 200));
  part.show(view);
  part.lost();
  for (const _ of ["first", "second"]) {
    part.open(decoder);
    assert.deepEqual(calls(), [
      ["display", display(5, 200), 200],
      ["view", view],
    ]);
  }
});

test("sizing: a restored picture asks for its view, but not if it is the whole screen", () => {
  const part = { x: 0, y: 0, width: 8, height: 8 };
  for (const [picture, said, view] of [
    [PICTURE, undefined, undefined],
    [{ ...PICTURE, width: 32 }, undefined, { size: { width: 32, height: 16 }, part: PICTURE.part }],
    [{ ...PICTURE, part }, undefined, { size: SIZE, part }],
    [
      { ...PICTURE, part },
      { size: SIZE, part: PICTURE.part },
      { size: SIZE, part: PICTURE.part },
    ],
  ]) {
    const { part, about, decoder, calls } = sizing();
    about.connected = false;
    if (said) part.show(said);
    part.restored(picture);
    part.open(decoder);
    assert.deepEqual(calls(), view ? [["view", view]] : []);
  }
});

test("ends: only a session that restarts, or met a slow viewer, is connected to again", () => {
  const codes = Array.from({ length: 9 }, (_, code) => code);
  const ends = codes.map((code) => endOf(code, "because"));
  assert.deepEqual(
    codes.filter((code) => ends[code] === undefined),
    [5, 7],
  );
  assert.deepEqual(
    codes.filter((code) => ends[code]?.canRetry === false),
    [1, 3],
  );
  assert.deepEqual(
    ends.map((end) => end?.shown),
    [...Array(6).fill(undefined), "opened", undefined, "asks"],
  );
  assert.match(ends[1].reason, /^Because\. Start it again/);
  assert.equal(ends[4].reason, "because");
});

test("ends: a bug is described by what panicked, else by what was thrown", () => {
  const [panic, thrown] = ["slot 7 is free", new Error("unreachable")];
  assert.equal(crashed(panic, thrown).reason, "This is a bug of thinc: slot 7 is free");
  assert.equal(crashed(undefined, thrown).reason, "This is a bug of thinc: unreachable");
});

const inUs = (ms) => (performance.timeOrigin + time.nowMs + ms) * 1000;

test("clock: the earliest deadline counts, and one call is made for it", () => {
  let calls = 0;
  const deadline = new Deadline(() => (calls += 1));
  deadline.set(undefined);
  deadline.set(inUs(20));
  deadline.set(inUs(30));
  deadline.set(inUs(10));
  time.pass(9);
  assert.equal(calls, 0);
  time.pass(2);
  assert.equal(calls, 1);
  time.pass(100);
  assert.equal(calls, 1);
  deadline.set(inUs(-5));
  time.pass(0);
  assert.equal(calls, 2, "one that has passed counts at once");
});

test("clock: no deadline outlives its connection, and the next one's counts", () => {
  let calls = 0;
  const deadline = new Deadline(() => (calls += 1));
  deadline.set(inUs(10));
  deadline.clear();
  deadline.set(inUs(20));
  time.pass(19);
  assert.equal(calls, 0);
  time.pass(2);
  assert.equal(calls, 1);
});

test("clock: a machine that slept is told from one that is busy", () => {
  let woke = 0;
  watchSleep(() => (woke += 1));
  time.pass(3_999);
  time.stop(3_900);
  time.pass(2_000);
  assert.equal(woke, 0);
  time.stop(60_000);
  time.pass(2_000);
  assert.equal(woke, 1);
  time.pass(10_000);
  assert.equal(woke, 1);
});

/** A network that fails so many times before it has an empty module. */
function network(failures) {
  const requests = [];
  globalThis.fetch = async (url) => {
    requests.push(url);
    if (requests.length <= failures) throw new Error("unreachable");
    return new Response(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
  };
  return requests;
}

test("loader: a module is fetched after growing delays, and serves every decoder", async () => {
  const requests = network(2);
  const told = [];
  const loader = new DecoderLoader(({ name, retryMs }) => told.push(retryMs ?? name));
  await assert.rejects(loader.load());
  const fetched = loader.fetch("viewer.wasm");
  for (const ms of [500, 999]) {
    await settle();
    time.pass(ms);
  }
  await settle();
  assert.deepEqual(told, [500, "connecting", 1_000]);
  assert.ok(!loader.fetched);
  time.pass(1);
  await fetched;
  assert.deepEqual(told.slice(3), ["connecting"]);
  assert.ok(loader.fetched);
  const [first, second] = [await loader.load(), await loader.load()];
  assert.notEqual(first, second, "one that panicked is replaced");
  assert.equal(requests.length, 3);
});

test("loader: attempts to fetch the module are limited", async () => {
  const requests = network(9);
  const failed = assert.rejects(new DecoderLoader(() => undefined).fetch("viewer.wasm"), /unreach/);
  for (let n = 0; n < 5; n += 1) {
    await settle();
    time.pass(10_000);
  }
  await failed;
  assert.equal(requests.length, 6);
});
