// Transfers from the session that are complete, for a session that offers them again.
// Beside the path: under files.ts and printing.ts. Knows identities and times.

/**
 * For so long after a transfer the session may offer the same files on another connection, because
 * it did not learn of the end; they are not received again. As in the native viewer.
 */
const AGE_MS_MAX = 120_000;
/** Twice the transfers of a side (crates/protocol/src/limits.rs); more forget the oldest. */
const REMEMBERED_MAX = 16;

export class Finished {
  private all: { identity: string; connection: number; atMs: number }[] = [];

  /** `connection`: the one on which the session was told; 0 if it was not. */
  add(identity: string, connection: number): void {
    if (this.all.length === REMEMBERED_MAX) this.all.shift();
    this.all.push({ identity, connection, atMs: performance.now() });
  }

  /** Whether an offer on this connection is one of them; on the same one it is a new transfer. */
  has(identity: string, connection: number): boolean {
    const nowMs = performance.now();
    this.all = this.all.filter(({ atMs }) => nowMs < atMs + AGE_MS_MAX);
    return this.all.some((known) => known.identity === identity && known.connection !== connection);
  }
}
