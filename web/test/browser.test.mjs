// A real browser opens a real session's link: what is typed arrives, and every byte of the screen is shown.
// The whole path, from X's drawing to the pixels of a tab, and from its keyboard back.
// Needs target/release/thinc with the web viewer inside and the driver (./dev build), Chromium, xterm and xwd.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { Fingers } from "./fingers.mjs";
import { assertSamePixels, readPng } from "./png.mjs";
import { Proxy } from "./proxy.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 90_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A session with this shell script in an xterm, writing to `out` of a folder of its own, and its page. */
async function opened(t, script, { query = "", tab = { viewport: { width: 640, height: 480 } }, proxied = false } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "out");
  const session = await Session.start(["xterm", "-u8", "-b", "0", "-bw", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", script, "sh", out]);
  t.after(() => session.stop());
  const page = await openTab(browser, tab);
  t.after(() => page.context().close());
  const proxy = proxied ? await Proxy.before(session.link) : undefined;
  if (proxy) t.after(() => proxy.stop());
  await page.goto(proxy ? proxy.link : session.link);
  await page.waitForURL((url) => url.hash === "");
  if (query !== "") {
    await page.waitForFunction(() => window.thinc);
    await page.goto(new URL(query, page.url()).href);
  }
  await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
  await page.evaluate(() => window.thinc.quiet());
  return { session, page, out, proxy };
}

/** Holds the screen still, and compares what X has, what the viewer holds, and what the tab shows. */
async function assertSameScreen(session, page, what) {
  await page.waitForFunction(() => getComputedStyle(document.getElementById("menu")).visibility === "hidden");
  session.signalCommand("SIGSTOP");
  try {
    await page.evaluate(() => window.thinc.quiet());
    const x = session.screen();
    const held = await page.evaluate(async () => {
      const { width, height, data } = await window.thinc.pixels();
      let binary = "";
      for (let at = 0; at < data.length; at += 32768) binary += String.fromCharCode(...data.subarray(at, at + 32768));
      return { width, height, data: btoa(binary) };
    });
    assertSamePixels({ ...held, data: Buffer.from(held.data, "base64") }, x, `${what}: viewer and X`);
    const shown = readPng(await page.locator("#screen").screenshot({ animations: "disabled" }));
    assertSamePixels(shown, x, `${what}: tab and X`);
    const colors = new Set();
    for (let at = 0; at < x.data.length; at += 4) colors.add(x.data.readUInt32BE(at));
    assert.ok(colors.size > 1, "an empty screen would prove nothing");
  } finally {
    session.signalCommand("SIGCONT");
  }
}

/**
 * Begins to watch whether the page says that something is the matter, however briefly; what is returned waits until it has
 * said so, and then until all is well.
 */
async function watchTrouble(page) {
  await page.evaluate(() => {
    const state = document.getElementById("state");
    window.trouble = new Promise((resolve) => {
      const look = () => state.hidden || resolve();
      new MutationObserver(look).observe(state, { attributes: true });
      look();
    });
  });
  return {
    said: () => page.evaluate(() => window.trouble),
    over: () => page.waitForFunction(() => document.getElementById("state").hidden),
  };
}

/** Letters of every colour, the same each time: more than a page of text has in it. A line changes when somebody writes to "$1.change". */
const PAGE_OF_LETTERS =
  `mkfifo "$1.change"; for y in $(seq 24); do for x in $(seq 79); do n=$((y * 79 + x)); ` +
  `printf '\\033[38;5;%dm%b' $((n * 7919 % 216 + 16)) "\\0$(printf %o $((n * 104729 % 93 + 33)))"; done; [ $y = 24 ] || echo; done; ` +
  `printf '\\033[6n\\033[?25l'; : > "$1"; read line < "$1.change"; printf '\\033[H%s' "$line"; : > "$1.changed"; sleep 1d`;

async function echoed(page) {
  await page.waitForFunction(async () => (await window.thinc.stats()).photonUs.length > 0);
}

/** As a person does it: with Shift where the layout needs it. */
async function type(page, text) {
  const shifted = { "!": "Digit1", "@": "Digit2", "#": "Digit3", $: "Digit4", "%": "Digit5", "^": "Digit6", "&": "Digit7", "*": "Digit8", "(": "Digit9", ")": "Digit0", _: "Minus", "+": "Equal", "{": "BracketLeft", "}": "BracketRight", "|": "Backslash", ":": "Semicolon", '"': "Quote", "~": "Backquote", "<": "Comma", ">": "Period", "?": "Slash" };
  for (const character of text) {
    const code = /[A-Z]/.test(character) ? `Key${character}` : shifted[character];
    if (code !== undefined) await page.keyboard.press(`Shift+${code}`);
    else if (character === "\n") await page.keyboard.press("Enter");
    else if (character <= "~") await page.keyboard.press(character === " " ? "Space" : character);
    else await page.keyboard.insertText(character);
  }
}

test("what is typed into the page is what the program on the server reads, and the tab shows X's screen byte for byte", async (t) => {
  const { session, page, out } = await opened(t, 'cat > "$1"');
  const text =
    "The quick brown fox, 0123456789.\n" +
    "!@#$%^&*()_+{}|:\"~<>? `-=[]\\;',./\n" +
    "é ü ñ ß € Ω я 漢 – “quoted”\n";
  await type(page, text);
  assert.equal(await fileHas(out, (now) => now.length >= text.length && now), text);
  await echoed(page);
  await assertSameScreen(session, page, "after typing");
  assert.deepEqual(page.problems, []);
});

test("a page that is loaded again takes next to nothing of a screen that is unchanged, and of another what has changed", async (t) => {
  const { session, page, out } = await opened(t, PAGE_OF_LETTERS);
  await fileHas(out, () => existsSync(out), 30_000);
  const bytes = async () => {
    await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
    await page.evaluate(() => window.thinc.quiet());
    const { bytesIn, inexactPixels } = await page.evaluate(() => window.thinc.stats());
    assert.equal(inexactPixels, 0);
    return bytesIn;
  };
  await bytes();
  // A tab that begins anew takes all of it.
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  const all = await bytes();
  await page.evaluate(() => window.thinc.kept());
  await page.reload();
  const again = await bytes();
  await assertSameScreen(session, page, "after a reload");

  // The tab leaves and comes back; meanwhile a line changes.
  await page.evaluate(() => window.thinc.kept());
  const url = page.url();
  await page.goto("about:blank");
  writeFileSync(`${out}.change`, "something else is here\n");
  await fileHas(`${out}.changed`, () => existsSync(`${out}.changed`));
  await page.goto(url);
  const changed = await bytes();
  t.diagnostic(`${all} bytes for all of it, ${again} after a reload, ${changed} where a line has changed`);
  assert.ok(again <= 0.05 * all && changed <= 0.2 * all);
  await assertSameScreen(session, page, "after coming back");
});

test("keys with names reach the program: arrows, Home, function keys, Control", async (t) => {
  // The terminal's answer to "where is the cursor" says that the program is there and reads.
  const { page, out } = await opened(t, 'stty raw -echo; printf "\\033[6n"; cat -u > "$1"');
  await fileHas(out, (now) => now === HERE);
  for (const key of ["ArrowUp", "ArrowLeft", "Home", "Delete", "F1", "F5", "Tab", "Escape", "Backspace", "Control+KeyA", "Alt+KeyX"]) {
    await page.keyboard.press(key);
  }
  await page.keyboard.press("q");
  const got = await fileHas(out, (now) => now.endsWith("q") && now);
  assert.equal(JSON.stringify(got), JSON.stringify(HERE + "\x1b[A\x1b[D\x1b[H\x1b[3~\x1bOP\x1b[15~\t\x1b\x7f\x01" + ALT_X + "q"));
});

const HERE = "\x1b[1;1R";
// xterm's default: Alt sets the eighth bit, which in UTF-8 is "ø".
const ALT_X = "\u00f8";

test("pointer, buttons and wheel reach the program where they happened", async (t) => {
  const { page, out } = await opened(t, 'stty raw -echo; printf "\\033[?1000h\\033[?1006h\\033[6n"; cat -u > "$1"');
  await fileHas(out, (now) => now === HERE);
  // Which shows itself when a session opens, and in a window so narrow lies over that place.
  await page.waitForFunction(() => getComputedStyle(document.getElementById("menu")).visibility === "hidden");
  // The middle of column 10, row 5, of characters of 6 by 13 pixels.
  const [x, y] = [9.5 * 6, 4.5 * 13];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.wheel(0, 120);
  await page.mouse.wheel(0, -120);
  const got = await fileHas(out, (now) => now.includes("<64;") && now);
  assert.equal(JSON.stringify(got), JSON.stringify(HERE + "\x1b[<0;10;5M\x1b[<0;10;5m\x1b[<65;10;5M\x1b[<64;10;5M"));
});

for (const query of ["?present=2d", "?present=webgl2", "?thread=page"]) {
  test(`the session follows the tab's size, and scrolling text stays exact, ${query}`, async (t) => {
    const { session, page, out } = await opened(t, 'while read -r n; do seq "$n"; echo "$n" >> "$1"; done', { query });
    await type(page, "300\n");
    await fileHas(out, (now) => now === "300\n");
    await assertSameScreen(session, page, "after scrolling");
    for (const [width, height] of [[801, 533], [500, 350]]) {
      await page.setViewportSize({ width, height });
      await page.waitForFunction(async ([w, h]) => {
        const { width, height } = await window.thinc.stats();
        return width === w && height === h;
      }, [width, height]);
      await assertSameScreen(session, page, `at ${width}x${height}`);
    }
    await type(page, "40\n");
    await fileHas(out, (now) => now === "300\n40\n");
    await assertSameScreen(session, page, "after more");
    assert.deepEqual(page.problems, []);
  });
}

test("a killed session process comes back, and so does the page", async (t) => {
  const { session, page, out } = await opened(t, 'cat > "$1"');
  await type(page, "before\n");
  await fileHas(out, (now) => now === "before\n");
  const trouble = await watchTrouble(page);
  process.kill(session.pids.session, "SIGKILL");
  await trouble.said();
  await trouble.over();
  await type(page, "after\n");
  await fileHas(out, (now) => now === "before\nafter\n");
  await assertSameScreen(session, page, "after a new process attached");
});

/** What was typed, each once and in order, but for what was lost on the way between `before` and `after`. */
function assertTypedOnce(got, typed, { before, after }) {
  let at = 0;
  for (const character of got) {
    at = typed.indexOf(character, at) + 1;
    assert.ok(at > 0, `${JSON.stringify(got)} is not ${JSON.stringify(typed)} with something left out`);
  }
  assert.ok(got.startsWith(before), `${JSON.stringify(got)} begins with ${JSON.stringify(before)}`);
  assert.ok(got.endsWith(after), `${JSON.stringify(got)} ends with ${JSON.stringify(after)}`);
}

const ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789";
const RAW = 'stty raw -echo; cat -u > "$1"';

for (const [what, cut] of [
  ["the connection is cut", ({ proxy }) => proxy.cut()],
  ["the session process is killed", ({ session }) => process.kill(session.pids.session, "SIGKILL")],
]) {
  test(`${what} in the middle of typing: what was typed is read once, and nothing of it twice`, async (t) => {
    const context = await opened(t, RAW, { proxied: true });
    const { page, out } = context;
    const before = ALPHABET.slice(0, 6);
    await page.keyboard.type(before);
    await fileHas(out, (now) => now === before);
    const trouble = await watchTrouble(page);
    // No pause between the next ones and the cut, nor after it.
    const typing = page.keyboard.type(ALPHABET.slice(6, 16));
    cut(context);
    await typing;
    await trouble.said();
    await page.keyboard.type(ALPHABET.slice(16, 20));
    await trouble.over();
    const after = ALPHABET.slice(20);
    await page.keyboard.type(after);
    const got = await fileHas(out, (now) => now.endsWith("9") && now);
    assertTypedOnce(got, ALPHABET, { before, after });
  });
}

test("what was typed into a path that died comes over the next, and not once more when it recovers", async (t) => {
  const { page, out, proxy } = await opened(t, RAW, { proxied: true });
  await page.keyboard.type("abc");
  await fileHas(out, (now) => now === "abc");
  // Until "c" was let go there as well: a key that is down when a path dies repeats until the session has noticed.
  await page.evaluate(() => window.thinc.quiet());
  proxy.stall();
  await page.keyboard.type("def");
  await page.getByText("No answer").waitFor();
  // The page gives the old connection up, and makes another.
  await proxy.connected();
  await page.waitForFunction(() => document.getElementById("state").hidden);
  await page.keyboard.type("DEF");
  await fileHas(out, (now) => now === "abcdefDEF");
  proxy.release();
  await page.keyboard.type("g");
  assert.equal(await fileHas(out, (now) => now.endsWith("g") && now), "abcdefDEFg");
});

test("a connection cut again and again while much is drawn: the screen is X's in the end, byte for byte", async (t) => {
  const script = 'while read -r n; do echo "begun $n" >> "$1"; head -c "$n" /dev/urandom | base64 -w 79; echo "done $n" >> "$1"; done';
  const { session, page, out, proxy } = await opened(t, script, { proxied: true });
  for (const bytes of [400_000, 500_000, 600_000]) {
    // What was drawn before has come, so what comes now is this; and a cut before the number was read would take it along.
    await page.evaluate(() => window.thinc.quiet());
    const drawn = proxy.received(4_000);
    await type(page, `${bytes}\n`);
    await fileHas(out, (now) => now.includes(`begun ${bytes}\n`));
    await drawn;
    const trouble = await watchTrouble(page);
    proxy.cut();
    await trouble.said();
    await trouble.over();
    await fileHas(out, (now) => now.endsWith(`done ${bytes}\n`), 60_000);
  }
  await assertSameScreen(session, page, "after three cuts");
});

test("fingers on a phone do in an X client what they are meant for", async (t) => {
  const { page, out } = await opened(t, 'stty raw -echo; printf "\\033[?1002h\\033[?1006h\\033[6n"; cat -u > "$1"', { tab: PHONE, query: "?size=follow" });
  await fileHas(out, (now) => now === HERE);
  const fingers = await Fingers.of(page);
  // Two pixels of the session to three of the page, 6 by 13 of the session a character: the middle of column 10, row 5.
  const place = (column, row) => [((column - 0.5) * 6 * 2) / 3, ((row - 0.5) * 13 * 2) / 3];
  const said = (...wanted) => fileHas(out, (now) => wanted.every((one) => now.includes(one)));
  await fingers.tap(place(10, 5));
  await said("\x1b[<0;10;5M\x1b[<0;10;5m");
  await fingers.down(place(20, 6));
  await page.waitForFunction(() => document.getElementById("hold").dataset.hint === "held");
  await fingers.up();
  await said("\x1b[<2;20;6M\x1b[<2;20;6m");
  await fingers.tap(...[[24, 8], [32, 8], [40, 8]].map(([column, row]) => place(column, row)));
  await said("\x1b[<1;32;8M\x1b[<1;32;8m");
  await fingers.down(place(20, 10));
  for (const column of [24, 28, 30]) await fingers.move(place(column, 10));
  await fingers.up();
  await said("\x1b[<0;20;10M", "\x1b[<32;30;10M", "\x1b[<0;30;10m");
  const [x, y] = place(30, 20);
  await fingers.down([x - 30, y], [x + 30, y]);
  for (let by = 12; by <= 132; by += 12) await fingers.move([x - 30, y - by], [x + 30, y - by]);
  await fingers.up();
  await said("\x1b[<65;30;20M");
  assert.equal((await fileHas(out, (now) => now)).includes("\x1b[<64"), false, "down, never up");
  assert.deepEqual(page.problems, []);
});

test("a link opens once; the words for a second time, and for none", async (t) => {
  const { session, page } = await opened(t, 'cat > "$1"');
  assert.ok(!page.url().includes("#"), "the token left the address bar");
  const other = await openTab(browser);
  t.after(() => other.context().close());
  await other.goto(session.link);
  await other.getByText("This link does not open the session").waitFor();
  await other.getByText("Each link works once").waitFor();
  await other.goto(session.newLink());
  await other.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
  const bare = await openTab(browser);
  t.after(() => bare.context().close());
  await bare.goto(new URL("./", session.link).href);
  await bare.getByText("This session needs a link").waitFor();
});

test("the end of the session is said in words", async (t) => {
  const { session, page } = await opened(t, 'cat > "$1"');
  await session.stop();
  await page.getByText("The session has ended").waitFor();
});
