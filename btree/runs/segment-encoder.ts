// Turns entries in order into a segment: blocks as they fill, then index and footer (layout in format.ts). Knows neither batches nor
// files: encode-segment.ts feeds it from a sorted batch, pre-merge.ts from a merge.

import { crc32 } from "node:zlib";
import { copyWords, viewOf, WORD_SLACK, writeU32, writeVarint } from "../bytes.js";
import {
  BLOCK_BYTES_MAX,
  CANCEL,
  FOOTER_BLOCK_BYTES,
  FOOTER_BLOCKS,
  FOOTER_BYTES,
  FOOTER_CRC,
  FOOTER_ENTRIES,
  FOOTER_INDEX_BYTES,
  FOOTER_ORDINAL_MAX,
  FOOTER_ORDINAL_MIN,
  FOOTER_ORDINAL_WIDTH,
  FOOTER_VERSION,
  INDEX_KEY_BYTES_MAX,
  INDEX_RECORD_BYTES,
  ordinalWidthOf,
  SEGMENT_MAGIC,
  SEGMENT_VERSION,
} from "./format.js";

/** Three varints of 5 bytes, an ordinal of 7, and what a copy by words may write beyond its end. */
const ENTRY_HEAD_BYTES_MAX = 22 + WORD_SLACK;

/** What a footer tells. */
export interface SegmentSummary {
  /** Bytes of all blocks: where the index begins. */
  readonly blockBytes: number;
  readonly indexBytes: number;
  readonly blocks: number;
  readonly entries: number;
  readonly ordinalMin: number;
  readonly ordinalMax: number;
  /** Bytes of the largest block. */
  readonly blockBytesMax: number;
}

/** Writes the footer to the end of a segment whose blocks and index are done. */
export function writeFooter(segment: Uint8Array, summary: SegmentSummary): void {
  const { blockBytes, indexBytes, ordinalMin, ordinalMax } = summary;
  const footer = blockBytes + indexBytes;
  const view = new DataView(segment.buffer, segment.byteOffset + footer, FOOTER_BYTES);
  view.setUint32(0, SEGMENT_MAGIC, true);
  view.setUint32(FOOTER_VERSION, SEGMENT_VERSION, true);
  view.setUint32(FOOTER_INDEX_BYTES, indexBytes, true);
  view.setUint32(FOOTER_BLOCKS, summary.blocks, true);
  view.setFloat64(FOOTER_ENTRIES, summary.entries, true);
  view.setFloat64(FOOTER_ORDINAL_MIN, ordinalMin, true);
  view.setFloat64(FOOTER_ORDINAL_MAX, ordinalMax, true);
  view.setUint32(FOOTER_ORDINAL_WIDTH, ordinalWidthOf(ordinalMax - ordinalMin), true);
  view.setUint32(FOOTER_BLOCK_BYTES, summary.blockBytesMax, true);
  view.setUint32(FOOTER_CRC, crc32(segment.subarray(blockBytes, footer + FOOTER_CRC)), true);
}

/** Encodes one segment. */
export class SegmentEncoder {
  /** Finished blocks that `take()` did not fetch, then the open one. */
  #out: Uint8Array;
  #outWords: DataView;
  #used = 0;
  #blockStart = 0;
  #index = new Uint8Array(4096);
  #indexWords = viewOf(this.#index);
  #indexUsed = 0;
  #blocks = 0;
  #blockBytesMax = 0;
  #entries = 0;
  readonly #ordinalMin: number;
  readonly #ordinalMax: number;
  readonly #ordinalWidth: number;
  readonly #blockLimit: number;

  /**
   * Every entry's ordinal must lie in [ordinalMin, ordinalMax].
   *
   * @param scratch - Memory to encode in; see `scratch`.
   */
  constructor(
    ordinalMin: number,
    ordinalMax: number,
    scratch: Uint8Array,
    blockLimit = BLOCK_BYTES_MAX,
  ) {
    this.#blockLimit = blockLimit;
    this.#ordinalMin = ordinalMin;
    this.#ordinalMax = ordinalMax;
    this.#ordinalWidth = ordinalWidthOf(ordinalMax - ordinalMin);
    this.#out = scratch;
    this.#outWords = viewOf(scratch);
  }

  get entries(): number {
    return this.#entries;
  }

  /** The memory that was encoded in, grown if need was: free for the next encoder once this one is finished. */
  get scratch(): Uint8Array {
    return this.#out;
  }

  /** Bytes that wait to be taken. */
  get pendingBytes(): number {
    return this.#blockStart;
  }

