// Messages between page and engine, across a worker's boundary or inside one thread.
// Path 13/13, and path back: main.ts and input.ts on one side, engine.ts on the other.
// Plain data only; bytes of the protocol stay in the engine.

/** Microseconds since 1970, from one clock on both sides of the worker's boundary. */
export function nowUs(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000);
}

import type { Rect, Size, ViewRequest } from "../display/view";
import type { FilesCall, FilesEvent } from "../files/messages";
import type { Tab } from "../store/tab";
import type { TransportChoice } from "../transport/connection";
import type { TransportKind } from "../transport/transports";

/**
 * Length of the identifier by which the session knows a viewer; as in
 * crates/protocol/src/limits.rs.
 */
export const INSTANCE_BYTES = 16;

export type PresenterKind = "webgl2" | "2d";

/**
 * How good moving pictures are, in the order of menus; the place of each is its byte, as in
 * crates/protocol/src/picture_quality.rs.
 */
export const PICTURE_QUALITIES = ["auto", "exact", "high", "medium", "low"] as const;
export type PictureQuality = (typeof PICTURE_QUALITIES)[number];

/** How stereo programs are shown, as viewer-core's `StereoMode` numbers them. */
export const STEREO_MODES = ["off", "anaglyph", "side-by-side", "interleaved"] as const;
export type StereoMode = (typeof STEREO_MODES)[number];

/** Parts of a pixel in a pen's position, as in crates/protocol/src/pen.rs. */
export const PEN_FRACTION = 64;

/** Bits of a pen's state there. */
export const PenState = { Tip: 1, Button2: 2, Button3: 4, Near: 8, Eraser: 16 } as const;

/** What a pen does at one instant. */
export interface PenSample {
  /** In 1/64 of a pixel of the session's screen. */
  x: number;
  y: number;
  /** 0 to 65535. */
  pressure: number;
  /** Degrees from upright, to the right and towards the user. */
  tiltX: number;
  tiltY: number;
  /** Bits of `PenState`. */
  state: number;
}

