// Videos on the page: encoded frames through the browser's decoder, raw ones without, and what the
// session is told.
// Beside page.test.mjs, against the same scripted session; real ones are in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { framebuffer, openPage } from "./opened.mjs";
import {
  coded,
  codedAv1,
  codedYuv444,
  colorOf,
  plain,
  SIZE,
  sampleOf,
  sampleOfYuv444,
} from "./pictures.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests();

const [WIDTH, HEIGHT] = [400, 300];
const BACK = 0x203040;
/** Bits of the hello. */
const [PLAIN, H264] = [32, 64];
const WHOLE = { x: 0, y: 0, ...SIZE };
/** Shown at three times its size. */
const PLACE = { x: 100, y: 50, width: 192, height: 192 };

/** A page with a drawn screen, and a session that counts its updates. */
async function opened(t, { caps = 0, ...options } = {}) {
  const { page, viewer } = await openPage(t, browser, options);
  const hello = await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("cinema", caps), message.geometry(1, WIDTH, HEIGHT));
  let seq = 0;
  /** In one message, so that all of them arrive before the first is decoded. */
  const atOnce = (...updates) =>
    viewer.send(...updates.map((commands) => message.update((seq += 1), 1, commands)));
  const update = (...commands) => atOnce(commands);
  update(draw.fill(0, 0, WIDTH, HEIGHT, BACK));
  await quiet(page);
  return {
    page,
    viewer,
    hello,
    update,
    atOnce,
    acked: () => viewer.receive((m) => m.kind === "ack" && m.update === seq),
  };
}

const quiet = (page) => page.evaluate(() => window.thinc.quiet());
const stats = (page) => page.evaluate(() => window.thinc.stats());
const states = (viewer, id) =>
  viewer.received.filter((m) => m.kind === "video" && m.id === id).map((m) => m.state);

/** Begins a stream, and waits until the page is ready for it. */
async function begun(viewer, update, id = 0) {
  update(draw.videoInit(id, 1, SIZE, WHOLE, PLACE));
  await viewer.receive((m) => m.kind === "video" && m.id === id && m.state === "ready");
}

const next = (number, { id = 0, clip = [PLACE] } = {}) =>
  draw.videoCoded(id, number * 33_333, clip, coded[number].key, coded[number].data);

/** Red, green, blue at these places of the viewer's framebuffer. */
function pixelsAt(page, places) {
  return page.evaluate(async (places) => {
    const { width, data } = await window.thinc.pixels();
    return places.map(([x, y]) => [...data.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)]);
  }, places);
}

/** In the middle of the frame's quarters, on the screen. */
const QUARTERS = [
  [148, 98],
  [244, 98],
  [148, 194],
  [244, 194],
];
const wantedAt = (number, [x, y]) =>
  colorOf(sampleOf(number, (x - PLACE.x) / 3, (y - PLACE.y) / 3));
const BACK_RGB = [BACK >> 16, (BACK >> 8) & 255, BACK & 255];

/** Asserts that this frame is shown in its four colours, and nothing outside its place. */
async function assertShown(page, number, tolerance = 1) {
  const beside = [
    [99, 98],
    [292, 98],
    [148, 49],
    [148, 242],
  ];
  const found = await pixelsAt(page, [...QUARTERS, ...beside]);
  QUARTERS.forEach((place, i) => {
    const wanted = wantedAt(number, place);
    const far = Math.max(...wanted.map((channel, j) => Math.abs(channel - found[i][j])));
    assert.ok(far <= tolerance, `picture ${number} at ${place}: ${found[i]} instead of ${wanted}`);
  });
  assert.deepEqual(
    found.slice(4),
    beside.map(() => BACK_RGB),
    "beside the place",
  );
}

