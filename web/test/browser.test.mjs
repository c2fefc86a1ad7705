// A real browser opens a real session's link: typed input arrives, and every byte of the screen is
// shown.
// The whole path, from X's drawing to the pixels of a tab, and from its keyboard back.
// Needs target/release/thinc with the web viewer inside and the driver (./dev build), Chromium,
// xterm and xwd.

import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { request } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { Fingers } from "./fingers.mjs";
import { framebuffer, isConnected, screenshotWithoutStatus } from "./opened.mjs";
import { assertSamePixels, readPng } from "./png.mjs";
import { LinkProxy } from "./proxy.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/**
 * A session with this shell script in an xterm, which writes to `out` in a folder of its own, and
 * its page.
 */
async function opened(
  t,
  script,
  { query = "", tab = { viewport: { width: 640, height: 480 } }, proxied = false } = {},
) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
  const out = join(folder, "out");
  const session = await Session.inTerminal(script, out);
  t.after(() => session.stop());
  const page = await openTab(browser, tab);
  t.after(() => page.context().close());
  const proxy = proxied ? await LinkProxy.before(session.link) : undefined;
  if (proxy) t.after(() => proxy.stop());
  await page.goto(proxy ? proxy.link : session.link);
  await page.waitForURL((url) => url.hash === "");
  if (query !== "") {
    await page.waitForFunction(() => window.thinc);
    await page.goto(new URL(query, page.url()).href);
  }
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
  return { session, page, out, proxy };
}

/** How long the screen may take to get the size that a tab requested, on a busy machine. */
const RESIZE_MS_MAX = 60_000;

/**
 * Stops the applications, and compares the X screen, the viewer's framebuffer and the tab's pixels.
 */
async function assertSameScreen(session, page, what) {
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  session.signalCommand("SIGSTOP");
  try {
    // A barrier orders what was drawn. The answer to a resize that the tab requested may still be
    // in flight; until then the tab has a scaled picture of the old screen.
    let x;
    let held;
    for (const end = performance.now() + RESIZE_MS_MAX; ; ) {
      await page.evaluate(() => window.thinc.quiet());
      x = session.screen();
      held = await framebuffer(page);
      if ((held.width === x.width && held.height === x.height) || performance.now() > end) break;
    }
    assertSamePixels(held, x, `${what}: viewer and X`);
    const shown = readPng(await screenshotWithoutStatus(page));
    assertSamePixels(shown, x, `${what}: tab and X`);
    const colors = new Set();
    for (let at = 0; at < x.data.length; at += 4) colors.add(x.data.readUInt32BE(at));
    assert.ok(colors.size > 1, "the screen is not empty");
  } finally {
    session.signalCommand("SIGCONT");
  }
}

/**
 * Watches whether the page reports a problem, however briefly; the returned function waits until it
 * has, and then until it no longer does.
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
    shown: () => page.evaluate(() => window.trouble),
    over: () => page.waitForFunction(() => document.getElementById("state").hidden),
  };
}

/**
 * Text in every colour, the same each time, with more than a page of text usually has. A line
 * changes when somebody writes to "$1.change".
 */
const PAGE_OF_TEXT =
  `mkfifo "$1.change"; for y in $(seq 24); do for x in $(seq 79); do n=$((y * 79 + x)); ` +
  `printf '\\033[38;5;%dm%b' $((n * 7919 % 216 + 16)) "\\0$(printf %o $((n * 104729 % 93 + 33)))"` +
  `; done; [ $y = 24 ] || echo; done; ` +
  `printf '\\033[6n\\033[?25l'; : > "$1"; read line < "$1.change"; ` +
  `printf '\\033[H%s' "$line"; : > "$1.changed"; sleep 1d`;

async function echoed(page) {
  await page.waitForFunction(async () => (await window.thinc.stats()).inputToPresentUs.length > 0);
}

/** Like a user: with Shift if the layout needs it. */
async function type(page, text) {
  const shifted = {
    "!": "Digit1",
    "@": "Digit2",
    "#": "Digit3",
    $: "Digit4",
    "%": "Digit5",
    "^": "Digit6",
    "&": "Digit7",
    "*": "Digit8",
    "(": "Digit9",
    ")": "Digit0",
    _: "Minus",
    "+": "Equal",
    "{": "BracketLeft",
    "}": "BracketRight",
    "|": "Backslash",
    ":": "Semicolon",
    '"': "Quote",
    "~": "Backquote",
    "<": "Comma",
    ">": "Period",
    "?": "Slash",
  };
  for (const character of text) {
    const code = /[A-Z]/.test(character) ? `Key${character}` : shifted[character];
    if (code !== undefined) await page.keyboard.press(`Shift+${code}`);
    else if (character === "\n") await page.keyboard.press("Enter");
    else if (character <= "~") await page.keyboard.press(character === " " ? "Space" : character);
    else await page.keyboard.insertText(character);
  }
}

