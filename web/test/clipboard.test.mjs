// The clipboards of a browser and of a scripted session: offers, requests, writes and messages.
// Beside the path; the other side of a copy is a tab without thinc. Programs in a real session are
// in copying.test.mjs.
// Needs web/dist (./dev build web) and Chromium. No permission is granted: a request would be
// refused, and seen.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { message } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";
import { OtherTab, PNG } from "./other-tab.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const [CLIPBOARD, PRIMARY] = [0, 1];
const [TEXT, HTML, PICTURE] = [0, 1, 2];
const WANTS_CLIPBOARD = 1;
const KEY_V = 47;

const browser = chromiumForTests();

/**
 * A session that has sent its first picture, a page that shows it, and another tab of the same
 * browser.
 */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  const other = await OtherTab.open(browser, session.url);
  t.after(() => other.close());
  await greet(page, viewer);
  return { session, page, viewer, other };
}

/** `state`: formats of the session's selections at the connection. */
async function greet(page, viewer, state = []) {
  viewer.send(
    message.hello("test session", WANTS_CLIPBOARD),
    ...state,
    message.geometry(1, 400, 300),
    message.update(1, 1, []),
  );
  await viewer.receive(({ kind, update }) => kind === "ack" && update === 1);
  await page.evaluate(() => window.thinc.quiet());
}

/** Answers the page's requests from `contents` (by format). */
async function serve(viewer, contents) {
  for (const format of contents.keys()) {
    const { id } = await viewer.receive(
      (m) => m.kind === "clipRequest" && m.format === format && !m.served,
    );
    viewer.received.find((m) => m.kind === "clipRequest" && m.id === id).served = true;
    viewer.send(message.clipData(id, contents.get(format)));
  }
}

/**
 * A program of the session pastes: requests a format of the page's newest offer, and receives it.
 */
async function fetched(viewer, format, id) {
  const { serial } = viewer.received.findLast((m) => m.kind === "clipOffer");
  viewer.send(message.clipRequest(id, CLIPBOARD, serial, format));
  const pieces = [];
  for (let bytes = 0; ; ) {
    const piece = await viewer.receive(
      (m) => (m.kind === "clipData" || m.kind === "clipEnd") && m.id === id && !m.seen,
    );
    piece.seen = true;
    if (piece.kind === "clipEnd") return piece;
    pieces.push(piece.bytes);
    viewer.send(message.clipReceived(id, (bytes += piece.bytes.length)));
    if (piece.last) return Buffer.concat(pieces);
  }
}

const offers = (viewer) => viewer.received.filter(({ kind }) => kind === "clipOffer");
const isKeyV = (m) => m.kind === "key" && m.code === KEY_V && !m.down;

async function assertNotAsked(page) {
  const state = await page.evaluate(
    async () => (await navigator.permissions.query({ name: "clipboard-read" })).state,
  );
  assert.equal(state, "prompt", "no permission was requested or granted");
  assert.deepEqual(page.problems, []);
}

const WORDS = "Grüße 😀 漢字\ntwo lines\tand a tab\n";

test("a paste is offered, then its key is sent, and content only on request", async (t) => {
  const { page, viewer, other } = await opened(t);
  for (const [index, chord] of ["Control+KeyV", "Shift+Insert", "Control+Shift+KeyV"].entries()) {
    const text = `${index} ${WORDS}`;
    await other.copy({ text: text.replaceAll("\n", "\r\n") });
    const before = viewer.received.length;
    await page.keyboard.press(chord);
    await viewer.receive(
      (m) => m.kind === "key" && m.down === false && viewer.received.indexOf(m) >= before,
    );
    await page.evaluate(() => window.thinc.quiet());
    const messages = viewer.received
      .slice(before)
      .filter(({ kind }) => kind === "clipOffer" || kind === "key");
    const offer = messages.findIndex(({ kind }) => kind === "clipOffer");
    const pasting = messages.findIndex(
      ({ kind, code, down }) => kind === "key" && down && (code === KEY_V || code === 110),
    );
    assert.ok(offer >= 0 && offer < pasting, `${chord}: ${JSON.stringify(messages)}`);
    assert.deepEqual([messages[offer].selection, messages[offer].formats], [CLIPBOARD, 1 << TEXT]);
    assert.ok(
      !viewer.received.slice(before).some(({ kind }) => kind === "clipData"),
      "the content stays until it is requested",
    );
    assert.equal((await fetched(viewer, TEXT, index)).toString(), text, "lines end in LF");
  }
  await assertNotAsked(page);
});

