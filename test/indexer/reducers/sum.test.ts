import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  createViewReducer,
  type EvaluateOptions,
  type ReduceLimits,
} from "../../../indexer/reducers/index.js";
import {
  entriesOf,
  rawParts,
  type Row,
  RUNS,
  shape,
  shapedParts,
  slice,
  valueRows,
} from "./rows.js";

/** A descending query adds rows in key order. */
const IN_ORDER: EvaluateOptions = { descending: true };

const REASON =
  "The _sum function requires that map values be numbers, arrays of numbers, or objects. Objects cannot be mixed with other data structures. Objects can be arbitrarily nested, provided that the values for all fields are themselves numbers, arrays of numbers, or objects.";

async function sumText(
  values: readonly string[],
  limits?: ReduceLimits,
  options: EvaluateOptions = IN_ORDER,
): Promise<string> {
  const rows: Row[] = values.map((value, i) => ({ key: "1", id: `d${i}`, values: [value] }));
  const reducer = createViewReducer({
    specs: ["_sum"],
    collation: "root",
    ...(limits ? { limits } : {}),
  });
  const outcome = await reducer.evaluate(0, rawParts(entriesOf(rows)), options);
  if (!("value" in outcome)) throw new Error(outcome.reason);
  return outcome.value;
}

async function sum(...values: unknown[]): Promise<unknown> {
  return JSON.parse(await sumText(values.map((value) => JSON.stringify(value))));
}

const error = (cause: unknown): unknown => ({
  error: "builtin_reduce_error",
  reason: REASON,
  caused_by: cause,
});

