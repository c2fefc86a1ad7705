// A page connects to a real session over WebTransport: Chromium and Firefox, networks without UDP,
// refusals.
// Beside browser.test.mjs, which uses whichever transport opens first.
// Needs what that needs, and firefox-esr.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { Firefox } from "./firefox.mjs";
import { isConnected } from "./opened.mjs";
import { assertSamePixels } from "./png.mjs";
import { LinkProxy } from "./proxy.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests();

const QUIET = 'stty -echo; seq 400; cat -u > "$1"';
const ECHO = 'seq 400; cat -u > "$1"';

/**
 * A session with a terminal full of numbers; its script reads input into `out`, and `ECHO` shows it
 * too.
 */
async function started(t, { script = QUIET, ...options } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
  const out = join(folder, "out");
  const session = await Session.inTerminal(script, out, options);
  t.after(() => session.stop());
  return { session, out };
}

/** Requests the offer as the page does: its status, and what it says. */
const offerTo = (page) =>
  page.evaluate(async () => {
    const headers = { "thinc-origin-secret": localStorage.getItem("thinc secret /") };
    const answer = await fetch("webtransport", { headers });
    return { status: answer.status, ...(answer.status === 200 && (await answer.json())) };
  });
const way = (page) => page.evaluate(async () => (await window.thinc.stats()).transport);

/**
 * A tab with the session's page behind this link; the cookie first, so that `query` counts from the
 * beginning.
 */
async function opened(t, link, query) {
  const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
  t.after(() => page.context().close());
  await page.goto(link);
  await page.waitForFunction(() => window.thinc);
  await page.goto(new URL(query, page.url()).href);
  await isConnected(page);
  return page;
}

async function typed(page, out, text) {
  await page.keyboard.type(text);
  await page.keyboard.press("Enter");
  await fileHas(out, (now) => now.endsWith(`${text}\n`));
}

const HELD = `const { width, height, data } = await window.thinc.pixels();
  let binary = "";
  for (let at = 0; at < data.length; at += 32768)
    binary += String.fromCharCode(...data.subarray(at, at + 32768));
  return { width, height, data: btoa(binary) };`;

/** Stops the applications, and compares the X screen with the viewer's framebuffer. */
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

test("over WebTransport the screen is the X screen, and typed input arrives", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?transport=webtransport");
  assert.equal(await way(page), "webtransport");
  await typed(page, out, "hello");
  await assertSameScreen(session, inPage(page), "by WebTransport");
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText("WebTransport over QUIC").waitFor();
  await session.logged(/\(browser, WebTransport\): connected/);
  assert.deepEqual(page.problems, []);
});

test("likewise in Firefox", async (t) => {
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
  await assertSameScreen(
    session,
    (body) => firefox.run(body.replaceAll("window.thinc", "page.thinc")),
    "in Firefox",
  );
});

const CHARACTERS = 40;

/**
 * One packet in ten is lost, and the others are reordered; `type` types a character, or ends a line
 * with "\n".
 */
async function typeThroughLoss(session, proxy, out, type, run) {
  // A release that is lost repeatedly would hold its key for long.
  execFileSync("xset", ["r", "off"], { env: session.env });
  let text = "";
  for (let i = 0; i < CHARACTERS; i += 1) {
    const next = i % 10 === 9 ? "\n" : String.fromCharCode(97 + (i % 26));
    text += next;
    await type(next);
    // Each after the echo of the one before, as a user types.
    await run("await window.thinc.quiet();");
    if (next === "\n") {
      await fileHas(out, (now) => now === text);
      await assertSameScreen(session, run, `after character ${i}`);
    }
  }
  const { updates, datagramUpdates, lateUpdates, transport } = await run(
    "return window.thinc.stats();",
  );
  const words =
    `${datagramUpdates} of ${updates} updates as datagrams, ${lateUpdates} late; ` +
    `${proxy.lost} packets lost`;
  assert.equal(transport, "webtransport");
  assert.ok(datagramUpdates > CHARACTERS / 2 && proxy.lost > 20, words);
  return words;
}

