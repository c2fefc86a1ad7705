// Which way a page takes to its session, and when it changes its mind: transport.ts between sockets that do what a test says.
// No browser; a real one is in webtransport.test.mjs.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test as nodeTest } from "node:test";
import { load } from "./modules.mjs";

const test = (name, body) => nodeTest(name, { timeout: 30_000 }, body);

const { Transport } = await load("transport.ts");

const URLS = { socket: "wss://desk/ws", webTransport: "https://desk/webtransport", probe: "https://desk/viewer.wasm" };

/** What the page asked of its browser: "socket", "session", "invitation"; each with what the test may do to it. */
class World extends EventEmitter {
  asked = [];
  /** How the session answers who asks how to come by WebTransport. */
  status = 200;
  heard = [];

  ask(kind, what) {
    this.asked.push({ kind, ...what });
    this.emit("asked");
  }

  kinds() {
    return this.asked.map(({ kind }) => kind);
  }

  /** The nth of its kind, from 0, once it was asked for. */
  async nth(kind, n = 0) {
    for (;;) {
      const found = this.asked.filter((one) => one.kind === kind)[n];
      if (found) return found;
      await once(this, "asked");
    }
  }

  /** Until the page's transport has said this. */
  async says(word, count = 1) {
    while (this.heard.filter((one) => one === word).length < count) await once(this, "heard");
  }

  say(word) {
    this.heard.push(word);
    this.emit("heard");
  }
}

let world;

const clock = performance.now.bind(performance);
let aheadMs = 0;
performance.now = () => clock() + aheadMs;

globalThis.WebSocket = class {
  static OPEN = 1;
  readyState = 0;
  bufferedAmount = 0;
  sent = [];
  closed = false;

  constructor() {
    world.ask("socket", { socket: this });
  }

  opens() {
    this.readyState = 1;
    this.onopen();
  }

  says(text) {
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

  /** What the page said in datagrams; one that is held up keeps the next from being said. */
  said = [];
  datagrams = {
    maxDatagramSize: 5,
    readable: new ReadableStream({ start: (controller) => (this.saysAlone = (text) => controller.enqueue(new TextEncoder().encode(text))) }),
    createWritable: () => new WritableStream({ write: (bytes) => (this.said.push(new TextDecoder().decode(bytes)), this.heldUp) }),
  };

  constructor(url, options) {
    this.ready = new Promise((resolve, reject) => Object.assign(this, { opens: resolve, fails: () => reject(new Error("no way")) }));
    this.ready.catch(() => undefined);
    world.ask("session", { session: this, url, options });
  }

  async createBidirectionalStream() {
    const { sent } = this;
    return {
      readable: new ReadableStream({ start: (controller) => Object.assign(this, { says: (text) => controller.enqueue(new TextEncoder().encode(text)), dies: () => controller.error(new Error("dead")) }) }),
      writable: new WritableStream({ write: (bytes) => void sent.push(new TextDecoder().decode(bytes)) }),
    };
  }

  close() {
    this.isClosed = true;
  }
};

globalThis.fetch = async (url, { method } = {}) => {
  if (method === "HEAD") return new Response("", { status: 200 });
  world.ask("invitation", { url });
  if (world.status !== 200) return new Response(null, { status: world.status });
  return Response.json({ certificate: "_-8", key: "k-_y", seconds: 60 });
};

/** A transport that is opening. */
function opening(t, { choice = "auto", status = 200 } = {}) {
  world = new World();
  world.status = status;
  const transport = new Transport(URLS, choice, {
    connecting: () => world.say("connecting"),
    opened: () => {
      world.say(`opened ${transport.kind}`);
      transport.send(new TextEncoder().encode("hello"));
    },
    received: (bytes) => world.say(`received ${new TextDecoder().decode(bytes)}`),
    receivedDatagram: (bytes) => world.say(`received alone ${new TextDecoder().decode(bytes)}`),
    dropped: () => world.say("dropped"),
    refused: () => world.say("refused"),
  });
  t.after(() => transport.end());
  transport.open();
  return transport;
}

test("both are tried at once, and WebTransport is taken where it is first: nothing is said on the other", async (t) => {
  opening(t);
  const [{ socket }, { session, url, options }] = [await world.nth("socket"), await world.nth("session")];
  assert.equal(url, "https://desk/webtransport?key=k-_y");
  assert.deepEqual([...options.serverCertificateHashes[0].value], [0xff, 0xef]);
  session.opens();
  await world.says("opened webtransport");
  session.says("good day");
  await world.says("received good day");
  assert.deepEqual(session.sent, ["hello"]);
  socket.opens();
  assert.deepEqual([socket.closed, socket.sent], [true, []], "it came too late");
  assert.deepEqual(world.heard, ["connecting", "opened webtransport", "received good day"]);
});

test("beside its stream WebTransport has datagrams, which do not wait", async (t) => {
  const transport = opening(t);
  const { session } = await world.nth("session");
  assert.equal(transport.carriesDatagrams, false);
  session.opens();
  await world.says("opened webtransport");
  assert.equal(transport.carriesDatagrams, true);
  assert.ok(session.datagrams.incomingHighWaterMark > 1, "browsers drop what waits beyond one");
  session.saysAlone("down");
  await world.says("received alone down");
  const send = (text) => transport.sendDatagram(new TextEncoder().encode(text));
  let release;
  session.heldUp = new Promise((resolve) => (release = resolve));
  send("too long");
  for (const text of ["one", "two", "three"]) send(text);
  release();
  session.heldUp = undefined;
  await new Promise(setImmediate);
  send("four");
  assert.deepEqual(session.said, ["one", "four"], "what would wait is lost");
  assert.deepEqual(session.sent, ["hello"], "and nothing of it goes by the stream");
  transport.end();
  session.saysAlone("late");
  await new Promise(setImmediate);
  assert.equal(world.heard.includes("received alone late"), false);
});

test("datagrams of a way that is not, not yet or no longer taken are nobody's", async (t) => {
  const transport = opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  session.saysAlone("early");
  aheadMs += 60;
  socket.opens();
  await world.says("opened websocket");
  assert.equal(transport.carriesDatagrams, false);
  session.opens();
  session.saysAlone("late");
  transport.sendDatagram(new TextEncoder().encode("up"));
  await new Promise(setImmediate);
  assert.deepEqual(session.said, []);
  assert.deepEqual(world.heard.filter((word) => word.includes("alone")), []);
});

test("a WebSocket that is first waits a moment for WebTransport", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  aheadMs += 60; // it is given as long again
  socket.opens();
  session.opens();
  await world.says("opened webtransport");
  assert.deepEqual([socket.closed, socket.sent, session.sent], [true, [], ["hello"]]);
});