test("HTML and an image are pasted unchanged", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "bold", html: "<b>bold</b> 😀", png: PNG });
  await page.keyboard.press("Control+KeyV");
  const offer = await viewer.receive(({ kind }) => kind === "clipOffer");
  assert.equal(offer.formats, 7);
  assert.equal((await fetched(viewer, TEXT, 1)).toString(), "bold");
  assert.match((await fetched(viewer, HTML, 2)).toString(), /<b>bold<\/b> 😀/);
  assert.deepEqual(
    await other.pixelsOf(await fetched(viewer, PICTURE, 3)),
    await other.pixelsOf(PNG),
  );
  await assertNotAsked(page);
});

test("five megabytes are pasted completely", async (t) => {
  const { page, viewer, other } = await opened(t);
  const text = Array.from({ length: 160_000 }, (_, line) => `line ${line} of many: äöü 😀\n`).join(
    "",
  );
  await other.copy({ text });
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  const got = (await fetched(viewer, TEXT, 1)).toString();
  assert.ok(
    got.length === text.length && got === text,
    `${got.length} of ${text.length} characters`,
  );
});

test("text, HTML and an image copied in the session are on the browser's clipboard", async (t) => {
  const { page, viewer, other } = await opened(t);
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  await serve(viewer, new Map([[TEXT, Buffer.from(WORDS)]]));
  assert.equal((await other.pasteWhere(({ text }) => text.startsWith("Gr"))).text, WORDS);

  viewer.send(message.clipOffer(CLIPBOARD, 2, 0, 7));
  const contents = [
    [TEXT, Buffer.from("bold")],
    [HTML, Buffer.from("<b>bold</b> 😀")],
    [PICTURE, PNG],
  ];
  await serve(viewer, new Map(contents));
  const pasted = await other.pasteWhere(({ text }) => text === "bold");
  assert.match(pasted.html, /<b>bold<\/b> 😀/);
  assert.deepEqual(await other.pixelsOf(pasted.png), await other.pixelsOf(PNG));
  await assertNotAsked(page);
});

test("a session's own copy is not pasted back to it, even before it has arrived", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "the older copy, from here" });
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  const { id } = await viewer.receive(({ kind }) => kind === "clipRequest");
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  assert.deepEqual(offers(viewer), [], "while it is in flight");
  viewer.send(message.clipData(id, Buffer.from("the newer copy, from the session")));
  await other.pasteWhere(({ text }) => text === "the newer copy, from the session");
  viewer.received.length = 0;
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  assert.deepEqual(offers(viewer), [], "once it is on the browser's clipboard");
  await other.copy({ text: "the newest copy, from here" });
  viewer.received.length = 0;
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  assert.equal(offers(viewer).length, 1, "something else was copied here");
  assert.equal((await fetched(viewer, TEXT, 9)).toString(), "the newest copy, from here");
});

test("the session's clipboard from before the connection replaces nothing here", async (t) => {
  const { session, page, viewer, other } = await opened(t);
  await other.copy({ text: "from here" });
  viewer.socket.destroy();
  const again = await session.viewer(1);
  await greet(page, again, [message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT)]);
  assert.equal((await other.paste()).text, "from here");
  assert.ok(!again.received.some(({ kind }) => kind === "clipRequest"));
  await page.keyboard.press("Control+KeyV");
  await again.receive(isKeyV);
  assert.equal((await fetched(again, TEXT, 1)).toString(), "from here");
});

test("the session's PRIMARY stays there, and a middle click pastes nothing", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "from here" });
  viewer.send(message.clipOffer(PRIMARY, 1, 0, 1 << TEXT));
  await page.mouse.click(200, 150, { button: "middle" });
  await viewer.receive((m) => m.kind === "button" && m.button === 2 && !m.down);
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(
    !viewer.received.some(({ kind }) => kind.startsWith("clip")),
    JSON.stringify(viewer.received),
  );
});

for (const [word, gives, takes] of [
  ["off", false, false],
  ["to-session", true, false],
  ["from-session", false, true],
  ["nonsense", false, false],
]) {
  test(`?clipboard=${word} permits only the directions that it names`, async (t) => {
    const { page, viewer, other } = await opened(t, { query: `?clipboard=${word}` });
    assert.equal(((await viewer.receive(({ kind }) => kind === "hello")).caps & 16) !== 0, takes);
    await other.copy({ text: "from here" });
    await page.keyboard.press("Control+KeyV");
    await viewer.receive(isKeyV);
    assert.equal(offers(viewer).length, gives ? 1 : 0);
    if (takes) {
      viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
      await serve(viewer, new Map([[TEXT, Buffer.from("from there")]]));
      await other.pasteWhere(({ text }) => text === "from there");
    }
  });
}

