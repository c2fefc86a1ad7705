// The menu's choice of what is copied and pasted between this device and the session, which the
// session keeps for all devices of its owner, and enforces.
// Beside the path: from the session's word on it, to the engine.
// Knows directions; never what is copied.

import type { ClipboardPolicy } from "../engine/messages";
import type { CopyingSide } from "./entries";

const POLICIES: Readonly<Record<NonNullable<CopyingSide>, ClipboardPolicy>> = {
  both: { toSession: true, fromSession: true },
  "to-session": { toSession: true, fromSession: false },
  "to-viewer": { toSession: false, fromSession: true },
  off: { toSession: false, fromSession: false },
};

export class CopyingChoice {
  /** For the menu: what the session has told. */
  side: CopyingSide;

  /** `changed`: `side` is another. */
  constructor(
    private readonly select: HTMLSelectElement,
    choose: (policy: ClipboardPolicy) => void,
    private readonly changed: () => void,
  ) {
    select.addEventListener("change", () => {
      choose(POLICIES[select.value as NonNullable<CopyingSide>]);
    });
  }

  /** The session has this choice now; it tells none to guests. */
  show({ toSession, fromSession }: ClipboardPolicy): void {
    const sides = Object.keys(POLICIES) as NonNullable<CopyingSide>[];
    this.side = sides.find((side) => {
      const policy = POLICIES[side];
      return policy.toSession === toSession && policy.fromSession === fromSession;
    });
    this.select.value = this.side ?? "";
    this.select.hidden = false;
    this.changed();
  }
}
