// What the menu says of sound, microphone, files, printing, sharing, copying, quality and stereo:
// its entries in this order, each with its state, and why it is so or who has switched it off.
// Path 13/13, beside the pixels: from channels.ts, to entry.ts. The words are those of
// crates/viewer-native/src/window/entries.rs; doc/using.md lists both, which tests compare.
// Knows states and words; never elements.

import type { Offers, PictureQuality, StereoMode } from "../engine/messages";

/** In the order of the menu. */
export const ENTRIES = [
  "Sound",
  "Microphone",
  "Files",
  "Printing",
  "Sharing",
  "Copying",
  "Quality",
  "Stereo",
] as const;
export type EntryName = (typeof ENTRIES)[number];

/** What an entry says after its name. */
export interface Words {
  state: string;
  why: string;
}

/** What concerns all entries. */
export interface Situation {
  /** Undefined without a connection. */
  offers: Offers | undefined;
  /** This viewer is a guest's. */
  isGuest: boolean;
}

/** Why something cannot be, before the session is asked. */
interface Own {
  /** The page's address switches it off. */
  isOff: boolean;
  /** What this browser lacks. */
  missing: string | undefined;
}

export interface SoundSide extends Own {
  /** Why this browser or device plays nothing. */
  failed: string | undefined;
  /** The browser wants a key or a click first. */
  waits: boolean;
  muted: boolean;
  /** 0 to 1. */
  volume: number;
  /** Programs that play. */
  players: readonly string[];
}

export interface MicrophoneSide extends Own {
  failed: string | undefined;
  /** The person has said that it stays off. */
  refused: boolean;
  /** A program of the session records. */
  isWanted: boolean;
  isOpen: boolean;
}

export interface FilesSide extends Own {
  /** Transfers in progress. */
  transfers: number;
}

export type PrintingSide = Own;

export interface SharingSide {
  /** Names of the others who show the session; undefined while it has not said who does. */
  others: readonly string[] | undefined;
  hasControl: boolean;
}

/** Undefined: the session has not told its choice, as it never tells guests. */
export type CopyingSide = "both" | "to-session" | "to-viewer" | "off" | undefined;

/** Why an entry is off, if it is. */
function off(
  { isOff, missing }: Own,
  { offers, isGuest }: Situation,
  words: { option: string; offered: boolean | undefined; guest: string },
): Words | undefined {
  const because = (why: string): Words => ({ state: "off", why });
  if (isOff) return because(`by this page's address (?${words.option})`);
  if (missing !== undefined) return because(`this browser cannot: ${missing}`);
  if (offers === undefined) return because("not connected");
  if (words.offered === true) return undefined;
  return because(isGuest ? words.guest : `by the server (--${words.option})`);
}

export function soundWords(side: SoundSide, situation: Situation): Words {
  const { failed, waits, muted, volume, players } = side;
  const none = off(side, situation, {
    option: "sound",
    offered: situation.offers?.sound,
    guest: "the owner's invitation is without sound",
  });
  if (none !== undefined) return none;
  if (failed !== undefined) return { state: "off", why: `this device plays nothing: ${failed}` };
  if (waits) return { state: "waits", why: "the browser starts it with your first key or click" };
  const percent = `${Math.round(volume * 100)} %`;
  if (muted)
    return { state: `muted, ${percent}`, why: "the session sends none until you end that" };
  const why = players.length === 0 ? "nothing plays" : `playing: ${players.join(", ")}`;
  return { state: `on, ${percent}`, why };
}

export function microphoneWords(side: MicrophoneSide, situation: Situation): Words {
  const { failed, refused, isWanted, isOpen } = side;
  const none = off(side, situation, {
    option: "microphone",
    offered: situation.offers?.microphone,
    guest: "guests give none",
  });
  if (none !== undefined) return none;
  if (failed !== undefined) return { state: "off", why: `it was lost: ${failed}` };
  if (isOpen) return { state: "on", why: "a program records" };
  if (refused) return { state: "off", why: "by you, whatever records" };
  if (isWanted) return { state: "off", why: "a program records, and you are asked" };
  return { state: "off", why: "no program records" };
}

export function filesWords(side: FilesSide, situation: Situation): Words {
  const none = off(side, situation, {
    option: "files",
    offered: situation.offers?.files,
    guest: "guests send none",
  });
  if (none !== undefined) return none;
  const { transfers } = side;
  if (transfers === 0) return { state: "on", why: "drop them here, or choose them" };
  const count = transfers === 1 ? "1 transfer is" : `${transfers} transfers are`;
  return { state: "on", why: `${count} in progress` };
}

export function printingWords(side: PrintingSide, situation: Situation): Words {
  const none = off(side, situation, {
    option: "printing",
    offered: situation.offers?.printing,
    guest: "guests print nothing",
  });
  return none ?? { state: "on", why: "what a program prints opens here once you agree" };
}

export function sharingWords(side: SharingSide, { offers, isGuest }: Situation): Words {
  const { others, hasControl } = side;
  if (offers === undefined) return { state: "off", why: "not connected" };
  if (others === undefined) return { state: "off", why: "the session does not say who is here" };
  if (isGuest)
    return { state: "guest", why: hasControl ? "you may type and point" : "you only see it" };
  if (others.length === 0) return { state: "only you", why: "nobody else sees this session" };
  return { state: `${others.length + 1} people`, why: `also here: ${others.join(", ")}` };
}

export function copyingWords(side: CopyingSide, { offers }: Situation): Words {
  if (offers === undefined) return { state: "off", why: "not connected" };
  switch (side) {
    case undefined:
      return { state: "as allowed", why: "the owner decides what is copied" };
    case "both":
      return { state: "both directions", why: "on all your devices" };
    case "to-session":
      return { state: "to the session", why: "on all your devices" };
    case "to-viewer":
      return { state: "from the session", why: "on all your devices" };
    case "off":
      return { state: "off", why: "by you, on all your devices" };
  }
}

/** What each choice means for moving pictures. */
const QUALITIES: Readonly<Record<PictureQuality, string>> = {
  auto: "as the connection allows",
  exact: "nothing is lossy; moving pictures may have fewer frames",
  high: "3D looks as it is drawn; it may have fewer frames",
  medium: "moving pictures are slightly lossy",
  low: "moving pictures are lossy, and take few bytes",
};

/** The choice is this viewer's: without a connection it is that of the next one. */
export function qualityWords(chosen: PictureQuality, { offers }: Situation): Words {
  if (offers?.quality === false) return { state: "as it is", why: "this session takes no choice" };
  return { state: chosen, why: QUALITIES[chosen] };
}

/** How each mode shows two pictures. */
const STEREO: Readonly<Record<StereoMode, string>> = {
  off: "only the left eye's picture of stereo programs",
  anaglyph: "for red-cyan glasses",
  "side-by-side": "the left eye's picture in the left half",
  interleaved: "even rows for the left eye, odd rows for the right",
};

export function stereoWords(chosen: StereoMode, { offers }: Situation): Words {
  if (offers?.stereo === false) return { state: "off", why: "this session has no stereo" };
  return { state: chosen, why: STEREO[chosen] };
}
