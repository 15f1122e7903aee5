import { createHash } from "node:crypto";

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { rankOfHash } from "../../../indexer/reducers/approx-count-distinct.js";
import { TermWriter } from "../../../indexer/reducers/erlang.js";
import { estimateBias } from "../../../indexer/reducers/hll-bias.js";
import { createViewReducer } from "../../../indexer/reducers/index.js";
import { sha1 } from "../../../indexer/reducers/sha1.js";
import { entriesOf, rawParts, RUNS, shape, shapedParts, slice, valueRows } from "./rows.js";

const reducer = createViewReducer({ specs: ["_approx_count_distinct"], collation: "root" });

function estimate(keys: readonly unknown[]): number {
  const outcome = reducer.evaluate(0, rawParts(entriesOf(valueRows(keys, keys))));
  return Number("value" in outcome ? outcome.value : "");
}

const numbers = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);

describe("_approx_count_distinct", () => {
  test.each([
    [1, 1],
    [2, 2],
    [3, 3],
    [10, 10],
    [100, 99],
    [500, 512],
    [1000, 1005],
    [5000, 4940],
    [20000, 20499],
  ])("%i integer keys are estimated as CouchDB does", (n, expected) => {
    expect(estimate(numbers(n))).toBe(expected);
  });

  test.each([
    [1, 1],
    [10, 10],
    [100, 101],
    [1000, 1010],
    [2000, 1986],
  ])("%i string keys are estimated as CouchDB does", (n, expected) => {
    expect(estimate(numbers(n).map(String))).toBe(expected);
  });

  test("keys that collate equally but differ in bytes are different", () => {
    expect(estimate(["\u00e9", "e\u0301"])).toBe(2);
    expect(estimate(["a", "a", "a"])).toBe(1);
  });

  test("the estimate does not depend on the shape of the tree", async () => {
    const key = fc.oneof(fc.integer(), fc.string(), fc.array(fc.nat()), fc.boolean());
    await fc.assert(
      fc.asyncProperty(fc.array(key, { minLength: 1, maxLength: 120 }), shape, async (keys, s) => {
        const entries = entriesOf(valueRows(keys, keys));
        const whole = reducer.evaluate(0, rawParts(entries));
        expect(reducer.evaluate(0, await shapedParts(reducer, entries, s))).toEqual(whole);
      }),
      RUNS,
    );
  });

  test("dense and sparse registers are stored without loss", () => {
    for (const n of [1, 50, 600, 900, 3000, 300_000]) {
      const keys = Array.from({ length: Math.min(n, 3000) }, (_, i) => i * 7919 + n);
      const leaves = [0, 1, 2].map((part) => keys.filter((_, i) => i % 3 === part));
      const blobs = reducer.reduce?.(
        leaves.map((leaf) => slice(entriesOf(valueRows(leaf, leaf)))),
      ) as Uint8Array[];
      const [root] = reducer.rereduce?.([blobs]) as Uint8Array[];
      expect(root?.length).toBeLessThan(1100);
      const reductions = root ? [root] : [];
      expect(reducer.evaluate(0, { count: n, slices: [], reductions })).toEqual({
        value: String(estimate(keys)),
      });
    }
  });

  test("the published bias is met at both ends and in the middle", () => {
    const mean = (...biases: number[]): number => biases.reduce((a, b) => a + b) / 6;
    expect(estimateBias(1000)).toBeCloseTo(
      mean(1476, 1449.6014, 1423.5802, 1397.7942, 1372.3042, 1347.2062),
      9,
    );
    expect(estimateBias(11000)).toBeCloseTo(
      mean(-5.6016, -8.422, -9.4374, 0.1618, -10.4756, -10.0824),
      9,
    );
    expect(estimateBias(5048)).toBeCloseTo(
      mean(143.4344, 138.5238, 133.13, 127.6374, 124.8162, 148.1596),
      9,
    );
  });
});

test("a rank counts the zeros after the register's bits, over both words", () => {
  expect(rankOfHash(0xffffffff | 0, 0)).toBe(1);
  expect(rankOfHash(0xffe00001 | 0, 0)).toBe(21);
  expect(rankOfHash(0xffe00000 | 0, 0x80000000 | 0)).toBe(22);
  expect(rankOfHash(0xffe00000 | 0, 0x00200000)).toBe(32);
  expect(rankOfHash(0xffe00000 | 0, 0x00100000)).toBe(33);
  expect(rankOfHash(0xffe00000 | 0, 1)).toBe(53);
  expect(rankOfHash(0xffe00000 | 0, 0)).toBe(54);
});

describe("external terms", () => {
  const encode = (json: string): string => {
    const writer = new TermWriter();
    writer.encode(json);
    return writer.bytes.subarray(0, writer.length).toString("hex");
  };

  test.each([
    ["0", "836100"],
    ["255", "8361ff"],
    ["256", "836200000100"],
    ["-1", "8362ffffffff"],
    ["-2147483648", "836280000000"],
    ["2147483648", "836e040000000080"],
    ["-2147483649", "836e040101000080"],
    ["1.5", "83463ff8000000000000"],
    ["1e+21", "8346444b1ae4d6e2ef50"],
    ['"aé"', "836d0000000361c3a9"],
    ["[]", "836a"],
    ["[1,255]", "836b000201ff"],
    ["[1,256]", "836c00000002610162000001006a"],
    ["{}", "8368016a"],
    ['{"a":null}', "8368016c0000000168026d00000001616400046e756c6c6a"],
    ["true", "8364000474727565"],
    ["-18446744073709551616", "836e0901000000000000000001"],
  ])("%s", (json, hex) => {
    expect(encode(json)).toBe(hex);
  });

  test("SHA-1 is that of node, at every length around the block", () => {
    const out = new Int32Array(5);
    for (let length = 0; length < 200; length++) {
      const bytes = Uint8Array.from({ length }, (_, i) => (i * 31 + length) & 255);
      sha1(bytes, length, out);
      const hex = Array.from(out, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
      expect(hex).toBe(createHash("sha1").update(bytes).digest("hex"));
    }
  });
});
