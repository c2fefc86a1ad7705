// The menu's choice of what is copied and pasted between this device and the session, which the
// session keeps for all devices of its owner, and enforces.
// Beside the path: from the session's word on it, to the engine.
// Knows directions; never what is copied.

import type { ClipboardPolicy } from "../engine/messages";

const POLICIES: Readonly<Record<string, ClipboardPolicy>> = {
  both: { toSession: true, fromSession: true },
  "to-session": { toSession: true, fromSession: false },
  "to-viewer": { toSession: false, fromSession: true },
  off: { toSession: false, fromSession: false },
};

export class CopyingChoice {
  constructor(
    private readonly select: HTMLSelectElement,
    choose: (policy: ClipboardPolicy) => void,
  ) {
    select.addEventListener("change", () => {
      const policy = POLICIES[select.value];
      if (policy !== undefined) choose(policy);
    });
  }

  /** The session has this choice now; it tells none to guests. */
  show({ toSession, fromSession }: ClipboardPolicy): void {
    const found = Object.entries(POLICIES).find(
      ([, policy]) => policy.toSession === toSession && policy.fromSession === fromSession,
    );
    if (found !== undefined) this.select.value = found[0];
    this.select.hidden = false;
  }
}
