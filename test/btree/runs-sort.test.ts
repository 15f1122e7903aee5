// The order of a batch: keys as bytes, then ordinal, then cancels, then insertion.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import type { EntryBatch } from "../../btree/index.js";
import { batchOf, type ModelEntry, seededRandom } from "../helpers/run-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 200);

function readBack(batch: EntryBatch): string[] {
  return Array.from({ length: batch.length }, (_, i) => {
    const key = Buffer.from(batch.bytes.subarray(batch.keyStart(i), batch.keyEnd(i)));
    const value = Buffer.from(batch.bytes.subarray(batch.valueStart(i), batch.valueEnd(i)));
    return `${key.toString("hex")} ${batch.ordinal(i)} ${batch.flags(i)} ${value.toString("hex")}`;
  });
}

function modelSort(entries: readonly ModelEntry[]): string[] {
  return entries
    .map((entry, i) => ({ entry, i }))
    .sort(
      (a, b) =>
        Buffer.compare(a.entry.key, b.entry.key) ||
        a.entry.ordinal - b.entry.ordinal ||
        Number(b.entry.cancels) - Number(a.entry.cancels) ||
        a.i - b.i,
    )
    .map(
      ({ entry }) =>
        `${entry.key.toString("hex")} ${entry.ordinal} ${Number(entry.cancels)} ${entry.value.toString("hex")}`,
    );
}

function expectSorted(entries: readonly ModelEntry[]): void {
  const batch = batchOf(entries);
  batch.sort();
  expect(readBack(batch)).toEqual(modelSort(entries));
}

/** Keys of few different bytes, so that prefixes, zero bytes and repeats abound. */
const keyArbitrary = fc
  .tuple(
    fc.constantFrom("", "aaaaaaaaaaaaaaaaa", "\0\0\0\0\0\0\0", "ab"),
    fc.array(fc.constantFrom(0, 1, 97, 98, 255), { maxLength: 10 }),
  )
  .map(([head, tail]) => Buffer.concat([Buffer.from(head), Buffer.from(tail)]));

const entryArbitrary = fc.record({
  key: keyArbitrary,
  value: fc.integer({ min: 0, max: 255 }).map((n) => Buffer.from([n])),
  ordinal: fc.integer({ min: 0, max: 5 }),
  cancels: fc.boolean(),
});

describe("EntryBatch.sort", () => {
  test("orders any entries as the rule says", () => {
    fc.assert(
      fc.property(fc.array(entryArbitrary, { maxLength: 150 }), (entries) => {
        expectSorted(entries);
      }),
      { numRuns: runs },
    );
  });

  test.each([
    ["random digits", (r: () => number) => String(r()).padStart(12, "0")],
    ["few distinct keys", (r: () => number) => `type-of-document-${r() % 7}`],
    ["long shared prefixes", (r: () => number) => "x".repeat(r() % 200) + String(r() % 50)],
    ["keys that are prefixes of each other", (r: () => number) => "y".repeat(r() % 60)],
    ["keys that end in zero bytes", (r: () => number) => "k" + "\0".repeat(r() % 20)],
    ["one key", () => "same"],
  ])("orders 3000 entries with %s", (_, keyOf) => {
    const random = seededRandom(7);

    expectSorted(
      Array.from({ length: 3000 }, (_, i) => ({
        key: Buffer.from(keyOf(random)),
        value: Buffer.from([i & 255, i >> 8]),
        ordinal: random() % 1000,
        cancels: random() % 10 === 0,
      })),
    );
  });

  test("leaves sorted input as it is, and input in falling order turned round", () => {
    const ascending = Array.from({ length: 500 }, (_, i) => ({
      key: Buffer.from(String(i).padStart(20, "0")),
      value: Buffer.alloc(0),
      ordinal: i,
      cancels: false,
    }));

    expectSorted(ascending);
    expectSorted([...ascending].reverse());
  });

  test("sorts again after more entries were pushed, and starts anew after clear", () => {
    const entry = (key: string, ordinal: number): ModelEntry => ({
      key: Buffer.from(key),
      value: Buffer.alloc(0),
      ordinal,
      cancels: false,
    });
    const batch = batchOf([entry("b", 1), entry("a", 2)]);
    batch.sort();
    const start = batch.used;
    batch.ensure(1);
    batch.bytes[start] = 0x60;
    batch.used++;
    batch.push(start, batch.used, batch.used, batch.used, 3);
    batch.sort();
    expect(readBack(batch)).toEqual(["60 3 0 ", "61 2 0 ", "62 1 0 "]);

    batch.clear();
    expect(batch.length).toBe(0);
    expect(batch.used).toBe(0);
  });

  test("gives memory back that one huge chunk took", () => {
    const batch = batchOf([
      { key: Buffer.from("k"), value: Buffer.alloc(50_000_000), ordinal: 1, cancels: false },
    ]);
    expect(batch.memoryBytes).toBeGreaterThan(50_000_000);

    batch.clear();

    expect(batch.memoryBytes).toBeLessThan(40_000_000);
  });

  test("keeps ordinals up to 2^53 - 1 apart", () => {
    expectSorted(
      [2 ** 53 - 1, 2 ** 53 - 2, 2 ** 32, 0].map((ordinal) => ({
        key: Buffer.from("k"),
        value: Buffer.alloc(0),
        ordinal,
        cancels: false,
      })),
    );
  });
});

describe("EntryBatch.export and import", () => {
  test("carry entries into another batch", () => {
    const entries = Array.from({ length: 40 }, (_, i) => ({
      key: Buffer.from(`key${(i * 7) % 40}`),
      value: Buffer.from(`value${i}`),
      ordinal: i,
      cancels: false,
    }));
    const target = batchOf(entries.slice(0, 10));

    const source = batchOf(entries.slice(10));
    target.import(source.export());
    target.sort();

    expect(source.length).toBe(0);
    expect(readBack(target)).toEqual(modelSort(entries));
  });

  test("give entries and their bytes in order of keys", () => {
    const entries = ["b", "c", "a"].map((key, ordinal) => ({
      key: Buffer.from(key),
      value: Buffer.from(`${key}-${ordinal}`),
      ordinal,
      cancels: false,
    }));
    const { bytes, spans, ordinals } = batchOf(entries).export();

    expect([...ordinals]).toEqual([2, 0, 1]);
    expect(Buffer.from(bytes.subarray(0, spans.at(-1))).toString()).toBe("aa-2bb-0cc-1");
  });

  test("truncate takes back what was pushed last", () => {
    const entries = Array.from({ length: 5 }, (_, i) => ({
      key: Buffer.from([9 - i]),
      value: Buffer.alloc(3),
      ordinal: i,
      cancels: false,
    }));
    const batch = batchOf(entries.slice(0, 3));
    const { length, used } = batch;
    batch.import(batchOf(entries.slice(3)).export());

    batch.truncate(length, used);
    batch.sort();

    expect(readBack(batch)).toEqual(modelSort(entries.slice(0, 3)));
  });
});