test("a program reads what is typed here, and the tab shows the X screen exactly", async (t) => {
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

test("a reloaded page receives only the changes of the screen", async (t) => {
  const { session, page, out } = await opened(t, PAGE_OF_TEXT);
  await fileHas(out, () => existsSync(out));
  const bytes = async () => {
    await isConnected(page);
    await page.evaluate(() => window.thinc.quiet());
    const { bytesIn, lossyPixels } = await page.evaluate(() => window.thinc.stats());
    assert.equal(lossyPixels, 0);
    return bytesIn;
  };
  await bytes();
  // A tab without saved state receives all of it.
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  const all = await bytes();
  await page.evaluate(() => window.thinc.saved());
  await page.reload();
  const again = await bytes();
  await assertSameScreen(session, page, "after a reload");

  // The tab leaves and returns; meanwhile a line changes.
  await page.evaluate(() => window.thinc.saved());
  const url = page.url();
  await page.goto("about:blank");
  writeFileSync(`${out}.change`, "something else is here\n");
  await fileHas(`${out}.changed`, () => existsSync(`${out}.changed`));
  await page.goto(url);
  const changed = await bytes();
  t.diagnostic(
    `${all} bytes for all of it, ${again} after a reload, ${changed} where a line has changed`,
  );
  assert.ok(again <= 0.05 * all && changed <= 0.2 * all);
  await assertSameScreen(session, page, "after returning");
});

test("named keys reach the program: arrows, Home, function keys, Control", async (t) => {
  // The terminal's answer to a cursor position request shows that the program reads.
  const { page, out } = await opened(t, 'stty raw -echo; printf "\\033[6n"; cat -u > "$1"');
  await fileHas(out, (now) => now === HERE);
  for (const key of [
    "ArrowUp",
    "ArrowLeft",
    "Home",
    "Delete",
    "F1",
    "F5",
    "Tab",
    "Escape",
    "Backspace",
    "Control+KeyA",
    "Alt+KeyX",
  ]) {
    await page.keyboard.press(key);
  }
  await page.keyboard.press("q");
  const got = await fileHas(out, (now) => now.endsWith("q") && now);
  assert.equal(
    JSON.stringify(got),
    JSON.stringify(`${HERE}\x1b[A\x1b[D\x1b[H\x1b[3~\x1bOP\x1b[15~\t\x1b\x7f\x01${ALT_X}q`),
  );
});

const HERE = "\x1b[1;1R";
// xterm's default: Alt sets the eighth bit, which in UTF-8 is "ø".
const ALT_X = "\u00f8";

test("pointer, buttons and wheel reach the program at the right place", async (t) => {
  const { page, out } = await opened(
    t,
    'stty raw -echo; printf "\\033[?1000h\\033[?1006h\\033[6n"; cat -u > "$1"',
  );
  await fileHas(out, (now) => now === HERE);
  // The menu is shown when a session opens, and covers that place in a window this narrow.
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  // The middle of column 10, row 5, of characters of 6 by 13 pixels.
  const [x, y] = [9.5 * 6, 4.5 * 13];
  await page.mouse.move(x, y);
  await page.mouse.down();
  await page.mouse.up();
  await page.mouse.wheel(0, 120);
  await page.mouse.wheel(0, -120);
  const got = await fileHas(out, (now) => now.includes("<64;") && now);
  assert.equal(
    JSON.stringify(got),
    JSON.stringify(`${HERE}\x1b[<0;10;5M\x1b[<0;10;5m\x1b[<65;10;5M\x1b[<64;10;5M`),
  );
});

for (const query of ["?present=2d", "?present=webgl2", "?thread=page"]) {
  test(`the session follows the tab's size, and scrolled text is exact, ${query}`, async (t) => {
    const { session, page, out } = await opened(
      t,
      'while read -r n; do seq "$n"; echo "$n" >> "$1"; done',
      { query },
    );
    await type(page, "300\n");
    await fileHas(out, (now) => now === "300\n");
    await assertSameScreen(session, page, "after scrolling");
    for (const [width, height] of [
      [801, 533],
      [500, 350],
    ]) {
      await page.setViewportSize({ width, height });
      await page.waitForFunction(
        async ([w, h]) => {
          const { width, height } = await window.thinc.stats();
          return width === w && height === h;
        },
        [width, height],
      );
      await assertSameScreen(session, page, `at ${width}x${height}`);
    }
    await type(page, "40\n");
    await fileHas(out, (now) => now === "300\n40\n");
    await assertSameScreen(session, page, "after more");
    assert.deepEqual(page.problems, []);
  });
}

test("a killed session process is restarted, and the page reconnects", async (t) => {
  const { session, page, out } = await opened(t, 'cat > "$1"');
  await type(page, "before\n");
  await fileHas(out, (now) => now === "before\n");
  const trouble = await watchTrouble(page);
  process.kill(session.pids.session, "SIGKILL");
  await trouble.shown();
  await trouble.over();
  await type(page, "after\n");
  await fileHas(out, (now) => now === "before\nafter\n");
  await assertSameScreen(session, page, "after a new process attached");
});

/**
 * Asserts that all input was read once and in order, except for losses between `before` and
 * `after`.
 */
function assertTypedOnce(got, typed, { before, after }) {
  let at = 0;
  for (const character of got) {
    at = typed.indexOf(character, at) + 1;
    assert.ok(
      at > 0,
      `${JSON.stringify(got)} is not ${JSON.stringify(typed)} with something left out`,
    );
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
  test(`${what} while typing: the input is read once, and nothing of it twice`, async (t) => {
    const context = await opened(t, RAW, { proxied: true });
    const { page, out } = context;
    const before = ALPHABET.slice(0, 6);
    await page.keyboard.type(before);
    await fileHas(out, (now) => now === before);
    const trouble = await watchTrouble(page);
    // No pause between these keys and the cut, nor after it.
    const typing = page.keyboard.type(ALPHABET.slice(6, 16));
    cut(context);
    await typing;
    await trouble.shown();
    await page.keyboard.type(ALPHABET.slice(16, 20));
    await trouble.over();
    const after = ALPHABET.slice(20);
    await page.keyboard.type(after);
    const got = await fileHas(out, (now) => now.endsWith("9") && now);
    assertTypedOnce(got, ALPHABET, { before, after });
  });
}

test("input sent over a dead path arrives over the next, and is not repeated later", async (t) => {
  const { page, out, proxy } = await opened(t, RAW, { proxied: true });
  await page.keyboard.type("abc");
  await fileHas(out, (now) => now === "abc");
  proxy.stall();
  await page.keyboard.type("def");
  await page.getByText("No answer").waitFor();
  // The page gives up the old connection, and opens another.
  await proxy.connected();
  await page.waitForFunction(() => document.getElementById("state").hidden);
  await page.keyboard.type("DEF");
  await fileHas(out, (now) => now === "abcdefDEF");
  proxy.release();
  await page.keyboard.type("g");
  assert.equal(await fileHas(out, (now) => now.endsWith("g") && now), "abcdefDEFg");
});

test("after repeated cuts during drawing the screen is the X screen exactly", async (t) => {
  const script =
    'while read -r n; do echo "begun $n" >> "$1"; head -c "$n" /dev/urandom | base64 -w 79; ' +
    'echo "done $n" >> "$1"; done';
  const { session, page, out, proxy } = await opened(t, script, { proxied: true });
  for (const bytes of [400_000, 500_000, 600_000]) {
    // Earlier drawing has arrived, so that what arrives now is this one's; and the number was read
    // before the cut.
    await page.evaluate(() => window.thinc.quiet());
    const drawn = proxy.received(4_000);
    await type(page, `${bytes}\n`);
    await fileHas(out, (now) => now.includes(`begun ${bytes}\n`));
    await drawn;
    const trouble = await watchTrouble(page);
    proxy.cut();
    await trouble.shown();
    await trouble.over();
    await fileHas(out, (now) => now.endsWith(`done ${bytes}\n`));
  }
  await assertSameScreen(session, page, "after three cuts");
});

test("touches on a phone have their meaning in an X client", async (t) => {
  const { page, out } = await opened(
    t,
    'stty raw -echo; printf "\\033[?1002h\\033[?1006h\\033[6n"; cat -u > "$1"',
    { tab: PHONE, query: "?size=follow" },
  );
  await fileHas(out, (now) => now === HERE);
  const fingers = await Fingers.of(page);
  // Two session pixels are three page pixels; a character has 6 by 13 session pixels: the middle of
  // column 10, row 5.
  const place = (column, row) => [((column - 0.5) * 6 * 2) / 3, ((row - 0.5) * 13 * 2) / 3];
  const outputHas = (...wanted) => fileHas(out, (now) => wanted.every((one) => now.includes(one)));
  await fingers.tap(place(10, 5));
  await outputHas("\x1b[<0;10;5M\x1b[<0;10;5m");
  await fingers.down(place(20, 6));
  await page.waitForFunction(() => document.getElementById("hold").dataset.hint === "held");
  await fingers.up();
  await outputHas("\x1b[<2;20;6M\x1b[<2;20;6m");
  await fingers.tap(
    ...[
      [24, 8],
      [32, 8],
      [40, 8],
    ].map(([column, row]) => place(column, row)),
  );
  await outputHas("\x1b[<1;32;8M\x1b[<1;32;8m");
  await fingers.down(place(20, 10));
  for (const column of [24, 28, 30]) await fingers.move(place(column, 10));
  await fingers.up();
  await outputHas("\x1b[<0;20;10M", "\x1b[<32;30;10M", "\x1b[<0;30;10m");
  const [x, y] = place(30, 20);
  await fingers.down([x - 30, y], [x + 30, y]);
  for (let by = 12; by <= 132; by += 12) await fingers.move([x - 30, y - by], [x + 30, y - by]);
  await fingers.up();
  await outputHas("\x1b[<65;30;20M");
  assert.equal((await fileHas(out, (now) => now)).includes("\x1b[<64"), false, "down, never up");
  assert.deepEqual(page.problems, []);
});

test("a link opens once; the page says so the second time, and without a link", async (t) => {
  const { session, page } = await opened(t, 'cat > "$1"');
  assert.ok(!page.url().includes("#"), "the token left the address bar");
  const other = await openTab(browser);
  t.after(() => other.context().close());
  await other.goto(session.link);
  await other.getByText("This link does not open the session").waitFor();
  await other.getByText("Each link works once").waitFor();
  await other.goto(session.newLink());
  await isConnected(other);
  const bare = await openTab(browser);
  t.after(() => bare.context().close());
  await bare.goto(new URL("./", session.link).href);
  await bare.getByText("This session needs a link").waitFor();
});

test("the page reports the end of the session", async (t) => {
  const { session, page } = await opened(t, 'cat > "$1"');
  await session.stop();
  await page.getByText("The session has ended").waitFor();
});

test("another port of the host gets the cookie, which opens nothing by itself", async (t) => {
  const { session, page } = await opened(t, "cat");
  const seen = [];
  const other = createServer((request, answer) => {
    seen.push({ url: request.url, headers: request.headers });
    answer.setHeader("content-type", "text/html").end("<title>other</title>");
  });
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const { secret, ours } = await page.evaluate(() => ({
    secret: localStorage.getItem("thinc secret /"),
    ours: location.origin,
  }));
  assert.match(secret, /^[\w-]{64}$/);
  await page.goto(`http://127.0.0.1:${other.address().port}/`);
  const { cookie } = seen[0].headers;
  assert.match(cookie, /__Host-thinc-/, "if browsers stop to send it, so much the better");
  assert.equal(await page.evaluate(() => JSON.stringify(localStorage)), "{}");
  assert.ok(!JSON.stringify(seen).includes(secret));
  // Who listens there can claim to be the page.
  const upgrade = (headers) =>
    new Promise((resolve, reject) => {
      const asked = request(`${ours}/ws`, {
        rejectUnauthorized: false,
        headers: {
          ...{ cookie, origin: ours, connection: "Upgrade", upgrade: "websocket" },
          ...{ "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
          ...headers,
        },
      });
      asked.on("response", (answer) => resolve(answer.statusCode));
      asked.on("upgrade", (answer, socket) => {
        socket.destroy();
        resolve(answer.statusCode);
      });
      asked.on("error", reject);
      asked.end();
    });
  assert.equal(await upgrade({ "sec-websocket-protocol": "thinc" }), 401);
  const protocols = `thinc, thinc.origin-secret.${secret}`;
  assert.equal(await upgrade({ "sec-websocket-protocol": protocols }), 101, "as the page does");
  // The session process is started again: both are still good.
  await page.goto(ours);
  await isConnected(page);
  const trouble = await watchTrouble(page);
  process.kill(session.pids.session, "SIGKILL");
  await trouble.shown();
  await trouble.over();
  await page.reload();
  await isConnected(page);
});
