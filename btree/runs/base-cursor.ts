// The entries of an existing tree as a run that is older than all others: what a merge lays its segments over.

import { copyBytes, NO_BYTES, viewOf, WORD_SLACK } from "../bytes.js";
import type { Bytes, KeyRange, LeafSlice, TreeReader, VisitedSlice } from "../types.js";
import { codeOf, EXHAUSTED, type MergeCursor } from "./segment-cursor.js";

/** Ordinal of the entries of a tree that segments are merged over: below that of every document of a feed. */
export const BASE_ORDINAL = -1;

/** Position in a tree, as a merge sees it. */
export class BaseCursor implements MergeCursor {
  key = new Uint8Array(64);
  keyWords = viewOf(this.key);
  keyLength = 0;
  buffer: Bytes = NO_BYTES;
  bufferWords = viewOf(this.buffer);
  valueStart = 0;
  valueEnd = 0;
  suffixFrom = 0;
  readonly ordinal = BASE_ORDINAL;
  readonly cancels = false;
  readonly isSentinel = false;
  readonly rank = -1;
  readonly #slices: Iterator<LeafSlice>;
  #slice: LeafSlice | VisitedSlice | undefined;
  #entry = -1;

  /** Stands before the first entry of the range. */
  constructor(reader: TreeReader, range: KeyRange) {
    this.#slices = reader.slices(range);
  }

  /** Moves to the next entry; returns its code relative to the entry before, of the first one to the empty key, or EXHAUSTED. */
  next(): number {
    this.#entry++;
    while (this.#slice === undefined || this.#entry >= this.#slice.length) {
      const next = this.#slices.next();
      if (next.done === true) return EXHAUSTED;
      this.#slice = next.value;
      this.#entry = 0;
    }
    const slice = this.#slice;
    if ("visit" in slice) {
      slice.visit(this.#entry);
      this.#setValue(slice.valueBytes, slice.valueStart, slice.valueEnd);
      this.suffixFrom = slice.suffixFrom;
      return this.#setKey(slice.keyBytes, slice.keyLength, slice.keyShared);
    }
    const key = slice.key(this.#entry);
    const value = slice.value(this.#entry);
    this.#setValue(value, 0, value.length);
    this.suffixFrom = key.length;
    return this.#setKey(key, key.length, 0);
  }

  #setValue(bytes: Bytes, start: number, end: number): void {
    if (this.buffer !== bytes) {
      this.buffer = bytes;
      this.bufferWords = viewOf(bytes);
    }
    this.valueStart = start;
    this.valueEnd = end;
  }

  /** Other slices of the thread may be visited before the next entry: the key is copied, as far as it is not here already. */
  #setKey(bytes: Bytes, length: number, known: number): number {
    const before = this.keyLength;
    if (length + WORD_SLACK > this.key.length) {
      const grown = new Uint8Array((length + WORD_SLACK) * 2);
      grown.set(this.key.subarray(0, before));
      this.key = grown;
      this.keyWords = viewOf(grown);
    }
    const { key } = this;
    const limit = Math.min(before, length);
    let shared = known;
    while (shared < limit && key[shared] === bytes[shared]) shared++;
    copyBytes(bytes, shared, length, key, shared);
    this.keyLength = length;
    // Only the first key may be empty, like the one that codes of first keys are relative to.
    return shared === length ? 0 : codeOf(shared, key[shared] as number);
  }
}
