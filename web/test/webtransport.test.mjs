// A page comes to a real session by WebTransport: Chromium and Firefox, what happens where UDP does not get through, who is refused.
// Beside browser.test.mjs, which takes whichever way is there first.
// Needs what that needs, and firefox-esr.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { Firefox } from "./firefox.mjs";
import { assertSamePixels } from "./png.mjs";
import { Proxy } from "./proxy.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 90_000 }, body);

const browser = chromiumForTests();

const QUIET = 'stty -echo; seq 400; cat -u > "$1"';
const ECHO = 'seq 400; cat -u > "$1"';

/** A session with a terminal full of numbers, whose script reads to `out` what is typed; `ECHO` shows it too. */
async function started(t, { script = QUIET, ...options } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "out");
  const command = ["xterm", "-u8", "-b", "0", "-bw", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", script, "sh", out];
  const session = await Session.start(command, options);
  t.after(() => session.stop());
  return { session, out };
}

const connected = (page) => page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
const way = (page) => page.evaluate(async () => (await window.thinc.stats()).transport);

/** A tab with the session's page behind this link; the cookie first, so that `query` counts from the beginning. */
async function opened(t, link, query) {
  const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
  t.after(() => page.context().close());
  await page.goto(link);
  await page.waitForFunction(() => window.thinc);
  await page.goto(new URL(query, page.url()).href);
  await connected(page);
  return page;
}

async function typed(page, out, text) {
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  await fileHas(out, (now) => now.endsWith(`${text}\n`));
}

const HELD = `const { width, height, data } = await window.thinc.pixels();
  let binary = "";
  for (let at = 0; at < data.length; at += 32768) binary += String.fromCharCode(...data.subarray(at, at + 32768));
  return { width, height, data: btoa(binary) };`;

/** Holds the screen still, and compares what X has and what the viewer holds. */
async function assertSameScreen(session, run, what) {
  session.signalCommand("SIGSTOP");
  try {
    await run("await window.thinc.quiet();");
    const held = await run(HELD);
    assertSamePixels({ ...held, data: Buffer.from(held.data, "base64") }, session.screen(), what);
  } finally {
    session.signalCommand("SIGCONT");
  }
}

const inPage = (page) => (body) => page.evaluate(`(async () => { ${body} })()`);

test("by WebTransport the screen is X's, and what is typed arrives", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?transport=webtransport");
  assert.equal(await way(page), "webtransport");
  await typed(page, out, "hello");
  await assertSameScreen(session, inPage(page), "by WebTransport");
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText("WebTransport, by QUIC").waitFor();
  await session.logged(/\(browser, WebTransport\): connected/);
  assert.deepEqual(page.problems, []);
});

test("in Firefox too", async (t) => {
  const { session, out } = await started(t);
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.goto(new URL("?transport=webtransport", session.link).href);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  assert.equal(await firefox.run(`return (await page.thinc.stats()).transport;`), "webtransport");
  await firefox.keys(..."hello", "\ue007");
  await fileHas(out, (now) => now.endsWith("hello\n"));
  await assertSameScreen(session, (body) => firefox.run(body.replaceAll("window.thinc", "page.thinc")), "in Firefox");
});

const LETTERS = 40;

/** One packet in ten is lost, and the others come in any order; `type` types a letter, or with "\n" ends a line. */
async function typeThroughLoss(session, proxy, out, type, run) {
  // A release that is lost a few times holds its key for long.
  execFileSync("xset", ["r", "off"], { env: session.env });
  let text = "";
  for (let letter = 0; letter < LETTERS; letter += 1) {
    const next = letter % 10 === 9 ? "\n" : String.fromCharCode(97 + (letter % 26));
    text += next;
    await type(next);
    // Each when what came before is there, as a person types.
    await run("await window.thinc.quiet();");
    if (next === "\n") {
      await fileHas(out, (now) => now === text);
      await assertSameScreen(session, run, `after letter ${letter}`);
    }
  }
  const { updates, updatesAlone, updatesLate, transport } = await run("return window.thinc.stats();");
  const words = `${updatesAlone} of ${updates} updates alone, ${updatesLate} late; ${proxy.lost} packets lost`;
  assert.equal(transport, "webtransport");
  assert.ok(updatesAlone > LETTERS / 2 && proxy.lost > 20, words);
  return words;
}

