// Damaged bytes are an error that names file and offset, or change nothing; never another row, a hang or any other exception.
// Every byte of a small file is damaged in turn, every record is cut off, doubled over another, swapped with another.

import { describe, expect, test } from "@jest/globals";
import { isBtreeError, MemoryStorage, NodeCache, Store, type TreeOp } from "../../btree/index.js";
import { readU32 } from "../../btree/bytes.js";
import { DATA_START, FRAME_BYTES, SLOT_BYTES } from "../../btree/format.js";
import { SEAL_OFFSET } from "../../btree/header.js";
import {
  bytesOf,
  entriesRead,
  groupLength,
  hex,
  summingReducer,
  sumOfParts,
  textOf,
} from "./tree-model.js";

const reducers = () => summingReducer;

/** A file with two commits, several levels, values of their own, and documents that hold copies of its own header and nodes. */
async function smallFile(
  oneSyncBytesMax: number,
  killed: boolean,
  log: boolean,
): Promise<Uint8Array> {
  const storage = new MemoryStorage();
  const cache = new NodeCache(100_000);
  const store = await Store.create(storage, {
    state: bytesOf("0"),
    reducers,
    cache,
    leafBytes: 200,
    innerBytes: 128,
    oneSyncBytesMax,
    log: log ? { entriesMax: 50, bytesMax: 10_000 } : undefined,
  });
  const ops: TreeOp[] = [];
  for (let i = 0; i < 60; i++) {
    const key = bytesOf(`${String(10 + (i >> 2))}\0${String(100 + i)}`);
    ops.push({ key, value: i % 20 === 7 ? new Uint8Array(80).fill(i) : bytesOf(`value ${i}`) });
  }
  await store.apply(new Map([["a", ops]]), bytesOf("1"));
  await store.commit({ sync: true });
  const nodes = storage.read(DATA_START, 400);
  const header = storage.read(0, 128);
  const hostile = [
    { key: bytesOf("h\0header"), value: header },
    { key: bytesOf("n\0nodes"), value: nodes },
  ];
  await store.apply(
    new Map([
      [
        "a",
        ops.filter((_op, i) => i % 5 === 0).map(({ key }) => ({ key, value: bytesOf("changed") })),
      ],
      ["b", hostile],
    ]),
    bytesOf("2"),
  );
  if (log) {
    // The second of a chain of two.
    const removal = { key: ops[5]?.key ?? header, value: undefined };
    await store.apply(new Map([["a", [removal]]]), bytesOf("2"));
    expect(store.stats().trees.map(({ waiting }) => waiting)).toEqual([13, 2]);
  }
  await store.commit({ sync: true });
  await store.close();
  const image = storage.read(0, storage.size());
  if (killed)
    for (const slot of [0, 1])
      image.fill(0, slot * SLOT_BYTES + SEAL_OFFSET, (slot + 1) * SLOT_BYTES);
  return image;
}

/** All that a file says, by every way of reading. */
async function readAll(image: Uint8Array): Promise<string> {
  const store = await Store.open(new MemoryStorage(image), {
    mode: "read",
    reducers,
    cache: new NodeCache(100_000),
    bootId: "",
  });
  try {
    const said: string[] = [textOf(store.state) ?? ""];
    const snapshot = store.snapshot();
    for (const name of snapshot.treeNames()) {
      const reader = snapshot.tree(name);
      const entries = entriesRead(reader);
      said.push(name, ...entries.map(({ key, value }) => `${hex(key)}=${hex(value)}`));
      said.push(
        String(sumOfParts(reader.parts({ gte: bytesOf("13"), lt: bytesOf("20") }))),
        String(reader.count),
      );
      for (const group of reader.groups({}, groupLength))
        said.push(`${hex(group.firstKey)} ${group.count} ${sumOfParts(group)}`);
      for (let row = 0; row < reader.count; row += 7)
        said.push(hex(reader.entryAtRow(row)?.key ?? new Uint8Array(0)));
      for (const { key } of entries) {
        said.push(String(reader.rank(key)), hex(reader.get(key) ?? new Uint8Array(0)));
      }
    }
    return said.join("\n");
  } finally {
    await store.close();
  }
}

/** The file as it was, or as it was one commit before (its header or roots gone), or an error of ours. */
async function expectHonest(
  image: Uint8Array,
  honest: readonly string[],
): Promise<"same" | "error"> {
  let said: string;
  try {
    said = await readAll(image);
  } catch (error) {
    if (!isBtreeError(error)) throw error;
    expect(["BTREE_CORRUPT", "BTREE_NO_HEADER", "BTREE_VERSION_UNSUPPORTED"]).toContain(error.code);
    if (error.code === "BTREE_CORRUPT") expect(error.offset).toBeGreaterThanOrEqual(0);
    return "error";
  }
  expect(honest).toContain(said);
  return "same";
}

interface RecordAt {
  readonly offset: number;
  readonly size: number;
}

