// Copying and pasting between a real session's programs and a real browser: xclip and Chromium
// there, a tab of another page here, and Firefox in the page's place for its differences.
// The whole path of the clipboard; details of the page are in clipboard.test.mjs. No permission is
// granted.
// Needs what browser.test.mjs needs, xclip and firefox-esr.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { promisify } from "node:util";
import { chromium } from "playwright-core";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { Firefox } from "./firefox.mjs";
import { isConnected } from "./opened.mjs";
import { OtherTab, PNG } from "./other-tab.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000 }, body);
const run = promisify(execFile);

const WORDS = "Grüße 😀 漢字\ntwo lines\tand a tab\n";
const LONG = Array.from({ length: 160_000 }, (_, line) => `line ${line} of many: äöü 😀\n`).join(
  "",
);

const browser = chromiumForTests();

/** Programs of the session that copy and paste. */
class Programs {
  #owners = [];

  constructor(session) {
    this.session = session;
  }

  copy(target, content, selection = "clipboard") {
    const file = join(this.session.folder, `copied-${this.#owners.length}`);
    writeFileSync(file, content);
    const options = ["-selection", selection, "-target", target, "-in", "-quiet", file];
    this.#owners.push(spawn("xclip", options, { env: this.session.env, stdio: "ignore" }));
  }

  async paste(target, selection = "clipboard") {
    const options = ["-selection", selection, "-target", target, "-out"];
    try {
      return (
        await run("xclip", options, {
          env: this.session.env,
          encoding: "buffer",
          maxBuffer: 1 << 28,
          timeout: 120_000,
        })
      ).stdout;
    } catch {
      return Buffer.alloc(0); // without an owner, or not in this format
    }
  }

  /** Pastes until the content matches. */
  async pasteWhere(target, matches, ms = 120_000) {
    for (const end = performance.now() + ms; ; ) {
      const pasted = await this.paste(target);
      if (matches(pasted)) return pasted;
      assert.ok(
        performance.now() < end,
        `${target} is only ${JSON.stringify(pasted.subarray(0, 200).toString())}`,
      );
    }
  }

  stop() {
    for (const owner of this.#owners) owner.kill();
  }
}

async function started(t, command = ["sleep", "infinity"]) {
  const session = await Session.start(command);
  t.after(() => session.stop());
  const programs = new Programs(session);
  t.after(() => programs.stop());
  return { session, programs };
}

async function opened(t, command) {
  const { session, programs } = await started(t, command);
  const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
  t.after(() => page.context().close());
  await page.goto(session.link);
  await page.waitForURL((url) => url.hash === "");
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
  const other = await OtherTab.open(browser, page.url());
  t.after(() => other.close());
  return { session, programs, page, other };
}

test("programs of the session paste text, HTML, an image and 5 MB from here", async (t) => {
  const { programs, page, other } = await opened(t);
  await other.copy({ text: WORDS.replaceAll("\n", "\r\n") });
  await page.keyboard.press("Control+KeyV");
  await programs.pasteWhere("UTF8_STRING", (text) => text.toString() === WORDS);
  await other.copy({ text: "bold", html: "<b>bold</b> 😀", png: PNG });
  await page.keyboard.press("Control+KeyV");
  await programs.pasteWhere("text/html", (html) => html.includes("<b>bold</b> 😀"));
  assert.equal((await programs.paste("UTF8_STRING")).toString(), "bold");
  assert.deepEqual(
    await other.pixelsOf(await programs.paste("image/png")),
    await other.pixelsOf(PNG),
  );
  await other.copy({ text: LONG });
  await page.keyboard.press("Control+KeyV");
  await programs.pasteWhere("UTF8_STRING", (text) => text.toString() === LONG);
  assert.equal(
    (await programs.paste("UTF8_STRING", "primary")).length,
    0,
    "PRIMARY is independent",
  );
  assert.deepEqual(page.problems, []);
});

test("text, HTML, an image and 5 MB copied in the session are pasted here", async (t) => {
  const { programs, page, other } = await opened(t);
  programs.copy("UTF8_STRING", "marked only", "primary");
  programs.copy("UTF8_STRING", WORDS);
  await other.pasteWhere(({ text }) => text === WORDS);
  programs.copy("text/html", "<b>bold</b> 😀");
  await other.pasteWhere(({ html }) => html.includes("<b>bold</b> 😀"));
  programs.copy("image/png", PNG);
  const { png } = await other.pasteWhere(({ png }) => png !== undefined);
  assert.deepEqual(await other.pixelsOf(png), await other.pixelsOf(PNG));
  programs.copy("UTF8_STRING", LONG);
  await other.pasteWhere(({ text }) => text === LONG);
  const state = await page.evaluate(
    async () => (await navigator.permissions.query({ name: "clipboard-read" })).state,
  );
  assert.equal(state, "prompt", "no permission was requested");
  assert.deepEqual(page.problems, []);
});

test("Chromium in the session and Chromium here paste each other's copies", async (t) => {
  const options = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--remote-debugging-port=0",
  ];
  // deleted with the session's folder
  const script = 'exec chromium --user-data-dir="$XDG_DATA_HOME" "$@"';
  const { session, page, other } = await opened(t, [
    "sh",
    "-c",
    script,
    "sh",
    ...options,
    "about:blank",
  ]);
  const port = await fileHas(
    join(session.folder, "data/DevToolsActivePort"),
    (text) => Number(text.split("\n")[0]) || undefined,
    60_000,
  );
  const chromiumThere = await chromium.connectOverCDP(`http://127.0.0.1:${port}`);
  t.after(() => chromiumThere.close());
  const there = await OtherTab.open(chromiumThere, page.url());

  await other.copy({ text: "from here", html: "<i>from here</i> 😀" });
  await page.keyboard.press("Control+KeyV");
  const pasted = await there.pasteWhere(({ text }) => text === "from here");
  assert.match(pasted.html, /<i>from here<\/i> 😀/);
  await there.copy({ text: "from there", html: "<b>from there</b> 漢字", png: PNG });
  const back = await other.pasteWhere(({ text }) => text === "from there");
  assert.match(back.html, /<b>from there<\/b> 漢字/);
  assert.deepEqual(await other.pixelsOf(back.png), await other.pixelsOf(PNG));
});

