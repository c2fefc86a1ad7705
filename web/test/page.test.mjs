// The page in a real browser against a scripted session: what it shows, sends and says.
// Beside the path; a session with a real X server is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { draw, FakeSession, message } from "./fake-session.mjs";
import { framebuffer, isConnected, openPage, screenshotWithoutStatus } from "./opened.mjs";
import { assertSamePixels, readPng } from "./png.mjs";

const [WIDTH, HEIGHT] = [400, 300];

/** Some tests wait for the other side; the limit names the one that waits without end. */
const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A session, and a page that has opened its link. */
const opened = (t, options) => openPage(t, browser, options);

function greet(viewer, { width = WIDTH, height = HEIGHT, name = "test session" } = {}) {
  viewer.send(message.hello(name), message.geometry(1, width, height));
}

const quiet = (page) => page.evaluate(() => window.thinc.quiet());

async function menuGone(page) {
  await page.waitForFunction(() => !document.getElementById("menu").classList.contains("open"));
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
}

async function shown(page) {
  return readPng(await screenshotWithoutStatus(page));
}

const PICTURES = [
  { query: "?present=2d", presenter: "2d" },
  { query: "?present=webgl2", presenter: "webgl2" },
  { query: "?present=2d&thread=page", presenter: "2d" },
  { query: "?present=webgl2&thread=page", presenter: "webgl2" },
];

for (const { query, presenter } of PICTURES) {
  test(`every byte of the screen reaches the canvas, ${query}`, async (t) => {
    const { page, viewer } = await opened(t, { query });
    greet(viewer);
    // Noise with every value of every channel; then a fill, a copy of both, and a corner pixel.
    const noise = randomBytes(WIDTH * HEIGHT * 3);
    const wanted = Buffer.alloc(WIDTH * HEIGHT * 4, 255);
    for (let i = 0; i < WIDTH * HEIGHT; i += 1) {
      for (const channel of [0, 1, 2]) wanted[i * 4 + channel] = noise[i * 3 + 2 - channel];
    }
    const fill = (x, y, width, height, r, g, b) => {
      for (let row = y; row < y + height; row += 1) {
        for (let column = x; column < x + width; column += 1)
          wanted.set([r, g, b], (row * WIDTH + column) * 4);
      }
    };
    viewer.send(message.update(1, 1, [draw.raw(0, 0, WIDTH, HEIGHT, noise)]));
    await quiet(page);
    viewer.send(
      message.update(2, 1, [draw.fill(10, 20, 30, 40, 0x123456)]),
      message.update(3, 1, [draw.copy(105, 27, 60, 70, 100, 5)]),
    );
    fill(10, 20, 30, 40, 0x12, 0x34, 0x56);
    const source = Buffer.from(wanted);
    for (let y = 27; y < 97; y += 1) {
      source.copy(
        wanted,
        (y * WIDTH + 105) * 4,
        ((y - 5) * WIDTH + 5) * 4,
        ((y - 5) * WIDTH + 65) * 4,
      );
    }
    viewer.send(message.update(4, 1, [draw.fill(WIDTH - 1, HEIGHT - 1, 1, 1, 0xffffff)]));
    fill(WIDTH - 1, HEIGHT - 1, 1, 1, 255, 255, 255);
    await quiet(page);
    await menuGone(page);

    const stats = await page.evaluate(() => window.thinc.stats());
    assert.equal(stats.presenter, presenter);
    assert.equal(stats.updates, 4);
    assertSamePixels(
      await framebuffer(page),
      { width: WIDTH, height: HEIGHT, data: wanted },
      "the viewer's framebuffer",
    );
    assertSamePixels(
      await shown(page),
      { width: WIDTH, height: HEIGHT, data: wanted },
      "the canvas",
    );
    await viewer.receive((m) => m.kind === "ack" && m.update === 4);
    assert.deepEqual(page.problems, []);
  });
}

