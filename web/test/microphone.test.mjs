// The microphone on the page: opened only when a program records and the person agrees, marked as
// long as it is open, closed at once; and what a program of a real session records of it.
// Beside sound.test.mjs. Needs web/dist (./dev build web), Chromium, Firefox, whose microphones are
// the browsers' own test tones, and pulseaudio-utils.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test as nodeTest } from "node:test";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { Firefox } from "./firefox.mjs";
import { openPage, says } from "./opened.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000 }, body);

const browser = chromiumForTests(
  "--use-fake-device-for-media-stream",
  "--use-fake-ui-for-media-stream",
);

/** Bits of both hellos. */
const [GIVES, WANTS] = [1 << 22, 1 << 5];
const ASKED = "#microphone-question";
const MARK = "#microphone";

async function opened(t, options = {}) {
  const { page, viewer } = await openPage(t, browser, options);
  const hello = await viewer.receive((m) => m.kind === "hello");
  viewer.send(message.hello("talk", WANTS), message.geometry(1, 400, 300));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, 400, 300, 0x203040)]));
  await page.evaluate(() => window.thinc.quiet());
  return { page, viewer, hello };
}

/** Answers once the question takes answers. */
async function agree(page) {
  await page.locator("#microphone-allow:enabled").waitFor();
  await page.keyboard.press("Control+Alt+y");
}

/** In the page: keeps what it opens, can fail to, and answers a question as it appears. */
function observe() {
  window.streams = [];
  const devices = navigator.mediaDevices;
  const getUserMedia = devices.getUserMedia.bind(devices);
  devices.getUserMedia = async (constraints) => {
    const stream = await getUserMedia(constraints);
    window.streams.push(stream);
    return stream;
  };
  window.AudioContext = class extends AudioContext {
    constructor(options) {
      if (window.broken) throw new DOMException("no audio here", "NotSupportedError");
      super(options);
    }
  };
  window.Worker = class extends Worker {
    constructor(...options) {
      super(...options);
      window.engine = this;
    }
  };
  window.answerAtOnce = () => {
    const question = document.getElementById("microphone-question");
    window.answers = 0;
    new MutationObserver(() => {
      if (question.hidden) return;
      window.answers += 1;
      const keys = { code: "KeyY", key: "y", ctrlKey: true, altKey: true, bubbles: true };
      document.getElementById("keys").dispatchEvent(new KeyboardEvent("keydown", keys));
      document.getElementById("microphone-allow").click();
    }).observe(question, { attributeFilter: ["hidden"] });
  };
}

/** How often it was opened, and how many tracks are live. */
const opens = (page) =>
  page.evaluate(() => [
    window.streams.length,
    window.streams.flatMap((s) => s.getTracks()).filter((t) => t.readyState === "live").length,
  ]);
const stateOf = (viewer, generation, given) =>
  viewer.receive(
    (m) => m.kind === "microphoneState" && m.generation === generation && m.given === given,
  );

const states = (viewer) => viewer.received.filter((m) => m.kind === "microphoneState");
const packets = (viewer) => viewer.received.filter((m) => m.kind === "microphone");

test("the microphone is open while a program records, and a mark says so", async (t) => {
  const { page, viewer, hello } = await opened(t);
  assert.ok(hello.caps & GIVES, "the page announces that it may give a microphone");
  assert.ok(await page.locator(ASKED).isHidden());
  viewer.send(message.microphoneWant(1, true));
  await page.locator(ASKED).waitFor();
  assert.deepEqual([states(viewer), packets(viewer)], [[], []], "nobody has agreed");
  await agree(page);
  await page.locator(MARK).waitFor();
  await viewer.receive((m) => m.kind === "microphoneState" && m.generation === 1 && m.given);
  await viewer.receive((m) => m.kind === "microphone" && m.sequence >= 100);
  const [first, ...rest] = packets(viewer);
  assert.deepEqual([first.generation, first.sequence], [1, 0]);
  let before = first;
  for (const packet of rest) {
    // Chromium rounds.
    const later = (packet.sequence - before.sequence) * 10_000;
    assert.ok(Math.abs(packet.timeUs - before.timeUs - later) <= 2, `${packet.timeUs}`);
    before = packet;
  }
  assert.ok(rest.every(({ lengths }) => lengths[0] < 300));

  // Nobody records: it is closed without a question. The next program gets it without one, too.
  viewer.send(message.microphoneWant(2, false));
  await page.locator(MARK).waitFor({ state: "hidden" });
  viewer.send(message.microphoneWant(3, true));
  await page.locator(MARK).waitFor();
  await viewer.receive((m) => m.kind === "microphone" && m.generation === 3 && m.sequence > 10);
  assert.ok(await page.locator(ASKED).isHidden());

  // The person stops it.
  await page.locator("#microphone-stop").click();
  await page.locator(MARK).waitFor({ state: "hidden" });
  await viewer.receive((m) => m.kind === "microphoneState" && m.generation === 3 && !m.given);
  viewer.send(message.microphoneWant(4, false));
  // The page has taken that: its barrier is answered after it.
  await page.evaluate(() => window.thinc.quiet());
  await page.keyboard.press("Control+Alt+k");
  await viewer.receive((m) => m.kind === "microphoneState" && m.generation === 4 && m.given);
  assert.ok(packets(viewer).every(({ generation }) => generation !== 4));
  assert.deepEqual(page.problems, []);
});

