// Which nodes of a tree a sorted batch of operations leads to: down, level by level, the operations of a node are dealt out to its children.

import { NO_BYTES } from "./bytes.js";
import type { ChildRef, InnerNode } from "./inner-node.js";
import type { NodeSource } from "./node-source.js";
import { firstNotBelow } from "./sorted-ops.js";
import type { Bytes, TreeOp, TreeRoot } from "./types.js";

/** A node that operations lead to. */
export interface Touched {
  /** Its place in the parent. */
  readonly index: number;
  readonly low: Bytes;
  readonly offset: number;
  readonly size: number;
  /** Rows in it; undefined where they are not known, or values lie outside of it. */
  readonly rows: number | undefined;
  /** Its operations: ops[from, to). */
  readonly from: number;
  readonly to: number;
  /** Inner nodes only. */
  readonly node: InnerNode | undefined;
  edits: readonly Edit[];
}

/** Children [from, to) of a node are replaced by `refs`. */
export interface Edit {
  readonly from: number;
  readonly to: number;
  readonly refs: readonly ChildRef[];
}

/** Touched nodes under one parent, in order. */
export interface Family {
  readonly parent: Touched | undefined;
  readonly children: Touched[];
}

/** What long work yields where it might as well go on later. */
export const MAY_PAUSE = undefined;

/**
 * The touched nodes of each level, leaves at 0, in families. May pause between parents.
 *
 * @param shared - of `sharedPrefixes(ops)`.
 */
export function* descend(
  source: NodeSource,
  root: TreeRoot,
  ops: readonly TreeOp[],
  shared: Uint32Array,
): Generator<typeof MAY_PAUSE, Family[][]> {
  const { offset, size, height } = root;
  const top: Touched = {
    index: 0,
    low: NO_BYTES,
    offset,
    size,
    rows: undefined,
    from: 0,
    to: ops.length,
    node: height > 0 ? source.inner(offset, size, height) : undefined,
    edits: [],
  };
  const levels: Family[][] = [];
  levels[height] = [{ parent: undefined, children: [top] }];
  for (let h = height; h > 0; h--) {
    const below: Family[] = [];
    for (const family of levels[h] ?? []) {
      for (const parent of family.children) {
        below.push({ parent, children: dealOut(source, parent, h - 1, ops, shared) });
        yield MAY_PAUSE;
      }
    }
    levels[h - 1] = below;
  }
  return levels;
}

function dealOut(
  source: NodeSource,
  parent: Touched,
  height: number,
  ops: readonly TreeOp[],
  shared: Uint32Array,
): Touched[] {
  const node = parent.node as InnerNode;
  const children: Touched[] = [];
  for (let from = parent.from; from < parent.to;) {
    const index = node.find((ops[from] as TreeOp).key);
    const to =
      index + 1 === node.count
        ? parent.to
        : firstNotBelow(ops, shared, from, parent.to, node.keys.key(index + 1));
    const offset = node.offset(index);
    const size = node.size(index);
    children.push({
      index,
      low: node.low(index, parent.low),
      offset,
      size,
      rows: height === 0 && node.below(index) === 0 ? node.rows(index) : undefined,
      from,
      to,
      node: height > 0 ? source.inner(offset, size, height) : undefined,
      edits: [],
    });
    from = to;
  }
  return children;
}
