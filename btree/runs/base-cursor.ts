// The entries of an existing tree, one by one, as what a merge lays its segments over.

import { compareBytes } from "../bytes.js";
import type { Bytes, KeyRange, LeafSlice, TreeReader } from "../types.js";

/** Ordinal of the entries of a tree that segments are merged over: below that of every document of a feed. */
export const BASE_ORDINAL = -1;

/** Position in a tree. */
export class BaseCursor {
  done = false;
  key: Bytes = new Uint8Array(0);
  readonly #slices: Iterator<LeafSlice>;
  #slice: LeafSlice | undefined;
  #entry = -1;

  /** Stands on the first entry of the range. */
  constructor(reader: TreeReader, range: KeyRange) {
    this.#slices = reader.slices(range);
    this.next();
  }

  get value(): Bytes {
    return this.#slice?.value(this.#entry) ?? this.key;
  }

  /** Order of the current key and key[0, length). */
  compare(key: Bytes, length: number): number {
    return compareBytes(this.key, key.length === length ? key : key.subarray(0, length));
  }

  next(): void {
    this.#entry++;
    while (this.#slice === undefined || this.#entry >= this.#slice.length) {
      const next = this.#slices.next();
      if (next.done === true) {
        this.done = true;
        return;
      }
      this.#slice = next.value;
      this.#entry = 0;
    }
    this.key = this.#slice.key(this.#entry);
  }
}
