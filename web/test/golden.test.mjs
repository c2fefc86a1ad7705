// The WASM decoder shows what the native one shows: one session's bytes with every command and
// every encoding.
// From crates/viewer-core/tests/golden, which its own test made and decodes too, through
// dist/viewer.wasm to a checksum.
// Knows the exports of crates/viewer-web; needs no browser.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const golden = new URL("../../crates/viewer-core/tests/golden/", import.meta.url);

/** An instance with an open connection. */
async function viewer() {
  const module = await WebAssembly.compile(
    await readFile(new URL("../dist/viewer.wasm", import.meta.url)),
  );
  const { exports: calls } = await WebAssembly.instantiate(module, {});
  calls.viewer_open(0, 320, 240);
  return calls;
}

/** Delivers bytes of the stream. */
function deliver(calls, bytes) {
  // it may grow the memory, which replaces its buffer
  const at = calls.viewer_buffer(bytes.length) >>> 0;
  new Uint8Array(calls.memory.buffer, at, bytes.length).set(bytes);
  return calls.viewer_bytes(bytes.length, 0);
}

/** FNV-1a over the pixels, word by word, as in golden.rs. */
function checksum(calls) {
  const count = calls.viewer_screen_width() * calls.viewer_screen_height();
  const pixels = new Uint32Array(calls.memory.buffer, calls.viewer_screen_at() >>> 0, count);
  const sum = pixels.reduce((sum, pixel) => Math.imul(sum ^ pixel, 0x01000193), 0x811c9dc5);
  return (sum >>> 0).toString(16).padStart(8, "0");
}

test("the golden session shows the golden screen", async () => {
  const calls = await viewer();
  assert.equal(
    deliver(calls, await readFile(new URL("session", golden))),
    0,
    "the stream is well-formed",
  );
  assert.equal(checksum(calls), (await readFile(new URL("screen", golden), "utf8")).trim());
});

test("a wrong byte in a packed update ends the connection or shows another screen", async () => {
  const bytes = await readFile(new URL("session", golden));
  const screen = (await readFile(new URL("screen", golden), "utf8")).trim();
  for (const at of [0.55, 0.7, 0.85]) {
    const calls = await viewer();
    const wrong = Uint8Array.from(bytes);
    wrong[Math.floor(bytes.length * at)] ^= 0x10;
    assert.ok(
      deliver(calls, wrong) !== 0 || checksum(calls) !== screen,
      `byte at ${at} of the session`,
    );
  }
});
