// A person stays signed in on a device, in Chromium and in Firefox, with a real account: the page
// signs in by itself where the login has ended, in the middle of work too, until the device is
// forgotten. Needs root and what broker.test.mjs needs.

import assert from "node:assert/strict";
import { test as nodeTest } from "node:test";
import { barriers, logIn, PASSWORD, shown, skip, start } from "./broker.mjs";
import { chromiumForTests, openTab } from "./chromium.mjs";
import { Firefox } from "./firefox.mjs";
import { fileHas } from "./session.mjs";

const test = (name, body) => nodeTest(name, { timeout: 240_000, skip }, body);
const browser = chromiumForTests();

const stay = (page) => page.getByLabel("Stay signed in on this device");
const devices = (page) => page.getByText("Devices that stay signed in");

/** The login ends, as far as this browser knows: after 12 hours, or when it was closed. */
const loseCookies = (page) => page.context().clearCookies();

/** What the browser has of its key. */
const key = (page) =>
  page.evaluate(
    () =>
      new Promise((resolve, reject) => {
        const opening = indexedDB.open("thinc device", 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
        opening.onerror = () => reject(opening.error);
        opening.onsuccess = async () => {
          const request = opening.result.transaction("keys").objectStore("keys").get("device");
          request.onsuccess = async () => {
            opening.result.close();
            const device = request.result;
            if (device === undefined) return resolve(undefined);
            const copied = await crypto.subtle.exportKey("pkcs8", device.key).then(
              () => true,
              () => false,
            );
            resolve({ id: device.id, extractable: device.key.extractable, copied });
          };
        };
      }),
  );

test("a person who stays signed in is not asked again until the device is forgotten", async (t) => {
  const { user, typed, url, kill } = await start(t);
  const page = await openTab(browser);
  await page.goto(url);
  await stay(page).waitFor();
  assert.equal(await stay(page).isChecked(), false, "only who wants it");
  await page.getByText("Until you log out, for at most 30 days.").waitFor();
  assert.deepEqual(await barriers(page), []);
  // By keyboard.
  await page.keyboard.type(user);
  await page.keyboard.press("Tab");
  await page.keyboard.type(PASSWORD);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Space");
  await page.keyboard.press("Enter");
  await shown(page);
  const { extractable, copied } = await key(page);
  assert.deepEqual([extractable, copied], [false, false], "no script can copy it");
  await fileHas(typed, () => true);

  // A browser that was closed.
  await loseCookies(page);
  await page.goto(`${url}desk/desk/`);
  await shown(page);
  await page.keyboard.type("one");
  await page.keyboard.press("Enter");
  await fileHas(typed, (text) => text === "one\n");

  // In the middle of work, as after a laptop's sleep: the connection has ended, and so has the
  // login.
  await loseCookies(page);
  const left = page.waitForURL(/\?open=desk$/);
  kill("nobody", "broker-part front");
  await left;
  await shown(page);
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await fileHas(typed, (text) => text === "one\ntwo\n");

  // Several tabs at the same time.
  const other = await page.context().newPage();
  await loseCookies(page);
  await Promise.all([page.goto(`${url}desk/desk/`), other.goto(url)]);
  await shown(page);
  await other.getByRole("button", { name: "Open desk" }).waitFor();
  await other.close();

  // The list, and its end.
  await page.goto(url);
  await devices(page).click();
  await page.getByText(/^this device, last used .+/).waitFor();
  assert.equal(await page.locator("#device-list li").count(), 1);
  assert.deepEqual(await barriers(page), []);
  const name = await page.locator("#device-list .line").first().textContent();
  assert.match(name, /^Chrome, Linux$/);
  await page.getByRole("button", { name: `Forget ${name}` }).click();
  await page.getByText("None.").waitFor();
  assert.equal(await key(page), undefined);
  await loseCookies(page);
  await page.goto(url);
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  await stay(page).waitFor();
});

test("who logs out, or disconnects from a desktop, is asked again", async (t) => {
  const { user, url } = await start(t);
  const page = await openTab(browser);
  const logInAndStay = async () => {
    await page.goto(url);
    await stay(page).check();
    await logIn(page, user, PASSWORD);
    await shown(page);
    assert.ok(await key(page));
  };
  const isAsked = async () => {
    await page.getByRole("heading", { name: "Log in" }).waitFor();
    assert.equal(await key(page), undefined);
    await page.goto(`${url}desk/desk/`);
    await page.getByRole("heading", { name: "Log in" }).waitFor();
  };
  await logInAndStay();
  await page.goto(url);
  await page.getByRole("button", { name: "Log out" }).click();
  await isAsked();

  await logInAndStay();
  await page.keyboard.press("Control+Alt+m");
  await page.getByRole("button", { name: "Disconnect" }).click();
  await isAsked();
  // The key of a device that the server has forgotten is tried, and then the person is asked.
  await logInAndStay();
  const second = await openTab(browser);
  await second.goto(url);
  await logIn(second, user, PASSWORD);
  await shown(second);
  await second.goto(url);
  await devices(second).click();
  await second.getByRole("button", { name: "Forget Chrome, Linux" }).click();
  await second.getByText("None.").waitFor();
  // The second tab had taken the desktop over.
  await page.getByRole("button", { name: "Take it back" }).click();
  await page.getByRole("heading", { name: "Log in" }).waitFor();
  await page.getByRole("alert").filter({ hasText: "not signed in on this device" }).waitFor();
  assert.deepEqual(await barriers(page), []);
});

test("a person stays signed in with Firefox", async (t) => {
  const [TAB, ENTER, SPACE] = ["\ue004", "\ue007", "\ue00d"];
  const { user, url } = await start(t);
  const firefox = await Firefox.start();
  t.after(() => firefox.stop());
  await firefox.goto(url);
  await firefox.waitFor(`return document.activeElement.id === "user";`);
  await firefox.waitFor(`return !document.getElementById("stay-field").hidden;`);
  await firefox.keys(...user, TAB, ...PASSWORD, TAB, SPACE, ENTER);
  const desktop = `return page.thinc && page.document.getElementById("state")?.hidden;`;
  await firefox.waitFor(desktop);
  // A browser that has nothing of its login any more but the key.
  await firefox.run(`window.localStorage.clear();`);
  await firefox.goto(url);
  const listed = `return [...document.querySelectorAll("button")]
    .some((button) => button.getAttribute("aria-label") === "Open desk");`;
  await firefox.waitFor(listed);
  await firefox.goto(`${url}desk/desk/`);
  await firefox.waitFor(desktop);
});
