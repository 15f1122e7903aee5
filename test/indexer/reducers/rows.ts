// Rows in memory for the tests of reduces: a view tree's entries as leaf slices, a tree folded in any shape, and a runner
// of custom reduces in this process.

import { runInThisContext } from "node:vm";

import fc from "fast-check";

import type { Bytes, LeafSlice, RangeParts, Reducer } from "../../../btree/types.js";
import { type CollationKind, decodeKey, encodeKeyText } from "../../../indexer/collation/index.js";
import type { JsReduceResult, JsReduceRunner } from "../../../indexer/reducers/index.js";
import { encodeRowValue, rowCount } from "../../../indexer/views/row-value.js";

/** One document's values for one key. Key and values are JSON texts. */
export interface Row {
  readonly key: string;
  readonly id: string;
  readonly values: readonly string[];
}

export interface TreeEntry {
  readonly key: Bytes;
  readonly value: Bytes;
}

/** Entries in tree order. */
export function entriesOf(rows: readonly Row[], kind: CollationKind = "root"): TreeEntry[] {
  return rows
    .map(({ key, id, values }) => {
      const place = encodeKeyText(kind, key);
      let exact = false;
      try {
        exact = decodeKey(kind, place) === key;
      } catch {
        // Keys that cannot be told from their bytes carry their text.
      }
      return {
        key: Buffer.concat([place, Buffer.from(id)]),
        value: encodeRowValue({
          keyText: exact ? undefined : Buffer.from(key),
          values: values.map((value) => Buffer.from(value)),
        }),
      };
    })
    .sort((a, b) => Buffer.compare(a.key, b.key));
}

/** Rows with ids `d0000…`, keyed by their number unless keys are given. */
export function valueRows(values: readonly unknown[], keys?: readonly unknown[]): Row[] {
  return values.map((value, i) => ({
    key: JSON.stringify(keys ? keys[i] : i),
    id: `d${String(i).padStart(4, "0")}`,
    values: [JSON.stringify(value)],
  }));
}

export function slice(entries: readonly TreeEntry[]): LeafSlice {
  const at = (i: number): TreeEntry => {
    const entry = entries[i];
    if (entry === undefined) throw new RangeError(`no entry ${i}`);
    return entry;
  };
  return {
    length: entries.length,
    key: (i) => Uint8Array.from(at(i).key),
    value: (i) => at(i).value,
    span: (i) => ({ bytes: at(i).value, start: 0, end: at(i).value.length }),
  };
}

function countOf(entries: readonly TreeEntry[]): number {
  return entries.reduce((sum, { value }) => sum + rowCount(value, 0, value.length), 0);
}

/** All entries as one partly covered leaf. */
export function rawParts(entries: readonly TreeEntry[]): RangeParts {
  return { count: countOf(entries), slices: [slice(entries)], reductions: [] };
}

/** What a range sees: each group of leaves below one node, rereduced `depth` times; `raw` leaves as slices. */
export interface Shape {
  /** Entries for each leaf, the last one taking the rest. */
  readonly leaves: readonly number[];
  /** Children for each inner node, on every level. */
  readonly fanOut: number;
  /** Levels above the leaves. */
  readonly height: number;
  /** Leaves at either end that are only partly covered. */
  readonly rawAtStart: number;
  readonly rawAtEnd: number;
}

/** The parts of a range that covers a whole tree of this shape. */
export async function shapedParts(
  reducer: Reducer,
  entries: readonly TreeEntry[],
  shape: Shape,
): Promise<RangeParts> {
  const leaves: TreeEntry[][] = [];
  let at = 0;
  for (const size of shape.leaves) {
    if (at >= entries.length) break;
    leaves.push(entries.slice(at, at + size));
    at += size;
  }
  if (at < entries.length) leaves.push(entries.slice(at));
  const end = Math.max(shape.rawAtStart, leaves.length - shape.rawAtEnd);
  const raw = [...leaves.slice(0, shape.rawAtStart), ...leaves.slice(end)];
  let level: Bytes[] = reducer.reduce
    ? await reducer.reduce(leaves.slice(shape.rawAtStart, end).map(slice))
    : [];
  for (let h = 0; h < shape.height && level.length > 1; h++) {
    const groups: Bytes[][] = [];
    for (let i = 0; i < level.length; i += shape.fanOut)
      groups.push(level.slice(i, i + shape.fanOut));
    level = reducer.rereduce ? await reducer.rereduce(groups) : [];
  }
  return { count: countOf(entries), slices: raw.map(slice), reductions: level };
}

export const shape: fc.Arbitrary<Shape> = fc.record({
  leaves: fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 12 }),
  fanOut: fc.integer({ min: 2, max: 4 }),
  height: fc.nat({ max: 3 }),
  rawAtStart: fc.nat({ max: 2 }),
  rawAtEnd: fc.nat({ max: 2 }),
});

/** Runs of a property; TEST_RUNS raises them. */
export const RUNS = { numRuns: Number(process.env["TEST_RUNS"] ?? 100) };

/** One call that a custom reduce received. */
export type Call =
  | { readonly rereduce: false; readonly rows: unknown }
  | { readonly rereduce: true; readonly values: unknown };

/** Runs sources in this process; failures are scripted by what a function throws: `{overflow}` or `{error, reason}`. */
export class LocalRunner implements JsReduceRunner {
  readonly calls: Call[] = [];

  reduce(sources: readonly string[], rows: string): JsReduceResult[] {
    const parsed = JSON.parse(rows) as [[unknown, string], unknown][];
    this.calls.push({ rereduce: false, rows: parsed });
    const keys = parsed.map(([key]) => key);
    const values = parsed.map(([, value]) => value);
    return sources.map((source) => run(source, keys, values, false));
  }

  rereduce(source: string, values: string): Promise<JsReduceResult> {
    const parsed = JSON.parse(values) as unknown[];
    this.calls.push({ rereduce: true, values: parsed });
    return Promise.resolve(run(source, null, parsed, true));
  }
}

type ReduceFunction = (keys: unknown, values: unknown[], rereduce: boolean) => unknown;

function run(source: string, keys: unknown, values: unknown[], rereduce: boolean): JsReduceResult {
  const compiled = runInThisContext(`(${source})`) as ReduceFunction;
  try {
    return JSON.stringify(compiled(keys, values, rereduce) ?? null);
  } catch (thrown) {
    if (
      typeof thrown === "object" &&
      thrown !== null &&
      ("overflow" in thrown || "error" in thrown)
    ) {
      return thrown as JsReduceResult;
    }
    return "null";
  }
}
