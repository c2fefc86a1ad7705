// When the page tries again to connect: viewer-core decides (crates/viewer-core/src/attempts.rs).
// Path back: between connection.ts, which reports losses and waits, and crates/viewer-web.
// Calls only; knows no transports.

import type { Attempts } from "../transport/connection";
import { nowUs } from "./messages";

/** The exports of crates/viewer-web/src/lib.rs for attempts. */
export interface AttemptExports {
  viewer_begin_attempts(nowUs: number): void;
  viewer_attempt_wait(random: number): number;
  viewer_attempt_interval(nowUs: number): number;
  viewer_attempts(): number;
  viewer_replacement_wait(): number;
  viewer_replacement_failures(): number;
}

/** Those of one decoder. */
export class AttemptCalls implements Attempts {
  constructor(private readonly calls: AttemptExports) {}

  begin(): void {
    this.calls.viewer_begin_attempts(nowUs());
  }

  waitMs(): number {
    const random = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
    return this.calls.viewer_attempt_wait(random) / 1_000;
  }

  intervalMs(): number | undefined {
    return this.calls.viewer_attempt_interval(nowUs()) / 1_000 || undefined;
  }

  get count(): number {
    return this.calls.viewer_attempts();
  }

  get replacementWaitMs(): number {
    return this.calls.viewer_replacement_wait() / 1_000;
  }

  get replacementFailuresMax(): number {
    return this.calls.viewer_replacement_failures();
  }
}
