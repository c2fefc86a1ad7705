// The clipboard of a browser and that of a session that does what a test says: what is offered, asked for and put where.
// Beside the path; the other side of a copy is a tab that knows nothing of thinc. Programs in a real session: copying.test.mjs.
// Needs web/dist (./dev build web) and Chromium. No permission is granted: what is asked for would be refused, and seen.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { chromiumForTests } from "./chromium.mjs";
import { say } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";
import { OtherTab, PNG } from "./other-tab.mjs";

const test = (name, body) => nodeTest(name, { timeout: 90_000 }, body);

const [CLIPBOARD, PRIMARY] = [0, 1];
const [TEXT, HTML, PICTURE] = [0, 1, 2];
const WANTS_CLIPBOARD = 1;
const KEY_V = 47;

const browser = chromiumForTests();

/** A session that has shown its first picture, a page that shows it, and another tab of the same browser. */
async function opened(t, options) {
  const { session, page, viewer } = await openPage(t, browser, options);
  const other = await OtherTab.open(browser, session.url);
  t.after(() => other.close());
  await greet(page, viewer);
  return { session, page, viewer, other };
}

/** `state`: what the session's selections held when it was connected to. */
async function greet(page, viewer, state = []) {
  viewer.send(say.hello("test session", WANTS_CLIPBOARD), ...state, say.geometry(1, 400, 300), say.update(1, 1, []));
  await viewer.heard(({ kind, update }) => kind === "ack" && update === 1);
  await page.evaluate(() => window.thinc.quiet());
}

/** What the page asks for, answered from `contents` (by format). */
async function serve(viewer, contents) {
  for (const format of contents.keys()) {
    const { id } = await viewer.heard((m) => m.kind === "clipRequest" && m.format === format && !m.served);
    viewer.said.find((m) => m.kind === "clipRequest" && m.id === id).served = true;
    viewer.send(say.clipData(id, contents.get(format)));
  }
}

/** A program of the session pastes: asks for a format of the page's newest offer, and takes what comes. */
async function fetched(viewer, format, id) {
  const { serial } = viewer.said.findLast((m) => m.kind === "clipOffer");
  viewer.send(say.clipRequest(id, CLIPBOARD, serial, format));
  const pieces = [];
  for (let bytes = 0; ; ) {
    const piece = await viewer.heard((m) => ((m.kind === "clipData" || m.kind === "clipEnd") && m.id === id && !m.seen));
    piece.seen = true;
    if (piece.kind === "clipEnd") return piece;
    pieces.push(piece.bytes);
    viewer.send(say.clipTaken(id, (bytes += piece.bytes.length)));
    if (piece.last) return Buffer.concat(pieces);
  }
}

const offers = (viewer) => viewer.said.filter(({ kind }) => kind === "clipOffer");
const isKeyV = (m) => m.kind === "key" && m.code === KEY_V && !m.down;

async function assertNotAsked(page) {
  const state = await page.evaluate(async () => (await navigator.permissions.query({ name: "clipboard-read" })).state);
  assert.equal(state, "prompt", "nobody was asked, and nothing granted");
  assert.deepEqual(page.problems, []);
}

const WORDS = "Grüße 😀 漢字\ntwo lines\tand a tab\n";

test("what is pasted is offered first, then the key goes, and nothing travels before a program wants it", async (t) => {
  const { page, viewer, other } = await opened(t);
  for (const [index, chord] of ["Control+KeyV", "Shift+Insert", "Control+Shift+KeyV"].entries()) {
    const text = `${index} ${WORDS}`;
    await other.copy({ text: text.replaceAll("\n", "\r\n") });
    const before = viewer.said.length;
    await page.keyboard.press(chord);
    await viewer.heard((m) => m.kind === "key" && m.down === false && viewer.said.indexOf(m) >= before);
    await page.evaluate(() => window.thinc.quiet());
    const said = viewer.said.slice(before).filter(({ kind }) => kind === "clipOffer" || kind === "key");
    const offer = said.findIndex(({ kind }) => kind === "clipOffer");
    const pasting = said.findIndex(({ kind, code, down }) => kind === "key" && down && (code === KEY_V || code === 110));
    assert.ok(offer >= 0 && offer < pasting, `${chord}: ${JSON.stringify(said)}`);
    assert.deepEqual([said[offer].selection, said[offer].formats], [CLIPBOARD, 1 << TEXT]);
    assert.ok(!viewer.said.slice(before).some(({ kind }) => kind === "clipData"), "the content stays until it is wanted");
    assert.equal((await fetched(viewer, TEXT, index)).toString(), text, "lines end in LF");
  }
  await assertNotAsked(page);
});

