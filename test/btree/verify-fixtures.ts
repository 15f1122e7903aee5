// Stores to be verified: a sound one with everything in it, and trees put together node by node, so that they can be wrong in one way.

import {
  MemoryStorage,
  Store,
  type ChildRef,
  type LogLimits,
  type Reducer,
  type TreeOp,
  type TreeRoot,
} from "../../btree/index.js";
import { appendValue, writePointer } from "../../btree/value-record.js";
import { FRAME_BYTES } from "../../btree/format.js";
import { InnerWriter } from "../../btree/inner-writer.js";
import { decodeLeafRecord } from "../../btree/leaf-node.js";
import { NodeSlice } from "../../btree/leaf-slice.js";
import { LeafWriter } from "../../btree/leaf-writer.js";
import { NodeSource } from "../../btree/node-source.js";
import { sharedPrefix } from "../../btree/bytes.js";
import { bytesOf, countingReducer, summingReducer, TreeModel } from "./tree-model.js";

export const CREATE = { leafBytes: 256, innerBytes: 160, valueBytesMax: 64 } as const;

/** Tree "sums" keeps sums, all others only counts. */
export function reducers(tree: string): Reducer {
  return tree === "sums" ? summingReducer : countingReducer;
}

export interface Sound {
  readonly storage: MemoryStorage;
  readonly models: ReadonlyMap<string, TreeModel>;
}

/** Two trees of some hundred bytes to kilobytes, with values out of line, after a few batches and commits. */
export async function soundStore(
  entries: number,
  oneSyncBytesMax = 0,
  log?: LogLimits,
): Promise<Sound> {
  const storage = new MemoryStorage();
  const store = await Store.create(storage, {
    ...CREATE,
    state: bytesOf("first"),
    reducers,
    oneSyncBytesMax,
    log,
  });
  const models = new Map([
    ["sums", new TreeModel()],
    ["counts", new TreeModel()],
  ]);
  for (let batch = 0; batch < 3; batch++) {
    const changes = new Map<string, TreeOp[]>();
    for (const [name, model] of models) {
      const ops: TreeOp[] = [];
      for (let i = 0; i < entries; i++) {
        if ((i + batch) % 3 === 1) continue;
        const removed = batch === 2 && i % 5 === 0;
        const value = bytesOf(`${batch}`.repeat(i % 7 === 0 ? 80 : (i % 9) + 1));
        ops.push({
          key: bytesOf(`${name}-key\0${String(i).padStart(4, "0")}`),
          value: removed ? undefined : value,
        });
      }
      model.apply(ops);
      changes.set(name, ops);
    }
    await store.apply(changes, bytesOf(`state ${batch}`));
    await store.commit({ sync: batch !== 1 });
  }
  await store.close();
  return { storage, models };
}

/** A copy of the file with bytes changed. */
export function damagedCopy(
  storage: MemoryStorage,
  damage: (bytes: Uint8Array) => void,
): MemoryStorage {
  const bytes = storage.read(0, storage.size());
  damage(bytes);
  return new MemoryStorage(bytes);
}

/** Puts a tree together from nodes of one's own making. */
export class TreeCrafter {
  readonly #storage: MemoryStorage;
  readonly #store: Store;
  readonly #reducer: Reducer;

  private constructor(storage: MemoryStorage, store: Store, reducer: Reducer) {
    this.#storage = storage;
    this.#store = store;
    this.#reducer = reducer;
  }

  static async begin(reducer: Reducer): Promise<TreeCrafter> {
    const storage = new MemoryStorage();
    const store = await Store.create(storage, {
      ...CREATE,
      state: bytesOf(""),
      reducers,
      oneSyncBytesMax: 0,
    });
    return new TreeCrafter(storage, store, reducer);
  }

  /**
   * A leaf. `pointerRows` makes the last value an out-of-line one that claims so many rows; `whole` stores all keys without
   * what they share.
   */
  leaf(
    entries: readonly (readonly [string, string])[],
    low = "",
    { pointerRows, whole = false }: { pointerRows?: number; whole?: boolean } = {},
  ): ChildRef {
    const writer = new LeafWriter(1024);
    const sink = this.#store.sink();
    let previous = new Uint8Array(0);
    let pointed = 0;
    for (const [i, [keyText, valueText]] of entries.entries()) {
      const key = Uint8Array.from(bytesOf(keyText));
      const value = bytesOf(valueText);
      const shared = whole ? 0 : sharedPrefix(previous, key);
      if (pointerRows !== undefined && i === entries.length - 1) {
        const pointer = new Uint8Array(24);
        const offset = appendValue(sink, value, 0, value.length);
        const length = writePointer(pointer, pointerRows, offset, FRAME_BYTES + value.length);
        pointed = FRAME_BYTES + value.length;
        writer.put(shared, key, 0, key.length, pointer, 0, length, true);
      } else {
        writer.put(shared, key, 0, key.length, value, 0, value.length, false);
      }
      previous = key;
    }
    const record = writer.record().slice();
    const offset = sink.append(record);
    const node = decodeLeafRecord(record);
    if (node === undefined) throw new Error("a crafted leaf cannot be decoded");
    const source = new NodeSource(undefined, sink, 0, undefined);
    const slice = new NodeSlice(source, node, 0, node.count);
    const reduced = pointed === 0 ? this.#reducer.reduce?.([slice]) : undefined;
    return {
      low: bytesOf(low),
      offset,
      size: record.length,
      count: node.rows(0, node.count, this.#reducer),
      bytes: record.length + pointed,
      reduction: Array.isArray(reduced) ? reduced[0] : new Uint8Array(0),
    };
  }

  inner(children: readonly ChildRef[], height: number): ChildRef {
    const writer = new InnerWriter(1024);
    for (const child of children) writer.put(child);
    const record = writer.record(height).slice();
    const offset = this.#store.sink().append(record);
    const reduced = this.#reducer.rereduce?.([
      children.map(({ reduction }) => reduction ?? new Uint8Array(0)),
    ]);
    return {
      low: writer.low,
      offset,
      size: record.length,
      count: children.reduce((sum, { count }) => sum + count, 0),
      bytes: children.reduce((sum, { bytes }) => sum + bytes, record.length),
      reduction: Array.isArray(reduced) ? reduced[0] : new Uint8Array(0),
    };
  }

  /** The finished file: the node is the root of the tree. */
  async finish(tree: string, root: ChildRef, height: number): Promise<MemoryStorage> {
    const { offset, size, count, bytes, reduction = new Uint8Array(0) } = root;
    const treeRoot: TreeRoot = { offset, size, height, count, bytes, reduction };
    this.#store.adopt(new Map([[tree, treeRoot]]), bytesOf(""));
    await this.#store.commit({ sync: true });
    await this.#store.close();
    return this.#storage;
  }
}