test("despite packet loss echoes arrive as datagrams, and the screen is X's", async (t) => {
  const { session, out } = await started(t, { script: ECHO });
  const proxy = await LinkProxy.before(session.link, { udp: "passes", lost: 0.1 });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  const type = (key) => page.keyboard.press(key === "\n" ? "Enter" : key);
  t.diagnostic(await typeThroughLoss(session, proxy, out, type, inPage(page)));
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText(/\d+, \d+\/s, \d\d+ as datagrams/).waitFor();
  assert.deepEqual(page.problems, []);
});

test("likewise in Firefox with packet loss", async (t) => {
  const { session, out } = await started(t, { script: ECHO });
  const proxy = await LinkProxy.before(session.link, { udp: "passes", lost: 0.1 });
  t.after(() => proxy.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(proxy.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.goto(new URL("?transport=webtransport", proxy.link).href);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  const type = (key) => firefox.keys(key === "\n" ? "\ue007" : key);
  const run = (body) => firefox.run(body.replaceAll("window.thinc", "page.thinc"));
  t.diagnostic(await typeThroughLoss(session, proxy, out, type, run));
});

test("the transport that opens first is used, and shown in the statistics", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?");
  const words = { websocket: "WebSocket over TCP", webtransport: "WebTransport over QUIC" };
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText(words[await way(page)]).waitFor();
  await typed(page, out, "hello");
  await assertSameScreen(session, inPage(page), "over the first transport");
  assert.deepEqual(page.problems, []);
});

for (const [what, udp] of [
  ["vanishes", "vanishes"],
  ["is refused", undefined],
]) {
  test(`if UDP ${what} the page connects over a WebSocket`, async (t) => {
    const { session, out } = await started(t);
    const proxy = await LinkProxy.before(session.link, { udp });
    t.after(() => proxy.stop());
    const page = await opened(t, proxy.link, "?");
    assert.equal(await way(page), "websocket");
    if (udp !== undefined) assert.ok(proxy.packets > 0, "UDP was tried");
    await typed(page, out, "hello");
    await assertSameScreen(session, inPage(page), "by WebSocket");
  });
}

/** A page that uses a WebSocket because UDP did not pass; now it may, and the path is long. */
async function onLongWebSocket(t, query = "?") {
  const { session, out } = await started(t);
  const proxy = await LinkProxy.before(session.link, { udp: "vanishes" });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, query);
  assert.equal(await way(page), "websocket");
  return { session, out, proxy, page };
}

/** Types words until this accepts the page's statistics; all that was typed. */
async function typeUntil(page, accepts) {
  for (let words = "", number = 0; ; number += 1) {
    const stats = await page.evaluate(() => window.thinc.stats());
    if (accepts(stats)) return { words, stats };
    const word = `${number}-`;
    await page.keyboard.type(word);
    words += word;
  }
}

test("a page whose path became long moves to WebTransport, and keys arrive once", async (t) => {
  const { session, out, proxy, page } = await onLongWebSocket(t);
  const canvas = await page.locator("#screen").elementHandle();
  await page.evaluate(() => {
    window.told = [];
    const state = document.getElementById("state");
    new MutationObserver(() => {
      if (!state.hidden) window.told.push(document.getElementById("state-title").textContent);
    }).observe(state, { attributes: true });
  });
  proxy.udpFate = "passes";
  proxy.tcpDelayMs = 33;
  const { words, stats } = await typeUntil(page, (now) => now.transport === "webtransport");
  assert.match(stats.transportReason, /^the round trip grew to \d+\.\d ms$/);
  await page.keyboard.type("end");
  await page.keyboard.press("Enter");
  assert.equal(await fileHas(out, (now) => now.endsWith("end\n") && now), `${words}end\n`);
  assert.equal(await page.evaluate((node) => node.isConnected, canvas), true, "the same canvas");
  // A key that waits 170 ms on a busy machine is "No answer"; the replacement itself says nothing.
  const told = await page.evaluate(() => window.told);
  assert.deepEqual(
    told.filter((title) => title !== "No answer"),
    [],
  );
  await assertSameScreen(session, inPage(page), "over WebTransport");
  await page.keyboard.press("Control+Alt+KeyS");
  await page.getByText("WebTransport over QUIC, since the round trip grew").waitFor();
  assert.deepEqual(page.problems, []);
});

