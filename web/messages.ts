// What the page and the engine say to each other, across a worker's boundary or inside one thread.
// Path 13/13 and back: main.ts and input.ts on one side, engine.ts on the other.
// Plain data only; no bytes of the protocol pass here, they stay in the engine.

/** Microseconds since 1970, from one clock on both sides of the worker's boundary. */
export function nowUs(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}

import type { Tab } from "./tab";
import type { TransportChoice } from "./transport";
import type { Rect, Size, Wish } from "./view";
import type { WayKind } from "./ways";

/** Of the number by which the session knows a viewer; as in crates/protocol/src/limits.rs. */
export const INSTANCE_BYTES = 16;

export type PresenterKind = "webgl2" | "2d";

/** Everything the page may say to the engine. */
export type ToEngine =
  | {
      type: "start";
      canvas: OffscreenCanvas | HTMLCanvasElement;
      /** wss:// address of the session. */
      socketUrl: string;
      /** https:// address of its WebTransport. */
      webTransportUrl: string;
      transport: TransportChoice;
      wasmUrl: string;
      /** Asked for when no socket can be had, to learn whether this browser is still let in. */
      probeUrl: string;
      /** What the session's screen is to become; 0 × 0 keeps its size. */
      display: DisplaySize;
      /** Only this way of presenting, for tests; otherwise the engine chooses. */
      presenter?: PresenterKind;
      /** Keep pixels that may be shown again in the browser's store. */
      keep: boolean;
      /** What the tab's pages have in common; undefined where this browser keeps nothing. */
      tab?: Tab;
      /** Which way contents of clipboards may go. */
      clipboard: ClipboardPolicy;
    }
  | { type: "key"; code: number; keysym: number; down: boolean; timeUs: number }
  /** Something typed that no key stands for. */
  | { type: "char"; codePoint: number }
  /** Which lock keys are on here. */
  | { type: "locks"; caps: boolean; num: boolean }
  /** How the keyboard here is laid out, by X's names. */
  | { type: "layout"; layout: string; variant: string }
  | { type: "motion"; x: number; y: number }
  | { type: "button"; button: number; down: boolean; timeUs: number }
  | { type: "scroll"; dx: number; dy: number }
  | { type: "touch"; id: number; phase: TouchPhase; x: number; y: number }
  | { type: "releaseAll" }
  /** The session's screen is to become so large; 0 × 0: whatever it likes. */
  | { type: "display"; display: DisplaySize }
  /** This is shown, and so is to be sent. */
  | { type: "view"; wish: Wish }
  | { type: "visible"; visible: boolean }
  /** Whether the page wants to be told what is not exact yet. */
  | { type: "tellInexact"; tell: boolean }
  /** This page has something to paste; its own number, from 1. `formats` has bit 2ⁿ for `ClipFormat` n. */
  | { type: "clipOffer"; number: number; formats: number }
  /** Wants what the session has copied; `clipContent` or `clipFailed` answers with this number. */
  | { type: "clipRequest"; request: number; format: ClipFormat }
  /** Answers `clipWanted`; without bytes it cannot be had. */
  | { type: "clipProvide"; id: number; bytes: Uint8Array<ArrayBuffer> | undefined }
  /** A person asks for another attempt. */
  | { type: "retry" }
  /** The machine or the page may have slept: is the connection still good? */
  | { type: "wake" }
  | { type: "disconnect" }
  | { type: "ask"; id: number; what: "quiet" | "kept" | "pixels" | "stats" };

/** As `InputEvent::Touch` numbers its phases. */
export enum TouchPhase {
  Begin = 0,
  Update = 1,
  End = 2,
}

/** As `ClipFormat` of crates/protocol/src/clip.rs numbers what contents are. */
export enum ClipFormat {
  Text = 0,
  Html = 1,
  Png = 2,
}

/** As `ClipEnd` there: why a content does not come. */
export enum ClipWhy {
  Cancelled = 0,
  Gone = 1,
  TooLarge = 2,
  Failed = 3,
}

