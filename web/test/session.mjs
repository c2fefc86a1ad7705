// Starts a real session for a test, with folders of its own, and reads its X screen.
// Used by browser.test.mjs; THINC_BIN names the program, by default target/release/thinc.
// Ends everything it started, by process id.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { endChild, removeFolder } from "./child.mjs";

const THINC =
  process.env.THINC_BIN ?? fileURLToPath(new URL("../../target/release/thinc", import.meta.url));
const START_MS_MAX = 120_000;
/** For programs that block this thread, and with it the time limits of tests. */
const TOOL = { timeout: 120_000, killSignal: "SIGKILL" };

/** Waits until `matches` accepts a file's text; returns its result. */
export async function fileHas(path, matches, ms = 120_000) {
  const read = () => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      return "";
    }
  };
  const enough = new AbortController();
  const timer = setTimeout(() => enough.abort(), ms);
  const changes = watch(dirname(path), { signal: enough.signal });
  try {
    // The watch begins with the first next(), so the file is read after that, and after each
    // change.
    for (let change = changes.next(); ; change = changes.next()) {
      const found = matches(read());
      if (found) {
        change.catch(() => undefined);
        return found;
      }
      await change;
    }
  } catch (error) {
    if (!enough.signal.aborted) throw error;
    assert.fail(`${basename(path)} has only ${JSON.stringify(read())} after ${ms} ms`);
  } finally {
    clearTimeout(timer);
    enough.abort();
  }
}

/**
 * Before a script in a terminal: it goes on once the terminal has answered a request for the
 * cursor's position. Then the window is mapped, and the terminal reads keys.
 */
const AWAIT_TERMINAL =
  'modes=$(stty -g); stty raw -echo; printf "\\033[6n"; head -c 6 > "$1.terminal"; ' +
  'stty "$modes"; : > "$1.ready"; ';

/**
 * A browser that drives a key may have it down for a second on a busy machine, as a person who
 * holds it would; X must not repeat it.
 */
const NO_REPEAT = "xset r off; ";

/** Where an xterm without borders stands in the corner of the screen. */
const XTERM = ["xterm", "-u8", "-b", "0", "-bw", "0", "-geometry", "80x24+0+0"];