for (const query of ["", "?thread=page"]) {
  test(`encoded frames are painted as raw ones are, ${query || "in a worker"}`, async (t) => {
    const { page, viewer, hello, update } = await opened(t, { query });
    assert.equal(hello.caps & (PLAIN | H264), PLAIN | H264);
    await begun(viewer, update);
    for (const number of [0, 1, 2, 3]) update(next(number));
    await quiet(page);
    await assertShown(page, 3);
    const { video, lossyPixels } = await stats(page);
    assert.deepEqual(
      [video.coded, video.shown + video.skipped, video.dropped, video.keyframeRequests],
      [4, 4, 0, 0],
    );
    assert.equal(lossyPixels, PLACE.width * PLACE.height, "all lossy");

    // The same frame raw: an encoded one differs by the codec's loss, which is none here.
    const { data: before } = await framebuffer(page);
    update(draw.videoPlain(0, 200_000, [PLACE], plain(3)));
    await quiet(page);
    const { data: after } = await framebuffer(page);
    assert.ok(
      before.every((channel, i) => Math.abs(channel - after[i]) <= 1),
      "scaled alike, at every edge",
    );
    assert.equal((await stats(page)).lossyPixels, 0);
    // A frame that refers to the last encoded one.
    update(next(4));
    await quiet(page);
    await assertShown(page, 4);
    assert.deepEqual(states(viewer, 0), ["ready"]);
    assert.deepEqual(page.problems, []);
  });
}

/** The session takes `videoCodecs`. */
const CODECS = 2048;
const [AV1, YUV444] = [2, 3];
const BOTH = (1 << AV1) | (1 << YUV444);
const codecsOf = (viewer) =>
  viewer.received.filter((m) => m.kind === "videoCodecs").map((m) => m.codecs);
/** Each is announced when it has passed its trial. */
const announced = (viewer, codecs = BOTH) =>
  viewer.receive((m) => m.kind === "videoCodecs" && m.codecs === codecs);
const nextAv1 = (number) =>
  number === 0
    ? draw.videoKeyOf(0, 0, [PLACE], AV1, codedAv1[0])
    : draw.videoCoded(0, number * 33_333, [PLACE], false, codedAv1[number]);

for (const query of ["", "?thread=page"]) {
  test(`a stream goes over to AV1 and back by keyframes, ${query || "in a worker"}`, async (t) => {
    const { page, viewer, update } = await opened(t, { query, caps: CODECS });
    await announced(viewer);
    await begun(viewer, update);
    for (const [frame, number] of [
      [next, 0],
      [next, 1],
      [nextAv1, 0],
      [nextAv1, 1],
      [nextAv1, 2],
      [nextAv1, 3],
      [next, 8],
      [next, 9],
      [nextAv1, 0],
    ]) {
      update(frame(number));
      await quiet(page);
      await assertShown(page, number);
    }
    const { video } = await stats(page);
    assert.deepEqual([video.coded, video.shown, video.keyframeRequests], [9, 9, 0]);
    assert.deepEqual(states(viewer, 0), ["ready"]);
    assert.deepEqual(page.problems, []);
  });
}

test("AV1 that fails twice is taken back before a keyframe is requested", async (t) => {
  const { page, viewer, update } = await opened(t, { caps: CODECS });
  await announced(viewer);
  await begun(viewer, update);
  update(nextAv1(0));
  await quiet(page);
  const needs = (count) =>
    viewer.receive(() => states(viewer, 0).filter((s) => s === "needsKeyframe").length === count);
  update(draw.videoKeyOf(0, 1, [PLACE], AV1, Buffer.from("invalid data")));
  await needs(1);
  assert.equal(codecsOf(viewer).at(-1), BOTH, "it may be tried again");
  update(nextAv1(0));
  update(draw.videoKeyOf(0, 2, [PLACE], AV1, Buffer.from("invalid data too")));
  await needs(2);
  const said = viewer.received.filter((m) => ["videoCodecs", "video"].includes(m.kind)).slice(-2);
  assert.deepEqual(
    said.map((m) => m.codecs ?? m.state),
    [1 << YUV444, "needsKeyframe"],
  );
  update(next(0));
  update(next(1));
  await quiet(page);
  await assertShown(page, 1);
});

const nextYuv444 = (number) =>
  number === 0
    ? draw.videoKeyOf(0, 0, [PLACE], YUV444, codedYuv444[0].data)
    : draw.videoCoded(0, number * 33_333, [PLACE], false, codedYuv444[number].data);

/** Asserts that this frame is shown, in columns of which each has its own colour. */
async function assertFullChroma(page, number) {
  // The middles of samples, which are three pixels wide.
  const samples = [16, 17, 18, 19, 50, 51].flatMap((x) => [16, 48].map((y) => [x, y]));
  const places = samples.map(([x, y]) => [PLACE.x + 3 * x + 1, PLACE.y + 3 * y + 1]);
  const found = await pixelsAt(page, places);
  samples.forEach(([x, y], i) => {
    const wanted = colorOf(sampleOfYuv444(number, x, y));
    const far = Math.max(...wanted.map((channel, j) => Math.abs(channel - found[i][j])));
    assert.ok(far <= 2, `picture ${number} at ${x}, ${y}: ${found[i]} instead of ${wanted}`);
  });
}

