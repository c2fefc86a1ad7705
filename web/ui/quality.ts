// The menu's choice of how good moving pictures are at this viewer, and the request to show
// everything exactly for a moment.
// Beside the path: from the menu and the shortcuts, to engine/quality.ts and store/quality.ts.
// Knows choices; never pixels.

import { PICTURE_QUALITIES, type PictureQuality, type ToEngine } from "../engine/messages";
import { loadQuality, qualityOf, saveQuality } from "../store/quality";

/** It sends nothing lossy, or is of an earlier version. */
const NO_CHOICE = "This session takes no choice of quality";

export interface QualityOptions {
  select: HTMLSelectElement;
  exact: HTMLButtonElement;
  /** Of the address; it goes before what was chosen earlier. */
  named: string | null;
  send(message: ToEngine): void;
  notice(words: string): void;
  /** `chosen` is another. */
  changed(): void;
}

export class QualityChoice {
  /** For the menu, and for the first connection. */
  chosen: PictureQuality;
  /** Whether the session takes choices; undefined without a connection. */
  private offered: boolean | undefined;

  constructor(private readonly options: QualityOptions) {
    const { select, exact, named } = options;
    const given = qualityOf(named);
    if (named !== null && given === undefined)
      console.warn(`thinc: ?quality=${named} is not one of ${PICTURE_QUALITIES.join(", ")}`);
    this.chosen = given ?? loadQuality() ?? "auto";
    select.value = this.chosen;
    select.addEventListener("change", () => this.choose(qualityOf(select.value) ?? "auto"));
    exact.addEventListener("click", () => this.showExactly());
  }

  setOffered(offered: boolean | undefined): void {
    this.offered = offered;
  }

  /** By a key, which shows nothing of it. */
  chooseNext(): void {
    if (this.offered === false) return this.options.notice(NO_CHOICE);
    const next = PICTURE_QUALITIES.indexOf(this.chosen) + 1;
    this.choose(PICTURE_QUALITIES[next] ?? "auto");
    this.options.notice(`Quality: ${this.chosen}`);
  }

  /** Requests that all is lossless for a moment. */
  showExactly(): void {
    const { send, notice } = this.options;
    if (this.offered === undefined) return notice("Not connected");
    if (!this.offered) return notice(NO_CHOICE);
    send({ type: "exactFrame" });
    notice("For a moment everything is exact");
  }

  private choose(quality: PictureQuality): void {
    const { select, send, changed } = this.options;
    this.chosen = quality;
    select.value = quality;
    saveQuality(quality);
    send({ type: "pictureQuality", quality });
    changed();
  }
}
