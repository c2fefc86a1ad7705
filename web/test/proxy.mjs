// A link between a page and its session that a test can cut or stall, for UDP too.
// Used by the tests of reconnecting and of WebTransport; passes TLS and QUIC through unread.
// Knows connections and bytes; never their content.

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer } from "node:net";

/**
 * Jitter of UDP with loss: each packet is delayed by up to this time, so that packets are
 * reordered.
 */
const JITTER_MS = 6;

/** xorshift32: the same numbers in every run, in [0, 1). */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

export class LinkProxy {
  #pairs = new Set();
  #stalled = new Set();
  #bytes = 0;
  #wakers = new Set();
  /** For each UDP source address: its socket to the session, and whether its packets pass. */
  #flows = new Map();
  #inFlight = new Set();
  /** What becomes of UDP packets: "passes" or "vanishes". */
  udpFate;
  /** By how much bytes over TCP are delayed, in each direction. */
  tcpDelayMs = 0;
  /** Packets received over UDP, and packets lost in both directions. */
  packets = 0;
  lost = 0;

  /**
   * Starts a proxy before the session of this link; `link` of the result leads through it. `udp`:
   * "passes", "vanishes", or unreachable; `lost`: the share of lost packets, while the others are
   * reordered.
   */
  static async before(link, { udp, lost = 0 } = {}) {
    const proxy = new LinkProxy();
    const url = new URL(link);
    const [port, host] = [Number(url.port), url.hostname];
    proxy.server = createServer((near) => proxy.#join(near, connect(port, host)));
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    const near = proxy.server.address().port;
    if (udp !== undefined) await proxy.#openUdp(near, port, host, udp, lost);
    url.port = near;
    proxy.link = url.href;
    return proxy;
  }

  /** Ends all connections at once; new ones pass. */
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy();
  }

  /** Existing connections pass nothing in either direction; new ones pass. */
  stall() {
    for (const pair of this.#pairs) {
      this.#stalled.add(pair);
      for (const socket of pair) socket.pause();
    }
    for (const flow of this.#flows.values()) flow.passes = false;
  }

  /** Holds UDP packets to the page until `release`. */
  hold() {
    for (const flow of this.#flows.values()) flow.held ??= [];
  }

  /** Ends `stall` and `hold`; the held packets are sent. */
  release() {
    for (const flow of this.#flows.values()) {
      for (const send of flow.held ?? []) send();
      flow.held = undefined;
    }
    for (const pair of this.#stalled) for (const socket of pair) socket.resume();
    this.#stalled.clear();
    for (const flow of this.#flows.values()) flow.passes = true;
  }

  /** Waits until a connection that is not stalled has passed bytes to the page. */
  async connected() {
    await this.received(1);
  }

  /** Waits until the session has sent this many bytes more. */
  async received(bytes) {
    const wanted = this.#bytes + bytes;
    while (this.#bytes < wanted) await new Promise((resolve) => this.#wakers.add(resolve));
  }

  stop() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    this.server.close();
    for (const timer of this.#inFlight) clearTimeout(timer);
    this.udp?.close();
    for (const { far } of this.#flows.values()) far.close();
  }

  async #openUdp(near, port, host, udp, lost) {
    const random = randomNumbers(0x5eed);
    const pass = (send) => {
      if (lost === 0) return send();
      if (random() < lost) return (this.lost += 1);
      const timer = setTimeout(() => this.#inFlight.delete(timer) && send(), random() * JITTER_MS);
      this.#inFlight.add(timer);
    };
    this.udpFate = udp;
    this.udp = createSocket("udp4");
    this.udp.on("message", (packet, from) => {
      this.packets += 1;
      if (this.udpFate === "vanishes") return;
      const name = `${from.address}:${from.port}`;
      let flow = this.#flows.get(name);
      if (flow === undefined) {
        flow = { far: createSocket("udp4"), passes: true };
        this.#flows.set(name, flow);
        const there = flow;
        there.far.on("message", (answer) => {
          const send = () => this.udp.send(answer, from.port, from.address);
          if (there.held) there.held.push(send);
          else if (there.passes) pass(send);
        });
        // Unreachable: the page sees a lost packet.
        there.far.on("error", () => undefined);
      }
      if (flow.passes) pass(() => flow.far.send(packet, port, host));
    });
    this.udp.bind(near, "127.0.0.1");
    await once(this.udp, "listening");
  }

  /** In the order of the calls as long as the delay does not become shorter. */
  #later(ms, pass) {
    if (ms === 0) return pass();
    const timer = setTimeout(() => this.#inFlight.delete(timer) && pass(), ms);
    this.#inFlight.add(timer);
  }

  #join(near, far) {
    const pair = [near, far];
    this.#pairs.add(pair);
    for (const [from, to] of [pair, [far, near]]) {
      from.setNoDelay(true);
      from.on("data", (bytes) => {
        this.#later(this.tcpDelayMs, () => {
          if (!to.destroyed && to.writable) to.write(bytes);
        });
        if (from !== far) return;
        this.#bytes += bytes.length;
        for (const wake of this.#wakers) wake();
        this.#wakers.clear();
      });
      from.on("error", () => undefined);
      from.on("close", () => {
        to.end();
        this.#pairs.delete(pair);
      });
      from.on("end", () => to.end());
    }
  }
}
