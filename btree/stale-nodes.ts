// Takes nodes out of the cache that another state of the tree has put others in the place of. Where a tree changes all the time they would
// fill the cache until they are the oldest in it.

import type { InnerNode } from "./inner-node.js";
import type { NodeSource } from "./node-source.js";
import type { TreeRoot } from "./types.js";

/**
 * Compares two states of a tree from their roots down, as far as they differ and the older one's nodes are in the cache. Reads the inner
 * nodes of the newer one that are not in the older.
 */
export function forgetStale(source: NodeSource, old: TreeRoot | undefined, now: TreeRoot): void {
  if (old === undefined || old.offset === now.offset || old.height !== now.height) return;
  try {
    compare(source, old, now);
  } catch {
    // A damaged node is the affair of whoever reads there.
  }
}

function compare(source: NodeSource, old: TreeRoot, now: TreeRoot): void {
  let stale = [source.cachedInner(old.offset)].filter((node) => node !== undefined);
  source.forget(old.offset);
  if (stale.length === 0 || now.height === 0) return;
  let fresh = [source.inner(now.offset, now.size, now.height)];
  for (let height = now.height; height > 0 && stale.length > 0; height--) {
    const before = offsetsOf(stale);
    const after = offsetsOf(fresh);
    const staleBelow: InnerNode[] = [];
    for (const offset of before.keys()) {
      if (after.has(offset)) continue;
      if (height > 1) {
        const node = source.cachedInner(offset);
        if (node !== undefined) staleBelow.push(node);
      }
      source.forget(offset);
    }
    if (height === 1 || staleBelow.length === 0) return;
    fresh = [...after]
      .filter(([offset]) => !before.has(offset))
      .map(([offset, size]) => source.inner(offset, size, height - 1));
    stale = staleBelow;
  }
}

/** Offset and size of all children. */
function offsetsOf(nodes: readonly InnerNode[]): Map<number, number> {
  const offsets = new Map<number, number>();
  for (const node of nodes)
    for (let i = 0; i < node.count; i++) offsets.set(node.offset(i), node.size(i));
  return offsets;
}
