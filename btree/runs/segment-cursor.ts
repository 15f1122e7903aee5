// Reads one segment entry by entry. Beside the key it tells how the key differs from the one before, as one number (an offset-value
// code): prefix compression has stored the answer already, and the merge orders almost all entries by these numbers alone.
//
//   code = 0                                     the key equals the one before
//   code = (OFFSET_CAP - offset) * 256 + byte    they first differ at `offset`, where this key has `byte`
//   code = 1                                     they first differ at OFFSET_CAP or later
//
// Of two keys that are not below a third, the one with the smaller code (relative to the third) is the smaller.

import { crc32 } from "node:zlib";
import { compareBytes, copyBytes, copyWords, viewOf, WORD_SLACK } from "../bytes.js";
import { damaged } from "./run-errors.js";
import type { RunReaders } from "./run-readers.js";
import type { MergedEntry } from "../types.js";
import type { SegmentIndex } from "./segment-index.js";

/** Offsets from here on are not told apart by the code. */
export const OFFSET_CAP = 1 << 22;

/** Code of a cursor that has no more entries: above all others. */
export const EXHAUSTED = 0x7fff_ffff;

/** The code of a key that first differs from a smaller one at `offset`, where it has `byte`. */
export function codeOf(offset: number, byte: number): number {
  return offset >= OFFSET_CAP ? 1 : ((OFFSET_CAP - offset) << 8) | byte;
}

/** The offset a code tells; -1 when it tells none. */
export function offsetOf(code: number): number {
  return code > 0xff ? OFFSET_CAP - (code >> 8) : -1;
}

/** Position in a sorted run of entries, which a merge reads. Fields describe the current entry and stay valid until `next()`. */
export interface MergeCursor extends MergedEntry {
  readonly cancels: boolean;
  /** Whether this is the end of the range rather than an entry. */
  readonly isSentinel: boolean;
  /** Among equal keys and ordinals the higher rank comes first. */
  readonly rank: number;
  /** Moves to the next entry; returns its code relative to the entry before, or EXHAUSTED. */
  next(): number;
}

/** Position in a segment. Fields describe the current entry and stay valid until `next()`. */
export class SegmentCursor implements MergeCursor {
  key = new Uint8Array(64);
  keyWords = viewOf(this.key);
  keyLength = 0;
  buffer: Uint8Array;
  bufferWords: DataView;
  valueStart = 0;
  valueEnd = 0;
  suffixFrom = 0;
  cancels = false;
  /** Whether this is the end of the range rather than an entry. */
  readonly isSentinel: boolean;
  /** Among equal keys and ordinals the higher rank comes first. */
  readonly rank: number;

  readonly #readers: RunReaders | undefined;
  readonly #index: SegmentIndex | undefined;
  readonly #bufferBytes: number;
  readonly #lent: { readonly bytes: Uint8Array; readonly words: DataView } | undefined;
  readonly #ordinalMin: number;
  readonly #ordinalWidth: number;
  #ordinalAt = 0;
  #bufferOffset = 0;
  #bufferLength = 0;
  #block = 0;
  #blockEnd = 0;
  #endBlock = 0;
  #position = 0;

  private constructor(
    readers: RunReaders | undefined,
    index: SegmentIndex | undefined,
    rank: number,
    bufferBytes: number,
    memory: Uint8Array | undefined,
  ) {
    this.#readers = readers;
    this.#index = index;
    this.rank = rank;
    this.isSentinel = index === undefined;
    this.#bufferBytes = bufferBytes;
    this.#ordinalMin = index?.ordinalMin ?? 0;
    this.#ordinalWidth = index?.ordinalWidth ?? 0;
    this.buffer = memory ?? new Uint8Array(0);
    this.bufferWords = viewOf(this.buffer);
    this.#lent = memory === undefined ? undefined : { bytes: memory, words: this.bufferWords };
  }

  /** Decoded on demand: most merges never ask, since almost all keys differ. */
  get ordinal(): number {
    if (this.isSentinel) return Infinity;
    let ordinal = this.#ordinalMin;
    let scale = 1;
    const start = this.#ordinalAt;
    for (let p = start; p < start + this.#ordinalWidth; p++) {
      ordinal += (this.buffer[p] as number) * scale;
      scale *= 256;
    }
    return ordinal;
  }

  /**
   * A cursor before the first entry with key >= gte; `next()` moves to it. Blocks that begin at lt or after are not read.
   *
   * @param memory - Read into this as long as blocks fit, instead of memory of its own.
   */
  static open(
    readers: RunReaders,
    index: SegmentIndex,
    rank: number,
    bufferBytes: number,
    gte: Uint8Array | undefined,
    lt: Uint8Array | undefined,
    memory?: Uint8Array,
  ): SegmentCursor {
    const cursor = new SegmentCursor(readers, index, rank, bufferBytes, memory);
    cursor.#endBlock = lt ? index.blocksBelow(lt) : index.blocks;
    cursor.#block = gte ? index.firstBlock(gte) : 0;
    return cursor;
  }

  /** A cursor whose only entry is a key that comes before all others of its kind: it ends a merge at `key`. */
  static sentinel(key: Uint8Array): SegmentCursor {
    const cursor = new SegmentCursor(undefined, undefined, Infinity, 0, undefined);
    cursor.key = new Uint8Array(key);
    cursor.keyLength = key.length;
    return cursor;
  }

  /** Moves to the first entry with key >= gte; returns its code relative to the empty key. */
  seek(gte: Uint8Array | undefined): number {
    let code = this.next();
    if (gte) {
      while (code !== EXHAUSTED && compareBytes(this.key.subarray(0, this.keyLength), gte) < 0) {
        code = this.next();
      }
    }
    return code === EXHAUSTED ? code : this.codeFromStart();
  }

