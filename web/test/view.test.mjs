// The picture's place in the window: invariants after any gestures, touch keyboards and sizes.
// Beside the path, for view.ts; how it looks is in touch.test.mjs.
// Knows numbers; needs no browser. A failing seed is printed: put it into SEEDS.

import assert from "node:assert/strict";
import { before, test } from "node:test";
import { load } from "./modules.mjs";

const SEEDS = Array.from({ length: 200 }, (_, i) => i + 1);
const ZOOM_MAX = 8;

let View;
let pixelsOnTouchScreen;
before(async () => {
  ({ View, pixelsOnTouchScreen } = await load("display/view.ts"));
});

/** mulberry32: the same numbers for a seed everywhere. */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

function checkInvariants(view, { screen, stage, unit, clear }, what) {
  const whole = Math.min(unit, stage.width / screen.width, stage.height / screen.height);
  const { scale, corner, shown } = view;
  assert.ok(
    scale >= whole * (1 - 1e-9) && scale <= whole * ZOOM_MAX * (1 + 1e-9),
    `${what}: scale ${scale} of ${whole}`,
  );
  assert.ok(Number.isInteger(corner.x) && Number.isInteger(corner.y), `${what}: whole pixels`);
  const across = Math.max(0, (stage.width - shown.width) / 2);
  if (shown.width <= stage.width)
    assert.equal(corner.x, Math.floor(across), `${what}: in the middle`);
  else
    assert.ok(
      corner.x <= 0 && corner.x + 1 + shown.width >= stage.width,
      `${what}: no gap beside it`,
    );
  // Above, a cover may leave the picture in place; below, no gap but behind the keyboard.
  assert.ok(
    corner.y <= Math.max(clear.top, (stage.height - shown.height) / 2),
    `${what}: no gap above it`,
  );
  assert.ok(
    corner.y + 1 + shown.height >= Math.min(clear.bottom, shown.height + clear.top),
    `${what}: no gap below it`,
  );
}

test("after any sequence the picture fills what it can, and each place is one pixel", () => {
  for (const seed of SEEDS) {
    const next = random(seed);
    const whole = (from, to) => from + Math.floor(next() * (to - from + 1));
    const view = new View();
    const state = {
      screen: { width: 540, height: 960 },
      stage: { width: 1080, height: 1920 },
      unit: 2,
      clear: { top: 0, bottom: 1920 },
    };
    const setStage = () => view.setStage(state.stage, state.unit, state.clear);
    setStage();
    view.setScreen(state.screen);
    const place = () => ({ x: whole(0, state.stage.width), y: whole(0, state.stage.height) });
    const ops = {
      zoom: () => view.zoomAt(0.4 + next() * 2, place()),
      pan: () => view.panBy(whole(-900, 900), whole(-900, 900)),
      push: () => view.pushAt(place(), 108),
      settle: () => {
        view.settle(place());
        const { screen, stage, unit } = state;
        const largest = Math.floor(
          Math.min(unit, stage.width / screen.width, stage.height / screen.height) * ZOOM_MAX,
        );
        const nearest = Math.min(largest, Math.round(view.scale));
        const crisp =
          view.scale === nearest || nearest < 1 || Math.abs(view.scale / nearest - 1) >= 0.08;
        assert.ok(crisp || !view.zoomed, `seed ${seed}: ${view.scale}`);
      },
      screen: () =>
        view.setScreen((state.screen = { width: whole(1, 2000), height: whole(1, 2000) })),
      stage: () => {
        state.stage = { width: whole(200, 2500), height: whole(200, 2500) };
        state.unit = whole(1, 3);
        state.clear = { top: 0, bottom: state.stage.height };
        setStage();
      },
      keyboard: () => {
        state.clear = {
          top: 0,
          bottom: whole(Math.ceil(state.stage.height / 3), state.stage.height),
        };
        setStage();
        const pixel = { x: whole(0, state.screen.width - 1), y: whole(0, state.screen.height - 1) };
        view.reveal(pixel);
        const at = view.corner.y + (pixel.y + 0.5) * view.scale;
        assert.ok(
          at >= state.clear.top - 1 && at <= state.clear.bottom + 1,
          `seed ${seed}: ${at} is hidden by what covers ${state.clear.bottom}`,
        );
      },
    };
    const names = Object.keys(ops);
    for (let step = 0; step < 40; step += 1) {
      const name = names[whole(0, names.length - 1)];
      ops[name]();
      const what = `seed ${seed}, step ${step}, ${name}`;
      checkInvariants(view, state, what);
      const at = place();
      const { x, y } = view.pixelAt(at);
      const { corner, scale } = view;
      const inside =
        at.x >= corner.x &&
        at.x < corner.x + state.screen.width * scale &&
        at.y >= corner.y &&
        at.y < corner.y + state.screen.height * scale;
      assert.ok(x >= 0 && x < state.screen.width && y >= 0 && y < state.screen.height, what);
      if (!inside) continue;
      assert.ok(
        at.x >= corner.x + x * scale - 1e-6 && at.x < corner.x + (x + 1) * scale + 1e-6,
        `${what}: ${at.x} is in column ${x}`,
      );
      assert.ok(
        at.y >= corner.y + y * scale - 1e-6 && at.y < corner.y + (y + 1) * scale + 1e-6,
        `${what}: ${at.y} is in row ${y}`,
      );
    }
  }
});

test("the point between the fingers stays in place", () => {
  const view = new View();
  view.setStage({ width: 1080, height: 1920 }, 2);
  view.setScreen({ width: 540, height: 960 });
  const at = { x: 333, y: 777 };
  const before = view.pixelAt(at);
  for (const factor of [1.1, 1.3, 1.7, 0.9]) view.zoomAt(factor, at);
  const after = view.pixelAt(at);
  assert.ok(
    Math.abs(after.x - before.x) <= 1 && Math.abs(after.y - before.y) <= 1,
    JSON.stringify([before, after]),
  );
});

test("a session pixel is as close to a CSS pixel as dialogs permit", () => {
  for (const [width, height, ratio, pixels] of [
    [1080, 1920, 3, 2],
    [1170, 2532, 3, 2],
    [1081, 2402, 2.625, 2],
    [640, 1136, 2, 1],
    [2048, 2732, 2, 2],
    [360, 640, 1, 1],
    [1440, 3120, 3.5, 3],
  ]) {
    assert.equal(
      pixelsOnTouchScreen({ width, height }, ratio),
      pixels,
      `${width} x ${height} at ${ratio}`,
    );
    assert.equal(
      pixelsOnTouchScreen({ width: height, height: width }, ratio),
      pixels,
      "in both orientations",
    );
  }
});
