import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  createViewReducer,
  type JsReduceRunner,
  type ViewReducer,
} from "../../../indexer/reducers/index.js";
import {
  type Call,
  entriesOf,
  LocalRunner,
  rawParts,
  type Row,
  RUNS,
  shape,
  shapedParts,
  slice,
  valueRows,
} from "./rows.js";

const SUM = "function(k,v,r){return v.reduce(function(a,b){return a+b},0)}";

function jsReducer(source: string, runner: JsReduceRunner = new LocalRunner()): ViewReducer {
  return createViewReducer({ specs: [source], collation: "root", js: runner });
}

describe("a view tree's reducer", () => {
  test("keeps nothing for _count, which the tree counts", () => {
    const reducer = createViewReducer({ specs: ["_count", "_count\n"], collation: "root" });
    expect("reduce" in reducer).toBe(false);
    expect("rereduce" in reducer).toBe(false);
    expect(reducer.evaluate(1, { count: 7, slices: [], reductions: [] })).toEqual({ value: "7" });
    for (const key of ["1", '"a\\u0000"']) {
      const [entry] = entriesOf([{ key, id: "a", values: ["1", "2"] }]);
      const value = entry?.value ?? new Uint8Array(0);
      expect(reducer.count(value, 0, value.length)).toBe(2);
    }
  });

  test("keeps a small sum in two bytes", () => {
    const reducer = createViewReducer({ specs: ["_sum"], collation: "root" });
    const [blob] = reducer.reduce?.([slice(entriesOf(valueRows([20, 30])))]) as Uint8Array[];
    expect(blob).toHaveLength(2);
  });

  test("keeps one part for each reduce, whatever the shape of the tree", async () => {
    const specs = ["_count", "_sum", SUM, "_stats", "_top_2", "_first", "_approx_count_distinct"];
    const value = fc.integer({ min: -1000, max: 1000 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(value, { minLength: 1, maxLength: 40 }),
        shape,
        async (values, s) => {
          const reducer = createViewReducer({ specs, collation: "root", js: new LocalRunner() });
          const entries = entriesOf(valueRows(values));
          const parts = await shapedParts(reducer, entries, s);
          for (const index of specs.keys()) {
            const whole = await reducer.evaluate(index, rawParts(entries));
            expect(await reducer.evaluate(index, parts)).toEqual(whole);
          }
          const sum = String(values.reduce((a, b) => a + b, 0));
          expect(await reducer.evaluate(1, parts)).toEqual({ value: sum });
          expect(await reducer.evaluate(2, parts)).toEqual({ value: sum });
        },
      ),
      RUNS,
    );
  });

  test("reads keys that stand behind a partition", async () => {
    const runner = new LocalRunner();
    const reducer = createViewReducer({
      specs: ["_approx_count_distinct", SUM],
      collation: "root",
      js: runner,
      keyStart: (key) => key.indexOf(0) + 1,
    });
    const entries = entriesOf(valueRows([1, 2], ["x", "y"])).map(({ key, value }) => ({
      key: Buffer.concat([Buffer.from("part\0"), key]),
      value,
    }));
    expect(reducer.evaluate(0, rawParts(entries))).toEqual({ value: "2" });
    await reducer.evaluate(1, rawParts(entries), { descending: true });
    expect(runner.calls[0]).toEqual({
      rereduce: false,
      rows: [
        [["x", "d0000"], 1],
        [["y", "d0001"], 2],
      ],
    });
  });
});

