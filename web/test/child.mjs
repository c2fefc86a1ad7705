// Ends a program that a test has started, in any case and in time.
// Used by session.mjs and firefox.mjs.

import { once } from "node:events";

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
