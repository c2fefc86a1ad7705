// Firefox opens a real session's link: what is typed arrives, and every byte of the screen is shown.
// The whole path in the other engine; the details are with Chromium in browser.test.mjs.
// Needs what that needs, and firefox-esr.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { draw, FakeSession, say } from "./fake-session.mjs";
import { Firefox } from "./firefox.mjs";
import { coded, colorOf, plain, sampleOf, SIZE } from "./pictures.mjs";
import { assertSamePixels, readPng } from "./png.mjs";
import { fileHas, Session } from "./session.mjs";

const [SHIFT, ENTER] = ["\ue008", "\ue007"];

test("typing and pixels in Firefox", { timeout: 150_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "out");
  const session = await Session.start(["xterm", "-u8", "-b", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", 'cat > "$1"', "sh", out]);
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());

  await firefox.goto(session.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  assert.ok(!(await firefox.run(`return location.href;`)).includes("#"), "the token left the address bar");
  await firefox.run(`await page.thinc.quiet();`);

  await firefox.keys(..."hello, ", ...[..."WORLD!?"].map((character) => SHIFT + character), ..." é€漢", ENTER);
  const text = "hello, WORLD!? é€漢\n";
  assert.equal(await fileHas(out, (now) => now.length >= text.length && now), text);
  await firefox.waitFor(`return (await page.thinc.stats()).photonUs.length > 0;`);
  await firefox.waitFor(`return getComputedStyle(document.getElementById("menu")).visibility === "hidden";`);

  session.signalCommand("SIGSTOP");
  await firefox.run(`await page.thinc.quiet();`);
  const x = session.screen();
  const held = await firefox.run(`
    const { width, height, data } = await page.thinc.pixels();
    let binary = "";
    for (let at = 0; at < data.length; at += 32768) binary += String.fromCharCode(...data.subarray(at, at + 32768));
    return { width, height, data: btoa(binary) };`);
  assertSamePixels({ ...held, data: Buffer.from(held.data, "base64") }, x, "viewer and X");
  assertSamePixels(readPng(await firefox.screenshot()), x, "tab and X");
  session.signalCommand("SIGCONT");
});

test("fingers in Firefox, and a session process that is killed while somebody types", { timeout: 150_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "out");
  const script = 'stty raw -echo; printf "\\033[?1002h\\033[?1006h\\033[6n"; cat -u > "$1"';
  const session = await Session.start(["xterm", "-u8", "-b", "0", "-bw", "0", "-geometry", "80x24+0+0", "-e", "sh", "-c", script, "sh", out]);
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  const connected = () => firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  const said = (...wanted) => fileHas(out, (now) => wanted.every((one) => now.includes(one)));
  await firefox.goto(session.link);
  await connected();
  await firefox.run(`await page.thinc.quiet();`);
  await said("\x1b[1;1R");

  // In characters of 6 by 13 pixels.
  const place = (column, row) => [Math.round((column - 0.5) * 6), Math.round((row - 0.5) * 13)];
  const ratio = await firefox.run(`return window.devicePixelRatio;`);
  assert.equal(ratio, 1);
  await firefox.finger(place(10, 5), "down", "up");
  await said("\x1b[<0;10;5M\x1b[<0;10;5m");
  await firefox.finger(place(20, 6), "down", 700, "up");
  await said("\x1b[<2;20;6M\x1b[<2;20;6m");
  await firefox.finger(place(20, 10), "down", place(24, 10), place(30, 10), "up");
  await said("\x1b[<0;20;10M", "\x1b[<32;30;10M", "\x1b[<0;30;10m");
  // Several fingers, as the page hears of them.
  const fingers = (...steps) =>
    firefox.run(
      `const stage = page.document.getElementById("stage");
      stage.setPointerCapture = () => undefined; // there is no such pointer to capture
      for (const [type, ...places] of args[0]) {
        places.forEach(([clientX, clientY], i) => stage.dispatchEvent(new window.PointerEvent(type,
          { pointerId: 100 + i, pointerType: "touch", clientX, clientY, bubbles: true, cancelable: true })));
      }`,
      steps,
    );
  const three = [place(40, 8), place(44, 8), place(48, 8)];
  await fingers(["pointerdown", ...three], ["pointerup", ...three]);
  await said("\x1b[<1;44;8M\x1b[<1;44;8m");
  const [x, y] = place(30, 20);
  const two = (by) => [[x - 30, y - by], [x + 30, y - by]];
  const moves = [20, 40, 60, 80, 100, 120].map((by) => ["pointermove", ...two(by)]);
  await fingers(["pointerdown", ...two(0)], ...moves, ["pointerup", ...two(120)]);
  await said("\x1b[<65;30;20M");

  await firefox.keys("a", "b");
  await fileHas(out, (now) => now.endsWith("ab"));
  // Watched from before it, for it may be over soon.
  await firefox.run(`
    const state = document.getElementById("state");
    new window.MutationObserver(() => state.hidden || (document.body.dataset.trouble = "said")).observe(state, { attributes: true });`);
  process.kill(session.pids.session, "SIGKILL");
  await firefox.waitFor(`return document.body.dataset.trouble === "said";`);
  await connected();
  await firefox.keys("c", "d");
  await fileHas(out, (now) => now.endsWith("abcd"));
});

