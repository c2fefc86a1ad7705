// Touches of a tab's screen, as Chromium's own touch screen would report them.
// Used by the tests of touch; positions are CSS pixels of the page. Times are the screen's own: how
// long a tap takes does not depend on how busy the machine is.
// Knows which fingers are down, and when the last touch was.

/** Between two touches that belong together. */
const SOON_MS = 50;

export class Fingers {
  #places = [];
  #atMs = 0;
  #stampedMs;

  /** `page`: of a context with `hasTouch`. */
  static async of(page) {
    const fingers = new Fingers();
    fingers.session = await page.context().newCDPSession(page);
    return fingers;
  }

  async down(...places) {
    this.#places = places;
    await this.#dispatch("touchStart");
  }

  async move(...places) {
    this.#places = places;
    await this.#dispatch("touchMove");
  }

  /** Lifts all of them. */
  async up() {
    this.#places = [];
    await this.#dispatch("touchEnd");
  }

  /** Both are sent at once: a tap never becomes a long press. */
  async tap(...places) {
    const down = this.down(...places);
    this.#stampedMs = this.#atMs;
    await Promise.all([down, this.up()]);
  }

  /** The next touch follows the last one as a second tap does. */
  soon() {
    this.#stampedMs = this.#atMs + SOON_MS;
    return this;
  }

  #dispatch(type) {
    this.#atMs = this.#stampedMs ?? Math.max(this.#atMs, Date.now());
    this.#stampedMs = undefined;
    const touchPoints = this.#places.map(([x, y], id) => ({ x, y, id }));
    const timestamp = this.#atMs / 1000;
    return this.session.send("Input.dispatchTouchEvent", { type, touchPoints, timestamp });
  }
}
