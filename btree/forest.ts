// Partitions of a tree that were built apart, each a forest of nodes of one height, and how they become one tree.

import { compareBytes, separator } from "./bytes.js";
import { BtreeError } from "./errors.js";
import type { TreeFormat } from "./format.js";
import type { ChildRef } from "./inner-node.js";
import { growingRoot, LevelBuilder } from "./level-builder.js";
import type { NodeSink } from "./record-log.js";
import { ReductionQueue } from "./reductions.js";
import type { Bytes, Reducer, TreeRoot } from "./types.js";

/** One partition of a tree under construction. Structured-clonable. */
export interface Forest {
  /** Height of the nodes in `children`: 0 leaves, 1 their parents. */
  readonly height: number;
  readonly children: readonly ChildRef[];
  readonly entries: number;
  readonly rows: number;
  readonly firstKey: Bytes;
  readonly lastKey: Bytes;
}

/**
 * Joins partitions, given in key order, into one tree. The sink is not flushed. Undefined when there are no entries.
 * @throws BtreeError BTREE_KEY_ORDER when the partitions overlap.
 */
export async function assembleForests(
  sink: NodeSink,
  format: TreeFormat,
  reducer: Reducer,
  forests: readonly Forest[],
): Promise<TreeRoot | undefined> {
  const filled = forests.filter((forest) => forest.children.length > 0);
  let lastKey: Bytes | undefined;
  for (const forest of filled) {
    if (lastKey !== undefined) {
      if (compareBytes(lastKey, forest.firstKey) >= 0) {
        throw new BtreeError(
          "BTREE_KEY_ORDER",
          "partitions of a bulk load overlap or are not in key order",
        );
      }
      (forest.children[0] as ChildRef).low = separator(lastKey, forest.firstKey);
    }
    lastKey = forest.lastKey;
  }
  const queue = new ReductionQueue(reducer);
  let height = 0;
  let refs: ChildRef[] = [];
  if (filled.every((forest) => forest.height === 0)) {
    refs = filled.flatMap((forest) => forest.children);
  } else {
    height = 1;
    refs = await raiseLeaves(sink, format, queue, filled);
  }
  const growing = growingRoot(sink, format, queue, refs, height);
  for (;;) {
    const step = growing.next();
    if (step.done === true) return step.value;
    await step.value;
  }
}

/** All at height 1: runs of bare leaves get parents. */
async function raiseLeaves(
  sink: NodeSink,
  format: TreeFormat,
  queue: ReductionQueue,
  forests: readonly Forest[],
): Promise<ChildRef[]> {
  const refs: ChildRef[] = [];
  let level: LevelBuilder | undefined;
  for (const forest of forests) {
    if (forest.height === 0) {
      level ??= new LevelBuilder(sink, format, queue, 1);
      for (const child of forest.children) level.add(child);
    } else {
      if (level) refs.push(...level.finish());
      level = undefined;
      for (const child of forest.children) refs.push(child);
    }
  }
  if (level) refs.push(...level.finish());
  await queue.settle();
  return refs;
}
