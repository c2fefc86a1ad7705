// Videos on the page: coded pictures through the browser's own decoder, plain ones without, and what the session hears of either.
// Beside page.test.mjs, against the same session that does what a test says; real ones are in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, say } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";
import { coded, colorOf, plain, sampleOf, SIZE } from "./pictures.mjs";

const test = (name, body) => nodeTest(name, { timeout: 20_000 }, body);

const browser = chromiumForTests();

const [WIDTH, HEIGHT] = [400, 300];
const BACK = 0x203040;
/** Bits of the hello. */
const [PLAIN, H264] = [32, 64];
const WHOLE = { x: 0, y: 0, ...SIZE };
/** Shown at three times its size. */
const PLACE = { x: 100, y: 50, width: 192, height: 192 };

/** A page whose screen is drawn, and a session that counts its updates. */
async function opened(t, options = {}) {
  const { page, viewer } = await openPage(t, browser, options);
  const hello = await viewer.heard((m) => m.kind === "hello");
  viewer.send(say.hello("cinema"), say.geometry(1, WIDTH, HEIGHT));
  let seq = 0;
  /** In one piece, so that all of them are there before the first is decoded. */
  const atOnce = (...updates) => viewer.send(...updates.map((commands) => say.update((seq += 1), 1, commands)));
  const update = (...commands) => atOnce(commands);
  update(draw.fill(0, 0, WIDTH, HEIGHT, BACK));
  await quiet(page);
  return { page, viewer, hello, update, atOnce, acked: () => viewer.heard((m) => m.kind === "ack" && m.update === seq) };
}

const quiet = (page) => page.evaluate(() => window.thinc.quiet());
const stats = (page) => page.evaluate(() => window.thinc.stats());
const said = (viewer, id) => viewer.said.filter((m) => m.kind === "video" && m.id === id).map((m) => m.state);

/** Begins a stream, and waits until the page is ready for it. */
async function begun(viewer, update, id = 0) {
  update(draw.videoInit(id, 1, SIZE, WHOLE, PLACE));
  await viewer.heard((m) => m.kind === "video" && m.id === id && m.state === "ready");
}

const next = (number, { id = 0, clip = [PLACE] } = {}) => draw.videoCoded(id, number * 33_333, clip, coded[number].key, coded[number].data);

/** Red, green, blue of these places, as the viewer holds them. */
function pixelsAt(page, places) {
  return page.evaluate(async (places) => {
    const { width, data } = await window.thinc.pixels();
    return places.map(([x, y]) => [...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)]);
  }, places);
}

/** In the middle of the picture's quarters, on the screen. */
const QUARTERS = [[148, 98], [244, 98], [148, 194], [244, 194]];
const wantedAt = (number, [x, y]) => colorOf(sampleOf(number, (x - PLACE.x) / 3, (y - PLACE.y) / 3));
const BACK_RGB = [BACK >> 16, (BACK >> 8) & 255, BACK & 255];

/** That this picture is shown, in its four colours, and nothing of it beyond its place. */
async function assertShown(page, number, tolerance = 1) {
  const beside = [[99, 98], [292, 98], [148, 49], [148, 242]];
  const found = await pixelsAt(page, [...QUARTERS, ...beside]);
  QUARTERS.forEach((place, i) => {
    const wanted = wantedAt(number, place);
    const far = Math.max(...wanted.map((channel, j) => Math.abs(channel - found[i][j])));
    assert.ok(far <= tolerance, `picture ${number} at ${place}: ${found[i]} instead of ${wanted}`);
  });
  assert.deepEqual(found.slice(4), beside.map(() => BACK_RGB), "beside the place");
}

for (const query of ["", "?thread=page"]) {
  test(`coded pictures are decoded by the browser and painted as plain ones are, ${query || "in a worker"}`, async (t) => {
    const { page, viewer, hello, update } = await opened(t, { query });
    assert.equal(hello.caps & (PLAIN | H264), PLAIN | H264);
    await begun(viewer, update);
    for (const number of [0, 1, 2, 3]) update(next(number));
    await quiet(page);
    await assertShown(page, 3);
    const { video, inexactPixels } = await stats(page);
    assert.deepEqual([video.coded, video.shown + video.late, video.dropped, video.lost], [4, 4, 0, 0]);
    assert.equal(inexactPixels, PLACE.width * PLACE.height, "only nearly what the session shows");

    // The same picture as it is: what is painted of a coded one differs by the codec's loss, and here there is none.
    const every = () => page.evaluate(async () => Array.from((await window.thinc.pixels()).data));
    const before = await every();
    update(draw.videoPlain(0, 200_000, [PLACE], plain(3)));
    await quiet(page);
    const after = await every();
    assert.ok(before.every((channel, i) => Math.abs(channel - after[i]) <= 1), "scaled alike, at every edge");
    assert.equal((await stats(page)).inexactPixels, 0);
    // One that leans on the last coded one.
    update(next(4));
    await quiet(page);
    await assertShown(page, 4);
    assert.deepEqual(said(viewer, 0), ["ready"]);
    assert.deepEqual(page.problems, []);
  });
}