test("HTML and a picture are pasted as they are", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "bold", html: "<b>bold</b> 😀", png: PNG });
  await page.keyboard.press("Control+KeyV");
  const offer = await viewer.heard(({ kind }) => kind === "clipOffer");
  assert.equal(offer.formats, 7);
  assert.equal((await fetched(viewer, TEXT, 1)).toString(), "bold");
  assert.match((await fetched(viewer, HTML, 2)).toString(), /<b>bold<\/b> 😀/);
  assert.deepEqual(await other.pixelsOf(await fetched(viewer, PICTURE, 3)), await other.pixelsOf(PNG));
  await assertNotAsked(page);
});

test("five megabytes are pasted whole", async (t) => {
  const { page, viewer, other } = await opened(t);
  const text = Array.from({ length: 160_000 }, (_, line) => `line ${line} of many: äöü 😀\n`).join("");
  await other.copy({ text });
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  const got = (await fetched(viewer, TEXT, 1)).toString();
  assert.ok(got.length === text.length && got === text, `${got.length} of ${text.length} characters`);
});

test("what is copied in the session is on the browser's clipboard: text, HTML and a picture", async (t) => {
  const { page, viewer, other } = await opened(t);
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  await serve(viewer, new Map([[TEXT, Buffer.from(WORDS)]]));
  assert.equal((await other.pasteWhere(({ text }) => text.startsWith("Gr"))).text, WORDS);

  viewer.send(say.clipOffer(CLIPBOARD, 2, 0, 7));
  const contents = [[TEXT, Buffer.from("bold")], [HTML, Buffer.from("<b>bold</b> 😀")], [PICTURE, PNG]];
  await serve(viewer, new Map(contents));
  const pasted = await other.pasteWhere(({ text }) => text === "bold");
  assert.match(pasted.html, /<b>bold<\/b> 😀/);
  assert.deepEqual(await other.pixelsOf(pasted.png), await other.pixelsOf(PNG));
  await assertNotAsked(page);
});

test("a session's own copy is not pasted back to it, even before it has come", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "older, from here" });
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  const { id } = await viewer.heard(({ kind }) => kind === "clipRequest");
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  assert.deepEqual(offers(viewer), [], "while it is on its way");
  viewer.send(say.clipData(id, Buffer.from("newer, from the session")));
  await other.pasteWhere(({ text }) => text === "newer, from the session");
  viewer.said.length = 0;
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  assert.deepEqual(offers(viewer), [], "when it is on the browser's clipboard");
  await other.copy({ text: "newest, from here" });
  viewer.said.length = 0;
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  assert.equal(offers(viewer).length, 1, "something else was copied here");
  assert.equal((await fetched(viewer, TEXT, 9)).toString(), "newest, from here");
});

test("what the session held before it was connected to wipes nothing here", async (t) => {
  const { session, page, viewer, other } = await opened(t);
  await other.copy({ text: "from here" });
  viewer.socket.destroy();
  const again = await session.viewer(1);
  await greet(page, again, [say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT)]);
  assert.equal((await other.paste()).text, "from here");
  assert.ok(!again.said.some(({ kind }) => kind === "clipRequest"));
  await page.keyboard.press("Control+KeyV");
  await again.heard(isKeyV);
  assert.equal((await fetched(again, TEXT, 1)).toString(), "from here");
});

test("what is marked in the session stays there, and a middle click pastes nothing from here", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "from here" });
  viewer.send(say.clipOffer(PRIMARY, 1, 0, 1 << TEXT));
  await page.mouse.click(200, 150, { button: "middle" });
  await viewer.heard((m) => m.kind === "button" && m.button === 2 && !m.down);
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(!viewer.said.some(({ kind }) => kind.startsWith("clip")), JSON.stringify(viewer.said));
});

