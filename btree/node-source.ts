// Reads nodes and values of one file: through the cache, else from the file, verified.

import { recordFault } from "./checksum.js";
import { BtreeError, corrupt } from "./errors.js";
import { FRAME_BYTES, KIND_INNER, KIND_LEAF, KIND_VALUE, RECORD_BYTES_MAX } from "./format.js";
import { decodeInnerRecord, type InnerNode } from "./inner-node.js";
import { decodeLeafRecord, type LeafNode, type ValuePointer } from "./leaf-node.js";
import type { CachedNode, NodeCache } from "./node-cache.js";
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

export class NodeSource {
  readonly path: string | undefined;
  readonly #bytes: ByteSource;
  readonly #seed: number;
  readonly #cache: NodeCache | undefined;
  readonly #cacheNumber: number;
  #open = true;
  /** Where `passingLeaf` reads to, made when it is first called. */
  #passing: { readonly bytes: Bytes; readonly table: Uint16Array } | undefined;
  /** Records read from the file so far. */
  reads = 0;

  constructor(
    path: string | undefined,
    bytes: ByteSource,
    seed: number,
    cache: NodeCache | undefined,
  ) {
    this.path = path;
    this.#bytes = bytes;
    this.#seed = seed;
    this.#cache = cache;
    this.#cacheNumber = cache?.attach() ?? 0;
  }

  /** The same file past the cache: for walks over everything, which would push out what is in use. */
  uncached(): NodeSource {
    return new NodeSource(this.path, this.#bytes, this.#seed, undefined);
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
   * A leaf that is looked at once, among thousands: from the cache, else read into a buffer that the next call overwrites. Buffers of
   * their own, and a place in the cache, would cost a large batch more than all its other work.
   *
   * @throws BtreeError BTREE_CORRUPT, BTREE_IO, BTREE_NOT_OPEN
   */
  passingLeaf(offset: number, size: number): LeafNode {
    const cached = this.#cached(offset);
    if (cached !== undefined || !this.#bytes.readInto || size > PASSING_BYTES_MAX)
      return this.leaf(offset, size);
    this.#passing ??= {
      bytes: new Uint8Array(PASSING_BYTES_MAX),
      table: new Uint16Array(PASSING_BYTES_MAX),
    };
    const { bytes, table } = this.#passing;
    const node = decodeLeafRecord(this.record(offset, size, KIND_LEAF, bytes), table);
    if (node === undefined || node.count === 0)
      throw corrupt(this.path, offset, "a leaf that breaks the format");
    return node;
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

  /** A whole record, verified; read into `buffer`, where there is one. */
  record(offset: number, size: number, kind: number, buffer?: Bytes): Bytes {
    this.#assertOpen();
    if (!(size >= FRAME_BYTES) || size > RECORD_BYTES_MAX + FRAME_BYTES) {
      throw corrupt(this.path, offset, `a record of ${size} bytes`);
    }
    let record: Bytes;
    try {
      record =
        buffer && this.#bytes.readInto
          ? buffer.subarray(0, this.#bytes.readInto(offset, buffer.subarray(0, size)))
          : this.#bytes.read(offset, size);
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
    if (!this.#open) return;
    this.#open = false;
    this.#cache?.detach(this.#cacheNumber);
  }

  #cached(offset: number): CachedNode | undefined {
    this.#assertOpen();
    return this.#cache?.get(this.#cacheNumber, offset);
  }

  #assertOpen(): void {
    if (!this.#open) {
      throw new BtreeError("BTREE_NOT_OPEN", `${this.path ?? "the store"} is closed`, {
        file: this.path,
      });
    }
  }
}
