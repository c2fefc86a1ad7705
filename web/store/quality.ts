// How good moving pictures are to be in this browser, as its person has chosen last.
// Beside the path: for ui/quality.ts. Knows choices of one origin, whose sessions have it in
// common.

import { PICTURE_QUALITIES, type PictureQuality } from "../engine/messages";

const KEY = "thinc quality";

/** The choice of this name; undefined if it is none. */
export function qualityOf(name: string | null): PictureQuality | undefined {
  return PICTURE_QUALITIES.find((quality) => quality === name);
}

/** Undefined if nothing was chosen, or the browser's storage is blocked. */
export function loadQuality(): PictureQuality | undefined {
  try {
    return qualityOf(localStorage.getItem(KEY));
  } catch {
    return undefined;
  }
}

export function saveQuality(quality: PictureQuality): void {
  try {
    localStorage.setItem(KEY, quality);
  } catch {
    // It holds for this page only.
  }
}
