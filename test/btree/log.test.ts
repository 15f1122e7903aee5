// Small batches wait in the file's log: what that costs, who sees them, and when they are applied. That readers see the same either way is
// in tree.property.test.ts, what crashes leave in crash.test.ts.

import { describe, expect, test } from "@jest/globals";
import { MemoryStorage, NodeCache, Store, type LogLimits, type TreeOp } from "../../btree/index.js";
import {
  bytesOf,
  countingReducer,
  entriesRead,
  expectSame,
  lateSummingReducer,
  rowsIn,
  summingReducer,
  textOf,
  TreeModel,
} from "./tree-model.js";

const LOG: LogLimits = { entriesMax: 100, bytesMax: 10_000 };

function puts(from: number, count: number, text: string): TreeOp[] {
  return Array.from({ length: count }, (_, i) => ({
    key: bytesOf(`${String(100 + ((from + i) >> 3))}\0${String(1000 + from + i)}`),
    value: bytesOf(`${text}${i}`),
  }));
}

const byName = (tree: string) =>
  tree === "late" ? lateSummingReducer : tree === "sums" ? summingReducer : countingReducer;

/** A store of small nodes whose trees hold `puts(0, 400, "v")`, and their model. */
async function filled(
  log: LogLimits | undefined,
  trees = ["counts"],
): Promise<{ storage: MemoryStorage; store: Store; model: TreeModel }> {
  const storage = new MemoryStorage();
  const store = await Store.create(storage, {
    state: bytesOf(""),
    reducers: byName,
    cache: new NodeCache(200_000),
    leafBytes: 256,
    innerBytes: 256,
    log,
  });
  const ops = puts(0, 400, "v");
  const model = new TreeModel();
  model.apply(ops);
  await store.apply(new Map(trees.map((tree) => [tree, ops])), bytesOf("0"));
  await store.commit({ sync: true });
  return { storage, store, model };
}

function reopened(storage: MemoryStorage, mode: "read" | "write", log?: LogLimits): Promise<Store> {
  const image = mode === "read" ? storage : new MemoryStorage(storage.read(0, storage.size()));
  return Store.open(image, { mode, reducers: byName, cache: new NodeCache(200_000), log });
}

describe("a small batch", () => {
  test("reads no node, writes one record, and is found by lookups and scans without a node more", async () => {
    const { store, storage } = await filled(LOG);
    await store.close();
    const again = await reopened(storage, "write", LOG);
    const ops = [{ key: bytesOf("100\0nothing"), value: undefined }, ...puts(8, 1, "new")];

    const stats = await again.apply(new Map([["counts", ops]]), bytesOf("1"));

    expect(stats).toMatchObject({
      logged: 2,
      inserted: 0,
      replaced: 0,
      removed: 0,
      recordsRead: 0,
    });
    expect(stats.bytesWritten).toBeLessThan(60);
    const reader = again.snapshot().tree("counts");
    expect(textOf(reader.get(puts(8, 1, "")[0]?.key ?? bytesOf("")))).toBe("new0");
    expect(again.stats().cache.misses).toBe(0);
    expect(entriesRead(reader, { gte: bytesOf("101"), lt: bytesOf("102") })).toHaveLength(8);
    await again.close();
  });

  test("waits for as many as the bounds allow, then all are applied in one go", async () => {
    const { store, model } = await filled(LOG);
    const waiting: number[] = [];
    let applied = 0;
    for (let batch = 0; batch < 12; batch++) {
      const ops = puts(batch * 20, 30, `batch ${batch} `);
      const { replaced } = await store.apply(new Map([["counts", ops]]), bytesOf(""));
      applied += replaced;
      model.apply(ops);
      waiting.push(store.stats().trees[0]?.waiting ?? -1);
    }

    expect(waiting).toEqual([30, 60, 90, 0, 30, 60, 90, 0, 30, 60, 90, 0]);
    // Batches overlap by ten keys, which are written once.
    expect(applied).toBe(3 * (4 * 30 - 3 * 10));
    expectSame(store.snapshot().tree("counts"), model, false);
    await store.close();
  });

  test("that alone is beyond the bounds goes to the tree", async () => {
    const { store } = await filled({ entriesMax: 100, bytesMax: 300 });

    const many = await store.apply(new Map([["counts", puts(0, 20, "x")]]), bytesOf(""));
    const few = await store.apply(new Map([["counts", puts(0, 3, "y")]]), bytesOf(""));

    expect([many.logged, many.replaced, few.logged]).toEqual([0, 20, 3]);
    await store.close();
  });

  test("of a tree whose reductions come later goes to the tree", async () => {
    const { store } = await filled(LOG, ["late", "sums"]);
    const ops = puts(0, 5, "x");

    const stats = await store.apply(
      new Map([
        ["late", ops],
        ["sums", ops],
      ]),
      bytesOf(""),
    );

    expect(stats).toMatchObject({ logged: 5, replaced: 5 });
    await store.close();
  });

  test("that fails for one tree is in no tree's log", async () => {
    const { store, model } = await filled(LOG, ["counts", "late"]);
    const unsorted = puts(0, 200, "x").reverse();

    const failed = await store
      .apply(
        new Map([
          ["counts", puts(0, 5, "x")],
          ["late", unsorted],
        ]),
        bytesOf("1"),
      )
      .catch((error: unknown) => error);

    expect(failed).toMatchObject({ code: "BTREE_KEY_ORDER" });
    expectSame(store.snapshot().tree("counts"), model, false);
    expect(textOf(store.state)).toBe("0");
    await store.close();
  });
});