test("a photograph has the same pixels here as in the native viewer", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  // crates/codec-dec/tests/jpeg.rs compares the native decoder with the same sums.
  const file = new URL("../../crates/codec-dec/tests/photographs.txt", import.meta.url);
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  assert.equal(lines.length, 3);
  for (const [i, line] of lines.entries()) {
    const [name, width, height, sum, hex] = line.split(" ");
    viewer.send(
      message.update(i + 1, 1, [
        draw.jpeg(5, 7, Number(width), Number(height), Buffer.from(hex, "hex")),
      ]),
    );
    await quiet(page);
    const found = await page.evaluate(
      async ([columns, rows]) => {
        const { width, data } = await window.thinc.pixels();
        let fnv = 0x811c9dc5;
        for (let y = 7; y < 7 + rows; y += 1) {
          for (let x = 5; x < 5 + columns; x += 1) {
            for (const channel of [2, 1, 0])
              fnv = Math.imul(fnv ^ data[(y * width + x) * 4 + channel], 0x01000193);
          }
        }
        return (fnv >>> 0).toString(16).padStart(8, "0");
      },
      [Number(width), Number(height)],
    );
    assert.equal(found, sum, name);
  }
  assert.deepEqual(page.problems, []);
});

test("lossy pixels are counted, and marked while lossy areas are shown", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  const file = new URL("../../crates/codec-dec/tests/photographs.txt", import.meta.url);
  const line = readFileSync(file, "utf8")
    .split("\n")
    .find((line) => line !== "" && !line.startsWith("#"));
  const [, width, height, , hex] = line.split(" ");
  const [w, h] = [Number(width), Number(height)];
  // Pixels that the session has not drawn yet are not lossless.
  viewer.send(
    message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0)]),
    message.update(2, 1, [draw.jpeg(20, 30, w, h, Buffer.from(hex, "hex"))]),
  );
  await quiet(page);
  const lossy = async () => (await page.evaluate(() => window.thinc.stats())).lossyPixels;
  assert.equal(await lossy(), w * h);
  /** The bounding box of the marks: left, top, right, bottom. */
  const marked = () =>
    page.evaluate(() => {
      const canvas = document.getElementById("lossy");
      if (canvas.hidden) return "hidden";
      const { data, width } = canvas
        .getContext("2d")
        .getImageData(0, 0, canvas.width, canvas.height);
      const box = [Infinity, Infinity, -1, -1];
      for (let i = 0; i < data.length / 4; i += 1) {
        if (data[i * 4 + 3] === 0) continue;
        const [x, y] = [i % width, Math.floor(i / width)];
        box.splice(
          0,
          4,
          Math.min(box[0], x),
          Math.min(box[1], y),
          Math.max(box[2], x),
          Math.max(box[3], y),
        );
      }
      return box;
    });
  assert.equal(await marked(), "hidden");
  await page.keyboard.press("Control+Alt+e");
  await page.waitForFunction(() => !document.getElementById("lossy").hidden);
  await quiet(page);
  assert.deepEqual(await marked(), [20, 30, 20 + w - 1, 30 + h - 1]);
  // A COPY moves the lossy area along, and lossless pixels refresh it.
  viewer.send(
    message.update(3, 1, [draw.copy(120, 130, w, h, 100, 100), draw.fill(20, 30, w, h, 0x123456)]),
  );
  await quiet(page);
  assert.deepEqual(await marked(), [120, 130, 120 + w - 1, 130 + h - 1]);
  viewer.send(message.update(4, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0x654321)]));
  await quiet(page);
  assert.equal(await lossy(), 0);
  assert.deepEqual(await marked(), [Infinity, Infinity, -1, -1], "no marks are left");
  await page.keyboard.press("Control+Alt+e");
  await page.waitForFunction(() => document.getElementById("lossy").hidden);
  assert.equal(
    viewer.received.some((m) => m.kind === "key" && m.code === 18),
    false,
    "the key is the viewer's own",
  );
  assert.deepEqual(page.problems, []);
});

