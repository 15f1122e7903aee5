// Makes commits durable in the background: what queries wait for is in the file, and a killed process loses none of it; against a loss
// of power it is safe once nobody has written for a moment, and at the latest after the interval of the sync policy.

import type { GroupIndex } from "./group-index.js";

/** Without a further update for so long the disk is asked. */
const QUIET_MS = 1000;

export class LaterSyncs {
  readonly #intervalMs: number;
  readonly #onWarning: (message: string) => void;
  readonly #dirty = new Set<GroupIndex>();
  #since = 0;
  #timer: NodeJS.Timeout | undefined;
  #syncing: Promise<void> | undefined;

  /** @param intervalMs - longest time between a commit and its sync. */
  constructor(intervalMs: number, onWarning: (message: string) => void) {
    this.#intervalMs = intervalMs;
    this.#onWarning = onWarning;
  }

  add(group: GroupIndex): void {
    const now = performance.now();
    if (this.#dirty.size === 0) this.#since = now;
    this.#dirty.add(group);
    const due = Math.min(QUIET_MS, Math.max(0, this.#since + this.#intervalMs - now));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#syncing ??= this.#sync();
    }, due);
    this.#timer.unref();
  }

  /** True while a commit of the group could be lost with the power. */
  has(group: GroupIndex): boolean {
    return this.#dirty.has(group);
  }

  /** Syncs what is left; then nothing is under way. */
  async finish(): Promise<void> {
    clearTimeout(this.#timer);
    await this.#syncing;
    await this.#sync();
  }

  async #sync(): Promise<void> {
    const groups = [...this.#dirty];
    this.#dirty.clear();
    for (const group of groups)
      try {
        await group.writing(() => group.store.commit({ sync: true }));
      } catch (error) {
        this.#onWarning(`${group.path} could not be synced: ${(error as Error).message}`);
      }
    this.#syncing = undefined;
  }
}
