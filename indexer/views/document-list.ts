// The documents of the source in the order of their ids, which the id tree of a group knows: all but design documents, which most groups
// leave out.

import type { Bytes, TreeReader } from "../../btree/index.js";

/** A part of the list. Ids are compared by their bytes. */
export interface DocumentListQuery {
  /** First id in the direction of the list. Default: all from the beginning. */
  readonly start?: string | undefined;
  readonly end?: string | undefined;
  /** Default true. */
  readonly inclusiveEnd?: boolean;
  readonly descending?: boolean;
  readonly skip?: number;
  readonly limit: number;
}

export interface DocumentPage {
  /** Documents in the whole list. */
  readonly total: number;
  /** How many of them come before the first of the page. */
  readonly offset: number;
  readonly ids: readonly string[];
}

const DESIGN = Buffer.from("_design/");
/** Just behind all ids of design documents. */
const BEHIND_DESIGN = Buffer.from("_design0");

/**
 * @param tree - a group's id tree.
 * @param designs - ids of design documents; undefined when the tree has them.
 */
export function documentPage(
  tree: TreeReader,
  designs: readonly string[] | undefined,
  query: DocumentListQuery,
): DocumentPage {
  const { start, end, inclusiveEnd = true, descending = false, skip = 0, limit } = query;
  const [lowest, highest] = descending ? [end, start] : [start, end];
  const lowInclusive = descending ? inclusiveEnd : true;
  const highInclusive = descending ? true : inclusiveEnd;
  const low = lowest === undefined ? undefined : bound(lowest, !lowInclusive);
  const high = highest === undefined ? undefined : bound(highest, highInclusive);
  const list = new List(tree, designs);
  const from = low === undefined ? 0 : list.rank(low);
  const top = high === undefined ? list.count : list.rank(high);
  const to = Math.max(from, top);
  const count = Math.max(0, Math.min(limit, to - from - skip));
  const first = descending ? to - skip - count : from + skip;
  const ids = count === 0 ? [] : list.ids(first, count);
  if (descending) ids.reverse();
  return {
    total: list.count,
    offset: Math.min(list.count, (descending ? list.count - top : from) + skip),
    ids,
  };
}

/** The id itself, or what is just behind it. */
function bound(id: string, behind: boolean): Bytes {
  return Buffer.from(behind ? `${id}\0` : id);
}

/** The ids of the tree, with those of design documents among them. */
class List {
  readonly #tree: TreeReader;
  readonly #designs: readonly Buffer[];
  /** How many ids come before the design documents. */
  readonly #before: number;

  constructor(tree: TreeReader, designs: readonly string[] | undefined) {
    this.#tree = tree;
    this.#designs = (designs ?? []).map((id) => Buffer.from(id)).sort((a, b) => a.compare(b));
    this.#before = tree.rank(DESIGN);
  }

  get count(): number {
    return this.#tree.count + this.#designs.length;
  }

  rank(key: Bytes): number {
    const designs = this.#designs.filter((id) => id.compare(key) < 0).length;
    return this.#tree.rank(key) + designs;
  }

  ids(first: number, count: number): string[] {
    const ids: string[] = [];
    for (let at = first; at < first + count && at < this.count;) {
      const inDesigns = at - this.#before;
      if (this.#designs.length > 0 && inDesigns >= 0 && inDesigns < this.#designs.length) {
        ids.push((this.#designs[inDesigns] as Buffer).toString());
        at++;
        continue;
      }
      const behind = inDesigns >= this.#designs.length;
      const entry = this.#tree.entryAtRow(behind ? at - this.#designs.length : at);
      if (!entry) break;
      const lt = behind || this.#designs.length === 0 ? undefined : BEHIND_DESIGN;
      for (const slice of this.#tree.slices({ gte: entry.key, lt })) {
        for (let i = 0; i < slice.length && at < first + count; i++, at++)
          ids.push(Buffer.from(slice.key(i)).toString());
        if (at === first + count) break;
      }
    }
    return ids;
  }
}
