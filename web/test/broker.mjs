// A broker with an account for the tests of its pages, and what these do in a page. Makes an
// account and removes it, so it needs root. Knows processes; never what a test looks for.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { endChild } from "./child.mjs";
import { isConnected } from "./opened.mjs";
import { fileHas } from "./session.mjs";

const tree = (path) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const THINC = process.env.THINC_BIN ?? tree("target/release/thinc");
const DRIVER = process.env.THINC_DRIVER_DIR ?? tree("driver/build");
export const PASSWORD = "correct horse 8";

export const skip = process.getuid() === 0 ? false : "it makes an account, which needs root";
/** Checks a page against the rules of WCAG; its text runs inside the page. */
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let accounts = 0;

/**
 * A broker, and an account whose desktop is a terminal that writes what is typed to a file. What
 * everybody reads before a login is this banner; its figures are at this port. `lines` are further
 * ones of its configuration, `own` is its own environment.
 */
export async function start(t, banner, metrics, lines = "", own = {}) {
  const folder = mkdtempSync(join(tmpdir(), "thinc-web-broker-"));
  chmodSync(folder, 0o755);
  accounts += 1;
  const user = `tw${process.pid}x${accounts}`;
  // libpam reads names in lower case.
  const service = join("/etc/pam.d", basename(folder).toLowerCase());
  const run = (program, ...words) => execFileSync(program, words, { stdio: "pipe" });
  t.after(() => {
    try {
      // The supervisor ends all that the desktop consists of.
      run("pkill", "--signal", "TERM", "--uid", user);
    } catch {
      // There is none.
    }
    try {
      while (run("pgrep", "--uid", user).length > 0) run("sleep", "0.05");
    } catch {
      // All have ended.
    }
    const uid = run("id", "-u", user).toString().trim();
    rmSync(`/tmp/thinc-${uid}`, { recursive: true, force: true });
    run("userdel", "--remove", "--force", user);
    rmSync(service, { force: true });
    rmSync(folder, { recursive: true, force: true });
  });
  mkdirSync(join(folder, "home"), { mode: 0o755 });
  mkdirSync(join(folder, "bin"), { mode: 0o755 });
  run("useradd", "--create-home", "--shell", "/bin/sh", "--base-dir", join(folder, "home"), user);
  execFileSync("chpasswd", { input: `${user}:${PASSWORD}\n` });
  cpSync(THINC, join(folder, "bin/thinc"));
  cpSync(join(DRIVER, "thinc_drv.so"), join(folder, "bin/thinc_drv.so"));
  const typed = join(folder, "home", user, "typed");
  const script = `#!/bin/sh\nexec xterm -geometry 300x100 -u8 -e sh -c 'cat > ${typed}'\n`;
  writeFileSync(join(folder, "bin/desk"), script, { mode: 0o755 });
  symlinkSync("desk", join(folder, "bin/x-session-manager"));
  const environment = join(folder, "environment");
  writeFileSync(environment, `PATH=${join(folder, "bin")}:/usr/bin:/bin\n`);
  // Some containers forbid to set the login's user id (doc/hosting.md).
  const rules = readFileSync(tree("packaging/host/pam"), "utf8").replace(
    "required  pam_loginuid.so",
    "optional  pam_loginuid.so",
  );
  writeFileSync(service, `${rules}session required pam_env.so envfile=${environment}\n`);

  const words = ["broker", "--listen", "127.0.0.1:0", "--front-user", "nobody"];
  words.push("--pam-service", basename(service), "--state", join(folder, "state"));
  const bannerFile = join(folder, "banner");
  const config =
    (banner === undefined ? "" : `banner = "${bannerFile}"\n`) +
    (metrics === undefined ? "" : `metrics = "127.0.0.1:${metrics}"\n`) +
    lines;
  if (banner !== undefined) writeFileSync(bannerFile, banner);
  writeFileSync(join(folder, "broker.toml"), config);
  words.push("--config", join(folder, "broker.toml"));
  const out = join(folder, "out");
  writeFileSync(out, "");
  const broker = spawn(
    "sh",
    ["-c", 'exec "$@" > "$0" 2>&1', out, join(folder, "bin/thinc"), ...words],
    {
      env: { ...process.env, THINC_DRIVER_DIR: join(folder, "bin"), ...own },
      stdio: "ignore",
    },
  );
  t.after(() => endChild(broker));
  const [, address] = await fileHas(out, (text) => /listens on (\S+);/.exec(text));
  /** Kills the one process of this user whose command line has these words; returns its id. */
  const kill = (owner, words) => {
    // The front is a child of this broker; others may run beside it.
    const parent = owner === "nobody" ? ["--parent", String(broker.pid)] : [];
    const found = run("pgrep", ...parent, "--uid", owner, "--full", words)
      .toString()
      .trim()
      .split("\n");
    assert.equal(found.length, 1, `${words}: ${found}`);
    process.kill(Number(found[0]), "SIGKILL");
    return Number(found[0]);
  };
  /** Runs thinc as this user; returns what it prints. */
  const thinc = (...words) =>
    run(
      "runuser",
      "-u",
      user,
      "--",
      "env",
      "-u",
      "XDG_RUNTIME_DIR",
      join(folder, "bin/thinc"),
      ...words,
    )
      .toString()
      .trim();
  return { user, typed, url: `https://${address}/`, kill, thinc };
}

export async function logIn(page, user, password) {
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.keyboard.press("Enter");
}

/** What a screen reader, a keyboard or weak eyes could not use of this page, or of a part of it. */
export async function barriers(page, within = "html") {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate((within) => window.axe.run(within), within);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

/** Waits until the page shows a desktop, with all of its pixels. */
export async function shown(page) {
  await page.waitForURL(/\/desk\/desk\/$/);
  await isConnected(page);
  await page.evaluate(() => window.thinc.quiet());
}
