// A compacted store holds what the old one does, is as small as one that was bulk loaded, and catches up with what happened meanwhile.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  assembleForests,
  Compaction,
  compactTree,
  MemoryStorage,
  NodeCache,
  type Reducer,
  Store,
  TreeBuilder,
  treeChanges,
  type TreeOp,
  type TreeReader,
  verifyStore,
} from "../../btree/index.js";
import {
  bytesOf,
  countingReducer,
  entriesRead,
  expectSame,
  hex,
  lateSummingReducer,
  summingReducer,
  textOf,
  TreeModel,
} from "./tree-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 60);
const folder = mkdtempSync(join(tmpdir(), "viewmill-compaction-"));
const small = { leafBytes: 256, innerBytes: 192, valueBytesMax: 64 } as const;

afterAll(() => {
  rmSync(folder, { recursive: true });
});

function reducers(tree: string): Reducer {
  if (tree === "late") return lateSummingReducer;
  return tree === "sums" ? summingReducer : countingReducer;
}

function newStore(): Promise<Store> {
  const log = { entriesMax: 30, bytesMax: 4000 };
  return Store.create(new MemoryStorage(), { ...small, state: bytesOf("new"), reducers, log });
}

/** Puts of keys 0…, so that a model and a store can be compared. */
function puts(from: number, to: number, value: string, step = 1): TreeOp[] {
  const ops: TreeOp[] = [];
  for (let i = from; i < to; i += step) ops.push({ key: keyOf(i), value: bytesOf(value) });
  return ops;
}

function removals(from: number, to: number, step = 1): TreeOp[] {
  return puts(from, to, "", step).map(({ key }) => ({ key, value: undefined }));
}

function keyOf(i: number): Uint8Array {
  return bytesOf(`group${Math.floor(i / 10)}\0${String(i).padStart(6, "0")}`);
}

function sorted(ops: readonly TreeOp[]): TreeOp[] {
  return [...ops].sort((a, b) => Buffer.compare(a.key, b.key));
}

async function bulkLoaded(model: TreeModel, tree: string): Promise<Store> {
  const store = await newStore();
  const builder = new TreeBuilder(store.sink(), store.format, reducers(tree));
  for (const { key, value } of model.entries())
    builder.add(key, 0, key.length, value, 0, value.length);
  const forest = await builder.finishPartition();
  const root = await assembleForests(store.sink(), store.format, reducers(tree), [forest]);
  store.adopt(new Map([[tree, root]]), bytesOf("new"));
  return store;
}

