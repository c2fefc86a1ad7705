// A scripted session: HTTPS, the login, the page's files, and a WebSocket with hand-made messages.
// Used by page.test.mjs and others for what a real session does not do on request: drop, refuse,
// close for each reason.
// Encodes the messages that tests need, by the layouts of doc/protocol.md, and decodes the viewer's
// into plain objects.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const TYPES = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  wasm: "application/wasm",
};
// As strict as the real one, so that a page that works here works there.
const POLICY =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; " +
  "img-src 'self' data:; worker-src 'self'; " +
  "connect-src 'self' wss:; frame-src blob:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Messages of a session

function varint(value) {
  const bytes = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    if (rest < 0x80n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 0x7fn) | 0x80);
  }
}

const zigzag = (value) => varint(value < 0 ? -2 * value - 1 : 2 * value);
const text = (words) => Buffer.concat([varint(Buffer.byteLength(words)), Buffer.from(words)]);
const frame = (kind, ...body) => {
  const bytes = Buffer.concat(body);
  return Buffer.concat([Buffer.from([kind]), varint(bytes.length), bytes]);
};
const rect = (x, y, width, height) =>
  Buffer.concat([zigzag(x), zigzag(y), varint(width), varint(height)]);

/** A channel of a gamma table: increases of up to 2 in two bits, others as a byte behind them. */
function gammaChannel(values) {
  const [codes, escapes] = [Buffer.alloc(64), []];
  for (let index = 0; index < 255; index += 1) {
    const increase = (values[index + 1] - values[index] + 256) % 256;
    codes[index >> 2] |= Math.min(increase, 3) << (2 * (index % 4));
    if (increase >= 3) escapes.push(increase);
  }
  return Buffer.concat([Buffer.from([values[0]]), codes, Buffer.from(escapes)]);
}

