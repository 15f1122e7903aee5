// A real tree in memory with leaves so small that few rows make a deep one.

import {
  MemoryStorage,
  NodeCache,
  Store,
  type Entry,
  type Reducer,
  type TreeReader,
} from "../../btree/index.js";
import { compareBytes } from "./memory-tree.js";

export async function storeTree(entries: readonly Entry[], reducer: Reducer): Promise<TreeReader> {
  const store = await Store.create(new MemoryStorage(), {
    state: new Uint8Array(0),
    reducers: () => reducer,
    cache: new NodeCache(1 << 20),
    leafBytes: 128,
    innerBytes: 128,
  });
  const ops = [...entries].sort((a, b) => compareBytes(a.key, b.key));
  if (ops.length > 0) await store.apply(new Map([["view:0", ops]]), new Uint8Array(0));
  return store.snapshot().tree("view:0");
}
