// The store as its owners use it: creating and opening, snapshots, commits that others follow, bulk loads, limits.

import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, describe, expect, test } from "@jest/globals";
import {
  assembleForests,
  BTREE_ERROR_CODES,
  BtreeError,
  type CreateOptions,
  type Forest,
  isBtreeError,
  MemoryStorage,
  NodeCache,
  openBulkSink,
  Store,
  TreeBuilder,
  type TreeOp,
} from "../../btree/index.js";
import { writeU32 } from "../../btree/bytes.js";
import { DATA_START } from "../../btree/format.js";
import { bytesOf, caught, entriesRead, summingReducer, textOf } from "./tree-model.js";

const folder = mkdtempSync(join(tmpdir(), "viewmill-btree-"));
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const NOTHING = new Uint8Array(1);

let files = 0;
function newPath(): string {
  return join(folder, `${files++}.vmx`);
}

const counter = { count: () => 1 };
const reducers = () => counter;
const options: CreateOptions = { state: bytesOf("new"), reducers };

function puts(
  from: number,
  to: number,
  value: (i: number) => string = (i) => `value ${i}`,
): TreeOp[] {
  return Array.from({ length: to - from }, (_, i) => ({
    key: bytesOf(String(1_000_000 + from + i)),
    value: bytesOf(value(from + i)),
  }));
}

function batch(ops: readonly TreeOp[]): Map<string, readonly TreeOp[]> {
  return new Map([["t", ops]]);
}

describe("creating and opening", () => {
  test("a new store is empty, holds its state, and opens as it was left", async () => {
    const path = newPath();
    const store = await Store.create(path, options);
    expect(store.path).toBe(path);
    expect(store.snapshot().treeNames()).toEqual([]);
    expect(store.snapshot().tree("t").get(bytesOf("x"))).toBeUndefined();
    expect([...store.snapshot().tree("t").slices({})]).toEqual([]);
    await store.close();

    const again = await Store.open(path, { mode: "read", reducers });
    expect(textOf(again.state)).toBe("new");
    expect(again.fellBack).toBe(false);
    await again.close();
  });

  test("what exists is not created again, what does not is not opened", async () => {
    const path = newPath();
    await expect(Store.open(path, { mode: "write", reducers })).rejects.toMatchObject({
      code: "BTREE_NOT_FOUND",
      file: path,
    });
    await (await Store.create(path, options)).close();
    await expect(Store.create(path, options)).rejects.toMatchObject({
      code: "BTREE_EXISTS",
      file: path,
    });
  });

  test("a file that is no store is refused", async () => {
    const path = newPath();
    writeFileSync(path, "something else entirely");
    await expect(Store.open(path, { mode: "write", reducers })).rejects.toMatchObject({
      code: "BTREE_NO_HEADER",
    });
    expect(readFileSync(path, "utf8")).toBe("something else entirely");
  });

  test("a newer format is refused with its version", async () => {
    const { crc32 } = await import("node:zlib");
    const storage = new MemoryStorage();
    await (await Store.create(storage, options)).close();
    const slot = storage.read(0, 256);
    writeU32(slot, 8, 7);
    writeU32(
      slot,
      12,
      crc32(slot.subarray(0, 12), crc32(slot.subarray(16), crc32(slot.subarray(16, 32)))),
    );
    storage.write(0, slot);

    await expect(Store.open(storage, { mode: "read", reducers })).rejects.toMatchObject({
      code: "BTREE_VERSION_UNSUPPORTED",
      message: expect.stringContaining("7") as unknown,
      details: { version: 7 },
    });
  });

  test("node sizes out of bounds are the caller's mistake", async () => {
    await expect(Store.create(new MemoryStorage(), { ...options, leafBytes: 10 })).rejects.toThrow(
      RangeError,
    );
    await expect(
      Store.create(new MemoryStorage(), { ...options, innerBytes: 1e6 }),
    ).rejects.toThrow("innerBytes");
  });

  test("a closed store refuses, and closing twice is fine", async () => {
    const store = await Store.create(newPath(), options);
    await store.apply(batch(puts(0, 3)), bytesOf("1"));
    const reader = store.snapshot().tree("t");
    await store.close();
    await store.close();

    expect(caught(() => reader.get(bytesOf("1000001")))).toMatchObject({ code: "BTREE_NOT_OPEN" });
    expect(caught(() => store.snapshot())).toMatchObject({ code: "BTREE_NOT_OPEN" });
    await expect(store.commit({ sync: false })).rejects.toMatchObject({ code: "BTREE_NOT_OPEN" });
    await expect(store.apply(batch([]), bytesOf("2"))).rejects.toMatchObject({
      code: "BTREE_NOT_OPEN",
    });
  });

  test("a reader refuses to write", async () => {
    const path = newPath();
    await (await Store.create(path, options)).close();
    const store = await Store.open(path, { mode: "read", reducers });

    await expect(store.apply(batch([]), bytesOf("2"))).rejects.toMatchObject({
      code: "BTREE_READ_ONLY",
    });
    await expect(store.commit({ sync: true })).rejects.toMatchObject({ code: "BTREE_READ_ONLY" });
    expect(caught(() => store.bulk())).toMatchObject({ code: "BTREE_READ_ONLY" });
    await store.close();
  });

  test("opening gives the place of uncommitted bytes back", async () => {
    const path = newPath();
    const store = await Store.create(path, options);
    const committed = statSync(path).size;
    await store.apply(batch(puts(0, 5000)), bytesOf("1"));
    store.sink().flush();
    expect(statSync(path).size).toBeGreaterThan(committed);
    await store.close();

    const again = await Store.open(path, { mode: "write", reducers });
    expect(textOf(again.state)).toBe("new");
    expect(again.stats().fileBytes).toBe(committed);
    expect(statSync(path).size).toBe(committed);
    await again.close();
  });
});

