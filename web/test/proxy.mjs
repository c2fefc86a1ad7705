// A wire between a page and its session that a test may cut, or let die without a word; for UDP too, where a test wants that.
// Used by the tests of reconnecting and of WebTransport; passes TLS and QUIC through unread.
// Knows connections and bytes; never what they say.

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { connect, createServer } from "node:net";

/** Of UDP, where packets are lost: each takes up to this much longer than the last, so that they come in any order. */
const JITTER_MS = 6;

/** xorshift32: the same numbers in every run, from 0 to below 1. */
function randomNumbers(seed) {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

export class Proxy {
  #pairs = new Set();
  #stalled = new Set();
  #bytes = 0;
  #wakers = new Set();
  /** Of each place that UDP comes from, the socket that goes on from here, and whether it is let through. */
  #flows = new Map();
  #underWay = new Set();
  /** Packets that came by UDP, and those of both directions that were lost. */
  packets = 0;
  lost = 0;

  /**
   * Before the session of this link; `link` of what is returned leads through it. `udp`: "passes", "vanishes", or nobody is
   * there for it; `lost`: the share of its packets that is, while the others come in any order.
   */
  static async before(link, { udp, lost = 0 } = {}) {
    const proxy = new Proxy();
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

  /** Ends all connections at once; new ones are let through. */
  cut() {
    for (const pair of this.#pairs) for (const socket of pair) socket.resetAndDestroy();
  }

  /** The connections there are pass nothing on, either way; new ones are let through. */
  stall() {
    for (const pair of this.#pairs) {
      this.#stalled.add(pair);
      for (const socket of pair) socket.pause();
    }
    for (const flow of this.#flows.values()) flow.passes = false;
  }

  /** The UDP there is keeps what comes for the page, until it is released. */
  hold() {
    for (const flow of this.#flows.values()) flow.held ??= [];
  }

  /** What stalled goes on, and what was held comes. */
  release() {
    for (const flow of this.#flows.values()) {
      for (const send of flow.held ?? []) send();
      flow.held = undefined;
    }
    for (const pair of this.#stalled) for (const socket of pair) socket.resume();
    this.#stalled.clear();
    for (const flow of this.#flows.values()) flow.passes = true;
  }

  /** Until another connection than those that stalled carries something to the page. */
  async connected() {
    await this.received(1);
  }

  /** Until the session has sent so many bytes more. */
  async received(bytes) {
    const wanted = this.#bytes + bytes;
    while (this.#bytes < wanted) await new Promise((resolve) => this.#wakers.add(resolve));
  }

  stop() {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
    this.server.close();
    for (const timer of this.#underWay) clearTimeout(timer);
    this.udp?.close();
    for (const { far } of this.#flows.values()) far.close();
  }

  async #openUdp(near, port, host, udp, lost) {
    const random = randomNumbers(0x5eed);
    const pass = (send) => {
      if (lost === 0) return send();
      if (random() < lost) return (this.lost += 1);
      const timer = setTimeout(() => this.#underWay.delete(timer) && send(), random() * JITTER_MS);
      this.#underWay.add(timer);
    };
    this.udp = createSocket("udp4");
    this.udp.on("message", (packet, from) => {
      this.packets += 1;
      if (udp === "vanishes") return;
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
        // Nobody there: to the page it is a packet lost.
        there.far.on("error", () => undefined);
      }
      if (flow.passes) pass(() => flow.far.send(packet, port, host));
    });
    this.udp.bind(near, "127.0.0.1");
    await once(this.udp, "listening");
  }

  #join(near, far) {
    const pair = [near, far];
    this.#pairs.add(pair);
    for (const [from, to] of [pair, [far, near]]) {
      from.setNoDelay(true);
      from.on("data", (bytes) => {
        if (!to.destroyed) to.write(bytes);
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