test("what was drawn while a picture was decoded stays over it, and only its clip is written", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  const clip = [{ x: 100, y: 50, width: 192, height: 100 }, { x: 100, y: 150, width: 40, height: 92 }];
  // All in one: no picture can have been decoded before the fill was applied.
  update(next(0, { clip }), draw.fill(230, 90, 30, 20, 0xff8800));
  await quiet(page);
  const places = [[148, 98], [244, 98], [120, 194], [244, 194]];
  const [first, filled, third, beyond] = await pixelsAt(page, places);
  assert.deepEqual(first, wantedAt(0, places[0]));
  assert.deepEqual(filled, [0xff, 0x88, 0]);
  assert.deepEqual(third, wantedAt(0, places[2]));
  assert.deepEqual(beyond, BACK_RGB);
});

test("a picture that cannot be decoded is said to be lost, and the next key goes on", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  update(next(0));
  update(draw.videoCoded(0, 1, [PLACE], false, Buffer.from("this is no picture, whatever decodes it")));
  await viewer.heard((m) => m.kind === "video" && m.state === "lost");
  // What leans on it is no use, and not worth more words.
  for (const number of [1, 2]) update(next(number));
  await quiet(page);
  await assertShown(page, 0);
  assert.deepEqual(said(viewer, 0), ["ready", "lost"]);
  for (const number of [8, 9]) update(next(number));
  await quiet(page);
  await assertShown(page, 9);
  assert.deepEqual(said(viewer, 0), ["ready", "lost"]);
  assert.deepEqual(page.problems, []);
});

test("a stream whose keys cannot be decoded again and again is refused, and plain pictures of it are shown all the same", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  const losses = () => said(viewer, 0).filter((state) => state !== "ready").length;
  for (let i = 0; i < 8 && !said(viewer, 0).includes("refused"); i += 1) {
    const before = losses();
    update(draw.videoCoded(0, i, [PLACE], true, Buffer.from("nor is this")));
    await viewer.heard(() => losses() > before);
  }
  assert.equal(said(viewer, 0).at(-1), "refused", String(said(viewer, 0)));
  update(draw.videoPlain(0, 100, [PLACE], plain(5)));
  await quiet(page);
  await assertShown(page, 5, 0);
  update(draw.videoEnd(0));
  // Its number may be another's now, which is as good as any.
  await begun(viewer, update);
  update(next(0));
  await quiet(page);
  await assertShown(page, 0);
  assert.deepEqual(page.problems, []);
});

test("a hidden tab decodes on; one that cannot keep up drops pictures, says so once, and is there again with the next key", async (t) => {
  const { page, viewer, update, atOnce, acked } = await opened(t);
  await begun(viewer, update);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  const before = await stats(page);
  update(next(0));
  await quiet(page);
  assert.equal((await stats(page)).video.shown, 1, "it decodes");
  // More than may wait.
  atOnce(...Array.from({ length: 20 }, () => [1, 2, 3, 4, 5, 6, 7].map((number) => [next(number)])).flat());
  await acked();
  await viewer.heard((m) => m.kind === "video" && m.state === "lost");
  update(next(8), next(9));
  await quiet(page);
  const after = await stats(page);
  assert.equal(after.presents, before.presents, "nobody looks");
  const { coded: came, shown, late, dropped, lost } = after.video;
  assert.equal(came, 143);
  assert.equal(shown + late + dropped, came, "none is left behind");
  assert.equal(lost, 1);
  await assertShown(page, 9);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForFunction(async (presents) => (await window.thinc.stats()).presents > presents, after.presents);
});

