// The page's menu: its entries in order, their words, which doc/using.md lists, and that a
// keyboard, fingers and screen readers reach all of it.
// Beside page.test.mjs, against the same scripted session. Needs web/dist (./dev build web),
// Chromium and axe-core.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test as nodeTest } from "node:test";
import { barriers } from "./broker.mjs";
import { chromiumForTests, PHONE } from "./chromium.mjs";
import { draw, message } from "./fake-session.mjs";
import { load } from "./modules.mjs";
import { openPage, says } from "./opened.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const browser = chromiumForTests("--enable-unsafe-swiftshader");

/** Bits of the session's hello: sound, microphone, files, printing, quality. */
const ALL = 0b1_1111_0000;
/** In the order of the menu. */
const ENTRIES = [
  ["entry-sound", "Sound"],
  ["entry-microphone", "Microphone"],
  ["entry-files", "Files"],
  ["entry-printing", "Printing"],
  ["entry-sharing", "Sharing"],
  ["entry-copying", "Copying"],
  ["entry-quality", "Quality"],
  ["menu-keyboard", "Keyboard"],
  ["menu-fullscreen", "Fullscreen"],
  ["entry-view", "View"],
  ["entry-keys", "Send keys"],
  ["menu-disconnect", "Disconnect"],
];
const WITH_PART = ENTRIES.filter(([id]) => id.startsWith("entry-"));

async function opened(t, { tab = {}, caps = ALL, size = [400, 300] } = {}) {
  const { page, viewer } = await openPage(t, browser, { tab });
  await viewer.receive((m) => m.kind === "hello");
  const [width, height] = size;
  viewer.send(message.hello("desk", caps), message.geometry(1, width, height));
  viewer.send(message.update(1, 1, [draw.fill(0, 0, width, height, 0x406080)]));
  await page.evaluate(() => window.thinc.quiet());
  viewer.received.length = 0;
  return { page, viewer };
}

const focused = (page) => page.evaluate(() => document.activeElement.id);

/** What the table of doc/using.md lists for pages, in its order: entry and words. */
function listed() {
  const using = readFileSync(new URL("../../doc/using.md", import.meta.url), "utf8").split("\n");
  const first = using.indexOf("| entry | says | where |") + 2;
  const end = using.findIndex((line, at) => at > first && !line.startsWith("|"));
  return using
    .slice(first, end)
    .map((row) => row.split("|").map((cell) => cell.trim()))
    .filter(([, , , where]) => where !== "window")
    .map(([, entry, words]) => [entry, words]);
}

