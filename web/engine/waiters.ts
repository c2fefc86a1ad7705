// Those who wait for one event.
// Beside the path: for presentation.ts and queries.ts. Knows promises only.

export interface Waiter {
  resolve(): void;
  reject(error: Error): void;
}

export class Waiters {
  private readonly waiting: Waiter[] = [];

  /** Resolves at the next event. */
  wait(): Promise<void> {
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }

  /** The event has happened. */
  resolve(): void {
    for (const waiter of this.waiting.splice(0)) waiter.resolve();
  }

  /** It will not happen. */
  reject(error: Error): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(error);
  }
}
