// Why the viewer shows no session any more, in words for the user.
// Beside the path: for engine.ts, where connections end. Knows strings only.

import { NEW_LINK } from "../store/token";
import type { ConnectionState } from "./messages";
import { messageOf, sentence } from "./words";

export type End = Extract<ConnectionState, { name: "closed" }>;

// As `CloseCode` of crates/protocol/src/session.rs.
const CLOSE = {
  ended: 1,
  version: 2,
  unauthorized: 3,
  protocol: 4,
  tooSlow: 5,
  replaced: 6,
  restart: 7,
  elsewhere: 8,
} as const;

/** Another attempt can help. */
function forNow(title: string, reason: string): End {
  return { name: "closed", title, reason, canRetry: true };
}

function forGood(title: string, reason: string): End {
  return { name: "closed", title, reason, canRetry: false };
}

export const REFUSED = forGood(
  "This link is no longer valid",
  `The session does not know this browser any more. ${NEW_LINK}`,
);

export const DISCONNECTED = forGood(
  "Disconnected",
  `The session continues without you. ${NEW_LINK}`,
);

/** The login was to end, and the session did not hear of it. */
export const DISCONNECTED_HERE_ONLY = forGood(
  "Disconnected",
  "This browser has forgotten its login, but the session could not be told: the login itself " +
    "is valid until thinc link --revoke or the session's end.",
);

export const notStarted = (error: unknown): End =>
  forGood("The viewer cannot start", messageOf(error));

/** The session's bytes violate the protocol. */
export const failed = (error: Error): End => forNow("The connection failed", error.message);

/** viewer-core panicked, and has said so, or a call of ours threw. */
export const crashed = (panic: string | undefined, error: unknown): End =>
  forNow("The viewer failed", `This is a bug of thinc: ${panic ?? messageOf(error)}`);

/**
 * What a session means that closes the connection; undefined if the page is to reconnect. If no
 * attempt can help, what the browser stores of the session is of no use.
 */
export function endOf(code: number, reason: string): End | undefined {
  switch (code) {
    case CLOSE.restart:
    case CLOSE.tooSlow:
      return undefined;
    case CLOSE.ended:
      return forGood(
        "The session has ended",
        `${sentence(reason)}Start it again with thinc serve on its machine, and open its link.`,
      );
    case CLOSE.replaced:
      return { ...forNow("Another viewer took over", reason), shown: "opened" };
    case CLOSE.elsewhere:
      return { ...forNow("The session is shown elsewhere", reason), shown: "asks" };
    case CLOSE.version:
      return forNow("This page and the session have different protocol versions", reason);
    case CLOSE.unauthorized:
      return forGood("This link is no longer valid", `${sentence(reason)}${NEW_LINK}`);
    default:
      return forNow("The session closed the connection", reason);
  }
}