test("a session pixel is one display pixel, and the session follows the tab", async (t) => {
  const { page, viewer } = await opened(t, { tab: { deviceScaleFactor: 2 } });
  const hello = await viewer.receive((m) => m.kind === "hello");
  assert.deepEqual(
    [hello.width, hello.height],
    [2 * WIDTH, 2 * HEIGHT],
    "device pixels, not CSS pixels",
  );
  greet(viewer, { width: 800, height: 600 });
  const noise = randomBytes(800 * 600 * 3);
  viewer.send(message.update(1, 1, [draw.raw(0, 0, 800, 600, noise)]));
  await quiet(page);
  await menuGone(page);
  const { width, height, data } = await shown(page);
  assert.deepEqual([width, height], [800, 600]);
  const wanted = Buffer.alloc(800 * 600 * 4, 255);
  for (let i = 0; i < 800 * 600 * 3; i += 1) wanted[Math.floor(i / 3) * 4 + 2 - (i % 3)] = noise[i];
  assertSamePixels(
    { width, height, data },
    { width, height, data: wanted },
    "at a device pixel ratio of 2",
  );

  await page.setViewportSize({ width: 333, height: 222 });
  const resize = await viewer.receive((m) => m.kind === "resize");
  assert.deepEqual([resize.width, resize.height], [666, 444]);
  assert.deepEqual(page.problems, []);
});

test("keys, texts, pointer and wheel arrive as the protocol defines them", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0)]));
  await quiet(page);
  await menuGone(page);
  viewer.received.length = 0;

  await page.keyboard.down("Shift");
  await page.keyboard.press("Digit1");
  await page.keyboard.up("Shift");
  await page.keyboard.press("Enter");
  await page.keyboard.press("F5");
  await page.keyboard.press("Control+w");
  await page.keyboard.insertText("é€漢");
  await page.mouse.move(11, 22);
  await page.mouse.down({ button: "right" });
  await page.mouse.move(399, 299);
  await page.mouse.up({ button: "right" });
  await page.mouse.wheel(0, 120);
  await viewer.receive((m) => m.kind === "scroll");

  const keys = viewer.received
    .filter((m) => m.kind === "key")
    .map((m) => [m.down ? "down" : "up", m.code, m.keysym]);
  assert.deepEqual(keys, [
    ["down", 42, 0xffe1],
    ["down", 2, 0x21],
    ["up", 2, 0x21],
    ["up", 42, 0xffe1],
    ["down", 28, 0xff0d],
    ["up", 28, 0xff0d],
    ["down", 63, 0xffc2],
    ["up", 63, 0xffc2],
    ["down", 29, 0xffe3],
    ["down", 17, 0x77],
    ["up", 17, 0x77],
    ["up", 29, 0xffe3],
  ]);
  assert.deepEqual(
    viewer.received.filter((m) => m.kind === "char").map((m) => m.character),
    ["é", "€", "漢"],
  );
  const pointer = viewer.received.filter((m) => ["motion", "button"].includes(m.kind));
  assert.deepEqual(
    pointer.filter((m) => m.kind === "button").map((m) => [m.button, m.down]),
    [
      [3, true],
      [3, false],
    ],
  );
  const pressed = pointer.findIndex((m) => m.kind === "button" && m.down);
  assert.deepEqual(
    [pointer[pressed - 1].x, pointer[pressed - 1].y],
    [11, 22],
    "the position before the button",
  );
  const released = pointer.findIndex((m) => m.kind === "button" && !m.down);
  assert.deepEqual([pointer[released - 1].x, pointer[released - 1].y], [399, 299]);
  const scrolled = viewer.received
    .filter((m) => m.kind === "scroll")
    .reduce((sum, m) => sum + m.dy, 0);
  assert.equal(scrolled, 120, "one notch down");
  assert.equal(page.url().includes("/base/"), true, "F5 and Control+w did not leave the page");

  await page.keyboard.down("a");
  await page.evaluate(() => window.dispatchEvent(new Event("blur")));
  await viewer.receive((m) => m.kind === "releaseAll");
  assert.deepEqual(page.problems, []);
});

test("a held key is not repeated, and Ctrl+Alt+S is the viewer's own", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0)]));
  await quiet(page);
  viewer.received.length = 0;
  await page.keyboard.down("x");
  await page.keyboard.down("x");
  await page.keyboard.up("x");
  await page.keyboard.press("Control+Alt+s");
  await page.locator("#stats").waitFor({ state: "visible" });
  await page.getByText("Round trip").waitFor();
  const graphics = page.locator("#stats dt").filter({ hasText: /^3D$/ });
  assert.equal(await graphics.count(), 0, "the session has not told");
  viewer.send(message.graphics("3D: software (llvmpipe), no GPU here"));
  await graphics.waitFor();
  await page
    .locator("#stats dt:text-is('3D') + dd:text-is('software (llvmpipe), no GPU here')")
    .waitFor();
  await page.keyboard.press("Control+Alt+s");
  await page.locator("#stats").waitFor({ state: "hidden" });
  await page.keyboard.press("y");
  await viewer.receive((m) => m.kind === "key" && m.code === 21 && !m.down);
  const keystrokes = viewer.received.filter((m) => m.kind === "key" && ![29, 56].includes(m.code));
  assert.deepEqual(
    keystrokes.map((m) => [m.code, m.down]),
    [
      [45, true],
      [45, false],
      [21, true],
      [21, false],
    ],
  );
});

