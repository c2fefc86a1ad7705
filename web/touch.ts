// Fingers, as what a person means by them: clicks, drags, scrolling, and a closer look at the picture.
// Path back: from input.ts, to pointer.ts (what the session gets) and view.ts (what stays here).
// Knows places on the page and time; never pixels of the session, events of the browser or sockets.
//
// As people know it from other remote desktops and from Windows on glass: a tap is a click where the finger is, two
// fingers or a finger that rests are the right button, three the middle one; a finger that moves drags with the left
// button, and where the view is zoomed it moves the view, so that dragging begins with a rest or with a tap; two fingers
// scroll when they move together and zoom when they part.

/** A finger that rests this long means the right button, or a drag: as long as phones take for it. */
const HOLD_MS = 500;
/** A second touch so soon and so near is about the first tap's place; with X's own limit of 400 ms from click to click. */
const AGAIN_MS_MAX = 250;
const AGAIN_PX_MAX = 30;
/** … and one that stays so long has come to drag. */
const AGAIN_HOLD_MS = 150;
/** Several fingers that come and go within this time tap. */
const TAP_MS_MAX = 350;
/** CSS pixels: a resting finger moves less. */
const SLOP_PX = 10;
/** Two fingers that have parted by so much more than they moved zoom. */
const PINCH_PX = 20;
/** Scrolling goes along one axis where the fingers began so much more along it: nobody draws a straight line. */
const AXIS_RATIO = 2;

export interface Place {
  x: number;
  y: number;
}

/** What gestures do; places and ways in CSS pixels. */
export interface TouchActions {
  /** One finger moves the view and drags nothing. */
  readonly zoomed: boolean;
  pointAt(place: Place): void;
  /** Near an edge of what is seen of a zoomed picture: the picture moves, for the finger to get on. */
  pushAt(place: Place): void;
  button(button: number, down: boolean, timeStamp: number): void;
  /** The fingers moved so far; what lies under them goes along. */
  scrollBy(right: number, down: number): void;
  zoomAt(factor: number, place: Place): void;
  panBy(right: number, down: number): void;
  /** The fingers that zoomed are gone. */
  settle(place: Place): void;
  /** A finger rests: from its touch until it is known what it means. */
  hint(hint: "none" | "resting" | "held", place: Place): void;
}

const LEFT = 1;
const MIDDLE = 2;
const RIGHT = 3;

type Gesture =
  | { name: "none" }
  /** One finger, not yet moved; `again` is where the tap before it was. */
  | { name: "touch"; from: Place; again: Place | undefined }
  /** … that has rested: lifted it is a right click, moved a drag. */
  | { name: "held"; from: Place }
  /** With the left button; `still` until the finger has moved. */
  | { name: "drag"; from: Place; still: boolean }
  | { name: "pan"; last: Place }
  /** Several fingers that may yet tap, scroll or zoom: how many there were at most, and since when. */
  | { name: "several"; count: number; sinceMs: number; from: Place; spread: number }
  | { name: "scroll"; last: Place; axis: "x" | "y" | "both" }
  | { name: "zoom"; last: Place; spread: number }
  /** Meant nothing, or its meaning is over: until the last finger is gone. */
  | { name: "over" };

export class Touch {
  private readonly fingers = new Map<number, Place>();
  private gesture: Gesture = { name: "none" };
  private timer: ReturnType<typeof setTimeout> | undefined;
  private lastTap: { place: Place; atMs: number } | undefined;

  constructor(private readonly actions: TouchActions) {}

  /** Whether a button is held. */
  get busy(): boolean {
    return this.gesture.name === "drag";
  }

