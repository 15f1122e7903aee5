// Documents that queries included, kept by id and revision: an LRU bounded in bytes. A document without a revision is only kept while the
// source can say cheaply that nothing has changed (its stamp); with a revision it cannot change at all.

import { LRUCache } from "lru-cache";

import type { CacheStats } from "../../btree/index.js";
import type { DocumentRequest, Source } from "./source.js";

/** The LRU's own bookkeeping and the key, about. */
const ENTRY_OVERHEAD_BYTES = 250;
const BYTES_A_CHARACTER_MAX = 2;

export class DocumentCache {
  readonly bytesMax: number;
  readonly #lru: LRUCache<string, string> | undefined;
  #stamp: string | undefined;
  #hits = 0;
  #misses = 0;
  #evictions = 0;

  /** @param bytesMax - 0 for no cache. */
  constructor(bytesMax: number) {
    this.bytesMax = bytesMax;
    if (bytesMax > 0)
      this.#lru = new LRUCache({
        maxSize: bytesMax,
        sizeCalculation: (text) => text.length * BYTES_A_CHARACTER_MAX + ENTRY_OVERHEAD_BYTES,
        dispose: (_text, _key, reason) => {
          if (reason === "evict") this.#evictions++;
        },
      });
  }

  /** As `source.documents`; only what is not kept is asked of the source, in one request. */
  async documents(
    source: Source,
    requests: readonly DocumentRequest[],
  ): Promise<(string | undefined)[]> {
    const lru = this.#lru;
    if (!lru) return source.documents(requests);
    const stamp = source.stamp?.();
    if (stamp !== this.#stamp) {
      lru.clear();
      this.#stamp = stamp;
    }
    const keys = requests.map((request) => keyOf(request, stamp));
    const found = keys.map((key) => (key === undefined ? undefined : lru.get(key)));
    const missing = requests.filter((_, i) => found[i] === undefined);
    this.#hits += requests.length - missing.length;
    this.#misses += missing.length;
    if (missing.length === 0) return found;
    const read = await source.documents(missing);
    let next = 0;
    for (const [i, known] of found.entries()) {
      if (known !== undefined) continue;
      const text = read[next++];
      found[i] = text;
      const key = keys[i];
      // Read while the source moved on: which state it is of is not known.
      if (key !== undefined && text !== undefined && source.stamp?.() === stamp) lru.set(key, text);
    }
    return found;
  }

  stats(): CacheStats {
    return {
      hits: this.#hits,
      misses: this.#misses,
      evictions: this.#evictions,
      bytes: this.#lru?.calculatedSize ?? 0,
      bytesMax: this.bytesMax,
    };
  }
}

/** Undefined for what must not be kept. What conflicts there are can change under any revision. */
function keyOf(request: DocumentRequest, stamp: string | undefined): string | undefined {
  const { id, rev, conflicts, attachments, attEncodingInfo, deleted } = request;
  if (stamp === undefined && (rev === undefined || conflicts === true)) return undefined;
  return JSON.stringify([
    id,
    rev,
    conflicts === true,
    attachments === true,
    attEncodingInfo === true,
    deleted === true,
  ]);
}