function endProcess(pid) {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

export class Session {
  static async start(command, { size = "640x480", more = [] } = {}) {
    const session = new Session();
    session.folder = mkdtempSync(join(tmpdir(), "thinc-web-session-"));
    const folder = (name) => {
      mkdirSync(join(session.folder, name), { mode: 0o700 });
      return join(session.folder, name);
    };
    const [home, runtime] = [folder("home"), folder("runtime")];
    const ready = join(folder("ready"), "ready.json");
    const { WAYLAND_DISPLAY, DISPLAY, XAUTHORITY, ...clean } = process.env;
    const env = { ...clean, HOME: home, XDG_RUNTIME_DIR: runtime };
    for (const name of ["STATE", "CONFIG", "CACHE", "DATA"])
      env[`XDG_${name}_HOME`] = folder(name.toLowerCase());

    const options = [
      "serve",
      "--listen",
      "127.0.0.1:0",
      "--size",
      size,
      "--name",
      // `thinc admin` finds the sessions of other tests too.
      `webtest-${process.pid}`,
      "--ready-json",
      ready,
      // Windows are where and as large as the application asks.
      "--window-manager",
      "none",
      ...more,
    ];
    session.process = spawn(THINC, [...options, "--", ...command], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    session.log = "";
    for (const stream of [session.process.stdout, session.process.stderr])
      stream.on("data", (bytes) => (session.log += bytes));
    const ended = once(session.process, "exit").then(([code]) =>
      assert.fail(`thinc serve ended with ${code}:\n${session.log}`),
    );
    ended.catch(() => undefined); // it ends with the abort
    const parse = (text) => {
      try {
        return JSON.parse(text);
      } catch {
        return undefined; // missing, or incomplete
      }
    };
    try {
      Object.assign(session, await Promise.race([fileHas(ready, parse, START_MS_MAX), ended]));
    } catch (error) {
      await session.stop();
      throw new Error(`thinc serve did not start:\n${session.log}`, { cause: error });
    }
    session.env = { ...env, DISPLAY: session.display, XAUTHORITY: session.xauthority };
    return session;
  }

  /**
   * A session with an xterm in which `sh` runs this script, with `out`, a path, as `$1`. The script
   * runs, and keys reach it, before this returns.
   */
  static async inTerminal(script, out, options = {}) {
    const shell = ["-e", "sh", "-c", NO_REPEAT + AWAIT_TERMINAL + script, "sh", out];
    const session = await Session.start([...XTERM, ...shell], options);
    try {
      await fileHas(`${out}.ready`, () => existsSync(`${out}.ready`));
    } catch (error) {
      await session.stop();
      throw error;
    }
    return session;
  }

  /** Waits until the session process's log has this. */
  async logged(words) {
    await fileHas(join(this.folder, "state/thinc/log", this.name, "session.log"), (log) =>
      words.test(log),
    );
  }

  /** Another link, for another viewer. */
  newLink() {
    const words = execFileSync(THINC, ["link", this.name], {
      env: this.env,
      encoding: "utf8",
      ...TOOL,
    });
    const link = /https:\/\/\S+/.exec(words);
    assert.ok(link, `thinc link printed no link:\n${words}`);
    return link[0];
  }

  /** `thinc share` with these arguments; `input` is its standard input. Returns what it prints. */
  share(args, input = "") {
    return execFileSync(THINC, ["share", this.name, ...args], {
      env: this.env,
      encoding: "utf8",
      input,
      stdio: ["pipe", "pipe", "ignore"],
      ...TOOL,
    }).trim();
  }

  /** `thinc send` of these paths: what it has said, and how it has ended, once it has. */
  async send(...paths) {
    const child = spawn(THINC, ["send", "--session", this.name, ...paths], {
      env: this.env,
      stdio: ["ignore", "pipe", "pipe"],
      ...TOOL,
    });
    let words = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (bytes) => (words += bytes));
    const [code] = await once(child, "close");
    return { code, words };
  }

  /** The folder for downloads of the session's person. */
  get downloads() {
    return join(this.folder, "home/Downloads");
  }

  /** `thinc admin message` to this session's viewers; needs root. */
  message(text) {
    const to = ["--user", userInfo().username, "--session", this.name];
    execFileSync(THINC, ["admin", "message", ...to, text], { env: this.env, ...TOOL });
  }

  /** The X screen as an X client reads it: red, green, blue, 255 for each pixel. */
  screen() {
    const xwd = execFileSync("xwd", ["-root", "-silent"], {
      env: this.env,
      maxBuffer: 1 << 28,
      ...TOOL,
    });
    const field = (index) => xwd.readUInt32BE(index * 4);
    assert.equal(field(1), 7, "XWD version");
    const [width, height, littleEndian, bits, stride] = [
      field(4),
      field(5),
      field(7) === 0,
      field(11),
      field(12),
    ];
    assert.equal(bits, 32);
    const start = field(0) + field(19) * 12;
    const data = Buffer.alloc(width * height * 4, 255);
    for (let y = 0; y < height; y += 1) {
      for (let x = 0; x < width; x += 1) {
        const at = start + y * stride + x * 4;
        const pixel = littleEndian ? xwd.readUInt32LE(at) : xwd.readUInt32BE(at);
        data.writeUIntBE(pixel & 0xffffff, (y * width + x) * 4, 3);
      }
    }
    return { width, height, data };
  }

  /** Stops or continues the command and its children, so that the screen is at rest. */
  signalCommand(signal) {
    const children = (pid) =>
      readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
        .split(" ")
        .filter(Boolean)
        .flatMap((child) => [child, ...children(child)]);
    for (const pid of [String(this.pids.command), ...children(this.pids.command)])
      process.kill(Number(pid), signal);
  }

  async stop() {
    const ended = await endChild(this.process);
    if (!ended) for (const pid of Object.values(this.pids ?? {})) endProcess(pid);
    await removeFolder(this.folder);
    assert.ok(ended, `thinc serve had to be killed:\n${this.log}`);
  }
}
