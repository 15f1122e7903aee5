// A sound file is proved, and whatever is wrong with a file is reported, all of it, with its place; nothing is thrown because of damage.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  MemoryStorage,
  NodeCache,
  Store,
  verifyStore,
  type VerifyReport,
  type TreeReport,
} from "../../btree/index.js";
import { DATA_START, SLOT_BYTES } from "../../btree/format.js";
import { readSlots, SEAL_OFFSET, trustedHeaders } from "../../btree/header.js";
import {
  bytesOf,
  countingReducer,
  entriesRead,
  hex,
  rowsIn,
  summingReducer,
  textOf,
} from "./tree-model.js";
import { CREATE, damagedCopy, reducers, soundStore, TreeCrafter } from "./verify-fixtures.js";

const runs = Number(process.env["TEST_RUNS"] ?? 100);
const folder = mkdtempSync(join(tmpdir(), "viewmill-verify-"));

afterAll(() => {
  rmSync(folder, { recursive: true });
});

function whats(report: VerifyReport): string[] {
  return report.faults.map(({ what }) => what);
}

/** All entries of all trees, or the code of the error that reading them ends with. */
async function contentOf(storage: MemoryStorage): Promise<string> {
  try {
    const store = await Store.open(storage, { mode: "read", reducers, cache: new NodeCache(1) });
    const snapshot = store.snapshot();
    const lines = [textOf(snapshot.state) ?? ""];
    for (const name of snapshot.treeNames()) {
      for (const { key, value } of entriesRead(snapshot.tree(name)))
        lines.push(`${name} ${hex(key)} ${hex(value)}`);
    }
    await store.close();
    return lines.join("\n");
  } catch (error) {
    return (error as { code: string }).code;
  }
}

describe("a sound file", () => {
  test("has no faults, and its parts add up", async () => {
    const { storage, models } = await soundStore(300);

    const report = await verifyStore(storage, { reducers, allCommits: true });

    expect(report.faults).toEqual([]);
    expect(report.notes).toEqual([]);
    expect(textOf(report.state)).toBe("state 2");
    expect(report.fileBytes).toBe(storage.size());
    expect(report.liveBytes + report.deadBytes).toBe(report.fileBytes);
    expect(report.deadBytes).toBeGreaterThan(0);
    expect(report.trees.map(({ name }) => name)).toEqual(["counts", "sums"]);
    for (const tree of report.trees) {
      const entries = models.get(tree.name)?.entries() ?? [];
      expect(tree.entries).toBe(entries.length);
      expect(tree.rows).toBe(rowsIn(entries));
      expect(tree.depth).toBeGreaterThan(2);
      expect(tree.innerNodes).toBeGreaterThan(1);
      expect(tree.fill).toBeGreaterThan(0.4);
      expect(tree.fill).toBeLessThanOrEqual(1);
      expect(tree.valueRecords).toBe(
        entries.filter(({ value }) => value.length > CREATE.valueBytesMax).length,
      );
    }
    const bytes = report.trees.reduce(
      (sum, tree) => sum + tree.leafBytes + tree.innerBytes + tree.valueBytes,
      0,
    );
    const rootsBytes = report.liveBytes - DATA_START - bytes;
    expect(rootsBytes).toBeGreaterThan(20);
    expect(rootsBytes).toBeLessThan(200);
  });

  test("may be new and empty", async () => {
    const storage = new MemoryStorage();
    await (await Store.create(storage, { state: bytesOf("s"), reducers })).close();

    const report = await verifyStore(storage, { reducers });

    expect(report).toMatchObject({ faults: [], notes: [], trees: [], commit: 1, deadBytes: 0 });
  });

  test("shows every entry to checkValue, in order, and reports what it says", async () => {
    const { storage, models } = await soundStore(40);
    const seen: string[] = [];

    const report = await verifyStore(storage, {
      reducers,
      checkValue: (tree, key, value) => {
        seen.push(`${tree} ${hex(key)} ${hex(value)}`);
        return tree === "sums" && seen.length % 10 === 0 ? "the owner dislikes it" : undefined;
      },
    });

    const expected = ["counts", "sums"].flatMap((tree) =>
      (models.get(tree)?.entries() ?? []).map(
        ({ key, value }) => `${tree} ${hex(key)} ${hex(value)}`,
      ),
    );
    expect(seen).toEqual(expected);
    expect(report.faults.length).toBeGreaterThan(0);
    for (const fault of report.faults) {
      expect(fault.tree).toBe("sums");
      expect(fault.what).toMatch(/^entry \d+ \(key [0-9a-f]+\): the owner dislikes it$/);
    }
  });

  test("is proved without reducers as far as that goes", async () => {
    const { storage, models } = await soundStore(100);

    const report = await verifyStore(storage, { reducers: () => undefined });

    expect(report.faults).toEqual([]);
    expect(report.trees.map(({ rows }) => rows)).toEqual(
      ["counts", "sums"].map((tree) => rowsIn(models.get(tree)?.entries() ?? [])),
    );
  });

  test("tells its progress, and can be given up", async () => {
    const { storage } = await soundStore(2000);
    const progress: number[] = [];
    let bytes = 0;

    await verifyStore(storage, {
      reducers,
      onProgress: (done, total) => {
        progress.push(done);
        bytes = total;
      },
    });
    const abort = new AbortController();
    const given = verifyStore(storage, {
      reducers,
      signal: abort.signal,
      onProgress: () => {
        abort.abort(new Error("enough"));
      },
    });

    await expect(given).rejects.toThrow("enough");
    expect(progress.length).toBeGreaterThan(3);
    expect([...progress].sort((a, b) => a - b)).toEqual(progress);
    expect(progress.at(-1)).toBeGreaterThanOrEqual(bytes);
  });
});

