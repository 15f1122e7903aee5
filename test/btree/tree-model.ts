// What the tree tests share: a sorted map to compare with, reducers whose results are easy to fold, and a check that a reader
// answers every question as the map does.

import { expect } from "@jest/globals";
import type {
  Bytes,
  KeyRange,
  LeafSlice,
  RangeParts,
  Reducer,
  TreeOp,
  TreeReader,
} from "../../btree/index.js";
import { compareBytes } from "../../btree/bytes.js";

export function bytesOf(text: string): Bytes {
  return new TextEncoder().encode(text);
}

export function textOf(bytes: Bytes | undefined): string | undefined {
  return bytes === undefined ? undefined : Buffer.from(bytes).toString("latin1");
}

export function hex(bytes: Bytes): string {
  return Buffer.from(bytes).toString("hex");
}

/** What the call threw; undefined when it returned. */
export function caught(call: () => unknown): unknown {
  try {
    call();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Rows an entry counts for: 1 to 3, by its first byte. */
export function rowsOf(bytes: Bytes, start: number, end: number): number {
  return start === end ? 1 : ((bytes[start] as number) % 3) + 1;
}

export const countingReducer: Reducer = { count: rowsOf };

function sumOfSlice(slice: LeafSlice): number {
  let sum = 0;
  for (let i = 0; i < slice.length; i++) sum += weigh(slice.key(i), slice.value(i));
  return sum;
}

/** Depends on every byte of key and value. */
export function weigh(key: Bytes, value: Bytes): number {
  let sum = 1;
  for (const byte of key) sum = (sum * 31 + byte) % 65_521;
  for (const byte of value) sum = (sum * 17 + byte) % 65_521;
  return sum;
}

function encodeSum(sum: number): Bytes {
  return bytesOf(String(sum));
}

function decodeSum(bytes: Bytes): number {
  return Number(textOf(bytes));
}

/** Sums the weights of entries, in text of varying length. */
export const summingReducer: Reducer = {
  count: rowsOf,
  synchronous: true,
  reduce: (leaves) => leaves.map((leaf) => encodeSum(sumOfSlice(leaf))),
  rereduce: (groups) =>
    groups.map((group) => encodeSum(group.reduce((sum, part) => sum + decodeSum(part), 0))),
};

/** The same, answering later. */
export const lateSummingReducer: Reducer = {
  count: rowsOf,
  reduce: async (leaves) => {
    await new Promise((resolve) => setImmediate(resolve));
    return leaves.map((leaf) => encodeSum(sumOfSlice(leaf)));
  },
  rereduce: async (groups) => {
    await Promise.resolve();
    return groups.map((group) => encodeSum(group.reduce((sum, part) => sum + decodeSum(part), 0)));
  },
};

export function sumOfParts(parts: RangeParts): number {
  let sum = 0;
  for (const slice of parts.slices) sum += sumOfSlice(slice);
  for (const reduction of parts.reductions) sum += decodeSum(reduction);
  return sum;
}

interface ModelEntry {
  readonly key: Bytes;
  readonly value: Bytes;
}

/** A sorted map of bytes to bytes. */
export class TreeModel {
  readonly #entries: Map<string, ModelEntry>;

  constructor(entries?: ReadonlyMap<string, ModelEntry>) {
    this.#entries = new Map(entries);
  }

  copy(): TreeModel {
    return new TreeModel(this.#entries);
  }

  apply(ops: readonly TreeOp[]): void {
    for (const { key, value } of ops) {
      if (value === undefined) this.#entries.delete(hex(key));
      else this.#entries.set(hex(key), { key, value });
    }
  }

  entries(range: KeyRange = {}): ModelEntry[] {
    return [...this.#entries.values()]
      .filter(
        ({ key }) =>
          (range.gte === undefined || compareBytes(key, range.gte) >= 0) &&
          (range.lt === undefined || compareBytes(key, range.lt) < 0),
      )
      .sort((a, b) => compareBytes(a.key, b.key));
  }

  get(key: Bytes): Bytes | undefined {
    return this.#entries.get(hex(key))?.value;
  }
}

export function rowsIn(entries: readonly ModelEntry[]): number {
  return entries.reduce((rows, { value }) => rows + rowsOf(value, 0, value.length), 0);
}

export function sumIn(entries: readonly ModelEntry[]): number {
  return entries.reduce((sum, { key, value }) => sum + weigh(key, value), 0);
}

function shown(entries: readonly ModelEntry[]): string[] {
  return entries.map(({ key, value }) => `${hex(key)}=${hex(value)}`);
}

export function entriesRead(
  reader: TreeReader,
  range: KeyRange = {},
  reverse = false,
): ModelEntry[] {
  const entries: ModelEntry[] = [];
  for (const slice of reader.slices(range, { reverse })) {
    for (let i = 0; i < slice.length; i++)
      entries.push({ key: slice.key(i), value: slice.value(i) });
  }
  return entries;
}

/** Keys of the model tests are a group name, a zero byte and a rest: the group is what comes before and with the zero. */
export function groupLength(key: Bytes): number {
  return key.indexOf(0) + 1;
}

interface NaiveGroup {
  readonly first: string;
  readonly count: number;
  readonly sum: number;
}

function naiveGroups(entries: readonly ModelEntry[]): NaiveGroup[] {
  const groups = new Map<string, ModelEntry[]>();
  for (const entry of entries) {
    const name = hex(entry.key.subarray(0, groupLength(entry.key)));
    const group = groups.get(name);
    if (group) group.push(entry);
    else groups.set(name, [entry]);
  }
  return [...groups.values()].map((group) => ({
    first: shown(group.slice(0, 1)).join(),
    count: rowsIn(group),
    sum: sumIn(group),
  }));
}

/** Everything in the tree, both ways, and its rows and reduction. */
export function expectSame(reader: TreeReader, model: TreeModel, reduces: boolean): void {
  const entries = model.entries();
  expect(shown(entriesRead(reader))).toEqual(shown(entries));
  expect(shown(entriesRead(reader, {}, true))).toEqual(shown(entries).reverse());
  expect(reader.count).toBe(rowsIn(entries));
  const all = reader.parts({});
  expect(all.count).toBe(rowsIn(entries));
  if (reduces) expect(sumOfParts(all)).toBe(sumIn(entries));
}

/** A walk that visits every other entry of a leaf, or each: keys, values, what keys share, and the rows before it. */
function expectSameWalk(
  reader: TreeReader,
  model: TreeModel,
  range: KeyRange,
  reverse: boolean,
): void {
  const { gte, lt } = range;
  if (gte !== undefined && lt !== undefined && compareBytes(gte, lt) >= 0) return;
  const entries = model.entries(range);
  const rest = reverse
    ? lt === undefined
      ? []
      : model.entries({ gte: lt })
    : gte === undefined
      ? []
      : model.entries({ lt: gte });
  for (const stride of [1, 2]) {
    const walk = reader.walk(range, reverse);
    expect(walk.rowsBefore).toBe(rowsIn(rest));
    const visited: ModelEntry[] = [];
    const wanted: ModelEntry[] = [];
    let from = 0;
    const ordered = reverse ? [...entries].reverse() : entries;
    for (let slice = walk.next(); slice; slice = walk.next()) {
      let last: Bytes | undefined;
      for (let i = 0; i < slice.length; i += stride) {
        slice.visit(i);
        const key = slice.keyBytes.slice(0, slice.keyLength);
        expect(slice.keyShared === 0 || last !== undefined).toBe(true);
        if (last)
          expect(hex(key.subarray(0, slice.keyShared))).toBe(
            hex(last.subarray(0, slice.keyShared)),
          );
        last = key;
        visited.push({ key, value: slice.valueBytes.slice(slice.valueStart, slice.valueEnd) });
        wanted.push(ordered[from + i] as ModelEntry);
      }
      from += slice.length;
    }
    expect(from).toBe(entries.length);
    expect(shown(visited)).toEqual(shown(wanted));
  }
}

/** A part of the tree: entries, rank, rows, reductions, groups. */
export function expectSameRange(
  reader: TreeReader,
  model: TreeModel,
  range: KeyRange,
  reduces: boolean,
): void {
  const entries = model.entries(range);
  expect(shown(entriesRead(reader, range))).toEqual(shown(entries));
  expect(shown(entriesRead(reader, range, true))).toEqual(shown(entries).reverse());
  for (const reverse of [false, true]) expectSameWalk(reader, model, range, reverse);
  const parts = reader.parts(range);
  expect(parts.count).toBe(rowsIn(entries));
  if (reduces) expect(sumOfParts(parts)).toBe(sumIn(entries));
  for (const reverse of [false, true]) {
    const groups = [...reader.groups(range, groupLength, { reverse })].map((group) => {
      expect(group.prefixLength).toBe(groupLength(group.firstKey));
      return {
        first: `${hex(group.firstKey)}=${hex(group.firstValue)}`,
        count: group.count,
        sum: reduces ? sumOfParts(group) : undefined,
      };
    });
    const expected = naiveGroups(entries).map((group) =>
      reduces ? group : { ...group, sum: undefined },
    );
    expect(groups).toEqual(reverse ? expected.reverse() : expected);
  }
  if (range.gte !== undefined)
    expect(reader.rank(range.gte)).toBe(rowsIn(model.entries({ lt: range.gte })));
}

/** Every row number leads to its entry. */
export function expectSameRows(reader: TreeReader, model: TreeModel): void {
  let row = 0;
  for (const { key, value } of model.entries()) {
    for (let before = 0; before < rowsOf(value, 0, value.length); before++) {
      const found = reader.entryAtRow(row);
      expect(found && hex(found.key)).toBe(hex(key));
      expect(found?.rowsBefore).toBe(before);
      row++;
    }
  }
  expect(reader.entryAtRow(row)).toBeUndefined();
  expect(reader.entryAtRow(-1)).toBeUndefined();
}
