// A connection that drops, becomes unresponsive or ends: what the page does and says, and what
// happens to keys.
// Beside page.test.mjs, against the same scripted session; a real one is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { draw, FakeSession, message } from "./fake-session.mjs";
import { Fingers } from "./fingers.mjs";
import { openPage, screenshotWithoutStatus } from "./opened.mjs";
import { readPng } from "./png.mjs";

const [WIDTH, HEIGHT] = [400, 300];
const [SHIFT, CONTROL] = [0xffe1, 0xffe3];

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A page with a picture of one colour. */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  greet(viewer, 0x336699);
  await page.evaluate(() => window.thinc.quiet());
  // Without a handle, the menu is shown for a while.
  await page.waitForFunction(
    () =>
      document.querySelector("#menu.handle") ||
      getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  return { session, page, viewer };
}

/** `seen`: the newest input that the session has received from the page before. */
function greet(viewer, color, seen) {
  viewer.send(
    message.hello("test session"),
    ...(seen === undefined ? [] : [message.inputReceived(seen)]),
    message.geometry(1, WIDTH, HEIGHT),
  );
  viewer.send(message.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, color)]));
}

const state = (page) => page.locator("#state");
const connected = (page) => state(page).waitFor({ state: "hidden" });
const gone = (page) => page.waitForFunction(() => !document.getElementById("state").hidden);
const keysOf = (viewer) =>
  viewer.received
    .filter((m) => m.kind === "key")
    .map((m) => `${String.fromCodePoint(m.keysym)} ${m.down ? "down" : "up"}`);
const typed = (viewer, character) =>
  viewer.receive((m) => m.kind === "key" && m.keysym === character.codePointAt(0) && !m.down);

/** Console messages about WebSockets are the browser's own; any other is a problem. */
const problems = (page) =>
  page.problems.filter((problem) => !/WebSocket|Failed to load resource/.test(problem));

test("without InputReceived the session gets no key typed while disconnected", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.keyboard.type("ab");
  await page.keyboard.down("h");
  await viewer.receive((m) => m.kind === "key" && m.keysym === 0x68);
  session.pause();
  viewer.socket.destroy();
  await gone(page);
  await page.keyboard.type("xy");
  await page.keyboard.press("Control+w");
  await page.keyboard.press("F5");
  await page.keyboard.insertText("ü");
  await page.keyboard.up("h");
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933);
  await connected(page);
  await page.keyboard.type("cd");
  await typed(second, "d");
  assert.deepEqual(keysOf(viewer), ["a down", "a up", "b down", "b up", "h down"]);
  assert.deepEqual(
    keysOf(second),
    ["c down", "c up", "d down", "d up"],
    "the session released a key that was held at the cut",
  );
  assert.equal(
    await page.evaluate(() => performance.getEntriesByType("navigation")[0].type),
    "navigate",
    "F5 loaded nothing",
  );
  assert.deepEqual(problems(page), []);
});

test("keys that were lost at a cut or typed after it are sent once, in order", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true; // nothing acknowledges what has arrived
  await page.keyboard.type("ab");
  await page.keyboard.down("Shift");
  const shift = await viewer.receive((m) => m.kind === "key" && m.keysym === SHIFT);
  await page.keyboard.press("C");
  await typed(viewer, "C");
  session.pause();
  viewer.socket.destroy();
  await page.getByText("What you type is sent when it is back.").waitFor({ state: "attached" });
  await page.keyboard.press("X");
  await page.keyboard.up("Shift");
  await page.keyboard.press("Control+w");
  await page.keyboard.insertText("ü");
  await page.keyboard.down("y");
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933, shift.seq);
  await connected(page);
  await page.keyboard.up("y");
  await page.keyboard.type("z");
  await typed(second, "z");
  const messages = second.received.filter((m) => m.kind === "key" || m.kind === "char");
  const modifiers = { [SHIFT]: "Shift", [CONTROL]: "Control" };
  const key = (m) => modifiers[m.keysym] ?? String.fromCodePoint(m.keysym);
  const name = (m) => m.character ?? `${key(m)} ${m.down ? "down" : "up"}`;
  assert.deepEqual(messages.map(name), [
    "Shift down",
    "C down",
    "C up",
    "X down",
    "X up",
    "Shift up",
    "Control down",
    "w down",
    "w up",
    "Control up",
    "ü",
    "y down",
    "y up",
    "z down",
    "z up",
  ]);
  assert.ok(messages[0].seq > shift.seq, "sequence numbers continue");
  // Another cut, without a loss.
  second.socket.destroy();
  const third = await session.viewer(2);
  greet(third, 0x996633, messages.at(-1).seq);
  await connected(page);
  await page.keyboard.type("!");
  await typed(third, "!");
  assert.deepEqual(keysOf(third), ["! down", "! up"]);
  assert.deepEqual(problems(page), []);
});