test("streams side by side each keep their own, and their numbers are used again", async (t) => {
  const { page, viewer, update } = await opened(t);
  const places = Array.from({ length: 16 }, (_, i) => ({ x: (i % 4) * 70, y: Math.floor(i / 4) * 70, ...SIZE }));
  const middle = ({ x, y }) => [x + 16, y + 16];
  for (const round of [0, 1]) {
    places.forEach((place, id) => update(draw.videoInit(id, 1, SIZE, WHOLE, place)));
    await viewer.heard(() => viewer.said.filter((m) => m.kind === "video" && m.state === "ready").length === 16 * (round + 1));
    for (let number = 0; number < 3; number += 1) places.forEach((place, id) => update(next(number, { id, clip: [place] })));
    await quiet(page);
    const found = await pixelsAt(page, places.map(middle));
    assert.deepEqual(found, places.map(() => colorOf(sampleOf(2, 16, 16))));
    places.forEach((_, id) => update(draw.videoEnd(id)));
  }
  assert.deepEqual(page.problems, []);
});

test("as many streams as memory is meant for, and no more", async (t) => {
  const { viewer, update } = await opened(t);
  const size = { width: 3840, height: 2160 };
  const init = (id, size) => update(draw.videoInit(id, 1, size, { x: 0, y: 0, ...size }, PLACE));
  const answer = (id, state) => viewer.heard((m) => m.kind === "video" && m.id === id && m.state === state);
  for (const id of [0, 1, 2]) init(id, size);
  await Promise.all([answer(0, "ready"), answer(1, "ready"), answer(2, "refused")]);
  update(draw.videoEnd(0));
  init(3, size);
  await answer(3, "ready");
});

test("a new connection begins without the streams of the old one, and late pictures of it show nothing", async (t) => {
  const { session, page, viewer } = await openPage(t, browser);
  const greet = (viewer) => viewer.send(say.hello("cinema"), say.geometry(1, WIDTH, HEIGHT), say.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, BACK)]));
  const init = say.update(2, 1, [draw.videoInit(0, 1, SIZE, WHOLE, PLACE)]);
  greet(viewer);
  viewer.send(init);
  await viewer.heard((m) => m.kind === "video");
  viewer.send(...[0, 1, 2].map((number) => say.update(3 + number, 1, [next(number)])));
  viewer.socket.destroy();
  const again = await session.viewer(1);
  greet(again);
  await quiet(page);
  assert.deepEqual(await pixelsAt(page, QUARTERS), QUARTERS.map(() => BACK_RGB));
  again.send(init);
  await again.heard((m) => m.kind === "video" && m.state === "ready");
  again.send(say.update(3, 1, [next(8)]));
  await quiet(page);
  await assertShown(page, 8);
});

/** Runs in the page: a decoder that gives gray pictures in the form `window.give` makes of them, or none. */
function otherDecoder() {
  window.open_frames = 0;
  const close = VideoFrame.prototype.close;
  VideoFrame.prototype.close = function () {
    window.open_frames -= 1;
    close.call(this);
  };
  window.VideoDecoder = class {
    static isConfigSupported = async (config) => ({ supported: window.able ?? true, config });
    state = "unconfigured";
    constructor({ output }) {
      this.output = output;
    }
    configure({ codedWidth }) {
      this.state = "configured";
      this.small = codedWidth === 16;
    }
    decode({ timestamp }) {
      const [width, height] = this.small ? [16, 16] : [64, 64];
      const frame = window.give(width, height, timestamp, this.small);
      if (frame === undefined) return;
      window.open_frames += 1;
      queueMicrotask(() => this.output(frame));
    }
    flush = async () => undefined;
    close() {
      this.state = "closed";
    }
  };
}

/** As decoders in hardware have it: blue and red in turn, in the middle of something larger. */
function paired() {
  window.give = (width, height, timestamp) => {
    const [wide, high] = [width + 32, height + 16];
    const bytes = new Uint8Array(wide * high * 1.5).fill(16);
    for (let y = 0; y < high / 2; y += 1) {
      for (let x = 0; x < wide / 2; x += 1) {
        const inside = x >= 8 && x < 8 + width / 2 && y >= 4 && y < 4 + height / 2;
        for (const [row, column] of [[0, 0], [0, 1], [1, 0], [1, 1]]) bytes[(2 * y + row) * wide + 2 * x + column] = inside ? 120 : 16;
        bytes.set(inside ? [90, 170] : [0, 0], wide * high + y * wide + 2 * x);
      }
    }
    const visibleRect = { x: 16, y: 8, width, height };
    return new VideoFrame(bytes, { format: "NV12", codedWidth: wide, codedHeight: high, visibleRect, timestamp });
  };
}