test("who does not agree sends nothing, and is told what is missing", async (t) => {
  const { page, viewer } = await opened(t);
  viewer.send(message.microphoneWant(1, true));
  await page.locator("#microphone-refuse").click();
  await viewer.receive((m) => m.kind === "microphoneState" && !m.given);
  assert.ok(await page.locator(MARK).isHidden());
  assert.deepEqual(packets(viewer), []);
  await says(page, "Microphone: off — by you, whatever records");
  const part = page.getByRole("region", { name: "Microphone" });
  await page.keyboard.press("Control+Alt+m");
  await page.locator("#entry-microphone").click();
  await part.getByText("Webcams are not supported").waitFor();

  const remove = () => delete window.AudioEncoder;
  const without = await opened(t, { script: remove });
  assert.equal(without.hello.caps & GIVES, 0);
  const lacks = "this browser cannot: it cannot code sound (AudioEncoder)";
  await says(without.page, `Microphone: off — ${lacks}`);
  const off = await opened(t, { query: "?microphone=off" });
  assert.equal(off.hello.caps & GIVES, 0);
  await says(off.page, "Microphone: off — by this page's address (?microphone)");
  await off.page.keyboard.press("Control+Alt+m");
  await off.page.locator("#entry-microphone").click();
  assert.ok(await off.page.locator("#menu-microphone").isHidden());
});

test("no question is answered by chance, and one is asked at a time", async (t) => {
  const { page, viewer } = await opened(t, { script: observe });
  viewer.send(message.fileOffer(1, [["notes", 5]]));
  await page.locator("#files-refuse:enabled").waitFor();
  viewer.send(message.microphoneWant(1, true));
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(await page.locator(ASKED).isHidden(), "it waits for the other question");
  await page.evaluate(() => window.answerAtOnce());
  await page.keyboard.press("Control+Alt+x");
  await viewer.receive((m) => m.kind === "fileAnswer" && m.id === 1 && m.answer === 0);
  await page.locator("#microphone-allow:enabled").waitFor();
  assert.equal(await page.evaluate(() => window.answers), 1);
  assert.ok(await page.locator(ASKED).isVisible());
  assert.match(await page.locator(ASKED).textContent(), /record, now or later,.*Ctrl\+Alt\+K/);
  assert.deepEqual([states(viewer), await opens(page)], [[], [0, 0]]);

  viewer.send(message.fileOffer(2, [["other", 5]]));
  await page.evaluate(() => window.thinc.quiet());
  assert.ok(await page.locator("#files-question").isHidden());
  await page.keyboard.press("Control+Alt+y");
  await stateOf(viewer, 1, true);
  await page.locator("#files-refuse:enabled").click();
  await viewer.receive((m) => m.kind === "fileAnswer" && m.id === 2 && m.answer === 0);
  assert.deepEqual(page.problems, []);
});

for (const how of ["key", "button"])
  test(`the ${how} that turns it off refuses while the question is shown`, async (t) => {
    const { page, viewer } = await opened(t, { script: observe });
    viewer.send(message.microphoneWant(1, true));
    await page.locator(ASKED).waitFor();
    if (how === "key") await page.keyboard.press("Control+Alt+k");
    else await page.evaluate(() => document.getElementById("menu-microphone").click());
    await stateOf(viewer, 1, false);
    assert.ok(await page.locator(ASKED).isHidden());
    assert.deepEqual(await opens(page), [0, 0]);
    const pressed = await page.locator("#menu-microphone").getAttribute("aria-pressed");
    assert.equal(pressed, "true", "it stays off");
  });

test("it is closed when the engine fails, and stays closed", async (t) => {
  const { page, viewer } = await opened(t, { script: observe });
  viewer.send(message.microphoneWant(1, true));
  await agree(page);
  await stateOf(viewer, 1, true);
  assert.deepEqual(await opens(page), [1, 1]);
  await page.evaluate(() =>
    window.engine.dispatchEvent(new ErrorEvent("error", { message: "of a test" })),
  );
  assert.ok(await page.locator(MARK).isHidden());
  assert.deepEqual(await opens(page), [1, 0]);
  // No later program opens it: the engine is gone, and its connection.
  if (!viewer.socket.destroyed) await once(viewer.socket, "close");
  assert.ok(await page.locator(MARK).isHidden());
  assert.deepEqual(await opens(page), [1, 0]);
});