test("where packets are lost, letters come alone, wait for nothing, and the screen is X's", async (t) => {
  const { session, out } = await started(t, { script: ECHO });
  const proxy = await Proxy.before(session.link, { udp: "passes", lost: 0.1 });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  const type = (letter) => page.keyboard.press(letter === "\n" ? "Enter" : letter);
  t.diagnostic(await typeThroughLoss(session, proxy, out, type, inPage(page)));
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText(/\d+, \d+\/s, \d\d+ alone/).waitFor();
  assert.deepEqual(page.problems, []);
});

test("the same in Firefox", async (t) => {
  const { session, out } = await started(t, { script: ECHO });
  const proxy = await Proxy.before(session.link, { udp: "passes", lost: 0.1 });
  t.after(() => proxy.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(proxy.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.goto(new URL("?transport=webtransport", proxy.link).href);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  const type = (letter) => firefox.keys(letter === "\n" ? "\ue007" : letter);
  const run = (body) => firefox.run(body.replaceAll("window.thinc", "page.thinc"));
  t.diagnostic(await typeThroughLoss(session, proxy, out, type, run));
});

test("whichever is there first is taken, and said in the figures", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?");
  const words = { websocket: "WebSocket, by TCP", webtransport: "WebTransport, by QUIC" };
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText(words[await way(page)]).waitFor();
  await typed(page, out, "hello");
  await assertSameScreen(session, inPage(page), "by the first");
  assert.deepEqual(page.problems, []);
});

for (const [what, udp] of [["vanishes", "vanishes"], ["is refused", undefined]]) {
  test(`where UDP ${what} the page comes by WebSocket`, async (t) => {
    const { session, out } = await started(t);
    const proxy = await Proxy.before(session.link, { udp });
    t.after(() => proxy.stop());
    const page = await opened(t, proxy.link, "?");
    assert.equal(await way(page), "websocket");
    if (udp !== undefined) assert.ok(proxy.packets > 0, "it was tried");
    await typed(page, out, "hello");
    await assertSameScreen(session, inPage(page), "by WebSocket");
  });
}

test("a session without QUIC says so, and is reached by WebSocket", async (t) => {
  const { session, out } = await started(t, { more: ["--quic", "off"] });
  const page = await opened(t, session.link, "?");
  assert.equal(await page.evaluate(async () => (await fetch("webtransport")).status), 204);
  assert.equal(await way(page), "websocket");
  await typed(page, out, "hello");
  assert.deepEqual(page.problems, []);
});

test("a killed session process comes back, and so does the page, by WebTransport", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?transport=webtransport");
  await typed(page, out, "before");
  const gone = page.waitForFunction(() => !document.getElementById("state").hidden);
  process.kill(session.pids.session, "SIGKILL");
  await gone;
  await connected(page);
  await typed(page, out, "after");
  assert.equal(await way(page), "webtransport");
  await assertSameScreen(session, inPage(page), "after a new process attached");
});

test("a path of UDP that dies without a word is left, and what was typed into it comes once, over the next", async (t) => {
  const { session, out } = await started(t);
  const proxy = await Proxy.before(session.link, { udp: "passes" });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  await typed(page, out, "abc");
  await page.evaluate(() => window.thinc.quiet());
  proxy.stall();
  await page.keyboard.type("def");
  await page.waitForFunction(() => !document.getElementById("state").hidden);
  await connected(page);
  await typed(page, out, "DEF");
  assert.equal(await fileHas(out, (now) => now), "abc\ndefDEF\n");
  await assertSameScreen(session, inPage(page), "by another path");
});