test("content over the limit causes a notice, and the clipboard stays as it was", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "small" });
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  const { id } = await viewer.receive(({ kind }) => kind === "clipRequest");
  viewer.send(message.clipEnd(id, false, 2, 64 << 20, 16 << 20));
  const notice = page.locator("#notice");
  await notice.filter({ hasText: "64 MiB, and 16 MiB is the limit" }).waitFor();
  assert.equal((await other.paste()).text, "small");
  await notice.waitFor({ state: "hidden" });

  await other.copy({ text: "x".repeat(17 << 20) });
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  const end = await fetched(viewer, TEXT, 7);
  assert.deepEqual([end.kind, end.why], ["clipEnd", 2]);
  await notice.filter({ hasText: "17 MiB, and 16 MiB is the limit" }).waitFor();
});

test("one format that fails does not prevent the others", async (t) => {
  const { page, viewer, other } = await opened(t);
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 7));
  const asked = async (format) =>
    (await viewer.receive((m) => m.kind === "clipRequest" && m.format === format)).id;
  viewer.send(message.clipData(await asked(TEXT), Buffer.from("text is left")));
  viewer.send(message.clipEnd(await asked(PICTURE), false, 2, 64 << 20, 16 << 20));
  viewer.send(message.clipEnd(await asked(HTML), false, 3));
  await other.pasteWhere(({ text }) => text === "text is left");
  assert.ok(await page.locator("#notice").isHidden());
});

test("content that the browser refuses is tried once and reported", async (t) => {
  const script = () => {
    const { clipboard } = navigator;
    const write = clipboard.write.bind(clipboard);
    window.writes = 0;
    clipboard.write = (items) => {
      window.writes += 1;
      return write(items);
    };
  };
  const { page, viewer } = await opened(t, { script });
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 7));
  const asked = async (format) =>
    (await viewer.receive((m) => m.kind === "clipRequest" && m.format === format)).id;
  viewer.send(message.clipEnd(await asked(HTML), false, 3));
  viewer.send(message.clipData(await asked(TEXT), Buffer.from("text")));
  // An image by its first bytes only.
  viewer.send(
    message.clipData(
      await asked(PICTURE),
      Buffer.concat([PNG.subarray(0, 8), Buffer.alloc(64, "x")]),
    ),
  );
  await page.locator("#notice").filter({ hasText: "Not copied from the session" }).waitFor();
  await page.evaluate(() => window.thinc.quiet());
  assert.equal(await page.evaluate(() => window.writes), 2, "with the refused format, and without");
});

test("a late paste event belongs to its key, not to the menu", async (t) => {
  const { page, viewer } = await opened(t);
  const paste = (text) =>
    page.evaluate((text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      document
        .getElementById("keys")
        .dispatchEvent(
          new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }),
        );
    }, text);
  const pastes = () =>
    viewer.received.filter((m) => m.kind === "key" && m.code === KEY_V && m.down).length;
  await page.evaluate(() => {
    const key = { key: "v", code: "KeyV", ctrlKey: true, bubbles: true, cancelable: true };
    for (const type of ["keydown", "keyup"])
      document.getElementById("keys").dispatchEvent(new KeyboardEvent(type, key));
  });
  // The paste event was overdue: the key has been sent.
  await viewer.receive(isKeyV);
  await paste("late");
  await viewer.receive(({ kind }) => kind === "clipOffer");
  await page.evaluate(() => window.thinc.quiet());
  assert.equal(pastes(), 1, "the user pasted once");
  await paste("from the menu");
  await page.evaluate(() => window.thinc.quiet());
  await viewer.receive((m) => isKeyV(m) && pastes() === 2);
});

test("a connection that drops during a paste loses nothing", async (t) => {
  const { session, page, viewer, other } = await opened(t);
  // Into the session: the offer is repeated, and the program that pastes again receives it.
  const text = "0123456789abcdef".repeat(1 << 16);
  await other.copy({ text });
  await page.keyboard.press("Control+KeyV");
  await viewer.receive(isKeyV);
  const { serial } = offers(viewer)[0];
  viewer.send(message.clipRequest(1, CLIPBOARD, serial, TEXT));
  await viewer.receive(({ kind }) => kind === "clipData");
  viewer.socket.destroy();
  const second = await session.viewer(1);
  await greet(page, second);
  assert.equal(offers(second).length, 1, "repeated");
  assert.equal(
    second.received.filter(({ kind }) => kind === "key").length,
    0,
    "no key is sent twice",
  );
  assert.equal((await fetched(second, TEXT, 1)).toString(), text);

  // Out of it: content that did not arrive is requested again at the next key.
  second.send(message.clipOffer(CLIPBOARD, 1, 1, 1 << TEXT));
  const { id } = await second.receive(({ kind }) => kind === "clipRequest");
  second.send(message.clipData(id, Buffer.alloc(40_000, "x")).subarray(0, 20_000));
  second.socket.destroy();
  const third = await session.viewer(2);
  await greet(page, third, [message.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT)]);
  assert.equal(offers(third).length, 0, "the session has the offer now");
  await page.keyboard.press("KeyA");
  await serve(third, new Map([[TEXT, Buffer.from("whole")]]));
  await other.pasteWhere(({ text }) => text === "whole");
  assert.ok(await page.locator("#notice").isHidden());
});

