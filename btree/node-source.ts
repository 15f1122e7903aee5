// Reads nodes and values of one file: through the cache, else from the file, verified.

import { recordFault } from "./checksum.js";
import { BtreeError, corrupt } from "./errors.js";
import { FRAME_BYTES, KIND_INNER, KIND_LEAF, KIND_VALUE, RECORD_BYTES_MAX } from "./format.js";
import { decodeInnerRecord, type InnerNode } from "./inner-node.js";
import {
  decodeLeafRecord,
  findInLeaf,
  found,
  readPointer,
  type LeafNode,
  type ValuePointer,
} from "./leaf-node.js";
import { MEMORY_OFFSETS_START, type MemoryNodes } from "./memory-nodes.js";
import type { CachedNode, NodeCache } from "./node-cache.js";
import { ReadWindow } from "./read-window.js";
import type { Bytes } from "./types.js";

/** Where the bytes come from: a storage, or a log that holds some of them still. */
export interface ByteSource {
  read(offset: number, length: number): Bytes;
  readInto?(offset: number, target: Bytes): number;
}

/** From so many keys on a batch looks at leaves in passing. */
export const PASSING_KEYS_MIN = 1000;
/** A larger leaf is read into a buffer of its own. */
const PASSING_BYTES_MAX = 16 * 1024;

/** A leaf, and the keys [from, to) of a list that are looked for in it. */
export interface PassingKeys {
  readonly offset: number;
  readonly size: number;
  readonly from: number;
  readonly to: number;
}

export class NodeSource {
  readonly path: string | undefined;
  readonly #bytes: ByteSource;
  readonly #seed: number;
  readonly #cache: NodeCache | undefined;
  readonly #cacheNumber: number;
  /** The source whose being open counts; its cache number is ours. */
  readonly #main: NodeSource;
  readonly #memory: MemoryNodes | undefined;
  #open = true;
  /** Where `passingLeaf` reads to, made when it is first called. */
  #passing: { readonly window: ReadWindow; readonly table: Uint16Array } | undefined;
  /** Records read from the file so far. */
  reads = 0;

  constructor(
    path: string | undefined,
    bytes: ByteSource,
    seed: number,
    cache: NodeCache | undefined,
    over?: { readonly main: NodeSource; readonly memory: MemoryNodes | undefined },
  ) {
    this.path = path;
    this.#bytes = bytes;
    this.#seed = seed;
    this.#cache = cache;
    this.#main = over?.main ?? this;
    this.#memory = over?.memory;
    this.#cacheNumber = over ? over.main.#cacheNumber : (cache?.attach() ?? 0);
  }

