// Which transport a page uses, and when it changes it: connection.ts between scripted sockets.
// Needs web/dist (./dev build web), and no browser; a real one is in webtransport.test.mjs.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { readFile } from "node:fs/promises";
import { test as nodeTest } from "node:test";
import { load } from "./modules.mjs";

const test = (name, body) => nodeTest(name, { timeout: 120_000 }, body);

const { Connection } = await load("transport/connection.ts");
const { AttemptCalls } = await load("engine/attempts.ts");
/** viewer-core, which decides when attempts are made; each test has an instance of its own. */
const decoder = new WebAssembly.Module(
  await readFile(new URL("../dist/viewer.wasm", import.meta.url)),
);

const SESSION = {
  socket: "wss://desk/ws",
  webTransport: "https://desk/webtransport",
  login: "https://desk/login",
  secret: "c2VjcmV0",
  page: "cGFnZQ",
};

/**
 * What the page requested of its browser: "socket", "session", "offer"; each with the means to
 * answer it.
 */
class Network extends EventEmitter {
  requests = [];
  /** Status of the session's answer to a request for the WebTransport offer. */
  status = 200;
  /** The same for a request whether the login is valid. */
  loginStatus = 204;
  /** The user holds a key down. */
  holds = false;
  /** Part of a picture has arrived. */
  drawing = false;
  events = [];

  request(kind, what) {
    this.requests.push({ kind, ...what });
    this.emit("request");
  }

  kinds() {
    return this.requests.map(({ kind }) => kind);
  }

  /** The nth request of its kind, from 0, when it has been made. */
  async nth(kind, n = 0) {
    for (;;) {
      const found = this.requests.filter((one) => one.kind === kind)[n];
      if (found) return found;
      await once(this, "request");
    }
  }

  /** Waits for this event of the page's connection. */
  async event(word, count = 1) {
    while (this.events.filter((one) => one === word).length < count) await once(this, "event");
  }

  record(word) {
    this.events.push(word);
    this.emit("event");
  }
}

let network;

const clock = performance.now.bind(performance);
let aheadMs = 0;
performance.now = () => clock() + aheadMs;

globalThis.WebSocket = class {
  static OPEN = 1;
  readyState = 0;
  bufferedAmount = 0;
  sent = [];
  closed = false;

  constructor(url, protocols) {
    network.request("socket", { socket: this, url, protocols });
  }

  opens() {
    this.readyState = 1;
    this.onopen();
  }

  delivers(text) {
    this.onmessage?.({ data: new TextEncoder().encode(text).buffer });
  }

  send(bytes) {
    this.sent.push(new TextDecoder().decode(bytes));
  }

  close() {
    this.closed = true;
    this.readyState = 3;
    this.onclose();
  }
};

globalThis.WebTransport = class {
  sent = [];
  isClosed = false;
  closed = new Promise(() => undefined);

  /** Datagrams that the page sent; one that is blocked blocks the next. */
  sentDatagrams = [];
  datagrams = {
    maxDatagramSize: 5,
    readable: new ReadableStream({
      start: (controller) =>
        (this.sendsDatagram = (text) => controller.enqueue(new TextEncoder().encode(text))),
    }),
    createWritable: () =>
      new WritableStream({
        write: (bytes) => {
          this.sentDatagrams.push(new TextDecoder().decode(bytes));
          return this.blocked;
        },
      }),
  };

  constructor(url, options) {
    this.ready = new Promise((resolve, reject) =>
      Object.assign(this, { opens: resolve, fails: () => reject(new Error("refused")) }),
    );
    this.ready.catch(() => undefined);
    network.request("session", { session: this, url, options });
  }

  async createBidirectionalStream() {
    const { sent } = this;
    return {
      readable: new ReadableStream({
        start: (controller) =>
          Object.assign(this, {
            delivers: (text) => controller.enqueue(new TextEncoder().encode(text)),
            dies: () => controller.error(new Error("dead")),
          }),
      }),
      writable: new WritableStream({
        write: (bytes) => void sent.push(new TextDecoder().decode(bytes)),
      }),
    };
  }

  close() {
    this.isClosed = true;
  }
};