  /** Code of the current key relative to the empty key. */
  codeFromStart(): number {
    return this.keyLength === 0 ? 0 : codeOf(0, this.key[0] as number);
  }

  /**
   * Moves to the next entry.
   *
   * @returns its code relative to the entry before, or EXHAUSTED.
   * @throws BtreeError BTREE_CORRUPT when its block is damaged.
   */
  next(): number {
    const first = this.#position === this.#blockEnd;
    if (first && !this.#loadBlock()) return EXHAUSTED;
    const buffer = this.buffer;
    let p = this.#position;
    let shared = buffer[p] as number;
    let suffix = buffer[p + 1] as number;
    let value = buffer[p + 2] as number;
    if ((shared | suffix | value) < 0x80) {
      p += 3;
    } else {
      shared = this.#varint();
      suffix = this.#varint();
      value = this.#varint();
      p = this.#position;
    }
    this.#ordinalAt = p;
    p += this.#ordinalWidth;
    this.cancels = value % 2 === 1;
    const valueStart = p + suffix;
    this.valueStart = valueStart;
    this.valueEnd = valueStart + (value - (value % 2)) / 2;
    this.#position = this.valueEnd;
    if (this.valueEnd > this.#blockEnd) throw this.#malformed();
    return first ? this.#takeFirstKey(p, suffix) : this.#takeKey(p, shared, suffix);
  }

  #takeKey(suffixStart: number, shared: number, suffix: number): number {
    const length = shared + suffix;
    if (suffix === 0) {
      // Keys ascend: one that adds nothing is the same key again.
      if (shared !== this.keyLength) throw this.#malformed();
      this.suffixFrom = shared;
      return 0;
    }
    if (length + WORD_SLACK > this.key.length) this.#growKey(length + WORD_SLACK);
    const code = codeOf(shared, this.buffer[suffixStart] as number);
    copyWords(this.bufferWords, suffixStart, suffixStart + suffix, this.keyWords, shared);
    this.keyLength = length;
    this.suffixFrom = shared;
    return code;
  }

  /** The first key of a block is whole: how it differs from the one before must be found out. */
  #takeFirstKey(start: number, length: number): number {
    const before = this.key;
    const buffer = this.buffer;
    const n = Math.min(length, this.keyLength);
    let shared = 0;
    this.suffixFrom = 0;
    while (shared < n && before[shared] === buffer[start + shared]) shared++;
    if (shared === length) {
      if (length !== this.keyLength) throw this.#malformed();
      return 0;
    }
    if (length + WORD_SLACK > before.length) this.#growKey(length + WORD_SLACK);
    copyBytes(buffer, start + shared, start + length, this.key, shared);
    this.keyLength = length;
    return codeOf(shared, buffer[start + shared] as number);
  }

  #loadBlock(): boolean {
    const index = this.#index;
    const block = this.#block;
    if (index === undefined || block >= this.#endBlock) return false;
    const offset = index.blockOffsets[block] as number;
    const bytes = (index.blockOffsets[block + 1] as number) - offset;
    if (offset >= this.#bufferOffset + this.#bufferLength || this.#bufferLength === 0)
      this.#fill(index, block);
    const start = offset - this.#bufferOffset;
    if (crc32(this.buffer.subarray(start, start + bytes)) !== index.blockCrcs[block]) {
      throw damaged(index.ref.path, offset, "has a damaged block");
    }
    this.#position = start;
    this.#blockEnd = start + bytes;
    this.#block = block + 1;
    return bytes > 0;
  }

  /** Reads as many whole blocks from `block` on as fit: one system call for all of them. */
  #fill(index: SegmentIndex, block: number): void {
    const start = index.blockOffsets[block] as number;
    let end = block + 1;
    while (
      end < this.#endBlock &&
      (index.blockOffsets[end + 1] as number) - start <= this.#bufferBytes
    ) {
      end++;
    }
    const length = (index.blockOffsets[end] as number) - start;
    this.#reserve(length, end === this.#endBlock);
    this.#readers?.read(index.ref.path, this.buffer, length, start);
    this.#bufferOffset = start;
    this.#bufferLength = length;
  }

  /** A buffer grown for one large entry is given back afterwards. */
  #reserve(length: number, last: boolean): void {
    const lent = this.#lent;
    if (lent && length + WORD_SLACK <= lent.bytes.length) {
      this.buffer = lent.bytes;
      this.bufferWords = lent.words;
      return;
    }
    const held = this.buffer === lent?.bytes ? -1 : this.buffer.length - WORD_SLACK;
    const wanted = lent || last ? length : Math.max(length, this.#bufferBytes);
    if (held >= length && held <= Math.max(length, this.#bufferBytes)) return;
    this.buffer = new Uint8Array(wanted + WORD_SLACK);
    this.bufferWords = viewOf(this.buffer);
  }

  #varint(): number {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 8; i++) {
      const byte = this.buffer[this.#position++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    throw this.#malformed();
  }

  #growKey(length: number): void {
    const grown = new Uint8Array(Math.max(length, this.key.length * 2));
    grown.set(this.key.subarray(0, this.keyLength));
    this.key = grown;
    this.keyWords = viewOf(grown);
  }

  #malformed(): Error {
    const offset = this.#index?.blockOffsets[this.#block - 1] ?? 0;
    return damaged(this.#index?.ref.path ?? "", offset, "has a block of malformed entries");
  }
}
