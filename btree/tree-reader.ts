// Reads one tree of one snapshot. Every walk goes down from the root: inner nodes know the rows, sizes and reductions of their
// children, so that counts, ranks and reductions over a range open the nodes at its two edges only.

import { compareBytes } from "./bytes.js";
import { walkGroups } from "./group-walk.js";
import type { LeafNode } from "./leaf-node.js";
import { LeafWalk } from "./leaf-walk.js";
import { type NodeSource, PASSING_KEYS_MIN, type PassingKeys } from "./node-source.js";
import { rangeParts } from "./range-parts.js";
import type {
  Bytes,
  GroupParts,
  KeyRange,
  LeafSlice,
  RangeParts,
  Reducer,
  TreeReader,
  TreeRoot,
} from "./types.js";

/** For no more keys of a leaf than these it is searched from its beginning each time, and no table made of it. */
const SINGLE_KEYS_MAX = 3;

export class NodeTreeReader implements TreeReader {
  readonly root: TreeRoot | undefined;
  readonly #source: NodeSource;
  readonly #reducer: Reducer;

  constructor(source: NodeSource, root: TreeRoot | undefined, reducer: Reducer) {
    this.#source = source;
    this.root = root;
    this.#reducer = reducer;
  }

  /**
   * Where the nodes come from.
   *
   * @internal
   */
  get source(): NodeSource {
    return this.#source;
  }

  /**
   * A reader of the same tree that leaves the cache alone.
   *
   * @internal
   */
  uncached(): NodeTreeReader {
    return new NodeTreeReader(this.#source.uncached(), this.root, this.#reducer);
  }

  get version(): string {
    return (this.root?.offset ?? 0).toString(36);
  }

  get count(): number {
    return this.root?.count ?? 0;
  }

  get(key: Bytes): Bytes | undefined {
    if (this.root === undefined) return undefined;
    const leaf = this.#leafFor(this.root, key);
    const i = leaf.keys.search(key);
    return i < 0 ? undefined : this.#source.valueOf(leaf, i);
  }

  getMany(sortedKeys: readonly Bytes[]): (Bytes | undefined)[] {
    const values = new Array<Bytes | undefined>(sortedKeys.length).fill(undefined);
    const root = this.root;
    if (root !== undefined && sortedKeys.length > 0) {
      if (sortedKeys.length >= PASSING_KEYS_MIN) this.#source.expectPassing([]);
      this.#many(root.offset, root.size, root.height, sortedKeys, 0, sortedKeys.length, values);
    }
    return values;
  }

  *slices(range: KeyRange, options?: { readonly reverse?: boolean }): IterableIterator<LeafSlice> {
    if (this.root === undefined || isEmptyRange(range)) return;
    const walk = this.walk(range, options?.reverse);
    for (let slice = walk.next(); slice !== undefined; slice = walk.next()) yield slice;
  }

  walk(range: KeyRange, reverse = false): LeafWalk {
    return new LeafWalk(this.#source, this.root, this.#reducer, range, reverse);
  }

  rank(key: Bytes): number {
    const root = this.root;
    if (root === undefined) return 0;
    let { offset, size } = root;
    let rows = 0;
    for (let height = root.height; height > 0; height--) {
      const node = this.#source.inner(offset, size, height);
      const i = node.find(key);
      rows += node.rowsBefore(i);
      offset = node.offset(i);
      size = node.size(i);
    }
    const leaf = this.#source.leaf(offset, size);
    return rows + leaf.rows(0, leaf.keys.lowerBound(key), this.#reducer);
  }

  entryAtRow(row: number): { readonly key: Bytes; readonly rowsBefore: number } | undefined {
    const root = this.root;
    if (root === undefined || !(row >= 0) || row >= root.count) return undefined;
    let { offset, size } = root;
    let rest = row;
    for (let height = root.height; height > 0; height--) {
      const node = this.#source.inner(offset, size, height);
      let low = 0;
      let high = node.count - 1;
      while (low < high) {
        const middle = (low + high + 1) >>> 1;
        if (node.rowsBefore(middle) <= rest) low = middle;
        else high = middle - 1;
      }
      rest -= node.rowsBefore(low);
      offset = node.offset(low);
      size = node.size(low);
    }
    const leaf = this.#source.leaf(offset, size);
    for (let i = 0; i < leaf.count; i++) {
      const rows = leaf.rows(i, i + 1, this.#reducer);
      if (rest < rows) return { key: leaf.keys.key(i), rowsBefore: rest };
      rest -= rows;
    }
    return undefined;
  }

  parts(range: KeyRange): RangeParts {
    if (this.root === undefined || isEmptyRange(range))
      return { count: 0, slices: [], reductions: [] };
    return rangeParts(this.#source, this.root, this.#reducer, range);
  }

  *groups(
    range: KeyRange,
    prefixLength: (key: Bytes) => number,
    options?: { readonly reverse?: boolean },
  ): IterableIterator<GroupParts> {
    if (this.root === undefined || isEmptyRange(range)) return;
    yield* walkGroups(
      this.#source,
      this.root,
      this.#reducer,
      range,
      prefixLength,
      options?.reverse ?? false,
    );
  }

  #leafFor(root: TreeRoot, key: Bytes): LeafNode {
    let { offset, size } = root;
    for (let height = root.height; height > 0; height--) {
      const node = this.#source.inner(offset, size, height);
      const i = node.find(key);
      offset = node.offset(i);
      size = node.size(i);
    }
    return this.#source.leaf(offset, size);
  }

  #many(
    offset: number,
    size: number,
    height: number,
    keys: readonly Bytes[],
    from: number,
    to: number,
    values: (Bytes | undefined)[],
  ): void {
    if (height === 0) {
      const passing = keys.length >= PASSING_KEYS_MIN;
      const source = this.#source;
      if (passing && to - from <= SINGLE_KEYS_MAX) {
        source.passingValues({ offset, size, from, to }, keys, values);
        return;
      }
      const leaf = passing ? source.passingLeaf(offset, size) : source.leaf(offset, size);
      for (let k = from; k < to; k++) {
        const i = leaf.keys.search(keys[k] as Bytes);
        if (i < 0) continue;
        const value = source.valueOf(leaf, i);
        values[k] = passing ? value.slice() : value;
      }
      return;
    }
    const node = this.#source.inner(offset, size, height);
    const children: PassingKeys[] = [];
    for (let k = from; k < to;) {
      const i = node.find(keys[k] as Bytes);
      let end = k + 1;
      if (i + 1 === node.count) {
        end = to;
      } else {
        const upper = node.keys.key(i + 1);
        while (end < to && compareBytes(keys[end] as Bytes, upper) < 0) end++;
      }
      children.push({ offset: node.offset(i), size: node.size(i), from: k, to: end });
      k = end;
    }
    if (height === 1 && keys.length >= PASSING_KEYS_MIN) this.#source.expectPassing(children);
    for (const child of children)
      this.#many(child.offset, child.size, height - 1, keys, child.from, child.to, values);
  }
}

export function isEmptyRange(range: KeyRange): boolean {
  return (
    range.gte !== undefined && range.lt !== undefined && compareBytes(range.gte, range.lt) >= 0
  );
}
