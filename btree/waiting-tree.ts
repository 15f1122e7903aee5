// A tree with operations that wait: its nodes as they are in the file, the operations, and, once somebody asked for what only nodes can
// tell, the nodes there would be with them applied, in memory. A later state goes on from an earlier one's nodes.

import type { BatchPlace, ChainRef } from "./batch-record.js";
import type { TreeFormat } from "./format.js";
import { MemoryNodes, type MemoryOffsets } from "./memory-nodes.js";
import type { NodeSource } from "./node-source.js";
import { updateTreeNow } from "./tree-update.js";
import type { Reducer, TreeReader, TreeRoot } from "./types.js";
import { WaitingOps } from "./waiting-ops.js";

/** Nodes in memory are made anew, from those of the file, once so many more bytes of them were made as were needed at first. */
const MEMORY_GROWTH_MAX = 64 * 1024 * 1024;

/** Keys that are looked up at once to count. */
const COUNTED_AT_ONCE = 4096;

/** All states of a tree between two times that its operations are applied to the file. */
export class WaitingTree {
  readonly ops = new WaitingOps();
  #memory: MemoryNodes | undefined;
  #memoryMax = 0;
  #settled: { readonly length: number; readonly root: TreeRoot | undefined } | undefined;
  #counted: { readonly length: number; readonly rows: number } | undefined;

  constructor(readonly base: TreeRoot | undefined) {}

  /** Bytes of nodes in memory, also of those that no state needs any more. */
  get memoryBytes(): number {
    return this.#memory?.bytesWritten ?? 0;
  }

  /** The tree with the first `length` operations applied, and where its nodes come from. */
  settle(
    length: number,
    source: NodeSource,
    offsets: MemoryOffsets,
    format: TreeFormat,
    reducer: Reducer,
  ): { readonly root: TreeRoot | undefined; readonly source: NodeSource } {
    const update = (
      memory: MemoryNodes,
      over: NodeSource,
      from: { readonly length: number; readonly root: TreeRoot | undefined },
    ): TreeRoot | undefined => {
      const ops = this.ops.ops(this.ops.order(from.length, length));
      const counts = { inserted: 0, replaced: 0, removed: 0, unchanged: 0 };
      return updateTreeNow(over, memory, format, reducer, from.root, ops, counts);
    };
    const known = this.#settled;
    if (known && known.length > length) {
      // An earlier state is asked for again by few: its nodes go when its reader goes.
      const memory = new MemoryNodes(offsets);
      const over = source.with(memory);
      return { root: update(memory, over, { length: 0, root: this.base }), source: over };
    }
    let memory = this.#memory;
    if (memory && known) {
      const over = source.with(memory);
      if (known.length === length) return { root: known.root, source: over };
      if (memory.bytesWritten <= this.#memoryMax) {
        const root = update(memory, over, known);
        this.#settled = { length, root };
        return { root, source: over };
      }
    }
    memory = this.#memory = new MemoryNodes(offsets);
    const over = source.with(memory);
    const root = update(memory, over, { length: 0, root: this.base });
    this.#memoryMax = memory.bytesWritten + MEMORY_GROWTH_MAX;
    this.#settled = { length, root };
    return { root, source: over };
  }

  /** Rows of the tree with the first `length` operations applied: looks up what they replace, and makes no nodes. */
  rows(length: number, nodes: TreeReader, reducer: Reducer): number {
    const { ops } = this;
    if (this.#settled?.length === length) return this.#settled.root?.count ?? 0;
    const known =
      this.#counted && this.#counted.length <= length
        ? this.#counted
        : { length: 0, rows: this.base?.count ?? 0 };
    let { rows } = known;
    const order = ops.order(known.length, length);
    for (let from = 0; from < order.length; from += COUNTED_AT_ONCE) {
      const part = [...order.subarray(from, from + COUNTED_AT_ONCE)];
      const earlier = part.map((op) => ops.find(ops.key(op), known.length));
      const looked = part.filter((_op, i) => (earlier[i] as number) < 0);
      const stored = nodes.getMany(looked.map((op) => ops.key(op)));
      let next = 0;
      for (const [i, op] of part.entries()) {
        const was = earlier[i] as number;
        const before = was < 0 ? stored[next++] : ops.value(was);
        const after = ops.value(op);
        if (before) rows -= reducer.count(before, 0, before.length);
        if (after) rows += reducer.count(after, 0, after.length);
      }
    }
    if (this.#counted === undefined || this.#counted.length < length)
      this.#counted = { length, rows };
    return rows;
  }
}

/** One state of such a tree. */
export interface Waiting {
  readonly tree: WaitingTree;
  /** How many operations there were. */
  readonly length: number;
  /** Their records. */
  readonly chain: ChainRef;
}

/** A tree of a snapshot. */
export interface TreeState {
  /** Its nodes in the file; undefined when there are none. */
  readonly root: TreeRoot | undefined;
  /** What is to be applied to them. */
  readonly waiting: Waiting | undefined;
}

/** The chain with one more batch. */
export function longerChain(
  chain: ChainRef | undefined,
  place: BatchPlace,
  operations: number,
): ChainRef {
  return {
    ...place,
    operations: (chain?.operations ?? 0) + operations,
    bytes: (chain?.bytes ?? 0) + place.size,
  };
}