describe("what waits", () => {
  test("is followed by readers, who read the new batches only and keep their snapshots", async () => {
    const { store, storage, model } = await filled(LOG, ["sums"]);
    const reader = await reopened(storage, "read");
    const kept: { reader: ReturnType<typeof tree>; model: TreeModel }[] = [];
    const tree = () => reader.snapshot().tree("sums");
    for (let batch = 0; batch < 8; batch++) {
      const ops = puts(batch * 9, 25, `batch ${batch} `);
      await store.apply(new Map([["sums", ops]]), bytesOf(String(batch)));
      await store.commit({ sync: batch % 2 === 0 });
      model.apply(ops);

      expect(reader.refresh()).toBe(true);

      if (batch % 3 !== 1) expectSame(tree(), model, true);
      kept.push({ reader: tree(), model: model.copy() });
    }
    for (const each of kept) expectSame(each.reader, each.model, true);
    expect(new Set(kept.map((each) => each.reader.version)).size).toBe(kept.length);
    await reader.close();
    await store.close();
  });

  test("is there after reopening, also for a writer without a log, who applies it with its next batch", async () => {
    const { store, storage, model } = await filled(LOG, ["sums"]);
    const ops = puts(50, 40, "waits ");
    await store.apply(new Map([["sums", ops]]), bytesOf("1"));
    model.apply(ops);
    await store.commit({ sync: true });
    await store.close();

    const again = await reopened(storage, "write");
    expect(again.stats().trees[0]?.waiting).toBe(40);
    expectSame(again.snapshot().tree("sums"), model, true);
    const more = [{ key: ops[0]?.key ?? bytesOf(""), value: undefined }];
    await again.apply(new Map([["sums", more]]), bytesOf("2"));
    model.apply(more);

    expect(again.stats().trees[0]?.waiting).toBe(0);
    expectSame(again.snapshot().tree("sums"), model, true);
    await again.close();
  });

  test("is counted by looking up what it replaces: no inner node or leaf is made for it", async () => {
    const { store, model } = await filled(LOG);
    const kept: [ReturnType<typeof tree>, number][] = [];
    const tree = () => store.snapshot().tree("counts");
    const steps = [
      [...puts(0, 9, "there"), ...puts(500, 9, "new")],
      [...puts(4, 9, "").map(({ key }) => ({ key, value: undefined })), ...puts(505, 9, "more")],
      [...puts(8, 2, "again"), ...puts(900, 3, "").map(({ key }) => ({ key, value: undefined }))],
    ];
    for (const ops of steps) {
      await store.apply(new Map([["counts", ops]]), bytesOf("1"));
      model.apply(ops);
      kept.push([tree(), rowsIn(model.entries())]);
      expect(tree().count).toBe(rowsIn(model.entries()));
    }
    for (const [reader, rows] of kept) expect(reader.count).toBe(rows);
    await store.close();
  });

  test("is applied by settle, which changes nothing that is read", async () => {
    const { store, model } = await filled(LOG, ["sums", "counts"]);
    const ops = [...puts(0, 9, "x"), ...puts(500, 9, "y")];
    await store.apply(new Map([["sums", ops]]), bytesOf("1"));
    model.apply(ops);
    const before = store.snapshot().tree("sums");

    await store.settle();

    expect(store.stats().trees.map(({ waiting }) => waiting)).toEqual([0, 0]);
    expect(textOf(store.state)).toBe("1");
    expectSame(before, model, true);
    expectSame(store.snapshot().tree("sums"), model, true);
    await store.close();
  });

  test("makes a tree of its own, and can take one away", async () => {
    const { store, storage } = await filled({ entriesMax: 1000, bytesMax: 100_000 }, []);
    const ops = puts(0, 30, "x");
    await store.apply(new Map([["new", ops]]), bytesOf("1"));
    expect(store.snapshot().treeNames()).toEqual(["new"]);
    expect(store.snapshot().tree("new").count).toBeGreaterThan(29);
    await store.apply(
      new Map([["new", ops.map(({ key }) => ({ key, value: undefined }))]]),
      bytesOf("2"),
    );
    await store.commit({ sync: true });

    const reader = await reopened(storage, "read");
    expect(reader.snapshot().tree("new").count).toBe(0);
    expect(entriesRead(reader.snapshot().tree("new"))).toEqual([]);
    await reader.close();
    await store.settle();
    expect(store.snapshot().treeNames()).toEqual([]);
    await store.close();
  });
});

test("limits out of bounds are the caller's mistake", async () => {
  const create = (log: LogLimits) =>
    Store.create(new MemoryStorage(), { state: bytesOf(""), reducers: byName, log });

  await expect(create({ entriesMax: -1, bytesMax: 0 })).rejects.toThrow(RangeError);
  await expect(create({ entriesMax: 1, bytesMax: 1.5 })).rejects.toThrow("log.bytesMax");
});
