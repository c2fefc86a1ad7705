// What a person's keyboard says is what a program in the session reads: layouts, AltGr, dead keys, locks, input methods.
// First against a session that does what a test says, then a matrix of layouts against a real one, read back by `cat`.
// Needs what browser.test.mjs needs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test as nodeTest } from "node:test";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { draw, say } from "./fake-session.mjs";
import { openPage } from "./opened.mjs";
import { load } from "./modules.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 60_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");
let layout;
let sendkeys;
before(async () => {
  [layout, sendkeys] = await Promise.all([load("layout.ts"), load("sendkeys.ts")]);
});

// Tables

const US = { Backquote: "`", Minus: "-", Equal: "=", KeyQ: "q", KeyW: "w", KeyY: "y", BracketLeft: "[", BracketRight: "]", KeyA: "a", Semicolon: ";", Quote: "'", Backslash: "\\", KeyZ: "z", KeyM: "m", Comma: ",", Period: ".", Slash: "/", Digit1: "1", Digit2: "2" };
const DE = { ...US, Minus: "ß", KeyY: "z", KeyZ: "y", BracketLeft: "ü", BracketRight: "+", Semicolon: "ö", Quote: "ä", Backslash: "#", Slash: "-", Backquote: "^", Equal: "´" };
const FR = { ...US, Backquote: "²", Minus: ")", KeyQ: "a", KeyW: "z", KeyA: "q", KeyZ: "w", BracketLeft: "^", BracketRight: "$", Semicolon: "m", Quote: "ù", Backslash: "*", KeyM: ",", Comma: ";", Period: ":", Slash: "!", Digit1: "&", Digit2: "é" };

test("a layout is known by its keys, whatever is said of its dead ones, and another is not guessed", () => {
  const guess = (keys) => layout.guessLayout(new Map(Object.entries(keys)));
  assert.equal(guess(US), "us");
  assert.equal(guess(DE), "de");
  assert.equal(guess({ ...DE, Backquote: "\u0302" }), "de");
  assert.equal(guess(FR), "fr");
  assert.equal(guess({ ...US, KeyQ: "'", KeyW: ",", KeyY: "f", Semicolon: "s" }), undefined, "Dvorak is not in the table");
  assert.equal(guess({ KeyQ: "q", KeyW: "w" }), undefined, "two keys tell nothing");
});

test("names of layouts are read as people write them", () => {
  assert.deepEqual(layout.parseLayout("de(nodeadkeys)"), { layout: "de", variant: "nodeadkeys" });
  assert.deepEqual(layout.parseLayout("us"), { layout: "us", variant: "" });
  for (const wrong of ["", "-layout", "de(", "../de", "de us", "a".repeat(100)]) assert.equal(layout.parseLayout(wrong), undefined, wrong);
});

test("the keys of a button have places and meanings", () => {
  assert.deepEqual(sendkeys.keysOf("Ctrl+Alt+Del"), [{ code: 29, keysym: 0xffe3 }, { code: 56, keysym: 0xffe9 }, { code: 111, keysym: 0xffff }]);
  assert.deepEqual(sendkeys.keysOf("Super"), [{ code: 125, keysym: 0xffeb }]);
  assert.deepEqual(sendkeys.keysOf("Ctrl+W"), [{ code: 29, keysym: 0xffe3 }, { code: 17, keysym: 0x77 }]);
  assert.deepEqual(sendkeys.keysOf("Ctrl+Alt+F11").at(-1), { code: 87, keysym: 0xffc8 });
});

// Against a session that does what a test says

async function faked(t, query = "") {
  const { page, viewer } = await openPage(t, browser, { query });
  viewer.send(say.hello("keys"), say.geometry(1, 400, 300), say.update(1, 1, [draw.fill(0, 0, 400, 300, 0)]));
  await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
  // It showed itself, as it does when a session opens.
  await page.waitForFunction(() => getComputedStyle(document.getElementById("menu")).visibility === "hidden");
  return { page, viewer };
}

const typed = (viewer) =>
  viewer.said.flatMap((m) => (m.kind === "key" ? [`${m.down ? "+" : "-"}${m.code}`] : m.kind === "char" ? [m.character] : m.kind === "locks" ? [`locks ${m.locks}`] : []));

test("a layout that was chosen is said at once, and nothing of it where the session's is wanted", async (t) => {
  const { viewer } = await faked(t, "?layout=de(nodeadkeys)");
  const said = await viewer.heard((m) => m.kind === "layout");
  assert.deepEqual([said.layout, said.variant, said.options], ["de", "nodeadkeys", ""]);
  const other = await faked(t, "?layout=session");
  await other.page.keyboard.press("x");
  await other.viewer.heard((m) => m.kind === "key" && !m.down);
  assert.equal(other.viewer.said.some((m) => m.kind === "layout"), false);
});

