// Real browsers of guests: the page asks for a name and a password, shows the session, and nothing
// that a guest without control does arrives.
// From the link of `thinc share`, to what a terminal in the session reads.
// Needs target/release/thinc with the web viewer inside and the driver (./dev build), Chromium and
// xterm.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { isConnected, says } from "./opened.mjs";
import { fileHas, Session } from "./session.mjs";

const test = (name, ...rest) =>
  nodeTest(name, { timeout: 240_000, ...(rest.length > 1 ? rest[0] : {}) }, rest.at(-1));

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** A session whose terminal writes each line that it reads to a file. */
async function opened(t) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-out-"));
  t.after(() => removeFolder(folder));
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
  await isConnected(page);
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

/** The menu with its list of people, opened by the keyboard. */
async function peopleOf(page) {
  await page.bringToFront();
  if (!(await page.evaluate(() => document.getElementById("menu").classList.contains("open"))))
    await page.keyboard.press("Control+Alt+m");
  const button = page.getByRole("button", { name: /^Sharing/ });
  if ((await button.getAttribute("aria-expanded")) === "false") await button.press("Enter");
  return page.locator("#menu-people-panel");
}

/** What the list of people says. */
const listed = (page) => page.locator("#people-list li > span").allTextContents();

async function lists(page, ...wanted) {
  await page.waitForFunction(
    (wanted) => {
      const rows = [...document.querySelectorAll("#people-list li > span")];
      return JSON.stringify(rows.map((row) => row.textContent)) === JSON.stringify(wanted);
    },
    wanted,
    { timeout: 60_000 },
  );
}

test("the owner invites from the menu, and everybody sees who is there", async (t) => {
  const { session, out } = await opened(t);
  const owner = await tab(t, session.link);
  await shown(owner);
  const panel = await peopleOf(owner);
  await says(owner, "Sharing: only you — nobody else sees this session");
  // By the keyboard: fields keep it until the form is sent.
  await panel.getByLabel("Number of guests").fill("2");
  await panel.getByLabel("Password, if wanted").fill("correct horse");
  await owner.keyboard.press("Enter");
  const field = panel.getByLabel("Link of the invitation");
  await field.waitFor();
  const link = await field.inputValue();
  assert.match(link, /^https:/);
  assert.equal(await panel.getByLabel("Password, if wanted").inputValue(), "");
  const [invitation] = JSON.parse(session.share(["--list", "--json"])).invitations;
  assert.deepEqual([invitation.control, invitation.uses, invitation.password], [false, 2, true]);

  const guest = await tab(t, link);
  await guest.getByLabel("Your name, as the others see it").fill("Ada <b>");
  await guest.getByLabel("Password of the invitation").fill("correct horse");
  await guest.keyboard.press("Enter");
  await shown(guest);
  await lists(guest, "Owner: control", "Ada <b> (you): view only");
  await lists(owner, "Owner (you): control", "Ada <b>: view only");
  await says(owner, "Sharing: 2 people — also here: Ada <b>");
  await says(guest, "Sharing: guest — you only see it");
  for (const words of [
    "Microphone: off — guests give none",
    "Files: off — guests send none",
    "Printing: off — guests print nothing",
    "Copying: as allowed — the owner decides what is copied",
  ])
    await says(guest, words);
  await peopleOf(guest);
  assert.equal(await guest.locator("#invite").isVisible(), false, "a guest invites nobody");
  assert.equal(await guest.locator("#people-list button").count(), 0);
  await guest.keyboard.press("Escape");

  // The guest's pointer, with its name, at the same pixel of the screen.
  const pointer = owner.locator(".person-pointer");
  // It disappears when it rests, which may be before a busy machine has looked.
  for (let moves = 0; !(await pointer.isVisible()); moves += 1) {
    await guest.mouse.move(200, 150 + (moves % 2));
    await guest.evaluate(() => window.thinc.quiet());
  }
  assert.equal(await pointer.textContent(), "Ada <b>");
  await owner.waitForFunction(() => {
    const canvas = document.getElementById("screen").getBoundingClientRect();
    const box = document.querySelector(".person-pointer").getBoundingClientRect();
    return Math.abs(box.x - canvas.x - 200) < 2 && Math.abs(box.y - canvas.y - 150) < 2;
  });

  const type = async (text) => {
    await guest.bringToFront();
    await guest.mouse.click(100, 100);
    await guest.keyboard.type(text);
    await guest.keyboard.press("Enter");
    await guest.evaluate(() => window.thinc.quiet());
  };
  await type("unseen");
  await peopleOf(owner);
  await owner.getByRole("button", { name: "Give control: Ada <b>" }).click();
  await guest.getByText("You may type and point now").waitFor();
  await type("guest");
  await fileHas(out, (text) => text.includes("guest"));
  assert.equal(readFileSync(out, "utf8"), "guest\n", "nothing of before has arrived");
  await lists(owner, "Owner (you): control", "Ada <b>: control, has the pointer");
  await peopleOf(owner);
  await owner.getByRole("button", { name: "View only: Ada <b>" }).click();
  await guest.getByText("You only see the session now").waitFor();
  await type("muted");
  await owner.getByRole("button", { name: "Disconnect: Ada <b>" }).click();
  await guest.getByText("the owner of this session has ended your visit").waitFor();
  await lists(owner, "Owner (you): control");
  assert.equal(await pointer.count(), 0);
  assert.deepEqual(await listed(owner), ["Owner (you): control"]);
  assert.equal(readFileSync(out, "utf8"), "guest\n");
});

