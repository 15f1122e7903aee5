// Where a batch goes: a small one into the tree's log, where it waits and costs no look at the tree; a large one, or one too many, to
// the tree itself, together with everything that waits, each node read and written once.

import { batchBytesMax, encodeBatch } from "./batch-record.js";
import { compareBytes } from "./bytes.js";
import type { TreeFormat } from "./format.js";
import type { ApplyCounts } from "./level-packers.js";
import type { NodeSource } from "./node-source.js";
import type { RecordLog } from "./record-log.js";
import { sharedPrefixes } from "./sorted-ops.js";
import type { LogLimits } from "./store-options.js";
import { updateTree } from "./tree-update.js";
import type { Reducer, TreeOp } from "./types.js";
import { longerChain, type TreeState, type Waiting, WaitingTree } from "./waiting-tree.js";

/** Nodes in memory, made for readers, of which so many bytes are held: then the operations go to the file. */
const MEMORY_NODES_BYTES_MAX = 64 * 1024 * 1024;

export interface ApplyContext {
  readonly source: NodeSource;
  readonly log: RecordLog;
  readonly format: TreeFormat;
  readonly reducers: (tree: string) => Reducer;
  readonly limits: (tree: string) => LogLimits | undefined;
  /** Throws when the store was closed, or broke, while others had their turn. */
  readonly assertWritable: () => void;
}

type Trees = Map<string, TreeState>;

/** Counts of {@link applyBatch}; operations in the log are in `logged` only. */
export type BatchCounts = ApplyCounts & { logged: number };

/**
 * The trees after the batch. What is written is behind the end of all commits.
 * @throws BtreeError BTREE_KEY_ORDER and others of updateTree
 */
export async function applyBatch(
  context: ApplyContext,
  trees: ReadonlyMap<string, TreeState>,
  changes: ReadonlyMap<string, readonly TreeOp[]>,
  counts: BatchCounts,
): Promise<Trees> {
  const after: Trees = new Map(trees);
  const logged: [string, readonly TreeOp[]][] = [];
  for (const [name, ops] of changes) {
    if (ops.length === 0) continue;
    const state = after.get(name);
    if (mayWait(context, name, state?.waiting, ops)) {
      sharedPrefixes(ops);
      logged.push([name, ops]);
    } else put(after, name, await applied(context, name, state, ops, counts));
  }
  // Last, and at once: nothing can fail any more but a write, which ends the store.
  for (const [name, ops] of logged) {
    after.set(name, withBatch(context.log, after.get(name), ops));
    counts.logged += ops.length;
  }
  return after;
}

/** The trees with nothing waiting. */
export async function applyWaiting(
  context: ApplyContext,
  trees: ReadonlyMap<string, TreeState>,
): Promise<Trees> {
  const after: Trees = new Map(trees);
  const counts = { inserted: 0, replaced: 0, removed: 0, unchanged: 0 };
  for (const [name, state] of trees)
    if (state.waiting) put(after, name, await applied(context, name, state, [], counts));
  return after;
}

function mayWait(
  context: ApplyContext,
  name: string,
  waiting: Waiting | undefined,
  ops: readonly TreeOp[],
): boolean {
  const limits = context.limits(name);
  if (limits === undefined) return false;
  const reducer = context.reducers(name);
  if (reducer.reduce !== undefined && reducer.synchronous !== true) return false;
  if (waiting && waiting.tree.memoryBytes > MEMORY_NODES_BYTES_MAX) return false;
  return (
    (waiting?.length ?? 0) + ops.length <= limits.entriesMax &&
    (waiting?.chain.bytes ?? 0) + batchBytesMax(ops) <= limits.bytesMax
  );
}

function withBatch(
  log: RecordLog,
  state: TreeState | undefined,
  ops: readonly TreeOp[],
): TreeState {
  const before = state?.waiting;
  const record = encodeBatch(ops, before?.chain);
  const place = { offset: log.append(record), size: record.length };
  const tree = before?.tree ?? new WaitingTree(state?.root);
  tree.ops.push(ops);
  return {
    root: state?.root,
    waiting: {
      tree,
      length: tree.ops.length,
      chain: longerChain(before?.chain, place, ops.length),
    },
  };
}

async function applied(
  { source, log, format, reducers, assertWritable }: ApplyContext,
  name: string,
  state: TreeState | undefined,
  ops: readonly TreeOp[],
  counts: ApplyCounts,
): Promise<TreeState> {
  const all = state?.waiting ? mergeOps(waitingOps(state.waiting), ops) : ops;
  const root = await updateTree(
    assertWritable,
    source,
    log,
    format,
    reducers(name),
    state?.root,
    all,
    counts,
  );
  return { root, waiting: undefined };
}

function waitingOps({ tree, length }: Waiting): TreeOp[] {
  return tree.ops.ops(tree.ops.order(0, length));
}

/** Of equal keys the newer one stays. */
function mergeOps(older: readonly TreeOp[], newer: readonly TreeOp[]): TreeOp[] {
  const merged: TreeOp[] = [];
  let i = 0;
  for (const op of newer) {
    let order = -1;
    while (i < older.length && order < 0) {
      order = compareBytes((older[i] as TreeOp).key, op.key);
      if (order < 0) merged.push(older[i] as TreeOp);
      if (order <= 0) i++;
    }
    merged.push(op);
  }
  for (; i < older.length; i++) merged.push(older[i] as TreeOp);
  return merged;
}

function put(trees: Trees, name: string, state: TreeState): void {
  if (state.root === undefined) trees.delete(name);
  else trees.set(name, state);
}
