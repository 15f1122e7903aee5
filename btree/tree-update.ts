// Applies a sorted batch to one tree, copy-on-write, each touched node read and written once:
//
// 1. Down, level by level: the operations of a node are dealt out to its children.
// 2. Leaves: operations that change nothing are dropped; leaves where none is left keep their node. The others get new content,
//    which is cut into nodes; content too small is first joined with a neighbour under the same parent.
// 3. Up, level by level, once the reductions below are known: nodes with changed children likewise.
// 4. The root: levels are added while there is more than one node on top, taken off while the root has one child.

import { compareBytes, equalBytes, NO_BYTES } from "./bytes.js";
import { growingRoot } from "./builder.js";
import { BtreeError, invariant } from "./errors.js";
import type { TreeFormat } from "./format.js";
import type { ChildRef, InnerNode } from "./inner-node.js";
import type { LeafNode } from "./leaf-node.js";
import { MEMORY_OFFSETS_START } from "./memory-nodes.js";
import { type NodeSource, PASSING_KEYS_MIN } from "./node-source.js";
import { InnerPacker, LeafPacker, type PackerContext } from "./packer.js";
import type { NodeSink } from "./record-log.js";
import { ReductionQueue } from "./reductions.js";
import type { Bytes, Reducer, TreeOp, TreeRoot } from "./types.js";

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

export type ApplyCounts = {
  -readonly [name in "inserted" | "replaced" | "removed" | "unchanged"]: number;
};

/** A node that operations lead to. */
interface Touched {
  /** Its place in the parent. */
  readonly index: number;
  readonly low: Bytes;
  readonly offset: number;
  readonly size: number;
  /** Its operations: ops[from, to). */
  readonly from: number;
  readonly to: number;
  /** Inner nodes only. */
  readonly node: InnerNode | undefined;
  edits: readonly Edit[];
}

/** Children [from, to) of a node are replaced by `refs`. */
interface Edit {
  readonly from: number;
  readonly to: number;
  readonly refs: readonly ChildRef[];
}

/** Touched nodes under one parent, in order. */
interface Family {
  readonly parent: Touched | undefined;
  readonly children: Touched[];
}

/** What the two kinds of nodes have in common when a level is rebuilt. */
interface LevelPacker {
  readonly underfull: boolean;
  /** Tells which nodes will be looked at. */
  expect(children: readonly Touched[]): void;
  begin(low: Bytes): void;
  /** Adds the new content of a touched node; false when nothing in it changes and nothing was added. */
  putChanged(child: Touched): boolean;
  /** Adds a node as it is. */
  putWhole(offset: number, size: number, low: Bytes): void;
  prepend(offset: number, size: number, low: Bytes): void;
  finish(): ChildRef[];
}

/**
 * @param ops - Sorted by strictly ascending key.
 * @returns The new root; the old one itself when nothing changed.
 */
export async function updateTree(
  ...input: Parameters<typeof updateSteps>
): Promise<TreeRoot | undefined> {
  const steps = updateSteps(...input);
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    await step.value;
  }
}

/**
 * The same at once, where the reducer answers at once.
 * @throws as updateTree
 */
export function updateTreeNow(...input: Parameters<typeof updateSteps>): TreeRoot | undefined {
  const step = updateSteps(...input).next();
  invariant(step.done === true, "a reducer that is called synchronous has answered later");
  return step.value;
}