for (const [word, gives, takes] of [["off", false, false], ["to-session", true, false], ["from-session", false, true], ["nonsense", false, false]]) {
  test(`?clipboard=${word} lets through what it says`, async (t) => {
    const { page, viewer, other } = await opened(t, { query: `?clipboard=${word}` });
    assert.equal(((await viewer.heard(({ kind }) => kind === "hello")).caps & 16) !== 0, takes);
    await other.copy({ text: "from here" });
    await page.keyboard.press("Control+KeyV");
    await viewer.heard(isKeyV);
    assert.equal(offers(viewer).length, gives ? 1 : 0);
    if (takes) {
      viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
      await serve(viewer, new Map([[TEXT, Buffer.from("from there")]]));
      await other.pasteWhere(({ text }) => text === "from there");
    }
  });
}

test("a content over the limit is said in words that go away, and the clipboard is as it was", async (t) => {
  const { page, viewer, other } = await opened(t);
  await other.copy({ text: "small" });
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT));
  const { id } = await viewer.heard(({ kind }) => kind === "clipRequest");
  viewer.send(say.clipEnd(id, false, 2, 64 << 20, 16 << 20));
  const notice = page.locator("#notice");
  await notice.filter({ hasText: "64 MiB, and 16 MiB is the limit" }).waitFor();
  assert.equal((await other.paste()).text, "small");
  await notice.waitFor({ state: "hidden" });

  await other.copy({ text: "x".repeat(17 << 20) });
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  const end = await fetched(viewer, TEXT, 7);
  assert.deepEqual([end.kind, end.why], ["clipEnd", 2]);
  await notice.filter({ hasText: "17 MiB, and 16 MiB is the limit" }).waitFor();
});

test("of several forms, one that fails does not take the others with it", async (t) => {
  const { page, viewer, other } = await opened(t);
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 7));
  const asked = async (format) => (await viewer.heard((m) => m.kind === "clipRequest" && m.format === format)).id;
  viewer.send(say.clipData(await asked(TEXT), Buffer.from("text is left")));
  viewer.send(say.clipEnd(await asked(PICTURE), false, 2, 64 << 20, 16 << 20));
  viewer.send(say.clipEnd(await asked(HTML), false, 3));
  await other.pasteWhere(({ text }) => text === "text is left");
  assert.ok(await page.locator("#notice").isHidden());
});

test("what the browser will not take is tried once, and said", async (t) => {
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
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 7));
  const asked = async (format) => (await viewer.heard((m) => m.kind === "clipRequest" && m.format === format)).id;
  viewer.send(say.clipEnd(await asked(HTML), false, 3));
  viewer.send(say.clipData(await asked(TEXT), Buffer.from("text")));
  // A picture by its first bytes, and by no other.
  viewer.send(say.clipData(await asked(PICTURE), Buffer.concat([PNG.subarray(0, 8), Buffer.alloc(64, "x")])));
  await page.locator("#notice").filter({ hasText: "What was copied stays in the session" }).waitFor();
  await page.evaluate(() => window.thinc.quiet());
  assert.equal(await page.evaluate(() => window.writes), 2, "with the page that did not come, and without");
});

test("a paste that the browser says late is the key's, and none of the menu's", async (t) => {
  const { page, viewer } = await opened(t);
  const paste = (text) =>
    page.evaluate((text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", text);
      document.getElementById("keys").dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }, text);
  const pastes = () => viewer.said.filter((m) => m.kind === "key" && m.code === KEY_V && m.down).length;
  await page.evaluate(() => {
    const key = { key: "v", code: "KeyV", ctrlKey: true, bubbles: true, cancelable: true };
    for (const type of ["keydown", "keyup"]) document.getElementById("keys").dispatchEvent(new KeyboardEvent(type, key));
  });
  // The browser has said nothing for too long: the key has gone.
  await viewer.heard(isKeyV);
  await paste("late");
  await viewer.heard(({ kind }) => kind === "clipOffer");
  await page.evaluate(() => window.thinc.quiet());
  assert.equal(pastes(), 1, "the person pasted once");
  await paste("from the menu");
  await page.evaluate(() => window.thinc.quiet());
  await viewer.heard((m) => isKeyV(m) && pastes() === 2);
});

