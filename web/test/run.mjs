// Runs the files of tests one after the other, each for a limited time: what hangs is ended with all it has started, and fails.
// `npm test`; behind `--`, words, of which a file's name has to hold one.
// Knows processes; never what a test does. Of each file the test runner of Node prints what passed and what failed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));

/** 4 min: several times what the longest file takes on two cores, and less than what ./dev gives all of them together. */
const FILE_MS_MAX = Number(process.env.THINC_WEB_TEST_MS ?? 240_000);

// What says soonest what is wrong comes first: no browser, then one with a session that a test makes up, then real ones.
const FILES = ["golden", "keymap", "view", "transport", "page", "video", "zoom", "clipboard", "touch", "reconnect", "reload", "keyboard", "copying", "browser", "webtransport", "firefox"];

function files(words) {
  const all = readdirSync(HERE).filter((name) => name.endsWith(".test.mjs")).map((name) => basename(name, ".test.mjs"));
  // One that nobody has given a place here is run all the same.
  const inOrder = [...FILES.filter((name) => all.includes(name)), ...all.filter((name) => !FILES.includes(name))];
  return inOrder.filter((name) => words.length === 0 || words.some((word) => name.includes(word)));
}

/** Every process there is, by its id: its parent and its session. */
function processes() {
  const found = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      // Behind the name, which may hold anything: state, parent, group, session.
      const [, parent, , session] = readFileSync(`/proc/${pid}/stat`, "latin1").replace(/^.*\) /s, "").split(" ");
      found.set(Number(pid), { parent: Number(parent), session: Number(session) });
    } catch {
      // It has ended.
    }
  }
  return found;
}

/** Ends a process, what it started and what those did, those too that have made a session of their own. */
function endAll(first) {
  const all = processes();
  const ours = new Set([first]);
  for (let before = 0; before < ours.size; ) {
    before = ours.size;
    for (const [pid, { parent, session }] of all) if (ours.has(parent) || session === first) ours.add(pid);
  }
  for (const pid of ours) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

/** The file that is run now. */
let running;

// It has a session of its own, so a Ctrl-C does not reach it.
for (const [signal, number] of [["SIGINT", 2], ["SIGTERM", 15]]) {
  process.on(signal, () => {
    if (running !== undefined) endAll(running);
    process.exit(128 + number);
  });
}

/** Whether all of it passed in time. */
async function run(name) {
  const begun = performance.now();
  // A session of its own, by which what it started is found after its parents have ended.
  const file = spawn(process.execPath, [join(HERE, `${name}.test.mjs`)], { stdio: ["ignore", "inherit", "inherit"], detached: true });
  running = file.pid;
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endAll(file.pid);
  }, FILE_MS_MAX);
  const [code, signal] = await once(file, "exit");
  clearTimeout(timer);
  running = undefined;
  const seconds = Math.round((performance.now() - begun) / 1000);
  if (late) console.log(`not ok - ${name}.test.mjs did not end in ${FILE_MS_MAX / 1000} s: it and all that it had started were ended\n# fail 1`);
  else if (code !== 0) console.log(`not ok - ${name}.test.mjs ended with ${signal ?? code} after ${seconds} s`);
  else console.log(`# ${name}.test.mjs took ${seconds} s`);
  return !late && code === 0;
}

const chosen = files(process.argv.slice(2));
if (chosen.length === 0) throw new Error("no file of tests has such a name");
const failed = [];
for (const name of chosen) if (!(await run(name))) failed.push(name);
console.log(failed.length === 0 ? `# all ${chosen.length} files passed` : `# failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