export const message = {
  /**
   * `caps`: 1 wants the viewer's clipboard, 8 accepts distances, 16 has sound, 64 takes files, 256
   * takes choices of quality, 1024 has stereo, 2048 takes what else is decoded.
   */
  hello: (name, caps = 0) => frame(0x02, varint(1), varint(caps), varint(65536), text(name)),
  /** The newest input that was received from a viewer that has reconnected. */
  inputReceived: (input) => frame(0x0f, varint(input)),
  /** `shown`: the session's screen, and the part of it that the framebuffer shows. */
  geometry: (epoch, width, height, shown) => {
    const { screen, part } = shown ?? {};
    const more = shown
      ? [screen.width, screen.height, part.x, part.y, part.width, part.height]
      : [];
    return frame(0x03, ...[epoch, width, height, ...more].map(varint));
  },
  update: (seq, epoch, commands, { endOfFrame = true } = {}) =>
    frame(
      0x04,
      Buffer.from([endOfFrame ? END_OF_FRAME : 0]),
      varint(seq),
      varint(epoch),
      ...commands,
    ),
  /** `pixels`: premultiplied blue, green, red, alpha; as a zstd frame with one stored block. */
  cursor: (width, height, hotX, hotY, pixels) => {
    const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0, 0, 0, 0]);
    head.writeUInt32LE(pixels.length, 5);
    head.writeUIntLE((pixels.length << 3) | 1, 9, 3);
    return frame(0x05, varint(width), varint(height), varint(hotX), varint(hotY), head, pixels);
  },
  cursorShow: (shown) => frame(0x07, Buffer.from([Number(shown)])),
  /** Opus in two channels, in frames of 10 ms. */
  soundFormat: (generation) => frame(0x17, Buffer.from([generation, 1, 2]), varint(480)),
  /** One frame, whose time follows from its number. */
  sound: (generation, number, bytes, silenceFollows = false) =>
    frame(
      0x18,
      Buffer.from([generation]),
      varint(number),
      varint(number * 10_000),
      Buffer.from([Number(silenceFollows), 1, 0]),
      varint(bytes.length),
      bytes,
    ),
  /** Opus in one channel, in frames of 10 ms. */
  microphoneWant: (generation, wanted) =>
    frame(0x1b, Buffer.from([generation, Number(wanted), 1]), varint(480)),
  graphics: (line) => frame(0x2d, text(line)),
  soundPlayers: (names) => frame(0x19, varint(names.length), ...names.map(text)),
  /** The viewer has the number `own`. */
  people: (own, people) =>
    frame(
      0x20,
      varint(own),
      varint(people.length),
      ...people.map(({ number, guest, control, pointer, name }) =>
        Buffer.concat([
          varint(number),
          varint(guest),
          Buffer.from([Number(control) | (Number(pointer) << 1)]),
          text(name),
        ]),
      ),
    ),
  /** `bits`: 1 to the session, 2 to the viewer. */
  clipPolicy: (bits) => frame(0x26, Buffer.from([bits])),
  /** `areas`: rect as [x, y, width, height], and channels as three lists of 256 values. */
  gamma: (areas) =>
    frame(
      0x1c,
      varint(areas.length),
      ...areas.map(({ rect: edges, channels }) =>
        Buffer.concat([...edges.map(varint), ...channels.map(gammaChannel)]),
      ),
    ),
  relativeWanted: (wanted) => frame(0x16, Buffer.from([Number(wanted)])),
  /** Colours are blue, green, red; the planes are the foreground's mask, then the image's. */
  cursorBits: (width, height, hotX, hotY, fore, back, planes) =>
    frame(
      0x0b,
      varint(width),
      varint(height),
      varint(hotX),
      varint(hotY),
      Buffer.from([...fore, ...back, 0, ...planes]),
    ),
  cursorColor: (fore, back) => frame(0x0c, Buffer.from([...fore, ...back])),
  pong: (id) => frame(0x08, varint(id)),
  barrier: (id) => frame(0x09, varint(id)),
  close: (code, reason) => frame(0x0a, Buffer.from([code]), text(reason)),
  /** `token`: 16 bytes. */
  cache: (resumed, token) => frame(0x0d, Buffer.from([Number(resumed)]), token),
  /** `seen`: the viewer's newest offer that had arrived; `formats`: bits 1 text, 2 HTML, 4 PNG. */
  clipOffer: (selection, serial, seen, formats) =>
    frame(0x10, Buffer.from([selection]), varint(serial), varint(seen), varint(formats)),
  clipRequest: (id, selection, serial, format) =>
    frame(0x11, varint(id), Buffer.from([selection]), varint(serial), Buffer.from([format])),
  /** The content in pieces of at most 16 KiB. */
  clipData: (id, content) => {
    const pieces = [];
    for (let at = 0; at === 0 || at < content.length; at += 16384) {
      const last = Number(at + 16384 >= content.length);
      pieces.push(frame(0x12, varint(id), Buffer.from([last]), content.subarray(at, at + 16384)));
    }
    return Buffer.concat(pieces);
  },
  clipReceived: (id, bytes) => frame(0x13, varint(id), varint(bytes)),
  /** `entries`: [path, size], or [path] for a folder. */
  fileOffer: (id, entries, total = entries.reduce((sum, [, size = 0]) => sum + size, 0)) =>
    frame(
      0x28,
      ...[id, 0, entries.length, total, 0, entries.length].map(varint),
      ...entries.map(([path, size]) =>
        Buffer.concat([
          Buffer.from([Number(size === undefined)]),
          varint(size ?? 0),
          varint(0),
          text(path),
        ]),
      ),
    ),
  /** One document that a program prints. `sides`: 0 one, 1 long edge, 2 short edge. */
  printOffer: (id, path, size, ticket = {}) => {
    const { title = "Report", copies = 1, sides = 0, colour = 1, media = "" } = ticket;
    return frame(
      0x28,
      ...[id, 0, 1, size, 3].map(varint),
      ...[text(title), varint(copies), Buffer.from([sides, colour]), text(media)],
      ...[varint(1), Buffer.from([0]), varint(size), varint(0), text(path)],
    );
  },
  /** Accepts an offer of the viewer's, from a place on. */
  fileAccept: (id, entry = 0, offset = 0) =>
    frame(0x29, varint(id), Buffer.from([1]), varint(entry), varint(offset)),
  /** Any other answer; 4 and 5 are followed by bytes. */
  fileAnswer: (id, answer, ...more) =>
    frame(0x29, varint(id), Buffer.from([answer]), ...more.map(varint)),
  /** A file from `offset` on, in chunks of at most 16 KiB, or a part of it. */
  fileData: (id, entry, content, { offset = 0, until = content.length } = {}) => {
    const chunks = [];
    for (let at = offset; at < until || (at === 0 && until === 0); at += 16384) {
      const end = Math.min(at + 16384, until);
      const isLast = end === content.length;
      const hash = isLast ? createHash("sha256").update(content).digest() : Buffer.alloc(0);
      const last = Buffer.from([Number(isLast)]);
      const place = [varint(id), varint(entry), varint(at), last, hash];
      chunks.push(frame(0x2a, ...place, content.subarray(at, end)));
    }
    return Buffer.concat(chunks);
  },
  fileTaken: (id, bytes) => frame(0x2b, varint(id), varint(bytes)),
  fileEnd: (id, byReceiver, why) => frame(0x2c, varint(id), Buffer.from([Number(byReceiver), why])),
  /** `why` 2 is followed by bytes and a limit. */
  clipEnd: (id, byRequester, why, ...more) =>
    frame(0x14, varint(id), Buffer.from([Number(byRequester), why]), ...more.map(varint)),
};

