// Fingers on the glass of a tab, as Chromium's own touch screen would say them.
// Used by the tests of touch; places are CSS pixels of the page.
// Knows which fingers are down.

export class Fingers {
  #places = [];

  /** `page`: of a context with `hasTouch`. */
  static async of(page) {
    const fingers = new Fingers();
    fingers.session = await page.context().newCDPSession(page);
    return fingers;
  }

  async down(...places) {
    this.#places = places;
    await this.#say("touchStart");
  }

  async move(...places) {
    this.#places = places;
    await this.#say("touchMove");
  }

  /** All of them. */
  async up() {
    this.#places = [];
    await this.#say("touchEnd");
  }

  async tap(...places) {
    await this.down(...places);
    await this.up();
  }

  #say(type) {
    const touchPoints = this.#places.map(([x, y], id) => ({ x, y, id }));
    return this.session.send("Input.dispatchTouchEvent", { type, touchPoints });
  }
}
