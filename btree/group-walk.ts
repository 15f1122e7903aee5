// Groups of a range: runs of keys that share a prefix whose length the caller tells from any key of the run.
//
// 1. Within a leaf the stored shared-prefix lengths tell where a group goes on; no bytes are compared.
// 2. A group that reaches the end of its leaf is measured from the root: whole nodes of it give their reductions unopened,
//    and the walk goes on in the leaf where it ends.

import { compareBytes, prefixEnd } from "./bytes.js";
import { corrupt } from "./errors.js";
import { TABLE_STRIDE } from "./key-table.js";
import type { LeafNode } from "./leaf-node.js";
import { NodeSlice } from "./leaf-slice.js";
import type { NodeSource } from "./node-source.js";
import { rangeParts } from "./range-parts.js";
import type { Bytes, GroupParts, KeyRange, Reducer, TreeRoot } from "./types.js";

const NONE: readonly Bytes[] = [];

/** A leaf on the way, and the part of it that lies in the range. */
interface Position {
  readonly leaf: LeafNode;
  readonly from: number;
  readonly to: number;
  /** Keys of this leaf are >= low and < high; undefined at the ends of the tree. */
  readonly low: Bytes | undefined;
  readonly high: Bytes | undefined;
}

export function* walkGroups(
  source: NodeSource,
  root: TreeRoot,
  reducer: Reducer,
  range: KeyRange,
  prefixLength: (key: Bytes) => number,
  reverse: boolean,
): IterableIterator<GroupParts> {
  if (reverse) yield* walkDown(source, root, reducer, range, prefixLength);
  else yield* walkUp(source, root, reducer, range, prefixLength);
}

function* walkUp(
  source: NodeSource,
  root: TreeRoot,
  reducer: Reducer,
  range: KeyRange,
  prefixLength: (key: Bytes) => number,
): IterableIterator<GroupParts> {
  let gte = range.gte;
  for (;;) {
    const position = seekUp(source, root, gte, range.lt);
    if (position === undefined) return;
    const { leaf, to, high } = position;
    const table = leaf.keys.table;
    // Only in the last leaf of the range is a group that reaches `to` known to end there.
    const ends =
      to < leaf.count ||
      high === undefined ||
      (range.lt !== undefined && compareBytes(range.lt, high) <= 0);
    let start = position.from;
    let crossing: Bytes | undefined;
    while (start < to) {
      const firstKey = leaf.keys.key(start);
      const prefix = prefixLength(firstKey);
      let end = start + 1;
      for (
        let at = end * TABLE_STRIDE + 1;
        end < to && (table[at] as number) >= prefix;
        at += TABLE_STRIDE
      )
        end++;
      if (end === to && !ends) {
        const limit = prefixEnd(firstKey.subarray(0, prefix));
        // A prefix of the next leaf's bound that is beyond the group tells that the group ends here, without a look at that leaf.
        if (limit === undefined || compareBytes(high, limit) < 0) {
          const lt = lesser(limit, range.lt);
          const parts = rangeParts(source, root, reducer, { gte: firstKey, lt });
          yield {
            prefixLength: prefix,
            firstKey,
            firstValue: source.valueOf(leaf, start),
            count: parts.count,
            slices: parts.slices,
            reductions: parts.reductions,
          };
          if (limit === undefined) return;
          crossing = limit;
          break;
        }
      }
      yield leafGroup(source, leaf, reducer, start, end, prefix, firstKey);
      start = end;
    }
    if (crossing === undefined && ends) return;
    assertForward(source, root, gte, crossing ?? high);
    gte = crossing ?? high;
    if (gte === undefined || (range.lt !== undefined && compareBytes(gte, range.lt) >= 0)) return;
  }
}

function* walkDown(
  source: NodeSource,
  root: TreeRoot,
  reducer: Reducer,
  range: KeyRange,
  prefixLength: (key: Bytes) => number,
): IterableIterator<GroupParts> {
  let lt = range.lt;
  for (;;) {
    const position = seekDown(source, root, range.gte, lt);
    if (position === undefined) return;
    const { leaf, from, low } = position;
    const table = leaf.keys.table;
    const ends =
      from > 0 ||
      low === undefined ||
      (range.gte !== undefined && compareBytes(low, range.gte) <= 0);
    let end = position.to;
    let crossing: Bytes | undefined;
    while (end > from) {
      const lastKey = leaf.keys.key(end - 1);
      const prefix = prefixLength(lastKey);
      let start = end - 1;
      for (
        let at = start * TABLE_STRIDE + 1;
        start > from && (table[at] as number) >= prefix;
        at -= TABLE_STRIDE
      )
        start--;
      if (start === from && !ends) {
        const groupStart = lastKey.slice(0, prefix);
        // Everything before this leaf is below `low`: a group that begins at or above it begins in this leaf.
        if (compareBytes(groupStart, low) < 0) {
          const gte = greater(groupStart, range.gte);
          const groupEnd = end === position.to ? lt : leaf.keys.key(end);
          yield crossingGroup(source, root, reducer, { gte, lt: groupEnd }, prefix);
          crossing = gte;
          break;
        }
      }
      yield leafGroup(source, leaf, reducer, start, end, prefix, leaf.keys.key(start));
      end = start;
    }
    if (crossing === undefined && ends) return;
    assertForward(source, root, crossing ?? low, lt);
    lt = crossing ?? low;
    if (lt === undefined || (range.gte !== undefined && compareBytes(range.gte, lt) >= 0)) return;
  }
}

