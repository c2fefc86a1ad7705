// The menu's choice of how stereo programs are shown at this viewer. The menu has it while there is
// something to choose: such programs are rare.
// Beside the path: from the menu and the shortcut, to engine/stereo.ts and store/stereo.ts.
// Knows choices; never pixels.

import { STEREO_MODES, type StereoMode, type ToEngine } from "../engine/messages";
import { loadStereo, saveStereo, stereoOf } from "../store/stereo";

/** It is of an earlier version. */
const NO_STEREO = "This session has no stereo";

export interface StereoOptions {
  /** Opens the menu's part with the choice. */
  entry: HTMLElement;
  select: HTMLSelectElement;
  /** Of the address; it goes before what was chosen earlier. */
  named: string | null;
  send(message: ToEngine): void;
  notice(words: string): void;
  /** `chosen` is another. */
  changed(): void;
}

export class StereoChoice {
  /** For the menu, and for the first connection. */
  chosen: StereoMode;
  /** Whether the session has stereo; undefined without a connection. */
  private offered: boolean | undefined;
  /** A stereo program was shown in this connection. */
  private seen = false;

  constructor(private readonly options: StereoOptions) {
    const { select, named } = options;
    const given = stereoOf(named);
    if (named !== null && given === undefined)
      console.warn(`thinc: ?stereo=${named} is not one of ${STEREO_MODES.join(", ")}`);
    this.chosen = given ?? loadStereo() ?? "off";
    select.value = this.chosen;
    select.addEventListener("change", () => this.choose(stereoOf(select.value) ?? "off"));
    this.showEntry();
  }

  setOffered(offered: boolean | undefined): void {
    this.offered = offered;
    this.seen &&= offered === true;
    this.showEntry();
  }

  /** A stereo program is shown. */
  setSeen(): void {
    this.seen = true;
    this.showEntry();
  }

  /** By a key. */
  chooseNext(): void {
    if (this.offered === false) return this.options.notice(NO_STEREO);
    const next = STEREO_MODES.indexOf(this.chosen) + 1;
    this.choose(STEREO_MODES[next] ?? "off");
    this.options.notice(`Stereo: ${this.chosen}`);
  }

  private choose(mode: StereoMode): void {
    const { select, send, changed } = this.options;
    this.chosen = mode;
    select.value = mode;
    saveStereo(mode);
    send({ type: "stereo", mode });
    this.showEntry();
    changed();
  }

  private showEntry(): void {
    const { entry, select } = this.options;
    // What has the keyboard stays.
    const isUsed = entry === document.activeElement || select === document.activeElement;
    entry.hidden = this.chosen === "off" && !this.seen && !isUsed;
  }
}
