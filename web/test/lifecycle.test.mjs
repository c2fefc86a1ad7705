// The life of a page's connection: web/engine/lifecycle.ts between the page and transports that
// note what they are told.
// Beside the path; over real transports it is in connection.test.mjs and reconnect.test.mjs.
// Needs no browser: time is the test's.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./modules.mjs";
import { around, bytes, recorder, stopTime } from "./parts.mjs";

const { Lifecycle } = await load("engine/lifecycle.ts");

const time = stopTime();

const [RESPONSIVE, UNRESPONSIVE, REPLACEABLE, DEAD] = [0, 1, 2, 3];

/** A page that has started, with what the transports are told. */
function lifecycle(properties = {}) {
  const connection = {
    carriesDatagrams: false,
    reason: undefined,
    canImprove: false,
    awaitsTurn: false,
    congested: false,
    ...properties,
  };
  const about = around({
    canBufferInput: () => about.buffers,
    pathChange: () => about.roundTripUs,
  });
  Object.assign(about, { buffers: true, replaceable: true, ended: [] });
  const transports = recorder(connection);
  const part = new Lifecycle(about.post, {
    decoder: () => about.decoder,
    mayBeReplaced: () => about.replaceable,
    ended: (end) => {
      about.ended.push(end.title);
      part.lost();
    },
  });
  part.start(transports.object, "takes over");
  return {
    about,
    part,
    decoder: about.decoder,
    connection,
    calls: () => about.calls().filter(([name]) => name !== "canBufferInput"),
    transports: () => transports.taken().filter(([name]) => name !== "prepare"),
    /** The names of the states that the page was told. */
    states: () =>
      about.posted().map(({ type, state, buffering }) => state?.name ?? [type, buffering]),
  };
}

const END = { name: "closed", title: "Over", reason: "because", canRetry: true };

test("each connection says who opens it, and how until a session answers", () => {
  const { part, decoder, calls, connection } = lifecycle({ carriesDatagrams: true });
  const begin = () => {
    part.opened();
    part.prepare(decoder);
    part.open(decoder);
    return calls();
  };
  const [[, instance], ...first] = begin();
  assert.equal(instance.length, 16);
  const rest = (opening) => [
    ["opening", opening],
    ["datagrams", true],
    ["opened", false],
  ];
  assert.deepEqual(first, rest("takes over"));
  part.lost();
  assert.deepEqual(begin(), [["instance", instance], ...rest("takes over")]);
  part.greet();
  part.lost();
  connection.reason = "the other one was slow";
  connection.canImprove = true;
  assert.deepEqual(begin(), [
    ["instance", instance],
    ["opening", "reconnects"],
    ["datagrams", true],
    ["opened", true],
    ["watchPath"],
  ]);
});

test("a tab's pages have one identifier", () => {
  const { about, decoder, calls } = lifecycle();
  const part = new Lifecycle(about.post, {});
  part.start(recorder().object, "opens", bytes);
  part.prepare(decoder);
  assert.deepEqual(calls()[0], ["instance", bytes]);
});

test("phases follow each other, and the page hears of input that is not buffered", () => {
  const { about, part, states } = lifecycle();
  const phase = () => [part.connected, part.greeted, part.closed];
  assert.deepEqual(phase(), [false, false, false]);
  part.tell({ name: "connecting", attempt: 1 });
  part.opened();
  assert.deepEqual(phase(), [true, false, false]);
  part.greet();
  assert.deepEqual(phase(), [true, true, false]);
  part.lost();
  assert.deepEqual(phase(), [false, false, false]);
  about.buffers = false;
  part.tell({ name: "waiting", retryMs: 1, failures: 1 });
  about.buffers = true;
  part.tellBuffering();
  part.tellBuffering();
  assert.deepEqual(states(), [
    "connecting",
    "connected",
    ["buffering", false],
    "waiting",
    ["buffering", true],
  ]);
});

test("a closed page stays closed until the user tries again", () => {
  const { about, part, calls, transports, states } = lifecycle();
  part.opened();
  part.close(END);
  part.close({ ...END, title: "Again" });
  part.wake();
  assert.deepEqual([part.connected, part.closed], [false, true]);
  assert.deepEqual(about.ended, ["Over"]);
  assert.deepEqual(states(), ["closed"]);
  assert.deepEqual(transports(), [["end"]]);
  part.choose("joins");
  part.retry();
  assert.ok(!part.closed);
  calls();
  part.prepare(about.decoder);
  assert.deepEqual(calls()[1], ["opening", "joins"]);
  part.wake();
  assert.deepEqual(transports(), [["retryNow"], ["wake"]]);
});

test("the page hears of a session that does not answer, and transports are tried", () => {
  const { part, transports, states } = lifecycle();
  const follow = (liveness) => part.follow({ liveness });
  follow(DEAD);
  assert.deepEqual([states(), transports()], [[], []], "there is no connection");
  part.opened();
  for (const liveness of [RESPONSIVE, UNRESPONSIVE, UNRESPONSIVE, REPLACEABLE, RESPONSIVE])
    follow(liveness);
  assert.deepEqual(states(), ["unresponsive", "connected"]);
  assert.deepEqual(transports(), [["tryOthers"]]);
  follow(REPLACEABLE);
  follow(DEAD);
  part.lost();
  part.opened();
  follow(RESPONSIVE);
  assert.deepEqual(states(), ["unresponsive"], "the next connection begins responsive");
  assert.deepEqual(transports(), [["tryOthers"], ["drop"]]);
});

test("only output that may wait does, while the transport is congested", () => {
  const [stream, none] = [bytes, new Uint8Array()];
  const { part, connection, transports } = lifecycle({ congested: true });
  const decoder = (datagram) => ({ datagramOutput: () => datagram, output: () => stream });
  part.send(decoder(bytes), "may wait");
  assert.deepEqual(transports(), [["sendDatagram", bytes]]);
  part.send(decoder(none), "now");
  assert.deepEqual(transports(), [["send", stream]]);
  connection.congested = false;
  part.send(decoder(none), "may wait");
  assert.deepEqual(transports(), [["send", stream]]);
});

test("a transport that waits takes over when nothing is lost by that, and later", () => {
  const { about, part, connection, transports } = lifecycle();
  const follow = () => part.follow({ liveness: RESPONSIVE });
  part.opened();
  follow();
  connection.awaitsTurn = true;
  about.replaceable = false;
  follow();
  about.replaceable = true;
  follow();
  about.replaceable = false;
  time.pass(0);
  assert.deepEqual(transports(), [], "a key went down meanwhile");
  about.replaceable = true;
  follow();
  assert.deepEqual(transports(), []);
  time.pass(0);
  assert.deepEqual(transports(), [["replace"]]);
});

test("another transport is tried if the path has become long", () => {
  const { about, part, connection, calls, transports } = lifecycle({ canImprove: true });
  about.roundTripUs = 123_456;
  part.improve();
  assert.deepEqual(transports(), [], "there is no connection");
  part.opened();
  part.improve();
  assert.deepEqual(calls(), [["pathChange"], ["transportAttempt", "begun"]]);
  assert.deepEqual(transports(), [["improve", "the round trip grew to 123.5 ms"]]);
  about.roundTripUs = undefined;
  part.improve();
  connection.canImprove = false;
  about.roundTripUs = 1;
  part.improve();
  assert.deepEqual(transports(), []);
});