export const draw = {
  fill: (x, y, width, height, color) =>
    Buffer.concat([
      Buffer.from([1]),
      rect(x, y, width, height),
      Buffer.from([color & 255, (color >> 8) & 255, color >> 16]),
    ]),
  copy: (x, y, width, height, dx, dy) =>
    Buffer.concat([Buffer.from([0]), rect(x, y, width, height), zigzag(dx), zigzag(dy)]),
  /** `data`: see doc/protocol.md, section 8. */
  jpeg: (x, y, width, height, data) =>
    Buffer.concat([Buffer.from([0x34]), rect(x, y, width, height), varint(data.length), data]),
  keep: (x, y, width, height, slot) =>
    Buffer.concat([Buffer.from([5]), rect(x, y, width, height), varint(slot)]),
  recall: (x, y, width, height, slot) =>
    Buffer.concat([Buffer.from([6]), rect(x, y, width, height), varint(slot)]),
  /** `source` and `place` are rectangles; `source` is the shown part of a frame of `size`. */
  videoInit: (id, codec, size, source, place, { right = false } = {}) =>
    Buffer.concat([
      Buffer.from([right ? 0x87 : 7]),
      varint(id),
      Buffer.from([codec]),
      varint(size.width),
      varint(size.height),
      varint(source.x),
      varint(source.y),
      varint(source.width),
      varint(source.height),
      rect(place.x, place.y, place.width, place.height),
    ]),
  /** Encoded as an access unit; visible in all of these rectangles, which lie in bands. */
  videoCoded: (id, timeUs, clip, key, data) =>
    Buffer.concat([
      Buffer.from([7 | ((key ? 7 : 2) << 4)]),
      varint(id),
      varint(timeUs),
      clipOf(clip),
      varint(data.length),
      data,
    ]),
  /** The same, a keyframe of the codec with this number. */
  videoKeyOf: (id, timeUs, clip, codec, data) =>
    Buffer.concat([
      Buffer.from([7 | (9 << 4)]),
      varint(id),
      varint(timeUs),
      clipOf(clip),
      Buffer.from([codec]),
      varint(data.length),
      data,
    ]),
  /** Planes Y, Cb, Cr; 4:2:0. */
  videoPlain: (id, timeUs, clip, data) =>
    Buffer.concat([
      Buffer.from([7 | (1 << 4)]),
      varint(id),
      varint(timeUs),
      clipOf(clip),
      Buffer.from([0]),
      varint(data.length),
      data,
    ]),
  /** Of the right eye: blue, green, red and 0 of each pixel. */
  videoPixels: (id, timeUs, clip, data) =>
    Buffer.concat([
      Buffer.from([7 | (1 << 4)]),
      varint(id),
      varint(timeUs),
      clipOf(clip),
      Buffer.from([2]),
      varint(data.length),
      data,
    ]),
  videoEnd: (id) => Buffer.concat([Buffer.from([7 | (6 << 4)]), varint(id)]),
  /** `bgr`: 3 bytes per pixel. */
  raw: (x, y, width, height, bgr) =>
    Buffer.concat([Buffer.from([4]), rect(x, y, width, height), bgr]),
};

function clipOf(clip) {
  const corner = (i) => (i < 0 ? { x: 0, y: 0 } : clip[i]);
  return Buffer.concat([
    varint(clip.length),
    ...clip.map(({ x, y, width, height }, i) =>
      rect(x - corner(i - 1).x, y - corner(i - 1).y, width, height),
    ),
  ]);
}