test("it waits no longer than that, loses nothing that came meanwhile, and does not wait again", async (t) => {
  const transport = opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  socket.opens();
  socket.says("early");
  await world.says("received early");
  assert.deepEqual(world.heard, ["connecting", "opened websocket", "received early"]);
  assert.deepEqual([session.isClosed, socket.sent], [true, ["hello"]]);
  transport.proven();
  socket.close();
  await world.says("dropped");
  const next = await world.nth("socket", 1);
  await world.nth("session", 1);
  next.socket.opens();
  assert.equal(world.heard.at(-1), "opened websocket", "at once");
});

test("where WebTransport fails the WebSocket is taken, and the next time is asked anew how to come", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  aheadMs += 60;
  socket.opens();
  session.fails();
  await world.says("opened websocket");
  socket.close();
  await world.nth("session", 1);
  assert.equal(world.kinds().filter((kind) => kind === "invitation").length, 2);
});

test("where nothing but UDP gets through, that is taken", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  socket.close();
  session.opens();
  await world.says("opened webtransport");
  assert.equal(world.heard.includes("dropped"), false);
});

test("where both fail the session is asked after, and both are tried again", async (t) => {
  opening(t);
  const [{ socket }, { session }] = [await world.nth("socket"), await world.nth("session")];
  socket.close();
  session.fails();
  await world.says("dropped");
  await world.nth("socket", 1);
  await world.nth("session", 1);
});

test("a session that takes nobody by WebTransport is reached by WebSocket", async (t) => {
  opening(t, { status: 204 });
  const { socket } = await world.nth("socket");
  await world.nth("invitation");
  socket.opens();
  await world.says("opened websocket");
  assert.equal(world.kinds().includes("session"), false);
});

test("a network that lets no more than the beginning of WebTransport through is not trusted again until it may be another", async (t) => {
  const transport = opening(t);
  const { session } = await world.nth("session");
  session.opens();
  await world.says("opened webtransport");
  session.dies();
  await world.says("dropped");
  const { socket } = await world.nth("socket", 1);
  socket.opens();
  assert.equal(world.heard.at(-1), "opened websocket");
  assert.equal(world.asked.filter(({ kind }) => kind === "session").length, 1);
  aheadMs += 2_000; // a fresh attempt is left to itself
  transport.wake();
  await world.nth("session", 1);
});

test("one that worked is tried again after it broke, with the invitation there is", async (t) => {
  const transport = opening(t);
  const { session } = await world.nth("session");
  session.opens();
  await world.says("opened webtransport");
  transport.proven();
  session.dies();
  const next = await world.nth("session", 1);
  next.session.opens();
  await world.says("opened webtransport", 2);
  assert.equal(world.kinds().filter((kind) => kind === "invitation").length, 1);
});

test("who is not heard is sought often at first, and then so seldom that the browser does not hold attempts back", async (t) => {
  const transport = opening(t, { choice: "websocket" });
  const { socket } = await world.nth("socket");
  socket.opens();
  await world.says("opened websocket");
  t.mock.timers.enable({ apis: ["setTimeout"] });
  transport.seek();
  const attempts = [];
  for (let ms = 0; ms < 60_000; ms += 100) {
    attempts.push(world.kinds().filter((kind) => kind === "socket").length - 1);
    aheadMs += 100;
    t.mock.timers.tick(100);
  }
  const after = (seconds) => attempts[seconds * 10];
  assert.ok(after(1) >= 3 && after(3) >= 8, `${after(1)}, ${after(3)}`);
  assert.ok(after(30) <= 17 && after(30) >= 12 && attempts.at(-1) <= 22, `${after(30)}, ${attempts.at(-1)}`);
});

for (const choice of ["websocket", "webtransport"]) {
  test(`who wants ${choice} alone gets that alone`, async (t) => {
    opening(t, { choice });
    const found = await world.nth(choice === "websocket" ? "socket" : "session");
    (found.socket ?? found.session).opens();
    await world.says(`opened ${choice}`);
    assert.equal(world.kinds().includes(choice === "websocket" ? "session" : "socket"), false);
  });
}