test("the manual lists every state in the menu's order and words", async () => {
  const { ENTRIES: names, ...say } = await load("ui/entries.ts");
  const offers = {
    ...{ sound: true, microphone: true, files: true, printing: true },
    ...{ quality: true, stereo: true },
  };
  const none = Object.fromEntries(Object.keys(offers).map((name) => [name, false]));
  const here = { offers, isGuest: false };
  const guest = { offers: none, isGuest: true };
  const own = { isOff: false, missing: undefined };
  const sound = { ...own, failed: undefined, waits: false, muted: false, volume: 0.8, players: [] };
  const players = ["Firefox", "mpv"];
  const failed = "no device";
  const microphone = { ...own, failed: undefined, refused: false, isWanted: false, isOpen: false };
  const files = { ...own, transfers: 0 };
  const sharing = { others: [], hasControl: true };
  const states = [
    ["Sound", say.soundWords(sound, here)],
    ["Sound", say.soundWords({ ...sound, players }, here)],
    ["Sound", say.soundWords({ ...sound, waits: true }, here)],
    ["Sound", say.soundWords({ ...sound, muted: true }, here)],
    ["Sound", say.soundWords({ ...sound, failed }, here)],
    ["Sound", say.soundWords(sound, guest)],
    ["Microphone", say.microphoneWords(microphone, here)],
    ["Microphone", say.microphoneWords({ ...microphone, isWanted: true }, here)],
    ["Microphone", say.microphoneWords({ ...microphone, isWanted: true, isOpen: true }, here)],
    ["Microphone", say.microphoneWords({ ...microphone, isWanted: true, refused: true }, here)],
    ["Microphone", say.microphoneWords({ ...microphone, isWanted: true, failed }, here)],
    ["Microphone", say.microphoneWords(microphone, guest)],
    ["Files", say.filesWords(files, here)],
    ["Files", say.filesWords({ ...files, transfers: 1 }, here)],
    ["Files", say.filesWords({ ...files, transfers: 2 }, here)],
    ["Files", say.filesWords(files, guest)],
    ["Printing", say.printingWords(own, here)],
    ["Printing", say.printingWords(own, guest)],
    ["Sharing", say.sharingWords(sharing, here)],
    ["Sharing", say.sharingWords({ ...sharing, others: ["Ada", "you, elsewhere"] }, here)],
    ["Sharing", say.sharingWords({ others: ["the owner"], hasControl: false }, guest)],
    ["Sharing", say.sharingWords({ others: ["the owner"], hasControl: true }, guest)],
    ["Sharing", say.sharingWords({ others: undefined, hasControl: false }, here)],
    ...["both", "to-session", "to-viewer", "off", undefined].map((side) => [
      "Copying",
      say.copyingWords(side, here),
    ]),
    ...["auto", "exact", "high", "medium", "low"].map((chosen) => [
      "Quality",
      say.qualityWords(chosen, here),
    ]),
    ["Quality", say.qualityWords("low", guest)],
    ...["off", "anaglyph", "side-by-side", "interleaved"].map((chosen) => [
      "Stereo",
      say.stereoWords(chosen, here),
    ]),
    ["Stereo", say.stereoWords("anaglyph", guest)],
  ];
  const said = states.map(([name, { state, why }]) => [name, `${state} — ${why}`]);
  assert.deepEqual(
    said,
    listed().filter(([entry]) => entry !== "each"),
  );
  assert.deepEqual([...new Set(states.map(([name]) => name))], [...names]);

  // What all of the first four say in the same way.
  const away = { offers: undefined, isGuest: false };
  const missing = "it has no AudioWorklet";
  const reasons = [
    [{ isOff: true, missing }, away],
    [{ isOff: false, missing }, away],
    [own, { offers: none, isGuest: false }],
    [own, away],
  ].map(([side, situation]) =>
    [
      ["sound", say.soundWords({ ...sound, ...side }, situation)],
      ["microphone", say.microphoneWords({ ...microphone, ...side }, situation)],
      ["files", say.filesWords({ ...files, ...side }, situation)],
      ["printing", say.printingWords(side, situation)],
    ].map(([option, { state, why }]) =>
      `${state} — ${why}`.replace(`--${option}`, "--NAME").replace(`?${option}`, "?NAME"),
    ),
  );
  const each = listed().filter(([entry]) => entry === "each");
  assert.deepEqual(
    reasons,
    each.map(([, words]) => Array(4).fill(words)),
  );
  for (const words of [say.sharingWords(sharing, away), say.copyingWords("both", away)])
    assert.deepEqual(words, { state: "off", why: "not connected" });
  assert.deepEqual(say.qualityWords("low", away), say.qualityWords("low", here));
  assert.deepEqual(say.stereoWords("off", away), say.stereoWords("off", here));
});

test("on a desktop the menu is a line at the top edge, and three in a narrow window", async (t) => {
  for (const [width, lines] of [
    [1366, 1],
    [1280, 1],
    [400, 3],
  ]) {
    const tab = { viewport: { width, height: 300 } };
    const { page, viewer } = await openPage(t, browser, { tab });
    await viewer.receive((m) => m.kind === "hello");
    await page.keyboard.press("Control+Alt+m");
    await page.waitForFunction(() => document.activeElement.id === "entry-sound");
    // The session that opens meanwhile does not take the keyboard from the menu.
    viewer.send(message.hello("late", ALL), message.geometry(1, width, 300));
    viewer.send(message.update(1, 1, [draw.fill(0, 0, width, 300, 0x406080)]));
    viewer.send(message.clipPolicy(3));
    await page.waitForFunction(() => document.getElementById("state").hidden);
    await page.evaluate(() => window.thinc.quiet());
    assert.equal(await focused(page), "entry-sound");
    await says(page, "Copying: both directions — on all your devices");
    const { x, height, width: used } = await page.locator("#menu-panel").boundingBox();
    assert.ok(height <= lines * 40 + 12, `${height} pixels of height at ${width}`);
    assert.ok(x >= 0 && x + used <= width);
    // A part opens under it, and takes no room beside the page.
    for (const [id] of WITH_PART) {
      await page.locator(`#${id}`).click();
      const part = await page.locator("#menu-entries > section:visible").boundingBox();
      assert.ok(part.x >= 0 && part.x + part.width <= width, `${id}: ${JSON.stringify(part)}`);
      assert.ok(part.y > height - 20 && part.y + part.height <= 300, JSON.stringify(part));
    }
  }
});