const END_OF_FRAME = 2;
const MESSAGE_BYTES_MAX = 65536;
/** Less than a test may take, so that what it waits for is named. */
const RECEIVE_MS_MAX = 90_000;

// Messages of a viewer

function* parseMessages(stream) {
  let at = 0;
  const number = () => {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = stream.bytes[at];
      if (byte === undefined) throw new RangeError("cut off");
      at += 1;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
  };
  const signed = () => {
    const value = number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  };
  for (;;) {
    at = 0;
    if (stream.bytes.length < 2) return;
    const kind = stream.bytes[at++];
    const length = number();
    const end = at + length;
    if (stream.bytes.length < end) return;
    yield parseMessage(
      kind,
      () => stream.bytes[at++],
      number,
      signed,
      () => stream.bytes.subarray(at, end),
    );
    stream.bytes = stream.bytes.subarray(end);
  }
}

function input(event, byte, number, signed) {
  if (event <= 1) return { kind: "key", down: event === 1, code: number(), keysym: number() };
  if (event === 2) return { kind: "motion", x: number(), y: number() };
  if (event <= 4) return { kind: "button", down: event === 4, button: byte() };
  if (event === 5) return { kind: "scroll", dx: signed(), dy: signed() };
  if (event <= 8) return { kind: "touch", phase: event - 6, id: byte(), x: number(), y: number() };
  if (event === 10) return { kind: "char", character: String.fromCodePoint(number()) };
  if (event === 11) return { kind: "locks", locks: byte() };
  if (event === 12) return { kind: "motionBy", dx: signed(), dy: signed() };
  if (event === 13) {
    const [state, x, y, pressure] = [byte(), number(), number(), number()];
    const [tiltX, tiltY] = [byte(), byte()].map((tilt) => (tilt << 24) >> 24);
    return { kind: "pen", state, x, y, pressure, tiltX, tiltY };
  }
  return { kind: "releaseAll" };
}

