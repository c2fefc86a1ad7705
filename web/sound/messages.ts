// Messages between the page, the engine and the player of sound on the audio thread.
// Path 13/13, beside the pixels: sound.ts and engine/sound.ts on one side, worklet.ts on the other.

/** Of the page to the player. */
export type ToPlayer =
  /** From here come the session's messages, and "reset" where a connection begins. */
  | { type: "engine"; port: MessagePort }
  /** From 0 to 1. */
  | { type: "volume"; volume: number }
  /** So long after a sample was pulled it is heard. */
  | { type: "device"; latencyUs: number }
  /** The audio was suspended, and its clock stood still. */
  | { type: "resumed" };

/** Of the engine to the player: a message of the session, or what the connection asks for. */
export type ToPlayerFromEngine =
  | Uint8Array<ArrayBuffer>
  /** A connection begins. */
  | "reset"
  /** Sound is to be so much later, for pictures that are seen later. */
  | { extraUs: number };

/** What a SOUND STATE tells the session; as crates/sound-web/src/lib.rs orders it. */
export interface PlayerReport {
  heard: number;
  delayUs: number;
  received: number;
  lost: number;
  concealed: number;
  runs: number;
}

/** Of the player to the page. */
export type FromPlayer =
  /** Every second while there is sound. */
  | { type: "playing"; report: PlayerReport }
  /** Nothing was heard for a while: the audio may be suspended. */
  | { type: "silent" };
