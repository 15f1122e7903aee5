// Rows of a map query: ranges walked leaf by leaf, skip and offset found by rank (VIEWS §9–§11), row texts made from stored
// bytes without parsing them.

import { type Bytes, type KeyRange, type LeafSlice, type TreeReader } from "../../btree/index.js";
import {
  decodeRowValue,
  ROW_DUPS,
  ROW_KEY_TEXT,
  rowCount,
  ByteCursor,
} from "../views/row-value.js";
import { type Step, type ViewContext } from "./context.js";
import { DocumentLoader, type OpenRow } from "./documents.js";
import { KeyTexts } from "./key-text.js";
import { isEmptyRange, joinBytes, scanRange } from "./ranges.js";
import { type ResolvedQuery } from "./resolve.js";
import { jsonStringOf, textOf } from "./text.js";

/** Up to here rows are skipped by walking over them; from here on two ranks and a descent are cheaper. */
const SKIP_BY_RANK = 32;
/** Rows whose documents are asked for in one call. */
const DOCUMENT_BATCH = 100;
/** Keys of a list without rows after which the caller gets a turn. */
const KEYS_PER_STEP = 256;

const NOTHING = new Uint8Array(0);
const BACKWARD = { reverse: true } as const;

/** The ranges of a query in the order they are scanned: one, or one for each key of its list. */
export function* rangesOf(
  query: ResolvedQuery,
  prefix: Bytes,
): Generator<KeyRange, void, undefined> {
  const { keys, descending } = query;
  if (!keys) {
    yield scanRange(query, query.startKey, query.endKey, prefix);
    return;
  }
  for (let i = 0; i < keys.length; i++) {
    const key = keys[descending ? keys.length - 1 - i : i];
    yield scanRange(query, key, key, prefix);
  }
}

/** One run of a map query. Steps may be read once. */
export class MapRows {
  readonly #query: ResolvedQuery;
  readonly #context: ViewContext;
  readonly #tree: TreeReader;
  readonly #prefix: Bytes;
  readonly #keys: KeyTexts;
  #skip: number;
  #remaining: number;

  constructor(query: ResolvedQuery, context: ViewContext) {
    this.#query = query;
    this.#context = context;
    this.#tree = context.tree;
    this.#prefix = context.keyPrefix ?? NOTHING;
    this.#keys = new KeyTexts(query.collation, this.#prefix.length);
    // CouchDB passes unordered rows on before anything is skipped: skip only moves the offset then (VIEWS §11).
    this.#skip = query.sorted ? query.skip : 0;
    this.#remaining = query.limit;
  }

