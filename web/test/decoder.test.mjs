// What viewer-core says, as the page reads it: a scripted session's bytes through
// dist/viewer.wasm to the events of web/engine/events.ts, and the memory between them.
// Beside golden.test.mjs, which compares pixels. Needs web/dist (./dev build web) and no browser.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { draw, message } from "./fake-session.mjs";
import { load } from "./modules.mjs";

const { Decoder, DecoderError } = await load("engine/decoder.ts");
const { DecoderMemory } = await load("engine/memory.ts");
const viewer = new WebAssembly.Module(
  await readFile(new URL("../dist/viewer.wasm", import.meta.url)),
);

/** The session has a clipboard and sound, and accepts distances. */
const CAPS = 1 | 8 | 16;
const QUALITY = 256;
const STEREO = 1024;

/** A decoder whose session has answered. */
async function greeted(caps = CAPS) {
  const decoder = await Decoder.load(viewer);
  decoder.clipPolicy({ toSession: true, fromSession: true });
  decoder.wantSound(false);
  decoder.open("test", 16, 8);
  decoder.opened(false, 1);
  decoder.bytes(message.hello("desk", caps), 2);
  assert.deepEqual(events(decoder), [{ type: "hello", name: "desk" }]);
  return decoder;
}

function events({ events }) {
  const all = [];
  for (let event = events.next(); event !== undefined; event = events.next()) all.push(event);
  return all;
}

/** The events that follow one message. */
function eventsOf(decoder, bytes) {
  decoder.bytes(bytes, 3);
  return events(decoder);
}

test("a picture has its size, its pixels and its damage", async () => {
  const decoder = await greeted();
  const screen = { width: 32, height: 16 };
  const part = { x: 0, y: 0, ...screen };
  assert.deepEqual(eventsOf(decoder, message.geometry(1, 16, 8, { screen, part })), [
    { type: "geometry", width: 16, height: 8, screen, part },
  ]);
  const update = message.update(1, 1, [draw.fill(2, 1, 3, 4, 0x102030)]);
  assert.deepEqual(eventsOf(decoder, update), [
    // The session has said nothing else.
    { type: "gamma", areas: [] },
    { type: "frameEnd", relativeWanted: false },
  ]);
  assert.deepEqual([decoder.width, decoder.height], [16, 8]);
  assert.deepEqual([...decoder.rgba(2, 1, 1, 1)], [0x10, 0x20, 0x30, 255]);
  assert.deepEqual([...decoder.screen().subarray(4 * 18, 4 * 18 + 4)], [0x30, 0x20, 0x10, 255]);
  assert.ok(decoder.damaged);
  assert.ok(decoder.takeDamage().length >= 4);
  assert.deepEqual([decoder.damaged, decoder.takeDamage().length], [false, 0]);
});

/** Three of gamma: as it is, inverted, and without any order. */
const TABLES = [(v) => v, (v) => 255 - v, (v) => (v * 101) % 256].map((of) =>
  Array.from({ length: 256 }, (_, value) => of(value)),
);

test("what the session says in words and numbers arrives as it was said", async () => {
  const decoder = await greeted();
  const person = { number: 3, guest: 2, control: true, pointer: false, name: "Zoë" };
  for (const [bytes, ...expected] of [
    [message.people(7, [person]), { type: "people", own: 7, people: [person] }],
    [message.people(7, []), { type: "people", own: 7, people: [] }],
    [message.soundPlayers(["a", "b"]), { type: "players", names: ["a", "b"] }],
    [message.soundPlayers([]), { type: "players", names: [] }],
    [message.relativeWanted(true), { type: "relativeWanted", wanted: true }],
    [message.gamma([]), { type: "gamma", areas: [] }],
    [
      message.gamma([{ rect: [1, 2, 3, 4], channels: TABLES }]),
      {
        type: "gamma",
        areas: [
          { rect: { x: 1, y: 2, width: 3, height: 4 }, channels: Uint8Array.from(TABLES.flat()) },
        ],
      },
    ],
    [message.cursorShow(false), { type: "cursorShow", shown: false }],
    [
      message.clipPolicy(2),
      { type: "clipPolicy", policy: { toSession: false, fromSession: true } },
    ],
    [message.close(8, "elsewhere"), { type: "closed", code: 8, reason: "elsewhere" }],
  ])
    assert.deepEqual(eventsOf(decoder, bytes), expected);
});

test("an image and content are copies, which later calls leave alone", async () => {
  const decoder = await greeted();
  const pixels = Buffer.from([1, 2, 3, 255, 4, 5, 6, 255]);
  const [cursor] = eventsOf(decoder, message.cursor(2, 1, 1, 0, pixels));
  assert.equal(cursor.type, "cursor");
  assert.deepEqual([cursor.width, cursor.height, cursor.hotX, cursor.hotY], [2, 1, 1, 0]);
  assert.deepEqual([...cursor.rgba], [3, 2, 1, 255, 6, 5, 4, 255]);
  assert.deepEqual(eventsOf(decoder, message.clipOffer(0, 1, 0, 1)), [
    { type: "clipOffer", selection: 0, formats: 1 },
  ]);
  const id = decoder.clipRequest(0, 4);
  const content = Buffer.from("copied");
  const [clip] = eventsOf(decoder, message.clipData(id, content));
  assert.deepEqual([clip.type, clip.id, Buffer.from(clip.bytes)], ["clipContent", id, content]);
  eventsOf(decoder, message.cursor(2, 1, 1, 0, Buffer.alloc(8, 255)));
  assert.deepEqual([...cursor.rgba], [3, 2, 1, 255, 6, 5, 4, 255]);
});

