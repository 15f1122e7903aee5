// Files of every released format version stay readable. The fixtures were written once and are never written again.

import { readFileSync } from "node:fs";
import { expect, test } from "@jest/globals";
import { MemoryStorage, Store, verifyStore } from "../../btree/index.js";
import {
  bytesOf,
  expectSame,
  expectSameRange,
  summingReducer,
  textOf,
  TreeModel,
} from "./tree-model.js";

/** What the fixtures hold: three levels, values in records of their own, a replaced part, and commits of both kinds. */
function goldenModel(): TreeModel {
  const model = new TreeModel();
  for (let i = 0; i < 120; i++) {
    const key = bytesOf(`${String(100 + (i >> 3))}\0document ${String(1000 + i * 7)}`);
    const value =
      i % 30 === 4
        ? new Uint8Array(300).fill(i)
        : bytesOf(`value ${i % 10 === 0 ? "changed" : String(i)}`);
    model.apply([{ key, value }]);
  }
  return model;
}

/** Operations that wait in the file of version 2: three batches, the last of which removes what the one before put. */
const WAITING = 14;

test.each([
  { version: 1, waiting: 0 },
  { version: 2, waiting: WAITING },
])("a file of format version $version is read", async ({ version, waiting }) => {
  const image = readFileSync(
    new URL(`../../../test/fixtures/format/v${version}/store.vmx`, import.meta.url),
  );
  const storage = new MemoryStorage(image);
  expect(
    (await verifyStore(new MemoryStorage(image), { reducers: () => summingReducer })).faults,
  ).toEqual([]);
  const store = await Store.open(storage, { mode: "write", reducers: () => summingReducer });
  const model = goldenModel();

  expect(store.stats().trees.reduce((sum, tree) => sum + tree.waiting, 0)).toBe(waiting);

  expect(textOf(store.state)).toBe("golden");
  expect(store.snapshot().treeNames()).toEqual(["other", "tree"]);
  const reader = store.snapshot().tree("tree");
  expect(reader.root?.height).toBeGreaterThanOrEqual(2);
  expectSame(reader, model, true);
  expectSameRange(reader, model, { gte: bytesOf("103"), lt: bytesOf("111\0document 16") }, true);
  expect(textOf(store.snapshot().tree("other").get(bytesOf("key")))).toBe("value");

  // And written on.
  const op = { key: bytesOf("999\0new"), value: bytesOf("new") };
  await store.apply(new Map([["tree", [op]]]), bytesOf("more"));
  model.apply([op]);
  await store.commit({ sync: true });
  expectSame(store.snapshot().tree("tree"), model, true);
  await store.close();
});
