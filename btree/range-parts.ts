// What a range of a tree is made of: reductions of the nodes that lie in it whole, slices of the leaves at its edges.

import { sharedPrefix } from "./bytes.js";
import { childAt } from "./inner-node.js";
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
    range.gte === undefined || range.lt === undefined ? 0 : sharedPrefix(range.gte, range.lt),
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
  /** Bytes that both bounds begin with. */
  common: number,
): void {
  const whole = gte === undefined && lt === undefined;
  if (whole) {
    parts.count += rows;
    parts.reductions.push(reduction);
    return;
  }
  if (height === 0) {
    const leaf = source.leaf(offset, size);
    let from = 0;
    let to = leaf.count;
    if (gte !== undefined) {
      const found = leaf.keys.search(gte);
      from = found < 0 ? ~found : found;
      if (lt !== undefined) {
        const end = leaf.keys.searchOn(lt, found, common);
        to = end < 0 ? ~end : end;
      }
    } else if (lt !== undefined) to = leaf.keys.lowerBound(lt);
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
  let first = 0;
  let last = node.count - 1;
  if (gte !== undefined) {
    const found = node.keys.search(gte);
    first = childAt(found);
    if (lt !== undefined) last = childAt(node.keys.searchOn(lt, found, common));
  } else if (lt !== undefined) last = node.find(lt);
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
      common,
    );
  }
}
