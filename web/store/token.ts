// The token in a link's fragment, of an owner or of a guest: removed from the address bar, and
// redeemed for a login.
// Used by login.ts, and by main.ts for a link opened while the browser has an older login.
// A login is a cookie, which browsers send to every port of the host, and a secret, which is kept
// in the storage of this origin and which nobody on another port can read.

/** Why there is no login. */
export type Refusal =
  | { kind: "refused"; status: number }
  | { kind: "unreachable"; reason: string }
  | { kind: "blocked" };

/** How a person gets another login. */
export const NEW_LINK =
  "Run thinc link on the session's machine, and open the link that it prints.";

/** Carries the secret in requests; a WebSocket's is in the name of a subprotocol. */
const SECRET_HEADER = "thinc-origin-secret";
const SUBPROTOCOL = "thinc";

/** The headers of a request for this login, and the subprotocols of its WebSocket. */
export const headersOf = (secret: string) => ({ [SECRET_HEADER]: secret });
export const protocolsOf = (secret: string) => [
  SUBPROTOCOL,
  `${SUBPROTOCOL}.origin-secret.${secret}`,
];

/** Sessions behind one proxy share an origin. */
const secretKey = (path = new URL("./", document.baseURI).pathname) => `thinc secret ${path}`;

/**
 * The secret of the last login in this browser; undefined if there is none, or if its storage is
 * blocked.
 */
export function loadSecret(): string | undefined {
  try {
    return localStorage.getItem(secretKey()) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a login's secret for the page at `path`. */
export const saveSecret = (secret: string, path?: string) =>
  localStorage.setItem(secretKey(path), secret);

/** The next page of this browser, or the page at `path`, has no login. */
export function forgetSecret(path?: string): void {
  try {
    localStorage.removeItem(secretKey(path));
  } catch {
    // There is none.
  }
}

/** Whether this browser could keep a login: a token would be lost. */
function canKeepLogin(): boolean {
  try {
    const key = `${secretKey()} test`;
    localStorage.setItem(key, "");
    localStorage.removeItem(key);
    return navigator.cookieEnabled;
  } catch {
    return false;
  }
}

/** The token after `#t=`; removes it from the address bar and the history entry. */
export function takeToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get("t");
  if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
  return token === null || token === "" ? undefined : token;
}

/** What a person who was invited has to be asked for. */
export interface Invitation {
  password: boolean;
}

/** What that person has answered. */
export interface Guest {
  name: string;
  password: string;
}

/**
 * The length of an invitation's token, behind a broker with the ID of the desktop, and its first
 * byte: a name, or a password too.
 */
const INVITATION_BYTES = 57;
const DESKTOP_ID_BYTES = 16;
const FORM_NAME = 1;
const FORM_PASSWORD = 2;

/** Undefined for the token of an owner's link. A hint: the session decides. */
export function invitationOf(token: string): Invitation | undefined {
  let bytes: string;
  try {
    bytes = atob(token.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return undefined;
  }
  const form = bytes.charCodeAt(0);
  const lengths = [INVITATION_BYTES, INVITATION_BYTES + DESKTOP_ID_BYTES];
  if (!lengths.includes(bytes.length) || (form !== FORM_NAME && form !== FORM_PASSWORD))
    return undefined;
  return { password: form === FORM_PASSWORD };
}

/** Undefined if the browser has the login now. */
export async function redeem(token: string, guest?: Guest): Promise<Refusal | undefined> {
  if (!canKeepLogin()) return { kind: "blocked" };
  try {
    const response = await fetch("./login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token, ...guest }),
      credentials: "same-origin",
      cache: "no-store",
    });
    if (!response.ok) return { kind: "refused", status: response.status };
    const { originSecret } = (await response.json()) as { originSecret: string };
    saveSecret(originSecret);
    return undefined;
  } catch (error) {
    return { kind: "unreachable", reason: error instanceof Error ? error.message : String(error) };
  }
}

/** Ends the login, and with it the connections of this browser's other tabs; false if it fails. */
export async function logout(url: string, secret: string): Promise<boolean> {
  const headers = headersOf(secret);
  try {
    // It is sent even if the tab is closed at once.
    return (await fetch(url, { method: "POST", headers, cache: "no-store", keepalive: true })).ok;
  } catch {
    return false;
  }
}

export function describeRefusal(refusal: Refusal, isGuest = false): string {
  if (refusal.kind === "blocked") {
    return (
      "This browser keeps no cookies and no data for this address. Allow both (site settings), " +
      "or use a private window, then open the link again: it was not used."
    );
  }
  if (refusal.kind === "unreachable") {
    return (
      `The session could not be reached (${refusal.reason}). Is it still running? ` +
      "Load this page again to retry."
    );
  }
  switch (refusal.status) {
    case 400:
    case 401:
    case 403:
    case 410:
      if (isGuest)
        return (
          "The invitation was used, has ended, or was not copied completely, or the password is " +
          "wrong. Try again, or ask the owner of the session for a new link."
        );
      return (
        "Each link works once, and for a short time: this one was used already, is too old, or " +
        "was not copied completely. Make a new one with: thinc link"
      );
    case 429:
      return "Too many wrong links were tried. Wait a minute, then open the link again.";
    default:
      return `The server answered ${refusal.status}. Its log says more.`;
  }
}