/** Messages of the page to the engine. */
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
      /** Requested when no transport opens: answers whether the browser's login is valid. */
      loginUrl: string;
      /** Ends the login. */
      logoutUrl: string;
      /** Of the origin; a connection needs it beside the cookie. */
      secret: string;
      /** The page's number (store/page.ts). */
      page: string;
      /** Of the first connection. */
      opening: Opening;
      /** The size that the session's screen is to have; 0 × 0 keeps its size. */
      display: DisplaySize;
      /** Forces a presenter, for tests; otherwise the engine chooses. */
      presenter?: PresenterKind;
      /** Saves the viewer's cache in the browser's store. */
      persistCache: boolean;
      /** What the tab's pages have in common; undefined if this browser stores nothing. */
      tab?: Tab;
      /** Directions in which clipboard contents may go. */
      clipboard: ClipboardPolicy;
      /** Of every connection, until the person chooses another. */
      quality: PictureQuality;
      stereo: StereoMode;
    }
  | { type: "key"; code: number; keysym: number; down: boolean; timeUs: number }
  /** A typed character that no key stands for. */
  | { type: "char"; codePoint: number }
  /** The state of this keyboard's locks. */
  | { type: "locks"; caps: boolean; num: boolean }
  /** The layout of this keyboard, by X's names. */
  | { type: "layout"; layout: string; variant: string }
  | { type: "motion"; x: number; y: number }
  /** A distance, from wherever the session's pointer is. */
  | { type: "motionBy"; dx: number; dy: number }
  | { type: "button"; button: number; down: boolean; timeUs: number }
  | { type: "scroll"; dx: number; dy: number }
  | { type: "touch"; id: number; phase: TouchPhase; x: number; y: number }
  /** Samples of a pen, in order; `lifted`: one of them releases something. */
  | { type: "pen"; samples: PenSample[]; lifted: boolean }
  | { type: "releaseAll" }
  /** The size that the session's screen is to have; 0 × 0: any. */
  | { type: "display"; display: DisplaySize }
  /** The page shows this; the session is to send it. */
  | { type: "view"; view: ViewRequest }
  | { type: "visible"; visible: boolean }
  /** Whether the engine is to report the lossy parts of the screen. */
  | { type: "reportLossy"; report: boolean }
  /**
   * The page offers clipboard content under its own number, from 1. `formats` has bit 2ⁿ for
   * `ClipFormat` n.
   */
  | { type: "clipOffer"; number: number; formats: number }
  /**
   * Requests what the session has copied; `clipContent` or `clipFailed` answers with this number.
   */
  | { type: "clipRequest"; request: number; format: ClipFormat }
  /** Answers `clipWanted`; without bytes the content is not available. */
  | { type: "clipProvide"; id: number; bytes: Uint8Array<ArrayBuffer> | undefined }
  /** The user asks to share the session; `shared` answers with this number. */
  | { type: "share"; request: number; action: ShareAction }
  /** The user wants the clipboard to be shared in these directions, on all their devices. */
  | { type: "clipPolicy"; policy: ClipboardPolicy }
  /** How good moving pictures are from now on, also on later connections. */
  | { type: "pictureQuality"; quality: PictureQuality }
  /** How stereo programs are shown from now on, also on later connections. */
  | { type: "stereo"; mode: StereoMode }
  /** For about a second, and until everything was sent once, all is to be lossless. */
  | { type: "exactFrame" }
  /**
   * The page can play sound. With the port: messages for the player go there, and its reports come
   * from there. While `muted`, the session sends none; while `suspended`, what arrives is told.
   */
  | { type: "sound"; port?: MessagePort; muted: boolean; suspended: boolean }
  /** Whether the page receives files, from the next connection on. */
  | { type: "takeFiles"; takes: boolean }
  /** Whether it prints what programs of the session print, from the next connection on. */
  | { type: "takePrints"; prints: boolean }
  /** About files of this connection. */
  | { type: "files"; connection: number; call: FilesCall }
  /**
   * The page can record. `given`: the microphone is open, and what it hears comes from the port, a
   * frame of samples at a time; or it is not given. Without `given` this is only announced.
   */
  | { type: "microphone"; given?: boolean; port?: MessagePort }
  /** The user asks for another attempt, and may have said what it does. */
  | { type: "retry"; opening?: Opening }
  /** The machine or page may have slept: the connection has to be probed. */
  | { type: "wake" }
  | { type: "disconnect" }
  | { type: "query"; id: number; what: "idle" | "saved" | "pixels" | "stats" };

/** What a session has for this viewer. */
export interface Offers {
  sound: boolean;
  /** It may want the microphone. */
  microphone: boolean;
  /** It takes files. */
  files: boolean;
  /** Its programs print here. */
  printing: boolean;
  /** It takes choices of quality; else it sends nothing lossy. */
  quality: boolean;
  /** It takes pens; else they are mice. */
  pens: boolean;
  /** It sends the right eye's pictures of stereo programs. */
  stereo: boolean;
}

/** A viewer of the session, as the others see it. */
export interface Person {
  number: number;
  /** The guest's number; 0: a viewer of the owner's. */
  guest: number;
  /** What the guest calls itself. */
  name: string;
  /** Its input takes effect. */
  control: boolean;
  /** It moved the session's pointer last. */
  pointer: boolean;
}

/** What the colours of a part of the session's screen are shown as. */
export interface GammaArea {
  rect: Rect;
  /** 256 values of red, then of green, then of blue. */
  channels: Uint8Array;
}

/** Where a viewer's pointer is, in pixels of the session's screen. */
export interface PersonPointer {
  number: number;
  x: number;
  y: number;
}

/** What the owner may ask for. */
export type ShareAction =
  | {
      type: "invite";
      /** Guests may type and point, and with `clipboard` copy and paste. */
      control: boolean;
      clipboard: boolean;
      /** Guests hear the session. */
      sound: boolean;
      lifeS: number;
      /** How many guests may come. */
      uses: number;
      /** Empty: none. */
      password: string;
    }
  | { type: "giveControl" | "takeControl" | "endVisit"; guest: number }
  | { type: "revoke"; invitation: number };

