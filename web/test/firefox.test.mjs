// Firefox opens a real session's link: what is typed arrives, and every byte of the screen is shown.
// The whole path in the other engine; the details are with Chromium in browser.test.mjs.
// Needs what that needs, and firefox-esr.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Firefox } from "./firefox.mjs";
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
  await firefox.waitFor(`return page.thinc && page.document.getElementById("veil").hidden;`);
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
