// Applies a sorted batch to one tree, copy-on-write, each touched node read and written once:
//
// 1. Down, level by level: the operations of a node are dealt out to its children (descent.ts).
// 2. Leaves: operations that change nothing are dropped; leaves where none is left keep their node. The others get new content
//    (level-packers.ts).
// 3. Up, level by level, once the reductions below are known: nodes with changed children likewise.
// 4. The root: levels are added while there is more than one node on top, taken off while the root has one child.

import { NO_BYTES } from "./bytes.js";
import { descend, type Edit, type Family, MAY_PAUSE } from "./descent.js";
import { invariant } from "./errors.js";
import type { TreeFormat } from "./format.js";
import { growingRoot } from "./level-builder.js";
import { type ApplyCounts, InnerLevel, LeafLevel, rebuildFamily } from "./level-packers.js";
import { MEMORY_OFFSETS_START } from "./memory-nodes.js";
import type { NodeSource } from "./node-source.js";
import { LeafPacker, type PackerContext } from "./packer.js";
import type { NodeSink } from "./record-log.js";
import { ReductionQueue } from "./reductions.js";
import { sharedPrefixes } from "./sorted-ops.js";
import { Turns } from "./turns.js";
import type { Reducer, TreeOp, TreeRoot } from "./types.js";

/** What a batch did. */
export interface ApplyStats {
  readonly inserted: number;
  readonly replaced: number;
  readonly removed: number;
  /** Operations that changed nothing: equal values, keys that were not there. */
  readonly unchanged: number;
  /** Operations that went to the log, where they wait: what they change is not known yet. */
  readonly logged: number;
  readonly bytesWritten: number;
  /** Records read from the file; nodes in the cache are not counted. */
  readonly recordsRead: number;
}

/**
 * Takes turns with the event loop: the tree is as it was for everybody until the promise resolves.
 *
 * @param stillWanted - called after each turn, and throws when the work is to end.
 * @param input - of `updateSteps`
 * @returns The new root; the old one itself when nothing changed.
 */
export async function updateTree(
  stillWanted: () => void,
  ...input: Parameters<typeof updateSteps>
): Promise<TreeRoot | undefined> {
  const turns = new Turns();
  const steps = updateSteps(...input);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    if (step.value === MAY_PAUSE && !turns.due()) continue;
    await (step.value ?? turns.take());
    stillWanted();
  }
}

/**
 * The same at once, where the reducer answers at once.
 * @throws as updateTree
 */
export function updateTreeNow(...input: Parameters<typeof updateSteps>): TreeRoot | undefined {
  const steps = updateSteps(...input);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    invariant(step.value === MAY_PAUSE, "a reducer that is called synchronous has answered later");
  }
}

/**
 * Yields what it must wait for, and where it might as well go on later.
 * @param ops - Sorted by strictly ascending key.
 */
function* updateSteps(
  source: NodeSource,
  sink: NodeSink,
  format: TreeFormat,
  reducer: Reducer,
  root: TreeRoot | undefined,
  ops: readonly TreeOp[],
  counts: ApplyCounts,
): Generator<Promise<void> | undefined, TreeRoot | undefined> {
  if (ops.length === 0) return root;
  const shared = sharedPrefixes(ops);
  const queue = new ReductionQueue(reducer);
  const context: PackerContext = { source, sink, format, reducer, queue };
  if (root === undefined) {
    const packer = new LeafPacker(context);
    packer.begin(NO_BYTES);
    for (const op of ops) {
      if (op.value === undefined) {
        counts.unchanged++;
      } else {
        packer.put(op.key, op.value);
        counts.inserted++;
      }
    }
    const leaves = packer.finish(true);
    yield* queue.settling();
    return yield* growingRoot(sink, format, queue, leaves, 0);
  }
  const levels = yield* descend(source, root, ops, shared);
  let edits: readonly Edit[] = [];
  for (let height = 0; height <= root.height; height++) {
    const packer =
      height === 0 ? new LeafLevel(context, ops, shared, counts) : new InnerLevel(context, height);
    for (const family of levels[height] ?? []) {
      packer.expect(family.children);
      const changed = rebuildFamily(packer, family);
      if (family.parent === undefined) edits = changed;
      else family.parent.edits = changed;
      // What waits for its reduction is in memory: no more of it than the window allows.
      while (queue.windowFull) yield queue.drain();
      yield MAY_PAUSE;
    }
    yield* queue.settling();
  }
  const edit = edits[0];
  if (edit === undefined) return root;
  // What is made in memory for readers replaces nothing.
  if (!edit.refs.some(({ offset }) => offset >= MEMORY_OFFSETS_START))
    forgetReplaced(source, root, levels);
  const grown = yield* growingRoot(sink, format, queue, edit.refs, root.height);
  return grown && dropSingleChildren(source, grown);
}

/** Where a tree changes all the time, replaced nodes would fill the cache until they are the oldest in it. */
function forgetReplaced(source: NodeSource, root: TreeRoot, levels: readonly Family[][]): void {
  source.forget(root.offset);
  for (const families of levels)
    for (const { parent } of families) {
      const node = parent?.node;
      if (parent === undefined || node === undefined) continue;
      for (const { from, to } of parent.edits)
        for (let i = from; i < to; i++) source.forget(node.offset(i));
    }
}

function dropSingleChildren(source: NodeSource, root: TreeRoot): TreeRoot {
  let top = root;
  while (top.height > 0) {
    const node = source.inner(top.offset, top.size, top.height);
    if (node.count > 1) break;
    const { offset, size, count, bytes, reduction } = node.child(0, NO_BYTES);
    top = { offset, size, height: top.height - 1, count, bytes, reduction: reduction ?? NO_BYTES };
  }
  return top;
}
