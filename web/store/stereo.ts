// How stereo programs are shown in this browser, as its person has chosen last.
// Beside the path: for ui/stereo.ts. Knows choices of one origin, whose sessions have it in common.

import { STEREO_MODES, type StereoMode } from "../engine/messages";

const KEY = "thinc stereo";

/** The mode of this name; undefined if it is none. */
export function stereoOf(name: string | null): StereoMode | undefined {
  return STEREO_MODES.find((mode) => mode === name);
}

/** Undefined if nothing was chosen, or the browser's storage is blocked. */
export function loadStereo(): StereoMode | undefined {
  try {
    return stereoOf(localStorage.getItem(KEY));
  } catch {
    return undefined;
  }
}

export function saveStereo(mode: StereoMode): void {
  try {
    localStorage.setItem(KEY, mode);
  } catch {
    // It holds for this page only.
  }
}