test("a microphone that is lost is told of, and can be opened again", async (t) => {
  const { page, viewer } = await opened(t, { script: observe });
  viewer.send(message.microphoneWant(1, true));
  await agree(page);
  await stateOf(viewer, 1, true);
  await page.evaluate(() => window.streams[0].getTracks()[0].dispatchEvent(new Event("ended")));
  await stateOf(viewer, 1, false);
  assert.ok(await page.locator(MARK).isHidden());
  assert.deepEqual(await opens(page), [1, 0]);
  assert.match(await page.locator("#notice").textContent(), /has closed the microphone/);
  viewer.send(message.microphoneWant(2, false));
  await page.evaluate(() => window.thinc.quiet());
  await page.keyboard.press("Control+Alt+k");
  await stateOf(viewer, 2, true);
  viewer.send(message.microphoneWant(3, true));
  await stateOf(viewer, 3, true);
  assert.deepEqual(await opens(page), [2, 1]);
  assert.deepEqual(page.problems, []);
});

test("a browser without audio answers that it gives none", async (t) => {
  const { page, viewer } = await opened(t, { script: observe });
  await page.evaluate(() => (window.broken = true));
  viewer.send(message.microphoneWant(1, true));
  await agree(page);
  await stateOf(viewer, 1, false);
  assert.match(await page.locator("#notice").textContent(), /no microphone: no audio here/);
  assert.deepEqual(await opens(page), [0, 0]);
  await page.evaluate(() => (window.broken = false));
  await page.keyboard.press("Control+Alt+k");
  await stateOf(viewer, 1, true);
  assert.deepEqual(page.problems, []);
});

/** A session in which a program records; with its file. */
async function recording(t) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
  const file = join(folder, "recorded");
  const record = "exec parec --raw --format=s16le --rate=48000 --channels=1 --latency-msec=20";
  const session = await Session.start(["sh", "-c", `${record} > "$1"`, "sh", file]);
  t.after(() => session.stop());
  return { session, file };
}

/** Waits until a tenth of a second of what was recorded is loud. */
async function isHeard(file) {
  await fileHas(file, () => {
    const bytes = readFileSync(file);
    let loud = 0;
    for (let at = 0; at + 1 < bytes.length; at += 2)
      if (Math.abs(bytes.readInt16LE(at)) > 300) loud += 1;
    return loud > 4_800;
  });
}

test("a program of a session records what Chromium's microphone hears", async (t) => {
  const { session, file } = await recording(t);
  const page = await openTab(browser);
  t.after(() => page.context().close());
  await page.goto(session.link.replace("#", "?microphone=on#"));
  await page.locator(MARK).waitFor();
  await isHeard(file);
  assert.deepEqual(page.problems, []);
});

test("a program of a session records what Firefox's microphone hears", async (t) => {
  const { session, file } = await recording(t);
  // Firefox runs no audio without a device that plays it: another session's.
  const device = join(mkdtempSync(join(tmpdir(), "thinc-web-out-")), "server");
  t.after(() => removeFolder(dirname(device)));
  const tell = 'printf "%s" "$PULSE_SERVER" > "$1.new"; mv "$1.new" "$1"; exec sleep infinity';
  const other = await Session.start(["sh", "-c", tell, "sh", device]);
  t.after(() => other.stop());
  const firefox = await Firefox.start({ PULSE_SERVER: await fileHas(device, (text) => text) });
  t.after(() => firefox.stop());
  await firefox.goto(session.link.replace("#", "?microphone=on#"));
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  // A key, for the browser's rule that audio begins with one.
  await firefox.keys("a");
  await firefox.waitFor(`return !page.document.getElementById("microphone").hidden;`);
  await isHeard(file);
});

test("a Firefox whose audio does not start says so", async (t) => {
  const { session } = await recording(t);
  const firefox = await Firefox.start({ PULSE_SERVER: "unix:/nonexistent" });
  t.after(() => firefox.stop());
  await firefox.goto(session.link.replace("#", "?microphone=on#"));
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.keys("a");
  const words = await firefox.waitFor(
    `return /gets no microphone.*/.exec(page.document.getElementById("notice").textContent)?.[0];`,
  );
  assert.match(words, /its audio does not start. Is there a device that plays sound\?/);
  await firefox.waitFor(`return page.document.getElementById("microphone").hidden;`);
});