globalThis.fetch = async (url, { headers }) => {
  assert.deepEqual(headers, { "thinc-origin-secret": SESSION.secret }, url);
  if (url === SESSION.login) {
    network.request("login");
    return new Response(null, { status: network.loginStatus });
  }
  network.request("offer", { url });
  if (network.status !== 200) return new Response(null, { status: network.status });
  return Response.json({ certificate: "_-8", key: "k-_y", seconds: 60 });
};

/** A connection that is opening. */
function opening(t, { choice = "auto", status = 200 } = {}) {
  network = new Network();
  network.status = status;
  const attempts = new AttemptCalls(new WebAssembly.Instance(decoder).exports);
  const connection = new Connection(SESSION, choice, () => attempts, {
    connecting: () => network.record("connecting"),
    opened: () => {
      network.record(`opened ${connection.kind}`);
      connection.send(new TextEncoder().encode("hello"));
    },
    received: (bytes) => network.record(`received ${new TextDecoder().decode(bytes)}`),
    receivedDatagram: (bytes) =>
      network.record(`received datagram ${new TextDecoder().decode(bytes)}`),
    dropped: () => network.record("dropped"),
    replaced: () => network.record("replaced"),
    mayBeReplaced: () => !network.holds && !network.drawing,
    holdsInput: () => network.holds,
    notImproved: (end) => network.record(`not improved: ${end}`),
    refused: () => network.record("refused"),
  });
  t.after(() => connection.end());
  connection.open();
  return connection;
}

test("both transports are opened, and WebTransport is used if it opens first", async (t) => {
  opening(t);
  const [{ socket, ...opened }, { session, url, options }] = [
    await network.nth("socket"),
    await network.nth("session"),
  ];
  assert.equal(opened.url, "wss://desk/ws", "no secret in the address");
  assert.deepEqual(opened.protocols, ["thinc", "thinc.origin-secret.c2VjcmV0"]);
  assert.equal(url, "https://desk/webtransport?key=k-_y&page=cGFnZQ");
  assert.deepEqual([...options.serverCertificateHashes[0].value], [0xff, 0xef]);
  session.opens();
  await network.event("opened webtransport");
  session.delivers("good day");
  await network.event("received good day");
  assert.deepEqual(session.sent, ["hello"]);
  socket.opens();
  assert.deepEqual([socket.closed, socket.sent], [true, []], "it opened too late");
  assert.deepEqual(network.events, ["connecting", "opened webtransport", "received good day"]);
});

test("WebTransport has datagrams beside its stream, which do not wait", async (t) => {
  const connection = opening(t);
  const { session } = await network.nth("session");
  assert.equal(connection.carriesDatagrams, false);
  session.opens();
  await network.event("opened webtransport");
  assert.equal(connection.carriesDatagrams, true);
  assert.ok(session.datagrams.incomingHighWaterMark > 1, "browsers keep one by default");
  session.sendsDatagram("down");
  await network.event("received datagram down");
  const send = (text) => connection.sendDatagram(new TextEncoder().encode(text));
  let release;
  session.blocked = new Promise((resolve) => (release = resolve));
  send("too long");
  for (const text of ["one", "two", "three"]) send(text);
  release();
  session.blocked = undefined;
  await new Promise(setImmediate);
  send("four");
  assert.deepEqual(session.sentDatagrams, ["one", "four"], "a datagram that would wait is dropped");
  assert.deepEqual(session.sent, ["hello"], "no datagram is sent on the stream");
  connection.end();
  session.sendsDatagram("late");
  await new Promise(setImmediate);
  assert.equal(network.events.includes("received datagram late"), false);
});

test("datagrams of a transport that is not in use are ignored", async (t) => {
  const connection = opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  session.sendsDatagram("early");
  aheadMs += 60;
  socket.opens();
  await network.event("opened websocket");
  assert.equal(connection.carriesDatagrams, false);
  session.opens();
  session.sendsDatagram("late");
  connection.sendDatagram(new TextEncoder().encode("up"));
  await new Promise(setImmediate);
  assert.deepEqual(session.sentDatagrams, []);
  assert.deepEqual(
    network.events.filter((word) => word.includes("datagram")),
    [],
  );
});

test("a WebSocket that opens first waits a moment for WebTransport", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  aheadMs += 60; // the wait is as long again
  socket.opens();
  session.opens();
  await network.event("opened webtransport");
  assert.deepEqual([socket.closed, socket.sent, session.sent], [true, [], ["hello"]]);
});