test("a click while disconnected discards later keys, and the page says so", async (t) => {
  const { session, page, viewer } = await opened(t);
  session.pause();
  viewer.socket.destroy();
  await page.getByText("What you type is sent when it is back.").waitFor({ state: "attached" });
  await page.keyboard.type("a");
  await page.mouse.click(50, 60);
  await page.getByText("What you type is not sent.").waitFor({ state: "attached" });
  await page.keyboard.type("b");
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933, 0);
  await connected(page);
  await page.keyboard.type("c");
  await typed(second, "c");
  assert.deepEqual(keysOf(second), ["c down", "c up"]);
  assert.deepEqual(
    second.received.filter((m) => m.kind === "button"),
    [],
  );
});

test("keys held at the cut or pressed after it are not pressed again", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.mouse.move(50, 60);
  await page.mouse.down();
  await page.keyboard.down("k");
  await viewer.receive((m) => m.kind === "key");
  session.pause();
  viewer.socket.destroy();
  await gone(page);
  await page.mouse.down({ button: "right" });
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933);
  await connected(page);
  await page.keyboard.down("k"); // as the browser repeats it
  await page.keyboard.up("k");
  await page.mouse.move(70, 80);
  await page.mouse.up();
  await page.mouse.up({ button: "right" });
  await page.mouse.move(90, 80);
  await page.mouse.click(90, 100);
  await page.keyboard.type("z");
  await typed(second, "z");
  assert.deepEqual(keysOf(second), ["z down", "z up"]);
  assert.deepEqual(
    second.received.filter((m) => m.kind === "button").map((m) => [m.button, m.down]),
    [
      [1, true],
      [1, false],
    ],
    "only the click",
  );
});

test("a finger that leaves while disconnected does not block the next", async (t) => {
  const { session, page, viewer } = await opened(t, { tab: PHONE });
  const fingers = await Fingers.of(page);
  await fingers.down([100, 100]);
  await fingers.move([160, 160]);
  await viewer.receive((m) => m.kind === "button" && m.down);
  session.pause();
  viewer.socket.destroy();
  await gone(page);
  await fingers.up();
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933);
  await connected(page);
  await fingers.tap([200, 200]);
  await second.receive((m) => m.kind === "button" && !m.down);
  assert.deepEqual(
    second.received.filter((m) => m.kind === "button").map((m) => m.down),
    [true, false],
  );
});

test("the last picture stays, and only the button of the line over it takes clicks", async (t) => {
  const { session, page, viewer } = await opened(t);
  session.pause();
  viewer.socket.destroy();
  await page.getByText("Connection dropped").waitFor();
  // After several refusals the delay is long enough for a button.
  await page.getByRole("button", { name: "Now" }).waitFor();
  await page.getByText(/Retry in \d s/).waitFor();
  const box = await state(page).boundingBox();
  assert.ok(box.height <= 48 && box.y > HEIGHT / 2, JSON.stringify(box));
  const { width, height, data } = readPng(await page.screenshot({ animations: "disabled" }));
  let others = 0;
  for (let at = 0; at < data.length; at += 4)
    others += data[at] !== 0x33 || data[at + 1] !== 0x66 || data[at + 2] !== 0x99 ? 1 : 0;
  assert.ok(
    others < (box.width + 24) * (box.height + 24),
    `${others} of ${width * height} pixels are not the picture's`,
  );
  const under = await page.evaluate(
    ([x, y]) => document.elementFromPoint(x, y).id,
    [box.x + 4, box.y + box.height / 2],
  );
  assert.equal(under, "screen");
  session.resume();
  await page.getByRole("button", { name: "Now" }).click();
  greet(await session.viewer(1), 0x112233);
  await connected(page);
});

