// The token in a link's fragment: taken out of the address bar, and redeemed.
// Used by login.ts, and by main.ts for a link opened where an older cookie is still held.
// Knows the address and one request; keeps nothing.

/** Why a token was not taken. */
export type Refusal = { kind: "refused"; status: number } | { kind: "unreachable"; reason: string };

/** The token after `#t=`, which is removed from the address bar and from this entry of the history. */
export function takeToken(): string | undefined {
  const token = new URLSearchParams(location.hash.slice(1)).get("t");
  if (location.hash !== "") history.replaceState(null, "", location.pathname + location.search);
  return token === null || token === "" ? undefined : token;
}

/** Undefined once the browser holds the cookie. */
export async function redeem(token: string): Promise<Refusal | undefined> {
  try {
    const response = await fetch("./login", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token }),
      credentials: "same-origin",
      cache: "no-store",
    });
    return response.ok ? undefined : { kind: "refused", status: response.status };
  } catch (error) {
    return { kind: "unreachable", reason: error instanceof Error ? error.message : String(error) };
  }
}

export function wordsForRefusal(refusal: Refusal): string {
  if (refusal.kind === "unreachable") {
    return `The session could not be reached (${refusal.reason}). Is it still running? Load this page again to retry.`;
  }
  switch (refusal.status) {
    case 400:
    case 401:
    case 403:
    case 410:
      return "Each link works once, and for a short time: this one was used already, is too old, or was not copied whole. Make a new one with: thinc link";
    case 429:
      return "Too many wrong links were tried just now. Wait a minute, then open the link again.";
    default:
      return `The server answered ${refusal.status}. Its own messages say more.`;
  }
}
