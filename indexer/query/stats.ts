// Explain: what a query cost. A collector is handed to a query and filled while it runs; without one nothing is counted.

import { type CacheStats } from "../../btree/index.js";

export type QueryPhase = "seek" | "scan" | "reduce" | "documents";

/** What a query has cost so far; `milliseconds` by phase. */
export interface QueryCost {
  readonly nodes_read: number;
  readonly cache_hits: number;
  readonly rows_scanned: number;
  readonly documents_read: number;
  readonly milliseconds: Readonly<Record<string, number>>;
}

/**
 * Collects the cost of one query. Phases follow each other, so time is charged to one at a time. Reading a tree is
 * synchronous: the cache's counters before and after a phase differ by what the phase did.
 */
export class QueryStats {
  rowsScanned = 0;
  documentsRead = 0;
  #nodesRead = 0;
  #cacheHits = 0;
  readonly #milliseconds = new Map<string, number>();
  readonly #cache: (() => CacheStats) | undefined;
  #phase: QueryPhase | undefined;
  #since = 0;
  #hits = 0;
  #misses = 0;

  /** @param cache Counters of the node cache the trees are read through. */
  constructor(cache?: () => CacheStats) {
    this.#cache = cache;
  }

  /** Ends the phase that is on, begins another, and returns the one that ended. */
  enter(phase: QueryPhase | undefined): QueryPhase | undefined {
    const now = performance.now();
    const cache = this.#cache?.();
    const ended = this.#phase;
    if (ended !== undefined) {
      this.add(ended, now - this.#since);
      // While documents are awaited others use the cache too.
      if (cache && ended !== "documents") {
        this.#nodesRead += cache.misses - this.#misses;
        this.#cacheHits += cache.hits - this.#hits;
      }
    }
    this.#phase = phase;
    this.#since = now;
    this.#hits = cache?.hits ?? 0;
    this.#misses = cache?.misses ?? 0;
    return ended;
  }

  /** Charges time to a phase, of the query or of what came before it (`update`). */
  add(phase: string, milliseconds: number): void {
    this.#milliseconds.set(phase, (this.#milliseconds.get(phase) ?? 0) + milliseconds);
  }

  toJSON(): QueryCost {
    const milliseconds: Record<string, number> = {};
    for (const [phase, ms] of this.#milliseconds)
      milliseconds[phase] = Math.round(ms * 1000) / 1000;
    return {
      nodes_read: this.#nodesRead,
      cache_hits: this.#cacheHits,
      rows_scanned: this.rowsScanned,
      documents_read: this.documentsRead,
      milliseconds,
    };
  }
}