function parseMessage(kind, byte, number, signed, rest) {
  switch (kind) {
    case 0x02:
      return {
        kind: "hello",
        version: number(),
        caps: number(),
        width: number(),
        height: number(),
      };
    case 0x03:
      return { kind: "ack", update: number() };
    case 0x04: {
      const event = byte();
      const seq = number();
      // The number can be read, but is not part of comparisons of events.
      return Object.defineProperty(input(event, byte, number, signed), "seq", { value: seq });
    }
    case 0x05:
      return { kind: "ping", id: number() };
    case 0x06:
      return { kind: "resize", width: number(), height: number() };
    case 0x07:
      return { kind: "barrier", id: number() };
    case 0x08:
      return { kind: "resync" };
    case 0x0a: {
      const bytes = number();
      const token = String.fromCharCode(...Array.from({ length: 16 }, byte));
      return { kind: "cache", bytes, token, update: number() };
    }
    case 0x0b: {
      const name = () => String.fromCharCode(...Array.from({ length: number() }, byte));
      return { kind: "layout", model: name(), layout: name(), variant: name(), options: name() };
    }
    case 0x0c:
      return { kind: "instance", number: rest().toString("hex") };
    case 0x0d:
      return { kind: "video", id: number(), state: ["ready", "refused", "needsKeyframe"][byte()] };
    case 0x0e:
      return {
        kind: "view",
        width: number(),
        height: number(),
        part: { x: number(), y: number(), width: number(), height: number() },
      };
    case 0x0f: {
      const scale = number();
      const display = () => ({
        x: number(),
        y: number(),
        width: number(),
        height: number(),
        mm: [number(), number()],
      });
      return { kind: "displays", scale, displays: Array.from({ length: number() }, display) };
    }
    case 0x10:
      return {
        kind: "clipOffer",
        selection: byte(),
        serial: number(),
        seen: number(),
        formats: number(),
      };
    case 0x11:
      return {
        kind: "clipRequest",
        id: number(),
        selection: byte(),
        serial: number(),
        format: byte(),
      };
    case 0x12:
      return { kind: "clipData", id: number(), last: byte() === 1, bytes: rest() };
    case 0x13:
      return { kind: "clipReceived", id: number(), bytes: number() };
    case 0x14:
      return { kind: "clipEnd", id: number(), byRequester: byte() === 1, why: byte() };
    case 0x16: {
      const [width, height, x, y, partWidth, partHeight] = Array.from({ length: 6 }, number);
      const [edge, hashes] = [1 << byte(), rest().subarray(32)];
      const tiles = Array.from({ length: hashes.length / 8 }, (_, i) =>
        hashes.subarray(8 * i, 8 * i + 8).toString("hex"),
      );
      return {
        kind: "retained",
        width,
        height,
        part: { x, y, width: partWidth, height: partHeight },
        edge,
        tiles,
      };
    }
    case 0x18: {
      const [codecs, frameMin, bitrateMax] = [number(), number(), number()];
      return { kind: "soundWant", codecs, frameMin, bitrateMax, muted: byte() === 1 };
    }
    case 0x19:
      return {
        kind: "soundState",
        heard: number(),
        delayUs: number(),
        received: number(),
        lost: number(),
        concealed: number(),
        runs: number(),
        lagUs: rest().length > 0 ? signed() : undefined,
      };
    case 0x28: {
      const [id, first, count, total] = Array.from({ length: 4 }, number);
      const dropped = byte() === 1 ? { x: number(), y: number() } : undefined;
      const words = () => {
        const length = number();
        return Buffer.from(Array.from({ length }, byte)).toString();
      };
      const entry = () => ({
        folder: byte() === 1,
        size: number(),
        modifiedMs: number(),
        path: words(),
      });
      const entries = Array.from({ length: number() }, entry);
      return { kind: "fileOffer", id, first, count, total, dropped, entries };
    }
    case 0x29: {
      const [id, answer] = [number(), byte()];
      const more = Array.from({ length: [0, 2, 0, 0, 1, 1, 0][answer] }, number);
      return { kind: "fileAnswer", id, answer, more };
    }
    case 0x2a: {
      const [id, entry, offset, last] = [number(), number(), number(), byte() === 1];
      if (last) for (let at = 0; at < 32; at += 1) byte();
      return { kind: "fileData", id, entry, offset, last, bytes: rest() };
    }
    case 0x2b:
      return { kind: "fileTaken", id: number(), bytes: number() };
    case 0x2c:
      return { kind: "fileEnd", id: number(), byReceiver: byte() === 1, why: byte() };
    case 0x1a: {
      const generation = byte();
      const [sequence, timeUs] = [number(), number()];
      const [flags, count] = [byte(), byte()];
      const lengths = [];
      for (let at = 0; at < count; at += 1) {
        byte();
        const length = number();
        lengths.push(length);
        for (let skipped = 0; skipped < length; skipped += 1) byte();
      }
      return { kind: "microphone", generation, sequence, timeUs, flags, lengths };
    }
    case 0x1b:
      return { kind: "microphoneState", generation: byte(), given: byte() === 1 };
    case 0x1c:
      return { kind: "pictureQuality", choice: byte() };
    case 0x1d:
      return { kind: "exactFrame" };
    case 0x1e:
      return { kind: "stereo", wanted: byte() === 1 };
    case 0x1f:
      return { kind: "videoCodecs", codecs: number() };
    default:
      return { kind: "close", reason: rest().toString("utf8").slice(1) };
  }
}

// The server

/** One viewer's connection. */
class Connection {
  /** Everything the viewer has sent, except for pings and barriers. */
  received = [];
  #arrived = resolvers();
  #stream = { bytes: Buffer.alloc(0) };
  #frames = Buffer.alloc(0);
  #greeted;
  /** Answers nothing, like a dead path. */
  mute = false;
  /** Pings answered. */
  pongs = 0;
  #ended = false;

  /** `greeted` is called with the viewer's first message. */
  constructor(socket, greeted) {
    this.socket = socket;
    this.#greeted = greeted;
    socket.setNoDelay(true);
    socket.on("data", (bytes) => this.#take(bytes));
    socket.on("error", () => undefined);
    socket.on("close", () => this.#end());
  }

  #end() {
    this.#ended = true;
    this.#wake();
  }

  #wake() {
    this.#arrived.resolve();
    this.#arrived = resolvers();
  }

  send(...parts) {
    const bytes = Buffer.concat(parts);
    // The shortest encoding of the length; browsers refuse any other.
    const length = bytes.length;
    const head = Buffer.alloc(length < 126 ? 2 : length < 65536 ? 4 : 10, 0x82);
    head[1] = length < 126 ? length : length < 65536 ? 126 : 127;
    if (head.length === 4) head.writeUInt16BE(length, 2);
    if (head.length === 10) head.writeBigUInt64BE(BigInt(length), 2);
    this.socket.write(Buffer.concat([head, bytes]));
  }