describe("damaged bytes", () => {
  test.each([
    ["", undefined],
    [", also in batches that wait", { entriesMax: 20, bytesMax: 10_000 }],
  ])("are found wherever they lie in a live record, and nowhere else%s", async (_name, log) => {
    const { storage } = await soundStore(24, 0, log);
    const sound = await verifyStore(storage, { reducers });
    const content = await contentOf(storage);
    let found = 0;

    for (let at = DATA_START; at < storage.size(); at++) {
      const copy = damagedCopy(storage, (bytes) => {
        bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
      });
      const report = await verifyStore(copy, { reducers });
      if (report.faults.length > 0) found++;
      else expect(await contentOf(copy)).toBe(content);
      for (const { offset } of report.faults) expect(offset).toBeLessThanOrEqual(at);
    }

    const total = (of: (tree: TreeReport) => number): number =>
      sound.trees.reduce((sum, tree) => sum + of(tree), 0);
    if (log) expect(total(({ waiting }) => waiting)).toBeGreaterThan(20);
    else expect(total(({ valueRecords }) => valueRecords)).toBeGreaterThan(2);
    // The roots records of the other slots must be there as well.
    const older = readSlots(storage).reduce(
      (sum, slot) =>
        typeof slot === "object" && "rootsSize" in slot && slot.commit !== sound.commit
          ? sum + slot.rootsSize
          : sum,
      0,
    );
    expect(found).toBe(sound.liveBytes - DATA_START + older);
  });

  test("in what a commit wrote before its only sync are found, and the commit before is opened", async () => {
    const { storage: closed } = await soundStore(24, 100_000);
    // As a process leaves it that was killed.
    const storage = damagedCopy(closed, (bytes) => {
      for (const slot of [0, 1])
        bytes.fill(0, slot * SLOT_BYTES + SEAL_OFFSET, (slot + 1) * SLOT_BYTES);
    });
    const [newest] = trustedHeaders(readSlots(storage), "");
    const start = newest?.tail?.start ?? 0;
    expect(start).toBeGreaterThan(DATA_START);

    for (let at = start; at < storage.size(); at++) {
      const copy = damagedCopy(storage, (bytes) => {
        bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
      });
      const report = await verifyStore(copy, { reducers });
      expect(report.faults[0]?.what).toContain("the store opens with the commit before");
      const store = await Store.open(copy, { mode: "read", reducers });
      expect(store.fellBack).toBe(true);
      await store.close();
    }
  });

  test("in a closed file are faults of their nodes, also where its last commit was one sync", async () => {
    const { storage } = await soundStore(24, 100_000);
    const [newest] = trustedHeaders(readSlots(storage), "");
    expect(newest?.tail).toBeUndefined();

    const copy = damagedCopy(storage, (bytes) => {
      const at = (newest?.rootsOffset ?? 0) - 3;
      bytes[at] = (bytes[at] as number) ^ 1;
    });

    const report = await verifyStore(copy, { reducers });
    expect(report.faults).toMatchObject([{ what: "checksum mismatch" }]);
    expect(report.commit).toBe(newest?.commit);
  });

  test("in a header slot are told as a note, for another slot is there", async () => {
    const { storage } = await soundStore(24);
    for (const slot of [0, 1]) {
      const copy = damagedCopy(storage, (bytes) => {
        bytes[slot * SLOT_BYTES + 40] = (bytes[slot * SLOT_BYTES + 40] as number) ^ 1;
      });

      const report = await verifyStore(copy, { reducers });

      expect(report.faults).toEqual([]);
      expect(report.notes.join()).toContain(`header slot ${slot === 0 ? "A" : "B"} is not intact`);
    }
  });

  test("in all header slots leave nothing to reach", async () => {
    const { storage } = await soundStore(24);
    const copy = damagedCopy(storage, (bytes) => bytes.fill(7, 0, DATA_START));

    const report = await verifyStore(copy, { reducers });

    expect(whats(report)).toEqual([
      "no header slot is intact, so nothing of the file can be reached",
    ]);
    expect(report).toMatchObject({ commit: undefined, state: undefined, trees: [], liveBytes: 0 });
  });

  test("are found in older commits when those are asked for", async () => {
    const { storage } = await soundStore(24);
    const lost: number[] = [];
    for (let at = DATA_START; at < storage.size(); at += 5) {
      const copy = damagedCopy(storage, (bytes) => {
        bytes[at] = (bytes[at] as number) ^ 0x10;
      });
      const newest = await verifyStore(copy, { reducers });
      const all = await verifyStore(copy, { reducers, allCommits: true });
      expect(all.faults.length).toBeGreaterThanOrEqual(newest.faults.length);
      if (newest.faults.length === 0 && all.faults.length > 0) lost.push(at);
    }

    expect(lost.length).toBeGreaterThan(10);
  });

  test("of any kind and number are reported, never thrown", async () => {
    const { storage } = await soundStore(60, 100_000);
    const content = await contentOf(storage);
    const size = storage.size();
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            at: fc.integer({ min: 0, max: size - 1 }),
            bytes: fc.uint8Array({ minLength: 1, maxLength: 40 }),
          }),
          { maxLength: 6 },
        ),
        fc.option(fc.integer({ min: 0, max: size }), { freq: 4 }),
        async (patches, length) => {
          const copy = damagedCopy(storage, (bytes) => {
            for (const patch of patches)
              bytes.set(patch.bytes.subarray(0, size - patch.at), patch.at);
          });
          if (length !== null) copy.truncate(length);

          const report = await verifyStore(copy, { reducers });

          // Damage that is not reported does not change what is read, or made an older commit the newest.
          if (report.faults.length === 0 && report.notes.length === 0)
            expect(await contentOf(copy)).toBe(content);
        },
      ),
      { numRuns: runs },
    );
  });

  test("that cut the file off are found at every length", async () => {
    const { storage } = await soundStore(24);
    for (let length = 0; length < storage.size(); length += 97) {
      const copy = damagedCopy(storage, () => undefined);
      copy.truncate(length);
      expect([length, (await verifyStore(copy, { reducers })).faults.length > 0]).toEqual([
        length,
        true,
      ]);
    }
  });
});

