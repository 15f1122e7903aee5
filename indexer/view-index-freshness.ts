// How fresh a group is, and what a query that wants it fresher waits for. A source that can tell a stamp of its state cheaply spares
// the question for changes where the stamp is the one of the last update.

import type { ResolvedOptions } from "./options.js";
import type { ResolvedQuery } from "./query/index.js";
import type { BoundSource } from "./views/bound-source.js";
import type { DiskRoom } from "./views/disk-room.js";
import type { GroupIndex } from "./views/group-index.js";
import { Turns } from "./views/turns.js";

export interface FreshnessHost {
  readonly options: ResolvedOptions;
  readonly source: BoundSource;
  readonly room: DiskRoom;
  /** Resolves when the group holds all changes that the source had at the time of the call. */
  readonly update: (group: GroupIndex) => Promise<void>;
  readonly isClosed: () => boolean;
}

export class Freshness {
  readonly #host: FreshnessHost;
  readonly #turns = new Turns();
  #nextStamp: Promise<string | undefined> | undefined;
  readonly #waiting = new WeakMap<GroupIndex, number>();

  constructor(host: FreshnessHost) {
    this.#host = host;
  }

  /** The source's stamp; undefined where it tells none. */
  stampNow(): string | undefined {
    return this.#host.source.opened?.stamp?.();
  }

  /** The same for who would rather not wait; undefined also when others are due for a turn of the event loop. */
  stampUnlessDue(): string | undefined {
    return this.#turns.due() ? undefined : this.stampNow();
  }

  /** One look at the source for all who ask in this turn of the event loop, after they have asked. */
  stampSoon(): Promise<string | undefined> {
    this.#nextStamp ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#nextStamp = undefined;
        this.#turns.taken();
        resolve(this.stampNow());
      });
    });
    return this.#nextStamp;
  }

  isFresh(group: GroupIndex, stamp: string | undefined): boolean {
    return stamp !== undefined && group.freshAt === stamp;
  }

  /** Whether the query can be answered at once from what is there. */
  isFreshFor({ update }: ResolvedQuery, group: GroupIndex, stamp: string | undefined): boolean {
    if (this.#host.options.readOnly || update === "lazy") return false;
    return !update || this.isFresh(group, stamp);
  }

  /**
   * Brings the group up to the source as it was at the stamp; without one, as it is now.
   * @throws IndexerError INDEXER_DISK_LOW, and what an update throws.
   */
  async freshen(group: GroupIndex, asked: string | undefined): Promise<void> {
    const stamp = asked ?? this.stampNow();
    if (this.isFresh(group, stamp)) return;
    this.#host.room.require();
    this.#waiting.set(group, this.waiting(group) + 1);
    try {
      await this.#host.update(group);
    } finally {
      this.#waiting.set(group, this.waiting(group) - 1);
    }
    if (stamp !== undefined) group.freshAt = stamp;
  }

  /** The same in the background; what fails is a warning. */
  freshenLater(group: GroupIndex): void {
    this.freshen(group, undefined).catch((error: unknown) => {
      if (!this.#host.isClosed())
        this.#host.options.onWarning(`a background update failed: ${(error as Error).message}`);
    });
  }

  /** Queries that wait for an update of the group. */
  waiting(group: GroupIndex): number {
    return this.#waiting.get(group) ?? 0;
  }
}
