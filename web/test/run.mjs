// Runs the test files, two at a time, with a time limit each: a file that hangs is ended with all
// its processes, and fails.
// `npm test`; words after `--` select files with one of them in their name.
// Knows processes; never what a test does. Node's test runner prints what passed and what failed in
// each file; a file's output is printed when it ends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));

/**
 * 8 min: several times what the longest file takes on two cores, and less than ./dev gives all of
 * them.
 */
const FILE_MS_MAX = Number(process.env.THINC_WEB_TEST_MS ?? 480_000);

/** Files that run at the same time. Browsers and sessions wait for each other most of the time. */
const FILES_AT_ONCE = 2;

// The most informative first: without a browser, then with a scripted session, then with real ones.
const FILES = [
  "golden",
  "decoder",
  "keymap",
  "view",
  "connection",
  "engine",
  "lifecycle",
  "presentation",
  "page",
  "menu",
  "video",
  "sound",
  "microphone",
  "quality",
  "stereo",
  "gamma",
  "zoom",
  "monitor",
  "clipboard",
  "touch",
  "pen",
  "reconnect",
  "reload",
  "keyboard",
  "copying",
  "files",
  "printing",
  "browser",
  "sharing",
  "webtransport",
  "broker",
  "devices",
  "firefox",
];

function files(words) {
  const all = readdirSync(HERE)
    .filter((name) => name.endsWith(".test.mjs"))
    .map((name) => basename(name, ".test.mjs"));
  // Files that are not in the list run last.
  const inOrder = [
    ...FILES.filter((name) => all.includes(name)),
    ...all.filter((name) => !FILES.includes(name)),
  ];
  return inOrder.filter((name) => words.length === 0 || words.some((word) => name.includes(word)));
}

/** All processes, by id: parent and session. */
function processes() {
  const found = new Map();
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      // After the name, which may contain anything: state, parent, group, session.
      const [, parent, , session] = readFileSync(`/proc/${pid}/stat`, "latin1")
        .replace(/^.*\) /s, "")
        .split(" ");
      found.set(Number(pid), { parent: Number(parent), session: Number(session) });
    } catch {
      // It has ended.
    }
  }
  return found;
}

/** Kills a process and all its descendants, also those with a session of their own. */
function endAll(first) {
  const all = processes();
  const ours = new Set([first]);
  for (let before = 0; before < ours.size; ) {
    before = ours.size;
    for (const [pid, { parent, session }] of all)
      if (ours.has(parent) || session === first) ours.add(pid);
  }
  for (const pid of ours) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
}

const folder = mkdtempSync(join(tmpdir(), "thinc-web-tests-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

/** Process ids of the files that are running. */
const running = new Set();

// Each has a session of its own, so Ctrl-C does not reach it.
for (const [signal, number] of [
  ["SIGINT", 2],
  ["SIGTERM", 15],
]) {
  process.on(signal, () => {
    for (const pid of running) endAll(pid);
    process.exit(128 + number);
  });
}

/**
 * Whether all tests of a file passed in time. If `mayRepeat`, what failed is not counted yet: the
 * file is run again.
 */
async function run(name, mayRepeat) {
  const begun = performance.now();
  // A session of its own, by which its descendants are found after their parents have ended.
  // Its output goes to a file: a descendant that outlives it would keep a pipe open.
  const outputPath = join(folder, name);
  const output = openSync(outputPath, "w");
  const file = spawn(process.execPath, [join(HERE, `${name}.test.mjs`)], {
    stdio: ["ignore", output, output],
    detached: true,
  });
  closeSync(output);
  running.add(file.pid);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    endAll(file.pid);
  }, FILE_MS_MAX);
  const [code, signal] = await once(file, "exit");
  clearTimeout(timer);
  running.delete(file.pid);
  const seconds = Math.round((performance.now() - begun) / 1000);
  const failed = late || code !== 0;
  const text = readFileSync(outputPath, "utf8");
  process.stdout.write(
    failed && mayRepeat ? text.replace(/^# (pass|fail) /gm, "# at first: $1 ") : text,
  );
  if (late && mayRepeat) console.log(`${name}.test.mjs did not end in time`);
  else if (late)
    console.log(
      `not ok - ${name}.test.mjs did not end within ${FILE_MS_MAX / 1000} s; ` +
        "it was ended with all processes that it started\n# fail 1",
    );
  else if (code !== 0)
    console.log(`not ok - ${name}.test.mjs ended with ${signal ?? code} after ${seconds} s`);
  else console.log(`# ${name}.test.mjs took ${seconds} s`);
  return !failed;
}

const chosen = files(process.argv.slice(2));
if (chosen.length === 0) throw new Error("no test file has such a name");
const waiting = [...chosen];
const toRepeat = [];
async function runNext() {
  for (let name = waiting.shift(); name !== undefined; name = waiting.shift())
    if (!(await run(name, true))) toRepeat.push(name);
}
await Promise.all(Array.from({ length: FILES_AT_ONCE }, runNext));
// Alone: what passes then is flaky. ./dev test names those, and bounds how many there may be.
const failed = [];
for (const name of toRepeat) {
  if (await run(name, false)) console.log(`flaky: ${name}.test.mjs`);
  else failed.push(name);
}
console.log(
  failed.length === 0 ? `# all ${chosen.length} files passed` : `# failed: ${failed.join(", ")}`,
);
process.exitCode = failed.length === 0 ? 0 : 1;