test("locks go before the first key and again when they changed otherwise than by a key", async (t) => {
  const { page, viewer } = await faked(t);
  const press = (code, key, options = {}) =>
    page.evaluate(([code, key, options]) => {
      for (const type of ["keydown", "keyup"]) window.dispatchEvent(new KeyboardEvent(type, { code, key, ...options }));
    }, [code, key, options]);
  await press("KeyA", "a");
  await press("KeyB", "b");
  await press("CapsLock", "CapsLock", { modifierCapsLock: true });
  await press("KeyC", "C", { modifierCapsLock: true });
  await page.evaluate(() => window.dispatchEvent(new Event("blur")));
  await press("KeyD", "D", { modifierCapsLock: true, modifierNumLock: true });
  await viewer.heard((m) => m.kind === "key" && m.code === 32 && !m.down);
  assert.deepEqual(typed(viewer), ["locks 0", "+30", "-30", "+48", "-48", "+58", "-58", "locks 1", "+46", "-46", "locks 3", "+32", "-32"]);
});

test("what an input method composes is seen here, and arrives when it is done, in its place among keys", async (t) => {
  const { page, viewer } = await faked(t);
  const cdp = await page.context().newCDPSession(page);
  const compose = (text) => cdp.send("Input.imeSetComposition", { text, selectionStart: text.length, selectionEnd: text.length });
  await page.mouse.click(120, 80);
  await page.keyboard.press("a");
  for (const text of ["n", "に", "にほ", "にほん", "日本"]) await compose(text);
  const shown = await page.evaluate(() => {
    const { left, top, width } = document.getElementById("keys").getBoundingClientRect();
    return { left, top, width, opacity: getComputedStyle(document.getElementById("keys")).opacity };
  });
  assert.equal(shown.opacity, "1");
  assert.deepEqual([shown.left, shown.top], [120, 80], "where the person clicked last");
  assert.ok(shown.width >= 32, `${shown.width} px for two letters of 16`);
  assert.deepEqual(typed(viewer).filter((word) => !word.startsWith("locks")), ["+30", "-30"], "nothing of it is sent before it is done");
  await cdp.send("Input.insertText", { text: "日本" });
  await page.keyboard.press("b");
  await viewer.heard((m) => m.kind === "key" && m.code === 48 && !m.down);
  assert.deepEqual(typed(viewer).filter((word) => !word.startsWith("locks")), ["+30", "-30", "日", "本", "+48", "-48"]);
  assert.equal(await page.evaluate(() => getComputedStyle(document.getElementById("keys")).opacity), "0");
  assert.deepEqual(page.problems, []);
});

test("a text that is too long to type is not begun, and said", async (t) => {
  const { page, viewer } = await faked(t);
  await page.locator("#keys").focus();
  await page.keyboard.insertText("x".repeat(2001));
  await page.locator("#notice").filter({ hasText: "copy and paste it instead" }).waitFor();
  await page.keyboard.insertText("y".repeat(2000));
  await page.keyboard.press("b");
  await viewer.heard((m) => m.kind === "key" && m.code === 48 && !m.down);
  const characters = typed(viewer).filter((word) => word.length === 1);
  assert.deepEqual([characters.length, characters.every((character) => character === "y")], [2000, true]);
});

test("a composition that is given up leaves nothing behind", async (t) => {
  const { page, viewer } = await faked(t);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Input.imeSetComposition", { text: "にほ", selectionStart: 2, selectionEnd: 2 });
  await cdp.send("Input.imeSetComposition", { text: "", selectionStart: 0, selectionEnd: 0 });
  await page.keyboard.press("x");
  await viewer.heard((m) => m.kind === "key" && !m.down);
  assert.deepEqual(typed(viewer).filter((word) => !word.startsWith("locks")), ["+45", "-45"]);
});

test("the menu sends what browser and desktop keep", async (t) => {
  const { page, viewer } = await faked(t);
  await page.keyboard.press("Control+Alt+m");
  await viewer.heard((m) => m.kind === "key" && m.code === 29 && !m.down);
  viewer.said.length = 0;
  await page.getByRole("button", { name: "Send keys" }).click();
  await page.getByRole("button", { name: "Ctrl+Alt+Del" }).click();
  await viewer.heard((m) => m.kind === "key" && m.code === 29 && !m.down);
  assert.deepEqual(typed(viewer), ["+29", "+56", "+111", "-111", "-56", "-29"]);
  viewer.said.length = 0;
  await page.getByRole("combobox", { name: "Send Ctrl+Alt and a function key" }).selectOption("Ctrl+Alt+F2");
  await viewer.heard((m) => m.kind === "key" && m.code === 29 && !m.down);
  assert.deepEqual(typed(viewer), ["+29", "+56", "+60", "-60", "-56", "-29"]);
  assert.deepEqual(page.problems, []);
});