test("an unanswered input is reported, until something arrives", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true;
  session.pause(); // so that no other connection replaces this one
  await page.keyboard.press("a");
  await page.getByText("No answer").waitFor();
  await page.keyboard.press("b");
  await typed(viewer, "b");
  viewer.mute = false;
  const ping = viewer.received.findLast((m) => m.kind === "ping");
  viewer.send(message.pong(ping.id));
  await connected(page);
  assert.equal(session.connections.length, 1);
  assert.deepEqual(keysOf(viewer), ["a down", "a up", "b down", "b up"]);
});

test("an unresponsive session is probed repeatedly until it answers", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true;
  session.pause();
  await page.keyboard.press("a");
  const pings = () => viewer.received.filter((m) => m.kind === "ping");
  // The connection is dropped after five seconds.
  await viewer.receive(() => pings().length >= 10);
  viewer.mute = false;
  viewer.send(message.pong(pings().at(-1).id));
  await connected(page);
  // Earlier probes may still arrive from a busy browser, but not in each second.
  for (let asked = Infinity, tries = 0; viewer.pongs - asked > 3 || tries === 0; tries += 1) {
    assert.ok(tries < 10, "no probes once it answers");
    asked = viewer.pongs;
    await page.waitForTimeout(1_000);
  }
  assert.equal(session.connections.length, 1);
});

test("a connection that answers again is kept, and others are abandoned", async (t) => {
  const { session, page, viewer } = await opened(t, { query: "?transport=websocket&thread=page" });
  viewer.mute = true;
  session.pause();
  await page.evaluate(() => {
    const { WebSocket } = window;
    window.refused = new Promise((resolve) => {
      window.WebSocket = class extends WebSocket {
        constructor(url) {
          super(url);
          // The page has seen it, too.
          this.addEventListener("close", () => setTimeout(resolve));
        }
      };
    });
  });
  await page.keyboard.press("a");
  await page.evaluate(() => window.refused);
  viewer.mute = false;
  viewer.send(message.pong(viewer.received.findLast((m) => m.kind === "ping").id));
  await connected(page);
  session.resume();
  // Two seconds with a held key.
  const answered = viewer.pongs;
  await page.keyboard.down("x");
  await viewer.receive(() => viewer.pongs >= answered + 4);
  await page.keyboard.up("x");
  assert.equal(session.connections.length, 1);
});

test("a connection that stays unresponsive is replaced", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true;
  await page.keyboard.press("a");
  const second = await session.viewer(1);
  assert.deepEqual(keysOf(viewer), ["a down", "a up"]);
  greet(second, 0x669933);
  await connected(page);
  await page.keyboard.press("c");
  await typed(second, "c");
  assert.deepEqual(keysOf(second), ["c down", "c up"]);
  const [first, again] = [viewer, second].map(({ received }) => received.slice(0, 2));
  assert.deepEqual(
    again.map(({ kind }) => kind),
    ["hello", "instance"],
  );
  assert.match(again[1].number, /^[0-9a-f]{32}$/);
  // Bit 8: the retained tiles of the connection before follow. Bit 17: the person opens the
  // session, which a connection that replaces another one does not do.
  const hello = { ...first[0], caps: (first[0].caps & ~0x20000) | 0x100 };
  assert.notEqual(hello.caps, first[0].caps);
  assert.deepEqual(
    again,
    [hello, first[1]],
    "the same identifier, so that the session ends the old connection",
  );
  await page.goto(session.url);
  const other = await session.viewer(2);
  const { number } = await other.receive((m) => m.kind === "instance");
  assert.equal(number, again[1].number, "a reloaded page has it too");
});

/**
 * Drops the timer with which web/engine/clock.ts checks the clock (CLOCK_MS): without input, only
 * that timer would detect a dead connection too.
 */
const withoutClockWatch = () => {
  const { setInterval } = self;
  self.dropped = 0;
  self.setInterval = (body, ms, ...more) => {
    if (ms !== 2_000) return setInterval(body, ms, ...more);
    self.dropped += 1;
    return 0;
  };
};

