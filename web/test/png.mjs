// Reads the PNG of a screenshot: 8-bit RGB or RGBA, not interlaced, as browsers write it.
// Used by the tests that compare pixels; refuses every other form.
// Returns red, green, blue, 255 for each pixel, like the page's pixels().

import assert from "node:assert/strict";
import { inflateSync } from "node:zlib";

export function readPng(png) {
  assert.equal(png.toString("latin1", 1, 4), "PNG");
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  assert.equal(png[24], 8, "bits a channel");
  assert.ok(png[25] === 2 || png[25] === 6, "RGB or RGBA");
  assert.equal(png[28], 0, "not interlaced");
  const channels = png[25] === 2 ? 3 : 4;

  const parts = [];
  for (let at = 8; at < png.length; ) {
    const bytes = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT")
      parts.push(png.subarray(at + 8, at + 8 + bytes));
    at += bytes + 12;
  }
  const rows = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  let above = Buffer.alloc(stride);
  const data = Buffer.alloc(width * height * 4, 255);
  for (let y = 0; y < height; y += 1) {
    const filter = rows[y * (stride + 1)];
    const row = rows.subarray(y * (stride + 1) + 1, (y + 1) * (stride + 1));
    for (let i = 0; i < stride; i += 1) {
      const left = i < channels ? 0 : row[i - channels];
      const corner = i < channels ? 0 : above[i - channels];
      row[i] += predict(filter, left, above[i], corner);
    }
    for (let x = 0; x < width; x += 1)
      row.copy(data, (y * width + x) * 4, x * channels, x * channels + 3);
    above = row;
  }
  return { width, height, data };
}

function predict(filter, left, up, corner) {
  switch (filter) {
    case 0:
      return 0;
    case 1:
      return left;
    case 2:
      return up;
    case 3:
      return (left + up) >> 1;
    case 4: {
      const estimate = left + up - corner;
      const [toLeft, toUp, toCorner] = [
        Math.abs(estimate - left),
        Math.abs(estimate - up),
        Math.abs(estimate - corner),
      ];
      if (toLeft <= toUp && toLeft <= toCorner) return left;
      return toUp <= toCorner ? up : corner;
    }
    default:
      throw new Error(`PNG filter ${filter}`);
  }
}

/** Fails with the first pixel that differs, and the number of them. */
export function assertSamePixels(got, wanted, what) {
  assert.deepEqual([got.width, got.height], [wanted.width, wanted.height], `${what}: size`);
  const [a, b] = [Buffer.from(got.data), Buffer.from(wanted.data)];
  if (a.equals(b)) return;
  let [first, count] = [-1, 0];
  for (let i = 0; i < a.length; i += 4) {
    if (a.readUInt32LE(i) === b.readUInt32LE(i)) continue;
    if (first < 0) first = i;
    count += 1;
  }
  const [x, y] = [(first / 4) % got.width, Math.floor(first / 4 / got.width)];
  const hex = (data) => data.toString("hex", first, first + 4);
  assert.fail(
    `${what}: ${count} pixels differ, the first at ${x},${y}: ${hex(a)} instead of ${hex(b)}`,
  );
}
