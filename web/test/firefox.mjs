// Starts the system's Firefox without a display and drives it by Marionette, the protocol under its
// WebDriver.
// Used by firefox.test.mjs; THINC_FIREFOX names another binary.
// Each message is "LENGTH:JSON" on a TCP connection.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { endChild, removeFolder } from "./child.mjs";
import { fileHas } from "./session.mjs";

const BINARY = process.env.THINC_FIREFOX ?? "/usr/bin/firefox-esr";
const START_MS_MAX = 120_000;
const CONNECT_MS_MAX = 120_000;
/** A script has 120 s in the page, and nothing takes longer. */
const ANSWER_MS_MAX = 150_000;

// No network access except for the page's own, and no pages of Firefox itself.
const PREFERENCES = {
  "marionette.port": 0,
  "app.update.auto": false,
  "app.normandy.enabled": false,
  "browser.safebrowsing.malware.enabled": false,
  "browser.safebrowsing.phishing.enabled": false,
  "browser.shell.checkDefaultBrowser": false,
  "browser.startup.page": 0,
  "browser.aboutwelcome.enabled": false,
  "captivedetect.canonicalURL": "",
  // There is no touch screen, but the page may believe so.
  "dom.w3c_touch_events.enabled": 1,
  // Its microphone is a tone, which needs no answer of a person.
  "media.navigator.streams.fake": true,
  "media.navigator.permission.disabled": true,
  "datareporting.policy.dataSubmissionEnabled": false,
  "extensions.update.enabled": false,
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "toolkit.telemetry.enabled": false,
  "services.settings.server": "",
};

export class Firefox {
  #id = 0;
  #answers = new Map();
  #bytes = Buffer.alloc(0);

  /** With these environment variables in addition. */
  static async start(env = {}) {
    assert.ok(
      existsSync(BINARY),
      `no Firefox at ${BINARY}: apt-get install firefox-esr, or set THINC_FIREFOX`,
    );
    const firefox = new Firefox();
    firefox.profile = mkdtempSync(join(tmpdir(), "thinc-firefox-"));
    const lines = Object.entries(PREFERENCES).map(
      ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});`,
    );
    writeFileSync(join(firefox.profile, "user.js"), lines.join("\n"));
    const options = ["--headless", "--marionette", "--no-remote", "--profile", firefox.profile];
    firefox.process = spawn(BINARY, options, {
      stdio: "ignore",
      env: { ...process.env, HOME: firefox.profile, ...env },
    });
    try {
      await firefox.#connect();
    } catch (error) {
      await firefox.stop(); // no caller has it yet
      throw error;
    }
    return firefox;
  }

  async #connect() {
    const port = await fileHas(
      join(this.profile, "MarionetteActivePort"),
      (text) => Number(text) || undefined,
      START_MS_MAX,
    );
    this.socket = connect(port, "127.0.0.1");
    this.socket.on("data", (bytes) => this.#take(bytes));
    this.socket.on("error", () => undefined);
    this.socket.on("close", () => {
      for (const { reject, command } of this.#answers.values())
        reject(new Error(`${command}: Firefox has gone`));
      this.#answers.clear();
    });
    await once(this.socket, "connect", { signal: AbortSignal.timeout(CONNECT_MS_MAX) });
    await this.call("WebDriver:NewSession", {
      acceptInsecureCerts: true,
      timeouts: { script: 120_000 },
    });
  }

  call(command, parameters = {}) {
    this.#id += 1;
    const text = JSON.stringify([0, this.#id, command, parameters]);
    this.socket.write(`${Buffer.byteLength(text)}:${text}`);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`${command}: no answer in ${ANSWER_MS_MAX / 1000} s`)),
        ANSWER_MS_MAX,
      );
      const settled = (settle) => (result) => {
        clearTimeout(timer);
        settle(result);
      };
      this.#answers.set(this.#id, { resolve: settled(resolve), reject: settled(reject), command });
    });
  }

  goto(url) {
    return this.call("WebDriver:Navigate", { url });
  }

  /**
   * Runs the body of an async function, in which `page` is the page's window; returns its result.
   */
  async run(body, ...args) {
    const script = `const done = arguments[arguments.length - 1];
      const page = window.wrappedJSObject ?? window;
      (async (...args) => { ${body} })(...arguments)
        .then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const { value } = await this.call("WebDriver:ExecuteAsyncScript", { script, args });
    // Firefox mostly reports that the page was unloaded; sometimes it only answers null.
    if (value === null) throw new Error("the page was unloaded while the script ran");
    if (value.error !== undefined) throw new Error(value.error);
    return value.value;
  }

  /** Runs the script in each frame of the page, and of the next page, until it returns a value. */
  async waitFor(body) {
    for (;;) {
      try {
        return await this.run(`for (;;) {
          const value = await (async () => { ${body} })();
          if (value) return value;
          await new Promise((resolve) => window.requestAnimationFrame(resolve));
        }`);
      } catch (error) {
        if (!error.message.includes("unloaded")) throw error;
      }
    }
  }

  /** Keys as in WebDriver: characters, and named keys from U+E000 on. */
  async keys(...keys) {
    const actions = keys.flatMap((key) => [
      ...[...key].map((value) => ({ type: "keyDown", value })),
      ...[...key].reverse().map((value) => ({ type: "keyUp", value })),
    ]);
    await this.call("WebDriver:PerformActions", {
      actions: [{ type: "key", id: "keyboard", actions }],
    });
  }

  /**
   * A finger by its actions: [x, y] moves it there, "down", "up", or milliseconds to rest. This
   * Firefox makes pointer events of one finger only.
   */
  async finger(...steps) {
    const step = (what) => {
      if (what === "down" || what === "up")
        return { type: what === "down" ? "pointerDown" : "pointerUp", button: 0 };
      if (typeof what === "number") return { type: "pause", duration: what };
      return { type: "pointerMove", x: what[0], y: what[1], duration: 0, origin: "viewport" };
    };
    const finger = {
      type: "pointer",
      id: "finger",
      parameters: { pointerType: "touch" },
      actions: steps.map(step),
    };
    await this.call("WebDriver:PerformActions", { actions: [finger] });
  }

  async screenshot() {
    const { value } = await this.call("WebDriver:TakeScreenshot", { full: false });
    return Buffer.from(value, "base64");
  }

  async stop() {
    this.socket?.destroy();
    await endChild(this.process);
    await removeFolder(this.profile);
  }

  #take(bytes) {
    this.#bytes = Buffer.concat([this.#bytes, bytes]);
    for (;;) {
      const colon = this.#bytes.indexOf(":");
      const length = Number(this.#bytes.toString("latin1", 0, Math.max(0, colon)));
      if (colon < 0 || this.#bytes.length < colon + 1 + length) return;
      const message = JSON.parse(this.#bytes.toString("utf8", colon + 1, colon + 1 + length));
      this.#bytes = this.#bytes.subarray(colon + 1 + length);
      if (!Array.isArray(message)) continue; // the greeting
      const [, id, error, result] = message;
      const { resolve, reject, command } = this.#answers.get(id);
      this.#answers.delete(id);
      if (error) reject(new Error(`${command}: ${error.message}`));
      else resolve(result);
    }
  }
}
