// The tree's main promise: after any sequence of batches it answers as a sorted map does, and readers of earlier states are
// not disturbed. Nodes are tiny, so that a few dozen entries make several levels.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  assembleForests,
  type Bytes,
  type Forest,
  MemoryStorage,
  NodeCache,
  type Reducer,
  Store,
  TreeBuilder,
  type TreeOp,
  type TreeReader,
  verifyStore,
} from "../../btree/index.js";
import { compareBytes } from "../../btree/bytes.js";
import { checkTree } from "./tree-check.js";
import {
  countingReducer,
  expectSame,
  expectSameRange,
  expectSameRows,
  hex,
  lateSummingReducer,
  summingReducer,
  textOf,
  TreeModel,
} from "./tree-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 60);
const NO_STATE = new Uint8Array(0);

const group = fc.array(fc.constantFrom(1, 2, 255), { maxLength: 3 });
const rest = fc.oneof(
  { weight: 6, arbitrary: fc.array(fc.constantFrom(0, 1, 7, 128, 255), { maxLength: 4 }) },
  { weight: 1, arbitrary: fc.array(fc.constant(9), { minLength: 40, maxLength: 80 }) },
);
const key: fc.Arbitrary<Bytes> = fc
  .tuple(group, rest)
  .map(([g, r]) => Uint8Array.from([...g, 0, ...r]));
const value: fc.Arbitrary<Bytes> = fc.oneof(
  { weight: 8, arbitrary: fc.uint8Array({ maxLength: 6 }) },
  { weight: 1, arbitrary: fc.uint8Array({ minLength: 30, maxLength: 90 }) },
);

function batchOf(op: fc.Arbitrary<TreeOp>, maxLength: number): fc.Arbitrary<TreeOp[]> {
  return fc.array(op, { maxLength }).map((ops) => {
    const unique = new Map(ops.map((each) => [hex(each.key), each]));
    return [...unique.values()].sort((a, b) => compareBytes(a.key, b.key));
  });
}

const put: fc.Arbitrary<TreeOp> = fc.record({ key, value });
const change: fc.Arbitrary<TreeOp> = fc.record({
  key,
  value: fc.option(value, { nil: undefined, freq: 2 }),
});
const removal: fc.Arbitrary<TreeOp> = fc.record({ key, value: fc.constant(undefined) });
const batches = fc.array(
  fc.oneof(batchOf(put, 60), batchOf(change, 30), batchOf(removal, 80), batchOf(change, 2)),
  {
    maxLength: 8,
  },
);
const bound = fc.option(
  fc.oneof(
    key,
    fc.array(fc.constantFrom(0, 1, 2, 255), { maxLength: 3 }).map((b) => Uint8Array.from(b)),
  ),
  { nil: undefined },
);
const ranges = fc.array(fc.record({ gte: bound, lt: bound }), { minLength: 3, maxLength: 3 });

const reducers = [
  ["counts only", countingReducer, countingReducer],
  ["sums", summingReducer, summingReducer],
  ["sums that come later", lateSummingReducer, summingReducer],
] as const;

/** Lookups, one by one and together, of keys that are there and of keys that are not. */
function expectFound(reader: TreeReader, model: TreeModel, ops: readonly TreeOp[]): void {
  const keys = ops.map((op) => op.key).sort(compareBytes);
  const expected = keys.map((each) => textOf(model.get(each)));
  expect(reader.getMany(keys).map(textOf)).toEqual(expected);
  expect(keys.map((each) => textOf(reader.get(each)))).toEqual(expected);
}

/** What another process reads, and the proof of the file. */
async function expectCommitted(
  store: Store,
  storage: MemoryStorage,
  reducer: Reducer,
  model: TreeModel,
  reduces: boolean,
): Promise<void> {
  await store.commit({ sync: true });
  const image = new MemoryStorage(storage.read(0, storage.size()));
  const reducers = () => reducer;
  const other = await Store.open(image, { mode: "read", reducers, cache: new NodeCache(20_000) });
  expectSame(other.snapshot().tree("t"), model, reduces);
  await other.close();
  const seen: string[] = [];
  const report = await verifyStore(image, {
    reducers,
    checkValue: (_tree, key, value) => {
      seen.push(`${hex(key)}=${hex(value)}`);
      return undefined;
    },
  });
  expect(report.faults).toEqual([]);
  expect(seen).toEqual(model.entries().map(({ key, value }) => `${hex(key)}=${hex(value)}`));
}