function recordsOf(image: Uint8Array): RecordAt[] {
  const records: RecordAt[] = [];
  for (let offset = DATA_START; offset < image.length;) {
    const size = readU32(image, offset + 4) + FRAME_BYTES;
    records.push({ offset, size });
    offset += size;
  }
  return records;
}

describe.each([
  ["with two syncs", 0, false, false],
  ["with one sync, closed", 100_000, false, false],
  ["with one sync, killed", 100_000, true, false],
  ["with waiting batches", 0, false, true],
])("a damaged file of commits %s", (_name, oneSyncBytesMax, killed, log) => {
  let honest: string[] = [];
  let image: Uint8Array = new Uint8Array(0);

  async function prepare(): Promise<void> {
    if (honest.length > 0) return;
    image = await smallFile(oneSyncBytesMax, killed, log);
    const before = image.slice();
    // The newer of the two synced commits is in slot A (commits 1, 2, 3 in A, B, A).
    before.fill(0, 0, SLOT_BYTES);
    honest = [await readAll(image), await readAll(before)];
    expect(honest[0]).not.toBe(honest[1]);
  }

  test("with any byte changed never tells another row", async () => {
    await prepare();
    let errors = 0;
    // Every byte of the first variant and of waiting batches; of the others, whose nodes are the same, every third.
    const step = log || oneSyncBytesMax === 0 ? 1 : 3;
    for (let at = 0; at < image.length; at += step) {
      // Slots are mostly padding.
      if (at < DATA_START && at % SLOT_BYTES > 300 && at % 97 !== 0) continue;
      const damaged = image.slice();
      damaged[at] = (damaged[at] as number) ^ (1 << (at % 8));
      if ((await expectHonest(damaged, honest)) === "error") errors++;
      damaged[at] = (image[at] as number) ^ 0xff;
      await expectHonest(damaged, honest);
    }
    // What the newest commit wrote is checked at opening, and the one before taken instead.
    expect(errors).toBeGreaterThan((killed ? 200 : 1000) / step);
  });

  test("cut off at any record, or inside it, never tells another row", async () => {
    await prepare();
    for (const { offset, size } of recordsOf(image)) {
      for (const length of [offset, offset + 3, offset + size - 1]) {
        await expectHonest(image.slice(0, length), honest);
        const zeroed = image.slice();
        zeroed.fill(0, length);
        await expectHonest(zeroed, honest);
      }
    }
  });

  test("with a record copied over another, or two swapped, never tells another row", async () => {
    await prepare();
    const records = recordsOf(image);
    expect(records.length).toBeGreaterThan(log ? 12 : 15);
    let errors = 0;
    for (const [i, a] of records.entries()) {
      for (const b of records.slice(i + 1)) {
        const copied = image.slice();
        copied.copyWithin(b.offset, a.offset, a.offset + a.size);
        if ((await expectHonest(copied, honest)) === "error") errors++;
        if (a.size !== b.size) continue;
        copied.set(image.subarray(b.offset, b.offset + b.size), a.offset);
        expect(await expectHonest(copied, honest)).toBeDefined();
      }
    }
    expect(errors).toBeGreaterThan(killed || log ? 10 : 100);
  });

  test("with one header slot torn, zeroed or copied over the other opens at a commit", async () => {
    await prepare();
    for (const fill of [0, 255]) {
      for (let slot = 0; slot < 2; slot++) {
        for (const length of [1, 12, 100, 256, SLOT_BYTES]) {
          const damaged = image.slice();
          damaged.fill(fill, slot * SLOT_BYTES, slot * SLOT_BYTES + length);
          expect(await expectHonest(damaged, honest)).toBe("same");
        }
      }
    }
    const copied = image.slice();
    copied.copyWithin(SLOT_BYTES, 0, SLOT_BYTES);
    expect(await expectHonest(copied, honest)).toBe("same");
    copied.copyWithin(2 * SLOT_BYTES, 0, SLOT_BYTES);
    copied.fill(0, 0, SLOT_BYTES);
    expect(await expectHonest(copied, honest)).toBe("error");
  });

  test("whose newest roots are damaged falls back to the commit before, says so, and goes on behind its end", async () => {
    await prepare();
    const roots = recordsOf(image).at(-1) as RecordAt;
    const damaged = image.slice();
    damaged[roots.offset + 20] = 0xff ^ (damaged[roots.offset + 20] as number);
    const storage = new MemoryStorage(damaged);
    const store = await Store.open(storage, { mode: "write", reducers });

    expect(store.fellBack).toBe(true);
    expect(textOf(store.state)).toBe("1");
    await store.apply(
      new Map([["b", [{ key: bytesOf("x\0"), value: bytesOf("y") }]]]),
      bytesOf("3"),
    );
    await store.commit({ sync: true });
    await store.close();
    const again = await Store.open(storage, { mode: "read", reducers });
    expect(textOf(again.state)).toBe("3");
    expect(again.stats().commit).toBe(4);
    expect(storage.read(0, image.length).slice(DATA_START)).toEqual(damaged.slice(DATA_START));
    await again.close();
  });
});
