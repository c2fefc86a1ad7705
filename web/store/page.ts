// The number of this page, and what it says when it is left: browsers keep its WebTransport open
// until QUIC's time-out, and it would be listed as a viewer for half a minute.
// Beside the path: from main.ts, to the server by a request of its own.
// Knows a random number; never what the page shows.

import { base64url } from "./base64url";
import { headersOf } from "./token";

const PAGE_BYTES = 16;

/** Names this page's connections to the server, and those of no other page, reloaded or not. */
export const pageNumber = base64url(crypto.getRandomValues(new Uint8Array(PAGE_BYTES)));

/** Tells the server at `url` when this page is left. One that comes back connects again. */
export function tellWhenLeft(url: string, secret: string): void {
  addEventListener("pagehide", () => {
    const headers = { ...headersOf(secret), "content-type": "application/json" };
    const body = JSON.stringify({ page: pageNumber });
    // Sent even though the page is going; nobody is there for an answer.
    fetch(url, { method: "POST", headers, body, cache: "no-store", keepalive: true }).catch(
      () => undefined,
    );
  });
}
