// What changed between two states of a tree in one file. Nodes are never rewritten in place, so a subtree that both states refer to
// by the same offset is the same, and is not opened: the cost is that of the change, not of the tree.
//
// Both trees are walked at once. The head of each walk is an unopened node (known by its lower bound) or an entry:
//
// - the same node on both sides: both skip it;
// - an entry below the other side's head: it is on its side only;
// - a node that may hold keys at the other side's head: it is opened, the one with the lower bound first, of equal ones the higher;
// - two entries of one key: their values are compared.
//
// Where operations wait in either state, their keys are looked up in both: no nodes are made for them.

import { compareBytes, equalBytes, NO_BYTES } from "./bytes.js";
import type { InnerNode } from "./inner-node.js";
import type { LeafNode } from "./leaf-node.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, TreeOp, TreeReader, TreeRoot } from "./types.js";
import { keysWaiting, storedNodesOf } from "./waiting-reader.js";

/**
 * The operations, by ascending key, that turn the tree `before` into the tree `after`; both are readers of snapshots of one store.
 * Lazy, and reads only nodes that differ.
 *
 * @throws BtreeError BTREE_CORRUPT, BTREE_IO
 */
export function* treeChanges(before: TreeReader, after: TreeReader): IterableIterator<TreeOp> {
  const waiting = keysWaiting(before, after);
  const stored = storedChanges(before, after);
  if (waiting.length === 0) {
    yield* stored;
    return;
  }
  for (const key of keysInOrder(stored, waiting)) {
    const was = before.get(key);
    const value = after.get(key);
    const same = was && value ? equalBytes(was, value) : was === value;
    if (!same) yield { key, value };
  }
}

/** The keys of both, each once. */
function* keysInOrder(
  changes: IterableIterator<TreeOp>,
  waiting: readonly Bytes[],
): IterableIterator<Bytes> {
  let last: Bytes | undefined;
  let next = 0;
  for (let change = changes.next(); change.done !== true || next < waiting.length;) {
    const key = waiting[next];
    const order =
      change.done === true ? 1 : key === undefined ? -1 : compareBytes(change.value.key, key);
    const least = order < 0 && change.done !== true ? change.value.key : (key as Bytes);
    if (order <= 0) change = changes.next();
    if (order >= 0) next++;
    if (last === undefined || compareBytes(last, least) !== 0) yield least;
    last = least;
  }
}

/** What differs in the nodes of the file. */
function* storedChanges(before: TreeReader, after: TreeReader): IterableIterator<TreeOp> {
  const old = walkOf(before);
  const now = walkOf(after);
  while (!old.done || !now.done) {
    if (old.done || now.done) {
      const left = old.done ? now : old;
      if (left.isNode) left.open();
      else yield* leave(left, left === now);
    } else if (old.isNode && now.isNode) {
      if (old.offset === now.offset) {
        old.skip();
        now.skip();
      } else {
        opensFirst(old, now).open();
      }
    } else {
      yield* compareHeads(old, now);
    }
  }
}

/** At least one head is an entry. */
function* compareHeads(old: Walk, now: Walk): IterableIterator<TreeOp> {
  const order = compareBytes(old.key, now.key);
  if (old.isNode || now.isNode) {
    const node = old.isNode ? old : now;
    const entry = old.isNode ? now : old;
    const entryIsBelow = old.isNode ? order > 0 : order < 0;
    if (entryIsBelow) yield* leave(entry, entry === now);
    else node.open();
  } else if (order < 0) {
    yield* leave(old, false);
  } else if (order > 0) {
    yield* leave(now, true);
  } else {
    if (!now.holdsValueOf(old)) yield { key: now.key, value: now.value };
    old.skip();
    now.skip();
  }
}

/** An entry that only one side has: inserted if that is the later one, else removed. */
function* leave(side: Walk, inserted: boolean): IterableIterator<TreeOp> {
  yield { key: side.key, value: inserted ? side.value : undefined };
  side.skip();
}

function opensFirst(a: Walk, b: Walk): Walk {
  const order = compareBytes(a.key, b.key);
  if (order !== 0) return order < 0 ? a : b;
  return a.height >= b.height ? a : b;
}

function walkOf(reader: TreeReader): Walk {
  const nodes = storedNodesOf(reader);
  if (nodes === undefined)
    throw new TypeError("treeChanges compares readers of a store's snapshots");
  return new Walk(nodes.source, nodes.root);
}

/** A position in a tree, in key order, that opens nodes only when told to. */
class Walk {
  done = false;
  isNode = true;
  /** Of a node: its lower bound. Of an entry: its key. */
  key: Bytes = NO_BYTES;
  /** Of a node. */
  offset = 0;
  height = 0;
  readonly #source: NodeSource;
  #size = 0;
  /** Opened nodes above the head, and which child the walk is in. */
  readonly #above: { readonly node: InnerNode; readonly low: Bytes; child: number }[] = [];
  #leaf: LeafNode | undefined;
  #entry = 0;

  constructor(source: NodeSource, root: TreeRoot | undefined) {
    this.#source = source;
    if (root === undefined) {
      this.done = true;
    } else {
      this.offset = root.offset;
      this.#size = root.size;
      this.height = root.height;
    }
  }

  get value(): Bytes {
    return this.#source.valueOf(this.#leaf as LeafNode, this.#entry);
  }

  holdsValueOf(other: Walk): boolean {
    const mine = this.#leaf as LeafNode;
    const its = other.#leaf as LeafNode;
    if (mine.isPointer(this.#entry) && its.isPointer(other.#entry)) {
      // A value record that was not rewritten is the same value.
      if (mine.pointer(this.#entry).offset === its.pointer(other.#entry).offset) return true;
    }
    return equalBytes(this.value, other.value);
  }

  /** Puts the node's first child, or first entry, in its place. */
  open(): void {
    if (this.height === 0) {
      this.#leaf = this.#source.leaf(this.offset, this.#size);
      this.#entry = 0;
      this.isNode = false;
      this.key = this.#leaf.keys.key(0);
    } else {
      const node = this.#source.inner(this.offset, this.#size, this.height);
      this.#above.push({ node, low: this.key, child: 0 });
      this.#enter();
    }
  }

  /** Goes on behind the node or entry. */
  skip(): void {
    if (!this.isNode && this.#leaf !== undefined) {
      this.#entry++;
      if (this.#entry < this.#leaf.count) {
        this.key = this.#leaf.keys.keyAfter(this.#entry, this.key);
        return;
      }
      this.#leaf = undefined;
    }
    for (let top = this.#above.at(-1); top; top = this.#above.at(-1)) {
      if (++top.child < top.node.count) {
        this.#enter();
        return;
      }
      this.#above.pop();
    }
    this.done = true;
  }

  #enter(): void {
    const top = this.#above.at(-1);
    if (top === undefined) return;
    this.isNode = true;
    this.key = top.node.low(top.child, top.low);
    this.offset = top.node.offset(top.child);
    this.#size = top.node.size(top.child);
    this.height = top.node.height - 1;
  }
}
