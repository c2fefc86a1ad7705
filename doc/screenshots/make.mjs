#!/usr/bin/env node
// Takes the README's pictures: sessions with real programs, shown by thinc's own viewers.
// Usage: doc/screenshots/make.mjs [FOLDER], not as root, because programs warn root in red. Needs
// what `./dev build` makes, npm's packages in web/, and the Debian packages xfce4 xfce4-terminal
// openbox mousepad libreoffice-writer libreoffice-gtk3 chromium xdotool x11-xserver-utils pngquant.
// Knows programs and the places of their windows. The desktop around a viewer's window is a session
// too: `thinc-view --headless --screenshot` writes its picture.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { openTab, PHONE, startChromium } from "../../web/test/chromium.mjs";

const { chromium } = createRequire(new URL("../../web/", import.meta.url))("playwright-core");
const root = fileURLToPath(new URL("../../", import.meta.url));
const target = process.env.THINC_BIN_DIR ?? join(root, "target/release");
const out = process.argv[2] ?? dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "thinc-screenshots-"));
const running = [];

// Empty folders of a user, without the caller's desktop settings.
function environment(name) {
  const home = join(folder, name);
  for (const part of ["run", ".config", "Documents"])
    mkdirSync(join(home, part), { recursive: true, mode: 0o700 });
  const { WAYLAND_DISPLAY, DISPLAY, XAUTHORITY, DBUS_SESSION_BUS_ADDRESS, ...clean } = process.env;
  for (const key of Object.keys(clean)) if (key.startsWith("XDG_")) delete clean[key];
  return {
    ...clean,
    HOME: home,
    XDG_RUNTIME_DIR: join(home, "run"),
    LANG: "C.UTF-8",
    NO_AT_BRIDGE: "1",
    GSETTINGS_BACKEND: "keyfile",
  };
}

class Desktop {
  constructor(name, size, ...command) {
    this.name = name;
    this.env = environment(name);
    this.start = () => {
      const ready = join(this.env.HOME, "ready.json");
      this.thinc(
        "serve",
        "--detach",
        "--name",
        name,
        "--size",
        size,
        "--ready-json",
        ready,
        "--",
        ...command,
      );
      const { display, xauthority } = JSON.parse(readFileSync(ready, "utf8"));
      this.inside = { ...this.env, DISPLAY: display, XAUTHORITY: xauthority };
      running.push(() => this.thinc("stop", name));
      return this;
    };
  }

  file(path, text) {
    mkdirSync(dirname(join(this.env.HOME, path)), { recursive: true });
    writeFileSync(join(this.env.HOME, path), text);
    return join(this.env.HOME, path);
  }

