// Touches, sent to the session as such.
// Path back: from the browser, to input.ts.
// Knows which fingers touch the screen; never what they mean (gestures.ts).

import type { Position } from "../display/view";
import { TouchPhase } from "../engine/messages";
import type { InputSink } from "./input";
import type { PointerOptions } from "./pointer";

/** The protocol's limit. */
const TOUCHES_MAX = 16;

export class Touches {
  /** The index is the protocol's number of a touch; the value is its pointerId. */
  private readonly held: (number | undefined)[] = [];
  private readonly sink: InputSink;

  constructor(private readonly options: PointerOptions) {
    this.sink = options.sink;
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
      if (id >= TOUCHES_MAX) return;
      this.held[id] = event.pointerId;
      this.send(id, TouchPhase.Begin, position);
    } else if (id < 0) {
      return;
    } else if (event.type === "pointermove") {
      this.send(id, TouchPhase.Update, position);
    } else if (event.type === "pointerup" || event.type === "pointercancel") {
      this.held[id] = undefined;
      this.send(id, TouchPhase.End, position);
    }
  }

  private send(id: number, phase: TouchPhase, position: Position): void {
    this.sink.send({ type: "touch", id, phase, ...position });
  }
}
