// Merges segments into the leaves of a tree in WebAssembly (kernels/assembly/merge.ts). Blocks are read and checked here, as a
// SegmentCursor does; leaves go to the builder. What is not usual is left to Merger: entries larger than a block, too many segments.

import { crc32 } from "node:zlib";

import { createKernel, MEMORY_START, type Kernel } from "../../kernels/index.js";
import type { TreeBuilder } from "../builder.js";
import { LEAF_START, type TreeFormat } from "../format.js";
import type { Reducer } from "../types.js";
import { BLOCK_BYTES_MAX } from "./format.js";
import type { EntrySink } from "./merger.js";
import { damaged } from "./run-errors.js";
import { RunReaders } from "./run-readers.js";
import { SegmentIndex, type SegmentRef } from "./segment-index.js";

const SEGMENTS_MAX = 256;
const VALUE_BYTES_MAX = 16 * 1024;
/** For reading, divided among the segments. */
const BUFFERS_BYTES = 4 * 2 ** 20;
/** What may be read or written behind the end of a region. */
const SLACK = 64;

const CURSOR_BYTES = 64;
// Fields of a cursor, in words.
const POSITION = 0;
const BLOCK_END = 1;
const KEY = 2;
const KEY_LENGTH = 3;
const VALUE_START = 4;
const VALUE_END = 5;
const ORDINAL_AT = 6;
const ORDINAL_WIDTH = 7;
const RANK = 9;
const SENTINEL = 10;
const NUMBER = 11;
/** In doubles. */
const ORDINAL_MIN = 6;

/** Of each key, with an odd number of cache lines so that keys of all cursors do not fall into the same ones. */
const KEY_BYTES = BLOCK_BYTES_MAX + 3 * SLACK;
const POINTER_BYTES = 64;

const LEAF = MEMORY_START;
const LEAF_REGION_BYTES = 2 * BLOCK_BYTES_MAX + 32_768 + SLACK;
const POINTER = LEAF + LEAF_REGION_BYTES;
const FIRST_KEY = POINTER + POINTER_BYTES;
const GTE = FIRST_KEY + KEY_BYTES;
const CURSORS = GTE + KEY_BYTES;

/** How a merge goes. */
export interface LeafMergeOptions {
  /** First key of the range. */
  readonly gte: Uint8Array | undefined;
  /** Key after the range. */
  readonly lt: Uint8Array | undefined;
  readonly format: TreeFormat;
  readonly reducer: Reducer;
  readonly builder: TreeBuilder;
  /** Entries whose value's first byte has one of these bits are left out. */
  readonly drop: number;
  /** As of {@link MergeOptions}. */
  readonly onSuperseded: EntrySink | undefined;
}

/** A segment that is read, block by block. */
interface Reading {
  readonly index: SegmentIndex;
  /** Where its buffer lies. */
  readonly buffer: number;
  block: number;
  readonly endBlock: number;
  bufferOffset: number;
  bufferLength: number;
}

export class LeafMerger {
  readonly #options: LeafMergeOptions;
  readonly #readers: RunReaders;
  readonly #kernel: Kernel;
  readonly #doubles: Float64Array;
  readonly #readings: readonly Reading[];
  readonly #each: number;
  /** Bytes of the records that the leaf under way points to, and of the last one. */
  #placed = 0;
  #lastPlaced = 0;

  /**
   * @returns undefined when these segments are for {@link Merger}.
   * @throws BtreeError BTREE_CORRUPT, BTREE_IO as a merge.
   */
  static open(refs: readonly SegmentRef[], options: LeafMergeOptions): LeafMerger | undefined {
    const { format, gte, lt } = options;
    if (refs.length > SEGMENTS_MAX || format.valueBytesMax > VALUE_BYTES_MAX) return undefined;
    if (Math.max(gte?.length ?? 0, lt?.length ?? 0) > BLOCK_BYTES_MAX) return undefined;
    const readers = new RunReaders();
    try {
      const sources = refs.map((ref) => SegmentIndex.read(readers, ref));
      if (sources.every(({ blockBytesMax }) => blockBytesMax <= BLOCK_BYTES_MAX)) {
        const merger = LeafMerger.#begin(readers, sources, options);
        if (merger) return merger;
      }
    } catch (error) {
      readers.close();
      throw error;
    }
    readers.close();
    return undefined;
  }

