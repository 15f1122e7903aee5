// Reads a tree with operations that wait. Lookups ask the operations first and scans merge them in; whatever goes by counts or reductions
// reads the nodes that there would be (waiting-tree.ts).

import { compareBytes } from "./bytes.js";
import type { NodeSource } from "./node-source.js";
import { isEmptyRange, NodeTreeReader } from "./tree-reader.js";
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
} from "./types.js";
import type { Waiting } from "./waiting-tree.js";
import type { WaitingOps } from "./waiting-ops.js";

/** Makes the nodes that a state of the tree would have. */
export type Settle = (waiting: Waiting) => {
  readonly root: TreeRoot | undefined;
  readonly source: NodeSource;
};

export class WaitingTreeReader implements TreeReader {
  readonly #waiting: Waiting;
  readonly #ops: WaitingOps;
  readonly #nodes: NodeTreeReader;
  readonly #reducer: Reducer;
  readonly #settle: Settle;
  #settled: NodeTreeReader | undefined;

  constructor(source: NodeSource, waiting: Waiting, reducer: Reducer, settle: Settle) {
    this.#waiting = waiting;
    this.#ops = waiting.tree.ops;
    this.#nodes = new NodeTreeReader(source, waiting.tree.base, reducer);
    this.#reducer = reducer;
    this.#settle = settle;
  }

  /** The nodes in the file. @internal */
  get stored(): NodeTreeReader {
    return this.#nodes;
  }

  /** Operations that wait. @internal */
  get length(): number {
    return this.#waiting.length;
  }

  /** Whether one of them has the other's operations and, maybe, more. @internal */
  sharesOps(other: WaitingTreeReader): boolean {
    return this.#ops === other.#ops;
  }