/** Grants a cache and keeps a coloured square in slot 3. */
function keepSquare(viewer, token) {
  greet(viewer);
  viewer.send(
    message.cache(false, Buffer.from(token)),
    message.update(1, 1, [draw.fill(0, 0, 20, 20, 0x345678), draw.keep(0, 0, 20, 20, 3)]),
    message.update(2, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0)]),
  );
}

/** The next page or connection offers the cache of this token, and shows the square elsewhere. */
async function recallSquare(page, viewer, token) {
  const offer = await viewer.receive((m) => m.kind === "cache");
  assert.deepEqual([offer.token, offer.update, offer.bytes], [token, 2, 64 << 20]);
  greet(viewer);
  viewer.send(
    message.cache(true, Buffer.from("t".repeat(16))),
    message.update(1, 1, [draw.recall(100, 50, 20, 20, 3)]),
  );
  await quiet(page);
  const [pixel] = await page.evaluate(async () => {
    const { width, data } = await window.thinc.pixels();
    return [Array.from(data.slice((60 * width + 110) * 4, (60 * width + 110) * 4 + 3))];
  });
  assert.deepEqual(pixel, [0x34, 0x56, 0x78]);
}

test("the cache outlives the connection, and a handshake that is given up", async (t) => {
  const { session, page, viewer } = await opened(t);
  const nothing = await viewer.receive((m) => m.kind === "cache");
  assert.equal(nothing.token, "\0".repeat(16));
  keepSquare(viewer, "a token 16 long.");
  await quiet(page);
  session.stalls = 1;
  viewer.socket.destroy();
  await recallSquare(page, await session.viewer(1), "a token 16 long.");
  assert.deepEqual(
    page.problems.filter((problem) => !/WebSocket/.test(problem)),
    [],
  );
});

test("the cache outlives the page if the user asks for it, and only then", async (t) => {
  const stored = (page) =>
    page.evaluate(
      () =>
        new Promise((resolve) => {
          const opening = indexedDB.open("thinc");
          opening.onsuccess = () => {
            const database = opening.result;
            if (!database.objectStoreNames.contains("kept")) return resolve(0);
            database.transaction("kept").objectStore("kept").count().onsuccess = (event) =>
              resolve(event.target.result);
          };
        }),
    );
  const hide = (page) =>
    page.evaluate(() => {
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    });
  for (const asked of [true, false]) {
    const { session, page, viewer } = await opened(t, { query: asked ? "?keep=yes" : "?keep=no" });
    keepSquare(viewer, "a token 16 long.");
    await quiet(page);
    await hide(page);
    if (asked) while ((await stored(page)) === 0) await page.waitForTimeout(20);
    await page.goto(`${session.url}${asked ? "?keep=yes" : "?keep=no"}`);
    const again = await session.viewer(1);
    if (asked) {
      await recallSquare(page, again, "a token 16 long.");
    } else {
      assert.equal((await again.receive((m) => m.kind === "cache")).token, "\0".repeat(16));
      assert.equal(await stored(page), 0);
    }
    assert.deepEqual(
      page.problems.filter((problem) => !/WebSocket/.test(problem)),
      [],
    );
  }
});

