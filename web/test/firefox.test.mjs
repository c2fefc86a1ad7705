// Firefox opens a real session's link: typed input arrives, and every byte of the screen is shown.
// The whole path in the other engine; details are with Chromium in browser.test.mjs.
// Needs what that needs, and firefox-esr.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { removeFolder } from "./child.mjs";
import { draw, FakeSession, message } from "./fake-session.mjs";
import { Firefox } from "./firefox.mjs";
import { dispatch, modifierCases, PLATFORMS, received } from "./modifiers.mjs";
import { coded, colorOf, plain, SIZE, sampleOf } from "./pictures.mjs";
import { assertSamePixels, readPng } from "./png.mjs";
import { fileHas, Session } from "./session.mjs";

const [SHIFT, ENTER] = ["\ue008", "\ue007"];

test("typing and pixels in Firefox", { timeout: 240_000 }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
  const out = join(folder, "out");
  const session = await Session.inTerminal('cat > "$1"', out);
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());

  await firefox.goto(session.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  assert.ok(
    !(await firefox.run(`return location.href;`)).includes("#"),
    "the token left the address bar",
  );
  await firefox.run(`await page.thinc.quiet();`);

  await firefox.keys(
    ..."hello, ",
    ...[..."WORLD!?"].map((character) => SHIFT + character),
    ..." é€漢",
    ENTER,
  );
  const text = "hello, WORLD!? é€漢\n";
  assert.equal(await fileHas(out, (now) => now.length >= text.length && now), text);
  await firefox.waitFor(`return (await page.thinc.stats()).inputToPresentUs.length > 0;`);
  await firefox.waitFor(
    `return getComputedStyle(document.getElementById("menu")).visibility === "hidden";`,
  );

  session.signalCommand("SIGSTOP");
  await firefox.run(`await page.thinc.quiet();`);
  const x = session.screen();
  const held = await firefox.run(`
    const { width, height, data } = await page.thinc.pixels();
    let binary = "";
    for (let at = 0; at < data.length; at += 32768)
      binary += String.fromCharCode(...data.subarray(at, at + 32768));
    return { width, height, data: btoa(binary) };`);
  assertSamePixels({ ...held, data: Buffer.from(held.data, "base64") }, x, "viewer and X");
  assertSamePixels(readPng(await firefox.screenshot()), x, "tab and X");
  session.signalCommand("SIGCONT");
});

test("touches in Firefox, and a session process that is killed during typing", {
  timeout: 240_000,
}, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
  const out = join(folder, "out");
  const script = 'stty raw -echo; printf "\\033[?1002h\\033[?1006h\\033[6n"; cat -u > "$1"';
  const session = await Session.inTerminal(script, out);
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  const connected = () =>
    firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  const outputHas = (...wanted) => fileHas(out, (now) => wanted.every((one) => now.includes(one)));
  await firefox.goto(session.link);
  await connected();
  await firefox.run(`await page.thinc.quiet();`);
  await outputHas("\x1b[1;1R");

  // The menu is shown for a while, over the upper lines.
  await firefox.waitFor(
    `return window.getComputedStyle(page.document.getElementById("menu")).visibility === "hidden";`,
  );

  // In characters of 6 by 13 pixels.
  const place = (column, row) => [Math.round((column - 0.5) * 6), Math.round((row - 0.5) * 13)];
  const ratio = await firefox.run(`return window.devicePixelRatio;`);
  assert.equal(ratio, 1);
  await firefox.finger(place(10, 5), "down", "up");
  await outputHas("\x1b[<0;10;5M\x1b[<0;10;5m");
  await firefox.finger(place(20, 6), "down", 700, "up");
  await outputHas("\x1b[<2;20;6M\x1b[<2;20;6m");
  await firefox.finger(place(20, 10), "down", place(24, 10), place(30, 10), "up");
  await outputHas("\x1b[<0;20;10M", "\x1b[<32;30;10M", "\x1b[<0;30;10m");
  // Several fingers, as the page's events.
  const fingers = (...steps) =>
    firefox.run(
      `const stage = page.document.getElementById("stage");
      stage.setPointerCapture = () => undefined; // there is no such pointer to capture
      for (const [type, ...places] of args[0]) {
        places.forEach(([clientX, clientY], i) => {
          const init = { pointerId: 100 + i, pointerType: "touch", clientX, clientY };
          Object.assign(init, { bubbles: true, cancelable: true });
          stage.dispatchEvent(new window.PointerEvent(type, init));
        });
      }`,
      steps,
    );
  const three = [place(40, 8), place(44, 8), place(48, 8)];
  await fingers(["pointerdown", ...three], ["pointerup", ...three]);
  await outputHas("\x1b[<1;44;8M\x1b[<1;44;8m");
  const [x, y] = place(30, 20);
  const two = (by) => [
    [x - 30, y - by],
    [x + 30, y - by],
  ];
  const moves = [20, 40, 60, 80, 100, 120].map((by) => ["pointermove", ...two(by)]);
  await fingers(["pointerdown", ...two(0)], ...moves, ["pointerup", ...two(120)]);
  await outputHas("\x1b[<65;30;20M");

  await firefox.keys("a", "b");
  await fileHas(out, (now) => now.endsWith("ab"));
  // The watch begins before it, for it may be short.
  await firefox.run(`
    const state = document.getElementById("state");
    new window.MutationObserver(() => {
      if (!state.hidden) document.body.dataset.trouble = "shown";
    }).observe(state, { attributes: true });`);
  process.kill(session.pids.session, "SIGKILL");
  await firefox.waitFor(`return document.body.dataset.trouble === "shown";`);
  await connected();
  await firefox.keys("c", "d");
  await fileHas(out, (now) => now.endsWith("abcd"));
});