test("a connection that drops in the middle of a paste loses nothing that the person need know of", async (t) => {
  const { session, page, viewer, other } = await opened(t);
  // Into the session: the offer is said again, and the program that pastes again has it.
  const text = "0123456789abcdef".repeat(1 << 16);
  await other.copy({ text });
  await page.keyboard.press("Control+KeyV");
  await viewer.heard(isKeyV);
  const { serial } = offers(viewer)[0];
  viewer.send(say.clipRequest(1, CLIPBOARD, serial, TEXT));
  await viewer.heard(({ kind }) => kind === "clipData");
  viewer.socket.destroy();
  const second = await session.viewer(1);
  await greet(page, second);
  assert.equal(offers(second).length, 1, "said again");
  assert.equal(second.said.filter(({ kind }) => kind === "key").length, 0, "and no key twice");
  assert.equal((await fetched(second, TEXT, 1)).toString(), text);

  // Out of it: what did not come is asked for again, at the next key.
  second.send(say.clipOffer(CLIPBOARD, 1, 1, 1 << TEXT));
  const { id } = await second.heard(({ kind }) => kind === "clipRequest");
  second.send(say.clipData(id, Buffer.alloc(40_000, "x")).subarray(0, 20_000));
  second.socket.destroy();
  const third = await session.viewer(2);
  await greet(page, third, [say.clipOffer(CLIPBOARD, 1, 0, 1 << TEXT)]);
  assert.equal(offers(third).length, 0, "the session has it now");
  await page.keyboard.press("KeyA");
  await serve(third, new Map([[TEXT, Buffer.from("whole")]]));
  await other.pasteWhere(({ text }) => text === "whole");
  assert.ok(await page.locator("#notice").isHidden());
});

test("a browser whose clipboard has no write() is given what was copied at the next key", async (t) => {
  const { page, viewer, other } = await opened(t, { script: () => delete window.ClipboardItem });
  viewer.send(say.clipOffer(CLIPBOARD, 1, 0, 3));
  await serve(viewer, new Map([[TEXT, Buffer.from(WORDS)], [HTML, Buffer.from("<i>old</i>")]]));
  await page.keyboard.press("KeyA");
  const { text, html } = await other.pasteWhere(({ text }) => text.startsWith("Gr"));
  assert.deepEqual([text, html.includes("<i>old</i>")], [WORDS, true]);
  await page.keyboard.press("KeyB");
  const keys = async () => viewer.said.filter(({ kind }) => kind === "key").map(({ code }) => code);
  await viewer.heard((m) => m.kind === "key" && m.code === 48 && !m.down);
  assert.deepEqual(await keys(), [30, 30, 48, 48], "the keys went to the session all the same");
});

test("Command is Control's copy and paste on a Mac", async (t) => {
  const script = () => Object.defineProperty(navigator, "platform", { value: "MacIntel" });
  const { page, viewer } = await opened(t, { script });
  const [META, CONTROL, KEY_C] = [125, 29, 46];
  await page.keyboard.down("Meta");
  await page.keyboard.press("KeyC");
  // Chromium here is none for a Mac, and pastes at Control: the event is a Mac's all the same.
  await page.evaluate(() => {
    const key = new KeyboardEvent("keydown", { key: "v", code: "KeyV", metaKey: true, bubbles: true, cancelable: true });
    document.getElementById("keys").dispatchEvent(key);
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", "from a Mac");
    document.getElementById("keys").dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  });
  await page.keyboard.up("Meta");
  await viewer.heard(isKeyV);
  await page.evaluate(() => window.thinc.quiet());
  const said = viewer.said.filter(({ kind }) => ["key", "clipOffer", "releaseAll"].includes(kind));
  const words = said.map(({ kind, code, down }) => (kind === "key" ? `${down ? "+" : "-"}${code}` : kind));
  const chord = (key) => [`+${CONTROL}`, `+${key}`, `-${key}`, `-${CONTROL}`];
  assert.deepEqual(words, [`+${META}`, "releaseAll", ...chord(KEY_C), "clipOffer", ...chord(KEY_V)]);
  assert.equal((await fetched(viewer, TEXT, 1)).toString(), "from a Mac");
});
