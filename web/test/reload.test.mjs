// A page that is loaded again: it shows what it showed, says what that is, and is the viewer it was; what nobody should find is gone.
// Beside reconnect.test.mjs, against the same session that does what a test says; a real one is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, say } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";
import { readPng } from "./png.mjs";

const [WIDTH, HEIGHT] = [400, 300];
const [BLUE, GREEN] = [0x336699, 0x669933];
/** Of `caps`: what it shows of an earlier connection follows. */
const HELD = 0x100;
const NOTHING = "0".repeat(16);

const test = (name, body) => nodeTest(name, { timeout: 30_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

const quiet = (page) => page.evaluate(() => window.thinc.quiet());
const kept = (page) => page.evaluate(() => window.thinc.kept());
const connected = (page) => page.locator("#state").waitFor({ state: "hidden" });

function greet(viewer, { seen, size = [WIDTH, HEIGHT], shows } = {}) {
  viewer.send(say.hello("test session"), ...(seen === undefined ? [] : [say.seen(seen)]), say.geometry(1, ...size, shows));
}

function fill(viewer, seq, color, [x, y, width, height] = [0, 0, WIDTH, HEIGHT]) {
  viewer.send(say.update(seq, 1, [draw.fill(x, y, width, height, color)]));
}

/** A page with a picture of one colour. */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  greet(viewer);
  fill(viewer, 1, BLUE);
  await quiet(page);
  return { session, page, viewer };
}

/** What the page loaded again says first: its hello, which viewer it is, and what it shows. */
async function firstWords(viewer) {
  const hello = await viewer.heard((m) => m.kind === "hello");
  const { number } = await viewer.heard((m) => m.kind === "instance");
  const held = (hello.caps & HELD) === 0 ? undefined : await viewer.heard((m) => m.kind === "held");
  return { number, held };
}

/** How many colours other than this one a part of the page has. */
async function others(page, color, clip) {
  const { data } = readPng(await page.screenshot({ animations: "disabled", clip }));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) count += data.readUIntBE(at, 3) === color ? 0 : 1;
  return count;
}

/** Everything in the store, by `look`, which is code for the page: that forbids it to make any there. */
function inStore(page, look, argument) {
  return page.evaluate(`(async (argument) => {
    if (!(await indexedDB.databases()).some(({ name }) => name === "thinc tabs")) return undefined;
    const database = await new Promise((resolve, reject) => {
      const request = indexedDB.open("thinc tabs");
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    const transaction = database.transaction(["tabs", "tiles"], "readwrite");
    const done = new Promise((resolve) => (transaction.oncomplete = resolve));
    const store = (name) => transaction.objectStore(name);
    const all = (name) => new Promise((resolve) => (store(name).getAll().onsuccess = ({ target }) => resolve(target.result)));
    const [tabs, tiles] = [await all("tabs"), await all("tiles")];
    const found = (() => { ${look} })();
    await done;
    database.close();
    return found;
  })(${JSON.stringify(argument)})`);
}

const countStored = (page) => inStore(page, "return [tabs.length, tiles.length];");
/** Until there are so many tabs and tiles; the store tells nobody of a change. */
async function stored(page, wanted) {
  while (String(await countStored(page)) !== String(wanted));
}
/** Of 128 pixels. */
const TILES = 4 * 3;

for (const query of ["", "?thread=page"]) {
  test(`a page loaded again shows what it showed, says what that is, and is sent what differs ${query}`, async (t) => {
    const { session, page, viewer } = await opened(t, { query });
    const first = await firstWords(viewer);
    assert.equal(first.held, undefined);
    await kept(page);
    await page.reload();
    const second = await session.viewer(1);
    const { number, held } = await firstWords(second);
    assert.equal(number, first.number, "it is the same viewer");
    assert.deepEqual({ ...held, tiles: held.tiles.length }, { kind: "held", width: WIDTH, height: HEIGHT, part: { x: 0, y: 0, width: WIDTH, height: HEIGHT }, edge: 32, tiles: 130 });
    assert.ok(held.tiles.every((hash) => hash !== NOTHING));
    assert.equal(new Set(held.tiles.slice(0, 12)).size, 1, "of one colour all are alike");
    const [hello, instance] = second.said;
    assert.deepEqual([hello.kind, instance.kind, second.said.at(-1).kind], ["hello", "instance", "held"]);

    await page.getByText("Connecting again").waitFor();
    assert.equal(await others(page, BLUE, { x: 0, y: 0, width: WIDTH, height: 180 }), 0, "before the session has said a word");

    greet(second);
    second.send(say.update(1, 1, [draw.copy(0, 0, WIDTH, HEIGHT, 0, 0), draw.fill(0, 0, 10, 10, GREEN)]));
    await connected(page);
    await quiet(page);
    const { data } = await page.evaluate(async () => ({ data: Array.from((await window.thinc.pixels()).data.subarray(9 * 4, 11 * 4)) }));
    assert.deepEqual(data, [0x66, 0x99, 0x33, 255, 0x33, 0x66, 0x99, 255]);
    assert.equal((await page.evaluate(() => window.thinc.stats())).inexactPixels, 0);

    // And again, with what has changed.
    await kept(page);
    await page.reload();
    const third = await firstWords(await session.viewer(2));
    assert.equal(third.number, first.number);
    assert.notEqual(third.held.tiles[0], third.held.tiles[1]);
    assert.deepEqual(page.problems, []);
  });
}

