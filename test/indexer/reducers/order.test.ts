import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { createViewReducer, type ViewReducer } from "../../../indexer/reducers/index.js";
import { entriesOf, rawParts, type Row, RUNS, shape, shapedParts, valueRows } from "./rows.js";

function reducerOf(spec: string, collation: "root" | "raw" = "root"): ViewReducer {
  return createViewReducer({ specs: [spec], collation });
}

function evaluate(spec: string, rows: readonly Row[], collation: "root" | "raw" = "root"): unknown {
  const outcome = reducerOf(spec, collation).evaluate(0, rawParts(entriesOf(rows, collation)));
  return JSON.parse("value" in outcome ? outcome.value : "");
}

describe("_first and _last", () => {
  const rows: Row[] = [
    { key: '"b"', id: "2", values: ['"later"'] },
    { key: '"a"', id: "9", values: ['"second"'] },
    { key: '"a"', id: "1", values: ['{"x":[1,2]}'] },
    { key: '"b"', id: "3", values: ['"last"'] },
  ];

  test("give the values of the lowest and highest key and id", () => {
    expect(evaluate("_first", rows)).toEqual({ x: [1, 2] });
    expect(evaluate("_last", rows)).toBe("last");
  });

  test("follow ICU order in raw views", () => {
    const mixed: Row[] = [
      { key: '"B"', id: "1", values: ["1"] },
      { key: '"a"', id: "2", values: ["2"] },
      { key: "true", id: "3", values: ["3"] },
      { key: "[]", id: "4", values: ["4"] },
    ];
    expect(evaluate("_first", mixed, "raw")).toBe(3);
    expect(evaluate("_last", mixed, "raw")).toBe(4);
    expect(evaluate("_last", mixed.slice(0, 2), "raw")).toBe(1);
    expect(evaluate("_first", mixed.slice(0, 2), "raw")).toBe(2);
  });

  test("of several values of one row, the greatest is first and the least last, as in CouchDB's folds", () => {
    const dups: Row[] = [{ key: "1", id: "a", values: ["1", "2", '"x"'] }];
    expect(evaluate("_first", dups)).toBe("x");
    expect(evaluate("_last", dups)).toBe(1);
    expect(evaluate("_first", dups, "raw")).toBe("x");
    expect(evaluate("_last", dups, "raw")).toBe(1);
  });

  test.each(["root", "raw"] as const)(
    "do not depend on the shape of a %s tree",
    async (collation) => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.string(), { minLength: 1, maxLength: 60 }),
          shape,
          async (keys, s) => {
            const entries = entriesOf(valueRows(keys, keys), collation);
            for (const spec of ["_first", "_last"]) {
              const reducer = reducerOf(spec, collation);
              const parts = await shapedParts(reducer, entries, s);
              expect(reducer.evaluate(0, parts)).toEqual(reducer.evaluate(0, rawParts(entries)));
            }
          },
        ),
        RUNS,
      );
    },
  );
});

describe("_top_N and _bottom_N", () => {
  test("list the best values once each", () => {
    const rows = valueRows([5, 5, 4, 6]);
    expect(evaluate("_top_2", rows)).toEqual([6, 5]);
    expect(evaluate("_bottom_2", rows)).toEqual([4, 5]);
    expect(evaluate("_top_100", rows)).toEqual([6, 5, 4]);
  });

  test("rank any JSON value in ICU order, in raw views too", () => {
    const values = [{ a: 1 }, "B", "a", null, 10, 9, -1.5, true, [1], [], 1e30];
    const sorted = [null, true, -1.5, 9, 10, 1e30, "a", "B", [], [1], { a: 1 }];
    for (const collation of ["root", "raw"] as const) {
      expect(evaluate("_bottom_100", valueRows(values), collation)).toEqual(sorted);
      expect(evaluate("_bottom_3", valueRows(values), collation)).toEqual(sorted.slice(0, 3));
      expect(evaluate("_top_100", valueRows(values), collation)).toEqual(sorted.slice().reverse());
      expect(evaluate("_top_1", valueRows(values), collation)).toEqual([{ a: 1 }]);
    }
  });

  test("of values that compare equal the first met stays", () => {
    expect(evaluate("_top_2", valueRows(["e\u0301", "\u00e9"]))).toEqual(["e\u0301"]);
  });

  test("do not depend on the shape of the tree", async () => {
    const value = fc.oneof(fc.integer({ min: -20, max: 20 }), fc.constantFrom("a", "b", null, 0.5));
    await fc.assert(
      fc.asyncProperty(
        fc.array(value, { minLength: 1, maxLength: 60 }),
        shape,
        async (values, s) => {
          const entries = entriesOf(valueRows(values));
          for (const spec of ["_top_3", "_bottom_3", "_top_1", "_bottom_20"]) {
            const reducer = reducerOf(spec);
            const parts = await shapedParts(reducer, entries, s);
            expect(reducer.evaluate(0, parts)).toEqual(reducer.evaluate(0, rawParts(entries)));
          }
        },
      ),
      RUNS,
    );
  });
});
