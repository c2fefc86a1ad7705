// Touch gestures: clicks, drags, scrolling and zooming.
// Path back: from input.ts, to pointer.ts (what the session receives) and view.ts (what stays
// here).
// Knows positions on the page and time; never pixels of the session, browser events or sockets.
//
// As in other remote desktops and in Windows: a tap is a click at the finger; two fingers or a long
// press are the right button, three fingers the middle one. A moving finger drags with the left
// button; if the view is zoomed it pans, and a drag begins with a long press or after a tap. Two
// fingers scroll when they move together and zoom when they part.

/** Duration of a long press (right button or drag), as on phones. */
const LONG_PRESS_MS = 500;
/**
 * A second touch within this time and distance clicks at the first tap's position; below X's
 * double-click limit of 400 ms.
 */
const SECOND_TAP_MS_MAX = 250;
const SECOND_TAP_PX_MAX = 30;
/** A second touch that stays this long begins a drag. */
const SECOND_TAP_HOLD_MS = 150;
/** Several fingers that touch and leave within this time are a tap. */
const TAP_MS_MAX = 350;
/** CSS pixels: a finger that moves less counts as resting. */
const SLOP_PX = 10;
/** Two fingers whose distance changes by more than this, and more than they moved, zoom. */
const PINCH_PX = 20;
/** Scrolling is locked to one axis if the fingers begin with this ratio along it. */
const AXIS_RATIO = 2;

export interface Place {
  x: number;
  y: number;
}

/** What gestures do; positions and distances in CSS pixels. */
export interface GestureActions {
  /** Whether one finger pans the view instead of dragging. */
  readonly zoomed: boolean;
  pointAt(place: Place): void;
  /** Near an edge of a zoomed picture, moves it so that the finger can continue. */
  pushAt(place: Place): void;
  button(button: number, down: boolean, timeStamp: number): void;
  /** Scrolls by the fingers' motion: the content follows them. */
  scrollBy(right: number, down: number): void;
  zoomAt(factor: number, place: Place): void;
  panBy(right: number, down: number): void;
  /** The zoom gesture has ended. */
  settle(place: Place): void;
  /** Shows the long-press hint, from the touch until its meaning is known. */
  hint(hint: "none" | "resting" | "held", place: Place): void;
}

const LEFT = 1;
const MIDDLE = 2;
const RIGHT = 3;

type Gesture =
  | { name: "none" }
  /** One finger that has not moved; `previousTap` is the position of the tap before it. */
  | { name: "touch"; from: Place; previousTap: Place | undefined }
  /** After a long press: lifting clicks the right button, moving drags. */
  | { name: "held"; from: Place }
  /** With the left button; `still` until the finger has moved. */
  | { name: "drag"; from: Place; still: boolean }
  | { name: "pan"; last: Place }
  /** Several fingers that may tap, scroll or zoom: their largest number, and since when. */
  | { name: "several"; count: number; sinceMs: number; from: Place; spread: number }
  | { name: "scroll"; last: Place; axis: "x" | "y" | "both" }
  | { name: "zoom"; last: Place; spread: number }
  /** No gesture, or it has ended: until the last finger leaves. */
  | { name: "over" };

export class Gestures {
  private readonly fingers = new Map<number, Place>();
  private gesture: Gesture = { name: "none" };
  private timer: ReturnType<typeof setTimeout> | undefined;
  private lastTap: { place: Place; atMs: number } | undefined;

  constructor(private readonly actions: GestureActions) {}

  /** Whether a button is held. */
  get busy(): boolean {
    return this.gesture.name === "drag";
  }