describe("nodes that are whole but wrong", () => {
  const a = [
    ["a1", "x"],
    ["a2", "y"],
  ] as const;
  const b = [
    ["b1", "x"],
    ["b2", "zz"],
  ] as const;

  test("are none in a tree put together rightly", async () => {
    const craft = await TreeCrafter.begin(summingReducer);
    const root = craft.inner([craft.leaf(a), craft.leaf(b, "b")], 1);

    const report = await verifyStore(await craft.finish("sums", root, 1), { reducers });

    expect(report.faults).toEqual([]);
    expect(report.trees).toMatchObject([
      { name: "sums", depth: 2, leafNodes: 2, innerNodes: 1, entries: 4 },
    ]);
  });

  test("keys out of order, repeated, or outside their bounds", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const wrong = craft.leaf([
      ["a2", "x"],
      ["a1", "x"],
    ]);
    const twice = craft.leaf(
      [
        ["b1", "x"],
        ["b1", "x"],
      ],
      "b",
    );
    const below = craft.leaf([["b9", "x"]], "c");
    const above = craft.leaf([["g", "x"]], "e");
    const last = craft.leaf([["g", "x"]], "f");
    const root = craft.inner([wrong, twice, below, above, last], 1);

    const report = await verifyStore(await craft.finish("counts", root, 1), { reducers });

    expect(report.faults).toEqual([
      { offset: wrong.offset, tree: "counts", what: "keys are not in ascending order" },
      { offset: twice.offset, tree: "counts", what: "keys are not in ascending order" },
      {
        offset: below.offset,
        tree: "counts",
        what: "the first key is below the node's lower bound",
      },
      {
        offset: above.offset,
        tree: "counts",
        what: "the last key is not below the next node's lower bound",
      },
    ]);
  });

  test("bounds of children out of order", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const leaves = ["", "c", "b"].map((low) => craft.leaf([[`${low}z`, "x"]], low));
    const root = craft.inner(leaves, 1);

    const report = await verifyStore(await craft.finish("counts", root, 1), { reducers });

    expect(report.faults[0]).toEqual({
      offset: root.offset,
      tree: "counts",
      what: "keys are not in ascending order",
    });
  });

  test("compression that hides what keys share, which a search would stumble over", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const root = craft.leaf(a, "", { whole: true });

    const report = await verifyStore(await craft.finish("counts", root, 0), { reducers });

    expect(whats(report)).toEqual(["keys share more bytes than their compression says"]);
  });

  test("a node of another height than its parent's place for it", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const child = craft.inner([craft.leaf(a)], 3);
    const root = craft.inner([child], 2);

    const report = await verifyStore(await craft.finish("counts", root, 2), { reducers });

    expect(report.faults).toEqual([
      { offset: child.offset, tree: "counts", what: "a node of height 3 where 1 was expected" },
    ]);
  });

  test("counts, live bytes and reductions that are not those of the node", async () => {
    const craft = await TreeCrafter.begin(summingReducer);
    const leaves = [
      { ...craft.leaf(a), count: 99 },
      { ...craft.leaf(b, "b"), bytes: 5000 },
      { ...craft.leaf([["c", "x"]], "c"), reduction: bytesOf("1") },
    ];
    const root = { ...craft.inner(leaves, 1), reduction: bytesOf("77") };

    const report = await verifyStore(await craft.finish("sums", root, 1), { reducers });

    expect(report.faults).toEqual([
      {
        offset: leaves[0]?.offset,
        tree: "sums",
        what: expect.stringMatching(
          /^the node has \d+ rows, its parent says 99$/,
        ) as unknown as string,
      },
      {
        offset: leaves[1]?.offset,
        tree: "sums",
        what: expect.stringMatching(
          /^\d+ bytes are in and below the node, its parent says 5000$/,
        ) as unknown as string,
      },
      {
        offset: leaves[2]?.offset,
        tree: "sums",
        what: "its parent's reduction of it is not the recomputed one",
      },
      {
        offset: root.offset,
        tree: "sums",
        what: "its parent's reduction of it is not the recomputed one",
      },
    ]);
  });

  test("a reduction where only counts are kept", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const root = { ...craft.leaf(a), reduction: bytesOf("7") };

    const report = await verifyStore(await craft.finish("counts", root, 0), { reducers });

    expect(whats(report)).toEqual(["a reduction in a tree that keeps only counts"]);
  });

  test("an out-of-line value that counts for other rows than its entry says", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const root = craft.leaf([["k", "long value"]], "", { pointerRows: 40 });

    const report = await verifyStore(await craft.finish("counts", root, 0), { reducers });

    expect(whats(report)).toEqual([
      expect.stringMatching(
        /^entry 0 \(key 6b\): the value at \d+ counts for \d rows, its entry says 40$/,
      ),
      expect.stringMatching(/^the node has \d rows, its parent says 40$/),
    ]);
  });

  test("a node that is reached twice, and a height that does not fit", async () => {
    const craft = await TreeCrafter.begin(countingReducer);
    const leaf = craft.leaf(a);
    const inner = craft.inner([leaf], 1);
    const low = craft.inner([{ ...leaf, low: bytesOf("b") }], 1);
    const root = craft.inner(
      [
        inner,
        { ...low, low: bytesOf("b") },
        { ...inner, low: bytesOf("c") },
        { ...leaf, low: bytesOf("d") },
      ],
      2,
    );

    const report = await verifyStore(await craft.finish("counts", root, 2), { reducers });

    expect(report.faults).toContainEqual({
      offset: inner.offset,
      tree: "counts",
      what: "the node is reached twice",
    });
    expect(report.faults).toContainEqual({
      offset: leaf.offset,
      tree: "counts",
      what: "the record is reached twice, also from tree counts",
    });
    expect(report.faults).toContainEqual({
      offset: leaf.offset,
      tree: "counts",
      what: "record of kind 1 where 2 was expected",
    });
  });

  test("a reducer that fails is a fault of each node it fails on", async () => {
    const { storage } = await soundStore(60);
    const report = await verifyStore(storage, {
      reducers: (tree) =>
        tree === "sums"
          ? {
              ...summingReducer,
              reduce: (leaves) => {
                if (leaves.some((leaf) => textOf(leaf.key(0))?.endsWith("0001")))
                  throw new Error("no sum");
                return summingReducer.reduce?.(leaves) ?? [];
              },
            }
          : countingReducer,
    });

    expect(whats(report)).toEqual(["its reduction cannot be recomputed: Error: no sum"]);
  });

  test("a reducer that cannot count a value is a fault of the entry", async () => {
    const { storage } = await soundStore(10);
    const report = await verifyStore(storage, {
      reducers: (tree) => ({
        ...reducers(tree),
        count: () => {
          throw new RangeError("no row value");
        },
      }),
    });

    expect(whats(report)[0]).toContain("its value cannot be understood: RangeError: no row value");
  });
});

