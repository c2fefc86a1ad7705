// What the page asks of the engine: whether all is shown, the pixels, figures.
// Beside the path: under engine.ts, which main.ts asks for the menu and for tests.
// Knows how to find out; never when the page asks.

import type { Connection } from "../transport/connection";
import type { Decoder } from "./decoder";
import type { FromEngine, Pixels, Stats, ToEngine } from "./messages";
import type { Presentation } from "./presentation";
import type { SavedState } from "./saved";
import type { Waiter } from "./waiters";
import { messageOf } from "./words";

type Query = Extract<ToEngine, { type: "query" }>;

/** Half of what viewer-core permits. */
const BARRIERS_MAX = 4;

/** What is asked. */
export interface QuerySources {
  presentation: Presentation;
  saved: SavedState;
  /** Both undefined while there is none. */
  decoder(): Decoder | undefined;
  transport(): Pick<Connection, "kind" | "reason"> | undefined;
}

export class Queries {
  /** In flight, on this connection. */
  private readonly barriers = new Map<number, Waiter>();
  /** What draws the session's 3D programs, in words, once it has told. */
  graphics: string | undefined;

  constructor(
    private readonly post: (message: FromEngine, transfer?: Transferable[]) => void,
    private readonly withDecoder: <T>(call: (decoder: Decoder) => T) => T | undefined,
    private readonly sources: QuerySources,
  ) {}

  handle({ id, what }: Query): void {
    this.answer(what).then(
      (value) =>
        this.post(
          { type: "answer", id, value },
          value && "data" in value ? [value.data.buffer] : [],
        ),
      (error: unknown) => this.post({ type: "failed", id, reason: messageOf(error) }),
    );
  }

  /** The session has answered this barrier. */
  passed(barrier: number): void {
    this.barriers.get(barrier)?.resolve();
    this.barriers.delete(barrier);
  }

  /** The connection has ended, and answers no barrier. */
  lost(why: Error): void {
    for (const waiter of this.barriers.values()) waiter.reject(why);
    this.barriers.clear();
  }

  private async answer(what: Query["what"]): Promise<undefined | Pixels | Stats> {
    switch (what) {
      case "idle":
        return this.idle();
      case "saved":
        return this.sources.saved.saveTiles();
      case "pixels":
        return this.pixels();
      case "stats":
        return this.stats();
    }
  }

  /**
   * Resolves when a barrier's round trip brought no update and all earlier ones are on the canvas.
   */
  private async idle(): Promise<undefined> {
    const { presentation } = this.sources;
    await presentation.first();
    for (let before = -1; before !== this.updates(); ) {
      before = this.updates();
      await this.barrier();
    }
    await presentation.settled();
    return undefined;
  }

  private barrier(): Promise<void> {
    return new Promise((resolve, reject) => {
      const id =
        this.barriers.size < BARRIERS_MAX
          ? this.withDecoder((decoder) => decoder.barrier())
          : undefined;
      if (id === undefined)
        reject(new Error(`no connection, or ${BARRIERS_MAX} barriers in flight`));
      else this.barriers.set(id, { resolve, reject });
    });
  }

  private updates(): number {
    return this.sources.decoder()?.stats().updates ?? 0;
  }

  private pixels(): Pixels {
    const decoder = this.sources.decoder();
    if (decoder === undefined) throw new Error("there is no picture");
    const { width, height } = decoder;
    return { width, height, data: decoder.rgba(0, 0, width, height).slice() };
  }

  private stats(): Stats {
    const decoder = this.sources.decoder();
    if (decoder === undefined) throw new Error("there is no viewer");
    const { presentation } = this.sources;
    const transport = this.sources.transport();
    return {
      ...decoder.stats(),
      transport: transport?.kind,
      transportReason: transport?.reason,
      graphics: this.graphics,
      presenter: presentation.kind,
      width: decoder.width,
      height: decoder.height,
      presents: presentation.count,
    };
  }
}