/** Which way contents of clipboards may go. */
export interface ClipboardPolicy {
  toSession: boolean;
  fromSession: boolean;
}

export interface DisplaySize extends Size {
  /** How large things are to be drawn, in percent; 0: not known. */
  scale: number;
}

export interface Pixels {
  width: number;
  height: number;
  /** Red, green, blue, 255; row after row. */
  data: Uint8ClampedArray;
}

export interface CommandStats {
  name: string;
  count: number;
  bytes: number;
}

/** Pictures of video, since the connection was made. */
export interface VideoStats {
  /** Those that came coded, … */
  coded: number;
  /** … that were painted, these and others; … */
  shown: number;
  /** … that were decoded when nothing of them was to be seen any more; … */
  late: number;
  /** … and that were not decoded. */
  dropped: number;
  /** How often the session was told that a stream's track was lost, and that a stream cannot be shown. */
  lost: number;
  refused: number;
  /** From the last picture's coming to its being painted. */
  delayUs: number;
}

export interface Stats {
  /** By which way the session is connected; undefined while it is not. */
  transport: WayKind | undefined;
  presenter: PresenterKind;
  width: number;
  height: number;
  updates: number;
  /** Of those, how many came alone; and how many came so and too late, and are not among them. */
  updatesAlone: number;
  updatesLate: number;
  presents: number;
  bytesIn: number;
  bytesOut: number;
  /** Bytes of packed commands, as they came and unpacked. */
  packedBytes: number;
  unpackedBytes: number;
  /** Pixels that are only nearly what the session shows, so far. */
  inexactPixels: number;
  /** Round trip in microseconds, of late and at best; 0 before the first answer. */
  rttUs: number;
  rttMinUs: number;
  video: VideoStats;
  /** Input to photon of the last keys and buttons in microseconds, oldest first. */
  photonUs: number[];
  commands: CommandStats[];
}

export type ConnectionState =
  /** The first connection, or one after a drop, is being made. */
  | { name: "connecting"; attempt: number }
  | { name: "connected" }
  /** Connected still, but nothing comes in answer. */
  | { name: "silent" }
  /** The socket dropped; the engine tries again by itself. */
  | { name: "waiting"; retryMs: number; failures: number }
  /** Over, for this reason; `again` when asking once more can help. */
  | { name: "closed"; title: string; reason: string; again: boolean };

/** Everything the engine may say to the page. */
export type FromEngine =
  | { type: "able"; able: boolean }
  | { type: "state"; state: ConnectionState }
  /** What is typed without a connection will be sent by the next, or not any more. */
  | { type: "keeps"; keeps: boolean }
  /** The picture on the canvas has this size, and shows this part of the session's screen. */
  | { type: "geometry"; width: number; height: number; screen: Size; part: Rect }
  | { type: "name"; name: string }
  /** The tab's next page is to begin anew. */
  | { type: "forget" }
  | { type: "cursor"; width: number; height: number; hotX: number; hotY: number; rgba: Uint8ClampedArray }
  | { type: "cursorShow"; shown: boolean }
  /** Where the picture shown last is not exact yet: x, y, width, height of each rectangle, disjoint. */
  | { type: "inexact"; rects: Int32Array }
  /**
   * The session has something to paste, or (no formats) no longer. `copied`: just now, and not before the connection was made.
   * `after`: the number of the page's last offer that went before.
   */
  | { type: "clipOffer"; after: number; formats: number; copied: boolean }
  /** A program pastes what the page offered. */
  | { type: "clipWanted"; id: number; format: ClipFormat }
  | { type: "clipContent"; request: number; bytes: Uint8Array<ArrayBuffer> }
  /** What the page asked for does not come. `bytes` and `limit` with `TooLarge`; 0 bytes: not known how many. */
  | { type: "clipFailed"; request: number; why: ClipWhy; bytes: number; limit: number }
  /** What the page gave was not taken. */
  | { type: "clipRefused"; why: ClipWhy; bytes: number; limit: number }
  | { type: "answer"; id: number; value: undefined | Pixels | Stats }
  | { type: "failed"; id: number; reason: string };