  static #begin(
    readers: RunReaders,
    sources: readonly SegmentIndex[],
    options: LeafMergeOptions,
  ): LeafMerger | undefined {
    const n = sources.length + (options.lt ? 1 : 0);
    const each = Math.max(BLOCK_BYTES_MAX, Math.floor(BUFFERS_BYTES / Math.max(1, sources.length)));
    const list = CURSORS + n * CURSOR_BYTES;
    const keys = list + n * 20 + SLACK;
    const buffers = keys + n * KEY_BYTES;
    let merger: LeafMerger | undefined = undefined;
    const asked = (): LeafMerger => merger as unknown as LeafMerger;
    const kernel = createKernel(buffers + sources.length * (each + SLACK) - MEMORY_START, {
      refill: (i) => asked().#refill(i),
      malformed: (i) => {
        throw asked().#malformed(i);
      },
      superseded: (i) => {
        asked().#superseded(i);
      },
      rowsOf: (value, length) =>
        options.reducer.count(asked().#kernel.bytes, value, value + length),
      placeValue: (value, length, rows) => asked().#placeValue(value, length, rows),
    });
    if (!kernel) return undefined;
    const { gte, lt } = options;
    const readings = sources.map((index, i) => ({
      index,
      buffer: buffers + i * (each + SLACK),
      block: gte ? index.firstBlock(gte) : 0,
      endBlock: lt ? index.blocksBelow(lt) : index.blocks,
      bufferOffset: 0,
      bufferLength: 0,
    }));
    merger = new LeafMerger(options, readers, kernel, readings, each);
    merger.#open(n, list, keys);
    return merger;
  }

  private constructor(
    options: LeafMergeOptions,
    readers: RunReaders,
    kernel: Kernel,
    readings: readonly Reading[],
    each: number,
  ) {
    this.#options = options;
    this.#readers = readers;
    this.#kernel = kernel;
    this.#doubles = new Float64Array(kernel.bytes.buffer);
    this.#readings = readings;
    this.#each = each;
  }

  /** Entries consumed so far. */
  get entriesRead(): number {
    return this.#kernel.run.mergedEntriesRead();
  }

  /**
   * Gives the builder one more leaf. After the last one, and after an error, all files are closed.
   *
   * @returns whether there may be more.
   * @throws BtreeError BTREE_CORRUPT when a block is damaged; BTREE_IO when a file cannot be read.
   */
  step(): boolean {
    const { run } = this.#kernel;
    try {
      const full = run.mergeLeaf() === 1;
      if (full || run.mergedCount() > 0) this.#handOver(full);
      if (full) return true;
    } catch (error) {
      this.close();
      throw error;
    }
    this.close();
    return false;
  }

  /** Gives the merge up and closes its files. */
  close(): void {
    this.#readers.close();
  }

  #open(n: number, list: number, keys: number): void {
    const { bytes, words, run } = this.#kernel;
    const { gte, lt, format, reducer, drop } = this.#options;
    for (let i = 0; i < n; i++) {
      const at = this.#cursor(i);
      words[at + KEY] = keys + i * KEY_BYTES;
      words[at + NUMBER] = i;
      words[at + RANK] = i;
      const index = this.#readings[i]?.index;
      if (index) {
        words[at + ORDINAL_WIDTH] = index.ordinalWidth;
        this.#doubles[(at >>> 1) + ORDINAL_MIN] = index.ordinalMin;
      } else if (lt) {
        words[at + SENTINEL] = 1;
        words[at + KEY_LENGTH] = lt.length;
        bytes.set(lt, keys + i * KEY_BYTES);
      }
    }
    if (gte) bytes.set(gte, GTE);
    run.setLeaves(
      LEAF,
      LEAF_START,
      format.leafBytes,
      format.valueBytesMax,
      POINTER,
      drop,
      reducer.oneUnless ?? -1,
      FIRST_KEY,
    );
    run.openMerge(CURSORS, n, list, GTE, gte?.length ?? 0);
  }

  #handOver(full: boolean): void {
    const { bytes, run } = this.#kernel;
    const nextKey = full ? run.mergedNextKey() : 0;
    const carried = full && run.mergedNextPlaced() !== 0 ? this.#lastPlaced : 0;
    const pointed = this.#placed - carried;
    this.#placed = carried;
    this.#options.builder.addLeaf(
      bytes.subarray(LEAF, run.mergedEnd()),
      {
        count: run.mergedCount(),
        rows: run.mergedRows(),
        pointed,
        firstKey: bytes.slice(FIRST_KEY, FIRST_KEY + run.mergedFirstKeyLength()),
      },
      full ? bytes.slice(nextKey, nextKey + run.mergedNextKeyShared() + 1) : undefined,
    );
  }

  #cursor(i: number): number {
    return (CURSORS + i * CURSOR_BYTES) >>> 2;
  }

  #refill(i: number): boolean {
    const reading = this.#readings[i] as Reading;
    const { index, block, endBlock } = reading;
    if (block >= endBlock) return false;
    const { bytes, words } = this.#kernel;
    const offset = index.blockOffsets[block] as number;
    const length = (index.blockOffsets[block + 1] as number) - offset;
    if (reading.bufferLength === 0 || offset >= reading.bufferOffset + reading.bufferLength)
      this.#fill(reading);
    const start = reading.buffer + offset - reading.bufferOffset;
    if (crc32(bytes.subarray(start, start + length)) !== index.blockCrcs[block])
      throw damaged(index.ref.path, offset, "has a damaged block");
    reading.block = block + 1;
    words[this.#cursor(i) + POSITION] = start;
    words[this.#cursor(i) + BLOCK_END] = start + length;
    return length > 0;
  }

  /** Reads as many whole blocks as fit: one system call for all of them. */
  #fill(reading: Reading): void {
    const { index, block, endBlock, buffer } = reading;
    const { blockOffsets } = index;
    const start = blockOffsets[block] as number;
    let end = block + 1;
    while (end < endBlock && (blockOffsets[end + 1] as number) - start <= this.#each) end++;
    const length = (blockOffsets[end] as number) - start;
    const into = this.#kernel.bytes.subarray(buffer, buffer + length);
    this.#readers.read(index.ref.path, into, length, start);
    reading.bufferOffset = start;
    reading.bufferLength = length;
  }

  #malformed(i: number): Error {
    const { index, block } = this.#readings[i] as Reading;
    const offset = index.blockOffsets[block - 1] ?? 0;
    return damaged(index.ref.path, offset, "has a block of malformed entries");
  }

  #superseded(i: number): void {
    const { onSuperseded } = this.#options;
    if (!onSuperseded) return;
    const { bytes, words } = this.#kernel;
    const at = this.#cursor(i);
    const key = words[at + KEY] as number;
    const width = words[at + ORDINAL_WIDTH] as number;
    const ordinalAt = words[at + ORDINAL_AT] as number;
    let ordinal = this.#doubles[(at >>> 1) + ORDINAL_MIN] as number;
    for (let k = 0, scale = 1; k < width; k++, scale *= 256)
      ordinal += (bytes[ordinalAt + k] as number) * scale;
    onSuperseded(
      bytes,
      key,
      key + (words[at + KEY_LENGTH] as number),
      bytes,
      words[at + VALUE_START] as number,
      words[at + VALUE_END] as number,
      ordinal,
    );
  }

  #placeValue(value: number, length: number, rows: number): number {
    const { bytes } = this.#kernel;
    const pointer = bytes.subarray(POINTER, POINTER + POINTER_BYTES);
    const placed = this.#options.builder.addValue(rows, bytes, value, value + length, pointer);
    this.#placed += placed.size;
    this.#lastPlaced = placed.size;
    return placed.pointer;
  }
}
