// Fingers, as the session's own touches.
// Path back: from the browser, to input.ts.
// Knows which fingers are on the glass; never what they mean.

import type { Outlet } from "./input";
import { TouchPhase } from "./messages";
import type { PointerOptions } from "./pointer";
import type { Position } from "./view";

/** As the protocol numbers fingers. */
const FINGERS_MAX = 16;

export class Fingers {
  /** Fingers on the glass: pointerId → its number; the place in the array is the number. */
  private readonly held: (number | undefined)[] = [];
  private readonly outlet: Outlet;

  constructor(private readonly options: PointerOptions) {
    this.outlet = options.outlet;
  }

  get busy(): boolean {
    return this.held.some((finger) => finger !== undefined);
  }

  forget(): void {
    this.held.length = 0;
  }

  handle(event: PointerEvent): void {
    const position = this.options.positionAt(event.clientX, event.clientY);
    if (position === undefined) return;
    let id = this.held.indexOf(event.pointerId);
    if (event.type === "pointerdown") {
      id = this.held.indexOf(undefined);
      if (id < 0) id = this.held.length;
      if (id >= FINGERS_MAX) return;
      this.held[id] = event.pointerId;
      this.say(id, TouchPhase.Begin, position);
    } else if (id < 0) {
      return;
    } else if (event.type === "pointermove") {
      this.say(id, TouchPhase.Update, position);
    } else if (event.type === "pointerup" || event.type === "pointercancel") {
      this.held[id] = undefined;
      this.say(id, TouchPhase.End, position);
    }
  }

  private say(id: number, phase: TouchPhase, position: Position): void {
    this.outlet.send({ type: "touch", id, phase, ...position });
  }
}