describe("applying and committing", () => {
  test("all trees and the state become visible at once, to new snapshots only", async () => {
    const store = await Store.create(newPath(), options);
    const before = store.snapshot();
    await store.apply(
      new Map([
        ["a", puts(0, 3)],
        ["b", puts(0, 4)],
      ]),
      bytesOf("1"),
    );

    expect(before.treeNames()).toEqual([]);
    expect(textOf(before.state)).toBe("new");
    const after = store.snapshot();
    expect(after.treeNames().sort()).toEqual(["a", "b"]);
    expect(textOf(after.state)).toBe("1");
    expect([after.tree("a").count, after.tree("b").count, after.tree("c").count]).toEqual([
      3, 4, 0,
    ]);
    expect(store.stats().snapshots).toBe(2);
    before.release();
    before.release();
    after.release();
    expect(store.stats().snapshots).toBe(0);
    await store.close();
  });

  test("a tree that loses its last entry is gone", async () => {
    const store = await Store.create(newPath(), options);
    await store.apply(batch(puts(0, 2000)), bytesOf("1"));
    const stats = await store.apply(
      batch(puts(0, 2000).map(({ key }) => ({ key, value: undefined }))),
      bytesOf("2"),
    );

    expect(stats.removed).toBe(2000);
    expect(store.snapshot().treeNames()).toEqual([]);
    await store.close();
  });

  test("values that do not change are not written, and leaves without a change keep their node", async () => {
    const store = await Store.create(newPath(), options);
    await store.apply(batch(puts(0, 5000)), bytesOf("1"));
    const root = store.snapshot().tree("t").root;

    const same = await store.apply(batch(puts(0, 5000)), bytesOf("2"));
    expect(same).toMatchObject({
      unchanged: 5000,
      inserted: 0,
      replaced: 0,
      removed: 0,
      bytesWritten: 0,
    });
    expect(store.snapshot().tree("t").root).toBe(root);

    const absent = await store.apply(
      batch([{ key: bytesOf("0"), value: undefined }]),
      bytesOf("3"),
    );
    expect(absent).toMatchObject({ unchanged: 1, bytesWritten: 0 });

    // One leaf, and a node of each level above it.
    const one = await store.apply(batch(puts(2500, 2501, () => "changed")), bytesOf("4"));
    expect(one.replaced).toBe(1);
    expect(one.bytesWritten).toBeLessThan(3 * 4200);
    await store.close();
  });

  test("a batch reads each node it needs once and no other", async () => {
    const path = newPath();
    const store = await Store.create(path, { ...options, leafBytes: 512, innerBytes: 512 });
    await store.apply(batch(puts(0, 5000)), bytesOf("1"));
    await store.commit({ sync: false });
    await store.close();
    const again = await Store.open(path, { mode: "write", reducers, cache: new NodeCache(1) });
    const height = again.snapshot().tree("t").root?.height ?? 0;

    const spread = [...puts(10, 11, () => "x"), ...puts(4990, 4991, () => "x")];
    const stats = await again.apply(batch(spread), bytesOf("2"));

    expect(height).toBeGreaterThanOrEqual(2);
    expect(stats.recordsRead).toBeLessThanOrEqual(2 * (height + 1) + 1);
    await again.close();
  });

  test("heavy deletion leaves no hollow tree", async () => {
    const store = await Store.create(newPath(), options);
    await store.apply(batch(puts(0, 40_000)), bytesOf("1"));
    const full = store.stats().trees[0]?.bytes ?? 0;
    for (let part = 0; part < 19; part++) {
      const ops = puts(0, 40_000)
        .filter((_op, i) => i % 20 === part)
        .map(({ key }) => ({ key, value: undefined }));
      await store.apply(batch(ops), bytesOf(String(part)));
    }

    const tree = store.stats().trees[0];
    expect(tree?.count).toBe(2000);
    expect(tree?.bytes).toBeLessThan((full / 20) * 2.5);
    await store.close();
  });

  test.each([
    ["first", 0],
    ["middle", 0.5],
    ["last", 1],
  ])("the %s leaf is joined with a neighbour when it gets too small", async (_name, place) => {
    const store = await Store.create(newPath(), { ...options, leafBytes: 1024 });
    await store.apply(batch(puts(0, 1000)), bytesOf("1"));
    const before = [...store.snapshot().tree("t").slices({})];
    const leaf = before[Math.round((before.length - 1) * place)];
    expect(before.length).toBeGreaterThan(10);

    const ops: TreeOp[] = [];
    for (let i = 5; i < (leaf?.length ?? 0); i++)
      ops.push({ key: leaf?.key(i) ?? NOTHING, value: undefined });
    await store.apply(batch(ops), bytesOf("2"));

    const lengths = [...store.snapshot().tree("t").slices({})].map((slice) => slice.length);
    expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(1000 - ops.length);
    expect(Math.min(...lengths.slice(0, -1))).toBeGreaterThan(0.4 * Math.max(...lengths));
    expect(lengths.at(-1)).toBeGreaterThan(5);
    await store.close();
  });

  test("keys out of order and twice the same key are refused, and nothing changes", async () => {
    const store = await Store.create(newPath(), options);
    const [a, b] = puts(0, 2) as [TreeOp, TreeOp];

    await expect(store.apply(batch([b, a]), bytesOf("1"))).rejects.toMatchObject({
      code: "BTREE_KEY_ORDER",
    });
    await expect(store.apply(batch([a, a]), bytesOf("1"))).rejects.toMatchObject({
      code: "BTREE_KEY_ORDER",
    });
    expect(textOf(store.state)).toBe("new");
    await store.close();
  });

  test("two batches at a time are refused", async () => {
    const store = await Store.create(newPath(), options);
    const first = store.apply(batch(puts(0, 3)), bytesOf("1"));
    await expect(store.apply(batch(puts(3, 6)), bytesOf("2"))).rejects.toMatchObject({
      code: "BTREE_BUSY",
    });
    await first;
    expect(store.snapshot().tree("t").count).toBe(3);
    await store.close();
  });

  test("values of any length, empty keys and very long keys come back", async () => {
    const path = newPath();
    const store = await Store.create(path, options);
    const ops: TreeOp[] = [
      { key: bytesOf(""), value: bytesOf("empty key") },
      { key: bytesOf("a"), value: bytesOf("") },
      { key: bytesOf("b"), value: new Uint8Array(1024).fill(1) },
      { key: bytesOf("c"), value: new Uint8Array(1025).fill(2) },
      { key: bytesOf("d"), value: new Uint8Array(3_000_000).fill(3) },
      { key: new Uint8Array(200_000).fill(101), value: bytesOf("long key") },
      { key: new Uint8Array(200_001).fill(101), value: bytesOf("longer key") },
    ];
    await store.apply(batch(ops), bytesOf("1"));
    await store.commit({ sync: true });
    await store.close();

    const again = await Store.open(path, { mode: "write", reducers });
    const reader = again.snapshot().tree("t");
    const found = reader.getMany(ops.map((op) => op.key));
    expect(
      found.map((value, i) => Buffer.compare(value ?? NOTHING, ops[i]?.value ?? NOTHING)),
    ).toEqual(ops.map(() => 0));
    const entries = entriesRead(reader);
    expect(entries.map(({ key }, i) => Buffer.compare(key, ops[i]?.key ?? NOTHING))).toEqual(
      ops.map(() => 0),
    );
    expect(entries.map(({ value }, i) => Buffer.compare(value, ops[i]?.value ?? NOTHING))).toEqual(
      ops.map(() => 0),
    );
    expect(again.stats().liveBytes).toBeLessThanOrEqual(again.stats().fileBytes);
    const replaced = await again.apply(
      batch([{ key: bytesOf("d"), value: new Uint8Array(3_000_000).fill(3) }]),
      bytesOf("2"),
    );
    expect(replaced.unchanged).toBe(1);
    await again.close();
  });
});