test("a stream goes over to 4:4:4 and back by keyframes", async (t) => {
  const { page, viewer, update } = await opened(t, { caps: CODECS });
  await announced(viewer);
  await begun(viewer, update);
  const half = [next, assertShown];
  const full = [nextYuv444, assertFullChroma];
  for (const [number, [frame, assertFrame]] of [
    [0, half],
    [0, full],
    [1, full],
    [2, full],
    [3, full],
    [8, half],
    [9, half],
    [0, full],
  ]) {
    update(frame(number));
    await quiet(page);
    await assertFrame(page, number);
  }
  const { video } = await stats(page);
  assert.deepEqual([video.coded, video.shown, video.keyframeRequests], [8, 8, 0]);
  assert.deepEqual(page.problems, []);
});

test("a browser that does not decode AV1 announces none", async (t) => {
  const script = `{
    const decodes = VideoDecoder.isConfigSupported;
    VideoDecoder.isConfigSupported = async (config) =>
      config.codec.startsWith("av01") ? { supported: false, config } : decodes(config);
  }`;
  const query = "?thread=page";
  const { page, viewer, update } = await opened(t, { query, caps: CODECS, script });
  await begun(viewer, update);
  update(next(0));
  await quiet(page);
  await assertShown(page, 0);
  await announced(viewer, 1 << YUV444);
  assert.deepEqual(codecsOf(viewer), [1 << YUV444]);
});

test("what is drawn during decoding stays; only the frame's clip is written", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  const clip = [
    { x: 100, y: 50, width: 192, height: 100 },
    { x: 100, y: 150, width: 40, height: 92 },
  ];
  // All in one: no frame can have been decoded before the fill was applied.
  update(next(0, { clip }), draw.fill(230, 90, 30, 20, 0xff8800));
  await quiet(page);
  const places = [
    [148, 98],
    [244, 98],
    [120, 194],
    [244, 194],
  ];
  const [first, filled, third, beyond] = await pixelsAt(page, places);
  assert.deepEqual(first, wantedAt(0, places[0]));
  assert.deepEqual(filled, [0xff, 0x88, 0]);
  assert.deepEqual(third, wantedAt(0, places[2]));
  assert.deepEqual(beyond, BACK_RGB);
});

test("a frame that cannot be decoded is reported, and the next keyframe continues", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  update(next(0));
  update(draw.videoCoded(0, 1, [PLACE], false, Buffer.from("invalid data")));
  await viewer.receive((m) => m.kind === "video" && m.state === "needsKeyframe");
  // Frames that refer to it are useless, and not reported.
  for (const number of [1, 2]) update(next(number));
  await quiet(page);
  await assertShown(page, 0);
  assert.deepEqual(states(viewer, 0), ["ready", "needsKeyframe"]);
  for (const number of [8, 9]) update(next(number));
  await quiet(page);
  await assertShown(page, 9);
  assert.deepEqual(states(viewer, 0), ["ready", "needsKeyframe"]);
  assert.deepEqual(page.problems, []);
});

test("a stream with undecodable keyframes is refused, and its raw frames are shown", async (t) => {
  const { page, viewer, update } = await opened(t);
  await begun(viewer, update);
  const losses = () => states(viewer, 0).filter((state) => state !== "ready").length;
  for (let i = 0; i < 8 && !states(viewer, 0).includes("refused"); i += 1) {
    const before = losses();
    update(draw.videoCoded(0, i, [PLACE], true, Buffer.from("invalid data too")));
    await viewer.receive(() => losses() > before);
  }
  assert.equal(states(viewer, 0).at(-1), "refused", String(states(viewer, 0)));
  update(draw.videoPlain(0, 100, [PLACE], plain(5)));
  await quiet(page);
  await assertShown(page, 5, 0);
  update(draw.videoEnd(0));
  // Its number may be in use by another stream.
  await begun(viewer, update);
  update(next(0));
  await quiet(page);
  await assertShown(page, 0);
  assert.deepEqual(page.problems, []);
});

