import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { IndexerError } from "../../../indexer/errors.js";
import { createViewReducer } from "../../../indexer/reducers/index.js";
import { entriesOf, rawParts, RUNS, shape, shapedParts, slice, valueRows } from "./rows.js";

const reducer = createViewReducer({ specs: ["_stats"], collation: "root" });

function stats(...values: unknown[]): unknown {
  const outcome = reducer.evaluate(0, rawParts(entriesOf(valueRows(values))));
  if (!("value" in outcome)) throw new Error("not a value");
  return JSON.parse(outcome.value);
}

function failure(...values: unknown[]): unknown {
  try {
    return stats(...values);
  } catch (error) {
    if (!(error instanceof IndexerError)) throw error;
    expect(error.code).toBe("INDEXER_REDUCE_FAILED");
    expect(error.details.status).toBe(500);
    return [error.details.error, error.details.reason];
  }
}

describe("_stats", () => {
  test("of numbers, members in CouchDB's order", () => {
    expect(reducer.evaluate(0, rawParts(entriesOf(valueRows([1, -2, 0.5]))))).toEqual({
      value: '{"sum":-0.5,"count":3,"min":-2,"max":1,"sumsqr":5.25}',
    });
  });

  test("of arrays, place by place", () => {
    const one = (n: number) => ({ sum: n, count: 1, min: n, max: n, sumsqr: n * n });
    expect(stats([1, 2])).toEqual([one(1), one(2)]);
    expect(stats([])).toEqual([]);
    expect(stats([], [])).toEqual([]);
    expect(stats([1, 10], [3, 20])).toEqual([
      { sum: 4, count: 2, min: 1, max: 3, sumsqr: 10 },
      { sum: 30, count: 2, min: 10, max: 20, sumsqr: 500 },
    ]);
    expect(stats([[1], 2], [[2], 3])).toEqual([
      [{ sum: 3, count: 2, min: 1, max: 2, sumsqr: 5 }],
      { sum: 5, count: 2, min: 2, max: 3, sumsqr: 13 },
    ]);
  });

  test("of objects that hold statistics", () => {
    const given = { sum: 9, count: 3, min: 1, max: 5, sumsqr: 35, more: "ignored" };
    expect(stats(given, 2)).toEqual({ sum: 11, count: 4, min: 1, max: 5, sumsqr: 39 });
    expect(stats(2, given)).toEqual({ sum: 11, count: 4, min: 1, max: 5, sumsqr: 39 });
  });

  test("a bad first value fails with CouchDB's text", () => {
    expect(failure(null)).toEqual(["invalid_value", "non-numeric _stats input: null"]);
    expect(failure("abc")).toEqual(["invalid_value", "non-numeric _stats input: <<97,98,99>>"]);
    expect(failure([1, true])).toEqual(["invalid_value", "non-numeric _stats input: true"]);
  });

  test("a bad later value fails with CouchDB's text", () => {
    const not = (what: string) => [
      "invalid_value",
      `The _stats function requires that map values be numbers or arrays of numbers, not '${what}'`,
    ];
    expect(failure(1, null)).toEqual(not("null"));
    expect(failure(1, "abc")).toEqual(not('<<"abc">>'));
    expect(failure(1, "")).toEqual(not("<<>>"));
    expect(failure(1, "\u0100")).toEqual(not("<<196,128>>"));
    expect(failure(1, [2])).toEqual(not("[2]"));
    expect(failure(1, [97, 98])).toEqual(not('"ab"'));
    expect(failure(1, [[2, 0.5], 1e30])).toEqual(not("[[2,0.5],1.0e30]"));
    expect(failure([1], 4)).toEqual(not("{4,1,4,4,16}"));
  });

  test("objects that hold no statistics say what they lack", () => {
    expect(failure({ sum: 3 })).toEqual([
      "invalid_value",
      'user _stats input missing required field count ([{<<"sum">>,3}])',
    ]);
    expect(failure(1, { sum: "a" })).toEqual([
      "invalid_value",
      "non-numeric _stats input received for sum: <<97>>",
    ]);
    expect(failure({})).toEqual([
      "invalid_value",
      "user _stats input missing required field sum ([])",
    ]);
  });

  test("arrays of different length fail, and so do results beyond the doubles", () => {
    expect(failure([1, 10], [1, 2, 3])).toMatchObject(["function_clause", expect.any(String)]);
    expect(failure(1e200)).toMatchObject(["badarith", expect.any(String)]);
  });

  test("a bad value fails the queries whose range contains it, and only them", () => {
    const [good, bad] = [entriesOf(valueRows([4, 6])), entriesOf(valueRows([1, null]))];
    const blobs = reducer.reduce?.([slice(good), slice(bad)]) as Uint8Array[];
    expect(reducer.evaluate(0, { count: 2, slices: [], reductions: blobs.slice(0, 1) })).toEqual({
      value: '{"sum":10,"count":2,"min":4,"max":6,"sumsqr":52}',
    });
    const [root] = reducer.rereduce?.([blobs]) as Uint8Array[];
    const over = root ?? new Uint8Array(0);
    expect(() => reducer.evaluate(0, { count: 4, slices: [], reductions: [over] })).toThrow(
      expect.objectContaining({ code: "INDEXER_REDUCE_FAILED" }),
    );
    expect(reducer.failure(over)).toEqual({
      index: 0,
      error: "invalid_value",
      reason:
        "The _stats function requires that map values be numbers or arrays of numbers, not 'null'",
    });
    expect(reducer.failure(blobs[0] ?? over)).toBeUndefined();
  });

  test("statistics of integers do not depend on the shape of the tree", async () => {
    const value = fc.integer({ min: -1_000_000, max: 1_000_000 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(value, { minLength: 1, maxLength: 60 }),
        shape,
        async (values, s) => {
          const parts = await shapedParts(reducer, entriesOf(valueRows(values)), s);
          const outcome = await reducer.evaluate(0, parts);
          expect(JSON.parse("value" in outcome ? outcome.value : "")).toEqual({
            sum: values.reduce((a, b) => a + b, 0),
            count: values.length,
            min: Math.min(...values),
            max: Math.max(...values),
            sumsqr: values.reduce((a, b) => a + b * b, 0),
          });
          const pairs = entriesOf(valueRows(values.map((v) => [v, 1])));
          const ofPairs = await reducer.evaluate(0, await shapedParts(reducer, pairs, s));
          expect((JSON.parse("value" in ofPairs ? ofPairs.value : "") as unknown[])[0]).toEqual(
            JSON.parse("value" in outcome ? outcome.value : ""),
          );
        },
      ),
      RUNS,
    );
  });
});
