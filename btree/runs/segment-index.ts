// The sparse index at the end of a segment: where its blocks are, what their checksums must be, and with which key each begins.
// Read and verified once, before anything of the segment is believed.

import { crc32 } from "node:zlib";
import { compareBytes, readU32, sharedPrefix } from "../bytes.js";
import {
  FOOTER_BLOCK_BYTES,
  FOOTER_BLOCKS,
  FOOTER_BYTES,
  FOOTER_CRC,
  FOOTER_INDEX_BYTES,
  FOOTER_ORDINAL_MAX,
  FOOTER_ORDINAL_MIN,
  FOOTER_ORDINAL_WIDTH,
  FOOTER_VERSION,
  INDEX_KEY_BYTES_MAX,
  INDEX_RECORD_BYTES,
  SEGMENT_MAGIC,
  SEGMENT_VERSION,
} from "./format.js";
import { damaged, newerVersion } from "./run-errors.js";
import type { RunReaders } from "./run-readers.js";

/** Where a segment lies. Plain data: survives structured cloning and JSON. */
export interface SegmentRef {
  readonly path: string;
  readonly offset: number;
  readonly length: number;
  readonly entries: number;
}

/** Enough for footer and index of the segments of a usual chunk. */
const TAIL_BYTES = 4096;

/** A verified sparse index. */
export class SegmentIndex {
  readonly ref: SegmentRef;
  readonly blocks: number;
  readonly ordinalMin: number;
  readonly ordinalMax: number;
  readonly ordinalWidth: number;
  /** Bytes of the largest block. */
  readonly blockBytesMax: number;
  /** File offset of each block, and of the end of the last. */
  readonly blockOffsets: Float64Array;
  readonly blockCrcs: Uint32Array;
  /** First keys, cut to 255 bytes, in `bytes`: starts at even places, ends at odd ones. */
  readonly keySpans: Uint32Array;
  readonly bytes: Uint8Array;

  /**
   * Reads the index of a segment.
   *
   * @throws BtreeError BTREE_CORRUPT when footer or index are damaged or are not those of `ref`.
   */
  static read(readers: RunReaders, ref: SegmentRef): SegmentIndex {
    return new SegmentIndex(readers, ref);
  }

  private constructor(readers: RunReaders, ref: SegmentRef) {
    this.ref = ref;
    const end = ref.offset + ref.length;
    if (ref.length < FOOTER_BYTES) throw damaged(ref.path, ref.offset, "is too short");
    let tail = readExactly(readers, ref.path, Math.max(ref.offset, end - TAIL_BYTES), end);
    let footer = footerOf(tail);
    if (footer.getUint32(0, true) !== SEGMENT_MAGIC) {
      throw damaged(ref.path, end - FOOTER_BYTES, "does not end with a segment footer");
    }
    const indexBytes = footer.getUint32(FOOTER_INDEX_BYTES, true);
    const indexAt = end - FOOTER_BYTES - indexBytes;
    if (indexAt < ref.offset) throw damaged(ref.path, end - FOOTER_BYTES, "has a broken footer");
    if (tail.length < indexBytes + FOOTER_BYTES) {
      tail = readExactly(readers, ref.path, indexAt, end);
      footer = footerOf(tail);
    }
    const index = tail.subarray(
      tail.length - FOOTER_BYTES - indexBytes,
      tail.length - FOOTER_BYTES,
    );
    const checked = tail.subarray(
      tail.length - FOOTER_BYTES - indexBytes,
      tail.length - FOOTER_BYTES + FOOTER_CRC,
    );
    if (crc32(checked) !== footer.getUint32(FOOTER_CRC, true)) {
      throw damaged(ref.path, indexAt, "has a damaged index");
    }
    const version = footer.getUint32(FOOTER_VERSION, true);
    if (version !== SEGMENT_VERSION) throw newerVersion(ref.path, version);
    this.blocks = footer.getUint32(FOOTER_BLOCKS, true);
    this.ordinalMin = footer.getFloat64(FOOTER_ORDINAL_MIN, true);
    this.ordinalMax = footer.getFloat64(FOOTER_ORDINAL_MAX, true);
    this.ordinalWidth = footer.getUint32(FOOTER_ORDINAL_WIDTH, true);
    this.blockBytesMax = footer.getUint32(FOOTER_BLOCK_BYTES, true);
    this.bytes = index;
    this.blockOffsets = new Float64Array(this.blocks + 1);
    this.blockCrcs = new Uint32Array(this.blocks);
    this.keySpans = new Uint32Array(this.blocks * 2);
    if (this.#parse() !== indexAt)
      throw damaged(ref.path, indexAt, "has blocks and an index that do not meet");
  }

  /** Number of the first block that may hold keys >= gte. */
  firstBlock(gte: Uint8Array): number {
    // Keys of block b - 1 do not exceed block b's first key, so all blocks before the last one that begins below gte are out.
    let low = 0;
    let high = this.blocks;
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if (this.#beginsBelow(middle, gte)) low = middle;
      else high = middle;
    }
    return low;
  }

  /** Number of blocks at the start that may hold keys < lt. */
  blocksBelow(lt: Uint8Array): number {
    let low = 0;
    let high = this.blocks;
    while (low < high) {
      const middle = (low + high) >>> 1;
      // A cut key is not above the whole one: at worst a block too many is read.
      if (compareBytes(this.blockKey(middle), lt) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The first key of a block, cut to 255 bytes: a view. */
  blockKey(block: number): Uint8Array {
    return this.bytes.subarray(this.keySpans[block * 2], this.keySpans[block * 2 + 1]);
  }

  #beginsBelow(block: number, key: Uint8Array): boolean {
    const first = this.blockKey(block);
    if (compareBytes(first, key) >= 0) return false;
    // Of a cut key that `key` begins with, the rest is not known.
    return first.length < INDEX_KEY_BYTES_MAX || sharedPrefix(first, key) < INDEX_KEY_BYTES_MAX;
  }

  /** Returns where the last block ends. */
  #parse(): number {
    const { bytes } = this;
    let offset = this.ref.offset;
    let at = 0;
    for (let block = 0; block < this.blocks; block++) {
      if (at + INDEX_RECORD_BYTES > bytes.length) return -1;
      this.blockOffsets[block] = offset;
      offset += readU32(bytes, at);
      this.blockCrcs[block] = readU32(bytes, at + 4);
      const keyAt = at + INDEX_RECORD_BYTES;
      at = keyAt + (bytes[at + 8] as number);
      this.keySpans[block * 2] = keyAt;
      this.keySpans[block * 2 + 1] = at;
    }
    this.blockOffsets[this.blocks] = offset;
    return at === bytes.length ? offset : -1;
  }
}

function footerOf(tail: Uint8Array): DataView {
  return new DataView(tail.buffer, tail.byteOffset + tail.length - FOOTER_BYTES, FOOTER_BYTES);
}

function readExactly(readers: RunReaders, path: string, start: number, end: number): Uint8Array {
  const bytes = new Uint8Array(end - start);
  readers.read(path, bytes, bytes.length, start);
  return bytes;
}