test("it waits no longer than that, loses no early bytes, and does not wait again", async (t) => {
  const connection = opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  socket.opens();
  socket.delivers("early");
  await network.event("received early");
  assert.deepEqual(network.events, ["connecting", "opened websocket", "received early"]);
  assert.deepEqual([session.isClosed, socket.sent], [true, ["hello"]]);
  connection.proven();
  socket.close();
  await network.event("dropped");
  const next = await network.nth("socket", 1);
  await network.nth("session", 1);
  next.socket.opens();
  assert.equal(network.events.at(-1), "opened websocket", "at once");
});

test("if WebTransport fails, the WebSocket is used, and the offer is fetched again", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  aheadMs += 60;
  socket.opens();
  session.fails();
  await network.event("opened websocket");
  socket.close();
  await network.nth("session", 1);
  assert.equal(network.kinds().filter((kind) => kind === "offer").length, 2);
});

test("if only UDP works, WebTransport is used", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  socket.close();
  session.opens();
  await network.event("opened webtransport");
  assert.equal(network.events.includes("dropped"), false);
});

test("if both fail, the session is probed and both are tried again", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await network.nth("socket"), await network.nth("session")];
  socket.close();
  session.fails();
  await network.event("dropped");
  await network.nth("socket", 1);
  await network.nth("session", 1);
});

test("a session without WebTransport is reached over a WebSocket", async (t) => {
  opening(t, { status: 204 });
  const { socket } = await network.nth("socket");
  await network.nth("offer");
  socket.opens();
  await network.event("opened websocket");
  assert.equal(network.kinds().includes("session"), false);
});

test("after a failure behind its handshake, WebTransport waits for another network", async (t) => {
  const connection = opening(t);
  const { session } = await network.nth("session");
  session.opens();
  await network.event("opened webtransport");
  session.dies();
  await network.event("dropped");
  const { socket } = await network.nth("socket", 1);
  socket.opens();
  assert.equal(network.events.at(-1), "opened websocket");
  assert.equal(network.requests.filter(({ kind }) => kind === "session").length, 1);
  aheadMs += 2_000; // a recent attempt would be left alone
  connection.wake();
  await network.nth("session", 1);
});

test("a WebTransport that worked is tried again with the offer at hand", async (t) => {
  const connection = opening(t);
  const { session } = await network.nth("session");
  session.opens();
  await network.event("opened webtransport");
  connection.proven();
  session.dies();
  const next = await network.nth("session", 1);
  next.session.opens();
  await network.event("opened webtransport", 2);
  assert.equal(network.kinds().filter((kind) => kind === "offer").length, 1);
});

test("reconnection attempts are frequent at first, then too rare for browser limits", async (t) => {
  const connection = opening(t, { choice: "websocket" });
  const { socket } = await network.nth("socket");
  socket.opens();
  await network.event("opened websocket");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  connection.tryOthers();
  const attempts = [];
  for (let ms = 0; ms < 60_000; ms += 100) {
    attempts.push(network.kinds().filter((kind) => kind === "socket").length - 1);
    aheadMs += 100;
    t.mock.timers.tick(100);
  }
  const after = (seconds) => attempts[seconds * 10];
  assert.ok(after(1) >= 3 && after(3) >= 8, `${after(1)}, ${after(3)}`);
  assert.ok(
    after(30) <= 17 && after(30) >= 12 && attempts.at(-1) <= 22,
    `${after(30)}, ${attempts.at(-1)}`,
  );
});

/** A connection over a WebSocket, because WebTransport did not open. */
async function overWebSocket(t, options) {
  const connection = opening(t, options);
  const { socket } = await network.nth("socket");
  if (options === undefined) (await network.nth("session")).session.fails();
  socket.opens();
  await network.event("opened websocket");
  connection.proven();
  return { connection, socket };
}

test("WebTransport is tried beside a WebSocket whose path changed, and replaces it", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  assert.equal(connection.canImprove, true);
  connection.improve("the path changed");
  connection.improve("and again");
  const { session } = await network.nth("session", 1);
  socket.delivers("meanwhile");
  connection.bytesReceived();
  await network.event("received meanwhile");
  assert.deepEqual([socket.closed, connection.kind], [false, "websocket"]);
  session.opens();
  await network.event("opened webtransport");
  assert.deepEqual(network.events.slice(-2), ["replaced", "opened webtransport"]);
  assert.deepEqual([socket.closed, session.sent], [true, ["hello"]]);
  assert.deepEqual([connection.reason, connection.canImprove], ["the path changed", false]);
  assert.equal(network.kinds().filter((kind) => kind === "session").length, 2);
});

