// One update at a time for a directory; whoever asks while one runs waits for the next, which begins after they asked. So a query
// waits for exactly the changes that were there when it began, and any number of queries share one update.

import type { GroupIndex } from "./group-index.js";

interface Waiting {
  readonly group: GroupIndex;
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

export class UpdateScheduler {
  readonly #update: (groups: readonly GroupIndex[]) => Promise<void>;
  #waiting = new Map<string, Waiting>();
  #running: Promise<void> | undefined;
  #runningGroups = new Set<string>();
  /** Work that waits to run exclusively. */
  #turns = 0;
  /** Tells the work that runs exclusively that others wait for it. */
  #wanted: AbortController | undefined;

  /** @param update - brings groups up to the state of the source at the time of the call. */
  constructor(update: (groups: readonly GroupIndex[]) => Promise<void>) {
    this.#update = update;
  }

  /** True while the group is being updated. */
  isRunning(signature: string): boolean {
    return this.#runningGroups.has(signature);
  }

  /** Queries that wait for the group's next update. */
  isAwaited(signature: string): boolean {
    return this.#waiting.has(signature);
  }

  /** Resolves when the group holds all changes that the source had at the time of this call. */
  fresh(group: GroupIndex): Promise<void> {
    const { signature } = group.spec;
    let waiting = this.#waiting.get(signature);
    if (!waiting) {
      let resolve: () => void = () => undefined;
      let reject: (error: unknown) => void = () => undefined;
      const promise = new Promise<void>((res, rej) => {
        resolve = res;
        reject = rej;
      });
      promise.catch(() => undefined);
      waiting = { group, promise, resolve, reject };
      this.#waiting.set(signature, waiting);
      this.#wanted?.abort();
      // Work that waits for its turn begins the next run when it is done.
      if (this.#turns === 0) this.#running ??= this.#run();
    }
    return waiting.promise;
  }

  /**
   * Runs `work` while no update runs. Work that has no end of its own must end when `wanted` fires: somebody waits for their turn.
   * @param groups - those that the work updates.
   */
  async exclusive<T>(
    work: (wanted: AbortSignal) => Promise<T>,
    groups: readonly GroupIndex[] = [],
  ): Promise<T> {
    this.#turns++;
    while (this.#running) {
      this.#wanted?.abort();
      await this.#running;
    }
    this.#turns--;
    const wanted = new AbortController();
    this.#wanted = wanted;
    this.#runningGroups = new Set(groups.map(({ spec }) => spec.signature));
    let result: T | undefined;
    let failed: { error: unknown } | undefined;
    this.#running = work(wanted.signal).then(
      (value) => {
        result = value;
      },
      (error: unknown) => {
        failed = { error };
      },
    );
    await this.#running;
    this.#wanted = undefined;
    this.#runningGroups = new Set();
    this.#running = this.#waiting.size > 0 ? this.#run() : undefined;
    if (failed) throw failed.error;
    return result as T;
  }

  /** Resolves when nothing runs and nobody waits. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  async #run(): Promise<void> {
    // Those who ask in the same turn are served together.
    await Promise.resolve();
    // However many come to ask, work that waits for its turn is let through; it begins the next run.
    for (let ran = false; this.#waiting.size > 0 && !(ran && this.#turns > 0); ran = true) {
      const batch = [...this.#waiting.values()];
      this.#waiting = new Map();
      this.#runningGroups = new Set(batch.map(({ group }) => group.spec.signature));
      try {
        await this.#update(batch.map(({ group }) => group));
        for (const { resolve } of batch) resolve();
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
      this.#runningGroups = new Set();
    }
    this.#running = undefined;
  }
}