  /**
   * Finds how many rows come before the first returned one in scan order (VIEWS §11). A list may begin with many keys that
   * have no rows: yields now and then while it looks for the first that has.
   */
  *offset(): Generator<undefined, number, undefined> {
    const query = this.#query;
    const tree = this.#tree;
    let before = 0;
    let barren = 0;
    for (const range of rangesOf(query, this.#prefix)) {
      const low = this.#rankOf(range.gte, 0);
      before = query.descending ? tree.count - this.#rankOf(range.lt, tree.count) : low;
      if (!query.keys) break;
      if (!isEmptyRange(range) && this.#rankOf(range.lt, tree.count) > low) break;
      if (++barren % KEYS_PER_STEP === 0) yield undefined;
    }
    return Math.min(tree.count, before + query.skip);
  }

  *steps(): Generator<Step, void, undefined> {
    const { documents, stats } = this.#context;
    if (!this.#query.includeDocs || !documents) {
      yield* this.#pages(undefined);
      return;
    }
    const loader = new DocumentLoader(this.#query, documents, stats);
    const waiting: OpenRow[] = [];
    for (const page of this.#pages(waiting)) {
      if (waiting.length >= DOCUMENT_BATCH) yield loader.load(waiting.splice(0));
      else yield page;
    }
    if (waiting.length > 0) yield loader.load(waiting);
  }

  /** Yields the row texts of each leaf; when the rows are to get documents they go into `waiting` instead. */
  *#pages(waiting: OpenRow[] | undefined): Generator<readonly string[], void, undefined> {
    const direction = this.#query.descending ? BACKWARD : undefined;
    let barren = 0;
    for (const whole of rangesOf(this.#query, this.#prefix)) {
      if (this.#remaining <= 0) return;
      const range = this.#skipInto(whole);
      let found = false;
      if (range) {
        for (const slice of this.#tree.slices(range, direction)) {
          found = true;
          const texts: string[] = [];
          this.#take(slice, texts, waiting);
          yield texts;
          if (this.#remaining <= 0) return;
        }
      }
      if (!found && ++barren % KEYS_PER_STEP === 0) yield [];
    }
  }

  #take(slice: LeafSlice, texts: string[], waiting: OpenRow[] | undefined): void {
    const { length } = slice;
    const { stats } = this.#context;
    if (stats) stats.rowsScanned += length;
    for (let i = 0; i < length && this.#remaining > 0; i++) {
      const value = slice.value(i);
      const flags = value[0] as number;
      if ((flags & ROW_DUPS) !== 0) {
        this.#takeSeveral(slice.key(i), value, texts, waiting);
        continue;
      }
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      this.#remaining--;
      const key = slice.key(i);
      const idStart = this.#keys.end(key);
      const open = this.#open(key, idStart, value);
      let start = 1;
      if ((flags & ROW_KEY_TEXT) !== 0) {
        const cursor = new ByteCursor(value, 1);
        const keyBytes = cursor.varint();
        start = cursor.pos + keyBytes;
      }
      const json = textOf(value, start, value.length);
      if (waiting) waiting.push({ open, value: json, key, idStart });
      else texts.push(`${open}${json}}`);
    }
  }

  /** A document emitted its key more than once: its values stand in order and keep it, also descending (VIEWS §5). */
  #takeSeveral(key: Bytes, entry: Bytes, texts: string[], waiting: OpenRow[] | undefined): void {
    const { values } = decodeRowValue(entry);
    const from = Math.min(this.#skip, values.length);
    const to = Math.min(values.length, from + this.#remaining);
    this.#skip -= from;
    this.#remaining -= to - from;
    if (from === to) return;
    const idStart = this.#keys.end(key);
    const open = this.#open(key, idStart, entry);
    for (const value of values.slice(from, to)) {
      const json = textOf(value, 0, value.length);
      if (waiting) waiting.push({ open, value: json, key, idStart });
      else texts.push(`${open}${json}}`);
    }
  }

  #open(key: Bytes, idStart: number, value: Bytes): string {
    const id = jsonStringOf(key, idStart, key.length);
    return `{"id":${id},"key":${this.#keys.text(key, value)},"value":`;
  }

  #rankOf(bound: Bytes | undefined, open: number): number {
    return bound === undefined ? open : this.#tree.rank(bound);
  }

  /** Leaves out as much of what is to be skipped as can be found by rank; undefined when no row of the range is left. */
  #skipInto(range: KeyRange): KeyRange | undefined {
    if (isEmptyRange(range)) return undefined;
    if (this.#skip <= SKIP_BY_RANK) return range;
    const tree = this.#tree;
    const low = this.#rankOf(range.gte, 0);
    const high = this.#rankOf(range.lt, tree.count);
    if (high - low <= this.#skip) {
      this.#skip -= high - low;
      return undefined;
    }
    const row = this.#query.descending ? high - 1 - this.#skip : low + this.#skip;
    const entry = tree.entryAtRow(row);
    if (!entry) return undefined;
    if (!this.#query.descending) {
      this.#skip = entry.rowsBefore;
      return { gte: entry.key, lt: range.lt };
    }
    const value = tree.get(entry.key);
    const rows = value ? rowCount(value, 0, value.length) : 1;
    // Rows above this entry are skipped as a whole; inside it values come in ascending order.
    this.#skip -= high - (row - entry.rowsBefore + rows);
    return { gte: range.gte, lt: joinBytes(entry.key, NOTHING, 0) };
  }
}