test("it is kept without being asked for, once it rests", async (t) => {
  const { session, page } = await opened(t);
  await stored(page, [1, TILES]);
  await page.reload();
  const { held } = await firstWords(await session.viewer(1));
  assert.ok(held.tiles.every((hash) => hash !== NOTHING));
});

test("it is kept at once when the tab is hidden", async (t) => {
  const { session, page } = await opened(t);
  await page.clock.install();
  await page.goto(`${session.url}?thread=page`); // a worker has a clock of its own
  const second = await session.viewer(1);
  await firstWords(second);
  // It stands still from now on, so nothing ever rests; and it has not jumped as if the machine had slept.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 2_000);
  await inStore(page, `for (const name of ["tabs", "tiles"]) store(name).clear();`);
  greet(second);
  fill(second, 1, GREEN);
  await second.heard((m) => m.kind === "ack" && m.update === 1);
  await page.clock.runFor(50);
  assert.deepEqual(await countStored(page), [0, 0]);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await stored(page, [1, TILES]);
});

test("of what is not exact nothing is kept", async (t) => {
  const { session, page, viewer } = await openPage(t, browser);
  greet(viewer);
  fill(viewer, 1, BLUE, [0, 0, 200, HEIGHT]);
  await quiet(page);
  await kept(page);
  assert.deepEqual(await countStored(page), [1, 3]);
  await page.reload();
  const { held } = await firstWords(await session.viewer(1));
  // 13 tiles of 32 pixels in a row, of which those of the first 128 pixels are four.
  held.tiles.forEach((hash, i) => assert.equal(hash !== NOTHING, i % 13 < 4, `tile ${i}`));
});

test("what was typed on the page before is counted, and what is typed before the session answers is typed once", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.keyboard.type("hello");
  const { seq } = await viewer.heard((m) => m.kind === "key" && m.keysym === 0x6f && !m.down);
  await kept(page);
  await page.reload();
  const second = await session.viewer(1);
  await firstWords(second);
  await page.getByText("What you type is sent when it is back.").waitFor({ state: "attached" });
  await page.keyboard.type("a");
  greet(second, { seen: seq });
  fill(second, 1, BLUE);
  await connected(page);
  await page.keyboard.type("b");
  await second.heard((m) => m.kind === "key" && m.keysym === 0x62 && !m.down);
  const keys = second.said.filter((m) => m.kind === "key");
  assert.deepEqual(keys.map((m) => [String.fromCodePoint(m.keysym), m.down]), [["a", true], ["a", false], ["b", true], ["b", false]]);
  assert.ok(keys[0].seq > seq, "numbers go on");
  assert.deepEqual(page.problems, []);
});

test("what is in the store says nothing without the tab, and the same twice", async (t) => {
  const { page } = await opened(t);
  await kept(page);
  const { tabs, tiles } = await inStore(
    page,
    "const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');" +
      "const plain = ({ iv, sealed, ...rest }) => ({ iv: hex(iv), sealed: hex(sealed), ...rest }); return { tabs: tabs.map(plain), tiles: tiles.map(plain) };",
  );
  const all = [...tabs, ...tiles];
  assert.equal(all.length, 1 + TILES);
  assert.equal(new Set(all.map(({ iv }) => iv)).size, all.length);
  assert.equal(new Set(tiles.map(({ sealed }) => sealed)).size, TILES, "though their pixels are the same");
  assert.ok(all.every(({ iv }) => iv.length === 24));
  const { name, key } = JSON.parse(Object.values(await page.evaluate(() => ({ ...sessionStorage })))[0]);
  assert.ok(all.every(({ tab }) => tab === name));
  assert.ok(!JSON.stringify(all).includes(key), "the key is not there");
  assert.equal(await page.evaluate(() => localStorage.length), 0);
});

