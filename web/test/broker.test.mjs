// A person logs in to `thinc broker` in Chromium and in Firefox, with a real account, and works on
// a real desktop: by keyboard, on a phone, again from another browser, and while parts of the
// server are killed. axe-core looks for what a screen reader could not use.
// Makes an account and removes it, so it needs root; without, it is skipped. Needs what
// browser.test.mjs needs.

import assert from "node:assert/strict";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { barriers, logIn, PASSWORD, shown, skip, start } from "./broker.mjs";
import { removeFolder } from "./child.mjs";
import { chromiumForTests, openTab, PHONE } from "./chromium.mjs";
import { Firefox } from "./firefox.mjs";
import { isConnected } from "./opened.mjs";
import { LinkProxy } from "./proxy.mjs";
import { fileHas } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000, skip }, body);
const browser = chromiumForTests();

test("a person logs in, works, leaves, and is on the same desktop again", async (t) => {
  const { user, typed, url } = await start(t);
  const page = await openTab(browser);
  await page.goto(url);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  assert.deepEqual(await barriers(page), []);
  // By keyboard alone: the first field has the focus.
  await page.keyboard.type(user);
  await page.keyboard.press("Tab");
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "refused" }).waitFor();
  assert.deepEqual(await barriers(page), []);
  assert.equal(await page.getByLabel("Password").inputValue(), "");
  assert.equal(await page.evaluate(() => document.activeElement.id), "password");
  const fields = await page.evaluate(() =>
    [...document.querySelectorAll("#login input:not([type=checkbox])")].map(
      (input) => input.autocomplete,
    ),
  );
  assert.deepEqual(fields, ["username", "current-password"]);
  await page.keyboard.type(PASSWORD);
  await page.keyboard.press("Enter");
  await shown(page);
  await fileHas(typed, () => true);
  await page.keyboard.type("hello");
  await page.keyboard.press("Enter");
  assert.equal(await fileHas(typed, (text) => text.endsWith("\n") && text), "hello\n");
  // A reloaded page needs no login.
  await page.reload();
  await shown(page);

  // A phone, in the dark.
  const phone = await openTab(browser, { ...PHONE, colorScheme: "dark" });
  await phone.goto(`${url}desk/desk/`);
  await phone.getByRole("heading", { name: "Log in" }).waitFor();
  const card = await phone.locator("main").boundingBox();
  assert.ok(card.x >= 0 && card.x + card.width <= 360, JSON.stringify(card));
  const ground = await phone.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(ground, "rgb(16, 18, 20)");
  assert.deepEqual(await barriers(phone), []);
  await logIn(phone, user, PASSWORD);
  await shown(phone);

  // The list, and the end of the desktop.
  await page.getByRole("button", { name: "Take it back" }).click();
  await shown(page);
  await phone.goto(url);
  await phone.getByRole("heading", { name: `Desktops of ${user}` }).waitFor();
  // What the desktop shows, and where: on the computer, and perhaps still on the phone, whose page
  // was left just now.
  const shot = phone.getByRole("img", { name: "Picture of desk" });
  await shot.waitFor();
  const colours = await shot.evaluate(async (image) => {
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return { longest: Math.max(canvas.width, canvas.height), count: new Set(data).size };
  });
  assert.equal(colours.longest, 256);
  assert.ok(colours.count > 2, "a terminal has text");
  await phone.getByText(/^[0-9]+ × [0-9]+$/).waitFor();
  const lines = () => phone.locator("#list .line").allTextContents();
  const [first, size, ...where] = await lines();
  assert.match(first, /^desk, for [0-9]+ min$/);
  assert.match(size, /^[0-9]+ × [0-9]+$/);
  assert.ok(
    where.length > 0 && where.every((at) => /^shown at 127.0.0.1, for [0-9]+ min$/.test(at)),
    where,
  );
  assert.deepEqual(await barriers(phone), []);
  const row = await phone.locator("#list li").boundingBox();
  assert.ok(row.x >= 0 && row.x + row.width <= 360, JSON.stringify(row));
  await phone.getByRole("button", { name: "Open desk" }).click();
  await shown(phone);
  await phone.goto(url);
  phone.on("dialog", (dialog) => void dialog.accept());
  await phone.getByRole("button", { name: "End desk" }).click();
  await phone.getByText("None is running.").waitFor();
  // The other viewer is told, and its person starts another one.
  await page.goto(url);
  await page.getByRole("button", { name: "Start a desktop" }).click();
  await shown(page);

  // A program under a name of its own, beside the desktop, by keyboard.
  await page.goto(url);
  const summary = page.getByText("Choose what is started");
  // What is hidden yet takes no focus.
  await summary.waitFor();
  await summary.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("option", { name: "A program" }).waitFor({ state: "attached" });
  assert.equal(await page.getByLabel("Program and arguments").isVisible(), false);
  await page.getByLabel("Desktop or program").selectOption({ label: "A program" });
  assert.deepEqual(await barriers(page), []);
  await page.getByLabel("Program and arguments").fill("there-is-no-such-program");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "there-is-no-such-program" }).waitFor();
  await page.getByLabel("Program and arguments").fill("xterm -T 'a b'");
  await page.getByLabel("Name of a further desktop").fill("second");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/desk\/second\/$/);
  await page.goto(url);
  await page.getByRole("button", { name: "Open second" }).waitFor();
  await page.getByRole("button", { name: "Open desk" }).waitFor();

  await phone.getByRole("button", { name: "Log out" }).click();
  await phone.getByRole("heading", { name: "Log in" }).waitFor();
  await phone.reload();
  await phone.getByRole("heading", { name: "Log in" }).waitFor();
  // Nothing went wrong in the page; a refused login or start is an error to the console.
  const unexpected = page.problems.filter((text) => !/401|409/.test(text));
  assert.deepEqual(unexpected, []);
});

