// A tree with operations that wait: its nodes as they are in the file, the operations, and, once somebody asked for what only nodes can
// tell, the nodes there would be with them applied, in memory. A later state goes on from an earlier one's nodes.

import type { BatchPlace, ChainRef } from "./batch-record.js";
import type { TreeFormat } from "./format.js";
import { MemoryNodes, type MemoryOffsets } from "./memory-nodes.js";
import type { NodeSource } from "./node-source.js";
import { updateTreeNow } from "./tree-update.js";
import type { Reducer, TreeRoot } from "./types.js";
import { WaitingOps } from "./waiting-ops.js";

/** All states of a tree between two times that its operations are applied to the file. */
export class WaitingTree {
  readonly ops = new WaitingOps();
  #memory: MemoryNodes | undefined;
  #settled: { readonly length: number; readonly root: TreeRoot | undefined } | undefined;

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
    const memory = (this.#memory ??= new MemoryNodes(offsets));
    const over = source.with(memory);
    const known = this.#settled;
    if (known?.length === length) return { root: known.root, source: over };
    const from =
      known !== undefined && known.length < length ? known : { length: 0, root: this.base };
    const ops = this.ops.ops(this.ops.order(from.length, length));
    const counts = { inserted: 0, replaced: 0, removed: 0, unchanged: 0 };
    const root = updateTreeNow(over, memory, format, reducer, from.root, ops, counts);
    if (known === undefined || known.length < length) this.#settled = { length, root };
    return { root, source: over };
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
