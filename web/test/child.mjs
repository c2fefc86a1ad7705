// Ends a program that a test has started, and removes what it has written, in any case and in time.
// Used by session.mjs and firefox.mjs.

import { once } from "node:events";
import { rmSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";

/** Asks it to end, and makes it end after `ms`: false where that was needed. */
export async function endChild(child, ms = 20_000) {
  let asked = true;
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) {
    const ended = once(child, "exit");
    const timer = setTimeout(() => {
      asked = false;
      child.kill("SIGKILL");
    }, ms);
    child.kill("SIGTERM");
    await ended;
    clearTimeout(timer);
  }
  // What it has started may hold the other ends still, and nobody would ever stop reading.
  for (const stream of child.stdio) stream?.destroy();
  return asked;
}

/** Removes a folder that a program's own children may still write to, for they end after it: what they add is removed too. */
export async function removeFolder(path, ms = 10_000) {
  for (const end = performance.now() + ms; ; ) {
    try {
      return rmSync(path, { recursive: true, force: true });
    } catch (error) {
      if (error.code !== "ENOTEMPTY" || performance.now() > end) throw error;
      await after(50);
    }
  }
}