test("arrows and Tab reach all of the menu, and Escape gives the keyboard back", async (t) => {
  const { page, viewer } = await opened(t, { tab: { viewport: { width: 1366, height: 768 } } });
  await page.keyboard.press("Control+Alt+m");
  await page.waitForFunction(() => document.activeElement.id === "entry-sound");
  const shown = ENTRIES.filter(([id]) => id !== "menu-keyboard").map(([id]) => id);
  for (const [key, order] of [
    ["ArrowRight", shown],
    ["ArrowUp", shown.toReversed()],
    ["Tab", shown],
    ["ArrowLeft", shown.toReversed()],
    ["ArrowDown", shown],
  ]) {
    for (const id of order) {
      assert.equal(await focused(page), id, key);
      const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
      assert.equal(ring, "solid", `the focus of ${id} is visible`);
      if (id !== order.at(-1)) await page.keyboard.press(key);
    }
  }
  await page.keyboard.press("Home");
  assert.equal(await focused(page), shown[0]);
  await page.keyboard.press("ArrowUp");
  assert.equal(await focused(page), shown[0], "it ends there");
  await page.keyboard.press("End");
  assert.equal(await focused(page), shown.at(-1));

  // Enter opens a part in place of another's; a control keeps the keys that it has a meaning for.
  for (const [id, name] of WITH_PART) {
    await page.locator(`#${id}`).press("Enter");
    const parts = page.locator("#menu-entries > section:visible");
    assert.deepEqual(await parts.evaluateAll((all) => all.map((one) => one.ariaLabel)), [name]);
    const expanded = page.locator("#menu-entries > [aria-expanded=true]");
    assert.deepEqual(await expanded.evaluateAll((all) => all.map((one) => one.id)), [id]);
  }
  await page.locator("#entry-view").press("Enter");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(page), "menu-size");
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(page), "menu-size");
  assert.equal(await page.locator("#menu-size").inputValue(), "fit");
  await page.locator("#menu-stats").press("Enter");
  await page.locator("#stats").waitFor();
  assert.equal(await page.locator("#menu-stats").getAttribute("aria-pressed"), "true");
  assert.equal(await focused(page), "menu-stats");
  // Closing the part that has the focus leaves it in the menu.
  await page.evaluate(() => document.getElementById("entry-view").click());
  assert.equal(await focused(page), "entry-view");

  viewer.received.length = 0;
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.activeElement.id === "keys");
  await page.waitForFunction(
    () => getComputedStyle(document.getElementById("menu")).visibility === "hidden",
  );
  await page.keyboard.press("x");
  await viewer.receive((m) => m.kind === "key" && m.code === 45 && !m.down);
  const keys = viewer.received.filter((m) => m.kind === "key" && ![29, 56].includes(m.code));
  assert.deepEqual(
    keys.map((m) => m.code),
    [45, 45],
    "keys typed into the menu were not sent",
  );
  assert.deepEqual(page.problems, []);
});