describe("other handles on the same file", () => {
  test("a reader follows commits, with or without a sync, and keeps its snapshots", async () => {
    const path = newPath();
    const writer = await Store.create(path, options);
    const reader = await Store.open(path, { mode: "read", reducers });
    expect(reader.refresh()).toBe(false);
    await writer.apply(batch(puts(0, 1000)), bytesOf("1"));
    expect(reader.refresh()).toBe(false);

    await writer.commit({ sync: false });
    expect(reader.refresh()).toBe(true);
    const first = reader.snapshot().tree("t");
    expect(first.count).toBe(1000);
    await writer.apply(batch(puts(500, 2000, () => "new")), bytesOf("2"));
    await writer.commit({ sync: true });
    expect(reader.refresh()).toBe(true);
    expect(reader.refresh()).toBe(false);

    expect(textOf(reader.state)).toBe("2");
    expect(reader.snapshot().tree("t").count).toBe(2000);
    expect(first.count).toBe(1000);
    expect(textOf(first.get(bytesOf("1000600")))).toBe("value 600");
    expect(writer.refresh()).toBe(false);
    await reader.close();
    await writer.close();
  });

  test("an unsynced commit is trusted while the machine is up, and only then", async () => {
    const path = newPath();
    const writer = await Store.create(path, { ...options, bootId: "monday" });
    for (const state of ["1", "2", "3"]) {
      await writer.apply(batch(puts(0, 10, () => state)), bytesOf(state));
      await writer.commit({ sync: state === "1" });
    }
    await writer.close();

    for (const [bootId, state] of [
      ["monday", "3"],
      ["tuesday", "1"],
      ["", "1"],
    ] as const) {
      const store = await Store.open(path, { mode: "read", reducers, bootId });
      expect(textOf(store.state)).toBe(state);
      await store.close();
    }
    const next = await Store.open(path, { mode: "write", reducers, bootId: "tuesday" });
    await next.apply(batch(puts(0, 10, () => "4")), bytesOf("4"));
    await next.commit({ sync: true });
    await next.close();
    // The commit of Tuesday is newer than those that Monday did not sync.
    const late = await Store.open(path, { mode: "read", reducers, bootId: "monday" });
    expect(textOf(late.state)).toBe("4");
    await late.close();
  });

  test("a commit with nothing new writes nothing", async () => {
    const path = newPath();
    const store = await Store.create(path, options);
    await store.apply(batch(puts(0, 10)), bytesOf("1"));
    await store.commit({ sync: false });
    await store.commit({ sync: true });
    const size = store.stats().fileBytes;
    const commit = store.stats().commit;
    await store.commit({ sync: true });
    await store.commit({ sync: false });
    expect(store.stats()).toMatchObject({ fileBytes: size, commit });
    await store.close();
  });
});