test("a hidden tab decodes; if it is too slow it drops frames and reports it once", async (t) => {
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
  // More than may be pending.
  atOnce(
    ...Array.from({ length: 20 }, () =>
      [1, 2, 3, 4, 5, 6, 7].map((number) => [next(number)]),
    ).flat(),
  );
  await acked();
  await viewer.receive((m) => m.kind === "video" && m.state === "needsKeyframe");
  update(next(8), next(9));
  await quiet(page);
  const after = await stats(page);
  assert.equal(after.presents, before.presents, "the tab is hidden");
  const { coded: came, shown, skipped, dropped, keyframeRequests } = after.video;
  assert.equal(came, 143);
  assert.equal(shown + skipped + dropped, came, "no frame is left open");
  assert.equal(keyframeRequests, 1);
  await assertShown(page, 9);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: false, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForFunction(
    async (presents) => (await window.thinc.stats()).presents > presents,
    after.presents,
  );
});

test("concurrent streams keep their own frames, and their numbers are used again", async (t) => {
  const { page, viewer, update } = await opened(t);
  const places = Array.from({ length: 16 }, (_, i) => ({
    x: (i % 4) * 70,
    y: Math.floor(i / 4) * 70,
    ...SIZE,
  }));
  const middle = ({ x, y }) => [x + 16, y + 16];
  for (const round of [0, 1]) {
    places.forEach((place, id) => update(draw.videoInit(id, 1, SIZE, WHOLE, place)));
    await viewer.receive(
      () =>
        viewer.received.filter((m) => m.kind === "video" && m.state === "ready").length ===
        16 * (round + 1),
    );
    for (let number = 0; number < 3; number += 1)
      places.forEach((place, id) => update(next(number, { id, clip: [place] })));
    await quiet(page);
    const found = await pixelsAt(page, places.map(middle));
    assert.deepEqual(
      found,
      places.map(() => colorOf(sampleOf(2, 16, 16))),
    );
    places.forEach((_, id) => update(draw.videoEnd(id)));
  }
  assert.deepEqual(page.problems, []);
});

test("there are as many streams as memory permits, and no more", async (t) => {
  const { viewer, update } = await opened(t);
  const size = { width: 3840, height: 2160 };
  const init = (id, size) => update(draw.videoInit(id, 1, size, { x: 0, y: 0, ...size }, PLACE));
  const answer = (id, state) =>
    viewer.receive((m) => m.kind === "video" && m.id === id && m.state === state);
  for (const id of [0, 1, 2]) init(id, size);
  await Promise.all([answer(0, "ready"), answer(1, "ready"), answer(2, "refused")]);
  update(draw.videoEnd(0));
  init(3, size);
  await answer(3, "ready");
});

test("a new connection has no old streams, and their late frames are not shown", async (t) => {
  const { session, page, viewer } = await openPage(t, browser);
  const greet = (viewer) =>
    viewer.send(
      message.hello("cinema"),
      message.geometry(1, WIDTH, HEIGHT),
      message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, BACK)]),
    );
  const init = message.update(2, 1, [draw.videoInit(0, 1, SIZE, WHOLE, PLACE)]);
  greet(viewer);
  viewer.send(init);
  await viewer.receive((m) => m.kind === "video");
  viewer.send(...[0, 1, 2].map((number) => message.update(3 + number, 1, [next(number)])));
  viewer.socket.destroy();
  const again = await session.viewer(1);
  greet(again);
  await quiet(page);
  assert.deepEqual(
    await pixelsAt(page, QUARTERS),
    QUARTERS.map(() => BACK_RGB),
  );
  again.send(init);
  await again.receive((m) => m.kind === "video" && m.state === "ready");
  again.send(message.update(3, 1, [next(8)]));
  await quiet(page);
  await assertShown(page, 8);
});

/** Runs in the page: a decoder that returns gray frames in the format of `window.give`, or none. */
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
      this.small = codedWidth === 16 || codedWidth === 256;
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

/** As from hardware decoders: chroma interleaved, inside a larger frame. */
function interleaved() {
  window.give = (width, height, timestamp) => {
    const [wide, high] = [width + 32, height + 16];
    const bytes = new Uint8Array(wide * high * 1.5).fill(16);
    for (let y = 0; y < high / 2; y += 1) {
      for (let x = 0; x < wide / 2; x += 1) {
        const inside = x >= 8 && x < 8 + width / 2 && y >= 4 && y < 4 + height / 2;
        for (const [row, column] of [
          [0, 0],
          [0, 1],
          [1, 0],
          [1, 1],
        ])
          bytes[(2 * y + row) * wide + 2 * x + column] = inside ? 120 : 16;
        bytes.set(inside ? [90, 170] : [0, 0], wide * high + y * wide + 2 * x);
      }
    }
    const visibleRect = { x: 16, y: 8, width, height };
    return new VideoFrame(bytes, {
      format: "NV12",
      codedWidth: wide,
      codedHeight: high,
      visibleRect,
      timestamp,
    });
  };
}