for (const [device, tab] of [
  ["desktop", { viewport: { width: 1366, height: 768 } }],
  ["phone", PHONE],
])
  for (const colorScheme of ["light", "dark"])
    test(`a screen reader has all of the menu, on a ${device}, ${colorScheme}`, async (t) => {
      const { page, viewer } = await opened(t, { tab: { ...tab, colorScheme } });
      const owner = { number: 1, guest: 0, control: true, pointer: true, name: "" };
      const ada = { number: 2, guest: 1, control: false, pointer: false, name: "Ada" };
      viewer.send(message.people(1, [owner, ada]), message.clipPolicy(3));
      await page.keyboard.press("Control+Alt+m");
      await says(page, "Sharing: 2 people — also here: Ada");
      assert.deepEqual(await barriers(page, "#menu"), []);
      for (const [id, name] of WITH_PART) {
        // A name tells the state, and why it is so.
        const entry = page.getByRole("button", { name: new RegExp(`^${name}(: .+ — .+)?$`) });
        assert.equal(await entry.getAttribute("id"), id);
        await entry.press("Enter");
        await page.getByRole("region", { name, exact: true }).waitFor();
        assert.deepEqual(await barriers(page, "#menu"), [], name);
      }
      assert.deepEqual(page.problems, []);
    });

test("on a phone all of the menu has room for fingers and for the page", async (t) => {
  const { page, viewer } = await opened(t, { tab: PHONE, size: [360, 640] });
  const owner = { number: 1, guest: 0, control: true, pointer: true, name: "" };
  viewer.send(message.people(1, [owner]), message.clipPolicy(3));
  await page.locator("#handle-menu").tap();
  await says(page, "Sharing: only you — nobody else sees this session");
  assert.deepEqual(
    await page.locator("#menu-entries > button:visible").evaluateAll((all) => all.map((b) => b.id)),
    ENTRIES.map(([id]) => id),
  );
  const { height } = PHONE.viewport;
  const fits = async (what) => {
    const panel = await page.locator("#menu").boundingBox();
    assert.ok(panel.x >= 0 && panel.x + panel.width <= 360, `${what}: ${JSON.stringify(panel)}`);
    assert.ok(panel.y >= 0 && panel.y + panel.height <= height, JSON.stringify(panel));
    const scrolls = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.getElementById("menu-panel");
      return scrollWidth > clientWidth || document.documentElement.scrollWidth > innerWidth;
    });
    assert.ok(!scrolls, `${what} is wider than the phone`);
    const box = "label:has(> input[type=checkbox])";
    const controls = page.locator(
      `#menu :is(button, select, input:not([type=checkbox]), ${box}):visible`,
    );
    for (const control of await controls.all()) {
      await control.scrollIntoViewIfNeeded();
      const at = await control.boundingBox();
      const name = await control.evaluate((one) => one.id || one.textContent.trim());
      assert.ok(at.height >= 44 && at.width >= 44, `${what}: ${name}: ${JSON.stringify(at)}`);
      assert.ok(at.x >= 0 && at.x + at.width <= 360, `${name}: ${JSON.stringify(at)}`);
      assert.ok(at.y >= 0 && at.y + at.height <= height, `${name}: ${JSON.stringify(at)}`);
    }
  };
  await fits("closed");
  for (const [id, name] of WITH_PART) {
    await page.locator(`#${id}`).tap();
    const part = page.locator("#menu-entries > section:visible");
    assert.equal(await part.getAttribute("aria-label"), name);
    await fits(name);
  }
  await page.locator("#handle-menu").tap();
  await page.locator("#menu-panel").waitFor({ state: "hidden" });
  assert.deepEqual(page.problems, []);
});

test("what is off says who has switched it off, or that there is no connection", async (t) => {
  const { page, viewer } = await opened(t, { caps: 0 });
  await page.keyboard.press("Control+Alt+m");
  for (const name of ["Sound", "Microphone", "Files", "Printing"]) {
    await says(page, `${name}: off — by the server (--${name.toLowerCase()})`);
    await page.getByRole("button", { name: new RegExp(`^${name}`) }).press("Enter");
    const part = page.getByRole("region", { name });
    const words = part.getByText(`By the server (--${name.toLowerCase()}).`);
    assert.equal(await words.getAttribute("role"), "status");
    assert.equal(await part.locator(":is(button, input):visible").count(), 0);
  }
  viewer.socket.destroy();
  for (const name of ["Sound", "Microphone", "Files", "Printing", "Sharing", "Copying"])
    await says(page, `${name}: off — not connected`);
});