  /** The session has released everything; fingers that still touch are ignored. */
  forget(): void {
    this.setGesture(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
    this.lastTap = undefined;
  }

  down(id: number, place: Place, timeMs: number): void {
    this.fingers.set(id, place);
    const { gesture } = this;
    if (this.fingers.size === 1) this.touchFirst(place, timeMs);
    else if (gesture.name === "touch" || gesture.name === "pan" || gesture.name === "several") {
      const count = this.fingers.size;
      const sinceMs = gesture.name === "several" ? gesture.sinceMs : timeMs;
      this.setGesture(
        count > 3
          ? { name: "over" }
          : { name: "several", count, sinceMs, from: this.centre(), spread: this.spread() },
      );
    }
  }

  move(id: number, place: Place, timeMs: number): void {
    if (!this.fingers.has(id)) return;
    this.fingers.set(id, place);
    const { actions, gesture } = this;
    switch (gesture.name) {
      case "touch":
        if (distance(gesture.from, place) <= SLOP_PX) break;
        if (gesture.previousTap !== undefined) this.drag(gesture.previousTap, timeMs, gesture.from);
        else if (!actions.zoomed) this.drag(gesture.from, timeMs);
        else this.setGesture({ name: "pan", last: gesture.from });
        this.move(id, place, timeMs);
        break;
      case "held":
        if (distance(gesture.from, place) <= SLOP_PX) break;
        this.drag(gesture.from, timeMs);
        this.move(id, place, timeMs);
        break;
      case "drag":
        // A second tap is not exactly at the first: only motion of this finger is a drag.
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
        const centre = this.centre();
        const right = gesture.axis === "y" ? 0 : centre.x - gesture.last.x;
        const down = gesture.axis === "x" ? 0 : centre.y - gesture.last.y;
        actions.scrollBy(right, down);
        gesture.last = centre;
        break;
      }
      case "zoom": {
        const centre = this.centre();
        const spread = this.spread();
        actions.panBy(centre.x - gesture.last.x, centre.y - gesture.last.y);
        actions.zoomAt(spread / gesture.spread, centre);
        this.gesture = { name: "zoom", last: centre, spread };
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
        const at = gesture.previousTap ?? place;
        this.click(LEFT, at, timeMs);
        // A third tap starts again: triple clicks are for mice.
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
        if (this.fingers.size > 0) return; // it may still be a tap, or a finger may return
        if (timeMs - gesture.sinceMs <= TAP_MS_MAX)
          this.click(gesture.count === 2 ? RIGHT : MIDDLE, gesture.from, timeMs);
        break;
      case "zoom":
        actions.settle(gesture.last);
        break;
    }
    this.setGesture(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
  }

  /** The browser or a pen cancelled the touch: its button is released, and it has no meaning. */
  cancel(id: number, timeMs: number): void {
    if (!this.fingers.delete(id)) return;
    if (this.gesture.name === "drag") this.actions.button(LEFT, false, timeMs);
    if (this.gesture.name === "zoom") this.actions.settle(this.gesture.last);
    this.setGesture(this.fingers.size > 0 ? { name: "over" } : { name: "none" });
  }

  cancelAll(timeMs: number): void {
    for (const id of [...this.fingers.keys()]) this.cancel(id, timeMs);
  }

  private touchFirst(place: Place, timeMs: number): void {
    const { lastTap } = this;
    const previousTap =
      lastTap &&
      timeMs - lastTap.atMs <= SECOND_TAP_MS_MAX &&
      distance(lastTap.place, place) <= SECOND_TAP_PX_MAX;
    this.setGesture({
      name: "touch",
      from: place,
      previousTap: previousTap ? lastTap.place : undefined,
    });
    if (previousTap) {
      this.timer = setTimeout(
        () => this.drag(lastTap.place, timeMs + SECOND_TAP_HOLD_MS, place),
        SECOND_TAP_HOLD_MS,
      );
    } else {
      this.actions.hint("resting", place);
      this.timer = setTimeout(() => {
        this.setGesture({ name: "held", from: place });
        this.actions.hint("held", place);
      }, LONG_PRESS_MS);
    }
  }

  /** Presses the left button at `place`; the finger is at `from`. */
  private drag(place: Place, timeMs: number, from = place): void {
    this.setGesture({ name: "drag", from, still: true });
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

  /** Two fingers have moved: together, apart, or too little to decide. */
  private decide(gesture: Extract<Gesture, { name: "several" }>): void {
    if (gesture.count !== 2 || this.fingers.size !== 2) return;
    const centre = this.centre();
    const spread = this.spread();
    const moved = distance(gesture.from, centre);
    const parted = Math.abs(spread - gesture.spread);
    if (parted > PINCH_PX && parted > moved) {
      this.setGesture({ name: "zoom", last: centre, spread });
    } else if (moved > SLOP_PX && moved >= parted) {
      const [across, along] = [
        Math.abs(centre.x - gesture.from.x),
        Math.abs(centre.y - gesture.from.y),
      ];
      const axis = along > AXIS_RATIO * across ? "y" : across > AXIS_RATIO * along ? "x" : "both";
      this.setGesture({ name: "scroll", last: centre, axis });
      this.actions.pointAt(gesture.from);
    }
  }

  private setGesture(gesture: Gesture): void {
    clearTimeout(this.timer);
    const { name } = this.gesture;
    this.gesture = gesture;
    if (name === "touch" || name === "held") this.actions.hint("none", { x: 0, y: 0 });
  }

  private centre(): Place {
    const places = [...this.fingers.values()];
    const sum = places.reduce((a, b) => ({ x: a.x + b.x, y: a.y + b.y }), { x: 0, y: 0 });
    return { x: sum.x / places.length, y: sum.y / places.length };
  }

  /** Distance of two fingers; 1 for another number, which does not zoom. */
  private spread(): number {
    const [a, b] = [...this.fingers.values()];
    return a && b ? Math.max(1, distance(a, b)) : 1;
  }
}

function distance(a: Place, b: Place): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}
