// Bytes as text for links and JSON (RFC 4648, section 5), without padding.
// Beside the path: for device.ts and page.ts. Knows nothing else.

export function base64url(bytes: ArrayBuffer | Uint8Array): string {
  const text = btoa(String.fromCharCode(...new Uint8Array(bytes)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
