// A TreeReader over a sorted array, cut into leaves: what the storage engine must answer, in the plainest code. Reductions are kept
// for whole leaves only.

import type {
  Bytes,
  ByteSpan,
  Entry,
  GroupParts,
  KeyRange,
  LeafSlice,
  RangeParts,
  RangeWalk,
  Reducer,
  TreeReader,
  TreeRoot,
  VisitedSlice,
} from "../../btree/types.js";

export function compareBytes(a: Bytes, b: Bytes): number {
  return Buffer.compare(a, b);
}

class ArraySlice implements VisitedSlice {
  readonly #entries: readonly Entry[];
  keyBytes: Bytes = new Uint8Array();
  keyLength = 0;
  readonly keyShared = 0;
  suffixFrom = 0;
  valueBytes: Bytes = new Uint8Array();
  readonly valueStart = 0;
  valueEnd = 0;
  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
  }
  get length(): number {
    return this.#entries.length;
  }
  key(i: number): Bytes {
    return Uint8Array.from(this.#at(i).key);
  }
  value(i: number): Bytes {
    return this.#at(i).value;
  }
  span(i: number): ByteSpan {
    const { value } = this.#at(i);
    return { bytes: value, start: 0, end: value.length };
  }
  visit(i: number): void {
    this.keyBytes = this.key(i);
    this.suffixFrom = this.keyLength = this.keyBytes.length;
    this.valueBytes = this.value(i);
    this.valueEnd = this.valueBytes.length;
  }
  #at(i: number): Entry {
    const entry = this.#entries[i];
    if (!entry) throw new RangeError(`no entry ${i} in a slice of ${this.#entries.length}`);
    return entry;
  }
}

interface Leaf {
  readonly start: number;
  readonly end: number;
  readonly reduction: Bytes | undefined;
}

export class MemoryTree implements TreeReader {
  readonly root: TreeRoot | undefined = undefined;
  readonly version = "memory";
  readonly count: number;
  /** How many entries were handed out, to see what a reader that stops early leaves unread. */
  entriesRead = 0;
  readonly #entries: readonly Entry[];
  readonly #leaves: readonly Leaf[];
  readonly #reducer: Reducer;

  private constructor(entries: readonly Entry[], leaves: readonly Leaf[], reducer: Reducer) {
    this.#entries = entries;
    this.#leaves = leaves;
    this.#reducer = reducer;
    this.count = this.#countOf(0, entries.length);
  }

  /** Entries in any order; of equal keys the last holds. */
  static async create(
    entries: Iterable<Entry>,
    reducer: Reducer,
    options: { readonly leafEntries?: number } = {},
  ): Promise<MemoryTree> {
    const byKey = new Map<string, Entry>();
    for (const entry of entries) byKey.set(Buffer.from(entry.key).toString("hex"), entry);
    const sorted = [...byKey.values()].sort((a, b) => compareBytes(a.key, b.key));
    const size = options.leafEntries ?? 4;
    const bounds: [number, number][] = [];
    for (let at = 0; at < sorted.length; at += size) {
      bounds.push([at, Math.min(at + size, sorted.length)]);
    }
    const slices = bounds.map(([start, end]) => new ArraySlice(sorted.slice(start, end)));
    const reductions = reducer.reduce ? await reducer.reduce(slices) : [];
    const leaves = bounds.map(([start, end], i) => ({ start, end, reduction: reductions[i] }));
    return new MemoryTree(sorted, leaves, reducer);
  }

  get(key: Bytes): Bytes | undefined {
    const entry = this.#entries[this.#lowerBound(key)];
    return entry && compareBytes(entry.key, key) === 0 ? entry.value : undefined;
  }

  getMany(sortedKeys: readonly Bytes[]): (Bytes | undefined)[] {
    return sortedKeys.map((key) => this.get(key));
  }

  *slices(
    range: KeyRange,
    options: { readonly reverse?: boolean } = {},
  ): IterableIterator<VisitedSlice> {
    const [low, high] = this.#bounds(range);
    const cut = this.#leaves
      .map((leaf) => [Math.max(leaf.start, low), Math.min(leaf.end, high)] as const)
      .filter(([start, end]) => start < end);
    for (const [start, end] of options.reverse === true ? cut.reverse() : cut) {
      const entries = this.#entries.slice(start, end);
      this.entriesRead += entries.length;
      yield new ArraySlice(options.reverse === true ? entries.reverse() : entries);
    }
  }

  walk(range: KeyRange, reverse = false): RangeWalk {
    const [low, high] = this.#bounds(range);
    const slices = this.slices(range, { reverse });
    return {
      rowsBefore: reverse ? this.#countOf(high, this.#entries.length) : this.#countOf(0, low),
      next: () => (slices.next() as IteratorResult<VisitedSlice, undefined>).value,
    };
  }

  rank(key: Bytes): number {
    return this.#countOf(0, this.#lowerBound(key));
  }

  entryAtRow(row: number): { readonly key: Bytes; readonly rowsBefore: number } | undefined {
    let before = 0;
    for (const [i, entry] of this.#entries.entries()) {
      const rows = this.#countOf(i, i + 1);
      if (row < before + rows) return { key: entry.key, rowsBefore: row - before };
      before += rows;
    }
    return undefined;
  }

  parts(range: KeyRange): RangeParts {
    return this.#partsOf(...this.#bounds(range));
  }

  *groups(
    range: KeyRange,
    prefixLength: (key: Bytes) => number,
    options: { readonly reverse?: boolean } = {},
  ): IterableIterator<GroupParts> {
    const [low, high] = this.#bounds(range);
    const groups: (() => GroupParts)[] = [];
    for (let at = low; at < high;) {
      const first = this.#entries[at] as Entry;
      const length = prefixLength(first.key);
      let end = at + 1;
      while (end < high && this.#startsWith(end, first.key, length)) end++;
      const start = at;
      groups.push(() => ({
        ...this.#partsOf(start, end),
        prefixLength: length,
        firstKey: first.key,
        firstValue: first.value,
      }));
      at = end;
    }
    for (const group of options.reverse === true ? groups.reverse() : groups) yield group();
  }

  #startsWith(i: number, key: Bytes, length: number): boolean {
    const other = (this.#entries[i] as Entry).key;
    return (
      other.length >= length &&
      compareBytes(other.subarray(0, length), key.subarray(0, length)) === 0
    );
  }

  #partsOf(low: number, high: number): RangeParts {
    const slices: LeafSlice[] = [];
    const reductions: Bytes[] = [];
    for (const leaf of this.#leaves) {
      if (leaf.end <= low || leaf.start >= high) continue;
      if (leaf.start >= low && leaf.end <= high && leaf.reduction) {
        reductions.push(leaf.reduction);
      } else {
        slices.push(
          new ArraySlice(this.#entries.slice(Math.max(low, leaf.start), Math.min(high, leaf.end))),
        );
      }
    }
    return { count: this.#countOf(low, high), slices, reductions };
  }

  #bounds(range: KeyRange): [low: number, high: number] {
    const low = range.gte ? this.#lowerBound(range.gte) : 0;
    const high = range.lt ? this.#lowerBound(range.lt) : this.#entries.length;
    return [low, Math.max(low, high)];
  }

  #lowerBound(key: Bytes): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes((this.#entries[middle] as Entry).key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #countOf(low: number, high: number): number {
    let rows = 0;
    for (const { value } of this.#entries.slice(low, high)) {
      rows += this.#reducer.count(value, 0, value.length);
    }
    return rows;
  }
}
