// Walks all nodes of a tree and checks what every operation must keep: keys within the bounds of all parents, counts, live
// bytes and reductions as computed from below, heights, and no hollow nodes.

import { expect } from "@jest/globals";
import type { Bytes, Reducer, Store, TreeRoot } from "../../btree/index.js";
import { compareBytes } from "../../btree/bytes.js";
import { saltSeed } from "../../btree/checksum.js";
import { NodeSlice } from "../../btree/leaf-slice.js";
import { NodeSource } from "../../btree/node-source.js";
import { hex } from "./tree-model.js";

interface Subtree {
  readonly rows: number;
  readonly bytes: number;
  readonly reduction: Bytes;
}

export function checkTree(store: Store, name: string, reducer: Reducer): void {
  const root = store.snapshot().tree(name).root;
  if (root === undefined) return;
  const source = new NodeSource(store.path, store.sink(), saltSeed(store.format.salt), undefined);
  const found = checkNode(source, reducer, root, undefined, undefined);
  expect(found).toEqual({ rows: root.count, bytes: root.bytes, reduction: root.reduction });
}

function checkNode(
  source: NodeSource,
  reducer: Reducer,
  ref: Pick<TreeRoot, "offset" | "size" | "height">,
  low: Bytes | undefined,
  high: Bytes | undefined,
): Subtree {
  if (ref.height === 0) {
    const leaf = source.leaf(ref.offset, ref.size);
    let last: Bytes | undefined;
    for (let i = 0; i < leaf.count; i++) {
      const key = leaf.keys.key(i);
      if (last !== undefined) expect(compareBytes(last, key)).toBeLessThan(0);
      if (low !== undefined) expect(compareBytes(low, key)).toBeLessThanOrEqual(0);
      if (high !== undefined) expect(compareBytes(key, high)).toBeLessThan(0);
      last = key;
    }
    const reduced = reducer.reduce?.([new NodeSlice(source, leaf, 0, leaf.count)]);
    return {
      rows: leaf.rows(0, leaf.count, reducer),
      bytes: ref.size + leaf.pointedBytes(0, leaf.count),
      reduction: Array.isArray(reduced) ? (reduced[0] as Bytes) : new Uint8Array(0),
    };
  }
  const node = source.inner(ref.offset, ref.size, ref.height);
  let rows = 0;
  let bytes = ref.size;
  for (let i = 0; i < node.count; i++) {
    const child = node.child(i, low ?? new Uint8Array(0));
    const below = checkNode(
      source,
      reducer,
      { offset: child.offset, size: child.size, height: ref.height - 1 },
      i === 0 ? low : child.low,
      i + 1 < node.count ? node.keys.key(i + 1) : high,
    );
    expect(below.rows).toBe(child.count);
    expect(below.bytes).toBe(child.bytes);
    if (Array.isArray(reducer.reduce?.([])))
      expect(hex(below.reduction)).toBe(hex(child.reduction ?? new Uint8Array(0)));
    rows += below.rows;
    bytes += below.bytes;
  }
  const reduced = reducer.rereduce?.([node.reductions()]);
  return {
    rows,
    bytes,
    reduction: Array.isArray(reduced) ? (reduced[0] as Bytes) : new Uint8Array(0),
  };
}