/** A group that is known to have an entry in the range and to reach over several leaves. */
function crossingGroup(
  source: NodeSource,
  root: TreeRoot,
  reducer: Reducer,
  range: KeyRange,
  prefix: number,
): GroupParts {
  const parts = rangeParts(source, root, reducer, range);
  const first = seekUp(source, root, range.gte, range.lt);
  if (first === undefined) throw new Error("viewmill bug: a group lost its first entry");
  return {
    prefixLength: prefix,
    firstKey: first.leaf.keys.key(first.from),
    firstValue: source.valueOf(first.leaf, first.from),
    count: parts.count,
    slices: parts.slices,
    reductions: parts.reductions,
  };
}

function leafGroup(
  source: NodeSource,
  leaf: LeafNode,
  reducer: Reducer,
  from: number,
  to: number,
  prefixLength: number,
  firstKey: Bytes,
): GroupParts {
  return {
    prefixLength,
    firstKey,
    firstValue: source.valueOf(leaf, from),
    count: leaf.rows(from, to, reducer),
    slices: [new NodeSlice(source, leaf, from, to)],
    reductions: NONE,
  };
}

/** Bounds rise from leaf to leaf; a file where they do not must not lead the walk in a circle. */
function assertForward(
  source: NodeSource,
  root: TreeRoot,
  from: Bytes | undefined,
  to: Bytes | undefined,
): void {
  if (from !== undefined && to !== undefined && compareBytes(from, to) >= 0) {
    throw corrupt(source.path, root.offset, "a tree whose keys are out of order");
  }
}

/** The leaf with the first key of the range; undefined when the range holds none. */
function seekUp(
  source: NodeSource,
  root: TreeRoot,
  gte: Bytes | undefined,
  lt: Bytes | undefined,
): Position | undefined {
  let bound = gte;
  for (;;) {
    const { leaf, low, high } = descend(source, root, bound, false);
    const from = gte === undefined ? 0 : leaf.keys.lowerBound(gte);
    const to = lt === undefined ? leaf.count : leaf.keys.lowerBound(lt);
    if (from < to) return { leaf, from, to, low, high };
    // The bound may lie above all keys of the leaf it leads to; the next leaf then holds the first key.
    if (from < leaf.count || high === undefined) return undefined;
    assertForward(source, root, bound, high);
    bound = high;
  }
}

/** The leaf with the last key of the range; undefined when the range holds none. */
function seekDown(
  source: NodeSource,
  root: TreeRoot,
  gte: Bytes | undefined,
  lt: Bytes | undefined,
): Position | undefined {
  let bound = lt;
  for (;;) {
    const { leaf, low, high } = descend(source, root, bound, true);
    const from = gte === undefined ? 0 : leaf.keys.lowerBound(gte);
    const to = lt === undefined ? leaf.count : leaf.keys.lowerBound(lt);
    if (from < to) return { leaf, from, to, low, high };
    if (to > 0 || low === undefined) return undefined;
    assertForward(source, root, low, bound);
    bound = low;
  }
}

/** Down to the leaf for `bound`: the one whose keys may equal it, or, `before` it, the one whose keys may come just below it. */
function descend(
  source: NodeSource,
  root: TreeRoot,
  bound: Bytes | undefined,
  before: boolean,
): { leaf: LeafNode; low: Bytes | undefined; high: Bytes | undefined } {
  let { offset, size } = root;
  let low: Bytes | undefined;
  let high: Bytes | undefined;
  for (let height = root.height; height > 0; height--) {
    const node = source.inner(offset, size, height);
    let i: number;
    if (bound === undefined) i = before ? node.count - 1 : 0;
    else if (before) i = Math.max(0, node.keys.lowerBound(bound) - 1);
    else i = node.find(bound);
    if (i > 0) low = node.keys.key(i);
    if (i + 1 < node.count) high = node.keys.key(i + 1);
    offset = node.offset(i);
    size = node.size(i);
  }
  return { leaf: source.leaf(offset, size), low, high };
}

function lesser(a: Bytes | undefined, b: Bytes | undefined): Bytes | undefined {
  if (a === undefined) return b;
  return b === undefined || compareBytes(a, b) < 0 ? a : b;
}

function greater(a: Bytes, b: Bytes | undefined): Bytes {
  return b === undefined || compareBytes(a, b) > 0 ? a : b;
}