/** The picture, as the page has it. */
const picture = (page) =>
  page.evaluate(async () => {
    await window.thinc.quiet();
    const { width, height, data } = await window.thinc.pixels();
    const digest = await crypto.subtle.digest("SHA-256", data);
    return `${width}x${height} ${[...new Uint8Array(digest)].join(" ")}`;
  });

/** Acts until the picture is as wanted, over reconnections too. */
async function actUntil(act, page, isWanted, what) {
  const deadline = Date.now() + 60_000;
  for (;;) {
    await act();
    try {
      if (isWanted(await picture(page))) return;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    assert.ok(Date.now() < deadline, `${what}: the picture is not as it should be`);
  }
}

test("a desktop outlives its front, its session process and its network", async (t) => {
  const { user, typed, url, kill } = await start(t);
  const proxy = await LinkProxy.before(url);
  t.after(() => proxy.stop());
  const page = await openTab(browser);
  await page.goto(proxy.link);
  await logIn(page, user, PASSWORD);
  await shown(page);
  await fileHas(typed, () => true);
  await page.keyboard.type("one");
  await page.keyboard.press("Enter");
  await fileHas(typed, (text) => text === "one\n");
  const before = await picture(page);

  const faults = [
    ["the front", () => kill("nobody", "broker-part front")],
    ["the session process", () => kill(user, "thinc session --config")],
    ["the network", () => proxy.cut()],
  ];
  for (const [what, fail] of faults) {
    fail();
    // Characters pass over the next connection only. What is typed before a new session process
    // is connected may be lost: it cannot know what its predecessor has received.
    await actUntil(
      () => page.keyboard.type("x"),
      page,
      (now) => now !== before,
      what,
    );
    await actUntil(
      () => page.keyboard.press("Control+u"),
      page,
      (now) => now === before,
      what,
    );
  }
  // The program is the same one.
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await fileHas(typed, (text) => text === "one\ntwo\n");
});

test("a desktop is shown over WebTransport, and again when the front was killed", async (t) => {
  const { user, typed, url, kill } = await start(t);
  const page = await openTab(browser);
  await page.goto(url);
  await logIn(page, user, PASSWORD);
  await shown(page);
  await page.goto(`${url}desk/desk/?transport=webtransport`);
  await isConnected(page);
  const way = () => page.evaluate(async () => (await window.thinc.stats()).transport);
  assert.equal(await way(), "webtransport");
  await fileHas(typed, () => true);
  await page.keyboard.type("one");
  await page.keyboard.press("Enter");
  await fileHas(typed, (text) => text === "one\n");
  const before = await picture(page);
  kill("nobody", "broker-part front");
  await actUntil(
    () => page.keyboard.type("x"),
    page,
    (now) => now !== before,
    "the front",
  );
  assert.equal(await way(), "webtransport");

  /** What becomes of a connection with this key to this path. */
  const knock = (path, change) =>
    page.evaluate(
      async ([path, change]) => {
        const secret = Object.entries(localStorage).find(([name]) => /secret/.test(name))[1];
        const headers = { "thinc-origin-secret": secret };
        const answer = await fetch("/desk/desk/webtransport", { headers });
        const { certificate, key } = await answer.json();
        const value = Uint8Array.from(
          atob(certificate.replaceAll("-", "+").replaceAll("_", "/")),
          (character) => character.charCodeAt(0),
        );
        const other = key[0] === "A" ? "B" : "A";
        const query = change ? `${other}${key.slice(1)}` : key;
        const session = new WebTransport(`${location.origin}${path}?key=${query}`, {
          serverCertificateHashes: [{ algorithm: "sha-256", value }],
        });
        session.closed.catch(() => undefined);
        try {
          await session.ready;
          session.close();
          return "open";
        } catch {
          return "refused";
        }
      },
      [path, change],
    );
  assert.equal(await knock("/desk/desk/webtransport", true), "refused", "a wrong key");
  assert.equal(await knock("/desk/other/webtransport", false), "refused", "no such desktop");
  assert.equal(await knock("/desk/desk/ws", false), "refused", "another path");
  const status = await page.evaluate(async () => (await fetch("/desk/desk/webtransport")).status);
  assert.equal(status, 401, "without the origin's secret");
});

test("the list follows where desktops are shown, and renames one by keyboard", async (t) => {
  const { user, url, thinc } = await start(t);
  const page = await openTab(browser);
  await page.goto(url);
  await logIn(page, user, PASSWORD);
  await shown(page);
  await page.goto(`${url}desk/desk/?transport=webtransport`);
  await isConnected(page);
  assert.equal(
    await page.evaluate(async () => (await window.thinc.stats()).transport),
    "webtransport",
  );

  const list = await openTab(browser);
  // A session process that is restarted has no picture, and a front none either.
  let failures = 0;
  await list.route("**/thumbnail", (route) => {
    failures += 1;
    return failures <= 2 ? route.fulfill({ status: failures === 1 ? 404 : 502 }) : route.continue();
  });
  await list.goto(`${url}?open=other`);
  await logIn(list, user, PASSWORD);
  await shown(list);
  await list.goto(url);
  await page.getByRole("button", { name: "Take it back" }).click();
  await page.waitForFunction(() => document.getElementById("state").hidden);
  await list
    .getByText(/^shown at 127.0.0.1, for/)
    .first()
    .waitFor();
  await list.getByRole("img", { name: "Picture of desk" }).waitFor({ timeout: 90_000 });
  assert.ok(failures > 2, "later pictures came");
  await list.getByRole("button", { name: "Open desk" }).focus();

  // By keyboard: a name for people, which the page that shows the desktop has in its title.
  await list.keyboard.press("Tab");
  await list.keyboard.press("Enter");
  const field = list.getByLabel("New name of desk");
  await field.waitFor();
  assert.deepEqual(await barriers(list), []);
  await list.keyboard.type("  ");
  await list.keyboard.press("Enter");
  await list.getByRole("listitem").getByRole("alert").filter({ hasText: "1 to 64" }).waitFor();
  await field.fill("Work at home 仕事");
  await list.keyboard.press("Enter");
  await list.getByRole("status").filter({ hasText: "is called Work at home 仕事" }).waitFor();
  await list.getByRole("button", { name: "Open Work at home 仕事" }).waitFor();
  const again = await list.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(again, "Rename Work at home 仕事");
  await page.waitForFunction(() => document.title === "Work at home 仕事 – thinc");
  assert.match(thinc("list"), /^desk .*"Work at home 仕事"$/m);
  await list.keyboard.press("Enter");
  await list.getByLabel("New name of Work").waitFor();
  await list.keyboard.press("Escape");
  await list.getByRole("button", { name: "Open Work" }).focus();

  // QUIC's time-out is 30 s; the page says that it is left.
  await page.goto("about:blank");
  await list.getByText("not shown anywhere").waitFor({ timeout: 15_000 });
  const focused = await list.evaluate(() => document.activeElement.getAttribute("aria-label"));
  assert.equal(focused, "Open Work at home 仕事", "what is refreshed takes no focus");
  await page.goto(`${url}desk/desk/`);
  await list.getByText(/^shown at 127.0.0.1, for/).waitFor({ timeout: 15_000 });
  assert.deepEqual(await barriers(list), []);
});

test("a desktop is taken over, taken back and joined, as its person has chosen", async (t) => {
  const { user, url, thinc } = await start(t);
  const viewers = () => JSON.parse(thinc("share", "desk", "--list", "--json")).viewers.length;
  const sized = (page, size) =>
    page.waitForFunction(async (size) => {
      const { width, height } = await window.thinc.pixels();
      return `${width}x${height}` === size;
    }, size);
  const first = await openTab(browser, { viewport: { width: 700, height: 500 }, locale: "de" });
  await first.goto(url);
  await first.getByLabel("Benutzername").fill(user);
  await first.getByLabel("Passwort").fill(PASSWORD);
  await first.keyboard.press("Enter");
  await shown(first);
  await sized(first, "700x500");

  // A page elsewhere takes it over, at its own size; the first one is told in its language.
  const second = await openTab(browser, { viewport: { width: 900, height: 620 } });
  await second.goto(url);
  await logIn(second, user, PASSWORD);
  await shown(second);
  await sized(second, "900x620");
  await first.getByRole("heading", { name: "Ihr Desktop wurde anderswo geöffnet" }).waitFor();
  assert.deepEqual(await barriers(first, "#state"), []);
  assert.equal(viewers(), 1);
  // Nor does a reload take it back; its button does, which has the focus.
  await first.reload();
  await first.getByRole("button", { name: "Zurückholen" }).waitFor();
  assert.equal(await first.evaluate(() => document.activeElement.id), "state-button");
  assert.equal(viewers(), 1);
  await first.keyboard.press("Enter");
  await shown(first);
  await sized(first, "700x500");
  await second.getByRole("heading", { name: "Your desktop was opened elsewhere" }).waitFor();

  // What the person chooses holds on every device.
  const choose = async (page, label, choice) => {
    await page.goto(url);
    await page.locator("#preferences summary").click();
    const kept = page.waitForResponse(
      (answer) => answer.url().endsWith("/preferences") && answer.request().method() === "POST",
    );
    await page.getByLabel(label).selectOption({ label: choice });
    assert.equal((await kept).status(), 200);
  };
  await choose(second, "A desktop that is shown elsewhere", "is shown in both places");
  assert.deepEqual(await barriers(second), []);
  await second.getByRole("button", { name: "Open desk" }).click();
  await shown(second);
  assert.equal(viewers(), 2);
  await sized(second, "900x620");
  await choose(second, "A desktop that is shown elsewhere", "asks me each time");
  await second.getByRole("button", { name: "Open desk" }).click();
  await second.getByRole("heading", { name: "This desktop is shown elsewhere" }).waitFor();
  assert.deepEqual(await barriers(second, "#state"), []);
  assert.equal(viewers(), 1);
  await second.getByRole("button", { name: "See it in both places" }).click();
  await shown(second);
  assert.equal(viewers(), 2);
  await first.goto(url);
  await first.waitForFunction(() => document.getElementById("opening").value === "ask");
  await first.getByRole("button", { name: "desk öffnen" }).click();
  await first.getByRole("button", { name: "Übernehmen" }).click();
  await shown(first);
  await second.getByRole("button", { name: "Take it back" }).waitFor();
  assert.equal(viewers(), 1);
});

test("a guest without an account sees a desktop, and types when its owner lets them", async (t) => {
  const { user, typed, url, kill, thinc } = await start(t);
  const owner = await openTab(browser);
  await owner.goto(url);
  await logIn(owner, user, PASSWORD);
  await shown(owner);
  await fileHas(typed, () => true);
  const link = thinc("share", "desk", "--uses", "2");
  assert.ok(link.startsWith(`${url}join/`), link);
  const join = async () => {
    const context = await owner.context().browser().newContext({ ignoreHTTPSErrors: true });
    t.after(() => context.close());
    const page = await context.newPage();
    await page.goto(link);
    await page.getByRole("heading", { name: "You are invited to a session" }).waitFor();
    assert.equal(new URL(page.url()).hash, "", "the token is in no history");
    assert.deepEqual(await barriers(page), []);
    return page;
  };
  const guest = await join();
  await guest.keyboard.type("Ada");
  await guest.keyboard.press("Enter");
  const ready = async () => {
    await isConnected(guest);
    await guest.evaluate(() => window.thinc.quiet());
  };
  await ready();
  const listed = () => JSON.parse(thinc("share", "desk", "--list", "--json"));
  const viewers = () => listed().viewers.map(({ guest, name, control }) => [guest, name, control]);
  assert.deepEqual(viewers(), [
    [null, null, true],
    [1, "Ada", false],
  ]);
  assert.match(listed().viewers[1].from, /^127\.0\.0\.1:[0-9]+ /);
  const type = async (page, text) => {
    await page.bringToFront();
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
    await page.evaluate(() => window.thinc.quiet());
  };
  await type(guest, "guest");
  await type(owner, "owner");
  await fileHas(typed, (text) => text === "owner\n");
  thinc("share", "desk", "--give-control", "1");
  await type(guest, "guest");
  await fileHas(typed, (text) => text === "owner\nguest\n");

  // A guest's login is for this desktop only, and needs both the cookie and the page's secret.
  const status = (path, headers = {}) =>
    guest.evaluate(
      async ([path, headers]) => (await fetch(path, { headers })).status,
      [path, headers],
    );
  assert.equal(await status("login"), 401, "the cookie alone");
  assert.equal(await status("/sessions"), 401);
  const secret = await guest.evaluate(() => Object.values(localStorage)[0]);
  const header = { "thinc-origin-secret": secret };
  assert.equal(await status("login", header), 204);
  assert.equal(await status(`/join/${"0".repeat(32)}/login`, header), 401);
  assert.equal(await status("/sessions", header), 401);

  // The front ends: the guest is there again when the owner is.
  kill("nobody", "broker-part front");
  await actUntil(
    () => guest.keyboard.type("x"),
    guest,
    (now) => now !== undefined && viewers().length === 2,
    "the front",
  );
  // By WebTransport too.
  await guest.goto(`${new URL("./", guest.url()).href}?transport=webtransport`);
  await ready();
  const way = await guest.evaluate(async () => (await window.thinc.stats()).transport);
  assert.equal(way, "webtransport");
  assert.equal(listed().invitations[0].used, 1, "a page that is loaded again is no other guest");
  thinc("share", "desk", "--throw-out", "1");
  await guest.getByText("the owner of this session has ended your visit").waitFor();

  const other = await join();
  await other.keyboard.type("Bea");
  await other.keyboard.press("Enter");
  await isConnected(other);
  thinc("share", "desk", "--revoke", "1");
  await other.getByText("the owner of this session has ended the invitation").waitFor();
  const late = await join();
  await late.keyboard.type("Cy");
  await late.keyboard.press("Enter");
  await late.getByText("The invitation was used, has ended").waitFor();
});

test("a person waits in line while memory is short, through a restart, and works", async (t) => {
  // The broker reads the kernel's figures here.
  const pressures = mkdtempSync(join(tmpdir(), "thinc-web-pressure-"));
  t.after(() => removeFolder(pressures));
  const write = (name, text) => {
    // A reader finds the old text or the new one.
    writeFileSync(join(pressures, "new"), text);
    renameSync(join(pressures, "new"), join(pressures, name));
  };
  const set = (name, percent) =>
    write(name, `some avg10=${percent} avg60=0.00 avg300=0.00 total=1\n`);
  set("cpu", "0.00");
  set("io", "0.00");
  set("memory", "40.00");
  write("meminfo", "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n");
  const { user, typed, url, kill } = await start(t, undefined, undefined, 'admission = "queue"\n', {
    THINC_PRESSURE_DIR: pressures,
  });
  const page = await openTab(browser);
  await page.goto(url);
  await logIn(page, user, PASSWORD);
  const isNext = page.getByText("Yours is the next.");
  await isNext.waitFor();
  assert.deepEqual(await barriers(page), []);
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("heading", { name: `Desktops of ${user}` }).waitFor();
  await page.getByRole("button", { name: "Start a desktop" }).click();
  await isNext.waitFor();
  kill("nobody", "broker-part front");
  // Asked by the page itself, whose place the next front knows.
  await page.waitForResponse((response) => response.url().includes("start?waits=0"));
  await isNext.waitFor();
  set("memory", "0.00");
  await shown(page);
  await fileHas(typed, () => true);
  await page.keyboard.type("hello");
  await page.keyboard.press("Enter");
  assert.equal(await fileHas(typed, (text) => text.endsWith("\n") && text), "hello\n");
});

test("a person logs in with Firefox", async (t) => {
  const [TAB, ENTER] = ["\ue004", "\ue007"];
  const { user, typed, url } = await start(t);
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(url);
  await firefox.waitFor(`return document.activeElement.id === "user";`);
  await firefox.keys(...user, TAB, ..."wrong", ENTER);
  await firefox.waitFor(`return document.getElementById("error").textContent.includes("refused");`);
  await firefox.waitFor(`return document.activeElement.id === "password";`);
  await firefox.keys(...PASSWORD, ENTER);
  const desktop = `return page.thinc && page.document.getElementById("state")?.hidden;`;
  await firefox.waitFor(desktop);
  await firefox.run(`await page.thinc.quiet();`);
  await fileHas(typed, () => true);
  await firefox.keys(..."hello", ENTER);
  await fileHas(typed, (text) => text === "hello\n");

  // Opened elsewhere, and taken back.
  const other = await openTab(browser);
  await other.goto(url);
  await logIn(other, user, PASSWORD);
  await shown(other);
  await firefox.waitFor(`return page.document.getElementById("state-button")?.textContent
    === "Take it back";`);
  await firefox.keys(ENTER);
  await firefox.waitFor(desktop);
  await other.getByRole("button", { name: "Take it back" }).waitFor();

  await firefox.goto(url);
  const button = (name) => `[...document.querySelectorAll("button")]
    .find((button) => (button.getAttribute("aria-label") ?? button.textContent) === "${name}")`;
  await firefox.waitFor(`return ${button("Open desk")} !== undefined;`);
  await firefox.run(`${button("Open desk")}.click();`);
  await firefox.waitFor(desktop);
  await firefox.goto(url);
  await firefox.waitFor(`return ${button("Log out")}?.disabled === false;`);
  await firefox.run(`${button("Log out")}.click();`);
  await firefox.waitFor(`return document.activeElement.id === "user";`);
});

test("the login is in the person's language", async (t) => {
  const { user, url } = await start(t);
  const german = await openTab(browser, { locale: "de-AT" });
  await german.goto(url);
  await german.getByRole("heading", { name: "Anmelden" }).waitFor();
  assert.equal(await german.evaluate(() => document.documentElement.lang), "de");
  assert.deepEqual(await barriers(german), []);
  await german.getByLabel("Benutzername").fill(user);
  await german.getByLabel("Passwort").fill("wrong");
  await german.getByRole("button", { name: "Anmelden" }).click();
  await german.getByRole("alert").filter({ hasText: "abgelehnt" }).waitFor();
  await german.getByLabel("Passwort").fill(PASSWORD);
  await german.keyboard.press("Enter");
  await shown(german);
  await german.goto(url);
  await german.getByRole("button", { name: "desk öffnen" }).waitFor();
  assert.deepEqual(await barriers(german), []);

  // A language without words of its own gets English ones.
  for (const [locale, heading] of [
    ["ja", "ログイン"],
    ["ru-RU", "Вход"],
    ["eo", "Log in"],
  ]) {
    const page = await openTab(browser, { locale });
    await page.goto(url);
    await page.getByRole("heading", { name: heading }).waitFor();
    assert.deepEqual(await barriers(page), [], locale);
  }
});

test("everybody reads the banner before a login, and not after it", async (t) => {
  const { user, url } = await start(t, "For staff of the institute only.\n\n<b>Be kind.</b>\n");
  for (const colorScheme of ["light", "dark"]) {
    const page = await openTab(browser, { ...PHONE, colorScheme });
    await page.goto(url);
    const banner = page.locator("#banner");
    await banner.filter({ hasText: "For staff of the institute only." }).waitFor();
    assert.equal(await banner.textContent(), "For staff of the institute only.\n\n<b>Be kind.</b>");
    assert.equal(await banner.evaluate((text) => getComputedStyle(text).whiteSpace), "pre-wrap");
    assert.deepEqual(await barriers(page), [], colorScheme);
    if (process.env.THINC_SCREENSHOTS)
      await page.screenshot({ path: join(process.env.THINC_SCREENSHOTS, `${colorScheme}.png`) });
    await logIn(page, user, PASSWORD);
    await shown(page);
    await page.goto(url);
    await page.getByRole("button", { name: "Open desk" }).waitFor();
    assert.equal(await banner.isVisible(), false);
  }
});

test("an administrator looks at the figures, and they follow what people do", async (t) => {
  const port = await new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
  const { user, url } = await start(t, undefined, port);
  const figures = `http://127.0.0.1:${port}/`;
  const now = (page, name) =>
    page
      .locator("#now div")
      .filter({ has: page.getByText(name, { exact: true }) })
      .locator("dd");
  const page = await openTab(browser, { viewport: { width: 1100, height: 900 } });
  const reply = await page.goto(figures);
  assert.match(
    reply.headers()["content-security-policy"],
    /^default-src 'none'; script-src 'self'/,
  );
  await now(page, "Refusals since the start").filter({ hasText: /^0$/ }).waitFor();

  const desktop = await openTab(browser);
  await desktop.goto(url);
  await logIn(desktop, user, "wrong");
  await desktop.getByRole("alert").filter({ hasText: "refused" }).waitFor();
  await logIn(desktop, user, PASSWORD);
  await shown(desktop);
  await desktop.keyboard.type("hello");
  await now(page, "Refusals since the start").filter({ hasText: /^1$/ }).waitFor();
  await now(page, "Open logins").filter({ hasText: /^1$/ }).waitFor();
  // By its cells, as a screen reader finds them: whose it is, its name, and who shows it.
  const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: user }) });
  await row.getByRole("cell", { name: /ms$/ }).waitFor();
  const cells = await row.getByRole("cell").allTextContents();
  assert.equal(cells[0], "desk");
  assert.match(cells[2], /^\d+ × \d+$/);
  assert.deepEqual(cells.slice(3, 5), ["1", "0"]);
  // Two readings make a line; each plot says in words what it shows.
  // A line that is level has no height, and counts as hidden.
  const line = page.locator("#plots figure").first().locator("polyline[points*=' ']").first();
  await line.waitFor({ state: "attached" });
  const told = await page.getByRole("img").evaluateAll((all) => all.map((svg) => svg.ariaLabel));
  assert.equal(told.length, 10);
  assert.match(told[0], /^Sessions\. Now run: \d+, with a viewer: 1; at most \d+ in this plot$/);
  assert.deepEqual(await barriers(page), []);

  // By keyboard: the page stops changing, and goes on.
  await page.keyboard.press("Tab");
  const pause = page.getByRole("button", { name: "Pause" });
  assert.equal(await pause.evaluate((button) => document.activeElement === button), true);
  await page.keyboard.press("Space");
  await page.getByRole("status").filter({ hasText: "Paused." }).waitFor();
  assert.equal(await pause.getAttribute("aria-pressed"), "true");
  await page.keyboard.press("Space");
  await page.getByRole("status").filter({ hasText: "Read every" }).waitFor();
  assert.deepEqual(page.problems, []);

  // A phone, in the dark; nothing but the table is wider than it.
  const phone = await openTab(browser, { ...PHONE, colorScheme: "dark" });
  await phone.goto(figures);
  await phone.getByRole("rowheader", { name: user }).waitFor();
  assert.deepEqual(await barriers(phone), []);
  assert.ok(await phone.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  if (process.env.THINC_SCREENSHOTS) {
    for (const [name, shot] of Object.entries({ figures: page, "figures-phone": phone })) {
      const path = join(process.env.THINC_SCREENSHOTS, `${name}.png`);
      await shot.screenshot({ path, fullPage: true });
    }
  }
  // A page under another name of this port is told nothing.
  const other = await page.context().request.get(`${figures}figures.json`, {
    headers: { Host: `attacker.example:${port}` },
  });
  assert.equal(other.status(), 421);
});

test("the login and a desktop can be installed as an application", async (t) => {
  const { user, url } = await start(t);
  const page = await openTab(browser);
  await page.goto(url);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  const devtools = await page.context().newCDPSession(page);
  const isInstallable = async () => {
    const { url: from, errors, data } = await devtools.send("Page.getAppManifest");
    assert.equal(from, `${url}app.webmanifest`);
    assert.deepEqual(errors, []);
    const { display, start_url, icons } = JSON.parse(data);
    assert.deepEqual([display, start_url], ["standalone", "/"]);
    const sizes = await page.evaluate(async (icons) => {
      const bitmap = async ({ src }) => createImageBitmap(await (await fetch(src)).blob());
      const bitmaps = await Promise.all(icons.map(bitmap));
      return bitmaps.map(({ width, height }) => `${width}x${height}`);
    }, icons);
    assert.deepEqual(
      sizes,
      icons.map((icon) => icon.sizes),
    );
    // A context of its own is one without installed applications.
    const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
    const others = installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito");
    assert.deepEqual(others, []);
  };
  await isInstallable();
  await logIn(page, user, PASSWORD);
  await shown(page);
  await isInstallable();
});
