// What a range of a tree is made of: reductions of the nodes that lie in it whole, slices of the leaves at its edges.

import type { NodeSource } from "./node-source.js";
import { NodeSlice } from "./leaf-slice.js";
import type { Bytes, KeyRange, LeafSlice, RangeParts, Reducer, TreeRoot } from "./types.js";

class PartsCollector implements RangeParts {
  count = 0;
  readonly slices: LeafSlice[] = [];
  readonly reductions: Bytes[] = [];
}

/** The range must not be empty by its bounds. Opens at most two nodes of each level. */
export function rangeParts(
  source: NodeSource,
  root: TreeRoot,
  reducer: Reducer,
  range: KeyRange,
): RangeParts {
  const parts = new PartsCollector();
  collect(
    source,
    reducer,
    parts,
    root.offset,
    root.size,
    root.height,
    root.count,
    root.reduction,
    range.gte,
    range.lt,
  );
  return parts;
}

function collect(
  source: NodeSource,
  reducer: Reducer,
  parts: PartsCollector,
  offset: number,
  size: number,
  height: number,
  rows: number,
  reduction: Bytes,
  gte: Bytes | undefined,
  lt: Bytes | undefined,
): void {
  const whole = gte === undefined && lt === undefined;
  if (whole) {
    parts.count += rows;
    parts.reductions.push(reduction);
    return;
  }
  if (height === 0) {
    const leaf = source.leaf(offset, size);
    const from = gte === undefined ? 0 : leaf.keys.lowerBound(gte);
    const to = lt === undefined ? leaf.count : leaf.keys.lowerBound(lt);
    if (from >= to) return;
    if (to - from === leaf.count) {
      parts.count += rows;
      parts.reductions.push(reduction);
    } else {
      parts.count += leaf.rows(from, to, reducer);
      parts.slices.push(new NodeSlice(source, leaf, from, to));
    }
    return;
  }
  const node = source.inner(offset, size, height);
  const first = gte === undefined ? 0 : node.find(gte);
  const last = lt === undefined ? node.count - 1 : node.find(lt);
  for (let i = first; i <= last; i++) {
    collect(
      source,
      reducer,
      parts,
      node.offset(i),
      node.size(i),
      height - 1,
      node.rows(i),
      node.reduction(i),
      i === first ? gte : undefined,
      i === last ? lt : undefined,
    );
  }
}
