// Reasons in words, for the user.
// Beside the path: used where something ends or fails. Knows strings only.

/** The session's reason as a sentence, ready for the next one. */
export function sentence(reason: string): string {
  const words = reason.trim();
  if (words === "") return "";
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? " " : ". "}`;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