test("choices of quality are sent to a session that takes them, on each connection", async () => {
  const decoder = await greeted(QUALITY);
  assert.equal(decoder.offers.quality, true);
  decoder.output();
  for (const [byte, quality] of ["auto", "exact", "high", "medium", "low"].entries()) {
    decoder.chooseQuality(quality);
    // Every connection begins with "auto".
    assert.deepEqual([...decoder.output()], byte === 0 ? [] : [0x1c, 1, byte], quality);
  }
  assert.equal(decoder.requestExactFrame(), true);
  assert.deepEqual([...decoder.output()], [0x1d, 0]);

  decoder.lost();
  // A ping follows the hello.
  for (const [caps, ...sent] of [
    [QUALITY, 0x1c, 1, 4, 0x05],
    [0, 0x05],
  ]) {
    decoder.open("test", 16, 8);
    decoder.opened(false, 4);
    decoder.output();
    decoder.bytes(message.hello("desk", caps), 5);
    assert.deepEqual([...decoder.output()].slice(0, sent.length), sent);
  }
  assert.equal(decoder.offers.quality, false);
  decoder.output();
  decoder.chooseQuality("exact");
  assert.equal(decoder.requestExactFrame(), false);
  assert.deepEqual([...decoder.output()], []);
});

test("the right eye is asked for, and both pictures are shown as one", async () => {
  const decoder = await greeted(STEREO);
  assert.equal(decoder.offers.stereo, true);
  decoder.output();
  decoder.chooseStereo("anaglyph");
  decoder.chooseStereo("interleaved");
  assert.deepEqual([...decoder.output()], [0x1e, 1, 1], "modes differ only in what is shown");
  assert.equal(decoder.hasSeenStereo, false);
  const size = { width: 4, height: 2 };
  const place = { x: 3, y: 2, ...size };
  const [even, odd] = [Buffer.alloc(16, 16), Buffer.alloc(16, 48)];
  decoder.bytes(message.geometry(1, 16, 8), 3);
  const commands = [
    draw.fill(0, 0, 16, 8, 0xff8040),
    draw.videoInit(2, 0, size, { x: 0, y: 0, ...size }, place, { right: true }),
    draw.videoPixels(2, 1, [place], Buffer.concat([even, odd])),
  ];
  decoder.bytes(message.update(1, 1, commands), 3);
  assert.equal(decoder.hasSeenStereo, true);
  decoder.takeDamage();
  const pixel = (x, y) => [...decoder.rgba(x, y, 1, 1)].slice(0, 3);
  const left = [0xff, 0x80, 0x40];
  assert.deepEqual([pixel(3, 2), pixel(3, 3), pixel(2, 3)], [left, [48, 48, 48], left]);
  for (const [mode, first, last] of [
    ["anaglyph", [0xff, 16, 16], [0xff, 16, 16]],
    ["side-by-side", left, [16, 16, 16]],
    ["off", left, left],
  ]) {
    decoder.output();
    decoder.chooseStereo(mode);
    assert.deepEqual([...decoder.takeDamage()], [3, 2, 4, 2], mode);
    assert.deepEqual([pixel(3, 2), pixel(6, 2)], [first, last], mode);
  }
  assert.ok(Buffer.from(decoder.output()).includes(Buffer.from([0x1e, 1, 0])));
});

test("samples of a pen are sent to a session that takes them", async () => {
  const sample = { x: 6432, y: 12_800, pressure: 40_000, tiltX: -30, tiltY: 45, state: 9 };
  for (const [caps, takes] of [
    [512, true],
    [CAPS, false],
  ]) {
    const decoder = await greeted(caps);
    assert.equal(decoder.offers.pens, takes);
    decoder.bytes(message.geometry(1, 16, 8), 3);
    decoder.output();
    decoder.pen(sample, 4);
    const bytes = [0x04, 12, 13, 1, 9, 0xa0, 0x32, 0x80, 0x64, 0xc0, 0xb8, 2, 0xe2, 45];
    assert.deepEqual([...decoder.output()].slice(0, 14), takes ? bytes : []);
  }
});

test("bytes that violate the protocol are an error in words", async () => {
  const decoder = await greeted();
  assert.throws(() => decoder.bytes(Buffer.from([0xff, 0]), 3), DecoderError);
});

test("memory that grows while a call reserves it is used where it is then", () => {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const calls = {
    memory,
    viewer_buffer: (bytes) => {
      memory.grow(1);
      return 2 * 65_536 - bytes;
    },
    viewer_text_at: () => 2 * 65_536 - 3,
    viewer_text_bytes: () => 3,
  };
  const decoder = new DecoderMemory(calls);
  const view = decoder.view(0, 4);
  assert.equal(decoder.write(Buffer.from("abc")), 3);
  assert.equal(decoder.text(), "abc");
  assert.equal(view.byteLength, 0, "a view from before has no bytes");
});
