// A connection that drops, falls silent or ends: what the page makes of it, what it says, and what happens to keys meanwhile.
// Beside page.test.mjs, against the same session that does what a test says; a real one is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { draw, FakeSession, say } from "./fake-session.mjs";
import { Fingers } from "./fingers.mjs";
import { openPage } from "./opened.mjs";
import { readPng } from "./png.mjs";

const [WIDTH, HEIGHT] = [400, 300];
const [SHIFT, CONTROL] = [0xffe1, 0xffe3];

const test = (name, body) => nodeTest(name, { timeout: 30_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A page with a picture of one colour. */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  greet(viewer, 0x336699);
  await page.evaluate(() => window.thinc.quiet());
  // The menu shows itself for a while, where it has no handle.
  await page.waitForFunction(() => document.querySelector("#menu.handle") || getComputedStyle(document.getElementById("menu")).visibility === "hidden");
  return { session, page, viewer };
}

/** `seen`: the newest input that the session has taken of the page before. */
function greet(viewer, color, seen) {
  viewer.send(say.hello("test session"), ...(seen === undefined ? [] : [say.seen(seen)]), say.geometry(1, WIDTH, HEIGHT));
  viewer.send(say.update(1, 1, [draw.fill(0, 0, WIDTH, HEIGHT, color)]));
}

const state = (page) => page.locator("#state");
const connected = (page) => state(page).waitFor({ state: "hidden" });
const gone = (page) => page.waitForFunction(() => !document.getElementById("state").hidden);
const keysOf = (viewer) => viewer.said.filter((m) => m.kind === "key").map((m) => `${String.fromCodePoint(m.keysym)} ${m.down ? "down" : "up"}`);
const typed = (viewer, letter) => viewer.heard((m) => m.kind === "key" && m.keysym === letter.codePointAt(0) && !m.down);

/** Console words about WebSockets are the browser's own; anything else is a problem. */
const problems = (page) => page.problems.filter((problem) => !/WebSocket|Failed to load resource/.test(problem));

test("a session that says nothing of what it has taken gets no key typed while the connection was away; those before and after come once", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.keyboard.type("ab");
  await page.keyboard.down("h");
  await viewer.heard((m) => m.kind === "key" && m.keysym === 0x68);
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
  assert.deepEqual(keysOf(second), ["c down", "c up", "d down", "d up"], "a key held at the cut was released there by its going");
  assert.equal(await page.evaluate(() => performance.getEntriesByType("navigation")[0].type), "navigate", "F5 loaded nothing");
  assert.deepEqual(problems(page), []);
});

test("what was not taken at a cut and is typed while the connection is away comes when it is back: once, in order, with what is held", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true; // no answer says what has arrived
  await page.keyboard.type("ab");
  await page.keyboard.down("Shift");
  const shift = await viewer.heard((m) => m.kind === "key" && m.keysym === SHIFT);
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
  const said = second.said.filter((m) => m.kind === "key" || m.kind === "char");
  const name = (m) => m.character ?? `${{ [SHIFT]: "Shift", [CONTROL]: "Control" }[m.keysym] ?? String.fromCodePoint(m.keysym)} ${m.down ? "down" : "up"}`;
  assert.deepEqual(said.map(name), [
    "Shift down", "C down", "C up", "X down", "X up", "Shift up",
    "Control down", "w down", "w up", "Control up", "ü", "y down", "y up", "z down", "z up",
  ]);
  assert.ok(said[0].seq > shift.seq, "numbers go on");
  // A cut again, and nothing of it was lost.
  second.socket.destroy();
  const third = await session.viewer(2);
  greet(third, 0x996633, said.at(-1).seq);
  await connected(page);
  await page.keyboard.type("!");
  await typed(third, "!");
  assert.deepEqual(keysOf(third), ["! down", "! up"]);
  assert.deepEqual(problems(page), []);
});

test("a click into the picture while the connection is away takes the keys typed then along into nothing, and the page says so", async (t) => {
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
  assert.deepEqual(second.said.filter((m) => m.kind === "button"), []);
});

