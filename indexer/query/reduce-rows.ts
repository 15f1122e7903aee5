// Rows of a reduce query (VIEWS §14): one for the whole range, one for each group, or one for each key of a list. Groups are
// walked lazily; a page is evaluated at once, so that custom reduces of a page are under way together.

import {
  type Bytes,
  type GroupParts,
  type KeyRange,
  type RangeParts,
  type TreeReader,
} from "../../btree/index.js";
import { groupPrefix, keyEnd } from "../collation/index.js";
import {
  type EvaluateOptions,
  isBuiltIn,
  type ReduceOutcome,
  type ViewReducer,
} from "../reducers/index.js";
import { type ReadyRows, type Row, type RowSource } from "./answer-types.js";
import { type Step, type ViewContext } from "./context.js";
import { cutArray } from "./json-slices.js";
import { KeyTexts } from "./key-text.js";
import { compareBytes, isEmptyRange, joinBytes, scanRange } from "./ranges.js";
import { type ResolvedQuery } from "./resolve.js";

/** Rows of a page. */
const PAGE_ROWS = 256;
/** Groups skipped before the caller gets a turn. */
const SKIPPED_PER_STEP = 4096;

const NOTHING = new Uint8Array(0);
const ABOVE = new Uint8Array([0xff]);
const BACKWARD = { reverse: true } as const;

/** A group before its key's text is made; `firstKey` undefined for the group of everything. */
interface Group {
  readonly parts: RangeParts;
  readonly firstKey: Bytes | undefined;
  readonly firstValue: Bytes;
}

function rowText(key: string, outcome: ReduceOutcome): string {
  if ("value" in outcome) return `{"key":${key},"value":${outcome.value}}`;
  // The key of an error row is null, whatever its group (VIEWS §17).
  const { error, reason } = outcome;
  return `{"key":null,"error":${JSON.stringify(error)},"reason":${JSON.stringify(reason)}}`;
}

/** One run of a reduce query. Steps may be read once. */
export class ReduceRows implements RowSource {
  readonly #query: ResolvedQuery;
  readonly #context: ViewContext;
  readonly #tree: TreeReader;
  readonly #reducer: ViewReducer;
  readonly #index: number;
  readonly #options: EvaluateOptions;
  readonly #prefix: Bytes;
  readonly #keys: KeyTexts;
  #given = false;

  constructor(query: ResolvedQuery, context: ViewContext, reducer: ViewReducer, index: number) {
    this.#query = query;
    this.#context = context;
    this.#tree = context.tree;
    this.#reducer = reducer;
    this.#index = index;
    this.#options = { descending: query.descending, context: context.label ?? "" };
    this.#prefix = context.keyPrefix ?? NOTHING;
    this.#keys = new KeyTexts(query.collation, query.collationVersion, this.#prefix.length);
  }

  /** Reduced rows have no place among the rows of the view. */
  offset(): undefined {
    return undefined;
  }