test("the cursor is the browser's own, exact or hidden; drawn if it is too large", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0)]));
  await quiet(page);
  const cursor = () => page.evaluate(() => document.getElementById("stage").style.cursor);
  const pixels = randomBytes(24 * 20 * 4);
  for (let i = 3; i < pixels.length; i += 4) pixels[i] = 255;
  viewer.send(message.cursor(24, 20, 7, 9, pixels));
  await page.waitForFunction(() =>
    document.getElementById("stage").style.cursor.startsWith("url("),
  );
  const [, png, hot] = /url\("data:image\/png;base64,([^"]+)"\) (.*), default/.exec(await cursor());
  assert.equal(hot, "7 9");
  const wanted = Buffer.from(pixels);
  for (let i = 0; i < wanted.length; i += 4)
    [wanted[i], wanted[i + 2]] = [pixels[i + 2], pixels[i]];
  assertSamePixels(
    readPng(Buffer.from(png, "base64")),
    { width: 24, height: 20, data: wanted },
    "the cursor's image",
  );

  viewer.send(message.cursorShow(false));
  await page.waitForFunction(() => document.getElementById("stage").style.cursor === "none");
  viewer.send(message.cursorShow(true));
  await page.waitForFunction(() =>
    document.getElementById("stage").style.cursor.startsWith("url("),
  );

  viewer.send(message.cursor(200, 200, 100, 100, Buffer.alloc(200 * 200 * 4, 0xff)));
  await page.waitForFunction(() => document.getElementById("stage").style.cursor === "none");
  await page.mouse.move(150, 160);
  const box = await page.locator("canvas.cursor").boundingBox();
  assert.deepEqual(box, { x: 50, y: 60, width: 200, height: 200 });
  assert.deepEqual(page.problems, []);
});

test("a cursor of two colours is exact, and its colours change without a new image", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  const [red, green, blue] = [
    [0, 0, 255],
    [0, 255, 0],
    [255, 0, 0],
  ];
  const style = () => page.evaluate(() => document.getElementById("stage").style.cursor);
  // With alpha, which readPng drops.
  const shown = (cursor) =>
    page.evaluate(
      async (url) => {
        const image = new Image();
        image.src = url;
        await image.decode();
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        return [...context.getImageData(0, 0, image.width, image.height).data];
      },
      /url\("(data:[^"]+)"\) 3 1, default/.exec(cursor)[1],
    );
  // Nine pixels wide: foreground, background, six transparent, and a foreground in the second byte
  // of the row.
  const wanted = (fore, back) => {
    const pixel = ([b, g, r]) => [r, g, b, 255];
    const row = [pixel(fore), pixel(back), ...Array(6).fill([0, 0, 0, 0]), pixel(fore)].flat();
    return [...row, ...row];
  };
  const row = (...bytes) => [...bytes, ...bytes];
  viewer.send(message.cursorBits(9, 2, 3, 1, red, blue, [...row(0x80, 0x80), ...row(0xc0, 0x80)]));
  await page.waitForFunction(() =>
    document.getElementById("stage").style.cursor.startsWith("url("),
  );
  const first = await style();
  assert.deepEqual(await shown(first), wanted(red, blue));
  viewer.send(message.cursorColor(green, red));
  await page.waitForFunction(
    (before) => document.getElementById("stage").style.cursor !== before,
    first,
  );
  assert.deepEqual(await shown(await style()), wanted(green, red));
  assert.deepEqual(page.problems, []);
});

test("a dropped connection is dimmed, reported and replaced", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0x336699)]));
  await quiet(page);
  assert.equal(await page.title(), "test session – thinc");
  viewer.socket.destroy();
  await page.getByText("Connection dropped").or(page.getByText("Reconnecting…")).first().waitFor();
  const second = await session.viewer(1);
  greet(second);
  await isConnected(page);
  second.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0x996633)]));
  await quiet(page);
  await menuGone(page);
  const { data } = await shown(page);
  assert.deepEqual([...data.subarray(0, 3)], [0x99, 0x66, 0x33]);
});

test("a hidden tab decodes and acknowledges, and presents when it is visible again", async (t) => {
  const { page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, 0x102030)]));
  await quiet(page);
  await menuGone(page);
  const hide = (hidden) =>
    page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  await hide(true);
  const before = await page.evaluate(() => window.thinc.stats());
  for (let seq = 2; seq <= 30; seq += 1)
    viewer.send(message.update(seq, 1, [draw.fill(0, 0, WIDTH, HEIGHT, seq)]));
  await viewer.receive((m) => m.kind === "ack" && m.update === 30);
  const hidden = await page.evaluate(() => window.thinc.stats());
  assert.equal(hidden.updates, before.updates + 29);
  assert.equal(hidden.presents, before.presents);
  await hide(false);
  await page.waitForFunction(
    async (presents) => (await window.thinc.stats()).presents > presents,
    before.presents,
  );
  await quiet(page);
  assert.deepEqual([...(await shown(page)).data.subarray(0, 3)], [0, 0, 30]);
});