test("a connection that is replaced during a copy delivers it at the next key", async (t) => {
  const { session, page, viewer, other } = await opened(t);
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, (1 << TEXT) | (1 << HTML)));
  await serve(viewer, new Map([[TEXT, Buffer.from("whole")]]));
  const isHtmlRequest = (m) => m.kind === "clipRequest" && m.format === HTML;
  await viewer.receive(isHtmlRequest);
  // It does not answer any more; another one takes its place without a drop.
  viewer.mute = true;
  await page.keyboard.press("KeyA");
  const second = await session.viewer(1);
  await greet(page, second, [message.clipOffer(CLIPBOARD, 1, 0, (1 << TEXT) | (1 << HTML))]);
  assert.equal(second.received.some(isHtmlRequest), false, "in a gesture, as after a drop");
  await page.keyboard.press("KeyB");
  const contents = [Buffer.from("whole"), Buffer.from("<b>whole</b>")];
  await serve(
    second,
    new Map([
      [TEXT, contents[0]],
      [HTML, contents[1]],
    ]),
  );
  await other.pasteWhere(({ text, html }) => text === "whole" && html.includes("<b>whole</b>"));
  assert.ok(await page.locator("#notice").isHidden());
});

test("a browser without clipboard.write() receives a copy at the next key", async (t) => {
  const { page, viewer, other } = await opened(t, { script: () => delete window.ClipboardItem });
  viewer.send(message.clipOffer(CLIPBOARD, 1, 0, 3));
  await serve(
    viewer,
    new Map([
      [TEXT, Buffer.from(WORDS)],
      [HTML, Buffer.from("<i>old</i>")],
    ]),
  );
  await page.keyboard.press("KeyA");
  const { text, html } = await other.pasteWhere(({ text }) => text.startsWith("Gr"));
  assert.deepEqual([text, html.includes("<i>old</i>")], [WORDS, true]);
  await page.keyboard.press("KeyB");
  const keys = async () =>
    viewer.received.filter(({ kind }) => kind === "key").map(({ code }) => code);
  await viewer.receive((m) => m.kind === "key" && m.code === 48 && !m.down);
  assert.deepEqual(await keys(), [30, 30, 48, 48], "the keys are sent anyway");
});

test("on a Mac, Command copies and pastes as Control does", async (t) => {
  const script = () => Object.defineProperty(navigator, "platform", { value: "MacIntel" });
  const { page, viewer } = await opened(t, { script });
  const [META, CONTROL, KEY_C] = [125, 29, 46];
  await page.keyboard.down("Meta");
  await page.keyboard.press("KeyC");
  // This Chromium is not for Macs and pastes on Control: the event is a Mac's.
  await page.evaluate(() => {
    const key = new KeyboardEvent("keydown", {
      key: "v",
      code: "KeyV",
      metaKey: true,
      bubbles: true,
      cancelable: true,
    });
    document.getElementById("keys").dispatchEvent(key);
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "from a Mac");
    document
      .getElementById("keys")
      .dispatchEvent(
        new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }),
      );
  });
  await page.keyboard.up("Meta");
  await viewer.receive(isKeyV);
  await page.evaluate(() => window.thinc.quiet());
  const messages = viewer.received.filter(({ kind }) =>
    ["key", "clipOffer", "releaseAll"].includes(kind),
  );
  const words = messages.map(({ kind, code, down }) =>
    kind === "key" ? `${down ? "+" : "-"}${code}` : kind,
  );
  const chord = (key) => [`+${CONTROL}`, `+${key}`, `-${key}`, `-${CONTROL}`];
  assert.deepEqual(words, [
    `+${META}`,
    "releaseAll",
    ...chord(KEY_C),
    "clipOffer",
    ...chord(KEY_V),
  ]);
  assert.equal((await fetched(viewer, TEXT, 1)).toString(), "from a Mac");
});