describe("bulk loads", () => {
  test("several threads build one tree in one file while it is read", async () => {
    const path = newPath();
    const store = await Store.create(path, options);
    await store.apply(new Map([["old", puts(0, 50)]]), bytesOf("1"));
    await store.commit({ sync: true });
    const target = store.bulk();
    const script = new URL("./bulk-writer.js", import.meta.url);
    const parts = [0, 1, 2].map(
      (i) =>
        new Promise<Forest>((resolve, reject) => {
          const worker = new Worker(script, {
            workerData: { target, from: i * 7000, to: (i + 1) * 7000 },
          });
          worker.once("message", resolve);
          worker.once("error", reject);
        }),
    );
    const forests = await Promise.all(parts);
    const root = await assembleForests(store.sink(), target, counter, forests);
    store.adopt(
      new Map([
        ["t", root],
        ["old", undefined],
      ]),
      bytesOf("2"),
    );
    await store.commit({ sync: true });
    await store.close();

    const again = await Store.open(path, { mode: "write", reducers, cache: new NodeCache() });
    expect(again.snapshot().treeNames()).toEqual(["t"]);
    expect(entriesRead(again.snapshot().tree("t"))).toEqual(puts(0, 21_000));
    // The store goes on behind what the threads wrote.
    await again.apply(batch(puts(21_000, 21_010)), bytesOf("3"));
    await again.commit({ sync: true });
    expect(entriesRead(again.snapshot().tree("t"))).toEqual(puts(0, 21_010));
    await again.close();
  });

  test("a single writer leaves no gap, whatever its extents", async () => {
    for (const extentBytes of [0, 1024 * 1024]) {
      const store = await Store.create(newPath(), options);
      const sink = openBulkSink(store.bulk(), { extentBytes });
      const builder = new TreeBuilder(sink, store.format, counter);
      for (const { key, value } of puts(0, 30_000))
        builder.add(key, 0, key.length, value as Uint8Array, 0, value?.length ?? 0);
      const forest = await builder.finishPartition();
      sink.flush();
      const root = await assembleForests(store.sink(), store.format, counter, [forest]);
      store.adopt(new Map([["t", root]]), bytesOf("1"));
      await store.commit({ sync: true });
      sink.close();

      expect(forest).toMatchObject({ entries: 30_000, rows: 30_000 });
      expect(store.stats().fileBytes - store.stats().liveBytes).toBeLessThan(100);
      // 7-byte keys that share 6 and 11-byte values: two bytes a row at most for all the rest.
      expect(store.stats().liveBytes - DATA_START).toBeLessThan(30_000 * (2 + 11 + 2));
      await store.close();
    }
  });

  test("a builder refuses keys out of order, and partitions that overlap are refused", async () => {
    const store = await Store.create(new MemoryStorage(), options);
    const builder = new TreeBuilder(store.sink(), store.format, counter);
    const add = (text: string): void => {
      builder.add(bytesOf(text), 0, text.length, bytesOf(""), 0, 0);
    };
    add("b");
    for (const wrong of ["a", "b", ""]) {
      expect(
        caught(() => {
          add(wrong);
        }),
      ).toMatchObject({ code: "BTREE_KEY_ORDER" });
    }
    add("ba");
    const forest = await builder.finishPartition();
    await expect(
      assembleForests(store.sink(), store.format, counter, [forest, forest]),
    ).rejects.toMatchObject({
      code: "BTREE_KEY_ORDER",
    });
    expect(await assembleForests(store.sink(), store.format, counter, [])).toBeUndefined();
    expect(() => store.bulk()).toThrow(TypeError);
    await store.close();
  });

  test("a reducer's error ends the build", async () => {
    const store = await Store.create(new MemoryStorage(), options);
    const failing = {
      count: () => 1,
      reduce: () => Promise.reject(new Error("reduce is broken")),
      rereduce: () => [],
    };
    const builder = new TreeBuilder(store.sink(), store.format, failing);
    builder.add(bytesOf("a"), 0, 1, bytesOf("b"), 0, 1);
    await expect(builder.finishPartition()).rejects.toThrow("reduce is broken");
    await store.close();
  });
});

