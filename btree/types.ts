// The nouns of the storage engine that every module of btree/ and every user of it share.
// Keys are bytes and are compared as bytes; values are opaque bytes. See FORMAT.md for how they lie on disk.

/** Raw bytes. A view returned by a reader stays valid for ever: nodes are immutable buffers. */
export type Bytes = Uint8Array;

/** One change of a batch: `value` undefined removes the key. */
export interface TreeOp {
  readonly key: Bytes;
  readonly value: Bytes | undefined;
}

export interface Entry {
  readonly key: Bytes;
  readonly value: Bytes;
}

/** An entry of a merge where it lies, for who copies it with as little work as can be. Valid until the merge goes on. */
export interface MergedEntry {
  /** The key is key[0, keyLength). */
  readonly key: Uint8Array;
  readonly keyWords: DataView;
  readonly keyLength: number;
  /** The value is buffer[valueStart, valueEnd). */
  readonly buffer: Uint8Array;
  readonly bufferWords: DataView;
  readonly valueStart: number;
  readonly valueEnd: number;
  /** From here on the key's bytes also stand in the buffer, right before the value. */
  readonly suffixFrom: number;
  readonly ordinal: number;
}

/** Some consecutive entries of one leaf, decoded on demand. */
export interface LeafSlice {
  readonly length: number;
  /** The i-th key, a fresh copy. */
  key(i: number): Bytes;
  /** The i-th value: a view, or for a value kept out of line a buffer read from its record. */
  value(i: number): Bytes;
  /** Where the i-th value lies, for loops that look at each one: the same object at every call. */
  span(i: number): ByteSpan;
}

/** bytes[start, end). */
export interface ByteSpan {
  readonly bytes: Bytes;
  readonly start: number;
  readonly end: number;
}

/** A slice whose entries can be looked at without making objects. */
export interface VisitedSlice extends LeafSlice {
  /** Moves to entry `i`. What it is holds until `visit` is called again, on any slice. Ascending keys cost least. */
  visit(i: number): void;
  /** Begins with the key of the entry, `keyLength` bytes of it. */
  readonly keyBytes: Bytes;
  readonly keyLength: number;
  /** So many bytes at least it has in common with the entry visited before on this slice; 0 when there was none. */
  readonly keyShared: number;
  /** From here on the key's bytes also stand in `valueBytes`, right before the value. */
  readonly suffixFrom: number;
  /** The value is from `valueStart` to `valueEnd`. */
  readonly valueBytes: Bytes;
  readonly valueStart: number;
  readonly valueEnd: number;
}

/** A walk over the entries of a range. */
export interface RangeWalk {
  /** Rows of the tree before the range, in the direction of the walk. */
  readonly rowsBefore: number;
  /** The entries of the next leaf; undefined at the end. With `reverse` their order is turned round, too. */
  next(): VisitedSlice | undefined;
}

/**
 * What the owner of a tree wants kept about the entries below each child, besides their row count.
 * Reductions are opaque bytes. Results may be promises (custom JavaScript reduces run elsewhere);
 * the engine asks for many leaves or many nodes in one call.
 */
export interface Reducer {
  /** Rows the entry counts for: a view entry that holds several values counts for each. Cheap and pure. */
  count(bytes: Bytes, valueStart: number, valueEnd: number): number;
  /** Entries whose value's first byte has none of these bits count for 1: who counts many then need not ask. Absent when that is not so. */
  readonly oneUnless?: number;
  /**
   * One reduction for each slice of leaf entries. Absent when only counts are kept.
   * Slices and what they give are valid until it returns, or its promise settles.
   */
  reduce?(leaves: readonly LeafSlice[]): Bytes[] | Promise<Bytes[]>;
  /** One reduction for each group of child reductions. Present exactly when `reduce` is. */
  rereduce?(groups: readonly (readonly Bytes[])[]): Bytes[] | Promise<Bytes[]>;
  /**
   * `reduce` and `rereduce` never answer with promises: small batches of the tree may wait in the log, since what they change can be
   * worked out when a reader asks.
   * @defaultValue true without `reduce`, else false
   */
  readonly synchronous?: boolean;
}

/** Where a tree begins. An empty tree has no root (undefined). */
export interface TreeRoot {
  readonly offset: number;
  /** Bytes of the record at `offset`, frame included. */
  readonly size: number;
  /** 0 for a leaf. */
  readonly height: number;
  /** Rows in the tree, by `Reducer.count`. */
  readonly count: number;
  /** Reduction of the whole tree; empty bytes when the tree keeps only counts. */
  readonly reduction: Bytes;
  /** Bytes of its nodes and value records: what a compaction would keep. */
  readonly bytes: number;
}

/** Bounds are byte strings: from the first key >= gte to the last key < lt. */
export interface KeyRange {
  readonly gte?: Bytes | undefined;
  readonly lt?: Bytes | undefined;
}

/** What a range is made of: entries of its partly covered leaves, and reductions of wholly covered nodes. */
export interface RangeParts {
  readonly count: number;
  readonly slices: readonly LeafSlice[];
  readonly reductions: readonly Bytes[];
}

/** A run of keys that share a prefix, cut to the range that was asked. `firstKey` is its first key in scan order of the range. */
export interface GroupParts extends RangeParts {
  readonly prefixLength: number;
  readonly firstKey: Bytes;
  /** Value of the entry `firstKey` belongs to. */
  readonly firstValue: Bytes;
}

/** Reads one tree of one snapshot. Everything is synchronous; nodes come through the shared cache. */
export interface TreeReader {
  /** Made in memory while operations wait. */
  readonly root: TreeRoot | undefined;
  /** Names the state of the tree among all that its file ever had: equal ones have equal entries. */
  readonly version: string;
  /** Rows in the tree. */
  readonly count: number;
  get(key: Bytes): Bytes | undefined;
  /** Values of sorted keys, in one walk. */
  getMany(sortedKeys: readonly Bytes[]): (Bytes | undefined)[];
  /** Entries of the range in key order, leaf by leaf; with `reverse`, leaves and their entries come last first (slice index 0 is then the greatest key). */
  slices(range: KeyRange, options?: { readonly reverse?: boolean }): IterableIterator<LeafSlice>;
  /** The same for who also wants to know what is before the range: all in one descent. The range must not be empty by its bounds. */
  walk(range: KeyRange, reverse?: boolean): RangeWalk;
  /** Rows (by count) before the first key >= key. O(height). */
  rank(key: Bytes): number;
  /**
   * Entries from the row with number `row` (rows counted from 0 in key order) on are found in O(height):
   * returns the key of the entry that holds the row and how many of the entry's rows come before it.
   */
  entryAtRow(row: number): { readonly key: Bytes; readonly rowsBefore: number } | undefined;
  /** Reads O(height) nodes per boundary. */
  parts(range: KeyRange): RangeParts;
  /**
   * Groups of the range: consecutive keys with equal first `prefixLength(key)` bytes. Whole subtrees that lie in
   * one group are not opened. Lazy: a consumer that stops early reads no more. `reverse` yields groups last first;
   * within a group slices and reductions are always in ascending key order, and `firstKey` is the *lowest* key.
   */
  groups(
    range: KeyRange,
    prefixLength: (key: Bytes) => number,
    options?: { readonly reverse?: boolean },
  ): IterableIterator<GroupParts>;
}

/** Counters since the cache was made. */
export interface CacheStats {
  readonly hits: number;
  readonly misses: number;
  readonly evictions: number;
  readonly bytes: number;
  readonly bytesMax: number;
}