/** Yields where it must wait for reductions. */
function* updateSteps(
  source: NodeSource,
  sink: NodeSink,
  format: TreeFormat,
  reducer: Reducer,
  root: TreeRoot | undefined,
  ops: readonly TreeOp[],
  counts: ApplyCounts,
): Generator<Promise<void>, TreeRoot | undefined> {
  if (ops.length === 0) return root;
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
  const levels = descend(source, root, ops);
  let edits: readonly Edit[] = [];
  for (let height = 0; height <= root.height; height++) {
    const packer =
      height === 0 ? new LeafLevel(context, ops, counts) : new InnerLevel(context, height);
    for (const family of levels[height] ?? []) {
      packer.expect(family.children);
      const changed = rebuildFamily(packer, family);
      if (family.parent === undefined) edits = changed;
      else family.parent.edits = changed;
      // What waits for its reduction is in memory: no more of it than the window allows.
      while (queue.windowFull) yield queue.drain();
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

/** The touched nodes of each level, leaves at 0, in families. */
function descend(source: NodeSource, root: TreeRoot, ops: readonly TreeOp[]): Family[][] {
  const { offset, size, height } = root;
  const top: Touched = {
    index: 0,
    low: NO_BYTES,
    offset,
    size,
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
      for (const parent of family.children)
        below.push({ parent, children: dealOut(source, parent, h - 1, ops) });
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
): Touched[] {
  const node = parent.node as InnerNode;
  const children: Touched[] = [];
  for (let from = parent.from; from < parent.to;) {
    const index = node.find((ops[from] as TreeOp).key);
    let to = from + 1;
    if (index + 1 === node.count) {
      to = parent.to;
    } else {
      const upper = node.keys.key(index + 1);
      while (to < parent.to && compareBytes((ops[to] as TreeOp).key, upper) < 0) to++;
    }
    const offset = node.offset(index);
    const size = node.size(index);
    children.push({
      index,
      low: node.low(index, parent.low),
      offset,
      size,
      from,
      to,
      node: height > 0 ? source.inner(offset, size, height) : undefined,
      edits: [],
    });
    from = to;
  }
  return children;
}

/** Rewrites the changed children of one parent and their too small neighbours. */
function rebuildFamily(packer: LevelPacker, family: Family): Edit[] {
  const parent = family.parent;
  const siblings = parent?.node;
  const edits: Edit[] = [];
  // Children [start, end) are gathered in the packer.
  let start = -1;
  let end = -1;
  const takeNext = (): void => {
    if (siblings === undefined || parent === undefined) return;
    packer.putWhole(siblings.offset(end), siblings.size(end), siblings.low(end, parent.low));
    end++;
  };
  const close = (): void => {
    if (start >= 0) edits.push({ from: start, to: end, refs: packer.finish() });
    start = -1;
  };
  for (const child of family.children) {
    while (start >= 0 && end < child.index && packer.underfull) takeNext();
    if (start >= 0 && end === child.index && packer.underfull) {
      if (!packer.putChanged(child)) packer.putWhole(child.offset, child.size, child.low);
    } else {
      close();
      packer.begin(child.low);
      if (!packer.putChanged(child)) continue;
      start = child.index;
    }
    end = child.index + 1;
  }
  if (start >= 0 && siblings !== undefined && parent !== undefined) {
    while (packer.underfull && end < siblings.count) takeNext();
    // Without a neighbour to the right, the one to the left, unless this batch has written it already.
    if (packer.underfull && start > 0 && (edits.at(-1)?.to ?? 0) < start) {
      start--;
      packer.prepend(siblings.offset(start), siblings.size(start), siblings.low(start, parent.low));
    }
  }
  close();
  return edits;
}

class LeafLevel implements LevelPacker {
  readonly #source: NodeSource;
  readonly #packer: LeafPacker;
  readonly #passing: boolean;
  readonly #ops: readonly TreeOp[];
  readonly #counts: ApplyCounts;
  #appended = false;

  constructor(context: PackerContext, ops: readonly TreeOp[], counts: ApplyCounts) {
    this.#source = context.source;
    this.#packer = new LeafPacker(context);
    this.#passing = ops.length >= PASSING_KEYS_MIN;
    if (this.#passing) this.#source.expectPassing([]);
    this.#ops = ops;
    this.#counts = counts;
  }

  get underfull(): boolean {
    return this.#packer.underfull;
  }

  expect(children: readonly Touched[]): void {
    if (this.#passing) this.#source.expectPassing(children);
  }

  begin(low: Bytes): void {
    this.#packer.begin(low);
    this.#appended = true;
  }

  putChanged(child: Touched): boolean {
    const leaf = this.#leaf(child.offset, child.size);
    const packer = this.#packer;
    let done = 0;
    let changed = false;
    for (let k = child.from; k < child.to; k++) {
      const op = this.#ops[k] as TreeOp;
      const found = leaf.keys.search(op.key);
      if (!this.#changes(leaf, found, op)) continue;
      changed = true;
      const at = found < 0 ? ~found : found;
      if (at < leaf.count) this.#appended = false;
      packer.putRange(leaf, done, at);
      if (op.value !== undefined) packer.put(op.key, op.value);
      done = found < 0 ? at : at + 1;
    }
    if (changed) packer.putRange(leaf, done, leaf.count);
    return changed;
  }

  putWhole(offset: number, size: number): void {
    const leaf = this.#leaf(offset, size);
    this.#packer.putRange(leaf, 0, leaf.count);
    this.#appended = false;
  }

  prepend(offset: number, size: number, low: Bytes): void {
    this.#packer.prepend(this.#leaf(offset, size), low);
    this.#appended = false;
  }

  /** What the packer needs of it, it copies. */
  #leaf(offset: number, size: number): LeafNode {
    return this.#passing ? this.#source.passingLeaf(offset, size) : this.#source.leaf(offset, size);
  }

  finish(): ChildRef[] {
    return this.#packer.finish(this.#appended);
  }

  #changes(leaf: LeafNode, found: number, op: TreeOp): boolean {
    const counts = this.#counts;
    if (found < 0) {
      if (op.value === undefined) counts.unchanged++;
      else counts.inserted++;
      return op.value !== undefined;
    }
    if (op.value === undefined) {
      counts.removed++;
      return true;
    }
    if (equalBytes(this.#source.valueOf(leaf, found), op.value)) {
      counts.unchanged++;
      return false;
    }
    counts.replaced++;
    return true;
  }
}

class InnerLevel implements LevelPacker {
  readonly #source: NodeSource;
  readonly #packer: InnerPacker;
  readonly #height: number;

  constructor(context: PackerContext, height: number) {
    this.#source = context.source;
    this.#packer = new InnerPacker(context, height);
    this.#height = height;
  }

  get underfull(): boolean {
    return this.#packer.underfull;
  }

  expect(): void {
    // Inner nodes were read on the way down.
  }

  begin(): void {
    this.#packer.begin();
  }

  putChanged(child: Touched): boolean {
    if (child.edits.length === 0) return false;
    const node = child.node as InnerNode;
    let done = 0;
    for (const edit of child.edits) {
      this.#packer.putRange(node, done, edit.from, child.low);
      for (const ref of edit.refs) this.#packer.put(ref);
      done = edit.to;
    }
    this.#packer.putRange(node, done, node.count, child.low);
    return true;
  }

  putWhole(offset: number, size: number, low: Bytes): void {
    const node = this.#source.inner(offset, size, this.#height);
    this.#packer.putRange(node, 0, node.count, low);
  }

  prepend(offset: number, size: number, low: Bytes): void {
    this.#packer.prepend(this.#source.inner(offset, size, this.#height), low);
  }

  finish(): ChildRef[] {
    return this.#packer.finish();
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

/** @throws BtreeError BTREE_KEY_ORDER */
export function assertSorted(ops: readonly TreeOp[]): void {
  for (let i = 1; i < ops.length; i++) {
    if (compareBytes((ops[i - 1] as TreeOp).key, (ops[i] as TreeOp).key) >= 0) {
      throw new BtreeError(
        "BTREE_KEY_ORDER",
        "the operations of a batch must have strictly ascending keys",
      );
    }
  }
}