test("each reason of closing has its text", async (t) => {
  const sent = "the reason that the session gives";
  for (const [code, title, words, again] of [
    [1, "The session has ended", sent, undefined],
    [2, "This page and the session have different protocol versions", sent, "Connect again"],
    [4, "The session closed the connection", sent, "Connect again"],
    [6, "Your desktop was opened elsewhere", "It goes on there", "Take it back"],
  ]) {
    const { page, viewer } = await opened(t);
    greet(viewer);
    viewer.send(message.close(code, sent));
    await page.getByText(title).waitFor();
    await page.getByText(words).waitFor();
    const buttons = await page.locator("#state button:visible").allTextContents();
    assert.deepEqual(buttons, again === undefined ? [] : [again], title);
  }
});

test("bytes that break the protocol end the connection, not the page", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH + 1, 1, 0)]));
  await page.getByText("The connection failed").waitFor();
  await page.getByRole("button", { name: "Connect again" }).click();
  greet(await session.viewer(1));
  await isConnected(page);
});

test("a link works once and leaves the address bar; a used one is reported", async (t) => {
  const { session, page } = await opened(t);
  assert.equal(page.url(), session.url, "no token in the address bar");
  const other = await openTab(browser);
  t.after(() => other.context().close());
  await other.goto(session.link());
  await other.getByText("This link does not open the session").waitFor();
  await other.getByText("Each link works once").waitFor();
  assert.equal(other.url(), session.url, "nor a used one");
  // A new link pasted into the same tab.
  session.tokens.add("another");
  await other.goto(session.link("another"));
  await session.viewer(1);

  const bare = await openTab(browser);
  t.after(() => bare.context().close());
  await bare.goto(session.url);
  await bare.getByText("This session needs a link").waitFor();
});

test("a cookie without the secret of the origin opens nothing, and a new link does", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  await isConnected(page);
  const copy = await page.context().newPage();
  await copy.goto(session.url);
  greet(await session.viewer(1));
  await isConnected(copy);
  await copy.close();
  await page.evaluate(() => localStorage.clear());
  await page.reload();
  await page.getByText("This browser needs a new link").waitFor();
  assert.equal(session.connections.length, 2, "another tab has opened it, and this one has not");
  session.tokens.add("another");
  await page.goto(session.link("another"));
  await session.viewer(2);
});

test("a browser that keeps nothing is told so before the link is used", async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const page = await openTab(browser);
  t.after(() => page.context().close());
  await page.addInitScript(() =>
    Object.defineProperty(window, "localStorage", {
      get: () => {
        throw new DOMException("denied", "SecurityError");
      },
    }),
  );
  await page.goto(session.link());
  await page.getByText("This browser keeps no cookies and no data").waitFor();
  assert.ok(session.tokens.has("good-token"), "the link is still good");
});

test("a cookie that is no longer valid is reported", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  await isConnected(page);
  session.cookies.clear();
  viewer.socket.destroy();
  await page.getByText("This link is no longer valid").waitFor();
});

test("Disconnect sends a close and logs the browser out", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  await isConnected(page);
  await page.getByRole("button", { name: "Disconnect" }).click();
  await viewer.receive((m) => m.kind === "close");
  await page.getByText("The session continues without you.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Connect again" }).isVisible(), false);
  assert.equal(session.connections.length, 1);
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.waitForFunction(async () => (await fetch("login")).status === 401);
  assert.equal(session.logouts, 1);
  assert.deepEqual(await page.context().cookies(), []);
  await page.reload();
  await page.getByText("This session needs a link").waitFor();
  session.tokens.add("another");
  await page.goto(session.link("another"));
  await session.viewer(1);
});

test("Disconnect without an answer says that only this browser has forgotten", async (t) => {
  const { session, page, viewer } = await opened(t);
  greet(viewer);
  await isConnected(page);
  session.refusesLogout = true;
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByText("the session could not be told").waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
});
