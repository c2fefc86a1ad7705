// A reloaded page: it shows and reports its saved picture, and is the same viewer; what must not be
// stored is deleted.
// Beside reconnect.test.mjs, against the same scripted session; a real one is in browser.test.mjs.
// Needs web/dist (./dev build web) and Chromium.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { isConnected, openPage } from "./opened.mjs";
import { readPng } from "./png.mjs";

const [WIDTH, HEIGHT] = [400, 300];
const [BLUE, GREEN] = [0x336699, 0x669933];
/** Bit of `caps`: the retained tiles of an earlier connection follow. */
const RETAINED = 0x100;
const NOTHING = "0".repeat(16);

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

const quiet = (page) => page.evaluate(() => window.thinc.quiet());
const saved = (page) => page.evaluate(() => window.thinc.saved());

function greet(viewer, { seen, size = [WIDTH, HEIGHT], shows } = {}) {
  viewer.send(
    message.hello("test session"),
    ...(seen === undefined ? [] : [message.inputReceived(seen)]),
    message.geometry(1, ...size, shows),
  );
}

function fill(viewer, seq, color, [x, y, width, height] = [0, 0, WIDTH, HEIGHT]) {
  viewer.send(message.update(seq, 1, [draw.fill(x, y, width, height, color)]));
}

/**
 * A reloaded page waits for the lock of the page before it as long as that takes to end on a busy
 * machine; a person would rather see a fresh picture.
 */
const patient = () => {
  AbortSignal.timeout = () => new AbortController().signal;
};

/** A page with a picture of one colour. */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, { script: patient, ...options });
  greet(viewer);
  fill(viewer, 1, BLUE);
  await quiet(page);
  return { session, page, viewer };
}

/** The first messages of a reloaded page: its hello, its identifier, and its retained tiles. */
async function firstWords(viewer) {
  const hello = await viewer.receive((m) => m.kind === "hello");
  const { number } = await viewer.receive((m) => m.kind === "instance");
  const retained =
    (hello.caps & RETAINED) === 0 ? undefined : await viewer.receive((m) => m.kind === "retained");
  return { number, retained };
}

/** How many other colours a part of the page has. */
async function others(page, color, clip) {
  const { data } = readPng(await page.screenshot({ animations: "disabled", clip }));
  let count = 0;
  for (let at = 0; at < data.length; at += 4) count += data.readUIntBE(at, 3) === color ? 0 : 1;
  return count;
}

