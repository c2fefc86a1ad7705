// What stands around a part of web/engine/engine.ts in its tests: the page, the decoder, time.
// Used by the tests that need no browser; knows nothing of any part.

export const bytes = new Uint8Array([1, 2, 3]);
export const SIZE = { width: 16, height: 16 };
export const PICTURE = { ...SIZE, screen: SIZE, part: { x: 0, y: 0, ...SIZE } };

/**
 * Notes every call as [name, ...arguments], without times. `answers` has properties, and functions
 * that answer calls.
 */
export function recorder(answers = {}) {
  const calls = [];
  const object = new Proxy(answers, {
    get: (_, name) => {
      if (name in answers && typeof answers[name] !== "function") return answers[name];
      return (...args) => {
        calls.push([name, ...args.filter((one) => !(one > 1e15))]);
        return answers[name]?.(...args);
      };
    },
  });
  return { object, taken: () => calls.splice(0) };
}

/** A part's surroundings: what it posts, and a decoder that is there while `connected`. */
export function around(answers) {
  const { object: decoder, taken } = recorder(answers);
  const posted = [];
  const surroundings = {
    connected: true,
    decoder,
    calls: taken,
    posted: () => posted.splice(0),
    post: (message) => posted.push(message),
    withDecoder: (call) => (surroundings.connected ? call(decoder) : undefined),
  };
  return surroundings;
}

/** Timers that are due run in their order. */
const time = {
  nowMs: 1_000,
  timers: new Map(),
  last: 0,
  add(call, ms, everyMs) {
    const id = (this.last += 1);
    this.timers.set(id, { call, dueMs: this.nowMs + ms, everyMs });
    return id;
  },
  pass(ms) {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const due = [...this.timers].filter(([, { dueMs }]) => dueMs <= untilMs);
      const [next] = due.sort(([, a], [, b]) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      const [id, timer] = next;
      this.nowMs = timer.dueMs;
      if (timer.everyMs === undefined) this.timers.delete(id);
      else timer.dueMs += timer.everyMs;
      timer.call();
    }
    this.nowMs = untilMs;
  },
  /** No timer runs meanwhile; what was due then runs afterwards, once. */
  stop(ms) {
    this.nowMs += ms;
    for (const timer of this.timers.values()) timer.dueMs = Math.max(timer.dueMs, this.nowMs);
  },
};

/** From now on time passes only as the test says. */
export function stopTime() {
  globalThis.setTimeout = (call, ms = 0) => time.add(call, ms);
  globalThis.setInterval = (call, ms) => time.add(call, ms, ms);
  globalThis.clearTimeout = (id) => time.timers.delete(id);
  performance.now = () => time.nowMs;
  Date.now = () => performance.timeOrigin + time.nowMs;
  return time;
}

/** Lets promises that are settled have their effects. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