  thinc(...words) {
    return execFileSync(join(target, "thinc"), words, {
      env: this.env,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
  }

  link(...options) {
    return this.thinc("link", ...options, this.name).trim();
  }

  run(program, ...words) {
    const child = spawn(program, words, { env: this.inside, stdio: "ignore" });
    running.push(() => child.kill());
    return child;
  }

  xdotool(...words) {
    return execFileSync("xdotool", words.map(String), {
      env: this.inside,
      encoding: "utf8",
      timeout: 60_000,
      stdio: ["ignore", "pipe", "ignore"],
    });
  }

  /**
   * The window with this in its title, once it exists. xdotool fails if a window closes while it
   * searches.
   */
  window(title, tries = 20) {
    try {
      return this.xdotool("search", "--sync", "--onlyvisible", "--name", title)
        .trim()
        .split("\n")
        .at(-1);
    } catch (error) {
      if (tries === 0) throw error;
      return this.window(title, tries - 1);
    }
  }

  place(title, x, y, width, height) {
    const window = this.window(title);
    this.xdotool("windowsize", window, width, height, "windowmove", window, x, y);
    this.xdotool("windowactivate", "--sync", window);
  }

  /** The last answer of a viewer of this desktop to these script lines. */
  ask(...lines) {
    const words = [this.link("--native"), "--headless", "--timeout", "60", "--script", "-"];
    const answers = execFileSync(join(target, "thinc-view"), words, {
      env: this.env,
      encoding: "utf8",
      input: lines.join("\n"),
    });
    return answers.trim().split("\n").at(-1);
  }

  /** Takes a picture when the screen is at rest. */
  picture(name) {
    const path = join(folder, name);
    const words = [
      this.link("--native"),
      "--headless",
      "--timeout",
      "60",
      "--when-quiet",
      "--screenshot",
      path,
    ];
    execFileSync(join(target, "thinc-view"), words, {
      env: this.env,
      stdio: ["ignore", "inherit", "inherit"],
    });
    save(path, name);
  }
}

/** 256 colours are enough for desktops, and need a quarter of the bytes. */
function save(path, name) {
  execFileSync("pngquant", [
    "--force",
    "--strip",
    "--speed",
    "1",
    "--output",
    join(out, name),
    "256",
    path,
  ]);
}

const MEMO = `A desktop that is somewhere else

What you see here is drawn by programs on another machine. Each of them
draws as it always did; a driver under the X server sees what it draws,
and what changed on the screen is sent as small commands.

  * text is never blurred, however slow the link
  * what you type is answered before anything else is sent
  * a dropped connection ends nothing: come back and go on
`;

const PARAGRAPHS = [
  ["Title", "Notes on a remote display"],
  [
    "Text",
    "A thin client is only as good as its slowest moment. Users do not wait for bandwidth but " +
      "for a response: the character that was typed, the menu that was opened, the page that " +
      "was turned.",
  ],
  ["H", "What travels"],
  [
    "Text",
    "Most of what applications paint was there before. What is left after comparing is sent as " +
      "copies, fills, patterns and text; on a slow path photographs are lossy at first, and " +
      "refreshed as soon as they rest.",
  ],
  ["H", "What does not"],
  [
    "Text",
    "Nothing stale is ever sent. Pixels are read when they are sent and not when drawn, " +
      "so a viewer that was away for a while sees the present and not the past.",
  ],
];

const paragraph = ([style, text]) =>
  style === "H"
    ? `<text:h text:outline-level="1">${text}</text:h>`
    : `<text:p text:style-name="${style === "Title" ? style : "Text_20_body"}">${text}</text:p>`;

const document = `<?xml version="1.0" encoding="UTF-8"?>
<office:document xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
  xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"
  office:version="1.3" office:mimetype="application/vnd.oasis.opendocument.text">
<office:body><office:text>
${PARAGRAPHS.map(paragraph).join("\n")}
</office:text></office:body></office:document>`;

// A calm background, and a panel without the user's name and the missing loudspeaker.
const xfce = (channel, body) =>
  `<?xml version="1.0" encoding="UTF-8"?>\n` +
  `<channel name="${channel}" version="1.0">${body}</channel>\n`;
const property = (name, type, value, inner = "") => {
  const given = value === undefined ? "" : ` value="${value}"`;
  return `<property name="${name}" type="${type}"${given}>${inner}</property>`;
};
const numbers = (...values) =>
  values.map((value) => `<value type="int" value="${value}"/>`).join("");
const colour = (...parts) => parts.map((part) => `<value type="double" value="${part}"/>`).join("");

function dress(desktop) {
  const settings = (channel, body) =>
    desktop.file(`.config/xfce4/xfconf/xfce-perchannel-xml/${channel}.xml`, xfce(channel, body));
  settings(
    "xfce4-desktop",
    property("desktop-icons", "empty", undefined, property("style", "int", 0)) +
      property(
        "backdrop",
        "empty",
        undefined,
        property(
          "screen0",
          "empty",
          undefined,
          property(
            "monitorTHINC-0",
            "empty",
            undefined,
            property(
              "workspace0",
              "empty",
              undefined,
              property("color-style", "int", 2) +
                property("image-style", "int", 0) +
                property("rgba1", "array", undefined, colour(0.07, 0.3, 0.36, 1)) +
                property("rgba2", "array", undefined, colour(0.16, 0.55, 0.56, 1)),
            ),
          ),
        ),
      ),
  );
  settings(
    "xfce4-panel",
    property("configver", "int", 2) +
      property(
        "panels",
        "array",
        undefined,
        numbers(1) +
          property("dark-mode", "bool", true) +
          property(
            "panel-1",
            "empty",
            undefined,
            property("position", "string", "p=6;x=0;y=0") +
              property("length", "uint", 100) +
              property("position-locked", "bool", true) +
              property("icon-size", "uint", 16) +
              property("size", "uint", 28) +
              property("plugin-ids", "array", undefined, numbers(1, 2, 3, 4)),
          ),
      ) +
      property(
        "plugins",
        "empty",
        undefined,
        property("plugin-1", "string", "applicationsmenu") +
          property("plugin-2", "string", "tasklist") +
          property(
            "plugin-3",
            "string",
            "separator",
            property("expand", "bool", true) + property("style", "uint", 0),
          ) +
          property(
            "plugin-4",
            "string",
            "clock",
            property("digital-layout", "uint", 3) +
              property("digital-time-format", "string", "%H:%M"),
          ),
      ),
  );
  // No tip of the day, no sidebar.
  desktop.file(
    ".config/libreoffice/4/user/registrymodifications.xcu",
    `<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry"
  xmlns:xs="http://www.w3.org/2001/XMLSchema">
${[
  ["Office.Common/Misc", "ShowTipOfTheDay", "false"],
  ["Setup/Product", "LastTimeDonateShown", "4000000000"],
  ["Setup/Product", "LastTimeGetInvolvedShown", "4000000000"],
  ["Setup/Product", "ooSetupLastVersion", "99.0"],
  [
    "Setup/Office/Factories/org.openoffice.Setup:Factory['com.sun.star.text.TextDocument']",
    "ooSetupFactoryWindowAttributes",
    "20,60,720,620;1;0,0,0,0;",
  ],
]
  .map(
    ([path, name, value]) =>
      `<item oor:path="/org.openoffice.${path}"><prop oor:name="${name}" oor:op="fuse">` +
      `<value>${value}</value></prop></item>`,
  )
  .join("\n")}
</oor:items>`,
  );
  desktop.file(
    ".config/glib-2.0/settings/keyfile",
    "[org/xfce/mousepad/preferences/window]\npath-in-title=false\n",
  );
  desktop.file(
    ".bashrc",
    "PS1='\\[\\e[1;36m\\]alex@server\\[\\e[0m\\]:\\w\\$ '\ncd ~/Documents\nclear\nls\nthinc list\n",
  );
}

async function main() {
  const work = new Desktop("work", "1240x740", "startxfce4");
  dress(work);
  const memo = work.file("Documents/memo.txt", MEMO);
  const notes = work.file("Documents/notes.fodt", document);
  work.env.PATH = `${target}:${work.env.PATH}`;
  work.start();
  work.window("xfce4-panel");
  work.run("soffice", "--writer", "--norestore", notes);
  work.place("notes", 24, 56, 720, 640);
  // Its window is raised once more when the page is complete.
  work.ask("wait-pixel 300 620 ffffff", "wait-quiet");
  work.run("mousepad", memo);
  work.run(
    "xfce4-terminal",
    "--hide-menubar",
    "--title",
    "Terminal",
    "--font",
    "DejaVu Sans Mono 10",
  );
  work.place("memo.txt", 530, 96, 670, 320);
  work.place("Terminal", 520, 480, 660, 190);

  // In a window on a local desktop.
  const local = new Desktop("local", "1360x850", "openbox").start();
  local.run("xsetroot", "-solid", "#8fa3ad");
  const view = local.run(join(target, "thinc-view"), work.link("--native"), "--size", "1240x740");
  local.place("work", 60, 40, 1240, 740);
  local.picture("window.png");
  view.kill();

  // In a browser that trusts the session's key.
  const link = work.link();
  const key = Buffer.from(
    new URLSearchParams(new URL(link).hash.slice(1)).get("k"),
    "base64url",
  ).toString("base64");
  const browser = await chromium.launchPersistentContext(join(folder, "chromium"), {
    executablePath: "/usr/bin/chromium",
    headless: false,
    viewport: null,
    env: local.inside,
    ignoreDefaultArgs: ["--enable-automation"],
    args: [
      "--disable-gpu",
      "--disable-sync",
      "--test-type",
      `--ignore-certificate-errors-spki-list=${key}`,
      "--window-position=20,12",
      "--window-size=1320,800",
    ],
  });
  running.push(() => browser.close());
  const tab = browser.pages()[0];
  await tab.goto(link);
  // The page's menu is shown once.
  await tab.locator("#menu.open").waitFor();
  await tab.locator("#menu:not(.open)").waitFor({ state: "attached" });
  await tab.evaluate(() =>
    Promise.all(document.getAnimations().map((animation) => animation.finished)),
  );
  // On the panel, where the click only takes the focus from the address bar.
  await tab.mouse.click(1000, 12);
  local.picture("browser.png");
  await browser.close();

  // On a phone.
  const phone = await startChromium();
  running.push(() => phone.close());
  const page = await openTab(phone, {
    ...PHONE,
    viewport: { width: 390, height: 700 },
    deviceScaleFactor: 2,
  });
  await page.goto(work.link());
  // The session takes this screen's size; its windows are placed to fit.
  await page.waitForFunction(
    () => document.querySelector("#screen").width === innerWidth * devicePixelRatio,
  );
  work.place("memo.txt", 20, 60, 730, 260);
  work.place("Terminal", 20, 390, 740, 780);
  work.ask("move 400 700", "type thinc help\\n", "wait-quiet");
  await page.locator("#handle-keyboard").tap();
  await page.locator("#keyrow").waitFor();
  await page.evaluate(() =>
    Promise.all(document.getAnimations().map((animation) => animation.finished)),
  );
  work.ask("wait-quiet");
  const shot = join(folder, "phone.png");
  await page.screenshot({ path: shot });
  save(shot, "phone.png");
}

try {
  await main();
} finally {
  for (const end of running.reverse()) await end();
  // A program that ends may still write its settings.
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
}