test("a video in Firefox: what it does not give as samples is not claimed, and plain pictures play", { timeout: 150_000 }, async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link());
  const viewer = await session.viewer(0);
  const { caps } = await viewer.heard((m) => m.kind === "hello");
  const [PLAIN, H264] = [32, 64];
  assert.equal(caps & PLAIN, PLAIN);
  const place = { x: 20, y: 30, width: 192, height: 128 };
  let seq = 0;
  const update = (...commands) => viewer.send(say.update((seq += 1), 1, commands));
  viewer.send(say.hello("cinema"), say.geometry(1, 400, 300));
  update(draw.fill(0, 0, 400, 300, 0), draw.videoInit(0, caps & H264 ? 1 : 0, SIZE, { x: 0, y: 0, ...SIZE }, place));
  await viewer.heard((m) => m.kind === "video" && m.state === "ready");
  const shown = () =>
    firefox.run(
      `await page.thinc.quiet();
      const { width, data } = await page.thinc.pixels();
      return args[0].map(([x, y]) => Array.from(data.subarray((y * width + x) * 4, (y * width + x) * 4 + 3)));`,
      PLACES,
    );
  // In the middle of its quarters.
  const PLACES = [[68, 62], [164, 62], [68, 126], [164, 126]];
  const wanted = (number) => PLACES.map(([x, y]) => colorOf(sampleOf(number, (x - 20) / 3, (y - 30) / 2)));
  for (const number of [0, 7, 15]) {
    update(draw.videoPlain(0, number * 33_333, [place], plain(number)));
    assert.deepEqual(await shown(), wanted(number));
  }
  // Where a later Firefox can, it does.
  if (caps & H264) {
    update(draw.videoCoded(0, 600_000, [place], true, coded[8].data));
    const found = (await shown()).flat();
    assert.ok(wanted(8).flat().every((channel, i) => Math.abs(channel - found[i]) <= 2), String(found));
  }
});

test("a page that is loaded again in Firefox says what it showed", { timeout: 150_000 }, async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link());
  const first = await session.viewer(0);
  first.send(say.hello("shown"), say.geometry(1, 400, 300), say.update(1, 1, [draw.fill(0, 0, 400, 300, 0x336699)]));
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.run(`await page.thinc.quiet(); await page.thinc.kept();`);
  await firefox.goto(session.url);
  const second = await session.viewer(1);
  const { tiles } = await second.heard((m) => m.kind === "held");
  assert.ok(tiles.every((hash) => hash !== "0".repeat(16)));
  const [before, after] = [first, second].map(({ said }) => said.find((m) => m.kind === "instance").number);
  assert.equal(after, before);
});
