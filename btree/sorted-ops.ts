// What keys of a sorted batch have in common, worked out once: most comparisons with keys of nodes are decided by it alone, without a look at
// the bytes of a key, which lie scattered in memory.

import { BtreeError } from "./errors.js";
import type { TreeOp } from "./types.js";

/**
 * How many bytes each operation's key shares with the one before; 0 for the first.
 *
 * @throws BtreeError BTREE_KEY_ORDER unless keys ascend.
 */
export function sharedPrefixes(ops: readonly TreeOp[]): Uint32Array {
  const shared = new Uint32Array(ops.length);
  for (let i = 1; i < ops.length; i++) {
    const before = (ops[i - 1] as TreeOp).key;
    const { key } = ops[i] as TreeOp;
    const limit = before.length < key.length ? before.length : key.length;
    let n = 0;
    while (n < limit && before[n] === key[n]) n++;
    if (n === key.length || (n < before.length && (key[n] as number) < (before[n] as number)))
      throw new BtreeError(
        "BTREE_KEY_ORDER",
        "the operations of a batch must have strictly ascending keys",
      );
    shared[i] = n;
  }
  return shared;
}

/** The first operation of ops(from, to) whose key is not below `bound`, as that of `from` is; `to` when there is none. */
export function firstNotBelow(
  ops: readonly TreeOp[],
  shared: Uint32Array,
  from: number,
  to: number,
  bound: Uint8Array,
): number {
  let matched = lengthShared((ops[from] as TreeOp).key, bound, 0);
  for (let i = from + 1; i < to; i++) {
    const common = shared[i] as number;
    // It differs from the key before, which is smaller, behind where that differs from the bound: so it is below the bound likewise.
    if (common > matched) continue;
    // Or before that: there the bound is still as the key before.
    if (common < matched) return i;
    const { key } = ops[i] as TreeOp;
    matched = lengthShared(key, bound, common);
    if (matched === bound.length) return i;
    if (matched < key.length && (key[matched] as number) > (bound[matched] as number)) return i;
  }
  return to;
}

function lengthShared(a: Uint8Array, b: Uint8Array, known: number): number {
  const limit = a.length < b.length ? a.length : b.length;
  let n = known;
  while (n < limit && a[n] === b[n]) n++;
  return n;
}