test("a page that is to use a WebSocket stays there", async (t) => {
  const { out, proxy, page } = await onLongWebSocket(t, "?transport=websocket");
  proxy.udpFate = "passes";
  proxy.tcpDelayMs = 33;
  const seen = new Set();
  const { words } = await typeUntil(page, ({ rttUs }) => {
    if (rttUs > 60_000) seen.add(rttUs);
    return seen.size >= 8;
  });
  assert.equal(await way(page), "websocket");
  await page.keyboard.type("end");
  await page.keyboard.press("Enter");
  assert.equal(await fileHas(out, (now) => now.endsWith("end\n") && now), `${words}end\n`);
});

test("a session without QUIC offers none, and is reached over a WebSocket", async (t) => {
  const { session, out } = await started(t, { more: ["--quic", "off"] });
  const page = await opened(t, session.link, "?");
  assert.equal((await offerTo(page)).status, 204);
  assert.equal(await way(page), "websocket");
  await typed(page, out, "hello");
  assert.deepEqual(page.problems, []);
});

test("after a session process was killed the page reconnects over WebTransport", async (t) => {
  const { session, out } = await started(t);
  const page = await opened(t, session.link, "?transport=webtransport");
  await typed(page, out, "before");
  const gone = page.waitForFunction(() => !document.getElementById("state").hidden);
  process.kill(session.pids.session, "SIGKILL");
  await gone;
  await isConnected(page);
  await typed(page, out, "after");
  assert.equal(await way(page), "webtransport");
  await assertSameScreen(session, inPage(page), "after a new process attached");
});

test("input sent over a dead UDP path arrives once, over the next connection", async (t) => {
  const { session, out } = await started(t);
  const proxy = await LinkProxy.before(session.link, { udp: "passes" });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  await typed(page, out, "abc");
  await page.evaluate(() => window.thinc.quiet());
  proxy.stall();
  await page.keyboard.type("def");
  await page.waitForFunction(() => !document.getElementById("state").hidden);
  await isConnected(page);
  await typed(page, out, "DEF");
  assert.equal(await fileHas(out, (now) => now), "abc\ndefDEF\n");
  await assertSameScreen(session, inPage(page), "over another path");
});

test("echoes arrive as datagrams again after a path without replies was probed", async (t) => {
  const script = 'while read -r line; do echo "$line" >> "$1"; sleep 0.7; seq 30; done';
  const { session, out } = await started(t, { script });
  const proxy = await LinkProxy.before(session.link, { udp: "passes" });
  t.after(() => proxy.stop());
  const page = await opened(t, proxy.link, "?transport=webtransport");
  await typed(page, out, "abc");
  await page.evaluate(() => window.thinc.quiet());
  proxy.hold();
  // Time for losses of the numbers, and for probes of the path; no event tells their number.
  await new Promise((resolve) => setTimeout(resolve, 1300));
  proxy.release();
  await page.evaluate(() => window.thinc.quiet());
  const datagrams = async () => (await page.evaluate(() => window.thinc.stats())).datagramUpdates;
  const sofar = await datagrams();
  for (const key of "defghijklm") {
    await page.keyboard.press(key);
    await page.evaluate(() => window.thinc.quiet());
  }
  assert.ok(
    (await datagrams()) >= sofar + 8,
    `${sofar}, then ${await datagrams()} datagram updates`,
  );
  await assertSameScreen(session, inPage(page), "after that");
});