describe("reading", () => {
  test("groups open no node that lies in a group whole", async () => {
    const path = newPath();
    const store = await Store.create(path, { ...options, reducers: () => summingReducer });
    await store.apply(batch(puts(0, 50_000)), bytesOf("1"));
    await store.commit({ sync: false });
    await store.close();
    const cache = new NodeCache();
    const again = await Store.open(path, { mode: "read", reducers: () => summingReducer, cache });

    const [group, ...others] = again
      .snapshot()
      .tree("t")
      .groups({ gte: bytesOf("1000003") }, () => 2);

    expect(others).toEqual([]);
    expect(group?.reductions.length).toBeGreaterThan(100);
    expect(cache.stats().misses).toBeLessThan(10);
    await again.close();
  });

  test("the cache is bounded, counts, and forgets a store that closes", async () => {
    const path = newPath();
    const cache = new NodeCache(100_000);
    const store = await Store.create(path, { ...options, cache });
    await store.apply(batch(puts(0, 50_000)), bytesOf("1"));
    const reader = store.snapshot().tree("t");
    for (let i = 0; i < 50_000; i += 10) reader.get(bytesOf(String(1_000_000 + i)));

    const stats = cache.stats();
    expect(stats.bytes).toBeLessThanOrEqual(100_000);
    expect(stats.bytes).toBeGreaterThan(50_000);
    expect(stats.hits).toBeGreaterThan(stats.misses);
    expect(stats.evictions).toBeGreaterThan(100);
    await store.close();
    expect(cache.stats().bytes).toBe(0);
  });

  test.each(["writer", "reader"] as const)(
    "nodes that were replaced do not stay in the cache of the %s",
    async (who) => {
      const path = newPath();
      const cache = new NodeCache();
      const readerCache = new NodeCache();
      const reducing = { ...options, reducers: () => summingReducer };
      const store = await Store.create(path, { ...reducing, cache });
      await store.apply(batch(puts(0, 20_000)), bytesOf("1"));
      await store.commit({ sync: false });
      const reader = await Store.open(path, {
        mode: "read",
        reducers: () => summingReducer,
        cache: readerCache,
      });
      const readAll = (): void => {
        reader.refresh();
        entriesRead((who === "reader" ? reader : store).snapshot().tree("t"));
      };
      readAll();
      const before = (who === "reader" ? readerCache : cache).stats().bytes;

      for (let round = 0; round < 30; round++) {
        // Every other node and more.
        const ops = Array.from({ length: 300 }, (_, i) => ({
          key: bytesOf(String(1_000_000 + ((i * 67 + round) % 20_000))),
          value: bytesOf(`again ${round}`),
        })).sort((a, b) => Buffer.compare(a.key, b.key));
        await store.apply(batch(ops), bytesOf(String(round)));
        await store.commit({ sync: false });
        readAll();
      }

      const after = (who === "reader" ? readerCache : cache).stats().bytes;
      expect(after).toBeLessThan(before * 1.5);
      await reader.close();
      await store.close();
    },
  );

  test("a value stays valid after its node has left the cache", async () => {
    const store = await Store.create(new MemoryStorage(), { ...options, cache: new NodeCache(1) });
    await store.apply(batch(puts(0, 1000)), bytesOf("1"));
    const value = store.snapshot().tree("t").get(bytesOf("1000500"));
    entriesRead(store.snapshot().tree("t"));
    expect(textOf(value)).toBe("value 500");
    await store.close();
  });
});

test("errors can be told by their code, also without their class", () => {
  const error = new BtreeError("BTREE_CORRUPT", "text", { file: "f", offset: 3 });
  expect(error.name).toBe("BtreeError");
  expect(isBtreeError(error)).toBe(true);
  expect(isBtreeError(error, "BTREE_CORRUPT")).toBe(true);
  expect(isBtreeError(error, "BTREE_IO")).toBe(false);
  expect(isBtreeError({ code: "ENOENT" })).toBe(false);
  expect(isBtreeError(undefined)).toBe(false);
  for (const meaning of Object.values(BTREE_ERROR_CODES)) expect(meaning).toMatch(/^[a-z]/);
});
