// Reads the batches that wait for a tree, from the newest back to the first, or to the newest that is known already.

import { type BatchHead, batchHead, type BatchPlace, type ChainRef } from "./batch-record.js";
import { type BtreeError, corrupt } from "./errors.js";
import { DATA_START, KIND_BATCH } from "./format.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, TreeRoot } from "./types.js";
import { WaitingTree, type TreeState } from "./waiting-tree.js";

/** What a roots record says of one tree. */
export interface StoredTree {
  readonly root: TreeRoot | undefined;
  readonly chain: ChainRef | undefined;
}

/** One record of a chain. */
export interface ChainedBatch extends BatchPlace {
  readonly record: Bytes;
  readonly head: BatchHead;
}

/**
 * The batches of a chain, the newest first.
 * @param until - offset of a batch that is not wanted, nor any before it.
 * @throws BtreeError BTREE_CORRUPT, BTREE_IO
 */
export function* chainedBatches(
  source: NodeSource,
  newest: BatchPlace,
  until?: number,
): IterableIterator<ChainedBatch> {
  let place: BatchPlace | undefined = newest;
  while (place !== undefined && place.offset !== until) {
    const { offset, size }: BatchPlace = place;
    const record = source.record(offset, size, KIND_BATCH);
    const head = batchHead(record);
    if (head === undefined) throw brokenBatch(source, offset);
    place = head.previous;
    // Offsets fall, so that no damage can lead round in a circle.
    if (place !== undefined && (place.offset < DATA_START || place.offset >= offset))
      throw corrupt(source.path, offset, "a batch whose predecessor does not come before it");
    yield { offset, size, record, head };
  }
}

export function brokenBatch(source: NodeSource, offset: number): BtreeError {
  return corrupt(source.path, offset, "a batch that breaks the format");
}

/**
 * @param known - An older state of the tree in this file: what it has of the chain is not read again.
 * @throws BtreeError BTREE_CORRUPT, BTREE_IO
 */
export function loadWaiting(
  source: NodeSource,
  { root, chain }: StoredTree,
  known?: TreeState,
): TreeState {
  if (chain === undefined) return { root, waiting: undefined };
  let before = known?.waiting;
  // Operations that belong to no state are left of an attempt that failed.
  if (before?.tree.base?.offset !== root?.offset || before?.tree.ops.length !== before?.length)
    before = undefined;
  let batches = [...chainedBatches(source, chain, before?.chain.offset)];
  if (before && operationsOf(batches) + before.length !== chain.operations) {
    before = undefined;
    batches = [...chainedBatches(source, chain)];
  }
  if (operationsOf(batches) + (before?.length ?? 0) !== chain.operations)
    throw corrupt(
      source.path,
      chain.offset,
      "a chain of batches that is not as long as it should be",
    );
  const tree = before?.tree ?? new WaitingTree(root);
  for (const { offset, record, head } of batches.reverse())
    if (!tree.ops.pushRecord(record, head)) throw brokenBatch(source, offset);
  return { root, waiting: { tree, length: chain.operations, chain } };
}

function operationsOf(batches: readonly ChainedBatch[]): number {
  return batches.reduce((sum, { head }) => sum + head.count, 0);
}