describe("a custom reduce", () => {
  const evaluate = async (source: string, rows: readonly Row[]): Promise<unknown> => {
    const outcome = await jsReducer(source).evaluate(0, rawParts(entriesOf(rows)));
    return "value" in outcome ? JSON.parse(outcome.value) : outcome;
  };

  test("ends with one rereduce always", async () => {
    expect(await evaluate("function(k,v){return v.length}", valueRows([1, 2, 3, 4, 5]))).toBe(1);
    expect(await evaluate("function(k,v,r){return r}", valueRows([1]))).toBe(true);
    expect(await evaluate("function(k,v,r){return k}", valueRows([1]))).toBeNull();
  });

  test("sees rows at index time in key order, values of one row last first, in one call per leaf", async () => {
    const runner = new LocalRunner();
    const entries = entriesOf([
      { key: '["a",1]', id: 'quo"te', values: ["1", "2"] },
      { key: '{"b":1,"a":2}', id: "é", values: ['{"x":"y"}'] },
    ]);
    await jsReducer(SUM, runner).reduce?.([slice(entries), slice(entries.slice(1))]);
    const [first, second]: Call[] = runner.calls;
    expect(first).toEqual({
      rereduce: false,
      rows: [
        [[["a", 1], 'quo"te'], 2],
        [[["a", 1], 'quo"te'], 1],
        [[{ b: 1, a: 2 }, "é"], { x: "y" }],
      ],
    });
    expect(second).toEqual({ rereduce: false, rows: [[[{ b: 1, a: 2 }, "é"], { x: "y" }]] });
  });

  test("sees any key, id and value as they are", async () => {
    const text = fc.string({ unit: "binary" }).filter((s) => !/\p{Surrogate}/u.test(s));
    const row = fc.record({
      key: fc.oneof(text, fc.array(fc.double({ noNaN: true, noDefaultInfinity: true }))),
      id: text,
      value: fc.oneof(text, fc.jsonValue()),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 30 }), async (rows) => {
        const runner = new LocalRunner();
        const entries = rows.map(({ key, id, value }) =>
          entriesOf([{ key: JSON.stringify(key), id, values: [JSON.stringify(value)] }]),
        );
        await jsReducer(SUM, runner).reduce?.([slice(entries.flat())]);
        expect(runner.calls).toEqual([
          {
            rereduce: false,
            rows: JSON.parse(
              JSON.stringify(rows.map(({ key, id, value }) => [[key, id], value])),
            ) as unknown,
          },
        ]);
      }),
      RUNS,
    );
  });

  test("sees raw rows of a query against the direction of the scan, then stored results, then the last rereduce", async () => {
    const runner = new LocalRunner();
    const reducer = jsReducer(SUM, runner);
    const leaves = [
      [1, 2],
      [30, 40],
      [500, 600],
      [7000, 8000],
    ].map((values, leaf) => slice(entriesOf(valueRows(values, [2 * leaf, 2 * leaf + 1]))));
    const [a, b, c, d] = leaves as [
      (typeof leaves)[0],
      (typeof leaves)[0],
      (typeof leaves)[0],
      (typeof leaves)[0],
    ];
    const reductions = (await reducer.reduce?.([b, c])) ?? [];
    const parts = { count: 8, slices: [a, d], reductions };
    runner.calls.length = 0;
    expect(await reducer.evaluate(0, parts)).toEqual({ value: "16173" });
    expect(await reducer.evaluate(0, parts, { descending: true })).toEqual({ value: "16173" });
    const rows = [
      [[0, "d0000"], 1],
      [[1, "d0001"], 2],
      [[6, "d0000"], 7000],
      [[7, "d0001"], 8000],
    ];
    expect(runner.calls).toEqual([
      { rereduce: false, rows: rows.toReversed() },
      { rereduce: true, values: [15003, 1100, 70] },
      { rereduce: true, values: [16173] },
      { rereduce: false, rows },
      { rereduce: true, values: [15003, 70, 1100] },
      { rereduce: true, values: [16173] },
    ]);
  });

  test("over one wholly covered node is only rereduced the last time", async () => {
    const runner = new LocalRunner();
    const reducer = jsReducer(SUM, runner);
    const reductions = (await reducer.reduce?.([slice(entriesOf(valueRows([1, 2])))])) ?? [];
    runner.calls.length = 0;
    expect(await reducer.evaluate(0, { count: 2, slices: [], reductions })).toEqual({ value: "3" });
    expect(runner.calls).toEqual([{ rereduce: true, values: [3] }]);
  });

  test("that throws gives null, and null enters the next rereduce", async () => {
    expect(await evaluate("function(){throw new Error('x')}", valueRows([1, 2]))).toBeNull();
    expect(
      await evaluate("function(k,v,r){if(!r)throw new Error('x');return v}", valueRows([1, 2])),
    ).toEqual([null]);
  });

  const overflowing = "function(k,v,r){if(!r&&v.includes('big'))throw {overflow:'M'};return 1}";

  test("that overflows is an error row; no call follows", async () => {
    const runner = new LocalRunner();
    const reducer = jsReducer(overflowing, runner);
    const leaves = [["big"], ["small"]].map((values) => slice(entriesOf(valueRows(values))));
    const blobs = (await reducer.reduce?.(leaves)) ?? [];
    const [root] = (await reducer.rereduce?.([blobs])) ?? [];
    runner.calls.length = 0;
    const reductions = root ? [root] : [];
    expect(await reducer.evaluate(0, { count: 2, slices: [], reductions })).toEqual({
      error: "reduce_overflow_error",
      reason: "M",
    });
    expect(runner.calls).toEqual([]);
    const small = { count: 1, slices: [], reductions: blobs.slice(1) };
    expect(await reducer.evaluate(0, small)).toEqual({ value: "1" });
    expect(await reducer.evaluate(0, rawParts(entriesOf(valueRows(["big"]))))).toEqual({
      error: "reduce_overflow_error",
      reason: "M",
    });
    expect(reducer.failure(root ?? new Uint8Array(0))).toBeUndefined();
  });

  test("an object that resembles CouchDB's overflow is a value like any other", async () => {
    const text = "function(k,v,r){return r?v[0]:{reduce_overflow_error:'M'}}";
    expect(await evaluate(text, valueRows([1]))).toEqual({ reduce_overflow_error: "M" });
  });

  test("names its context in the last rereduce only", async () => {
    const local = new LocalRunner();
    const contexts: unknown[] = [];
    const runner: JsReduceRunner = {
      reduce: (sources, rows) => local.reduce(sources, rows),
      rereduce: (source, values, context) => {
        contexts.push([values, context]);
        return local.rereduce(source, values);
      },
    };
    const reducer = jsReducer(SUM, runner);
    const leaves = [[1], [2]].map((values) => slice(entriesOf(valueRows(values))));
    const reductions = (await reducer.reduce?.(leaves)) ?? [];
    await reducer.evaluate(0, { count: 2, slices: [], reductions }, { context: "db/d" });
    expect(contexts).toEqual([
      ["[2,1]", undefined],
      ["[3]", "db/d"],
    ]);
  });

  test("that fails its server fails the queries whose range contains the rows, and only them", async () => {
    const reducer = jsReducer(
      "function(k,v,r){if(!r&&v.includes('bad'))throw {error:'map_runtime_error',reason:'R'};return v.length}",
    );
    const leaves = [["bad"], ["good"]].map((values) => slice(entriesOf(valueRows(values))));
    const blobs = (await reducer.reduce?.(leaves)) ?? [];
    const [root] = (await reducer.rereduce?.([blobs])) ?? [];
    const reductions = root ? [root] : [];
    await expect(reducer.evaluate(0, { count: 2, slices: [], reductions })).rejects.toMatchObject({
      code: "INDEXER_REDUCE_FAILED",
      details: { status: 500, error: "map_runtime_error", reason: "R" },
    });
    expect(await reducer.evaluate(0, { count: 1, slices: [], reductions: blobs.slice(1) })).toEqual(
      { value: "1" },
    );
    expect(reducer.failure(root ?? new Uint8Array(0))).toEqual({
      index: 0,
      error: "map_runtime_error",
      reason: "R",
    });
  });

  test("leaves and nodes go to a runner in one batch where it takes batches", async () => {
    const batches: unknown[] = [];
    const local = new LocalRunner();
    const runner: JsReduceRunner = {
      reduce: () => {
        throw new Error("asked one by one");
      },
      rereduce: () => {
        throw new Error("asked one by one");
      },
      reduceBatch: (sources, rows) => {
        batches.push(rows);
        return rows.map((text) => local.reduce(sources, text));
      },
      rereduceBatch: (source, values) => {
        batches.push(values);
        return Promise.all(values.map((text) => local.rereduce(source, text)));
      },
    };
    const reducer = jsReducer(SUM, runner);
    const leaves = [[1], [2], [3]].map((values) => slice(entriesOf(valueRows(values))));
    const blobs = (await reducer.reduce?.(leaves)) ?? [];
    await reducer.rereduce?.([blobs.slice(0, 2), blobs.slice(2)]);
    expect(batches).toEqual([
      ['[[[0,"d0000"],1]]', '[[[0,"d0000"],2]]', '[[[0,"d0000"],3]]'],
      ["[1,2]", "[3]"],
    ]);
  });

  test("several groups take one batch for each kind of call", async () => {
    const batches: string[] = [];
    const local = new LocalRunner();
    const runner: JsReduceRunner = {
      reduce: (sources, rows) => local.reduce(sources, rows),
      rereduce: (source, values) => local.rereduce(source, values),
      reduceBatch: (sources, rows) => {
        batches.push(`reduce ${rows.length}`);
        return rows.map((text) => local.reduce(sources, text));
      },
      rereduceBatch: (source, values) => {
        batches.push(`rereduce ${values.join(" ")}`);
        return Promise.all(values.map((text) => local.rereduce(source, text)));
      },
    };
    const reducer = jsReducer(SUM, runner);
    const stored = (await reducer.reduce?.([slice(entriesOf(valueRows([100])))])) ?? [];
    const groups = [1, 2, 3].map((value) => rawParts(entriesOf(valueRows([value]))));
    const mixed = groups.map((group, i) => (i === 0 ? group : { ...group, reductions: stored }));
    const outcomes = await reducer.evaluateAll(0, mixed);
    expect(outcomes).toEqual([{ value: "1" }, { value: "102" }, { value: "103" }]);
    expect(batches).toEqual(["reduce 3", "rereduce [2,100] [3,100]", "rereduce [1] [102] [103]"]);
  });
});

test("a value nested too deeply fails the reduces that look into it, in its range only", () => {
  const deep = "[".repeat(5000) + "]".repeat(5000);
  const specs = ["_sum", "_stats", "_first", "_top_1"];
  const reducer = createViewReducer({ specs, collation: "root" });
  const leaves = [entriesOf([{ key: "1", id: "a", values: [deep] }]), entriesOf(valueRows([7]))];
  const blobs = reducer.reduce?.(leaves.map(slice)) as Uint8Array[];
  const [bad, good] = blobs.map((blob) => ({ count: 1, slices: [], reductions: [blob] }));
  if (!bad || !good) throw new Error("no blobs");
  expect(reducer.evaluate(0, bad)).toMatchObject({
    value: expect.stringContaining("builtin_reduce_error") as unknown,
  });
  expect(() => reducer.evaluate(1, bad)).toThrow(
    expect.objectContaining({ code: "INDEXER_REDUCE_FAILED" }),
  );
  expect(reducer.evaluate(2, bad)).toEqual({ value: deep });
  expect(reducer.evaluate(0, good)).toEqual({ value: "7" });
  expect(reducer.evaluate(3, good)).toEqual({ value: "[7]" });
});