test("if WebTransport does not open then, the WebSocket stays", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  connection.improve("the path changed");
  (await network.nth("session", 1)).session.fails();
  await network.event("not improved: failed");
  assert.deepEqual([socket.closed, connection.reason], [false, undefined]);
  connection.improve("it changed again");
  (await network.nth("session", 2)).session.opens();
  await network.event("opened webtransport");
});

test("an open WebTransport waits until nothing is held down", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  network.holds = true;
  connection.improve("the path changed");
  const { session } = await network.nth("session", 1);
  session.opens();
  while (!connection.awaitsTurn) await new Promise(setImmediate);
  assert.equal(socket.closed, false);
  network.holds = false;
  connection.replace();
  await network.event("opened webtransport");
  assert.deepEqual([socket.closed, connection.awaitsTurn], [true, false]);
});

test("if something is held down for long, the change is postponed", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  network.holds = true;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  connection.improve("the path changed");
  const { session } = await network.nth("session", 1);
  session.opens();
  while (!connection.awaitsTurn) await new Promise(setImmediate);
  t.mock.timers.tick(5_000);
  assert.equal(network.events.at(-1), "not improved: postponed");
  assert.deepEqual([session.isClosed, socket.closed], [true, false]);
});

test("a picture that is always on its way does not postpone the change forever", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  network.drawing = true;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  connection.improve("the path changed");
  const { session } = await network.nth("session", 1);
  session.opens();
  while (!connection.awaitsTurn) await new Promise(setImmediate);
  assert.equal(socket.closed, false);
  t.mock.timers.tick(5_000);
  assert.equal(network.events.at(-1), "opened webtransport");
  assert.equal(socket.closed, true);
});

test("where UDP passes handshakes only, the WebSocket stays after three attempts", async (t) => {
  const { connection } = await overWebSocket(t);
  for (const [index, ends] of ["dies", "is dropped", "dies"].entries()) {
    assert.equal(connection.canImprove, true);
    aheadMs += 61_000; // the last failure is long ago
    connection.improve("the path changed");
    const { session } = await network.nth("session", 1 + index);
    session.opens();
    await network.event("opened webtransport", 1 + index);
    if (ends === "dies") session.dies();
    else connection.drop();
    const next = await network.nth("socket", 1 + index);
    next.socket.opens();
    await network.event("opened websocket", 2 + index);
    connection.proven();
  }
  assert.equal(connection.canImprove, false);
  connection.improve("the path changed");
  assert.equal(network.events.at(-1), "not improved: failed");
  // It may be another network after that.
  aheadMs += 2_000; // a recent attempt would be left alone
  connection.wake();
  (await network.nth("socket", 4)).socket.opens();
  (await network.nth("session", 4)).session.fails();
  await network.event("opened websocket", 5);
  assert.equal(connection.canImprove, true);
});

test("a WebSocket that drops ends the attempt beside it", async (t) => {
  const { connection, socket } = await overWebSocket(t);
  connection.improve("the path changed");
  const { session } = await network.nth("session", 1);
  socket.close();
  await network.event("dropped");
  assert.equal(session.isClosed, true);
});

test("a page that may use a WebSocket only tries nothing else", async (t) => {
  const { connection } = await overWebSocket(t, { choice: "websocket" });
  assert.equal(connection.canImprove, false);
  connection.improve("the path changed");
  assert.equal(network.events.at(-1), "not improved: failed");
  assert.equal(network.kinds().includes("session"), false);
});

for (const choice of ["websocket", "webtransport"]) {
  test(`a page that may use ${choice} only uses no other transport`, async (t) => {
    opening(t, { choice });
    const found = await network.nth(choice === "websocket" ? "socket" : "session");
    (found.socket ?? found.session).opens();
    await network.event(`opened ${choice}`);
    assert.equal(network.kinds().includes(choice === "websocket" ? "session" : "socket"), false);
  });
}