describe("Compaction", () => {
  test("copies all trees, verified, without dead bytes and as small as a bulk load", async () => {
    const source = await newStore();
    const trees = ["sums", "late", "counts"];
    const model = new TreeModel();
    for (const ops of [
      sorted(puts(0, 900, "v".repeat(90), 3)),
      sorted(puts(0, 900, "w", 2)),
      sorted(removals(100, 700)),
    ]) {
      model.apply(ops);
      await source.apply(new Map(trees.map((tree) => [tree, ops])), bytesOf("last state"));
    }
    const storage = new MemoryStorage();
    const target = await Store.create(storage, { ...small, state: bytesOf("new"), reducers });

    const compaction = new Compaction(source, target, { reducers });
    await compaction.copy();
    expect(await compaction.catchUp()).toBe(0);
    await target.commit({ sync: true });
    compaction.close();

    for (const tree of trees) expectSame(target.snapshot().tree(tree), model, tree !== "counts");
    expect(textOf(target.state)).toBe("last state");
    const report = await verifyStore(storage, { reducers });
    expect(report.faults).toEqual([]);
    // Only the roots record of the store's creation is dead.
    expect(report.deadBytes).toBeLessThan(100);
    const loaded = await bulkLoaded(model, "sums");
    expect(target.snapshot().tree("sums").root?.bytes).toBe(
      loaded.snapshot().tree("sums").root?.bytes,
    );
    expect(source.stats().snapshots).toBe(0);
  });

  test("catches up with updates made while it copies", async () => {
    const source = await newStore();
    const model = new TreeModel();
    const first = sorted(puts(0, 30_000, "v"));
    model.apply(first);
    await source.apply(new Map([["sums", first]]), bytesOf("0"));
    const target = await newStore();
    const compaction = new Compaction(source, target, { reducers });

    const work = { under: true };
    const copied = compaction.copy().finally(() => (work.under = false));
    let updates = 0;
    while (work.under || updates < 3) {
      updates++;
      const ops = sorted([
        ...puts(updates * 50, updates * 50 + 20, `u${updates}`),
        ...removals(29_000 + updates, 29_001 + updates),
      ]);
      model.apply(ops);
      await source.apply(new Map([["sums", ops]]), bytesOf(String(updates)));
      await new Promise((resolve) => setImmediate(resolve));
    }
    await copied;
    const operations = await compaction.catchUp();

    expect(updates).toBeGreaterThan(3);
    expect(operations).toBeGreaterThan(20);
    expectSame(target.snapshot().tree("sums"), model, true);
    expect(textOf(target.state)).toBe(String(updates));
    compaction.close();
  });

  test("equals the old store after any batches, before and after the copy", async () => {
    const opsArbitrary = fc
      .uniqueArray(
        fc.record({
          key: fc.integer({ min: 0, max: 150 }).map(keyOf),
          value: fc.option(
            fc
              .tuple(fc.constantFrom("a", "b"), fc.constantFrom(1, 5, 100))
              .map(([c, n]) => bytesOf(c.repeat(n))),
            { nil: undefined },
          ),
        }),
        { selector: ({ key }) => hex(key), maxLength: 80 },
      )
      .map(sorted);
    const batchesArbitrary = fc.array(fc.tuple(fc.constantFrom("sums", "counts"), opsArbitrary), {
      maxLength: 4,
    });
    await fc.assert(
      fc.asyncProperty(
        batchesArbitrary,
        fc.array(batchesArbitrary, { maxLength: 3 }),
        async (before, rounds) => {
          const source = await newStore();
          const target = await newStore();
          const models = new Map([
            ["sums", new TreeModel()],
            ["counts", new TreeModel()],
          ]);
          const apply = async (batches: typeof before, state: string): Promise<void> => {
            for (const [tree, ops] of batches) {
              models.get(tree)?.apply(ops);
              await source.apply(new Map([[tree, ops]]), bytesOf(state));
            }
          };
          await apply(before, "before");
          const compaction = new Compaction(source, target, { reducers });
          await compaction.copy();

          for (const [round, batches] of rounds.entries()) {
            await apply(batches, `round ${round}`);
            await compaction.catchUp();
          }

          for (const [tree, model] of models) {
            const reader = (rounds.length > 0 ? target : source).snapshot().tree(tree);
            expectSame(reader, model, tree === "sums");
          }
          if (rounds.length > 0) expect(textOf(target.state)).toBe(textOf(source.state));
          await source.close();
          await target.close();
        },
      ),
      { numRuns: runs },
    );
  });

  test("works from file to file, and the copy opens again", async () => {
    const source = await Store.create(join(folder, "old.vmx"), {
      ...small,
      state: bytesOf("s"),
      reducers,
    });
    const ops = sorted(puts(0, 500, "value"));
    const model = new TreeModel();
    model.apply(ops);
    await source.apply(new Map([["sums", ops]]), bytesOf("s"));
    const path = join(folder, "new.vmx");
    const target = await Store.create(path, { ...small, state: bytesOf("s"), reducers });
    const compaction = new Compaction(source, target, { reducers });
    await compaction.copy();
    await target.commit({ sync: true });
    compaction.close();
    await target.close();
    await source.close();

    const opened = await Store.open(path, { mode: "read", reducers });

    expectSame(opened.snapshot().tree("sums"), model, true);
    await opened.close();
    expect((await verifyStore(path, { reducers })).faults).toEqual([]);
  });

  test("tells its progress, and stops when it is aborted", async () => {
    const source = await newStore();
    await source.apply(new Map([["counts", sorted(puts(0, 60_000, "\0"))]]), bytesOf(""));
    const progress: number[] = [];
    const target = await newStore();
    const compaction = new Compaction(source, target, {
      reducers,
      onProgress: ({ tree, rowsDone, rowsTotal }) => {
        expect([tree, rowsTotal]).toEqual(["counts", 60_000]);
        progress.push(rowsDone);
      },
    });
    await compaction.copy();

    const abort = new AbortController();
    const given = new Compaction(source, await newStore(), {
      reducers,
      signal: abort.signal,
      onProgress: () => {
        abort.abort(new Error("enough"));
      },
    });
    await expect(given.copy()).rejects.toThrow("enough");

    expect(progress.length).toBeGreaterThan(1);
    expect([...progress].sort((a, b) => a - b)).toEqual(progress);
    expect(progress.at(-1)).toBe(60_000);
  });

  test("leaves the cache to queries", async () => {
    const cache = new NodeCache();
    const source = await Store.create(new MemoryStorage(), {
      ...small,
      state: bytesOf(""),
      reducers,
      cache,
    });
    await source.apply(new Map([["sums", sorted(puts(0, 2000, "value"))]]), bytesOf(""));
    const before = cache.stats();

    await new Compaction(source, await newStore(), { reducers }).copy();

    const { bytes, evictions } = cache.stats();
    expect({ bytes, evictions }).toEqual({ bytes: before.bytes, evictions: before.evictions });
  });

  test("passes on damage of the old store instead of copying less", async () => {
    const storage = new MemoryStorage();
    const source = await Store.create(storage, {
      ...small,
      state: bytesOf(""),
      reducers,
      oneSyncBytesMax: 0,
    });
    await source.apply(new Map([["sums", sorted(puts(0, 400, "value"))]]), bytesOf(""));
    await source.commit({ sync: true });
    await source.close();
    const bytes = storage.read(0, storage.size());
    bytes[20_000] = (bytes[20_000] as number) ^ 1;
    const damaged = await Store.open(new MemoryStorage(bytes), {
      mode: "read",
      reducers,
      cache: new NodeCache(1),
    });

    const compaction = new Compaction(damaged, await newStore(), { reducers });

    await expect(compaction.copy()).rejects.toMatchObject({ code: "BTREE_CORRUPT" });
  });
});

