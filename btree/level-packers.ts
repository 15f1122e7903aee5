// Makes the new content of the nodes that a batch touches, level by level, and cuts it into nodes: leaves from entries and operations, inner
// nodes from children and what became of them. Content too small is first joined with a neighbour under the same parent.

import { equalBytes } from "./bytes.js";
import type { Edit, Family, Touched } from "./descent.js";
import type { ChildRef, InnerNode } from "./inner-node.js";
import type { LeafNode } from "./leaf-node.js";
import { type NodeSource, PASSING_KEYS_MIN } from "./node-source.js";
import { InnerPacker, LeafPacker, type PackerContext } from "./packer.js";
import type { Bytes, TreeOp } from "./types.js";

export type ApplyCounts = {
  -readonly [name in "inserted" | "replaced" | "removed" | "unchanged"]: number;
};

/** What the two kinds of nodes have in common when a level is rebuilt. */
export interface LevelPacker {
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

/** Rewrites the changed children of one parent and their too small neighbours. */
export function rebuildFamily(packer: LevelPacker, family: Family): Edit[] {
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

export class LeafLevel implements LevelPacker {
  readonly #source: NodeSource;
  readonly #packer: LeafPacker;
  readonly #passing: boolean;
  readonly #ops: readonly TreeOp[];
  readonly #shared: Uint32Array;
  readonly #counts: ApplyCounts;
  #appended = false;

  /** @param shared - of `sharedPrefixes(ops)`. */
  constructor(
    context: PackerContext,
    ops: readonly TreeOp[],
    shared: Uint32Array,
    counts: ApplyCounts,
  ) {
    this.#source = context.source;
    this.#packer = new LeafPacker(context);
    this.#passing = ops.length >= PASSING_KEYS_MIN;
    if (this.#passing) this.#source.expectPassing([]);
    this.#ops = ops;
    this.#shared = shared;
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
    const edited = this.#edited(child);
    if (edited !== undefined) return edited;
    const leaf = this.#leaf(child.offset, child.size);
    const packer = this.#packer;
    let done = 0;
    let changed = false;
    let found = 0;
    for (let k = child.from; k < child.to; k++) {
      const op = this.#ops[k] as TreeOp;
      found =
        k === child.from
          ? leaf.keys.search(op.key)
          : leaf.keys.searchOn(op.key, found, this.#shared[k] as number);
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

  /** The usual way: a leaf by itself, whose new content is made from its record. Undefined when it is not to be had so. */
  #edited({ offset, size, rows, from, to }: Touched): boolean | undefined {
    const packer = this.#packer;
    if (rows === undefined || packer.count > 0) return undefined;
    const record = this.#source.leafRecord(offset, size, this.#passing);
    const changed = packer.edit(record, rows, this.#ops, this.#shared, from, to);
    if (changed === undefined) return undefined;
    const { editor } = packer;
    this.#counts.inserted += editor.inserted;
    this.#counts.replaced += editor.replaced;
    this.#counts.removed += editor.removed;
    this.#counts.unchanged += editor.unchanged;
    if (!editor.appended) this.#appended = false;
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

export class InnerLevel implements LevelPacker {
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