test("letters go on coming alone after a path that brought nothing back was asked whether it carries", async (t) => {
  const script = 'while read -r line; do echo "$line" >> "$1"; sleep 0.7; seq 30; done';
  const { session, out } = await started(t, { script });
  const proxy = await Proxy.before(session.link, { udp: "passes" });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  await typed(page, out, "abc");
  await page.evaluate(() => window.thinc.quiet());
  proxy.hold();
  // Time for the numbers to be drawn and missed, and for the path to be asked: nobody tells how often.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  proxy.release();
  await page.evaluate(() => window.thinc.quiet());
  const alone = async () => (await page.evaluate(() => window.thinc.stats())).updatesAlone;
  const sofar = await alone();
  for (const letter of "defghijklm") {
    await page.keyboard.press(letter);
    await page.evaluate(() => window.thinc.quiet());
  }
  assert.ok((await alone()) >= sofar + 8, `${sofar}, then ${await alone()} updates alone`);
  await assertSameScreen(session, inPage(page), "after that");
});

test("a page that says in a datagram what may not come so is told, and let go", async (t) => {
  const { session } = await started(t);
  const page = await opened(t, session.link, "?");
  const heard = await page.evaluate(async () => {
    const { certificate, key } = await (await fetch("webtransport")).json();
    const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
    const value = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
    const url = new URL(`webtransport?key=${key}`, location.href).href;
    const other = new WebTransport(url, { serverCertificateHashes: [{ algorithm: "sha-256", value }] });
    await other.ready;
    const { readable, writable } = await other.createBidirectionalStream();
    const writer = writable.getWriter();
    const reader = readable.getReader();
    // HELLO of a viewer that takes updates alone, and a PING.
    await writer.write(Uint8Array.of(0x02, 9, 1, 0x80, 1, 0, 0, 0x80, 0x80, 4, 0));
    await reader.read();
    const { datagrams } = other;
    await (datagrams.createWritable?.() ?? datagrams.writable).getWriter().write(Uint8Array.of(0x05, 1, 7));
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return text;
      text += String.fromCharCode(...value);
    }
  });
  assert.match(heard, /a message that does not come alone$/);
});

test("another site's page, a wrong key and another address are refused", async (t) => {
  const { session } = await started(t);
  const page = await opened(t, session.link, "?");
  const invitation = await page.evaluate(async () => (await fetch("webtransport")).json());
  const other = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<title>other</title>"));
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const stranger = await openTab(browser);
  t.after(() => stranger.context().close());
  await stranger.goto(`http://127.0.0.1:${other.address().port}/`); // which is a secure context here
  const attempt = ({ url, certificate }) => {
    const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
    const value = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
    const session = new WebTransport(url, { serverCertificateHashes: [{ algorithm: "sha-256", value }] });
    session.closed.catch(() => undefined);
    return session.ready.then(() => "ready", () => "refused");
  };
  const url = (file, key) => new URL(`${file}?key=${key}`, new URL("./", session.link)).href;
  const { certificate, key } = invitation;
  const good = { url: url("webtransport", key), certificate };
  assert.equal(await page.evaluate(attempt, good), "ready");
  assert.equal(await stranger.evaluate(attempt, good), "refused");
  await session.logged(/WebTransport refused: this page may not open the session: it is not https/);
  assert.equal(await page.evaluate(attempt, { url: url("webtransport", `${key.slice(0, -4)}AAAA`), certificate }), "refused");
  await session.logged(/WebTransport refused: its key is wrong or too old/);
  assert.equal(await page.evaluate(attempt, { url: url("ws", key), certificate }), "refused");
  await session.logged(/WebTransport refused: there is nothing at this address/);
  assert.equal(await page.evaluate(attempt, { url: good.url, certificate: btoa("x".repeat(32)) }), "refused");
});