for (const [what, event] of [
  ["the network came back", () => window.dispatchEvent(new Event("online"))],
  [
    "the page was restored",
    () => window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })),
  ],
  ["the tab is visible again", () => document.dispatchEvent(new Event("visibilitychange"))],
]) {
  test(`${what}: a dead connection is detected at once, and a good one is kept`, async (t) => {
    const { session, page, viewer } = await opened(t, { workerScript: withoutClockWatch });
    assert.equal(await page.workers()[0].evaluate(() => self.dropped), 1, "the engine's watch");
    const { pongs } = viewer;
    await page.evaluate(event);
    await viewer.receive(() => viewer.pongs > pongs);
    await page.evaluate(() => window.thinc.quiet());
    assert.equal(await state(page).isHidden(), true);
    assert.equal(session.connections.length, 1);

    viewer.mute = true;
    await page.evaluate(event);
    const second = await session.viewer(1);
    greet(second, 0x669933);
    await connected(page);
  });
}

test("after a jump of the clock the session is probed at once", async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const page = await openTab(browser);
  t.after(() => page.context().close());
  await page.clock.install();
  await page.goto(session.link());
  await page.waitForURL(session.url);
  await session.viewer(0);
  await page.goto(`${session.url}?thread=page`); // a worker has a clock of its own
  const viewer = await session.viewer(1);
  greet(viewer, 0x336699);
  await connected(page);
  viewer.mute = true;
  await page.clock.setSystemTime(Date.now() + 3_600_000);
  greet(await session.viewer(2), 0x669933);
  await connected(page);
});

test("a session that is away for long is probed, and found when the network returns", async (t) => {
  const { session, page, viewer } = await opened(t);
  session.pause();
  viewer.socket.destroy();
  await page.getByText("Is its machine on, and the session running?").waitFor();
  session.resume();
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  greet(await session.viewer(1), 0x669933);
  await connected(page);
});

test("a cut during an update leaves the old picture until the next is complete", async (t) => {
  const { session, page, viewer } = await opened(t);
  const update = message.update(2, 1, [
    draw.raw(0, 0, WIDTH, HEIGHT, Buffer.alloc(WIDTH * HEIGHT * 3, 0x77)),
  ]);
  viewer.send(update.subarray(0, 100_000));
  viewer.socket.end();
  viewer.socket.destroySoon();
  await gone(page);
  const second = await session.viewer(1);
  second.send(
    message.hello("test session"),
    message.geometry(1, WIDTH, HEIGHT),
    message.update(1, 1, [draw.raw(0, 0, WIDTH, HEIGHT, Buffer.alloc(WIDTH * HEIGHT * 3, 0x77))]),
  );
  await connected(page);
  await page.evaluate(() => window.thinc.quiet());
  const { data } = readPng(await screenshotWithoutStatus(page));
  assert.ok(data.every((value, at) => value === (at % 4 === 3 ? 255 : 0x77)));
  assert.deepEqual(problems(page), []);
});

test("a page whose module was cut off while loading fetches it again", async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const page = await openTab(browser);
  t.after(() => page.context().close());
  session.cuts.set("viewer.wasm", 2);
  await page.goto(session.link());
  greet(await session.viewer(0), 0x336699);
  await connected(page);
  assert.equal(session.cuts.get("viewer.wasm"), 0);
});

for (const [what, end, words, again] of [
  [
    "the session ended",
    (viewer) => viewer.send(message.close(1, "the command has ended")),
    /The command has ended\. Start it again .* thinc serve/,
    undefined,
  ],
  [
    "another viewer took over",
    (viewer) => viewer.send(message.close(6, "thinc-view from elsewhere")),
    /Your desktop was opened elsewhere/,
    "Take it back",
  ],
  [
    "the cookie is unknown",
    (viewer, session) => {
      session.cookies.clear();
      viewer.socket.destroy();
    },
    /does not know this browser any more\. .*thinc link/,
    undefined,
  ],
]) {
  test(`${what}: the page says what to do, beside the last picture`, async (t) => {
    const { session, page, viewer } = await opened(t);
    end(viewer, session);
    await page.getByText(words).waitFor();
    const buttons = await page.locator("#state button:visible").allTextContents();
    assert.deepEqual(buttons, again === undefined ? [] : [again]);
    const box = await state(page).boundingBox();
    assert.ok(box.y >= 80, `the upper part is in sight: ${JSON.stringify(box)}`);
    assert.equal(await page.locator("#screen").isVisible(), true);
    await page.waitForTimeout(500);
    assert.equal(session.connections.length, 1, "and no useless reconnection");
  });
}