test("what is held at the cut, or pressed after it, is not pressed anew when the session is back", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.mouse.move(50, 60);
  await page.mouse.down();
  await page.keyboard.down("k");
  await viewer.heard((m) => m.kind === "key");
  session.pause();
  viewer.socket.destroy();
  await gone(page);
  await page.mouse.down({ button: "right" });
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933);
  await connected(page);
  await page.keyboard.down("k"); // the browser repeats it
  await page.keyboard.up("k");
  await page.mouse.move(70, 80);
  await page.mouse.up();
  await page.mouse.up({ button: "right" });
  await page.mouse.move(90, 80);
  await page.mouse.click(90, 100);
  await page.keyboard.type("z");
  await typed(second, "z");
  assert.deepEqual(keysOf(second), ["z down", "z up"]);
  assert.deepEqual(second.said.filter((m) => m.kind === "button").map((m) => [m.button, m.down]), [[1, true], [1, false]], "the click alone");
});

test("a finger that leaves while the connection is away does not stand in the way of the next", async (t) => {
  const { session, page, viewer } = await opened(t, { tab: PHONE });
  const fingers = await Fingers.of(page);
  await fingers.down([100, 100]);
  await fingers.move([160, 160]);
  await viewer.heard((m) => m.kind === "button" && m.down);
  session.pause();
  viewer.socket.destroy();
  await gone(page);
  await fingers.up();
  session.resume();
  const second = await session.viewer(1);
  greet(second, 0x669933);
  await connected(page);
  await fingers.tap([200, 200]);
  await second.heard((m) => m.kind === "button" && !m.down);
  assert.deepEqual(second.said.filter((m) => m.kind === "button").map((m) => m.down), [true, false]);
});

test("the last picture stays in sight: a line says that the connection dropped, and takes no click but its button's", async (t) => {
  const { session, page, viewer } = await opened(t);
  session.pause();
  viewer.socket.destroy();
  await page.getByText("Connection dropped").waitFor();
  // Refused again and again, the waits grow, and with them comes a button.
  await page.getByRole("button", { name: "Now" }).waitFor();
  await page.getByText(/Again in \d s/).waitFor();
  const box = await state(page).boundingBox();
  assert.ok(box.height <= 48 && box.y > HEIGHT / 2, JSON.stringify(box));
  const { width, height, data } = readPng(await page.screenshot({ animations: "disabled" }));
  let others = 0;
  for (let at = 0; at < data.length; at += 4) others += data[at] !== 0x33 || data[at + 1] !== 0x66 || data[at + 2] !== 0x99 ? 1 : 0;
  assert.ok(others < (box.width + 24) * (box.height + 24), `${others} of ${width * height} pixels are not the picture's`);
  const under = await page.evaluate(([x, y]) => document.elementFromPoint(x, y).id, [box.x + 4, box.y + box.height / 2]);
  assert.equal(under, "screen");
  session.resume();
  await page.getByRole("button", { name: "Now" }).click();
  greet(await session.viewer(1), 0x112233);
  await connected(page);
});

test("silence while somebody acts is said, and over as soon as something comes", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true;
  session.pause(); // or another connection would take the place of this one
  await page.keyboard.press("a");
  await page.getByText("No answer").waitFor();
  await page.keyboard.press("b");
  await typed(viewer, "b");
  viewer.mute = false;
  const ping = viewer.said.findLast((m) => m.kind === "ping");
  viewer.send(say.pong(ping.id));
  await connected(page);
  assert.equal(session.connections.length, 1);
  assert.deepEqual(keysOf(viewer), ["a down", "a up", "b down", "b up"]);
});

test("a session that says nothing is asked again and again, until it speaks", async (t) => {
  const { session, page, viewer } = await opened(t);
  viewer.mute = true;
  session.pause();
  await page.keyboard.press("a");
  const pings = () => viewer.said.filter((m) => m.kind === "ping");
  // In five seconds the connection is given up; by itself viewer-core asks once.
  await viewer.heard(() => pings().length >= 10);
  viewer.mute = false;
  viewer.send(say.pong(pings().at(-1).id));
  await connected(page);
  const asked = viewer.pongs;
  await page.waitForTimeout(1_000);
  assert.ok(viewer.pongs - asked <= 3, "and not any more then");
  assert.equal(session.connections.length, 1);
});

test("a silent connection that speaks again is kept, and no other is tried any more", async (t) => {
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
  viewer.send(say.pong(viewer.said.findLast((m) => m.kind === "ping").id));
  await connected(page);
  session.resume();
  // Two seconds, by a key that is held.
  const answered = viewer.pongs;
  await page.keyboard.down("x");
  await viewer.heard(() => viewer.pongs >= answered + 4);
  await page.keyboard.up("x");
  assert.equal(session.connections.length, 1);
});