/** An invitation that the owner can revoke. */
export interface Invitation {
  number: number;
  /** What the owner calls it; may be empty. */
  name: string;
  control: boolean;
  clipboard: boolean;
  sound: boolean;
  password: boolean;
  /** After too many wrong passwords. */
  locked: boolean;
  /** How many guests have come, and how many may. */
  used: number;
  uses: number;
  /** Seconds since 1970. */
  expiryS: number;
}

/** The session's answer to a request: the link of an invitation, or why nothing was done. */
export interface Shared {
  request: number;
  refused: boolean;
  text: string;
}

/** As `InputEvent::Touch` numbers its phases. */
export enum TouchPhase {
  Begin = 0,
  Update = 1,
  End = 2,
}

/** Formats, as `ClipFormat` of crates/protocol/src/clip.rs numbers them. */
export enum ClipFormat {
  Text = 0,
  Html = 1,
  Png = 2,
}

/** Why clipboard content is not delivered; as `ClipEnd` there. */
export enum ClipFailure {
  Cancelled = 0,
  Gone = 1,
  TooLarge = 2,
  Failed = 3,
}

/** How what a microphone hears is coded: Opus at 48 kHz. */
export interface MicrophoneFormat {
  channels: number;
  /** Of each channel, in a frame. */
  samples: number;
}

/** Directions in which clipboard contents may go. */
export interface ClipboardPolicy {
  toSession: boolean;
  fromSession: boolean;
}

