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
    const found = new Array<string | undefined>(requests.length);
    let missing: Missing[] | undefined;
    for (let i = 0; i < requests.length; i++) {
      const request = requests[i] as DocumentRequest;
      const key = keyOf(request, stamp);
      const known = key === undefined ? undefined : lru.get(key);
      if (known === undefined) (missing ??= []).push({ request, key, place: i });
      else found[i] = known;
    }
    const misses = missing?.length ?? 0;
    this.#hits += requests.length - misses;
    this.#misses += misses;
    if (missing) await this.#read(source, missing, stamp, lru, found);
    return found;
  }

  async #read(
    source: Source,
    missing: readonly Missing[],
    stamp: string | undefined,
    lru: LRUCache<string, string>,
    found: (string | undefined)[],
  ): Promise<void> {
    const read = await source.documents(missing.map(({ request }) => request));
    // Read while the source moved on: which state they are of is not known.
    const kept = source.stamp?.() === stamp;
    for (const [i, { key, place }] of missing.entries()) {
      const text = read[i];
      found[place] = text;
      if (kept && key !== undefined && text !== undefined) lru.set(key, text);
    }
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

/** What the cache does not have. */
interface Missing {
  readonly request: DocumentRequest;
  readonly key: string | undefined;
  readonly place: number;
}

const OPEN_ARRAY = 0x5b;

/** Undefined for what must not be kept. What conflicts there are can change under any revision. */
function keyOf(request: DocumentRequest, stamp: string | undefined): string | undefined {
  const { id, rev, conflicts, attachments, attEncodingInfo, deleted } = request;
  if (stamp === undefined && (rev === undefined || conflicts === true)) return undefined;
  // Most ask for a document and no more: its id is as good as what tells all others apart, unless it looks like that.
  const plain =
    rev === undefined &&
    conflicts !== true &&
    attachments !== true &&
    attEncodingInfo !== true &&
    deleted !== true;
  if (plain && id.charCodeAt(0) !== OPEN_ARRAY) return id;
  return JSON.stringify([
    id,
    rev,
    conflicts === true,
    attachments === true,
    attEncodingInfo === true,
    deleted === true,
  ]);
}
