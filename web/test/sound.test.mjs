// Sound on the page: nothing before a person's first key or click, then packets are played and
// reported; mute and volume; silence.
// Beside page.test.mjs, against the same scripted session. Needs web/dist (./dev build web) and
// Chromium, which plays to nowhere on a machine without speakers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { openPage, says } from "./opened.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests();

/** Bits of both hellos. */
const [PLAYS, HAS_SOUND] = [1 << 21, 1 << 4];
const FRAME_MS = 10;
/** A tone of 440 Hz in Opus, each packet after its length in two bytes; made by ropus. */
const TONE = packetsOf(readFileSync(new URL("tone.opus", import.meta.url)));

function packetsOf(bytes) {
  const packets = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt16LE(at);
    packets.push(bytes.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return packets;
}

async function opened(t, options = {}) {
  const { page, viewer } = await openPage(t, browser, options);
  const hello = await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("concert", HAS_SOUND), message.geometry(1, 400, 300));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, 400, 300, 0x203040)]));
  await page.evaluate(() => window.thinc.quiet());
  return { page, viewer, hello };
}

const wants = (viewer) => viewer.received.filter((m) => m.kind === "soundWant");

/** Plays until the test ends or the answer is called; returns how many packets were sent. */
function play(t, viewer, first = 0) {
  const began = performance.now();
  let number = first;
  const timer = setInterval(() => {
    // A busy machine's timers are late: the packets that are due are sent at once.
    while (number - first < (performance.now() - began) / FRAME_MS) {
      viewer.send(message.sound(0, number, TONE[number % TONE.length]));
      number += 1;
    }
  }, FRAME_MS);
  const stop = () => {
    clearInterval(timer);
    return number;
  };
  t.after(stop);
  return stop;
}

/** A video beside it, whose frames are drawn when they are sent, on the same clock. */
function show(t, viewer) {
  const began = performance.now();
  const [size, place] = [
    { width: 16, height: 16 },
    { x: 8, y: 8, width: 16, height: 16 },
  ];
  const samples = Buffer.alloc((16 * 16 * 3) / 2, 16);
  let seq = 2;
  const init = draw.videoInit(0, 0, size, { x: 0, y: 0, ...size }, place);
  viewer.send(message.update(seq, 1, [init]));
  const timer = setInterval(() => {
    seq += 1;
    const timeUs = Math.round((performance.now() - began) * 1000);
    viewer.send(message.update(seq, 1, [draw.videoPlain(0, timeUs, [place], samples)]));
  }, 4 * FRAME_MS);
  t.after(() => clearInterval(timer));
}

test("sound begins with the first click, is played and reported", async (t) => {
  const { page, viewer, hello } = await opened(t);
  assert.ok(hello.caps & PLAYS, "the page announces that it plays sound");
  const before = await viewer.receive((m) => m.kind === "soundWant");
  assert.deepEqual([before.codecs, before.muted], [2, true], "nobody hears it yet");
  await says(page, "Sound: waits — the browser starts it with your first key or click");

  await page.mouse.click(200, 200);
  await viewer.receive((m) => m.kind === "soundWant" && !m.muted);
  viewer.send(message.soundFormat(0));
  play(t, viewer);
  show(t, viewer);
  const state = await viewer.receive((m) => m.kind === "soundState" && m.received > 150);
  assert.equal(state.lost, 0);
  assert.ok(state.lagUs > -100_000 && state.lagUs < 500_000, `it lags by ${state.lagUs} us`);
  assert.ok(state.heard > 0, "the time of what is heard is reported");
  const report = await page.evaluate(() => window.thinc.sound());
  assert.ok(report.received > 0 && report.delayUs > 0);

  // Muted, it is not sent; the session obeys the wish.
  await says(page, "Sound: on, 100 % — nothing plays");
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-sound").click();
  await page.locator("#menu-mute").click();
  await viewer.receive((m) => m.kind === "soundWant" && m.muted && wants(viewer).length > 2);
  assert.equal(await page.locator("#menu-mute").getAttribute("aria-pressed"), "true");
  await says(page, "Sound: muted, 100 % — the session sends none until you end that");
  await page.locator("#menu-mute").click();
  await viewer.receive((m) => m.kind === "soundWant" && !m.muted && wants(viewer).length > 3);
  assert.deepEqual(page.problems, []);
});

test("the menu says who plays, to screen readers too", async (t) => {
  const { page, viewer } = await opened(t);
  await viewer.receive((m) => m.kind === "soundWant");
  // The first key is what it waits for.
  await page.keyboard.press("Control+Alt+m");
  await says(page, "Sound: on, 100 % — nothing plays");
  await page.locator("#entry-sound").press("Enter");
  viewer.send(message.soundPlayers(["Firefox", "mpv <b>"]));
  await says(page, "Sound: on, 100 % — playing: Firefox, mpv <b>");
  await page.getByRole("status").getByText("Playing: Firefox, mpv <b>.").waitFor();
  await page.getByRole("slider", { name: "Volume" }).press("ArrowLeft");
  await says(page, "Sound: on, 95 % — playing: Firefox, mpv <b>");
  viewer.send(message.soundPlayers([]));
  await says(page, "Sound: on, 95 % — nothing plays");
  assert.deepEqual(page.problems, []);
});

test("an address can say that nothing is to be heard", async (t) => {
  const { page, viewer, hello } = await opened(t, { query: "?sound=off" });
  assert.equal(hello.caps & PLAYS, 0);
  await page.mouse.click(200, 200);
  await viewer.receive((m) => m.kind === "button");
  assert.deepEqual(wants(viewer), []);
  await says(page, "Sound: off — by this page's address (?sound)");
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-sound").click();
  assert.ok(await page.locator("#menu-mute").isHidden());
});

test("bytes that are no Opus do not stop the sound", async (t) => {
  const { page, viewer } = await opened(t);
  await page.mouse.click(200, 200);
  await viewer.receive((m) => m.kind === "soundWant" && !m.muted);
  viewer.send(message.soundFormat(0));
  for (let number = 0; number < 30; number += 1)
    viewer.send(message.sound(0, number, Buffer.alloc(40, 0xff - number)));
  play(t, viewer, 30);
  await viewer.receive((m) => m.kind === "soundState" && m.received > 150);
  assert.deepEqual(page.problems, []);
});