export interface DisplaySize extends Size {
  /** Scale at which applications should draw, in percent; 0: unknown. */
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

/** Frames of video since the connection began. */
export interface VideoStats {
  /** Received encoded. */
  coded: number;
  /** Painted, encoded or not. */
  shown: number;
  /** Decoded, and not painted because nothing of them was visible any more. */
  skipped: number;
  /** Not decoded. */
  dropped: number;
  /** How often a keyframe was requested, and how often a stream was refused. */
  keyframeRequests: number;
  refused: number;
  /** From the last frame's arrival to its painting. */
  delayUs: number;
}

export interface Stats {
  /** The transport in use; undefined without a connection. */
  transport: TransportKind | undefined;
  /** Why it took another's place; undefined if it was the first choice. */
  transportReason: string | undefined;
  /** What draws the session's 3D programs, in words, once it has told. */
  graphics: string | undefined;
  presenter: PresenterKind;
  width: number;
  height: number;
  updates: number;
  /**
   * How many of them arrived as datagrams. `lateUpdates` arrived as datagrams, already replaced,
   * and are not counted in `updates`.
   */
  datagramUpdates: number;
  lateUpdates: number;
  presents: number;
  bytesIn: number;
  bytesOut: number;
  /** Bytes of packed commands, before and after unpacking. */
  packedBytes: number;
  unpackedBytes: number;
  /** Pixels that are lossy now. */
  lossyPixels: number;
  /** Round trip in microseconds, smoothed and minimal; 0 if unknown. */
  rttUs: number;
  rttMinUs: number;
  video: VideoStats;
  /**
   * Time from an input to the presentation of its echo, of the last keys and buttons, in
   * microseconds, oldest first.
   */
  inputToPresentUs: number[];
  commands: CommandStats[];
}

export type ConnectionState =
  /** The first connection, or a reconnection, is in progress. */
  | { name: "connecting"; attempt: number }
  | { name: "connected" }
  /** Connected, but the session does not answer. */
  | { name: "unresponsive" }
  /** The connection was lost; the engine reconnects by itself. */
  | { name: "waiting"; retryMs: number; failures: number }
  /** Closed for this reason; `canRetry` if another attempt can help. */
  | { name: "closed"; title: string; reason: string; canRetry: boolean; shown?: ShownElsewhere };

/**
 * What a connection does where the session is shown at another viewer of its owner's: nothing, if
 * it only reconnects; what the session's policy says; or what the user has chosen.
 */
export type Opening = "reconnects" | "opens" | "takes over" | "joins";

/** The user has opened the session elsewhere; or it is shown there, and the user has to choose. */
export type ShownElsewhere = "opened" | "asks";

/** Messages of the engine to the page. */
export type FromEngine =
  | { type: "supported"; supported: boolean }
  | { type: "state"; state: ConnectionState }
  /** Whether the next connection will send what is typed without one. */
  | { type: "buffering"; buffering: boolean }
  /** The canvas has this size, and shows this part of the session's screen. */
  | { type: "geometry"; width: number; height: number; screen: Size; part: Rect }
  | { type: "name"; name: string }
  /** The tab's next page is to start without saved state. */
  | { type: "clearSavedState" }
  /** The browser's login is to be forgotten. */
  | { type: "forgetLogin" }
  /** The session does not accept the browser's login any more. */
  | { type: "loginRefused" }
  | {
      type: "cursor";
      width: number;
      height: number;
      hotX: number;
      hotY: number;
      rgba: Uint8ClampedArray;
    }
  | { type: "cursorShow"; shown: boolean }
  /** Whether an application wants to know how far the pointer moves, and not where it is. */
  | { type: "relativeWanted"; wanted: boolean }
  /** What the screen's colours are shown as; of several tables at a place the first counts. */
  | { type: "gamma"; areas: GammaArea[] }
  /** Who shows the session now, and this viewer's number. */
  | { type: "people"; own: number; people: Person[] }
  /** Those that this viewer's user can revoke, the oldest first. */
  | { type: "invitations"; invitations: Invitation[] }
  | ({ type: "shared" } & Shared)
  | ({ type: "personPointer" } & PersonPointer)
  /** Of the session's administrator or the session itself, to be read. */
  | { type: "notice"; text: string; brief: boolean }
  /** In which directions the session shares the clipboard with the user's viewers. */
  | { type: "clipPolicy"; policy: ClipboardPolicy }
  /** The lossy parts of the presented picture: x, y, width, height of each rectangle, disjoint. */
  | { type: "lossy"; rects: Int32Array }
  /**
   * The session offers clipboard content, or none (no formats). `copied`: it was copied after the
   * connection began. `after`: the number of the page's last offer that the session had received.
   */
  | { type: "clipOffer"; after: number; formats: number; copied: boolean }
  /** An application pastes what the page has offered. */
  | { type: "clipWanted"; id: number; format: ClipFormat }
  | { type: "clipContent"; request: number; bytes: Uint8Array<ArrayBuffer> }
  /**
   * The requested content is not delivered. `bytes` and `limit` belong to `TooLarge`; 0 bytes:
   * unknown.
   */
  | { type: "clipFailed"; request: number; why: ClipFailure; bytes: number; limit: number }
  /** Another connection took the place of the one that was to deliver what was requested. */
  | { type: "clipInterrupted" }
  /** The session did not take the page's content. */
  | { type: "clipRefused"; why: ClipFailure; bytes: number; limit: number }
  /** What a session that has just answered has for this viewer. */
  | { type: "offers"; offers: Offers }
  /** A stereo program was shown in this connection. */
  | { type: "stereoSeen" }
  /** Sound has arrived while the page's audio was suspended. */
  | { type: "soundArrived" }
  /** These programs play now. */
  | { type: "players"; names: string[] }
  /** About files of this connection; a later one has a larger number. */
  | { type: "files"; connection: number; event: FilesEvent }
  /**
   * The session may want the microphone; a program records, and wants it like this, or none does.
   * `failed`: why the browser cannot code what it hears.
   */
  | { type: "microphone"; wanted: MicrophoneFormat | undefined; failed?: string }
  | { type: "answer"; id: number; value: undefined | Pixels | Stats }
  | { type: "failed"; id: number; reason: string };