describe("_sum", () => {
  test("adds numbers, whole and not", async () => {
    expect(await sum(1, -2, 0.5, 1e21, 3)).toBe(1e21 + 2.5);
    expect(await sum(0.1, 0.2)).toBe(0.1 + 0.2);
    expect(await sum(4)).toBe(4);
    expect(await sum(-0.000001, 5e-324, 123456789.125)).toBe(123456789.125 - 0.000001);
  });

  test("keeps integers exact beyond 2^53", async () => {
    expect(await sumText(["9007199254740992", "1"])).toBe("9007199254740993");
    expect(await sumText(["9007199254740991", "9007199254740991", "-9007199254740990"])).toBe(
      "9007199254740992",
    );
    expect(await sumText(["123456789012345678901234567890", "1"])).toBe(
      "123456789012345678901234567891",
    );
  });

  test("numbers and arrays meet place by place", async () => {
    expect(await sum(1, [2, 3])).toEqual([3, 3]);
    expect(await sum([1, 2, 3], [10, 20], 5)).toEqual([16, 22, 3]);
    expect(await sum([])).toEqual([0]);
    expect(await sum([1, "x"])).toEqual([1, "x"]);
  });

  test("objects merge by name; a lone one keeps its order", async () => {
    expect(await sumText(['{"a":1}', '{"b":2,"a":3}'])).toBe('{"a":4,"b":2}');
    expect(await sumText(['{"b":1,"a":1}'])).toBe('{"b":1,"a":1}');
    expect(await sumText(['{"b":1,"1":null}'])).toBe('{"b":1,"1":null}');
    expect(await sumText(['{"q\\"\\n":"\\t","a":1}'])).toBe('{"q\\"\\n":"\\t","a":1}');
    expect(await sumText(["0", '{"b":1,"a":1}'])).toBe('{"b":1,"a":1}');
    expect(await sum({ a: 1, n: { p: 1 } }, { a: 2, b: 3, n: { p: 5, q: 7 } })).toEqual({
      a: 3,
      b: 3,
      n: { p: 6, q: 7 },
    });
    expect(await sum({ a: 0.5 }, { a: [1, 2] })).toEqual({ a: [1.5, 2] });
  });

  test("names sort by their UTF-8 bytes", async () => {
    expect(await sumText(['{"\u{1F600}":1}', '{"\uFF61":1,"b":1}'])).toBe(
      '{"b":1,"\uFF61":1,"\u{1F600}":1}',
    );
  });

  test("a value that cannot be added becomes the result", async () => {
    expect(await sum(1, null)).toEqual(error(null));
    expect(await sum("six")).toEqual(error("six"));
    expect(await sum(1, true, 2)).toEqual(error(true));
    expect(await sum([1], ["x"])).toEqual(error([1]));
    expect(await sum([1, 2, 3], [1, "x"])).toEqual(error([2, 3]));
    expect(await sum([[1]])).toEqual(error([0]));
    expect(await sum({ a: 1 }, 4)).toEqual(error(4));
    expect(await sum({ a: null }, { a: 1 })).toEqual(error(1));
  });

  test("where CouchDB's index would die, the rows concerned have the error value", async () => {
    expect(await sum(4, { a: 1 })).toEqual(error(4));
    expect(await sum([4], { a: 1 })).toEqual(error([4]));
    expect(await sum({ error: 1 })).toEqual(error({ error: 1 }));
    const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
    const blobs = await reducer.reduce?.([slice(entriesOf(valueRows([4, { a: 1 }])))]);
    const root = (await reducer.rereduce?.([blobs ?? []]))?.[0] ?? new Uint8Array(0);
    expect(reducer.failure(root)).toMatchObject({ index: 0, error: "case_clause" });
    const leaves = [[null], [4, { a: 1 }]].map((values) => slice(entriesOf(valueRows(values))));
    const both = (await reducer.rereduce?.([(await reducer.reduce?.(leaves)) ?? []]))?.[0];
    expect(reducer.failure(both ?? root)).toMatchObject({ error: "case_clause" });
    expect(reducer.evaluate(0, { count: 3, slices: [], reductions: both ? [both] : [] })).toEqual({
      value: JSON.stringify(error(null)),
    });
  });

  test("a float sum beyond the doubles is an error value, not null", async () => {
    expect(await sum(1e308, 1e308)).toMatchObject({ error: "builtin_reduce_error" });
  });

  test("an error of an earlier sum is passed on", async () => {
    const earlier = { error: "builtin_reduce_error", reason: "r", caused_by: 1 };
    expect(await sum(1, earlier, null)).toEqual(earlier);
    expect(await sum({ a: 1 }, { a: earlier })).toEqual(earlier);
  });

  test("an error at index time reaches every query over it, and no other", async () => {
    const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
    const [good, bad] = [entriesOf(valueRows([4, 6])), entriesOf(valueRows(["six"]))];
    const blobs = (await reducer.reduce?.([slice(good), slice(bad)])) ?? [];
    expect(reducer.evaluate(0, { count: 3, slices: [], reductions: blobs })).toEqual({
      value: JSON.stringify(error("six")),
    });
    expect(reducer.evaluate(0, { count: 2, slices: [], reductions: blobs.slice(0, 1) })).toEqual({
      value: "10",
    });
  });

  test("output that outgrows its input is an overflow error", async () => {
    const wide = (from: number): string =>
      JSON.stringify(
        Object.fromEntries(Array.from({ length: 400 }, (_, i) => [`name${from + i}`, 1])),
      );
    const result = await sumText([wide(0), wide(1000)], undefined, {
      context: "db/_design/d/_view/v",
    });
    const { error: name, reason } = JSON.parse(result) as Record<string, string>;
    expect(name).toBe("builtin_reduce_error");
    expect(reason).toMatch(
      /^Reduce output must shrink more rapidly: input size: \d+ output size: \d+ context: db\/_design\/d\/_view\/v$/,
    );
    expect(await sumText([wide(0), wide(1000)], { reduceLimit: "log" })).toContain('"name0":1');
    expect(await sumText([wide(0), wide(1000)], { threshold: 100_000 })).toContain('"name0":1');
  });

  test("sizes in an overflow message are those of Erlang's external terms", async () => {
    // [[[1,<<"d0">>],<<BigString>>]] is no sum; a lone list of 2000 strings is, unchecked.
    const list = JSON.stringify(Array.from({ length: 2000 }, (_, i) => (i === 0 ? 0 : "ab")));
    const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
    const [blob] =
      (await reducer.reduce?.([slice(entriesOf([{ key: "1", id: "d0", values: [list] }]))])) ?? [];
    // The list: 5 + 2 + 1999 * 7 + 1. A row around it: 12 + 2 (key) + 5 + 2 (id). The list of rows: 7, with the version byte.
    const reductions = blob ? [blob] : [];
    expect(reducer.evaluate(0, { count: 1, slices: [], reductions })).toEqual({
      value: JSON.stringify({
        error: "builtin_reduce_error",
        reason: `Reduce output must shrink more rapidly: input size: ${14001 + 21 + 7} output size: ${14001 + 1} context: `,
      }),
    });
  });

  test("the last rereduce checks again, over the one result", async () => {
    // Three equal objects shrink to one, but the result alone does not.
    const wide = JSON.stringify(
      Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`n${1000 + i}`, 100])),
    );
    // Each member: 2 for the pair, 5 + 5 for the name, 2 for the number (5 once it is above 255).
    const size = 1 + 8 + 1000 * (2 + 10 + 5);
    expect(JSON.parse(await sumText([wide, wide, wide]))).toEqual({
      error: "builtin_reduce_error",
      reason: `Reduce output must shrink more rapidly: input size: ${size + 13} output size: ${size} context: `,
    });
  });

  test("duplicates of one row all count", () => {
    const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
    const entries = entriesOf([{ key: "1", id: "a", values: ["1", "2", "2"] }]);
    expect(reducer.evaluate(0, rawParts(entries))).toEqual({ value: "5" });
  });

  test("sums of integers do not depend on the shape of the tree", async () => {
    const integer = fc.oneof(
      fc.integer(),
      fc.maxSafeInteger(),
      fc.constantFrom(0, Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(integer, { minLength: 1, maxLength: 60 }),
        shape,
        async (values, s) => {
          const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
          const parts = await shapedParts(reducer, entriesOf(valueRows(values)), s);
          const expected = values.reduce((total, value) => total + BigInt(value), 0n);
          expect(reducer.evaluate(0, parts)).toEqual({ value: expected.toString() });
        },
      ),
      RUNS,
    );
  });

  test("any number is added as JavaScript would", async () => {
    const value = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.double({ min: -1000, max: 1000, noNaN: true }),
    );
    await fc.assert(
      fc.asyncProperty(value, async (value) => {
        const text = JSON.stringify(value);
        fc.pre(Number.isSafeInteger(value) || !/^-?\d+$/.test(text));
        expect(Number(await sumText([text]))).toBe(value + 0);
      }),
      RUNS,
    );
  });
});