  /** Nothing is held any more, as far as the session knows; fingers still there mean nothing. */
  forget(): void {
    this.become(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
    this.lastTap = undefined;
  }

  down(id: number, place: Place, timeMs: number): void {
    this.fingers.set(id, place);
    const { gesture } = this;
    if (this.fingers.size === 1) this.first(place, timeMs);
    else if (gesture.name === "touch" || gesture.name === "pan" || gesture.name === "several") {
      const count = this.fingers.size;
      const sinceMs = gesture.name === "several" ? gesture.sinceMs : timeMs;
      this.become(count > 3 ? { name: "over" } : { name: "several", count, sinceMs, from: this.middle(), spread: this.spread() });
    }
  }

  move(id: number, place: Place, timeMs: number): void {
    if (!this.fingers.has(id)) return;
    this.fingers.set(id, place);
    const { actions, gesture } = this;
    switch (gesture.name) {
      case "touch":
        if (distance(gesture.from, place) <= SLOP_PX) break;
        if (gesture.again !== undefined) this.drag(gesture.again, timeMs, gesture.from);
        else if (!actions.zoomed) this.drag(gesture.from, timeMs);
        else this.become({ name: "pan", last: gesture.from });
        this.move(id, place, timeMs);
        break;
      case "held":
        if (distance(gesture.from, place) <= SLOP_PX) break;
        this.drag(gesture.from, timeMs);
        this.move(id, place, timeMs);
        break;
      case "drag":
        // The second tap of two lies beside the first: only a way, and no difference of places, is a drag.
        if (gesture.still && distance(gesture.from, place) <= SLOP_PX) break;
        gesture.still = false;
        actions.pushAt(place);
        actions.pointAt(place);
        break;
      case "pan":
        actions.panBy(place.x - gesture.last.x, place.y - gesture.last.y);
        gesture.last = place;
        break;
      case "several":
        this.decide(gesture);
        break;
      case "scroll": {
        const middle = this.middle();
        const right = gesture.axis === "y" ? 0 : middle.x - gesture.last.x;
        const down = gesture.axis === "x" ? 0 : middle.y - gesture.last.y;
        actions.scrollBy(right, down);
        gesture.last = middle;
        break;
      }
      case "zoom": {
        const middle = this.middle();
        const spread = this.spread();
        actions.panBy(middle.x - gesture.last.x, middle.y - gesture.last.y);
        actions.zoomAt(spread / gesture.spread, middle);
        this.gesture = { name: "zoom", last: middle, spread };
        break;
      }
    }
  }

  up(id: number, timeMs: number): void {
    const place = this.fingers.get(id);
    if (place === undefined) return;
    this.fingers.delete(id);
    const { gesture, actions } = this;
    switch (gesture.name) {
      case "touch": {
        const at = gesture.again ?? place;
        this.click(LEFT, at, timeMs);
        // A third tap begins anew: three clicks at one place are for mice.
        this.lastTap = { place: at, atMs: timeMs };
        break;
      }
      case "held":
        this.click(RIGHT, gesture.from, timeMs);
        break;
      case "drag":
        actions.button(LEFT, false, timeMs);
        break;
      case "several":
        if (this.fingers.size > 0) return; // it may be a tap yet, or a finger that comes back
        if (timeMs - gesture.sinceMs <= TAP_MS_MAX) this.click(gesture.count === 2 ? RIGHT : MIDDLE, gesture.from, timeMs);
        break;
      case "zoom":
        actions.settle(gesture.last);
        break;
    }
    this.become(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
  }

  /** The browser or a pen took the finger away: what it held is let go, and it meant nothing. */
  cancel(id: number, timeMs: number): void {
    if (!this.fingers.delete(id)) return;
    if (this.gesture.name === "drag") this.actions.button(LEFT, false, timeMs);
    if (this.gesture.name === "zoom") this.actions.settle(this.gesture.last);
    this.become(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
  }

  cancelAll(timeMs: number): void {
    for (const id of [...this.fingers.keys()]) this.cancel(id, timeMs);
  }

  private first(place: Place, timeMs: number): void {
    const { lastTap } = this;
    const again = lastTap && timeMs - lastTap.atMs <= AGAIN_MS_MAX && distance(lastTap.place, place) <= AGAIN_PX_MAX;
    this.become({ name: "touch", from: place, again: again ? lastTap.place : undefined });
    if (again) {
      this.timer = setTimeout(() => this.drag(lastTap.place, timeMs + AGAIN_HOLD_MS, place), AGAIN_HOLD_MS);
    } else {
      this.actions.hint("resting", place);
      this.timer = setTimeout(() => {
        this.become({ name: "held", from: place });
        this.actions.hint("held", place);
      }, HOLD_MS);
    }
  }

  /** Presses the left button at `place`; the finger itself is at `from`. */
  private drag(place: Place, timeMs: number, from = place): void {
    this.become({ name: "drag", from, still: true });
    this.lastTap = undefined;
    this.actions.pointAt(place);
    this.actions.button(LEFT, true, timeMs);
  }

  private click(button: number, place: Place, timeMs: number): void {
    this.lastTap = undefined;
    this.actions.pointAt(place);
    this.actions.button(button, true, timeMs);
    this.actions.button(button, false, timeMs);
  }

  /** Two fingers have moved: together, apart, or not enough to tell. */
  private decide(gesture: Extract<Gesture, { name: "several" }>): void {
    if (gesture.count !== 2 || this.fingers.size !== 2) return;
    const middle = this.middle();
    const spread = this.spread();
    const way = distance(gesture.from, middle);
    const parted = Math.abs(spread - gesture.spread);
    if (parted > PINCH_PX && parted > way) {
      this.become({ name: "zoom", last: middle, spread });
    } else if (way > SLOP_PX && way >= parted) {
      const [across, along] = [Math.abs(middle.x - gesture.from.x), Math.abs(middle.y - gesture.from.y)];
      const axis = along > AXIS_RATIO * across ? "y" : across > AXIS_RATIO * along ? "x" : "both";
      this.become({ name: "scroll", last: middle, axis });
      this.actions.pointAt(gesture.from);
    }
  }

  private become(gesture: Gesture): void {
    clearTimeout(this.timer);
    const { name } = this.gesture;
    this.gesture = gesture;
    if (name === "touch" || name === "held") this.actions.hint("none", { x: 0, y: 0 });
  }

  private middle(): Place {
    const places = [...this.fingers.values()];
    const sum = places.reduce((a, b) => ({ x: a.x + b.x, y: a.y + b.y }), { x: 0, y: 0 });
    return { x: sum.x / places.length, y: sum.y / places.length };
  }

  /** How far two fingers are apart; more of them, or one, do not zoom. */
  private spread(): number {
    const [a, b] = [...this.fingers.values()];
    return a && b ? Math.max(1, distance(a, b)) : 1;
  }
}

function distance(a: Place, b: Place): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