  /**
   * Adds the next entry: its key is key[keyStart, keyEnd), its value value[valueStart, valueEnd).
   *
   * @param shared - Exactly how many bytes its key has in common with the key before; anything for the first entry.
   */
  add(
    key: DataView,
    keyStart: number,
    keyEnd: number,
    shared: number,
    value: DataView,
    valueStart: number,
    valueEnd: number,
    ordinal: number,
    flags: number,
  ): void {
    const bytesMax = keyEnd - keyStart + (valueEnd - valueStart) + ENTRY_HEAD_BYTES_MAX;
    if (
      this.#used > this.#blockStart &&
      this.#used - this.#blockStart + bytesMax - shared > this.#blockLimit
    ) {
      this.#closeBlock();
    }
    if (this.#used + bytesMax > this.#out.length) this.#grow(bytesMax);
    let prefix = shared;
    if (this.#used === this.#blockStart) {
      prefix = 0;
      this.#beginIndexRecord(key, keyStart, keyEnd);
    }
    const out = this.#out;
    let p = this.#used;
    const suffixStart = keyStart + prefix;
    const suffixLength = keyEnd - suffixStart;
    const valueLength = (valueEnd - valueStart) * 2 + (flags & CANCEL);
    // Lengths may pass 2^31, so the varint test is a comparison, not a bit operation.
    if (prefix < 0x80 && suffixLength < 0x80 && valueLength < 0x80) {
      out[p] = prefix;
      out[p + 1] = suffixLength;
      out[p + 2] = valueLength;
      p += 3;
    } else {
      p = writeVarint(out, p, prefix);
      p = writeVarint(out, p, suffixLength);
      p = writeVarint(out, p, valueLength);
    }
    const width = this.#ordinalWidth;
    let delta = ordinal - this.#ordinalMin;
    if (width <= 4) {
      for (let rest = delta >>> 0, i = width; i > 0; i--, rest >>>= 8) out[p++] = rest & 0xff;
    } else {
      for (let i = width; i > 0; i--, delta = Math.floor(delta / 256)) out[p++] = delta & 0xff;
    }
    if (key === value && valueStart === keyEnd) {
      copyWords(key, suffixStart, valueEnd, this.#outWords, p);
      p += suffixLength;
    } else {
      copyWords(key, suffixStart, keyEnd, this.#outWords, p);
      p += suffixLength;
      copyWords(value, valueStart, valueEnd, this.#outWords, p);
    }
    this.#used = p + valueEnd - valueStart;
    this.#entries++;
  }

  /** Fetches the finished blocks, valid until the next call: for writers that stream. */
  take(): Uint8Array {
    const taken = this.#out.slice(0, this.#blockStart);
    this.#out.copyWithin(0, this.#blockStart, this.#used);
    this.#used -= this.#blockStart;
    this.#blockStart = 0;
    return taken;
  }

  /** Closes the segment and fetches what is left of it, a view of `scratch`. The encoder is spent. */
  finish(): Uint8Array {
    if (this.#used > this.#blockStart) this.#closeBlock();
    const blockBytes = this.#used;
    const size = blockBytes + this.#indexUsed + FOOTER_BYTES;
    if (size > this.#out.length) this.#grow(size - blockBytes);
    const result = this.#out.subarray(0, size);
    result.set(this.#index.subarray(0, this.#indexUsed), blockBytes);
    writeFooter(result, {
      blockBytes,
      indexBytes: this.#indexUsed,
      blocks: this.#blocks,
      entries: this.#entries,
      ordinalMin: this.#ordinalMin,
      ordinalMax: this.#ordinalMax,
      blockBytesMax: this.#blockBytesMax,
    });
    return result;
  }

  #beginIndexRecord(key: DataView, keyStart: number, keyEnd: number): void {
    const length = Math.min(keyEnd - keyStart, INDEX_KEY_BYTES_MAX);
    if (this.#indexUsed + INDEX_RECORD_BYTES + length + WORD_SLACK > this.#index.length) {
      const grown = new Uint8Array(this.#index.length * 2);
      grown.set(this.#index);
      this.#index = grown;
      this.#indexWords = viewOf(grown);
    }
    this.#index[this.#indexUsed + 8] = length;
    const at = this.#indexUsed + INDEX_RECORD_BYTES;
    copyWords(key, keyStart, keyStart + length, this.#indexWords, at);
  }

  #closeBlock(): void {
    const at = this.#indexUsed;
    const bytes = this.#used - this.#blockStart;
    writeU32(this.#index, at, bytes);
    writeU32(this.#index, at + 4, crc32(this.#out.subarray(this.#blockStart, this.#used)));
    this.#indexUsed = at + INDEX_RECORD_BYTES + (this.#index[at + 8] as number);
    if (bytes > this.#blockBytesMax) this.#blockBytesMax = bytes;
    this.#blocks++;
    this.#blockStart = this.#used;
  }

  #grow(bytes: number): void {
    const grown = new Uint8Array(Math.max(this.#out.length * 2, this.#used + bytes));
    grown.set(this.#out.subarray(0, this.#used));
    this.#out = grown;
    this.#outWords = viewOf(grown);
  }
}
