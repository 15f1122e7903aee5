// When the system fails, the store says so and refuses to go on; reopening finds the last commit.

import { describe, expect, test } from "@jest/globals";
import {
  MemoryStorage,
  NodeCache,
  type StorageBackend,
  Store,
  type TreeOp,
} from "../../btree/index.js";
import { bytesOf, caught, textOf } from "./tree-model.js";

const countingReducer = { count: () => 1 };
const reducers = () => countingReducer;

function systemError(code: string): Error {
  return Object.assign(new Error(`${code}: injected`), { code });
}

/** A storage whose operations fail once told to. */
class FailingStorage implements StorageBackend {
  readonly path = undefined;
  failing:
    | { readonly operation: "read" | "write" | "sync"; readonly code: string; after: number }
    | undefined;
  constructor(readonly memory: MemoryStorage) {}

  size(): number {
    return this.memory.size();
  }
  read(offset: number, length: number): Uint8Array {
    this.#maybeFail("read");
    return this.memory.read(offset, length);
  }
  write(offset: number, bytes: Uint8Array): void {
    this.#maybeFail("write");
    this.memory.write(offset, bytes);
  }
  async sync(): Promise<void> {
    await Promise.resolve();
    this.#maybeFail("sync");
  }
  truncate(size: number): void {
    this.memory.truncate(size);
  }
  close(): void {
    this.memory.close();
  }

  #maybeFail(operation: string): void {
    if (this.failing?.operation !== operation) return;
    if (this.failing.after-- <= 0) throw systemError(this.failing.code);
  }
}

function ops(prefix: string, count: number): TreeOp[] {
  return Array.from({ length: count }, (_, i) => ({
    key: bytesOf(prefix + String(1000 + i)),
    value: bytesOf(`v${i}`),
  }));
}

async function openedStore(oneSyncBytesMax?: number): Promise<{
  memory: MemoryStorage;
  storage: FailingStorage;
  store: Store;
}> {
  const memory = new MemoryStorage();
  const storage = new FailingStorage(memory);
  const store = await Store.create(storage, {
    state: bytesOf("0"),
    reducers,
    cache: new NodeCache(2000),
    leafBytes: 256,
    innerBytes: 256,
    ...(oneSyncBytesMax === undefined ? {} : { oneSyncBytesMax }),
  });
  await store.apply(new Map([["t", ops("a", 200)]]), bytesOf("1"));
  await store.commit({ sync: true });
  return { memory, storage, store };
}

async function stateOnDisk(memory: MemoryStorage): Promise<string | undefined> {
  const store = await Store.open(new MemoryStorage(memory.read(0, memory.size())), {
    mode: "write",
    reducers,
    bootId: "",
  });
  const state = textOf(store.state);
  expect(store.snapshot().tree("t").count).toBe(200);
  await store.close();
  return state;
}

describe.each([
  ["a full disk while nodes are written", "write", "ENOSPC", 0, undefined],
  ["a full disk while the header is written", "write", "ENOSPC", 1, undefined],
  ["a failing disk at the only sync", "sync", "EIO", 0, undefined],
  ["a failing disk at the first of two syncs", "sync", "EIO", 0, 0],
  ["a failing disk at the second of two syncs", "sync", "EIO", 1, 0],
] as const)("%s", (_name, operation, code, after, oneSyncBytesMax) => {
  test("breaks the store, and reopening finds a whole commit", async () => {
    const { memory, storage, store } = await openedStore(oneSyncBytesMax);
    await store.apply(new Map([["t", ops("b", 5)]]), bytesOf("2"));
    await store.apply(
      new Map([["t", ops("b", 5).map(({ key }) => ({ key, value: undefined }))]]),
      bytesOf("3"),
    );
    storage.failing = { operation, code, after };

    await expect(store.commit({ sync: true })).rejects.toMatchObject({
      code: "BTREE_BROKEN",
      cause: { code },
      message: expect.stringContaining(code) as unknown,
    });
    storage.failing = undefined;
    await expect(store.commit({ sync: true })).rejects.toMatchObject({
      code: "BTREE_BROKEN",
      cause: { code },
    });
    await expect(store.apply(new Map(), bytesOf("4"))).rejects.toMatchObject({
      code: "BTREE_BROKEN",
    });
    expect(caught(() => store.bulk())).toMatchObject({ code: "BTREE_BROKEN" });
    // Reading what was there goes on.
    expect(textOf(store.snapshot().tree("t").get(bytesOf("a1005")))).toBe("v5");
    await store.close();
    expect(["1", "3"]).toContain(await stateOnDisk(memory));
  });
});

test("a full disk in the middle of a large batch breaks the store and shows nothing of the batch", async () => {
  const { memory, storage, store } = await openedStore();
  storage.failing = { operation: "write", code: "ENOSPC", after: 0 };
  const large = Array.from({ length: 30 }, (_, i) => ({
    key: bytesOf(`c${100 + i}`),
    value: new Uint8Array(100_000),
  }));

  await expect(store.apply(new Map([["t", large]]), bytesOf("2"))).rejects.toMatchObject({
    code: "BTREE_BROKEN",
  });

  expect(textOf(store.state)).toBe("1");
  expect(store.snapshot().tree("t").count).toBe(200);
  await store.close();
  expect(await stateOnDisk(memory)).toBe("1");
});

test("a failed read names the offset and leaves the store usable", async () => {
  const { storage, store } = await openedStore();
  await store.commit({ sync: true });
  await store.close();
  const reopened = await Store.open(storage, {
    mode: "write",
    reducers,
    cache: new NodeCache(2000),
  });
  storage.failing = { operation: "read", code: "EIO", after: 0 };
  const reader = reopened.snapshot().tree("t");

  expect(caught(() => reader.get(bytesOf("a1000")))).toMatchObject({
    code: "BTREE_IO",
    offset: reader.root?.offset,
  });
  await expect(reopened.apply(new Map([["t", ops("b", 3)]]), bytesOf("2"))).rejects.toMatchObject({
    code: "BTREE_IO",
  });

  storage.failing = undefined;
  expect(textOf(reader.get(bytesOf("a1000")))).toBe("v0");
  await reopened.apply(new Map([["t", ops("b", 3)]]), bytesOf("2"));
  expect(reopened.snapshot().tree("t").count).toBe(203);
  await reopened.close();
});

test("a reducer that fails leaves the store as it was", async () => {
  const memory = new MemoryStorage();
  const failing = {
    count: () => 1,
    reduce: () => Promise.reject(new Error("no")),
    rereduce: () => [],
  };
  const store = await Store.create(memory, {
    state: bytesOf("0"),
    reducers: (tree) => (tree === "bad" ? failing : countingReducer),
  });

  await expect(
    store.apply(
      new Map([
        ["good", ops("a", 3)],
        ["bad", ops("a", 3)],
      ]),
      bytesOf("1"),
    ),
  ).rejects.toThrow("no");

  expect(textOf(store.state)).toBe("0");
  expect(store.snapshot().treeNames()).toEqual([]);
  await store.apply(new Map([["good", ops("a", 3)]]), bytesOf("1"));
  expect(store.snapshot().tree("good").count).toBe(3);
  await store.close();
});
