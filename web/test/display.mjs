// A private X display with a window manager and real input, for browsers with a window.
// Used by relative.test.mjs, which needs keys and motion that the browser itself handles.
// Needs Xvfb, openbox and xdotool.

import { execFileSync, spawn } from "node:child_process";
import { endChild } from "./child.mjs";

const START_MS_MAX = 120_000;
const TOOL = { timeout: 120_000, killSignal: "SIGKILL" };

export class Display {
  static async start(size = "1000x800") {
    const display = new Display();
    display.server = spawn(
      "Xvfb",
      ["-displayfd", "1", "-screen", "0", `${size}x24`, "-nolisten", "tcp", "-noreset"],
      { stdio: ["ignore", "pipe", "ignore"] },
    );
    const timer = setTimeout(() => display.server.kill("SIGKILL"), START_MS_MAX);
    let number = "";
    for await (const bytes of display.server.stdout) {
      number += bytes;
      if (number.endsWith("\n")) break;
    }
    clearTimeout(timer);
    if (!number.endsWith("\n")) throw new Error("Xvfb did not start");
    display.name = `:${number.trim()}`;
    display.env = { ...process.env, DISPLAY: display.name };
    display.manager = spawn("openbox", [], { stdio: "ignore", env: display.env });
    return display;
  }

  /** xdotool with these words; returns what it prints. */
  do(...words) {
    return execFileSync("xdotool", words.map(String), {
      env: this.env,
      encoding: "utf8",
      ...TOOL,
    });
  }

  async stop() {
    await endChild(this.manager);
    await endChild(this.server);
  }
}
