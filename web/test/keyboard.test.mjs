// What a keyboard writes here is what a program in the session reads: layouts, AltGr, dead keys,
// locks, input methods.
// First against a scripted session, then a matrix of layouts against a real one, read back by
// `cat`.
// Needs what browser.test.mjs needs.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test as nodeTest } from "node:test";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { dispatch, modifierCases, PLATFORMS, received } from "./modifiers.mjs";
import { load } from "./modules.mjs";
import { isConnected, openPage } from "./opened.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");
let layout;
let sendkeys;
before(async () => {
  [layout, sendkeys] = await Promise.all([load("input/layout.ts"), load("input/sendkeys.ts")]);
});

// Tables

// biome-ignore format: a table reads best in rows
const US = {
  Backquote: "`", Minus: "-", Equal: "=", KeyQ: "q", KeyW: "w", KeyY: "y", BracketLeft: "[",
  BracketRight: "]", KeyA: "a", Semicolon: ";", Quote: "'", Backslash: "\\", KeyZ: "z", KeyM: "m",
  Comma: ",", Period: ".", Slash: "/", Digit1: "1", Digit2: "2",
};
// biome-ignore format: a table reads best in rows
const DE = {
  ...US, Minus: "ß", KeyY: "z", KeyZ: "y", BracketLeft: "ü", BracketRight: "+", Semicolon: "ö",
  Quote: "ä", Backslash: "#", Slash: "-", Backquote: "^", Equal: "´",
};
// biome-ignore format: a table reads best in rows
const FR = {
  ...US, Backquote: "²", Minus: ")", KeyQ: "a", KeyW: "z", KeyA: "q", KeyZ: "w", BracketLeft: "^",
  BracketRight: "$", Semicolon: "m", Quote: "ù", Backslash: "*", KeyM: ",", Comma: ";", Period: ":",
  Slash: "!", Digit1: "&", Digit2: "é",
};

test("a layout is identified by its keys, also without dead keys", () => {
  const guess = (keys) => layout.guessLayout(new Map(Object.entries(keys)));
  assert.equal(guess(US), "us");
  assert.equal(guess(DE), "de");
  assert.equal(guess({ ...DE, Backquote: "\u0302" }), "de");
  assert.equal(guess(FR), "fr");
  assert.equal(
    guess({ ...US, KeyQ: "'", KeyW: ",", KeyY: "f", Semicolon: "s" }),
    undefined,
    "Dvorak is not in the table",
  );
  assert.equal(guess({ KeyQ: "q", KeyW: "w" }), undefined, "two keys identify no layout");
});

test("names of layouts are parsed as users write them", () => {
  assert.deepEqual(layout.parseLayout("de(nodeadkeys)"), { layout: "de", variant: "nodeadkeys" });
  assert.deepEqual(layout.parseLayout("us"), { layout: "us", variant: "" });
  for (const wrong of ["", "-layout", "de(", "../de", "de us", "a".repeat(100)])
    assert.equal(layout.parseLayout(wrong), undefined, wrong);
});

test("the keys of a chord have codes and keysyms", () => {
  assert.deepEqual(sendkeys.keysOf("Ctrl+Alt+Del"), [
    { code: 29, keysym: 0xffe3 },
    { code: 56, keysym: 0xffe9 },
    { code: 111, keysym: 0xffff },
  ]);
  assert.deepEqual(sendkeys.keysOf("Super"), [{ code: 125, keysym: 0xffeb }]);
  assert.deepEqual(sendkeys.keysOf("Ctrl+W"), [
    { code: 29, keysym: 0xffe3 },
    { code: 17, keysym: 0x77 },
  ]);
  assert.deepEqual(sendkeys.keysOf("Ctrl+Alt+F11").at(-1), { code: 87, keysym: 0xffc8 });
});

// Against a scripted session

async function faked(t, query = "", options = {}) {
  const { page, viewer } = await openPage(t, browser, { query, ...options });
  viewer.send(
    message.hello("keys"),
    message.geometry(1, 400, 300),
    message.update(1, 1, [draw.fill(0, 0, 400, 300, 0)]),
  );
  await isConnected(page);
  // It is shown when a session opens.
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  return { page, viewer };
}

const typed = (viewer) =>
  viewer.received.flatMap((m) =>
    m.kind === "key"
      ? [`${m.down ? "+" : "-"}${m.code}`]
      : m.kind === "char"
        ? [m.character]
        : m.kind === "locks"
          ? [`locks ${m.locks}`]
          : [],
  );

test("a chosen layout is sent at once, and none if the session's is chosen", async (t) => {
  const { viewer } = await faked(t, "?layout=de(nodeadkeys)");
  const reported = await viewer.receive((m) => m.kind === "layout");
  assert.deepEqual([reported.layout, reported.variant, reported.options], ["de", "nodeadkeys", ""]);
  const other = await faked(t, "?layout=session");
  await other.page.keyboard.press("x");
  await other.viewer.receive((m) => m.kind === "key" && !m.down);
  assert.equal(
    other.viewer.received.some((m) => m.kind === "layout"),
    false,
  );
});

