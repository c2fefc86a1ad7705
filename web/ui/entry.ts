// An entry of the menu: a button with its name and state, which opens its part of the menu.
// Path 13/13, beside the pixels: from entries.ts' words, to the person and their screen reader.
// Knows elements; never what a state means.

import type { EntryName, Words } from "./entries";

export class Entry {
  private readonly state = document.createElement("span");
  private readonly why = document.createElement("span");
  private shown: Words | undefined;

  /** `words`: where the reason is read while the entry is open; it has the role of a status. */
  constructor(
    button: HTMLButtonElement,
    private readonly words: HTMLElement,
    name: EntryName,
  ) {
    this.state.className = "state";
    this.why.className = "why";
    button.replaceChildren(name, this.state, this.why);
  }

  show(words: Words): void {
    const { state, why } = words;
    // A status that is written again is read again.
    if (state === this.shown?.state && why === this.shown.why) return;
    this.shown = words;
    this.state.textContent = `: ${state}`;
    this.why.textContent = ` — ${why}`;
    this.words.textContent = `${why.charAt(0).toUpperCase()}${why.slice(1)}.`;
  }
}