test("what decoders in hardware give, blue and red in turn in the middle of more, is painted too; every frame is closed", async (t) => {
  const script = `(${otherDecoder})(); (${paired})();`;
  const { page, viewer, hello, update } = await opened(t, { query: "?thread=page", script });
  assert.equal(hello.caps & H264, H264);
  await begun(viewer, update);
  for (const number of [0, 1, 2]) update(next(number));
  await quiet(page);
  const wanted = colorOf({ luma: 120, blue: 90, red: 170 });
  const corners = [[100, 50], [291, 50], [100, 241], [291, 241], [196, 146]];
  assert.deepEqual(await pixelsAt(page, corners), corners.map(() => wanted));
  assert.equal(await page.evaluate(() => window.open_frames), 0);
});

/** Runs in the page: decoders that keep what is inside of them until `window.settle`, and are counted. */
function slowDecoder() {
  window.open_decoders = 0;
  const settled = new Promise((resolve) => (window.settle = resolve));
  window.VideoDecoder = class extends window.VideoDecoder {
    configure(config) {
      super.configure(config);
      window.open_decoders += 1;
      if (!this.small) this.flush = () => settled;
    }
    decode(chunk) {
      if (this.small) super.decode(chunk);
    }
    close() {
      super.close();
      window.open_decoders -= 1;
    }
  };
}

test("a stream that has ended takes room while pictures are inside of it, and goes with its connection", async (t) => {
  const script = `(${otherDecoder})(); (${slowDecoder})(); (${paired})();`;
  const { page, viewer, update, acked } = await opened(t, { query: "?thread=page", script });
  const size = { width: 3840, height: 2160 };
  const init = (id) => update(draw.videoInit(id, 1, size, { x: 0, y: 0, ...size }, PLACE));
  const ready = (id) => viewer.heard((m) => m.kind === "video" && m.id === id && m.state === "ready");
  const open = (count) => page.waitForFunction((count) => window.open_decoders === count, count);
  init(0);
  await ready(0);
  update(next(0));
  await open(1);
  update(draw.videoEnd(0));
  for (const id of [1, 2]) init(id);
  await ready(1);
  update(draw.fill(0, 0, 8, 8, BACK));
  await acked();
  assert.deepEqual(said(viewer, 2), []);
  await page.evaluate(() => window.settle());
  await ready(2);
  update(next(0, { id: 2 }));
  await open(1);
  viewer.socket.destroy();
  await open(0);
});

test("frames that stay with a GPU, or are colours already: nothing is claimed, and a stream that turns out so is refused", async (t) => {
  const rgb = `window.give = (width, height, timestamp, small) => new VideoFrame(new Uint8Array(width * height * 4), { format: "BGRX", codedWidth: width, codedHeight: height, timestamp })`;
  const never = await opened(t, { query: "?thread=page", script: `(${otherDecoder})(); ${rgb};` });
  assert.equal(never.hello.caps & (PLAIN | H264), PLAIN);
  const unable = await opened(t, { query: "?thread=page", script: `(${otherDecoder})(); window.able = false; ${rgb};` });
  assert.equal(unable.hello.caps & (PLAIN | H264), PLAIN);
  assert.equal(await unable.page.evaluate(() => window.open_frames), 0);

  const script = `(${otherDecoder})(); (${paired})(); { const gray = window.give; ${rgb}; const color = window.give; window.give = (...all) => (all[3] ? gray : color)(...all); }`;
  const { page, viewer, hello, update } = await opened(t, { query: "?thread=page", script });
  assert.equal(hello.caps & H264, H264);
  await begun(viewer, update);
  update(next(0));
  await viewer.heard((m) => m.kind === "video" && m.state === "refused");
  update(draw.videoPlain(0, 100, [PLACE], plain(5)));
  await quiet(page);
  await assertShown(page, 5, 0);
  assert.equal(await page.evaluate(() => window.open_frames), 0);
});

test("without WebCodecs plain pictures are all that is claimed, and they play", async (t) => {
  const { page, viewer, hello, update } = await opened(t, { query: "?thread=page", script: "delete window.VideoDecoder" });
  assert.equal(hello.caps & (PLAIN | H264), PLAIN);
  update(draw.videoInit(3, 0, SIZE, WHOLE, PLACE));
  await viewer.heard((m) => m.kind === "video" && m.id === 3 && m.state === "ready");
  for (let number = 0; number < 16; number += 1) {
    update(draw.videoPlain(3, number * 33_333, [PLACE], plain(number)));
    await quiet(page);
    await assertShown(page, number, 0);
  }
  assert.deepEqual((await stats(page)).inexactPixels, 0);
  assert.deepEqual(page.problems, []);
});