test("lock states are sent before the first key, and after a change without a key", async (t) => {
  const { page, viewer } = await faked(t);
  const press = (code, key, options = {}) =>
    page.evaluate(
      ([code, key, options]) => {
        for (const type of ["keydown", "keyup"])
          window.dispatchEvent(new KeyboardEvent(type, { code, key, ...options }));
      },
      [code, key, options],
    );
  await press("KeyA", "a");
  await press("KeyB", "b");
  await press("CapsLock", "CapsLock", { modifierCapsLock: true });
  await press("KeyC", "C", { modifierCapsLock: true });
  await page.evaluate(() => window.dispatchEvent(new Event("blur")));
  await press("KeyD", "D", { modifierCapsLock: true, modifierNumLock: true });
  await viewer.receive((m) => m.kind === "key" && m.code === 32 && !m.down);
  assert.deepEqual(typed(viewer), [
    "locks 0",
    "+30",
    "-30",
    "+48",
    "-48",
    "+58",
    "-58",
    "locks 1",
    "+46",
    "-46",
    "locks 3",
    "+32",
    "-32",
  ]);
});

for (const platform of PLATFORMS) {
  test(`every modifier is what its key says, with any other, on ${platform}`, async (t) => {
    const script = `Object.defineProperty(navigator, "platform", { value: "${platform}" });`;
    const { page, viewer } = await faked(t, "", { script });
    for (const { name, events, wanted } of modifierCases(platform)) {
      viewer.received.length = 0;
      await page.evaluate(`(${dispatch})(${JSON.stringify(events)})`);
      await page.keyboard.press("z");
      await viewer.receive((m) => m.kind === "key" && m.code === 44 && !m.down);
      assert.deepEqual(received(viewer).slice(0, -2), wanted, name);
    }
    assert.deepEqual(page.problems, []);
  });
}

test("composed text is shown here and sent when it is complete, in order with keys", async (t) => {
  const { page, viewer } = await faked(t);
  const cdp = await page.context().newCDPSession(page);
  const compose = (text) =>
    cdp.send("Input.imeSetComposition", {
      text,
      selectionStart: text.length,
      selectionEnd: text.length,
    });
  await page.mouse.click(120, 80);
  await page.keyboard.press("a");
  for (const text of ["n", "に", "にほ", "にほん", "日本"]) await compose(text);
  const shown = await page.evaluate(() => {
    const { left, top, width } = document.getElementById("keys").getBoundingClientRect();
    return { left, top, width, opacity: getComputedStyle(document.getElementById("keys")).opacity };
  });
  assert.equal(shown.opacity, "1");
  assert.deepEqual([shown.left, shown.top], [120, 80], "at the last click");
  assert.ok(shown.width >= 32, `${shown.width} px for two characters of 16`);
  assert.deepEqual(
    typed(viewer).filter((word) => !word.startsWith("locks")),
    ["+30", "-30"],
    "nothing is sent before the composition ends",
  );
  await cdp.send("Input.insertText", { text: "日本" });
  await page.keyboard.press("b");
  await viewer.receive((m) => m.kind === "key" && m.code === 48 && !m.down);
  assert.deepEqual(
    typed(viewer).filter((word) => !word.startsWith("locks")),
    ["+30", "-30", "日", "本", "+48", "-48"],
  );
  assert.equal(
    await page.evaluate(() => getComputedStyle(document.getElementById("keys")).opacity),
    "0",
  );
  assert.deepEqual(page.problems, []);
});

test("a text that is too long to type is not sent, and reported", async (t) => {
  const { page, viewer } = await faked(t);
  await page.locator("#keys").focus();
  await page.keyboard.insertText("x".repeat(2001));
  await page.locator("#notice").filter({ hasText: "copy and paste it instead" }).waitFor();
  await page.keyboard.insertText("y".repeat(2000));
  await page.keyboard.press("b");
  await viewer.receive((m) => m.kind === "key" && m.code === 48 && !m.down);
  const characters = typed(viewer).filter((word) => word.length === 1);
  assert.deepEqual(
    [characters.length, characters.every((character) => character === "y")],
    [2000, true],
  );
});

test("a cancelled composition leaves nothing behind", async (t) => {
  const { page, viewer } = await faked(t);
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Input.imeSetComposition", { text: "にほ", selectionStart: 2, selectionEnd: 2 });
  await cdp.send("Input.imeSetComposition", { text: "", selectionStart: 0, selectionEnd: 0 });
  await page.keyboard.press("x");
  await viewer.receive((m) => m.kind === "key" && !m.down);
  assert.deepEqual(
    typed(viewer).filter((word) => !word.startsWith("locks")),
    ["+45", "-45"],
  );
});

