// Walks over the leaves of a range. One descent finds both ends in the nodes that they share, and how many rows come before.

import { sharedPrefix } from "./bytes.js";
import { childAt, type InnerNode } from "./inner-node.js";
import { NodeSlice } from "./leaf-slice.js";
import type { NodeSource } from "./node-source.js";
import type { Bytes, KeyRange, RangeWalk, Reducer, TreeRoot } from "./types.js";

/** An inner node on the way to the present leaf. */
interface Step {
  readonly node: InnerNode;
  /** The child that is being walked, and the last one that will be. */
  at: number;
  readonly end: number;
  /** Whether the end of the range lies in that last child. */
  readonly bounded: boolean;
}

export class LeafWalk implements RangeWalk {
  readonly rowsBefore: number;
  readonly #source: NodeSource;
  readonly #reverse: boolean;
  /** Where the walk ends: `lt`, or `gte` of a walk in reverse. */
  readonly #bound: Bytes | undefined;
  /** From the root down. */
  readonly #path: Step[] = [];
  #first: NodeSlice | undefined;

  constructor(
    source: NodeSource,
    root: TreeRoot | undefined,
    reducer: Reducer,
    range: KeyRange,
    reverse: boolean,
  ) {
    this.#source = source;
    this.#reverse = reverse;
    this.#bound = reverse ? range.gte : range.lt;
    this.rowsBefore = root === undefined ? 0 : this.#descend(root, reducer, range);
  }

  next(): NodeSlice | undefined {
    const first = this.#first;
    if (first !== undefined) {
      this.#first = undefined;
      return first;
    }
    const path = this.#path;
    for (;;) {
      const step = path.at(-1);
      if (step === undefined) return undefined;
      if (step.at === step.end) {
        path.pop();
        continue;
      }
      step.at += this.#reverse ? -1 : 1;
      const slice = this.#edge(step);
      if (slice !== undefined) return slice;
    }
  }

  /** To the leaf at which the walk begins. Returns the rows before it. */
  #descend(root: TreeRoot, reducer: Reducer, { gte, lt }: KeyRange): number {
    const source = this.#source;
    const reverse = this.#reverse;
    const common = gte === undefined || lt === undefined ? 0 : sharedPrefix(gte, lt);
    let { offset, size } = root;
    let rows = 0;
    // While both ends lie in the same child.
    let bounded = true;
    for (let height = root.height; height > 0; height--) {
      const node = source.inner(offset, size, height);
      const low = gte !== undefined && (bounded || !reverse) ? gte : undefined;
      const high = lt !== undefined && (bounded || reverse) ? lt : undefined;
      let first = 0;
      let last = node.count - 1;
      if (low !== undefined) {
        const found = node.keys.search(low);
        first = childAt(found);
        if (high !== undefined) last = childAt(node.keys.searchOn(high, found, common));
      } else if (high !== undefined) last = node.find(high);
      const at = reverse ? last : first;
      const end = reverse ? first : last;
      this.#path.push({ node, at, end, bounded });
      bounded &&= at === end;
      rows += node.rowsBefore(at);
      offset = node.offset(at);
      size = node.size(at);
    }
    const leaf = source.leaf(offset, size);
    const low = gte !== undefined && (bounded || !reverse) ? gte : undefined;
    const high = lt !== undefined && (bounded || reverse) ? lt : undefined;
    let from = 0;
    let to = leaf.count;
    if (low !== undefined) {
      const found = leaf.keys.search(low);
      from = found < 0 ? ~found : found;
      if (high !== undefined) {
        const end = leaf.keys.searchOn(high, found, common);
        to = end < 0 ? ~end : end;
      }
    } else if (high !== undefined) to = leaf.keys.lowerBound(high);
    if (from < to) this.#first = new NodeSlice(source, leaf, from, to, reverse);
    return reverse
      ? root.count - rows - leaf.rows(0, to, reducer)
      : rows + leaf.rows(0, from, reducer);
  }

  /** Down from a child that the walk comes to, along its near edge; undefined when the leaf there has nothing of the range. */
  #edge(from: Step): NodeSlice | undefined {
    const source = this.#source;
    const reverse = this.#reverse;
    const bound = this.#bound;
    let { node, at } = from;
    let bounded = from.bounded && at === from.end;
    for (let height = node.height - 1; height > 0; height--) {
      node = source.inner(node.offset(at), node.size(at), height);
      const far = bounded && bound !== undefined ? node.find(bound) : reverse ? 0 : node.count - 1;
      at = reverse ? node.count - 1 : 0;
      this.#path.push({ node, at, end: far, bounded });
      bounded &&= at === far;
    }
    const leaf = source.leaf(node.offset(at), node.size(at));
    const cut = bounded && bound !== undefined ? leaf.keys.lowerBound(bound) : undefined;
    const low = reverse ? (cut ?? 0) : 0;
    const high = reverse ? leaf.count : (cut ?? leaf.count);
    return low < high ? new NodeSlice(source, leaf, low, high, reverse) : undefined;
  }
}