for (const [what, spoil, some] of [
  ["another key", (page) => page.evaluate(() => {
    const [item] = Object.keys(sessionStorage);
    sessionStorage.setItem(item, JSON.stringify({ ...JSON.parse(sessionStorage[item]), key: "00".repeat(32) }));
  })],
  ["nonsense in the tab", (page) => page.evaluate(() => sessionStorage.setItem(Object.keys(sessionStorage)[0], '{"name":7,"key":[]}'))],
  ["tiles of another picture", (page) => inStore(page, "store('tiles').clear(); tiles.forEach(({ x, y, ...rest }, i) => store('tiles').put({ x: tiles[(i + 1) % tiles.length].x, y: tiles[(i + 1) % tiles.length].y, ...rest }));")],
  ["tiles that are cut off", (page) => inStore(page, "for (const tile of tiles) store('tiles').put({ ...tile, sealed: tile.sealed.slice(1) });")],
  ["tiles that are none", (page) => inStore(page, "for (const { tab, x, y } of tiles) store('tiles').put({ tab, x, y, iv: 7, sealed: 'words' });")],
  ["a picture that is none", (page) => inStore(page, "store('tabs').put({ tab: tabs[0].tab, iv: tabs[0].iv, sealed: tiles[0].sealed, savedMs: Infinity });")],
  ["no picture", (page) => inStore(page, "store('tabs').clear();")],
  ["one broken tile", (page) => inStore(page, "const tile = tiles.find(({ x, y }) => x === 128 && y === 128); new Uint8Array(tile.sealed)[5] ^= 1; store('tiles').put(tile);"), "some"],
]) {
  test(`a store with ${what} is no harm: what can be read is used, and nothing else`, async (t) => {
    const { session, page } = await opened(t);
    await kept(page);
    await spoil(page);
    await page.reload();
    const second = await session.viewer(1);
    const { held } = await firstWords(second);
    if (some === undefined) assert.equal(held, undefined);
    else held.tiles.forEach((hash, i) => assert.equal(hash === NOTHING, i % 13 >= 4 && i % 13 < 8 && Math.floor(i / 13) >= 4 && Math.floor(i / 13) < 8, `tile ${i}`));
    greet(second);
    fill(second, 1, GREEN);
    await quiet(page);
    assert.deepEqual(page.problems, []);
    // What is there from now on is good.
    await kept(page);
    await page.reload();
    const third = await firstWords(await session.viewer(2));
    assert.ok(third.held.tiles.every((hash) => hash !== NOTHING));
  });
}

test("a picture of another size takes the place of the one before, and a part of the screen is asked for again", async (t) => {
  const { session, page, viewer } = await opened(t);
  await kept(page);
  const shows = { screen: { width: 800, height: 600 }, part: { x: 0, y: 0, width: 800, height: 600 } };
  viewer.send(say.geometry(2, 200, 150, shows), say.update(2, 2, [draw.fill(0, 0, 200, 150, GREEN)]));
  await quiet(page);
  await kept(page);
  assert.deepEqual(await countStored(page), [1, 4]);
  await page.reload();
  const second = await session.viewer(1);
  const { held } = await firstWords(second);
  assert.deepEqual([held.width, held.height, held.part], [200, 150, shows.part]);
  assert.ok(held.tiles.every((hash) => hash !== NOTHING));
  const view = second.said.find((m) => m.kind === "view");
  assert.deepEqual(view, { kind: "view", width: 200, height: 150, part: shows.part });
});

for (const [what, end] of [
  ["Disconnect", async ({ page }) => {
    await page.keyboard.press("Control+Alt+m");
    await page.getByRole("button", { name: "Disconnect" }).click();
  }],
  ["the session's end", ({ viewer }) => viewer.send(say.close(1, "the command has ended"))],
  ["a link that is no longer good", ({ viewer }) => viewer.send(say.close(3, "another key"))],
  ["a login that is gone", ({ session, viewer }) => {
    session.cookies.clear();
    viewer.socket.destroy();
  }],
]) {
  test(`${what} leaves nothing behind`, async (t) => {
    const { session, page, viewer } = await opened(t);
    const { number } = await firstWords(viewer);
    await kept(page);
    assert.deepEqual(await countStored(page), [1, TILES]);
    const before = new Set(session.cookies);
    await end({ session, page, viewer });
    await page.locator("#state.aside").waitFor();
    await stored(page, [0, 0]);
    assert.deepEqual(await page.evaluate(() => sessionStorage.length), 0);
    before.forEach((cookie) => session.cookies.add(cookie));
    await page.reload();
    const next = await firstWords(await session.viewer(1));
    assert.notEqual(next.number, number);
    assert.equal(next.held, undefined);
  });
}