/**
 * Everything in the store, by `look`, which is code for the page: its policy forbids it to create
 * any.
 */
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
    const all = (name) => new Promise((resolve) => {
      store(name).getAll().onsuccess = ({ target }) => resolve(target.result);
    });
    const [tabs, tiles] = [await all("tabs"), await all("tiles")];
    const found = (() => { ${look} })();
    await done;
    database.close();
    return found;
  })(${JSON.stringify(argument)})`);
}

const countStored = (page) => inStore(page, "return [tabs.length, tiles.length];");
/** Waits for this number of tabs and tiles; the store reports no change. */
async function stored(page, wanted) {
  while (String(await countStored(page)) !== String(wanted));
}
/** Of 128 pixels each. */
const TILES = 4 * 3;

for (const query of ["", "?thread=page"]) {
  test(`a reloaded page shows and reports its picture, receives changes ${query}`, async (t) => {
    const { session, page, viewer } = await opened(t, { query });
    const first = await firstWords(viewer);
    assert.equal(first.retained, undefined);
    await saved(page);
    await page.reload();
    const second = await session.viewer(1);
    const { number, retained } = await firstWords(second);
    assert.equal(number, first.number, "it is the same viewer");
    assert.deepEqual(
      { ...retained, tiles: retained.tiles.length },
      {
        kind: "retained",
        width: WIDTH,
        height: HEIGHT,
        part: { x: 0, y: 0, width: WIDTH, height: HEIGHT },
        edge: 32,
        tiles: 130,
      },
    );
    assert.ok(retained.tiles.every((hash) => hash !== NOTHING));
    assert.equal(new Set(retained.tiles.slice(0, 12)).size, 1, "tiles of one colour are equal");
    const [hello, instance] = second.received;
    assert.deepEqual(
      [hello.kind, instance.kind, second.received.at(-1).kind],
      ["hello", "instance", "retained"],
    );

    await page.getByText("Reconnecting").waitFor();
    assert.equal(
      await others(page, BLUE, { x: 0, y: 0, width: WIDTH, height: 180 }),
      0,
      "before the session's first message",
    );

    greet(second);
    second.send(
      message.update(1, 1, [draw.copy(0, 0, WIDTH, HEIGHT, 0, 0), draw.fill(0, 0, 10, 10, GREEN)]),
    );
    await isConnected(page);
    await quiet(page);
    const { data } = await page.evaluate(async () => ({
      data: Array.from((await window.thinc.pixels()).data.subarray(9 * 4, 11 * 4)),
    }));
    assert.deepEqual(data, [0x66, 0x99, 0x33, 255, 0x33, 0x66, 0x99, 255]);
    assert.equal((await page.evaluate(() => window.thinc.stats())).lossyPixels, 0);

    // Likewise after a change.
    await saved(page);
    await page.reload();
    const third = await firstWords(await session.viewer(2));
    assert.equal(third.number, first.number);
    assert.notEqual(third.retained.tiles[0], third.retained.tiles[1]);
    assert.deepEqual(page.problems, []);
  });
}

test("the picture is saved by itself once it is at rest", async (t) => {
  const { session, page } = await opened(t);
  await stored(page, [1, TILES]);
  await page.reload();
  const { retained } = await firstWords(await session.viewer(1));
  assert.ok(retained.tiles.every((hash) => hash !== NOTHING));
});

test("the picture is saved at once when the tab is hidden", async (t) => {
  const { session, page } = await opened(t);
  await page.clock.install();
  await page.goto(`${session.url}?thread=page`); // a worker has a clock of its own
  const second = await session.viewer(1);
  await firstWords(second);
  // The clock stands still from now on, so that nothing comes to rest; and it has not jumped as
  // after sleep.
  await page.clock.pauseAt((await page.evaluate(() => Date.now())) + 2_000);
  await inStore(page, `for (const name of ["tabs", "tiles"]) store(name).clear();`);
  greet(second);
  fill(second, 1, GREEN);
  await second.receive((m) => m.kind === "ack" && m.update === 1);
  await page.clock.runFor(50);
  assert.deepEqual(await countStored(page), [0, 0]);
  await page.evaluate(() => {
    Object.defineProperty(document, "hidden", { value: true });
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await stored(page, [1, TILES]);
});

test("lossy tiles are not saved", async (t) => {
  const { session, page, viewer } = await openPage(t, browser);
  greet(viewer);
  fill(viewer, 1, BLUE, [0, 0, 200, HEIGHT]);
  await quiet(page);
  await saved(page);
  assert.deepEqual(await countStored(page), [1, 3]);
  await page.reload();
  const { retained } = await firstWords(await session.viewer(1));
  // 13 tiles of 32 pixels in a row; the first 128 pixels are four of them.
  retained.tiles.forEach((hash, i) => assert.equal(hash !== NOTHING, i % 13 < 4, `tile ${i}`));
});

test("input typed before a reload is known, and before the hello is sent once", async (t) => {
  const { session, page, viewer } = await opened(t);
  await page.keyboard.type("hello");
  const { seq } = await viewer.receive((m) => m.kind === "key" && m.keysym === 0x6f && !m.down);
  await saved(page);
  await page.reload();
  const second = await session.viewer(1);
  await firstWords(second);
  await page.getByText("What you type is sent when it is back.").waitFor({ state: "attached" });
  await page.keyboard.type("a");
  greet(second, { seen: seq });
  fill(second, 1, BLUE);
  await isConnected(page);
  await page.keyboard.type("b");
  await second.receive((m) => m.kind === "key" && m.keysym === 0x62 && !m.down);
  const keys = second.received.filter((m) => m.kind === "key");
  assert.deepEqual(
    keys.map((m) => [String.fromCodePoint(m.keysym), m.down]),
    [
      ["a", true],
      ["a", false],
      ["b", true],
      ["b", false],
    ],
  );
  assert.ok(keys[0].seq > seq, "sequence numbers continue");
  assert.deepEqual(page.problems, []);
});

test("the store's entries are unreadable without the tab, and equal tiles differ", async (t) => {
  const { page } = await opened(t);
  await saved(page);
  const { tabs, tiles } = await inStore(
    page,
    `const digits = (byte) => byte.toString(16).padStart(2, '0');
    const hex = (bytes) => Array.from(new Uint8Array(bytes), digits).join('');
    const plain = ({ iv, sealed, ...rest }) => ({ iv: hex(iv), sealed: hex(sealed), ...rest });
    return { tabs: tabs.map(plain), tiles: tiles.map(plain) };`,
  );
  const all = [...tabs, ...tiles];
  assert.equal(all.length, 1 + TILES);
  assert.equal(new Set(all.map(({ iv }) => iv)).size, all.length);
  assert.equal(
    new Set(tiles.map(({ sealed }) => sealed)).size,
    TILES,
    "although their pixels are equal",
  );
  assert.ok(all.every(({ iv }) => iv.length === 24));
  const { name, key } = JSON.parse(
    Object.values(await page.evaluate(() => ({ ...sessionStorage })))[0],
  );
  assert.ok(all.every(({ tab }) => tab === name));
  assert.ok(!JSON.stringify(all).includes(key), "the key is not in the store");
  assert.deepEqual(
    await page.evaluate(() => ({ ...localStorage })),
    { "thinc secret /base/": "s0" },
    "beyond the tab only the secret of the login",
  );
});

for (const [what, spoil, some] of [
  [
    "another key",
    (page) =>
      page.evaluate(() => {
        const [item] = Object.keys(sessionStorage);
        sessionStorage.setItem(
          item,
          JSON.stringify({ ...JSON.parse(sessionStorage[item]), key: "00".repeat(32) }),
        );
      }),
  ],
  [
    "invalid data in sessionStorage",
    (page) =>
      page.evaluate(() =>
        sessionStorage.setItem(Object.keys(sessionStorage)[0], '{"name":7,"key":[]}'),
      ),
  ],
  [
    "tiles of another picture",
    (page) =>
      inStore(
        page,
        `store('tiles').clear();
        tiles.forEach(({ x: _x, y: _y, ...rest }, i) => {
          const { x, y } = tiles[(i + 1) % tiles.length];
          store('tiles').put({ x, y, ...rest });
        });`,
      ),
  ],
  [
    "truncated tiles",
    (page) =>
      inStore(
        page,
        "for (const tile of tiles) store('tiles').put({ ...tile, sealed: tile.sealed.slice(1) });",
      ),
  ],
  [
    "invalid tiles",
    (page) =>
      inStore(
        page,
        `for (const { tab, x, y } of tiles)
          store('tiles').put({ tab, x, y, iv: 7, sealed: 'words' });`,
      ),
  ],
  [
    "an invalid picture",
    (page) =>
      inStore(
        page,
        `const { tab, iv } = tabs[0];
        store('tabs').put({ tab, iv, sealed: tiles[0].sealed, savedMs: Infinity });`,
      ),
  ],
  ["no picture", (page) => inStore(page, "store('tabs').clear();")],
  [
    "one corrupted tile",
    (page) =>
      inStore(
        page,
        `const tile = tiles.find(({ x, y }) => x === 128 && y === 128);
        new Uint8Array(tile.sealed)[5] ^= 1;
        store('tiles').put(tile);`,
      ),
    "some",
  ],
]) {
  test(`a store with ${what} does no harm: only readable entries are used`, async (t) => {
    const { session, page } = await opened(t);
    await saved(page);
    await spoil(page);
    await page.reload();
    const second = await session.viewer(1);
    const { retained } = await firstWords(second);
    if (some === undefined) assert.equal(retained, undefined);
    else
      retained.tiles.forEach((hash, i) =>
        assert.equal(
          hash === NOTHING,
          i % 13 >= 4 && i % 13 < 8 && Math.floor(i / 13) >= 4 && Math.floor(i / 13) < 8,
          `tile ${i}`,
        ),
      );
    greet(second);
    fill(second, 1, GREEN);
    await quiet(page);
    assert.deepEqual(page.problems, []);
    // Entries are valid from now on.
    await saved(page);
    await page.reload();
    const third = await firstWords(await session.viewer(2));
    assert.ok(third.retained.tiles.every((hash) => hash !== NOTHING));
  });
}

test("a picture of another size replaces the one before; its part is requested", async (t) => {
  const { session, page, viewer } = await opened(t);
  await saved(page);
  const shows = {
    screen: { width: 800, height: 600 },
    part: { x: 0, y: 0, width: 800, height: 600 },
  };
  viewer.send(
    message.geometry(2, 200, 150, shows),
    message.update(2, 2, [draw.fill(0, 0, 200, 150, GREEN)]),
  );
  await quiet(page);
  await saved(page);
  assert.deepEqual(await countStored(page), [1, 4]);
  await page.reload();
  const second = await session.viewer(1);
  const { retained } = await firstWords(second);
  assert.deepEqual([retained.width, retained.height, retained.part], [200, 150, shows.part]);
  assert.ok(retained.tiles.every((hash) => hash !== NOTHING));
  const view = second.received.find((m) => m.kind === "view");
  assert.deepEqual(view, { kind: "view", width: 200, height: 150, part: shows.part });
});

for (const [what, end] of [
  [
    "Disconnect",
    async ({ page }) => {
      await page.keyboard.press("Control+Alt+m");
      await page.getByRole("button", { name: "Disconnect" }).click();
    },
  ],
  ["the session's end", ({ viewer }) => viewer.send(message.close(1, "the command has ended"))],
  ["a link that is no longer valid", ({ viewer }) => viewer.send(message.close(3, "another key"))],
  [
    "an unknown cookie",
    ({ session, viewer }) => {
      session.cookies.clear();
      viewer.socket.destroy();
    },
  ],
]) {
  test(`${what} leaves nothing behind`, async (t) => {
    const { session, page, viewer } = await opened(t);
    const { number } = await firstWords(viewer);
    await saved(page);
    assert.deepEqual(await countStored(page), [1, TILES]);
    const [cookies, secrets] = [session.cookies, session.secrets].map((set) => new Set(set));
    const browser = await page.context().storageState();
    await end({ session, page, viewer });
    await page.locator("#state.aside").waitFor();
    await stored(page, [0, 0]);
    assert.deepEqual(await page.evaluate(() => sessionStorage.length), 0);
    // As if the same login were still valid, here and there.
    for (const cookie of cookies) session.cookies.add(cookie);
    for (const secret of secrets) session.secrets.add(secret);
    await page.context().addCookies(browser.cookies);
    for (const { name, value } of browser.origins[0].localStorage)
      await page.evaluate(([name, value]) => localStorage.setItem(name, value), [name, value]);
    await page.reload();
    const next = await firstWords(await session.viewer(1));
    assert.notEqual(next.number, number);
    assert.equal(next.retained, undefined);
  });
}

test("after Disconnect and a new link the picture is saved again", async (t) => {
  const { session, page } = await opened(t);
  await saved(page);
  await page.keyboard.press("Control+Alt+m");
  await page.getByRole("button", { name: "Disconnect" }).click();
  await page.getByText("The session continues without you.").waitFor();
  session.tokens.add("another");
  await page.goto(session.link("another"));
  const second = await session.viewer(1);
  const { number } = await firstWords(second);
  greet(second);
  fill(second, 1, BLUE);
  await isConnected(page);
  await quiet(page);
  await saved(page);
  await page.reload();
  const third = await firstWords(await session.viewer(2));
  assert.equal(third.number, number);
  assert.ok(third.retained.tiles.every((hash) => hash !== NOTHING));
});

for (const [what, before] of [
  ["with a valid cookie", () => undefined],
  ["without", (session) => session.cookies.clear()],
]) {
  test(`a login in the tab, ${what}, starts without saved state`, async (t) => {
    const { session, page, viewer } = await opened(t);
    const { number } = await firstWords(viewer);
    await saved(page);
    session.tokens.add("another");
    await page.goto("about:blank");
    before(session);
    await page.goto(session.link("another"));
    const next = await firstWords(await session.viewer(1));
    assert.notEqual(next.number, number);
    assert.equal(next.retained, undefined);
  });
}

test("a duplicated tab is another viewer, and neither harms the other's picture", async (t) => {
  const { session, page, viewer } = await opened(t);
  const { number } = await firstWords(viewer);
  await saved(page);
  const [copy] = await Promise.all([
    page.waitForEvent("popup"),
    page.evaluate(() => void window.open(location.href)),
  ]);
  const second = await session.viewer(1);
  const its = await firstWords(second);
  assert.notEqual(its.number, number);
  assert.equal(its.retained, undefined);
  greet(second);
  fill(second, 1, GREEN);
  await quiet(copy);
  await saved(copy);
  assert.deepEqual(await countStored(page), [2, 2 * TILES]);
  await copy.reload();
  const again = await firstWords(await session.viewer(2));
  assert.equal(again.number, its.number, "then it has its own identifier");
  await page.reload();
  const first = await firstWords(await session.viewer(3));
  assert.equal(first.number, number);
  assert.notEqual(first.retained.tiles[0], NOTHING);
});

for (const [what, others, left] of [
  [
    "older than a day",
    [
      ["a", 23],
      ["b", 25],
    ],
    "a",
  ],
  [
    "all but the newest four",
    [
      ["a", 1],
      ["b", 2],
      ["c", 4],
      ["d", 5],
      ["e", 3],
    ],
    "abe",
  ],
]) {
  test(`closed tabs are deleted: ${what}`, async (t) => {
    const { session, page } = await opened(t);
    await saved(page);
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
    await saved(page);
    const names = await inStore(
      page,
      `const names = (all) => [...new Set(all.map(({ tab }) => tab))];
      const short = (all) => names(all).filter((name) => name.length === 1);
      return [tabs, tiles].map((all) => short(all).sort().join(''));`,
    );
    assert.deepEqual(names, [left, left]);
  });
}

for (const [what, script] of [
  ["locks", () => delete Navigator.prototype.locks],
  ["a store", () => delete window.indexedDB],
  ["compression", () => delete window.CompressionStream],
  [
    "storage of its own",
    () =>
      Object.defineProperty(window, "sessionStorage", {
        get: () => {
          throw new DOMException("no", "SecurityError");
        },
      }),
  ],
  [
    "a store that opens",
    () =>
      (IDBFactory.prototype.open = () => {
        throw new DOMException("no", "InvalidStateError");
      }),
  ],
]) {
  test(`a browser without ${what} saves nothing and reports nothing`, async (t) => {
    const { session, page } = await opened(t, { script, query: "?thread=page" });
    await saved(page);
    await page.reload();
    const second = await session.viewer(1);
    assert.equal((await firstWords(second)).retained, undefined);
    greet(second);
    fill(second, 1, GREEN);
    await quiet(page);
    assert.deepEqual(page.problems, []);
    assert.equal(await page.locator("#notice").isVisible(), false);
  });
}
