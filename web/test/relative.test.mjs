// A program in SDL 2's relative mode in a real session, in the windows of Firefox and of Chromium:
// real motion reaches it beyond all edges, and a real Escape gives the pointer back to the user.
// The whole path; capture.test.mjs has the page's part of it in detail.
// Needs a built thinc, web/dist, both browsers, libsdl2, python3, Xvfb, openbox and xdotool.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { windowedChromium } from "./chromium.mjs";
import { Display } from "./display.mjs";
import { Firefox } from "./firefox.mjs";
import { fileHas, Session } from "./session.mjs";

const GAME = fileURLToPath(new URL("../../tests/sdl_game.py", import.meta.url));

/** What the game has written, from one look to the next. */
class Told {
  constructor(file) {
    this.file = file;
    this.read = 0;
  }

  /** Waits for the first line that `last` takes; returns the lines up to it. */
  async until(last) {
    return await fileHas(this.file, (text) => {
      const lines = text.slice(this.read).split("\n").slice(0, -1);
      const at = lines.findIndex(last);
      if (at < 0) return undefined;
      const taken = lines.slice(0, at + 1);
      this.read += taken.reduce((sum, line) => sum + line.length + 1, 0);
      return taken;
    });
  }

  /** The sum of all motion, once `x` pixels to the right or left were moved in all. */
  async moved(x) {
    let all = 0;
    const steps = [];
    await fileHas(this.file, (text) => {
      const lines = text.slice(this.read).split("\n").slice(0, -1);
      for (const line of lines) {
        this.read += line.length + 1;
        const [word, dx, dy] = line.split(" ");
        if (word !== "moved") continue;
        steps.push([Number(dx), Number(dy)]);
        all += Math.abs(Number(dx));
      }
      return all >= x;
    });
    assert.equal(all, x);
    return steps.reduce(([x, y], [dx, dy]) => [x + dx, y + dy], [0, 0]);
  }
}

/**
 * `open` shows the link in a window on the display, and returns how to run code in its page.
 * `merged`: the browser may merge motions, and still tell of the whole distance.
 */
async function play(t, open, merged) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-game-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const told = new Told(join(folder, "told"));
  // The session's window manager gives the game's window the focus.
  const game = ["/usr/bin/python3", GAME, told.file];
  const session = await Session.start(game, { windowManager: "auto" });
  t.after(() => session.stop());
  const display = await Display.start();
  t.after(() => display.stop());
  const page = await open(display, session.link);
  await page.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await page.run(`await page.thinc.quiet();`);
  // The middle of the picture, on the display.
  const [left, top] = await page.run(`
    const stage = page.document.getElementById("stage").getBoundingClientRect();
    const border = (page.outerWidth - page.innerWidth) / 2;
    return [
      page.screenX + border + stage.left + stage.width / 2,
      page.screenY + page.outerHeight - page.innerHeight - border + stage.top + stage.height / 2,
    ].map(Math.round);`);
  const locked = (on) =>
    page.waitFor(`return (page.document.pointerLockElement !== null) === ${on};`);
  await told.until((line) => line === "focused");
  display.do("mousemove", left, top, "click", 1);
  await told.until((line) => line === "released 1");
  display.do("key", "r");
  await told.until((line) => line === "relative");
  await page.waitFor(`return !page.document.getElementById("menu-capture").hidden;`);
  assert.equal(await page.run(`return page.document.pointerLockElement === null;`), true);

  display.do("click", 3);
  await locked(true);
  await told.until((line) => line === "released 3");
  // Several times the width of the window, and back.
  for (const [dx, dy] of [
    [50, -1],
    [-50, 1],
    [3, 2],
  ]) {
    const sum = [0, 0];
    for (let i = 0; i < 40; i += 1) {
      display.do("mousemove_relative", "--", dx, dy);
      if (merged && i < 39) continue;
      const moved = await told.moved(Math.abs((merged ? 40 : 1) * dx));
      moved.forEach((by, axis) => {
        sum[axis] += by;
      });
    }
    assert.deepEqual(sum, [40 * dx, 40 * dy]);
  }
  // The browser handles Escape itself, and the game does not get it.
  display.do("key", "Escape");
  await locked(false);
  display.do("mousemove", left - 20, top);
  display.do("mousemove", left, top);
  display.do("key", "r");
  const last = await told.until((line) => line === "absolute");
  assert.ok(!last.includes("key 27"), String(last));
  // A game that begins again is only offered the pointer: the user had ended it.
  display.do("key", "r");
  await told.until((line) => line === "relative");
  await page.waitFor(
    `return page.document.getElementById("notice").textContent.includes("click");`,
  );
  assert.equal(await page.run(`return page.document.pointerLockElement === null;`), true);
  display.do("click", 1);
  await locked(true);
  await told.until((line) => line === "released 1");
  display.do("mousemove_relative", "--", -7, 4);
  assert.deepEqual(await told.moved(7), [-7, 4]);
}

// Firefox counts from the middle of its window, where it puts the pointer back. Of several motions
// in one frame it tells the page the last one, without those before it was put back.
test("a game in the window of Firefox", { timeout: 240_000 }, (t) =>
  play(
    t,
    async (display, link) => {
      const firefox = await Firefox.start(display.name);
      t.after(() => firefox.stop());
      await firefox.goto(link);
      return firefox;
    },
    false,
  ),
);

test("a game in the window of Chromium", { timeout: 240_000 }, (t) =>
  play(
    t,
    async (display, link) => {
      const page = await windowedChromium(t, display.env);
      await page.goto(link);
      const run = (body) => page.evaluate(`(async (page) => { ${body} })(window)`);
      const waitFor = (body) => page.waitForFunction(`(async (page) => { ${body} })(window)`);
      return { run, waitFor };
    },
    true,
  ),
);
