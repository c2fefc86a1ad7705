// When the picture is shown: with the display, never before it is complete, and not while hidden.
// Path 13/13: from engine.ts, to display/present.ts.
// Knows the decoder's damage and time; never how pixels reach the canvas.

import type { Presenter } from "../display/present";
import type { Picture } from "../store/tiles";
import type { Decoder } from "./decoder";
import type { FromEngine, PresenterKind } from "./messages";
import { Waiters } from "./waiters";

/**
 * After a new size or connection the old picture stays until the new one is complete, but no longer
 * than this.
 */
const HOLD_MS_MAX = 400;

export interface PresentationHandlers {
  /** Undefined while there is none. */
  decoder(): Decoder | undefined;
  /** Whether what is shown is the session's. */
  connected(): boolean;
  /** The canvas shows what the decoder has. */
  presented(): void;
}

export class Presentation {
  private presenter: Presenter | undefined;
  private visible = true;
  private scheduled = false;
  /** Those of all connections. */
  private presents = 0;
  private postsLossy = false;
  /** The decoder's picture has this size, and the canvas has the last one's. */
  private newPicture: Picture | undefined;
  /** Until when the old picture stays while the new one is incomplete; 0: not at all. */
  private holdUntilMs = 0;
  private shown = false;
  private readonly sessionShown = new Waiters();
  private readonly presented = new Waiters();

  constructor(
    private readonly post: (message: FromEngine, transfer?: Transferable[]) => void,
    private readonly handlers: PresentationHandlers,
  ) {}

  /** The page has a canvas: `choose` makes what shows pixels there, and calls back for all. */
  start(choose: (lost: () => void) => Presenter): void {
    this.presenter = choose(() => this.presentAll());
  }

  /** What shows pixels. */
  get kind(): PresenterKind {
    return this.presenter?.kind ?? "2d";
  }

  /** How often pixels of a session were shown. */
  get count(): number {
    return this.presents;
  }

  /**
   * The connection's first picture was shown: what the session offers from now on was copied just
   * now.
   */
  get pictureShown(): boolean {
    return this.shown;
  }

  /** Whether the user sees the page. */
  setVisible(visible: boolean): void {
    this.visible = visible;
    if (visible) this.schedule();
  }

  /** Whether the page is told which parts are lossy. */
  reportLossy(report: boolean): void {
    this.postsLossy = report;
    this.postLossy();
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    this.holdUntilMs = performance.now() + HOLD_MS_MAX;
    this.shown = false;
    decoder.idleProbes(this.visible);
  }

  /** A picture of this size begins. */
  begin(picture: Picture): void {
    this.newPicture = picture;
    this.holdUntilMs = performance.now() + HOLD_MS_MAX;
    setTimeout(() => this.schedule(), HOLD_MS_MAX);
  }

  /** What was drawn together is complete. */
  complete(): void {
    this.holdUntilMs = 0;
    this.schedule();
  }

  /** Shows the picture of an earlier page, which the decoder has. False if there is no canvas. */
  restore(decoder: Decoder, picture: Picture): boolean {
    if (this.presenter === undefined) return false;
    this.resize(this.presenter, picture);
    this.presenter.present(decoder, decoder.takeDamage());
    return true;
  }

  /** Presents with the display's next frame. */
  schedule(): void {
    if (this.scheduled || !this.visible) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      this.present();
    });
  }

  /** Resolves when a picture of a session has been shown, at once if that was earlier. */
  async first(): Promise<void> {
    if (this.presents === 0) await this.sessionShown.wait();
  }

  /** Resolves when what is scheduled is shown. */
  async settled(): Promise<void> {
    if (this.scheduled) await this.presented.wait();
  }

  /** No picture of a session follows. */
  close(why: Error): void {
    this.sessionShown.reject(why);
  }

  private present(): void {
    const decoder = this.handlers.decoder();
    const { presenter } = this;
    if (decoder === undefined || presenter === undefined) return;
    const { newPicture } = this;
    if (newPicture !== undefined) {
      // the end of a frame, or the timer set with the hold, calls again
      if (performance.now() < this.holdUntilMs) return;
      this.newPicture = undefined;
      this.resize(presenter, newPicture);
    }
    presenter.present(decoder, decoder.takeDamage());
    this.shown = decoder.width > 0;
    if (this.handlers.connected()) this.presents += 1;
    this.postLossy();
    this.handlers.presented();
    // A restored picture is not the session's yet.
    if (this.handlers.connected()) this.sessionShown.resolve();
    this.presented.resolve();
  }

  /** The canvas lost its content. */
  private presentAll(): void {
    const decoder = this.handlers.decoder();
    if (decoder === undefined) return;
    this.presenter?.present(decoder, Int32Array.of(0, 0, decoder.width, decoder.height));
  }

  private resize(presenter: Presenter, { width, height, screen, part }: Picture): void {
    presenter.resize(width, height);
    this.post({ type: "geometry", width, height, screen, part });
  }

  private postLossy(): void {
    const decoder = this.handlers.decoder();
    if (!this.postsLossy || decoder === undefined) return;
    const rects = decoder.lossy();
    this.post({ type: "lossy", rects }, [rects.buffer]);
  }
}
