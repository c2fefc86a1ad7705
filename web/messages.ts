// What the page and the engine say to each other, across a worker's boundary or inside one thread.
// Path 13/13 and back: main.ts and input.ts on one side, engine.ts on the other.
// Plain data only; no bytes of the protocol pass here, they stay in the engine.

/** Microseconds since 1970, from one clock on both sides of the worker's boundary. */
export function nowUs(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}

export type PresenterKind = "webgl2" | "2d";

/** Everything the page may say to the engine. */
export type ToEngine =
  | {
      type: "start";
      canvas: OffscreenCanvas | HTMLCanvasElement;
      /** wss:// address of the session. */
      socketUrl: string;
      wasmUrl: string;
      /** Asked for when no socket can be had, to learn whether this browser is still let in. */
      probeUrl: string;
      /** The tab's size in device pixels. */
      width: number;
      height: number;
      /** Only this way of presenting, for tests; otherwise the engine chooses. */
      presenter?: PresenterKind;
      /** Keep pixels that may be shown again in the browser's store. */
      keep: boolean;
    }
  | { type: "key"; code: number; keysym: number; down: boolean; timeUs: number }
  | { type: "motion"; x: number; y: number }
  | { type: "button"; button: number; down: boolean; timeUs: number }
  | { type: "scroll"; dx: number; dy: number }
  | { type: "touch"; id: number; phase: TouchPhase; x: number; y: number }
  | { type: "releaseAll" }
  | { type: "resize"; width: number; height: number }
  | { type: "visible"; visible: boolean }
  /** Whether the page wants to be told what is not exact yet. */
  | { type: "tellInexact"; tell: boolean }
  | { type: "retry" }
  | { type: "disconnect" }
  | { type: "ask"; id: number; what: "quiet" | "pixels" | "stats" };

/** As `InputEvent::Touch` numbers its phases. */
export enum TouchPhase {
  Begin = 0,
  Update = 1,
  End = 2,
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

export interface Stats {
  presenter: PresenterKind;
  width: number;
  height: number;
  updates: number;
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
  /** Input to photon of the last keys and buttons in microseconds, oldest first. */
  photonUs: number[];
  commands: CommandStats[];
}

export type ConnectionState =
  /** The first connection, or one after a drop, is being made. */
  | { name: "connecting"; attempt: number }
  | { name: "connected" }
  /** The socket dropped; the engine tries again by itself. */
  | { name: "waiting"; retryMs: number }
  /** Over, for this reason; `again` when asking once more can help. */
  | { name: "closed"; title: string; reason: string; again: boolean };

/** Everything the engine may say to the page. */
export type FromEngine =
  | { type: "able"; able: boolean }
  | { type: "state"; state: ConnectionState }
  | { type: "geometry"; width: number; height: number }
  | { type: "name"; name: string }
  | { type: "cursor"; width: number; height: number; hotX: number; hotY: number; rgba: Uint8ClampedArray }
  | { type: "cursorShow"; shown: boolean }
  /** Where the picture shown last is not exact yet: x, y, width, height of each rectangle, disjoint. */
  | { type: "inexact"; rects: Int32Array }
  | { type: "answer"; id: number; value: undefined | Pixels | Stats }
  | { type: "failed"; id: number; reason: string };