test("the menu sends keys that browser and desktop do not pass on", async (t) => {
  const { page, viewer } = await faked(t);
  await page.keyboard.press("Control+Alt+m");
  await viewer.receive((m) => m.kind === "key" && m.code === 29 && !m.down);
  viewer.received.length = 0;
  await page.getByRole("button", { name: "Send keys" }).click();
  await page.getByRole("button", { name: "Ctrl+Alt+Del" }).click();
  await viewer.receive((m) => m.kind === "key" && m.code === 29 && !m.down);
  assert.deepEqual(typed(viewer), ["+29", "+56", "+111", "-111", "-56", "-29"]);
  viewer.received.length = 0;
  await page
    .getByRole("combobox", { name: "Send Ctrl+Alt and a function key" })
    .selectOption("Ctrl+Alt+F2");
  await viewer.receive((m) => m.kind === "key" && m.code === 29 && !m.down);
  assert.deepEqual(typed(viewer), ["+29", "+56", "+60", "-60", "-56", "-29"]);
  assert.deepEqual(page.problems, []);
});

test("the session is pinged repeatedly while a key is held", async (t) => {
  const { page, viewer } = await faked(t);
  await page.keyboard.down("x");
  await viewer.receive((m) => m.kind === "key" && m.down);
  const answered = viewer.pongs;
  await viewer.receive(() => viewer.pongs >= answered + 3);
  await page.keyboard.up("x");
  assert.deepEqual(page.problems, []);
});

// A matrix of layouts, typed into a real session

/**
 * [keys, the text that they write]; a key is a code and the browser's meaning, after AltGr or
 * Shift.
 */
const MATRIX = {
  us: [
    ["KeyA a", "Shift KeyA A", "Digit2 2", "Shift Digit2 @", "Shift BracketLeft {", "Backslash \\"],
    "aA2@{\\",
  ],
  de: [
    [
      "KeyY z",
      "KeyZ y",
      "BracketLeft ü",
      "Shift Quote Ä",
      "Minus ß",
      "AltGr KeyQ @",
      "AltGr KeyE €",
      "AltGr Digit7 {",
      "AltGr Digit0 }",
      "Backquote Dead",
      "KeyE ê",
      "IntlBackslash <",
    ],
    "zyüÄß@€{}ê<",
  ],
  fr: [
    [
      "KeyQ a",
      "KeyA q",
      "KeyW z",
      "Semicolon m",
      "Digit2 é",
      "Shift Digit2 2",
      "Digit0 à",
      "AltGr Digit0 @",
      "AltGr KeyE €",
      "AltGr Digit4 {",
      "BracketLeft Dead",
      "KeyE ê",
      "BracketLeft Dead",
      "Shift KeyQ Â",
    ],
    "aqzmé2à@€{êÂ",
  ],
  jp: [
    [
      "KeyA a",
      "BracketLeft @",
      'Shift Digit2 "',
      "Quote :",
      "IME 日本語を入力する",
      "Enter Enter",
      "IME 😀",
    ],
    'a@":日本語を入力する\n😀',
  ],
};

for (const [name, [keys, wanted]] of Object.entries(MATRIX)) {
  for (const query of [`?layout=${name}`, "?layout=session"]) {
    test(`a program reads what a ${name} keyboard writes, ${query}`, async (t) => {
      const folder = mkdtempSync(join(tmpdir(), "thinc-web-keys-"));
      t.after(() => removeFolder(folder));
      const out = join(folder, "out");
      const session = await Session.inTerminal('cat > "$1"', out);
      t.after(() => session.stop());
      const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
      t.after(() => page.context().close());
      await page.goto(session.link);
      await page.waitForURL((url) => url.hash === "");
      await page.waitForFunction(() => window.thinc);
      await page.goto(new URL(query, page.url()).href);
      await isConnected(page);
      await page.evaluate(() => window.thinc.quiet());
      const cdp = await page.context().newCDPSession(page);
      const event = (type, code, key, modifiers = 0) =>
        cdp.send("Input.dispatchKeyEvent", {
          type,
          code,
          key,
          modifiers,
          location: code === "AltRight" ? 2 : 0,
        });
      for (const line of [...keys, "Enter Enter"]) {
        const words = line.split(" ");
        const [code, key] = words.slice(-2);
        const shift = words[0] === "Shift";
        const altgr = words[0] === "AltGr";
        if (words[0] === "IME") {
          await cdp.send("Input.imeSetComposition", {
            text: "に",
            selectionStart: 1,
            selectionEnd: 1,
          });
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
      assert.equal(
        await fileHas(out, (now) => now.length >= wanted.length && now.endsWith("\n") && now),
        `${wanted}\n`,
      );
      const laidOut = execFileSync("setxkbmap", ["-query"], { env: session.env, encoding: "utf8" });
      assert.match(laidOut, new RegExp(`layout: +${query === "?layout=session" ? "us" : name}\\n`));
      assert.deepEqual(page.problems, []);
    });
  }
}