test("a key that is held is told of again and again, and one that is not is nothing to tell of", async (t) => {
  const { page, viewer } = await faked(t);
  await page.keyboard.down("x");
  await viewer.heard((m) => m.kind === "key" && m.down);
  const answered = viewer.pongs;
  await viewer.heard(() => viewer.pongs >= answered + 3);
  await page.keyboard.up("x");
  assert.deepEqual(page.problems, []);
});

// A matrix of layouts, typed into a real session

/** [keys, what they write]; a key is a place and what the browser says it means, with AltGr or Shift before it. */
const MATRIX = {
  us: [["KeyA a", "Shift KeyA A", "Digit2 2", "Shift Digit2 @", "Shift BracketLeft {", "Backslash \\"], "aA2@{\\"],
  de: [
    ["KeyY z", "KeyZ y", "BracketLeft ü", "Shift Quote Ä", "Minus ß", "AltGr KeyQ @", "AltGr KeyE €", "AltGr Digit7 {", "AltGr Digit0 }",
      "Backquote Dead", "KeyE ê", "IntlBackslash <"],
    "zyüÄß@€{}ê<",
  ],
  fr: [
    ["KeyQ a", "KeyA q", "KeyW z", "Semicolon m", "Digit2 é", "Shift Digit2 2", "Digit0 à", "AltGr Digit0 @", "AltGr KeyE €", "AltGr Digit4 {",
      "BracketLeft Dead", "KeyE ê", "BracketLeft Dead", "Shift KeyQ Â"],
    "aqzmé2à@€{êÂ",
  ],
  jp: [["KeyA a", "BracketLeft @", "Shift Digit2 \"", "Quote :", "IME 日本語を入力する", "Enter Enter", "IME 😀"], "a@\":日本語を入力する\n😀"],
};

for (const [name, [keys, wanted]] of Object.entries(MATRIX)) {
  for (const query of [`?layout=${name}`, "?layout=session"]) {
    test(`what a ${name} keyboard writes is what the program reads, ${query}`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), "thinc-web-keys-"));
      t.after(() => rmSync(folder, { recursive: true, force: true }));
      const out = join(folder, "out");
      const session = await Session.start(["xterm", "-u8", "-b", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", 'cat > "$1"', "sh", out]);
      t.after(() => session.stop());
      const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
      t.after(() => page.context().close());
      await page.goto(session.link);
      await page.waitForURL((url) => url.hash === "");
      await page.waitForFunction(() => window.thinc);
      await page.goto(new URL(query, page.url()).href);
      await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
      await page.evaluate(() => window.thinc.quiet());
      const cdp = await page.context().newCDPSession(page);
      const event = (type, code, key, modifiers = 0) => cdp.send("Input.dispatchKeyEvent", { type, code, key, modifiers, location: code === "AltRight" ? 2 : 0 });
      for (const line of [...keys, "Enter Enter"]) {
        const words = line.split(" ");
        const [code, key] = words.slice(-2);
        const shift = words[0] === "Shift";
        const altgr = words[0] === "AltGr";
        if (words[0] === "IME") {
          await cdp.send("Input.imeSetComposition", { text: "に", selectionStart: 1, selectionEnd: 1 });
          await cdp.send("Input.insertText", { text: words[1] });
          continue;
        }
        if (shift) await event("rawKeyDown", "ShiftLeft", "Shift", 8);
        if (altgr) await event("rawKeyDown", "AltRight", "AltGraph");
        await event("rawKeyDown", code, key, shift ? 8 : 0);
        await event("keyUp", code, key, shift ? 8 : 0);
        if (shift) await event("keyUp", "ShiftLeft", "Shift");
        if (altgr) await event("keyUp", "AltRight", "AltGraph");
      }
      assert.equal(await fileHas(out, (now) => now.length >= wanted.length && now.endsWith("\n") && now), `${wanted}\n`);
      const laidOut = execFileSync("setxkbmap", ["-query"], { env: session.env, encoding: "utf8" });
      assert.match(laidOut, new RegExp(`layout: +${query === "?layout=session" ? "us" : name}\\n`));
      assert.deepEqual(page.problems, []);
    });
  }
}