test("after Disconnect a person may connect again, and what is shown then is kept", async (t) => {
  const { session, page } = await opened(t);
  await kept(page);
  await page.keyboard.press("Control+Alt+m");
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByRole("button", { name: "Connect again" }).click();
  const second = await session.viewer(1);
  const { number } = await firstWords(second);
  greet(second);
  fill(second, 1, BLUE);
  await connected(page);
  await quiet(page);
  await kept(page);
  assert.deepEqual(await countStored(page), [1, TILES]);
  await page.reload();
  const third = await firstWords(await session.viewer(2));
  assert.equal(third.number, number);
  assert.ok(third.held.tiles.every((hash) => hash !== NOTHING));
});

for (const [what, before] of [
  ["with a cookie that is good", () => undefined],
  ["without", (session) => session.cookies.clear()],
]) {
  test(`a login in the tab, ${what}, begins anew: it may be another session's`, async (t) => {
    const { session, page, viewer } = await opened(t);
    const { number } = await firstWords(viewer);
    await kept(page);
    session.tokens.add("another");
    await page.goto("about:blank");
    before(session);
    await page.goto(session.link("another"));
    const next = await firstWords(await session.viewer(1));
    assert.notEqual(next.number, number);
    assert.equal(next.held, undefined);
  });
}

test("a duplicated tab is another viewer, and what both keep is no harm to either", async (t) => {
  const { session, page, viewer } = await opened(t);
  const { number } = await firstWords(viewer);
  await kept(page);
  const [copy] = await Promise.all([page.waitForEvent("popup"), page.evaluate(() => void window.open(location.href))]);
  const second = await session.viewer(1);
  const its = await firstWords(second);
  assert.notEqual(its.number, number);
  assert.equal(its.held, undefined);
  greet(second);
  fill(second, 1, GREEN);
  await quiet(copy);
  await kept(copy);
  assert.deepEqual(await countStored(page), [2, 2 * TILES]);
  await copy.reload();
  const again = await firstWords(await session.viewer(2));
  assert.equal(again.number, its.number, "from then on it has a number of its own");
  await page.reload();
  const first = await firstWords(await session.viewer(3));
  assert.equal(first.number, number);
  assert.notEqual(first.held.tiles[0], NOTHING);
});

for (const [what, others, left] of [
  ["those of yesterday", [["a", 23], ["b", 25]], "a"],
  ["all but the newest four", [["a", 1], ["b", 2], ["c", 4], ["d", 5], ["e", 3]], "abe"],
]) {
  test(`tabs that are gone are forgotten: ${what}`, async (t) => {
    const { session, page } = await opened(t);
    await kept(page);
    await inStore(
      page,
      `for (const [name, hours] of argument) {
        store("tabs").put({ ...tabs[0], tab: name, savedMs: Date.now() - hours * 3_600_000 });
        store("tiles").put({ ...tiles[0], tab: name });
      }`,
      others,
    );
    await page.reload();
    const second = await session.viewer(1);
    greet(second);
    fill(second, 1, GREEN);
    await quiet(page);
    await kept(page);
    const names = "[tabs, tiles].map((all) => [...new Set(all.map(({ tab }) => tab))].filter((name) => name.length === 1).sort().join(''))";
    assert.deepEqual(await inStore(page, `return ${names};`), [left, left]);
  });
}

for (const [what, script] of [
  ["locks", () => delete Navigator.prototype.locks],
  ["a store", () => delete window.indexedDB],
  ["compression", () => delete window.CompressionStream],
  ["storage of its own", () => Object.defineProperty(window, "sessionStorage", { get: () => { throw new DOMException("no", "SecurityError"); } })],
  ["a store that opens", () => (IDBFactory.prototype.open = () => { throw new DOMException("no", "InvalidStateError"); })],
]) {
  test(`a browser without ${what} keeps nothing, and says nothing`, async (t) => {
    const { session, page } = await opened(t, { script, query: "?thread=page" });
    await kept(page);
    await page.reload();
    const second = await session.viewer(1);
    assert.equal((await firstWords(second)).held, undefined);
    greet(second);
    fill(second, 1, GREEN);
    await quiet(page);
    assert.deepEqual(page.problems, []);
    assert.equal(await page.locator("#notice").isVisible(), false);
  });
}