  /** One row for everything, by a reduce of ours. */
  get ready(): ReadyRows | undefined {
    const { keys, grouping } = this.#query;
    const custom = !isBuiltIn(this.#reducer.specs[this.#index] ?? "");
    return keys || grouping !== "none" || custom ? undefined : this;
  }

  text(): string | undefined {
    const outcome = this.#outcome();
    return outcome && rowText("null", outcome);
  }

  objects(): Row[] | undefined {
    const outcome = this.#outcome();
    if (!outcome) return undefined;
    if (!("value" in outcome)) return [{ key: null, ...outcome }];
    return [{ key: null, value: JSON.parse(outcome.value) as unknown }];
  }

  /** Of everything; undefined when it has been given, or when there is nothing. */
  #outcome(): ReduceOutcome | undefined {
    const { skip, limit, startKey, endKey } = this.#query;
    if (this.#given || skip > 0 || limit <= 0) return undefined;
    this.#given = true;
    const range = scanRange(this.#query, startKey, endKey, this.#prefix);
    if (isEmptyRange(range)) return undefined;
    const parts = this.#tree.parts(range);
    if (parts.count === 0) return undefined;
    const outcome = this.#reducer.evaluate(this.#index, parts, this.#options);
    if ("then" in outcome) throw new Error("viewmill bug: a reduce of ours made somebody wait");
    return outcome;
  }

  *steps(): Generator<Step, void, undefined> {
    let { skip, limit } = this.#query;
    if (limit <= 0) return;
    let page: Group[] = [];
    for (const group of this.#groups()) {
      if (skip > 0) {
        // Skipping takes time too: an empty page lets others have a turn.
        if (--skip % SKIPPED_PER_STEP === 0) yield [];
        continue;
      }
      page.push(group);
      limit--;
      if (page.length < PAGE_ROWS && limit > 0) continue;
      yield this.#evaluate(page);
      if (limit <= 0) return;
      page = [];
    }
    if (page.length > 0) yield this.#evaluate(page);
  }

  *#groups(): Generator<Group, void, undefined> {
    const { keys, grouping, startKey, endKey } = this.#query;
    if (keys) {
      yield* this.#groupsOfKeys(keys);
      return;
    }
    const range = scanRange(this.#query, startKey, endKey, this.#prefix);
    if (isEmptyRange(range)) return;
    if (grouping !== "none") {
      yield* this.#groupsOfRange(range);
      return;
    }
    const parts = this.#tree.parts(range);
    if (parts.count > 0) yield { parts, firstKey: undefined, firstValue: NOTHING };
  }

  *#groupsOfRange(range: KeyRange): Generator<Group, void, undefined> {
    const { grouping, collation: kind, descending } = this.#query;
    const start = this.#prefix.length;
    const prefixLength =
      typeof grouping === "number"
        ? (key: Bytes) => groupPrefix(kind, key, start, grouping)
        : (key: Bytes) => keyEnd(kind, key, start);
    if (!descending) {
      for (const parts of this.#tree.groups(range, prefixLength)) {
        yield { parts, firstKey: parts.firstKey, firstValue: parts.firstValue };
      }
      return;
    }
    for (const parts of this.#tree.groups(range, prefixLength, BACKWARD)) {
      yield parts.count === 1
        ? { parts, firstKey: parts.firstKey, firstValue: parts.firstValue }
        : this.#lastFirst(parts, range);
    }
  }

  /** The scan comes from above, so the group shows its greatest key: the first met (VIEWS §14). */
  #lastFirst(parts: GroupParts, range: KeyRange): Group {
    const slice = parts.reductions.length === 0 ? parts.slices.at(-1) : undefined;
    if (slice && slice.length > 0) {
      const last = slice.length - 1;
      return { parts, firstKey: slice.key(last), firstValue: slice.value(last) };
    }
    const group = parts.firstKey.subarray(0, parts.prefixLength);
    const above = joinBytes(group, ABOVE);
    const lt = range.lt && compareBytes(range.lt, above) < 0 ? range.lt : above;
    return this.#first({ gte: parts.firstKey, lt }, parts);
  }

  /** One group for each key that has rows, in list order whatever the direction (VIEWS §14). */
  *#groupsOfKeys(keys: readonly Bytes[]): Generator<Group, void, undefined> {
    for (const key of keys) {
      const range = scanRange(this.#query, key, key, this.#prefix);
      if (isEmptyRange(range)) continue;
      const parts = this.#tree.parts(range);
      if (parts.count > 0) yield this.#first(range, parts);
    }
  }

  /** The group with the first entry of the range in scan order. */
  #first(range: KeyRange, parts: RangeParts): Group {
    const direction = this.#query.descending ? BACKWARD : undefined;
    for (const slice of this.#tree.slices(range, direction)) {
      if (slice.length > 0) return { parts, firstKey: slice.key(0), firstValue: slice.value(0) };
    }
    throw new Error("viewmill bug: a range that has rows has no first entry");
  }

  #keyText(group: Group): string {
    const { firstKey, firstValue } = group;
    if (firstKey === undefined) return "null";
    this.#keys.end(firstKey);
    const text = this.#keys.text(firstKey, firstValue);
    const { grouping } = this.#query;
    return typeof grouping === "number" ? cutArray(text, grouping) : text;
  }

  #evaluate(page: readonly Group[]): Step {
    const { stats } = this.#context;
    const before = stats?.enter("reduce");
    const groups = page.map(({ parts }) => parts);
    if (stats) stats.rowsScanned += rowsIn(groups);
    const outcomes = this.#reducer.evaluateAll(this.#index, groups, this.#options);
    if ("then" in outcomes) {
      return outcomes.then((done) => {
        stats?.enter(before);
        return this.#texts(page, done);
      });
    }
    stats?.enter(before);
    return this.#texts(page, outcomes);
  }

  #texts(page: readonly Group[], outcomes: readonly ReduceOutcome[]): readonly string[] {
    return page.map((group, i) => rowText(this.#keyText(group), outcomes[i] as ReduceOutcome));
  }
}

function rowsIn(groups: readonly RangeParts[]): number {
  let rows = 0;
  for (const { slices } of groups) for (const slice of slices) rows += slice.length;
  return rows;
}
