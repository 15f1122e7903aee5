// The node cache: an LRU over lru-cache, bounded in bytes, shared by all stores of a thread. Keys are numbers made of a store's
// number and an offset, so that a hit allocates no string; a store's nodes are dropped when it closes and its number is reused.

import { LRUCache } from "lru-cache";
import { invariant } from "./errors.js";
import type { InnerNode } from "./inner-node.js";
import type { LeafNode } from "./leaf-node.js";
import type { CacheStats } from "./types.js";

export type CachedNode = LeafNode | InnerNode;

/** 8 TiB a file and 1024 stores at a time fill the 53 bits of a number. */
const OFFSET_LIMIT = 2 ** 43;
const STORES_MAX = 1024;

const DEFAULT_CACHE_BYTES = 64 * 1024 * 1024;
/** The LRU's own bookkeeping and the node object, about. */
const ENTRY_OVERHEAD_BYTES = 200;

export class NodeCache {
  readonly bytesMax: number;
  readonly #lru: LRUCache<number, CachedNode>;
  readonly #free: number[] = [];
  #stores = 0;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** @param bytesMax - Bound of the true size of all nodes kept: their buffers and offset tables. */
  constructor(bytesMax: number = DEFAULT_CACHE_BYTES) {
    if (!Number.isSafeInteger(bytesMax) || bytesMax < 1) {
      throw new RangeError(`cache bytesMax must be a positive integer, not ${String(bytesMax)}`);
    }
    this.bytesMax = bytesMax;
    this.#lru = new LRUCache<number, CachedNode>({
      maxSize: bytesMax,
      sizeCalculation: (node) => node.memoryBytes + ENTRY_OVERHEAD_BYTES,
      dispose: (_node, _key, reason) => {
        if (reason === "evict") this.#evictions++;
      },
    });
  }

  /** A number for a store, valid until `detach`. */
  attach(): number {
    const number = this.#free.pop() ?? this.#stores++;
    invariant(number < STORES_MAX, `more than ${STORES_MAX} stores share one node cache`);
    return number;
  }

  detach(store: number): void {
    const low = store * OFFSET_LIMIT;
    for (const key of [...this.#lru.keys()])
      if (key >= low && key < low + OFFSET_LIMIT) this.#lru.delete(key);
    this.#free.push(store);
  }

  get(store: number, offset: number): CachedNode | undefined {
    const node = this.#lru.get(store * OFFSET_LIMIT + offset);
    if (node === undefined) this.#misses++;
    else this.#hits++;
    return node;
  }

  set(store: number, offset: number, node: CachedNode): void {
    if (offset < OFFSET_LIMIT) this.#lru.set(store * OFFSET_LIMIT + offset, node);
  }

  delete(store: number, offset: number): void {
    this.#lru.delete(store * OFFSET_LIMIT + offset);
  }

  stats(): CacheStats {
    return {
      hits: this.#hits,
      misses: this.#misses,
      evictions: this.#evictions,
      bytes: this.#lru.calculatedSize,
      bytesMax: this.bytesMax,
    };
  }
}

let shared: NodeCache | undefined;

/** The cache that stores of this thread use unless they are given another: 64 MiB. */
export function sharedNodeCache(): NodeCache {
  shared ??= new NodeCache();
  return shared;
}