test("frames of hardware decoders are painted too, and every frame is closed", async (t) => {
  const script = `(${otherDecoder})(); (${interleaved})();`;
  const { page, viewer, hello, update } = await opened(t, { query: "?thread=page", script });
  assert.equal(hello.caps & H264, H264);
  await begun(viewer, update);
  for (const number of [0, 1, 2]) update(next(number));
  await quiet(page);
  const wanted = colorOf({ luma: 120, blue: 90, red: 170 });
  const corners = [
    [100, 50],
    [291, 50],
    [100, 241],
    [291, 241],
    [196, 146],
  ];
  assert.deepEqual(
    await pixelsAt(page, corners),
    corners.map(() => wanted),
  );
  assert.equal(await page.evaluate(() => window.open_frames), 0);
});

/** Runs in the page: decoders that keep frames until `window.settle`, and are counted. */
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

test("an ended stream uses memory while frames are pending", async (t) => {
  const script = `(${otherDecoder})(); (${slowDecoder})(); (${interleaved})();`;
  const { page, viewer, update, acked } = await opened(t, { query: "?thread=page", script });
  const size = { width: 3840, height: 2160 };
  const init = (id) => update(draw.videoInit(id, 1, size, { x: 0, y: 0, ...size }, PLACE));
  const ready = (id) =>
    viewer.receive((m) => m.kind === "video" && m.id === id && m.state === "ready");
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
  assert.deepEqual(states(viewer, 2), []);
  await page.evaluate(() => window.settle());
  await ready(2);
  update(next(0, { id: 2 }));
  await open(1);
  viewer.socket.destroy();
  await open(0);
});

test("GPU and RGB frames: the codec is not claimed, or the stream is refused", async (t) => {
  const rgb = `window.give = (codedWidth, codedHeight, timestamp, small) => {
    const data = new Uint8Array(codedWidth * codedHeight * 4);
    return new VideoFrame(data, { format: "BGRX", codedWidth, codedHeight, timestamp });
  }`;
  const never = await opened(t, { query: "?thread=page", script: `(${otherDecoder})(); ${rgb};` });
  assert.equal(never.hello.caps & (PLAIN | H264), PLAIN);
  const unable = await opened(t, {
    query: "?thread=page",
    script: `(${otherDecoder})(); window.able = false; ${rgb};`,
  });
  assert.equal(unable.hello.caps & (PLAIN | H264), PLAIN);
  assert.equal(await unable.page.evaluate(() => window.open_frames), 0);

  const script = `(${otherDecoder})(); (${interleaved})();
    { const gray = window.give; ${rgb}; const color = window.give;
      window.give = (...all) => (all[3] ? gray : color)(...all); }`;
  const { page, viewer, hello, update } = await opened(t, { query: "?thread=page", script });
  assert.equal(hello.caps & H264, H264);
  await begun(viewer, update);
  update(next(0));
  await viewer.receive((m) => m.kind === "video" && m.state === "refused");
  update(draw.videoPlain(0, 100, [PLACE], plain(5)));
  await quiet(page);
  await assertShown(page, 5, 0);
  assert.equal(await page.evaluate(() => window.open_frames), 0);
});

test("without WebCodecs only raw frames are claimed, and they play", async (t) => {
  const { page, viewer, hello, update } = await opened(t, {
    query: "?thread=page",
    script: "delete window.VideoDecoder",
  });
  assert.equal(hello.caps & (PLAIN | H264), PLAIN);
  update(draw.videoInit(3, 0, SIZE, WHOLE, PLACE));
  await viewer.receive((m) => m.kind === "video" && m.id === 3 && m.state === "ready");
  for (let number = 0; number < 16; number += 1) {
    update(draw.videoPlain(3, number * 33_333, [PLACE], plain(number)));
    await quiet(page);
    await assertShown(page, number, 0);
  }
  assert.deepEqual((await stats(page)).lossyPixels, 0);
  assert.deepEqual(page.problems, []);
});