test("Firefox pastes into the session and out of it", async (t) => {
  const { session, programs } = await started(t);
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(session.link);
  await firefox.waitFor(`return page.thinc && page.document.getElementById("state").hidden;`);
  await firefox.run(`await page.thinc.quiet();`);
  const [CONTROL, SHIFT, INSERT] = ["\ue009", "\ue008", "\ue016"];
  const sessionTab = (await firefox.call("WebDriver:GetWindowHandle")).value;
  const { handle: otherTab } = await firefox.call("WebDriver:NewWindow", { type: "tab" });
  const show = (handle) => firefox.call("WebDriver:SwitchToWindow", { handle });
  const inOther = async (body, ...keys) => {
    await show(otherTab);
    await firefox.run(body);
    await firefox.keys(...keys);
  };

  // Out of the session. Firefox requires Control+C as the gesture; a program that was told to copy
  // does so then.
  await firefox.keys(`${CONTROL}c`);
  programs.copy("UTF8_STRING", WORDS);
  // Pasted into a text field beside the session, because a tab without the focus cannot write.
  await firefox.run(`
    const box = document.body.appendChild(document.createElement("textarea"));
    box.addEventListener("paste", (event) => {
      box.dataset.text = event.clipboardData.getData("text/plain");
    });
    box.focus();`);
  for (const end = performance.now() + 120_000; ; ) {
    await firefox.keys(`${CONTROL}v`);
    const text = await firefox.run(
      `return document.querySelector("body > textarea:last-child").dataset.text;`,
    );
    if (text === WORDS) break;
    assert.ok(performance.now() < end, `Firefox's clipboard has only ${JSON.stringify(text)}`);
  }
  await firefox.run(`
    document.querySelector("body > textarea:last-child").remove();
    document.getElementById("keys").focus();`);

  // Into the session: text and HTML.
  await show(otherTab);
  await firefox.run(`document.body.replaceChildren(document.createElement("textarea"));`);
  const copying = `
    document.querySelector("textarea").value = "x";
    document.querySelector("textarea").select();
    document.addEventListener("copy", (event) => {
      event.preventDefault();
      event.clipboardData.setData("text/plain", "from Firefox 😀");
      event.clipboardData.setData("text/html", "<b>from Firefox</b> 😀");
    }, { once: true });`;
  await inOther(copying, `${CONTROL}c`);
  await show(sessionTab);
  await firefox.keys(`${CONTROL}v`);
  await programs.pasteWhere("UTF8_STRING", (text) => text.toString() === "from Firefox 😀");
  assert.match((await programs.paste("text/html")).toString(), /<b>from Firefox<\/b> 😀/);
  await inOther(copying.replaceAll("from Firefox", "once more"), `${CONTROL}c`);
  await show(sessionTab);
  await firefox.keys(SHIFT + INSERT);
  await programs.pasteWhere("UTF8_STRING", (text) => text.toString() === "once more 😀");
});