  #pong(id) {
    this.pongs += 1;
    this.send(message.pong(id));
  }

  /**
   * The first message that `matches`, received already or later; an error if none can follow, or
   * follows in time.
   */
  async receive(matches) {
    const late = resolvers();
    const timer = setTimeout(late.resolve, RECEIVE_MS_MAX, "late");
    try {
      for (let why; ; why = await Promise.race([this.#arrived.promise, late.promise])) {
        const found = this.received.find(matches);
        if (found) return found;
        if (!this.#ended && why !== "late") continue;
        throw new Error(
          (this.#ended ? "the connection has ended" : `${RECEIVE_MS_MAX} ms have passed`) +
            `, and nothing on it matched ${matches}; ` +
            `the last of ${this.received.length} messages: ` +
            JSON.stringify(this.received.slice(-5)),
        );
      }
    } finally {
      clearTimeout(timer);
    }
  }

  #take(bytes) {
    this.#frames = Buffer.concat([this.#frames, bytes]);
    for (;;) {
      const frames = this.#frames;
      if (frames.length < 2) break;
      let [at, length] = [2, frames[1] & 0x7f];
      if (length === 126) [at, length] = [4, frames.length < 4 ? Infinity : frames.readUInt16BE(2)];
      if (frames.length < at + 4 + length) break;
      // As the real one does.
      if (length > MESSAGE_BYTES_MAX) return this.socket.destroy();
      const mask = frames.subarray(at, at + 4);
      const payload = Buffer.from(frames.subarray(at + 4, at + 4 + length)).map(
        (byte, i) => byte ^ mask[i & 3],
      );
      if ((frames[0] & 15) === 2) this.#stream.bytes = Buffer.concat([this.#stream.bytes, payload]);
      else if ((frames[0] & 15) === 8) this.socket.end(Buffer.from([0x88, 0]));
      this.#frames = frames.subarray(at + 4 + length);
    }
    for (const one of parseMessages(this.#stream)) {
      this.#greeted?.(this);
      this.#greeted = undefined;
      // The test has sent its messages before: both may be answered at once.
      if (this.mute) this.received.push(one);
      else if (one.kind === "ping") this.#pong(one.id);
      else if (one.kind === "barrier") this.send(message.barrier(one.id));
      else this.received.push(one);
    }
    this.#wake();
  }
}

function resolvers() {
  const made = {};
  made.promise = new Promise((resolve) => (made.resolve = resolve));
  return made;
}

export class FakeSession {
  /** Tokens that have not been used. */
  tokens = new Set(["good-token"]);
  cookies = new Set();
  /** The secrets of the logins. */
  secrets = new Set();
  /** Logins that have ended. */
  logouts = 0;
  /** A logout fails. */
  refusesLogout = false;
  /**
   * Those on which a viewer has sent its first message, in that order: a page that waits too long
   * for a handshake begins another, and closes the first one unused.
   */
  connections = [];
  #sockets = new Set();
  /** Scripts that run before these files' own. */
  scripts = new Map();
  /** Handshakes of WebSockets that are not answered, from now on. */
  stalls = 0;
  /** Files that are cut off in the middle, and how often still. */
  cuts = new Map();
  #paused = false;
  #arrived = resolvers();

  static async start() {
    const session = new FakeSession();
    const folder = mkdtempSync(join(tmpdir(), "thinc-web-test-"));
    const [key, certificate] = [join(folder, "key.pem"), join(folder, "certificate.pem")];
    execFileSync(
      "openssl",
      [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-keyout",
        key,
        "-out",
        certificate,
      ],
      { stdio: "pipe" },
    );
    session.server = createServer(
      { key: readFileSync(key), cert: readFileSync(certificate) },
      (request, response) => session.#answer(request, response),
    );
    rmSync(folder, { recursive: true });
    session.server.on("upgrade", (request, socket) => session.#upgrade(request, socket));
    session.server.on("connection", (socket) => {
      if (session.#paused) socket.destroy();
    });
    session.server.listen(0, "127.0.0.1");
    await once(session.server, "listening");
    session.url = `https://127.0.0.1:${session.server.address().port}/base/`;
    return session;
  }

  link(token = "good-token", query = "") {
    return `${this.url}${query}#t=${token}`;
  }

  /** The nth viewer that greets, counted from 0. */
  async viewer(index) {
    while (this.connections.length <= index) await this.#arrived.promise;
    return this.connections[index];
  }

  /** Drops every connection, like a machine that is down, until `resume`. */
  pause() {
    this.#paused = true;
  }

  resume() {
    this.#paused = false;
  }

  stop() {
    for (const socket of this.#sockets) socket.destroy();
    this.server.closeAllConnections();
    this.server.close();
  }

  #known(request) {
    return [...this.cookies].some((cookie) =>
      request.headers.cookie?.includes(`__Host-thinc=${cookie}`),
    );
  }

  /** Whether the page has also shown the secret of its origin. */
  #loggedIn(request) {
    const offered = request.headers["sec-websocket-protocol"]?.split(", thinc.origin-secret.")[1];
    return (
      this.#known(request) && this.secrets.has(offered ?? request.headers["thinc-origin-secret"])
    );
  }

  #answer(request, response) {
    if (this.#paused) return request.socket.destroy();
    response.setHeader("content-security-policy", POLICY);
    const path = request.url.split("?")[0].replace("/base/", "");
    if (request.method === "POST" && path === "login") {
      let body = "";
      request.on("data", (bytes) => (body += bytes));
      request.on("end", () => {
        const { token } = JSON.parse(body);
        if (!this.tokens.delete(token)) return response.writeHead(403).end();
        const cookie = `c${this.cookies.size}`;
        this.cookies.add(cookie);
        const originSecret = `s${this.cookies.size - 1}`;
        this.secrets.add(originSecret);
        response
          .writeHead(200, {
            "set-cookie": `__Host-thinc=${cookie}; Secure; HttpOnly; SameSite=Strict; Path=/`,
            "content-type": "application/json",
          })
          .end(JSON.stringify({ originSecret }));
      });
      return;
    }
    if (request.method === "POST" && path === "logout") {
      if (!this.#loggedIn(request) || this.refusesLogout) return response.writeHead(503).end();
      this.secrets.delete(request.headers["thinc-origin-secret"]);
      this.logouts += 1;
      const gone = "__Host-thinc=; Secure; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";
      response.writeHead(204, { "set-cookie": gone }).end();
      return;
    }
    const known = this.#known(request);
    const name = path === "" ? (known ? "index.html" : "login.html") : path;
    if (!known && !["login.html", "login.js", "style.css"].includes(name))
      return response.writeHead(401).end();
    // This session has no QUIC.
    if (name === "login" || name === "webtransport")
      return response.writeHead(this.#loggedIn(request) ? 204 : 401).end();
    try {
      const script = Buffer.from(this.scripts.get(name) ?? "");
      const bytes = Buffer.concat([script, readFileSync(join(DIST, name))]);
      const cuts = this.cuts.get(name) ?? 0;
      if (cuts > 0) {
        this.cuts.set(name, cuts - 1);
        response.writeHead(200, {
          "content-type": TYPES[name.split(".").pop()],
          "content-length": bytes.length,
        });
        response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy());
        return;
      }
      response
        .writeHead(200, {
          "content-type": TYPES[name.split(".").pop()],
          "cache-control": "no-store",
        })
        .end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  }

  #upgrade(request, socket) {
    if (this.#paused) return socket.destroy();
    if (!this.#loggedIn(request) || request.url !== "/base/ws") {
      socket.end("HTTP/1.1 401 Unauthorized\r\nconnection: close\r\n\r\n");
      return;
    }
    this.#sockets.add(socket);
    socket.on("close", () => this.#sockets.delete(socket));
    if (this.stalls > 0) {
      this.stalls -= 1;
      // Read, so that its end is noticed.
      socket.on("error", () => undefined).resume();
      return;
    }
    const accept = createHash("sha1")
      .update(`${request.headers["sec-websocket-key"]}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
      .digest("base64");
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n" +
        `sec-websocket-protocol: thinc\r\nsec-websocket-accept: ${accept}\r\n\r\n`,
    );
    new Connection(socket, (viewer) => {
      this.connections.push(viewer);
      this.#arrived.resolve();
      this.#arrived = resolvers();
    });
  }
}
