// User input on its way through the engine, and what applications want of it.
// Path back: from the page's input/input.ts, to decoder.ts.
// Knows which input is buffered without a connection, and which may wait; never keys or gestures.

import type { Decoder } from "./decoder";
import { type FromEngine, nowUs, type ToEngine } from "./messages";

type FromPage = Extract<
  ToEngine,
  {
    type:
      | "key"
      | "char"
      | "locks"
      | "layout"
      | "motion"
      | "motionBy"
      | "button"
      | "scroll"
      | "touch"
      | "pen"
      | "releaseAll";
  }
>;

/** How input reaches the decoder. */
export interface InputCalls {
  /**
   * Sends it if there is a connection. What may wait does while the transport is congested; a newer
   * position replaces it there.
   */
  send(call: (decoder: Decoder) => void, urgency?: "may wait"): void;
  /**
   * Sends it, or buffers it for the next connection; without a connection viewer-core buffers keys
   * and text and only notes the rest.
   */
  sendOrBuffer(call: (decoder: Decoder) => void): void;
}

export class EngineInput {
  /** The keyboard's, sent on every connection. */
  private layout: { layout: string; variant: string } | undefined;
  /** Whether an application wants distances; as the page was told last. */
  private relativeWanted = false;

  constructor(
    private readonly post: (message: FromEngine) => void,
    private readonly calls: InputCalls,
  ) {}

  handle(message: FromPage): void {
    const { calls } = this;
    switch (message.type) {
      case "key": {
        const { code, keysym, down, timeUs } = message;
        calls.sendOrBuffer((decoder) => decoder.key(code, keysym, down, timeUs));
        break;
      }
      case "char":
        calls.sendOrBuffer((decoder) => decoder.char(message.codePoint, nowUs()));
        break;
      case "locks":
        calls.sendOrBuffer((decoder) => decoder.locks(message.caps, message.num, nowUs()));
        break;
      case "button":
        calls.sendOrBuffer((decoder) =>
          decoder.button(message.button, message.down, message.timeUs),
        );
        break;
      case "releaseAll":
        calls.sendOrBuffer((decoder) => decoder.releaseAll(nowUs()));
        break;
      case "layout":
        this.layout = message;
        calls.send((decoder) => decoder.layout(message.layout, message.variant));
        break;
      case "motion":
        calls.send((decoder) => decoder.motion(message.x, message.y, nowUs()), "may wait");
        break;
      case "motionBy":
        calls.send((decoder) => decoder.motionBy(message.dx, message.dy, nowUs()), "may wait");
        break;
      case "scroll":
        calls.send((decoder) => decoder.scroll(message.dx, message.dy, nowUs()));
        break;
      case "touch": {
        const { id, phase, x, y } = message;
        calls.send((decoder) => decoder.touch(id, phase, x, y, nowUs()));
        break;
      }
      case "pen":
        // All of them at once, and none of them waits: a stroke is as smooth as it was drawn.
        calls.send((decoder) => {
          for (const sample of message.samples) decoder.pen(sample, nowUs());
        });
        break;
    }
  }

  /** A connection begins. */
  open(decoder: Decoder): void {
    if (this.layout) decoder.layout(this.layout.layout, this.layout.variant);
  }

  /** Whether an application wants distances; said with every frame, so often unchanged. */
  setRelativeWanted(wanted: boolean): void {
    if (wanted === this.relativeWanted) return;
    this.relativeWanted = wanted;
    this.post({ type: "relativeWanted", wanted });
  }
}