describe("compactTree", () => {
  test("copies a part of the keys, and parts join to the whole", async () => {
    const source = await newStore();
    const ops = sorted(puts(0, 300, "value"));
    const model = new TreeModel();
    model.apply(ops);
    await source.apply(new Map([["sums", ops]]), bytesOf(""));
    const reader = source.snapshot().tree("sums");
    const target = await newStore();
    const cut = keyOf(123);
    const forests = [];
    let rows = 0;
    for (const range of [{ lt: cut }, { gte: cut }]) {
      const builder = new TreeBuilder(target.sink(), target.format, summingReducer);
      rows += await compactTree(reader, builder, { range });
      forests.push(await builder.finishPartition());
    }
    const root = await assembleForests(target.sink(), target.format, summingReducer, forests);
    target.adopt(new Map([["sums", root]]), bytesOf(""));

    expectSame(target.snapshot().tree("sums"), model, true);
    expect(rows).toBe(reader.count);
  });
});

describe("treeChanges", () => {
  test("are exactly the keys that differ, in order", async () => {
    const store = await newStore();
    await store.apply(new Map([["t", sorted(puts(0, 400, "same"))]]), bytesOf(""));
    const before = store.snapshot();
    const ops = sorted([
      ...puts(10, 12, "same"),
      ...puts(50, 53, "new"),
      ...puts(1000, 1002, "added"),
      ...removals(200, 202),
      ...removals(5000, 5001),
    ]);
    await store.apply(new Map([["t", ops]]), bytesOf(""));
    const after = store.snapshot();

    const forth = [...treeChanges(before.tree("t"), after.tree("t"))];
    const back = [...treeChanges(after.tree("t"), before.tree("t"))];

    const shown = (list: readonly TreeOp[]): string[] =>
      list.map(({ key, value }) => `${hex(key)} ${textOf(value) ?? "-"}`);
    const changing = ops
      .filter(({ value }) => textOf(value) !== "same")
      .filter(({ key }) => hex(key) !== hex(keyOf(5000)));
    expect(shown(forth)).toEqual(shown(changing));
    expect(back.map(({ key }) => hex(key))).toEqual(changing.map(({ key }) => hex(key)));
    expect([...treeChanges(after.tree("t"), after.tree("t"))]).toEqual([]);
    expect([...treeChanges(before.tree("none"), after.tree("t"))]).toHaveLength(
      entriesRead(after.tree("t")).length,
    );
  });

  test("are the same between any two states, whatever waits in the log", async () => {
    const batch = fc.uniqueArray(
      fc.record({
        key: fc.nat(80).map(keyOf),
        value: fc.option(fc.constantFrom("a", "b").map(bytesOf), { nil: undefined }),
      }),
      { selector: ({ key }) => hex(key), maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { minLength: 1, maxLength: 12 }), async (batches) => {
        const store = await Store.create(new MemoryStorage(), {
          ...small,
          state: bytesOf(""),
          reducers,
          cache: new NodeCache(2 ** 20),
          log: { entriesMax: 25, bytesMax: 10_000 },
        });
        const model = new Map<string, string>();
        const states: { reader: TreeReader; model: Map<string, string> }[] = [];
        for (const ops of batches) {
          await store.apply(new Map([["t", sorted(ops)]]), bytesOf(""));
          for (const { key, value } of ops)
            if (value) model.set(hex(key), textOf(value) ?? "");
            else model.delete(hex(key));
          states.push({ reader: store.snapshot().tree("t"), model: new Map(model) });
        }

        for (const before of states)
          for (const after of states) {
            const expected = [...new Set([...before.model.keys(), ...after.model.keys()])]
              .filter((key) => before.model.get(key) !== after.model.get(key))
              .sort()
              .map((key) => `${key} ${after.model.get(key) ?? "-"}`);
            const found = [...treeChanges(before.reader, after.reader)];
            expect(found.map(({ key, value }) => `${hex(key)} ${textOf(value) ?? "-"}`)).toEqual(
              expected,
            );
          }
        await store.close();
      }),
      { numRuns: runs },
    );
  });

  test("read only nodes that differ", async () => {
    const cache = new NodeCache();
    const store = await Store.create(new MemoryStorage(), {
      ...small,
      state: bytesOf(""),
      reducers,
      cache,
    });
    await store.apply(new Map([["t", sorted(puts(0, 20_000, "value"))]]), bytesOf(""));
    const before = store.snapshot().tree("t");
    await store.apply(
      new Map([["t", [{ key: keyOf(7777), value: bytesOf("changed") }]]]),
      bytesOf(""),
    );
    const after = store.snapshot().tree("t");
    const asked = (): number => cache.stats().hits + cache.stats().misses;
    const start = asked();

    const changes = [...treeChanges(before, after)];

    expect(changes).toHaveLength(1);
    expect(after.root?.height).toBeGreaterThan(2);
    expect(asked() - start).toBeLessThanOrEqual(2 * ((after.root?.height ?? 0) + 1) + 4);
  });
});
