// Keeps the menu's entries, from sound to stereo, up to date.
// Path 13/13, beside the pixels: from main.ts' parts and the session's messages, to entry.ts.
// Knows who has which state; the words are entries.ts'.

import type { Offers, Person, PictureQuality, StereoMode } from "../engine/messages";
import {
  type CopyingSide,
  copyingWords,
  type EntryName,
  type FilesSide,
  filesWords,
  type MicrophoneSide,
  microphoneWords,
  type PrintingSide,
  printingWords,
  qualityWords,
  type SoundSide,
  sharingWords,
  soundWords,
  stereoWords,
} from "./entries";
import type { Entry } from "./entry";

export interface ChannelsOptions {
  entries: Readonly<Record<EntryName, Entry>>;
  sound(): SoundSide;
  microphone(): MicrophoneSide;
  files(): FilesSide;
  printing(): PrintingSide;
  copying(): CopyingSide;
  quality(): PictureQuality;
  stereo(): StereoMode;
}

export class Channels {
  private offers: Offers | undefined;
  private own = 0;
  private people: readonly Person[] = [];
  private isDue = false;

  constructor(private readonly options: ChannelsOptions) {}

  /** What the session has for this viewer; undefined without a connection. */
  setOffers(offers: Offers | undefined): void {
    this.offers = offers;
    this.changed();
  }

  /** Who shows the session, and this viewer's number. */
  setPeople(own: number, people: readonly Person[]): void {
    this.own = own;
    this.people = people;
    this.changed();
  }

  /** Some state is another. Several changes of one task are shown once. */
  changed(): void {
    if (this.isDue) return;
    this.isDue = true;
    queueMicrotask(() => {
      this.isDue = false;
      this.show();
    });
  }

  private show(): void {
    const { entries, sound, microphone, files, printing, copying } = this.options;
    const { quality, stereo } = this.options;
    const me = this.people.find(({ number }) => number === this.own);
    const isGuest = me !== undefined && me.guest !== 0;
    const situation = { offers: this.offers, isGuest };
    const others = me && this.people.filter((person) => person !== me).map(nameFor(isGuest));
    entries.Sound.show(soundWords(sound(), situation));
    entries.Microphone.show(microphoneWords(microphone(), situation));
    entries.Files.show(filesWords(files(), situation));
    entries.Printing.show(printingWords(printing(), situation));
    entries.Sharing.show(sharingWords({ others, hasControl: me?.control === true }, situation));
    entries.Copying.show(copyingWords(copying(), situation));
    entries.Quality.show(qualityWords(quality(), situation));
    entries.Stereo.show(stereoWords(stereo(), situation));
  }
}

/** How the others are called: who is no guest is the owner, at another viewer. */
const nameFor =
  (isGuest: boolean) =>
  ({ guest, name }: Person): string =>
    guest !== 0 ? name : isGuest ? "the owner" : "you, elsewhere";
