// Rows of a map query: ranges walked leaf by leaf, skip and offset found by rank (VIEWS §9–§11), row texts made from stored
// bytes without parsing them.

import {
  type Bytes,
  type KeyRange,
  type RangeWalk,
  type TreeReader,
  type VisitedSlice,
} from "../../btree/index.js";
import {
  decodeRowValue,
  ROW_DUPS,
  ROW_KEY_TEXT,
  rowCount,
  ByteCursor,
} from "../views/row-value.js";
import { type ReadyRows, type Row, type RowSource } from "./answer-types.js";
import { type Step, type ViewContext } from "./context.js";
import { DocumentLoader, type OpenRow } from "./documents.js";
import { isEmptyRange, joinBytes, scanRange } from "./ranges.js";
import { type ResolvedQuery } from "./resolve.js";
import { beginPage, endPage, writeRow } from "./row-writer.js";
import { jsonStringOf, textOf } from "./text.js";
import { VisitedKeys } from "./visited-keys.js";

/** Up to here rows are skipped by walking over them; from here on two ranks and a descent are cheaper. */
const SKIP_BY_RANK = 32;
/** Rows whose documents are asked for in one call. */
const DOCUMENT_BATCH = 100;
/** Keys of a list without rows after which the caller gets a turn. */
const KEYS_PER_STEP = 256;

const NOTHING = new Uint8Array(0);

/** The ranges of a list of keys in the order they are scanned. */
export function* rangesOf(
  query: ResolvedQuery,
  keys: readonly Bytes[],
  prefix: Bytes,
): Generator<KeyRange, void, undefined> {
  for (let i = 0; i < keys.length; i++) {
    const key = keys[query.descending ? keys.length - 1 - i : i];
    yield scanRange(query, key, key, prefix);
  }
}

/** Index where the JSON of an entry's only value begins. */
function valueAt({ valueBytes, valueStart }: VisitedSlice, flags: number): number {
  if ((flags & ROW_KEY_TEXT) === 0) return valueStart + 1;
  const cursor = new ByteCursor(valueBytes, valueStart + 1);
  const keyBytes = cursor.varint();
  return cursor.pos + keyBytes;
}

/** A value of a row; short numbers and null, which most are, without a call. */
function parsed(bytes: Bytes, start: number, end: number): unknown {
  if (end - start <= 9) {
    let number = 0;
    let i = start;
    for (; i < end; i++) {
      const digit = (bytes[i] as number) - 0x30;
      if (digit < 0 || digit > 9) break;
      number = 10 * number + digit;
    }
    if (i === end) return number;
    if (end - start === 4 && bytes[start] === 0x6e) return null;
  }
  return JSON.parse(textOf(bytes, start, end)) as unknown;
}

/** One run of a map query. Rows may be read once, in one of its ways. */
export class MapRows implements RowSource {
  readonly #query: ResolvedQuery;
  readonly #context: ViewContext;
  readonly #tree: TreeReader;
  readonly #prefix: Bytes;
  readonly #keys: VisitedKeys;
  /** The only range, begun: of most queries, which one descent answers then. */
  #walk: RangeWalk | undefined;
  #begun = false;
  #skip: number;
  #remaining: number;

  constructor(query: ResolvedQuery, context: ViewContext) {
    this.#query = query;
    this.#context = context;
    this.#tree = context.tree;
    this.#prefix = context.keyPrefix ?? NOTHING;
    this.#keys = new VisitedKeys(query.collation, query.collationVersion, this.#prefix.length);
    // CouchDB passes unordered rows on before anything is skipped: skip only moves the offset then (VIEWS §11).
    this.#skip = query.sorted ? query.skip : 0;
    this.#remaining = query.limit;
  }