test("a connection that stays silent is made anew", async (t) => {
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
  const [first, again] = [viewer, second].map(({ said }) => said.slice(0, 2));
  assert.deepEqual(again.map(({ kind }) => kind), ["hello", "instance"]);
  assert.match(again[1].number, /^[0-9a-f]{32}$/);
  // Bit 8: what it shows of the connection before follows.
  const hello = { ...first[0], caps: first[0].caps | 0x100 };
  assert.notEqual(hello.caps, first[0].caps);
  assert.deepEqual(again, [hello, first[1]], "which page it is, so that the session ends the connection before");
  await page.goto(session.url);
  const other = await session.viewer(2);
  const { number } = await other.heard((m) => m.kind === "instance");
  assert.equal(number, again[1].number, "and so is a page that is loaded again in its tab");
});

for (const [what, event] of [
  ["the network came back", () => window.dispatchEvent(new Event("online"))],
  ["the page was brought back", () => window.dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))],
  ["the tab is seen again", () => document.dispatchEvent(new Event("visibilitychange"))],
]) {
  test(`${what}: a dead connection is found at once, without a key, and a good one is kept`, async (t) => {
    const { session, page, viewer } = await opened(t);
    const { pongs } = viewer;
    await page.evaluate(event);
    await viewer.heard(() => viewer.pongs > pongs);
    await page.evaluate(() => window.thinc.quiet());
    assert.equal(await state(page).isHidden(), true);
    assert.equal(session.connections.length, 1);

    viewer.mute = true;
    const begun = Date.now();
    await page.evaluate(event);
    const second = await session.viewer(1);
    // Nobody types, so silence alone would tell after REST_MS_MAX of web/engine.ts, which is 20 s.
    assert.ok(Date.now() - begun < 15_000, "sooner than silence alone would tell");
    greet(second, 0x669933);
    await connected(page);
  });
}

test("a clock that jumps is a machine that slept: the session is asked at once", async (t) => {
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

test("a session that is away for long is asked after, and back as soon as it is there again and the network says so", async (t) => {
  const { session, page, viewer } = await opened(t);
  session.pause();
  viewer.socket.destroy();
  await page.getByText("Is its machine on, and the session running?").waitFor();
  session.resume();
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  greet(await session.viewer(1), 0x669933);
  await connected(page);
});

test("a cut in the middle of an update leaves the old picture, and the next connection brings the new one", async (t) => {
  const { session, page, viewer } = await opened(t);
  const update = say.update(2, 1, [draw.raw(0, 0, WIDTH, HEIGHT, Buffer.alloc(WIDTH * HEIGHT * 3, 0x77))]);
  viewer.send(update.subarray(0, 100_000));
  viewer.socket.end();
  viewer.socket.destroySoon();
  await gone(page);
  const second = await session.viewer(1);
  second.send(say.hello("test session"), say.geometry(1, WIDTH, HEIGHT), say.update(1, 1, [draw.raw(0, 0, WIDTH, HEIGHT, Buffer.alloc(WIDTH * HEIGHT * 3, 0x77))]));
  await connected(page);
  await page.evaluate(() => window.thinc.quiet());
  const { data } = readPng(await page.locator("#screen").screenshot({ animations: "disabled" }));
  assert.ok(data.every((value, at) => value === (at % 4 === 3 ? 255 : 0x77)));
  assert.deepEqual(problems(page), []);
});

test("a page whose program was cut off while it loaded asks for it again", async (t) => {
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
  ["the session ended", (viewer) => viewer.send(say.close(1, "the command has ended")), /The command has ended\. Start it again .* thinc serve/, false],
  ["another took over", (viewer) => viewer.send(say.close(6, "thinc-view from elsewhere")), /thinc-view from elsewhere/, true],
  [
    "the login is gone",
    (viewer, session) => {
      session.cookies.clear();
      viewer.socket.destroy();
    },
    /does not know this browser any more\. .*thinc link/,
    false,
  ],
]) {
  test(`${what}: the page says what to do, beside the last picture`, async (t) => {
    const { session, page, viewer } = await opened(t);
    end(viewer, session);
    await page.getByText(words).waitFor();
    assert.equal(await page.getByRole("button", { name: "Connect again" }).isVisible(), again);
    const box = await state(page).boundingBox();
    assert.ok(box.y >= 80, `the upper part is in sight: ${JSON.stringify(box)}`);
    assert.equal(await page.locator("#screen").isVisible(), true);
    await page.waitForTimeout(500);
    assert.equal(session.connections.length, 1, "and does not try by itself what is of no use");
  });
}