describe.each(reducers)("a tree that keeps %s", (_name, reducer, sameAtOnce) => {
  const reduces = reducer.reduce !== undefined;

  test("equals a sorted map after any sequence of batches, and earlier snapshots stay as they were", async () => {
    await fc.assert(
      fc.asyncProperty(
        batches,
        ranges,
        fc.constantFrom(128, 200, 512),
        fc.constantFrom(undefined, 20, 60, 1000),
        fc.infiniteStream(fc.nat(7)),
        async (sequence, someRanges, leafBytes, entriesMax, dice) => {
          const log = entriesMax === undefined ? undefined : { entriesMax, bytesMax: 20_000 };
          const storage = new MemoryStorage();
          const store = await Store.create(storage, {
            log,
            state: NO_STATE,
            reducers: () => reducer,
            cache: new NodeCache(20_000),
            leafBytes,
            innerBytes: 128,
          });
          const model = new TreeModel();
          const kept = [];
          for (const ops of sequence) {
            kept.push({ reader: store.snapshot().tree("t"), model: model.copy() });
            await store.apply(new Map([["t", ops]]), NO_STATE);
            model.apply(ops);
            if (ops.length % 3 === 0) await store.commit({ sync: ops.length % 2 === 0 });
            const reader = store.snapshot().tree("t");
            // Now and then nobody reads, so that several batches are made into nodes at once.
            if (dice.next().value === 0) continue;
            expectFound(reader, model, sequence.flat());
            expectSame(reader, model, reduces);
            for (const range of someRanges) expectSameRange(reader, model, range, reduces);
            if (dice.next().value === 0) {
              await store.settle();
              expectSame(store.snapshot().tree("t"), model, reduces);
            }
            if (store.stats().trees.every(({ waiting }) => waiting === 0))
              checkTree(store, "t", sameAtOnce);
            await expectCommitted(store, storage, reducer, model, reduces);
          }
          kept.push({ reader: store.snapshot().tree("t"), model });
          for (const each of kept) expectSame(each.reader, each.model, reduces);
          expectSameRows(store.snapshot().tree("t"), model);
          await store.close();
        },
      ),
      { numRuns: runs },
    );
  });

  test("is the same tree when it is built in bulk from any partitions", async () => {
    await fc.assert(
      fc.asyncProperty(
        batchOf(put, 200),
        fc.array(bound, { maxLength: 4 }),
        ranges,
        async (ops, cuts, someRanges) => {
          const store = await Store.create(new MemoryStorage(), {
            state: NO_STATE,
            reducers: () => reducer,
            cache: new NodeCache(20_000),
            leafBytes: 128,
            innerBytes: 128,
          });
          const model = new TreeModel();
          model.apply(ops);
          const sorted = cuts.filter((cut) => cut !== undefined).sort(compareBytes);
          const forests: Forest[] = [];
          for (let i = 0; i <= sorted.length; i++) {
            const builder = new TreeBuilder(store.sink(), store.format, reducer);
            for (const entry of model.entries({ gte: sorted[i - 1], lt: sorted[i] })) {
              builder.add(entry.key, 0, entry.key.length, entry.value, 0, entry.value.length);
              if (builder.needsDrain) await builder.drain();
            }
            forests.push(structuredClone(await builder.finishPartition()));
          }
          const root = await assembleForests(store.sink(), store.format, reducer, forests);
          store.adopt(new Map([["t", root]]), NO_STATE);

          const reader = store.snapshot().tree("t");
          expectSame(reader, model, reduces);
          expectSameRows(reader, model);
          for (const range of someRanges) expectSameRange(reader, model, range, reduces);
          checkTree(store, "t", sameAtOnce);
          await store.close();
        },
      ),
      { numRuns: runs },
    );
  });
});

test("getMany finds what get finds", async () => {
  await fc.assert(
    fc.asyncProperty(batchOf(put, 120), fc.array(key, { maxLength: 40 }), async (ops, keys) => {
      const store = await Store.create(new MemoryStorage(), {
        state: NO_STATE,
        reducers: () => countingReducer,
        leafBytes: 128,
        innerBytes: 128,
      });
      await store.apply(new Map([["t", ops]]), NO_STATE);
      const model = new TreeModel();
      model.apply(ops);
      const reader = store.snapshot().tree("t");
      const sought = [...keys, ...ops.map((op) => op.key)].sort(compareBytes);

      expect(reader.getMany(sought).map(textOf)).toEqual(
        sought.map((each) => textOf(model.get(each))),
      );
      expect(sought.map((each) => textOf(reader.get(each)))).toEqual(
        sought.map((each) => textOf(model.get(each))),
      );
      await store.close();
    }),
    { numRuns: runs },
  );
});