test("Firefox claims no video format that it does not decode, and raw frames play", {
  timeout: 240_000,
}, async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link());
  const viewer = await session.viewer(0);
  const { caps } = await viewer.receive((m) => m.kind === "hello");
  const [PLAIN, H264] = [32, 64];
  assert.equal(caps & PLAIN, PLAIN);
  const place = { x: 20, y: 30, width: 192, height: 128 };
  let seq = 0;
  const update = (...commands) => viewer.send(message.update((seq += 1), 1, commands));
  viewer.send(message.hello("cinema"), message.geometry(1, 400, 300));
  update(
    draw.fill(0, 0, 400, 300, 0),
    draw.videoInit(0, caps & H264 ? 1 : 0, SIZE, { x: 0, y: 0, ...SIZE }, place),
  );
  await viewer.receive((m) => m.kind === "video" && m.state === "ready");
  const shown = () =>
    firefox.run(
      `await page.thinc.quiet();
      const { width, data } = await page.thinc.pixels();
      const at = ([x, y]) => (y * width + x) * 4;
      return args[0].map((place) => Array.from(data.subarray(at(place), at(place) + 3)));`,
      PLACES,
    );
  // In the middle of its quarters.
  const PLACES = [
    [68, 62],
    [164, 62],
    [68, 126],
    [164, 126],
  ];
  const wanted = (number) =>
    PLACES.map(([x, y]) => colorOf(sampleOf(number, (x - 20) / 3, (y - 30) / 2)));
  for (const number of [0, 7, 15]) {
    update(draw.videoPlain(0, number * 33_333, [place], plain(number)));
    assert.deepEqual(await shown(), wanted(number));
  }
  // A later Firefox that decodes must paint.
  if (caps & H264) {
    update(draw.videoCoded(0, 600_000, [place], true, coded[8].data));
    const found = (await shown()).flat();
    assert.ok(
      wanted(8)
        .flat()
        .every((channel, i) => Math.abs(channel - found[i]) <= 2),
      String(found),
    );
  }
});

test("a reloaded page in Firefox reports its retained picture", {
  timeout: 240_000,
}, async (t) => {
  const session = await FakeSession.start();
  t.after(() => session.stop());
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link());
  const first = await session.viewer(0);
  first.send(
    message.hello("shown"),
    message.geometry(1, 400, 300),
    message.update(1, 1, [draw.fill(0, 0, 400, 300, 0x336699)]),
  );
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.run(`await page.thinc.quiet(); await page.thinc.saved();`);
  await firefox.goto(session.url);
  const second = await session.viewer(1);
  const { tiles } = await second.receive((m) => m.kind === "retained");
  assert.ok(tiles.every((hash) => hash !== "0".repeat(16)));
  const [before, after] = [first, second].map(
    ({ received }) => received.find((m) => m.kind === "instance").number,
  );
  assert.equal(after, before);
});

test("every modifier is what its key says in Firefox, on each system", {
  timeout: 240_000,
}, async (t) => {
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  for (const platform of PLATFORMS) {
    const session = await FakeSession.start();
    t.after(() => session.stop());
    session.scripts.set(
      "main.js",
      `Object.defineProperty(navigator, "platform", { value: "${platform}" });\n`,
    );
    await firefox.goto(session.link());
    const viewer = await session.viewer(0);
    viewer.send(
      message.hello("keys"),
      message.geometry(1, 400, 300),
      message.update(1, 1, [draw.fill(0, 0, 400, 300, 0)]),
    );
    await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
    for (const { name, events, wanted } of modifierCases(platform)) {
      viewer.received.length = 0;
      await firefox.run(`(${dispatch})(args[0]);`, events);
      await firefox.keys("z");
      await viewer.receive((m) => m.kind === "key" && m.code === 44 && !m.down);
      assert.deepEqual(received(viewer).slice(0, -2), wanted, `${name}, ${platform}`);
    }
  }
});