test("the owner's menu lists earlier invitations and revokes them", async (t) => {
  const { session } = await opened(t);
  const link = session.share(["--uses", "2", "--control", "--clipboard", "both"]);
  const owner = await tab(t, session.link);
  await shown(owner);
  await peopleOf(owner);
  const invited = owner.getByRole("region", { name: "Invitations" });
  const words = () => invited.locator("li > span").allTextContents();
  await invited.getByText(/^1: control and clipboard, 2 of 2 uses left, until /).waitFor();
  const guest = await tab(t, link);
  await guest.getByLabel("Your name, as the others see it").fill("Ada");
  await guest.keyboard.press("Enter");
  await shown(guest);
  await peopleOf(guest);
  assert.equal(await guest.locator("#invited").isVisible(), false, "a guest is told of none");
  // A second one, from the menu: it is listed first.
  await peopleOf(owner);
  await invited.getByText(/^1: control and clipboard, 1 of 2 uses left, until /).waitFor();
  await owner.getByLabel("Password, if wanted").fill("correct horse");
  await owner.keyboard.press("Enter");
  await invited.getByText(/^2: view only, 1 of 1 uses left, until .*, password$/).waitFor();
  assert.deepEqual(
    (await words()).map((text) => text.split(":")[0]),
    ["2", "1"],
  );
  // By the keyboard, which goes on at what is left.
  await owner.getByRole("button", { name: "Revoke: 1", exact: true }).press("Enter");
  await guest.getByText("the owner of this session has ended the invitation").waitFor();
  await owner.getByText("Invitation 1 has ended.").waitFor();
  await owner.waitForFunction(() => document.querySelectorAll("#invited li").length === 1);
  const focused = () => owner.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(await focused(), "Revoke: 2");
  await owner.keyboard.press("Enter");
  await invited.waitFor({ state: "hidden" });
  const states = JSON.parse(session.share(["--list", "--json"])).invitations;
  assert.deepEqual(
    states.map(({ state }) => state),
    ["revoked", "revoked"],
  );
});

const skip = process.getuid() === 0 ? false : "an administrator's message needs root";

test("a message of the administrator stays until it is closed", { skip }, async (t) => {
  const { session, out } = await opened(t);
  const page = await tab(t, session.link);
  await shown(page);
  session.message("This server restarts at six.");
  const announcement = page.getByRole("alertdialog");
  await announcement.getByText("This server restarts at six.").waitFor();
  session.message("<b>Save</b> your work.");
  await announcement.getByText("<b>Save</b> your work.").waitFor();
  assert.equal(
    await announcement.locator("p").textContent(),
    "This server restarts at six.\n<b>Save</b> your work.",
  );
  // What is typed meanwhile goes on to the session.
  await page.keyboard.type("typed");
  await page.keyboard.press("Enter");
  await fileHas(out, (text) => text.includes("typed"));
  await announcement.getByRole("button", { name: "Close" }).click();
  await announcement.waitFor({ state: "hidden" });
  await page.keyboard.type("again");
  await page.keyboard.press("Enter");
  await fileHas(out, (text) => text.includes("again"));
});
