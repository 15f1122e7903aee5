// Sorting and encoding in WebAssembly: the same order and the same bytes as in JavaScript.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { EntryBatch } from "../../btree/index.js";
import { addEntries, type EncodeSegmentOptions } from "../../btree/runs/encode-segment.js";
import { RadixSorter } from "../../btree/runs/radix-sort.js";
import { SegmentEncoder } from "../../btree/runs/segment-encoder.js";
import { encodeByKernel, sortByKernel } from "../../btree/runs/segment-kernel.js";
import { batchOf, seededRandom, type ModelEntry } from "../helpers/run-model.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 100);

function sortedBoth(entries: readonly ModelEntry[]): EntryBatch {
  const batch = batchOf(entries);
  const other = batchOf(entries);
  expect(sortByKernel(batch.columns)).toBe(true);
  new RadixSorter().sort(other.columns);
  expect([...batch.columns.order.subarray(0, batch.length)]).toEqual([
    ...other.columns.order.subarray(0, other.length),
  ]);
  return batch;
}

function expectSameSegment(batch: EntryBatch, options: EncodeSegmentOptions): void {
  const [low, high] = batch.ordinalRange();
  const encoder = new SegmentEncoder(low, high, new Uint8Array(1024), options.blockBytes);
  addEntries(encoder, batch, options);
  const want = Buffer.from(encoder.finish());
  const got = encodeByKernel(batch, low, high, options);
  if (!got) throw new Error("the kernel made no segment; is it built (npm run build)?");
  expect(Buffer.compare(got, want)).toBe(0);
}

/** Values of equal keys and ordinals, joined. */
const joining: EncodeSegmentOptions = {
  combine: (batch, first, last) => {
    const values: Uint8Array[] = [];
    for (let i = first; i <= last; i++)
      values.push(batch.bytes.slice(batch.valueStart(i), batch.valueEnd(i)));
    const bytes = Buffer.concat(values);
    return { bytes, start: 0, end: bytes.length };
  },
};

const keys = fc
  .tuple(
    fc.constantFrom("", "", "aaaaaaaaaaaaaaaaa", "\0\0\0\0\0\0\0", "ab", "x".repeat(300)),
    fc.array(fc.constantFrom(0, 1, 97, 98, 255), { maxLength: 10 }),
  )
  .map(([head, tail]) => Buffer.concat([Buffer.from(head), Buffer.from(tail)]));
const entries = fc.record({
  key: keys,
  value: fc.oneof(
    fc.integer({ min: 0, max: 255 }).map((n) => Buffer.from([n])),
    fc.nat({ max: 400 }).map((n) => Buffer.alloc(n, n)),
  ),
  ordinal: fc.oneof(
    fc.integer({ min: 0, max: 5 }),
    fc.constantFrom(-1, 300, 70_000, 2 ** 33, 2 ** 52 + 1, 2 ** 53 - 1),
  ),
  cancels: fc.boolean(),
});
const batches = fc.array(entries, { minLength: 128, maxLength: 300 });

describe("sorting and encoding by the kernel", () => {
  test("gives the order and the bytes of JavaScript for any entries, blocks of any size, combined or not", () => {
    fc.assert(
      fc.property(
        batches,
        fc.constantFrom(undefined, 64, 1000),
        fc.boolean(),
        (list, blockBytes, combines) => {
          const batch = sortedBoth(list);

          expectSameSegment(batch, {
            ...(combines ? joining : {}),
            ...(blockBytes === undefined ? {} : { blockBytes }),
          });
        },
      ),
      // A list of hundreds of entries takes for ever to shrink.
      { numRuns: RUNS, endOnFailure: true },
    );
  });

  test.each([
    ["random digits", (r: () => number) => String(r()).padStart(12, "0")],
    ["few distinct keys", (r: () => number) => `type-of-document-${r() % 7}`],
    ["long shared prefixes", (r: () => number) => "x".repeat(r() % 200) + String(r() % 50)],
    ["keys that are prefixes of each other", (r: () => number) => "y".repeat(r() % 600)],
    ["keys that end in zero bytes", (r: () => number) => "k" + "\0".repeat(r() % 20)],
    ["one key", () => "same"],
  ])("agrees on 20 000 entries with %s", (_, keyOf) => {
    const random = seededRandom(7);

    const batch = sortedBoth(
      Array.from({ length: 20_000 }, (_unused, i) => ({
        key: Buffer.from(keyOf(random)),
        value: Buffer.from([i & 255, i >> 8]),
        ordinal: random() % 1000,
        cancels: random() % 10 === 0,
      })),
    );

    expectSameSegment(batch, {});
    expectSameSegment(batch, joining);
  });

  test("leaves what is too large to JavaScript: a combined value, a batch", () => {
    const list = Array.from({ length: 200 }, (_, i) => ({
      key: Buffer.from("k"),
      value: Buffer.alloc(1000, i),
      ordinal: 0,
      cancels: false,
    }));
    const batch = sortedBoth(list);
    const [low, high] = batch.ordinalRange();
    const huge = batchOf([
      ...list,
      { ...list[0], value: Buffer.alloc(70 * 2 ** 20) } as ModelEntry,
    ]);

    expect(encodeByKernel(batch, low, high, joining)).toBeUndefined();
    expect(sortByKernel(huge.columns)).toBe(false);
    expect(encodeByKernel(huge, 0, 0, {})).toBeUndefined();
  });

  test("may be asked to sort while it combines", () => {
    const list = Array.from({ length: 300 }, (_, i) => ({
      key: Buffer.from(String(i % 100)),
      value: Buffer.from([i & 255]),
      ordinal: 0,
      cancels: false,
    }));
    const batch = sortedBoth(list);
    const combine: EncodeSegmentOptions["combine"] = (of, first, last) => {
      batchOf(list).sort();
      return joining.combine?.(of, first, last) ?? { bytes: new Uint8Array(0), start: 0, end: 0 };
    };

    expectSameSegment(batch, { combine });
  });
});