  /** Keys of the operations [from, to), ascending. @internal */
  keysOf(from: number, to: number): Bytes[] {
    return Array.from(this.#ops.order(from, to), (op) => this.#ops.key(op));
  }

  /** The same tree, past the cache. @internal */
  uncached(): WaitingTreeReader {
    const source = this.#nodes.source.uncached();
    return new WaitingTreeReader(source, this.#waiting, this.#reducer, this.#settle);
  }

  /**
   * A reader of the nodes with everything applied: up to a leaf in memory for each operation that waits.
   *
   * @internal
   */
  get settled(): NodeTreeReader {
    if (this.#settled === undefined) {
      const { root, source } = this.#settle(this.#waiting);
      this.#settled = new NodeTreeReader(source, root, this.#reducer);
    }
    return this.#settled;
  }

  get root(): TreeRoot | undefined {
    return this.settled.root;
  }

  get version(): string {
    return `${this.#nodes.version}+${this.#waiting.chain.offset.toString(36)}`;
  }

  get count(): number {
    const { tree, length } = this.#waiting;
    return this.#settled?.count ?? tree.rows(length, this.#nodes, this.#reducer);
  }

  get(key: Bytes): Bytes | undefined {
    const op = this.#ops.find(key, this.#waiting.length);
    return op < 0 ? this.#nodes.get(key) : this.#ops.value(op);
  }

  getMany(sortedKeys: readonly Bytes[]): (Bytes | undefined)[] {
    const found = sortedKeys.map((key) => this.#ops.find(key, this.#waiting.length));
    const values = this.#nodes.getMany(sortedKeys.filter((_key, i) => (found[i] as number) < 0));
    let next = 0;
    return found.map((op) => (op < 0 ? values[next++] : this.#ops.value(op)));
  }

  *slices(range: KeyRange, options?: { readonly reverse?: boolean }): IterableIterator<LeafSlice> {
    if (isEmptyRange(range)) return;
    const ops = this.#ops;
    const order = ops.order(0, this.#waiting.length);
    const from = range.gte === undefined ? 0 : ops.lowerBound(order, range.gte);
    const to = range.lt === undefined ? order.length : ops.lowerBound(order, range.lt);
    const changes = order.subarray(from, to);
    const reverse = options?.reverse ?? false;
    let next = reverse ? changes.length - 1 : 0;
    const step = reverse ? -1 : 1;
    for (const slice of this.#nodes.slices(range, options)) {
      // Changes up to the last key of the slice, in the direction of the walk, go with it.
      const last = slice.key(slice.length - 1);
      const first = next;
      while (
        next >= 0 &&
        next < changes.length &&
        compareBytes(ops.key(changes[next] as number), last) * step <= 0
      )
        next += step;
      if (next === first) {
        yield slice;
        continue;
      }
      const merged = mergeSlice(slice, ops, changes, first, next, step);
      if (merged.length > 0) yield merged;
    }
    const rest = mergeSlice(undefined, ops, changes, next, reverse ? -1 : changes.length, step);
    if (rest.length > 0) yield rest;
  }

  walk(range: KeyRange, reverse?: boolean): RangeWalk {
    return this.settled.walk(range, reverse);
  }

  rank(key: Bytes): number {
    return this.settled.rank(key);
  }

  entryAtRow(row: number): { readonly key: Bytes; readonly rowsBefore: number } | undefined {
    return this.settled.entryAtRow(row);
  }

  parts(range: KeyRange): RangeParts {
    return this.settled.parts(range);
  }

  groups(
    range: KeyRange,
    prefixLength: (key: Bytes) => number,
    options?: { readonly reverse?: boolean },
  ): IterableIterator<GroupParts> {
    return this.settled.groups(range, prefixLength, options);
  }
}

/**
 * A reader of the nodes that a tree has in the file, without what waits; undefined for readers that are not of a store's snapshots.
 *
 * @internal
 */
export function storedNodesOf(reader: TreeReader): NodeTreeReader | undefined {
  if (reader instanceof WaitingTreeReader) return reader.stored;
  return reader instanceof NodeTreeReader ? reader : undefined;
}

/**
 * A reader of the same tree that leaves the cache alone, for walks over everything.
 *
 * @internal
 */
export function uncached(reader: TreeReader): TreeReader {
  return reader instanceof WaitingTreeReader || reader instanceof NodeTreeReader
    ? reader.uncached()
    : reader;
}

/**
 * Keys, ascending, of which the operations that wait may say different things in two states of a tree.
 *
 * @internal
 */
export function keysWaiting(before: TreeReader, after: TreeReader): readonly Bytes[] {
  const old = before instanceof WaitingTreeReader ? before : undefined;
  const now = after instanceof WaitingTreeReader ? after : undefined;
  if (old && now?.sharesOps(old)) {
    const [from, to] = [old.length, now.length].sort((a, b) => a - b) as [number, number];
    return now.keysOf(from, to);
  }
  const keys = [...(old?.keysOf(0, old.length) ?? []), ...(now?.keysOf(0, now.length) ?? [])];
  if (old && now) keys.sort(compareBytes);
  return keys;
}

/** The slice's entries with changes[first, end), taken in steps of `step`, in place. */
function mergeSlice(
  slice: LeafSlice | undefined,
  ops: WaitingOps,
  changes: Uint32Array,
  first: number,
  end: number,
  step: 1 | -1,
): EntrySlice {
  const entries: Entry[] = [];
  let next = first;
  const putChange = (): void => {
    const op = changes[next] as number;
    const value = ops.value(op);
    if (value !== undefined) entries.push({ key: ops.key(op), value });
    next += step;
  };
  for (let i = 0; i < (slice?.length ?? 0); i++) {
    const key = (slice as LeafSlice).key(i);
    let replaced = false;
    while (next !== end && !replaced) {
      const order = compareBytes(ops.key(changes[next] as number), key) * step;
      if (order > 0) break;
      replaced = order === 0;
      putChange();
    }
    if (!replaced) entries.push({ key, value: (slice as LeafSlice).value(i) });
  }
  while (next !== end) putChange();
  return new EntrySlice(entries);
}

/** Entries of a leaf and of a log together. */
class EntrySlice implements LeafSlice {
  readonly length: number;
  readonly #entries: readonly Entry[];

  constructor(entries: readonly Entry[]) {
    this.#entries = entries;
    this.length = entries.length;
  }

  key(i: number): Bytes {
    return this.#at(i).key;
  }

  value(i: number): Bytes {
    return this.#at(i).value;
  }

  span(i: number): ByteSpan {
    const bytes = this.value(i);
    return { bytes, start: 0, end: bytes.length };
  }

  #at(i: number): Entry {
    const entry = this.#entries[i];
    if (entry === undefined) throw new RangeError(`entry ${i} of a slice of ${this.length}`);
    return entry;
  }
}
