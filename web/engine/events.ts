// Events of viewer-core in WASM, seen from TypeScript.
// Path 11/13: under decoder.ts, from crates/viewer-web, to engine.ts.
// Calls and copies only; never what follows from an event.

import type { Rect, Size } from "../display/view";
import type { DecoderMemory } from "./memory";
import type {
  ClipboardPolicy,
  ClipFailure,
  ClipFormat,
  GammaArea,
  Invitation,
  MicrophoneFormat,
  Person,
  PersonPointer,
  Shared,
} from "./messages";

/** Exports of crates/viewer-web/src/lib.rs. */
export interface EventExports {
  viewer_event(): number;
  viewer_image_at(): number;
  viewer_image_bytes(): number;
  viewer_clip_at(): number;
  viewer_clip_bytes(): number;
  viewer_clip_forget(): void;
}

/**
 * An event of viewer-core; the numbers in `event` are those of `EventKind` in
 * crates/viewer-web/src/page.rs.
 */
export type DecoderEvent =
  /** The picture's size, the session's screen, and the part of it that the picture shows. */
  | { type: "geometry"; width: number; height: number; screen: Size; part: Rect }
  | {
      type: "cursor";
      width: number;
      height: number;
      hotX: number;
      hotY: number;
      rgba: Uint8ClampedArray;
    }
  | { type: "cursorShow"; shown: boolean }
  | { type: "barrier"; id: number }
  /** What was drawn together is complete. */
  | { type: "frameEnd"; relativeWanted: boolean }
  | { type: "relativeWanted"; wanted: boolean }
  | { type: "gamma"; areas: GammaArea[] }
  | { type: "people"; own: number; people: Person[] }
  | { type: "invitations"; invitations: Invitation[] }
  | ({ type: "shared" } & Shared)
  | ({ type: "personPointer" } & PersonPointer)
  | { type: "notice"; text: string; brief: boolean }
  | { type: "name"; name: string }
  /** What draws the session's 3D programs, in words. */
  | { type: "graphics"; line: string }
  | { type: "clipPolicy"; policy: ClipboardPolicy }
  | { type: "players"; names: string[] }
  /** A program records, and wants the microphone like this; or none does. */
  | { type: "microphone"; wanted: MicrophoneFormat | undefined }
  | { type: "hello"; name: string }
  | { type: "closed"; code: number; reason: string }
  | { type: "clipOffer"; selection: number; formats: number }
  | { type: "clipWanted"; id: number; selection: number; format: ClipFormat }
  | { type: "clipContent"; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { type: "clipEnded"; id: number; why: ClipFailure; bytes: number; limit: number };

/** As `Selection` of crates/protocol/src/clip.rs; browsers have no counterpart of PRIMARY. */
export const CLIPBOARD = 0;

export class EventCalls {
  constructor(
    private readonly calls: EventExports,
    private readonly memory: DecoderMemory,
  ) {}

  /** The next event, or undefined. */
  next(): DecoderEvent | undefined {
    for (;;) {
      const kind = this.calls.viewer_event();
      const [a = 0, b = 0, c = 0, d = 0, x = 0, y = 0, width = 0, height = 0] =
        this.memory.fields();
      switch (kind) {
        case 0:
          return undefined;
        case 1:
          return {
            type: "geometry",
            width: a,
            height: b,
            screen: { width: c, height: d },
            part: { x, y, width, height },
          };
        case 2: {
          const at = this.calls.viewer_image_at();
          const bytes = this.memory.bytes(at, this.calls.viewer_image_bytes());
          const rgba = new Uint8ClampedArray(bytes.buffer);
          return { type: "cursor", width: a, height: b, hotX: c, hotY: d, rgba };
        }
        case 3:
          return { type: "cursorShow", shown: a !== 0 };
        case 4:
          return { type: "barrier", id: a };
        case 6:
          return { type: "frameEnd", relativeWanted: a !== 0 };
        case 7:
          return { type: "closed", code: a, reason: this.memory.text() };
        case 8:
          return { type: "hello", name: this.memory.text() };
        case 10:
          return { type: "relativeWanted", wanted: a !== 0 };
        case 11:
          return { type: "people", own: a, people: peopleOf(this.memory.text()) };
        case 12:
          return { type: "shared", request: a, refused: b !== 0, text: this.memory.text() };
        case 13:
          return { type: "personPointer", number: a, x: b, y: c };
        case 14:
          return { type: "notice", text: this.memory.text(), brief: false };
        case 40:
          return { type: "notice", text: this.memory.text(), brief: true };
        case 41: {
          const at = this.calls.viewer_image_at();
          const bytes = this.memory.bytes(at, this.calls.viewer_image_bytes());
          return { type: "gamma", areas: gammaOf(bytes) };
        }
        case 15:
          return { type: "invitations", invitations: invitationsOf(this.memory.text()) };
        case 16:
          return { type: "clipOffer", selection: a, formats: b };
        case 17:
          return { type: "clipWanted", id: a, selection: b, format: c };
        case 18:
          return { type: "clipContent", id: a, bytes: this.takeContent() };
        case 19:
          return { type: "clipEnded", id: a, why: b, bytes: c, limit: d };
        case 20:
          return { type: "name", name: this.memory.text() };
        case 23:
          return { type: "graphics", line: this.memory.text() };
        case 21:
          return {
            type: "clipPolicy",
            policy: { toSession: (a & 1) !== 0, fromSession: (a & 2) !== 0 },
          };
        case 22: {
          const names = this.memory.text();
          return { type: "players", names: names === "" ? [] : names.split("\n") };
        }
        case 30:
          return {
            type: "microphone",
            wanted: a === 0 ? undefined : { channels: b, samples: c },
          };
        default:
          // Unused here: echoes (they are in the statistics) and pointer motions of the session (a
          // page cannot follow).
          continue;
      }
    }
  }

  /** What was copied; viewer-core does not keep it. */
  private takeContent(): Uint8Array<ArrayBuffer> {
    const bytes = this.memory.bytes(this.calls.viewer_clip_at(), this.calls.viewer_clip_bytes());
    this.calls.viewer_clip_forget();
    return bytes;
  }
}

/** Bytes of an area of gamma: its rectangle, and three tables. */
const GAMMA_BYTES = 16 + 3 * 256;

/** The words of areas, as `EventKind::Gamma` has them. */
function gammaOf(bytes: Uint8Array<ArrayBuffer>): GammaArea[] {
  return Array.from({ length: bytes.length / GAMMA_BYTES }, (_, index) => {
    const at = index * GAMMA_BYTES;
    const [x = 0, y = 0, width = 0, height = 0] = new Int32Array(bytes.buffer, at, 4);
    return { rect: { x, y, width, height }, channels: bytes.slice(at + 16, at + GAMMA_BYTES) };
  });
}

/** The lines of a list of people, as `EventKind::People` has them. */
function peopleOf(lines: string): Person[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [number = "", guest = "", bits = "", name = ""] = line.split("\t");
      return {
        number: Number(number),
        guest: Number(guest),
        name,
        control: (Number(bits) & 1) !== 0,
        pointer: (Number(bits) & 2) !== 0,
      };
    });
}

/** The lines of a list of invitations, as `EventKind::Invitations` has them. */
function invitationsOf(lines: string): Invitation[] {
  return lines
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [number = "", bits = "", used = "", uses = "", expiryS = "", name = ""] =
        line.split("\t");
      const has = (bit: number) => (Number(bits) & bit) !== 0;
      return {
        number: Number(number),
        name,
        control: has(1),
        clipboard: has(2),
        password: has(4),
        locked: has(8),
        sound: !has(16),
        used: Number(used),
        uses: Number(uses),
        expiryS: Number(expiryS),
      };
    });
}
