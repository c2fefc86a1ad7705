// Real browsers of guests: the page asks for a name and a password, shows the session, and nothing
// that a guest without control does arrives.
// From the link of `thinc share`, to what a terminal in the session reads.
// Needs target/release/thinc with the web viewer inside and the driver (./dev build), Chromium and
// xterm.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A session whose terminal writes each line that it reads to a file. */
async function opened(t) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const out = join(folder, "out");
  const session = await Session.inTerminal(
    ': > "$1"; while read -r line; do echo "$line" >> "$1"; done',
    out,
  );
  t.after(() => session.stop());
  return { session, out };
}

async function tab(t, link) {
  const page = await openTab(browser, { viewport: { width: 640, height: 480 } });
  t.after(() => page.context().close());
  await page.goto(link);
  return page;
}

async function shown(page) {
  await page.waitForFunction(() => window.thinc && document.getElementById("state").hidden);
  await page.evaluate(() => window.thinc.quiet());
}

test("a guest gives a name and a password, and sees the session without control", async (t) => {
  const { session, out } = await opened(t);
  const link = session.share(["--password", "--uses", "2"], "correct horse\n");
  const guest = await tab(t, link);
  await guest.getByRole("heading", { name: "You are invited to a session" }).waitFor();
  assert.equal(new URL(guest.url()).hash, "", "the token is in no history");
  const name = guest.getByLabel("Your name, as the others see it");
  const password = guest.getByLabel("Password of the invitation");
  assert.equal(await name.getAttribute("autocomplete"), "name");
  assert.equal(await password.getAttribute("autocomplete"), "current-password");
  assert.ok(await name.evaluate((field) => field === document.activeElement));
  // By the keyboard alone, and wrong at first.
  await guest.keyboard.type("Ada");
  await guest.keyboard.press("Tab");
  await guest.keyboard.type("wrong");
  await guest.keyboard.press("Enter");
  await guest.getByText("or the password is wrong").waitFor();
  await password.fill("correct horse");
  await guest.keyboard.press("Enter");
  await shown(guest);

  const owner = await tab(t, session.link);
  await shown(owner);
  const list = () => JSON.parse(session.share(["--list", "--json"])).viewers;
  assert.deepEqual(
    list().map(({ guest, name, control }) => [guest, name, control]),
    [
      [1, "Ada", false],
      [null, null, true],
    ],
  );
  const type = async (page, text) => {
    await page.bringToFront();
    await page.mouse.click(100, 100);
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.evaluate(() => window.thinc.quiet());
  };
  await type(guest, "guest");
  await type(owner, "owner");
  await fileHas(out, (text) => text.includes("owner"));
  assert.equal(readFileSync(out, "utf8"), "owner\n");

  session.share(["--give-control", "1"]);
  await type(guest, "guest");
  await fileHas(out, (text) => text.includes("guest"));
  assert.equal(readFileSync(out, "utf8"), "owner\nguest\n");

  // The page reconnects as the same guest, and opening the link again uses nothing.
  await guest.goto("about:blank");
  await guest.goto(link);
  await shown(guest);
  assert.equal(JSON.parse(session.share(["--list", "--json"])).invitations[0].used, 1);

  session.share(["--throw-out", "1"]);
  await guest.getByText("the owner of this session has ended your visit").waitFor();
  await guest.reload();
  await guest.getByRole("heading", { name: "This session needs a link" }).waitFor();
});