test("a page that is left is no viewer any more, long before QUIC's time-out", async (t) => {
  const { session } = await started(t);
  const page = await opened(t, session.link, "?transport=webtransport");
  assert.equal(await way(page), "webtransport");
  const viewers = () => JSON.parse(session.share(["--list", "--json"])).viewers.length;
  assert.equal(viewers(), 1);
  const left = Date.now();
  // QUIC gives up after 30 s; a machine that runs other tests takes seconds to start a program.
  await page.goto("about:blank");
  while (viewers() > 0) assert.ok(Date.now() < left + 25_000, "the session still shows it");

  // Without the page's secret nobody ends it.
  await page.goBack();
  await isConnected(page);
  const status = await page.evaluate(async () => {
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ page: "AAAAAAAAAAAAAAAAAAAAAA" });
    return (await fetch("left", { method: "POST", headers, body })).status;
  });
  assert.equal(status, 401);
  assert.equal(viewers(), 1);
});

test("a page that sends a forbidden message in a datagram is closed", async (t) => {
  const { session } = await started(t);
  const page = await opened(t, session.link, "?");
  const reason = await page.evaluate(
    async ({ certificate, key }) => {
      const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
      const value = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
      const url = new URL(`webtransport?key=${key}`, location.href).href;
      const other = new WebTransport(url, {
        serverCertificateHashes: [{ algorithm: "sha-256", value }],
      });
      await other.ready;
      const { readable, writable } = await other.createBidirectionalStream();
      const writer = writable.getWriter();
      const reader = readable.getReader();
      // HELLO of a viewer that accepts datagram updates, and a PING.
      await writer.write(Uint8Array.of(0x02, 9, 1, 0x80, 1, 0, 0, 0x80, 0x80, 4, 0));
      await reader.read();
      const { datagrams } = other;
      await (datagrams.createWritable?.() ?? datagrams.writable)
        .getWriter()
        .write(Uint8Array.of(0x05, 1, 7));
      let text = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return text;
        text += String.fromCharCode(...value);
      }
    },
    await offerTo(page),
  );
  assert.match(reason, /a message that must not be a datagram$/);
});

test("a foreign page, a wrong key and another address are refused", async (t) => {
  const { session } = await started(t);
  const page = await opened(t, session.link, "?");
  const invitation = await offerTo(page);
  const bare = () => page.evaluate(async () => (await fetch("webtransport")).status);
  assert.equal(await bare(), 401, "the cookie alone gets no key");
  const other = createServer((_, answer) =>
    answer.setHeader("content-type", "text/html").end("<title>other</title>"),
  );
  other.listen(0, "127.0.0.1");
  await once(other, "listening");
  t.after(() => other.close());
  const stranger = await openTab(browser);
  t.after(() => stranger.context().close());
  // a secure context
  await stranger.goto(`http://127.0.0.1:${other.address().port}/`);
  const attempt = ({ url, certificate }) => {
    const bytes = atob(certificate.replaceAll("-", "+").replaceAll("_", "/"));
    const value = Uint8Array.from(bytes, (character) => character.charCodeAt(0));
    const session = new WebTransport(url, {
      serverCertificateHashes: [{ algorithm: "sha-256", value }],
    });
    session.closed.catch(() => undefined);
    return session.ready.then(
      () => "ready",
      () => "refused",
    );
  };
  const url = (file, key) => new URL(`${file}?key=${key}`, new URL("./", session.link)).href;
  const { certificate, key } = invitation;
  const good = { url: url("webtransport", key), certificate };
  assert.equal(await page.evaluate(attempt, good), "ready");
  assert.equal(await stranger.evaluate(attempt, good), "refused");
  await session.logged(/WebTransport refused: this page may not open the session: it is not https/);
  assert.equal(
    await page.evaluate(attempt, {
      url: url("webtransport", `${key.slice(0, -4)}AAAA`),
      certificate,
    }),
    "refused",
  );
  await session.logged(/WebTransport refused: its key is wrong or has expired/);
  assert.equal(await page.evaluate(attempt, { url: url("ws", key), certificate }), "refused");
  await session.logged(/WebTransport refused: there is nothing at this address/);
  assert.equal(
    await page.evaluate(attempt, { url: good.url, certificate: btoa("x".repeat(32)) }),
    "refused",
  );
});
