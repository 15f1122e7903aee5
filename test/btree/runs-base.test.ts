// A merge over an existing tree equals one in which the tree's entries are the oldest of all.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  MemoryStorage,
  Merger,
  type MergeOptions,
  NodeCache,
  type SegmentRef,
  Store,
  type TreeReader,
} from "../../btree/index.js";
import {
  entryText,
  type ModelEntry,
  modelMerge,
  type Outcome,
  writeSegments,
} from "../helpers/run-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 100);
const folder = mkdtempSync(join(tmpdir(), "viewmill-runs-"));
const path = join(folder, "test.run");

afterAll(() => {
  rmSync(folder, { recursive: true });
});

async function treeOf(entries: readonly ModelEntry[]): Promise<TreeReader> {
  const store = await Store.create(new MemoryStorage(), {
    state: new Uint8Array(0),
    reducers: () => ({ count: () => 1 }),
    leafBytes: 128,
    innerBytes: 128,
    cache: new NodeCache(2 ** 20),
  });
  const sorted = [...entries].sort((a, b) => Buffer.compare(a.key, b.key));
  await store.apply(
    new Map([["t", sorted.map(({ key, value }) => ({ key, value }))]]),
    new Uint8Array(0),
  );
  return store.snapshot().tree("t");
}

function mergedInSteps(refs: readonly SegmentRef[], options: MergeOptions, step: number): Outcome {
  const kept: string[] = [];
  const superseded: string[] = [];
  const merger = new Merger(
    refs,
    {
      ...options,
      onSuperseded: (kb, ks, ke, vb, vs, ve, ordinal) => {
        superseded.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
      },
    },
    (kb, ks, ke, vb, vs, ve, ordinal) => {
      kept.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
    },
  );
  while (merger.step(step));
  expect(merger.entriesKept).toBe(kept.length);
  return { kept, superseded: superseded.sort() };
}

const keyArbitrary = fc
  .array(fc.constantFrom(0, 97, 98, 255), { maxLength: 4 })
  .map((bytes) => Buffer.from(bytes));

const baseArbitrary = fc
  .uniqueArray(keyArbitrary, { selector: (key) => key.toString("hex"), maxLength: 60 })
  .map((keys) =>
    keys.map((key, i) => ({ key, value: Buffer.alloc(i % 30, i), ordinal: -1, cancels: false })),
  );

const feedsArbitrary = fc.array(
  fc.array(
    fc.record({
      key: keyArbitrary,
      value: fc.uint8Array({ maxLength: 9 }).map((bytes) => Buffer.from(bytes)),
      ordinal: fc.integer({ min: 0, max: 9 }),
      cancels: fc.boolean(),
    }),
    { maxLength: 20 },
  ),
  { maxLength: 4 },
);

describe("a merge over a base tree", () => {
  test("equals the model for any tree, feeds, range and step", async () => {
    await fc.assert(
      fc.asyncProperty(
        baseArbitrary,
        feedsArbitrary,
        fc.record({
          gte: fc.option(keyArbitrary, { nil: undefined }),
          lt: fc.option(keyArbitrary, { nil: undefined }),
        }),
        fc.constantFrom(1, 3, 1000),
        async (entries, feeds, range, step) => {
          const base = await treeOf(entries);
          const refs = writeSegments(path, feeds);

          expect(mergedInSteps(refs, { ...range, base }, step)).toEqual(
            modelMerge([entries, ...feeds], range),
          );
        },
      ),
      { numRuns: runs },
    );
  });

  test("lets a cancel of ordinal -1 remove the tree's entry, and no later row", async () => {
    const entry = (key: string, ordinal: number, cancels = false): ModelEntry => ({
      key: Buffer.from(key),
      value: Buffer.from(cancels ? "" : "v"),
      ordinal,
      cancels,
    });
    const base = await treeOf([entry("a", -1), entry("b", -1), entry("c", -1)]);
    const refs = writeSegments(path, [[entry("a", -1, true), entry("b", -1, true), entry("b", 4)]]);

    expect(mergedInSteps(refs, { base }, 2).kept).toEqual([
      entryText(Buffer.from("b"), Buffer.from("v"), 4),
      entryText(Buffer.from("c"), Buffer.from("v"), -1),
    ]);
  });
});