  /** The same file past the cache: for walks over everything, which would push out what is in use. */
  uncached(): NodeSource {
    return new NodeSource(this.path, this.#bytes, this.#seed, undefined, {
      main: this.#main,
      memory: this.#memory,
    });
  }

  /** The same file, and nodes in memory. */
  with(memory: MemoryNodes): NodeSource {
    const main = this.#main;
    return new NodeSource(this.path, this.#bytes, this.#seed, this.#cache, { main, memory });
  }

  /** @throws BtreeError BTREE_CORRUPT, BTREE_IO, BTREE_NOT_OPEN */
  leaf(offset: number, size: number): LeafNode {
    const cached = this.#cached(offset);
    if (cached !== undefined) {
      if (cached.height !== 0)
        throw corrupt(this.path, offset, "an inner node where a leaf was expected");
      return cached as LeafNode;
    }
    const node = decodeLeafRecord(this.record(offset, size, KIND_LEAF));
    if (node === undefined || node.count === 0)
      throw corrupt(this.path, offset, "a leaf that breaks the format");
    this.#cache?.set(this.#cacheNumber, offset, node);
    return node;
  }

  /**
   * Tells which leaves `passingLeaf` will be asked for next, in order. Those that lie close together are read at once. What was read
   * ahead before is forgotten: a walk begins by this, for bytes between the leaves of another walk may have been written since.
   *
   * @param places - offset and size of each.
   */
  expectPassing(places: Iterable<{ readonly offset: number; readonly size: number }>): void {
    if (!this.#bytes.readInto) return;
    const inFile = [...places].filter(({ offset }) => offset < MEMORY_OFFSETS_START);
    this.#passingPlace.window.expect(inFile);
  }

  /**
   * A leaf that is looked at once, among thousands: from the cache, else read into a buffer that the next call overwrites. Buffers of
   * their own, and a place in the cache, would cost a large batch more than all its other work.
   *
   * @throws BtreeError BTREE_CORRUPT, BTREE_IO, BTREE_NOT_OPEN
   */
  passingLeaf(offset: number, size: number): LeafNode {
    const cached = this.#cached(offset);
    const kept = !this.#bytes.readInto || size > PASSING_BYTES_MAX;
    if (cached !== undefined || kept || offset >= MEMORY_OFFSETS_START)
      return this.leaf(offset, size);
    const { window, table } = this.#passingPlace;
    const node = decodeLeafRecord(this.record(offset, size, KIND_LEAF, window), table);
    if (node === undefined || node.count === 0)
      throw corrupt(this.path, offset, "a leaf that breaks the format");
    return node;
  }

  /** The record of a leaf, as a view that the next look at one may overwrite. @param passing - it is one of thousands. */
  leafRecord(offset: number, size: number, passing: boolean): Bytes {
    const cached = this.#cached(offset);
    if (cached?.height === 0) return cached.bytes;
    const kept = !passing || !this.#bytes.readInto || size > PASSING_BYTES_MAX;
    return this.record(offset, size, KIND_LEAF, kept ? undefined : this.#passingPlace.window);
  }

  /**
   * Looks keys[from, to), a few, up in a leaf in passing, and puts copies of their values into `values`.
   *
   * @throws BtreeError BTREE_CORRUPT, BTREE_IO, BTREE_NOT_OPEN
   */
  passingValues(
    { offset, size, from, to }: PassingKeys,
    keys: readonly Bytes[],
    values: (Bytes | undefined)[],
  ): void {
    if (this.#cached(offset) !== undefined || !this.#bytes.readInto || size > PASSING_BYTES_MAX) {
      const leaf = this.leaf(offset, size);
      for (let k = from; k < to; k++) {
        const i = leaf.keys.search(keys[k] as Bytes);
        if (i >= 0) values[k] = this.valueOf(leaf, i).slice();
      }
      return;
    }
    const record = this.record(offset, size, KIND_LEAF, this.#passingPlace.window);
    for (let k = from; k < to; k++) {
      const isThere = findInLeaf(record, keys[k] as Bytes);
      if (isThere === undefined) throw corrupt(this.path, offset, "a leaf that breaks the format");
      if (!isThere) continue;
      const { valueStart, valueEnd, pointer } = found;
      values[k] = pointer
        ? this.value(readPointer(record, valueStart, valueEnd))
        : record.slice(valueStart, valueEnd);
    }
  }

  /** @throws BtreeError BTREE_CORRUPT, BTREE_IO, BTREE_NOT_OPEN */
  inner(offset: number, size: number, height: number): InnerNode {
    let node = this.#cached(offset);
    if (node === undefined) {
      node = decodeInnerRecord(this.record(offset, size, KIND_INNER));
      if (node === undefined)
        throw corrupt(this.path, offset, "an inner node that breaks the format");
      this.#cache?.set(this.#cacheNumber, offset, node);
    }
    // Heights fall by one at each step, so that no damage can lead a descent in a circle.
    if (node.height !== height) {
      throw corrupt(
        this.path,
        offset,
        `a node of height ${node.height} where ${height} was expected`,
      );
    }
    return node as InnerNode;
  }

  /** A value that lies in its own record. */
  value(pointer: ValuePointer): Bytes {
    return this.record(pointer.offset, pointer.size, KIND_VALUE).subarray(FRAME_BYTES);
  }

  /** The value of a leaf's entry, wherever it lies. */
  valueOf(leaf: LeafNode, i: number): Bytes {
    if (leaf.isPointer(i)) return this.value(leaf.pointer(i));
    return leaf.bytes.subarray(leaf.valueStart(i), leaf.valueEnd(i));
  }

  /** Puts a node that was just written into the cache. */
  remember(offset: number, node: CachedNode): void {
    this.#cache?.set(this.#cacheNumber, offset, node);
  }

  /** A node that others have taken the place of: only readers of an earlier state may still ask for it, and read it again then. */
  forget(offset: number): void {
    this.#cache?.delete(this.#cacheNumber, offset);
  }

  /** The inner node at the offset, if it is in the cache. */
  cachedInner(offset: number): InnerNode | undefined {
    const node = this.#cached(offset);
    return node === undefined || node.height === 0 ? undefined : (node as InnerNode);
  }

  /** A whole record, verified; read by way of `window`, where there is one. */
  record(offset: number, size: number, kind: number, window?: ReadWindow): Bytes {
    this.#assertOpen();
    if (offset >= MEMORY_OFFSETS_START && this.#memory) return this.#memory.record(offset);
    if (!(size >= FRAME_BYTES) || size > RECORD_BYTES_MAX + FRAME_BYTES) {
      throw corrupt(this.path, offset, `a record of ${size} bytes`);
    }
    let record: Bytes;
    try {
      record = window?.read(offset, size) ?? this.#bytes.read(offset, size);
    } catch (cause) {
      throw new BtreeError(
        "BTREE_IO",
        `reading ${size} bytes at ${offset} of ${this.path ?? "the store"} failed: ${cause instanceof Error ? cause.message : String(cause)}`,
        { file: this.path, offset },
        { cause },
      );
    }
    this.reads++;
    const fault = recordFault(record, size, kind, this.#seed, offset);
    if (fault !== undefined) throw corrupt(this.path, offset, fault);
    return record;
  }

  close(): void {
    if (!this.#open || this.#main !== this) return;
    this.#open = false;
    this.#cache?.detach(this.#cacheNumber);
  }

  get #passingPlace(): { readonly window: ReadWindow; readonly table: Uint16Array } {
    this.#passing ??= {
      window: new ReadWindow(this.#bytes),
      table: new Uint16Array(PASSING_BYTES_MAX),
    };
    return this.#passing;
  }

  #cached(offset: number): CachedNode | undefined {
    this.#assertOpen();
    return this.#cache?.get(this.#cacheNumber, offset);
  }

  #assertOpen(): void {
    if (!this.#main.#open) {
      throw new BtreeError("BTREE_NOT_OPEN", `${this.path ?? "the store"} is closed`, {
        file: this.path,
      });
    }
  }
}