describe("files that are no store", () => {
  test("a missing one is said to be missing", async () => {
    const path = join(folder, "missing.vmx");

    await expect(verifyStore(path, { reducers })).rejects.toMatchObject({
      code: "BTREE_NOT_FOUND",
      file: path,
    });
  });

  test.each([
    ["empty", 0],
    ["short", 100],
    ["long", 50_000],
  ])("one that is %s has faults", async (_, length) => {
    const path = join(folder, "other.txt");
    writeFileSync(path, "x".repeat(length));

    const report = await verifyStore(path, { reducers });

    expect(report.faults.length).toBeGreaterThan(0);
    expect(report.commit).toBeUndefined();
  });

  test("one behind whose commit more bytes follow has a note", async () => {
    const { storage } = await soundStore(10);
    const bytes = storage.read(0, storage.size());
    const longer = new MemoryStorage(bytes);
    longer.write(bytes.length, new Uint8Array(10));

    const report = await verifyStore(longer, { reducers });

    expect(report.faults).toEqual([]);
    expect(report.notes).toEqual(["10 bytes follow the last commit and belong to none"]);
    expect(report.liveBytes + report.deadBytes).toBe(bytes.length + 10);
  });

  test("the unsynced commit counts only while the machine is up", async () => {
    const storage = new MemoryStorage();
    const options = { reducers, bootId: "boot-1" };
    const store = await Store.create(storage, { ...CREATE, ...options, state: bytesOf("synced") });
    await store.apply(
      new Map([["counts", [{ key: bytesOf("k"), value: bytesOf("v") }]]]),
      bytesOf("soft"),
    );
    await store.commit({ sync: false });
    await store.close();

    const today = await verifyStore(storage, options);
    const later = await verifyStore(storage, { ...options, bootId: "boot-2" });

    expect([textOf(today.state), today.faults, today.notes]).toEqual(["soft", [], []]);
    expect([textOf(later.state), later.faults]).toEqual(["synced", []]);
    expect(later.notes.join()).toContain("written without a sync before the machine restarted");
  });
});