  /** How many rows come before the first returned one in scan order (VIEWS §11). */
  offset(): number | Generator<undefined, number, undefined> {
    const { keys, skip } = this.#query;
    if (keys) return this.#offsetOfList(keys);
    const range = this.#range();
    const before =
      this.#skip > SKIP_BY_RANK || this.#begun || isEmptyRange(range)
        ? this.#before(range)
        : (this.#walk = this.#walkOf(range)).rowsBefore;
    return Math.min(this.#tree.count, before + skip);
  }

  /** A list may begin with many keys that have no rows: yields now and then while it looks for the first that has. */
  *#offsetOfList(keys: readonly Bytes[]): Generator<undefined, number, undefined> {
    const { skip } = this.#query;
    let before = 0;
    let barren = 0;
    for (const range of rangesOf(this.#query, keys, this.#prefix)) {
      before = this.#before(range);
      if (!isEmptyRange(range) && this.#rowsIn(range) > 0) break;
      if (++barren % KEYS_PER_STEP === 0) yield undefined;
    }
    return Math.min(this.#tree.count, before + skip);
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

  /** A range whose rows need no documents. */
  get ready(): ReadyRows | undefined {
    const { includeDocs, keys } = this.#query;
    return includeDocs || keys ? undefined : this;
  }

  text(): string | undefined {
    const slice = this.#nextSlice();
    if (!slice) return undefined;
    const keys = this.#keys;
    beginPage();
    for (let i = 0; i < slice.length && this.#remaining > 0; i++) {
      slice.visit(i);
      const idStart = keys.end(slice);
      const key = keys.text(slice);
      const { keyBytes, keyLength, valueBytes, valueStart, valueEnd } = slice;
      const flags = valueBytes[valueStart] as number;
      if ((flags & ROW_DUPS) !== 0) {
        for (const value of this.#several(slice))
          writeRow(keyBytes, idStart, keyLength, key, value, 0, value.length);
        continue;
      }
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      this.#remaining--;
      const start = valueAt(slice, flags);
      writeRow(keyBytes, idStart, keyLength, key, valueBytes, start, valueEnd);
    }
    return endPage();
  }

  objects(): Row[] | undefined {
    const slice = this.#nextSlice();
    if (!slice) return undefined;
    const keys = this.#keys;
    const rows: Row[] = [];
    for (let i = 0; i < slice.length && this.#remaining > 0; i++) {
      slice.visit(i);
      const idStart = keys.end(slice);
      const { valueBytes, valueStart, valueEnd } = slice;
      const flags = valueBytes[valueStart] as number;
      if ((flags & ROW_DUPS) !== 0) {
        const id = textOf(slice.keyBytes, idStart, slice.keyLength);
        for (const value of this.#several(slice))
          rows.push({ id, key: keys.value(slice), value: parsed(value, 0, value.length) });
        continue;
      }
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      this.#remaining--;
      rows.push({
        id: textOf(slice.keyBytes, idStart, slice.keyLength),
        key: keys.value(slice),
        value: parsed(valueBytes, valueAt(slice, flags), valueEnd),
      });
    }
    return rows;
  }

  /** Of the only range. */
  #nextSlice(): VisitedSlice | undefined {
    if (this.#remaining <= 0) return undefined;
    if (!this.#begun) {
      this.#begun = true;
      if (this.#walk === undefined || this.#skip > SKIP_BY_RANK) {
        const range = this.#skipInto(this.#range());
        this.#walk = range && this.#walkOf(range);
      }
    }
    return this.#walk?.next();
  }

  #walkOf(range: KeyRange): RangeWalk {
    return this.#tree.walk(range, this.#query.descending);
  }

  /** Yields the row texts of each leaf; when the rows are to get documents they go into `waiting` instead. */
  *#pages(waiting: OpenRow[] | undefined): Generator<readonly string[], void, undefined> {
    const { keys } = this.#query;
    let barren = 0;
    for (const whole of keys ? rangesOf(this.#query, keys, this.#prefix) : [this.#range()]) {
      if (this.#remaining <= 0) return;
      const range = this.#skipInto(whole);
      let found = false;
      if (range) {
        const walk = this.#walkOf(range);
        for (let slice = walk.next(); slice; slice = walk.next()) {
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

  #take(slice: VisitedSlice, texts: string[], waiting: OpenRow[] | undefined): void {
    const { length } = slice;
    const { stats } = this.#context;
    if (stats) stats.rowsScanned += length;
    const add = (open: string, json: string, idStart: number): void => {
      if (waiting)
        waiting.push({
          open,
          value: json,
          key: slice.keyBytes.slice(0, slice.keyLength),
          idStart,
        });
      else texts.push(`${open}${json}}`);
    };
    for (let i = 0; i < length && this.#remaining > 0; i++) {
      slice.visit(i);
      const idStart = this.#keys.end(slice);
      const { valueBytes, valueStart, valueEnd } = slice;
      const flags = valueBytes[valueStart] as number;
      if ((flags & ROW_DUPS) !== 0) {
        for (const value of this.#several(slice))
          add(this.#open(slice, idStart), textOf(value, 0, value.length), idStart);
        continue;
      }
      if (this.#skip > 0) {
        this.#skip--;
        continue;
      }
      this.#remaining--;
      const open = this.#open(slice, idStart);
      add(open, textOf(valueBytes, valueAt(slice, flags), valueEnd), idStart);
    }
  }

  /** A document emitted its key more than once: its values stand in order and keep it, also descending (VIEWS §5). Returns those to be shown. */
  #several({ valueBytes, valueStart, valueEnd }: VisitedSlice): readonly Bytes[] {
    const { values } = decodeRowValue(valueBytes.subarray(valueStart, valueEnd));
    const from = Math.min(this.#skip, values.length);
    const to = Math.min(values.length, from + this.#remaining);
    this.#skip -= from;
    this.#remaining -= to - from;
    return values.slice(from, to);
  }

  #open(slice: VisitedSlice, idStart: number): string {
    const id = jsonStringOf(slice.keyBytes, idStart, slice.keyLength);
    return `{"id":${id},"key":${this.#keys.text(slice)},"value":`;
  }

  #range(): KeyRange {
    const query = this.#query;
    return scanRange(query, query.startKey, query.endKey, this.#prefix);
  }

  /** Rows before the range in scan order. */
  #before({ gte, lt }: KeyRange): number {
    const { count } = this.#tree;
    return this.#query.descending ? count - this.#rankOf(lt, count) : this.#rankOf(gte, 0);
  }

  #rowsIn({ gte, lt }: KeyRange): number {
    return this.#rankOf(lt, this.#tree.count) - this.#rankOf(gte, 0);
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
