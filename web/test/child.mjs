// Ends a program that a test has started, and removes its files, always and within a time limit.
// Used by session.mjs and firefox.mjs.

import { once } from "node:events";
import { rmSync } from "node:fs";
import { setTimeout as after } from "node:timers/promises";

/** Asks it to end, and kills it after `ms`: false if that was necessary. */
export async function endChild(child, ms = 60_000) {
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
  // Its children may still hold the other ends, and would never close them.
  for (const stream of child.stdio) stream?.destroy();
  return asked;
}

/**
 * Removes a folder to which a program's children may still write, because they end after it: what
 * they add is removed too.
 */
export async function removeFolder(path, ms = 120_000) {
  for (const end = performance.now() + ms; ; ) {
    try {
      return rmSync(path, { recursive: true, force: true });
    } catch (error) {
      if (error.code !== "ENOTEMPTY" || performance.now() > end) throw error;
      await after(50);
    }
  }
}
