// The arena in which a worker collects entries until a chunk is done: bytes of all keys and values in one buffer, their places in
// typed arrays. Nothing is allocated per entry; clear() keeps the memory for the next chunk.

import { copyWords, viewOf, WORD_SLACK } from "../bytes.js";
import { RadixSorter, type SortInput } from "./radix-sort.js";
import { sortByKernel } from "./segment-kernel.js";

const ARENA_BYTES_MAX = 0xffff_ffff;
const ENTRIES_MIN = 1024;
/** A larger arena, grown for one huge chunk, is given back. */
const ARENA_BYTES_KEPT_MAX = 32 * 1024 * 1024;

/** Entries on their way between threads: their bytes, four numbers an entry (key start and end, value start and end), ordinals, flags. */
export interface RawEntries {
  readonly bytes: Uint8Array;
  readonly spans: Uint32Array;
  readonly ordinals: Float64Array;
  readonly flags: Uint8Array;
}

/**
 * Unsorted entries of one tree, then the same entries sorted. Write key and value to `bytes[used…]` after `ensure()`, advance
 * `used`, and register the entry by `push()`. Fits where a byte sink `{ bytes, used, ensure }` is wanted.
 *
 * @example
 * ```ts
 * const batch = new EntryBatch();
 * batch.ensure(6);
 * batch.bytes.set([1, 2, 3, 4, 5, 6], batch.used);
 * batch.push(batch.used, batch.used + 4, batch.used + 4, batch.used + 6, 17);
 * batch.used += 6;
 * batch.sort();
 * runFile.append(encodeSegment(batch));
 * ```
 */
export class EntryBatch {
  /** The arena. Replaced by a larger one in `ensure()`: do not keep it across calls. */
  bytes: Uint8Array;
  #words: DataView;
  /** Bytes of the arena in use. */
  used = 0;

  #length = 0;
  /** Four numbers an entry: key start, key end, value start, value end. */
  #spans: Uint32Array;
  #ordinals: Float64Array;
  #flags: Uint8Array;
  #order: Uint32Array;
  #sorter: RadixSorter | undefined;

  /**
   * @param bytes - Initial size of the arena.
   */
  constructor(bytes = 64 * 1024) {
    this.bytes = new Uint8Array(bytes);
    this.#words = viewOf(this.bytes);
    this.#spans = new Uint32Array(ENTRIES_MIN * 4);
    this.#ordinals = new Float64Array(ENTRIES_MIN);
    this.#flags = new Uint8Array(ENTRIES_MIN);
    this.#order = new Uint32Array(ENTRIES_MIN);
  }

  /** Entries pushed since the last `clear()`. */
  get length(): number {
    return this.#length;
  }

  /** The arena, to be read by words. */
  get words(): DataView {
    if (this.#words.buffer !== this.bytes.buffer) this.#words = viewOf(this.bytes);
    return this.#words;
  }

  /** Lowest and highest ordinal: [0, 0] of no entries. */
  ordinalRange(): readonly [number, number] {
    const ordinals = this.#ordinals;
    let low = this.#length === 0 ? 0 : Infinity;
    let high = 0;
    for (let i = 0; i < this.#length; i++) {
      const ordinal = ordinals[i] as number;
      if (ordinal < low) low = ordinal;
      if (ordinal > high) high = ordinal;
    }
    return [low, high];
  }

  /** Bytes this batch holds on to, bookkeeping included: what a memory bound should count. */
  get memoryBytes(): number {
    return this.bytes.length + this.#ordinals.length * 29 + (this.#sorter?.memoryBytes ?? 0);
  }

  /**
   * Makes room for `n` bytes after `used`.
   *
   * @throws RangeError when the arena would exceed 4 GiB: spill the batch earlier.
   */
  ensure(n: number): void {
    const needed = this.used + n;
    if (needed <= this.bytes.length) return;
    if (needed > ARENA_BYTES_MAX) {
      throw new RangeError(
        `a batch holds at most 4 GiB, and ${needed} bytes were asked for: encode it as a segment earlier`,
      );
    }
    const grown = new Uint8Array(
      Math.min(Math.max(needed, this.bytes.length * 2), ARENA_BYTES_MAX),
    );
    grown.set(this.bytes.subarray(0, this.used));
    this.bytes = grown;
  }

  /**
   * Registers an entry whose key and value stand in `bytes`; entries may share bytes.
   *
   * @param ordinal - Place of the entry's document in the feed: an integer from 0 to 2^53 - 1; -1 in a cancel that is meant for the
   * entries of a merge's base tree.
   * @param flags - 0, or `CANCEL`; bits above it are the owner's, for batches that stay in memory.
   */
  push(
    keyStart: number,
    keyEnd: number,
    valueStart: number,
    valueEnd: number,
    ordinal: number,
    flags = 0,
  ): void {
    const i = this.#length;
    if (i === this.#ordinals.length) this.#grow();
    const spans = this.#spans;
    spans[i * 4] = keyStart;
    spans[i * 4 + 1] = keyEnd;
    spans[i * 4 + 2] = valueStart;
    spans[i * 4 + 3] = valueEnd;
    this.#ordinals[i] = ordinal;
    this.#flags[i] = flags;
    this.#order[i] = i;
    this.#length = i + 1;
  }

  /**
   * Puts bytes behind those in use, and registers entries of them.
   *
   * @param spans - four numbers an entry, as `push` takes them: positions in `bytes` of this batch.
   * @param ordinals - one an entry.
   */
  append(bytes: Uint8Array, spans: Uint32Array, ordinals: Float64Array): void {
    this.ensure(bytes.length);
    this.bytes.set(bytes, this.used);
    this.used += bytes.length;
    const start = this.#length;
    const end = start + ordinals.length;
    while (end > this.#ordinals.length) this.#grow();
    this.#spans.set(spans, start * 4);
    this.#ordinals.set(ordinals, start);
    this.#flags.fill(0, start, end);
    for (let i = start; i < end; i++) this.#order[i] = i;
    this.#length = end;
  }

  /** Forgets all entries and keeps the memory, up to 32 MiB of it. */
  clear(): void {
    this.#length = 0;
    this.used = 0;
    if (this.bytes.length > ARENA_BYTES_KEPT_MAX) this.bytes = new Uint8Array(ARENA_BYTES_KEPT_MAX);
  }

  /** Adds to the flags of the i-th entry in order of insertion. */
  mark(i: number, flags: number): void {
    this.#flags[i] = (this.#flags[i] as number) | flags;
  }

  /**
   * A copy of all entries as transferable arrays, sorted; the batch is cleared. Their bytes lie in the same order: whoever goes through them
   * looks at memory front to back.
   */
  export(): RawEntries {
    this.sort();
    const n = this.#length;
    let size = 0;
    for (let i = 0; i < n; i++)
      size += this.keyEnd(i) - this.keyStart(i) + this.valueEnd(i) - this.valueStart(i);
    const bytes = new Uint8Array(size + WORD_SLACK);
    const from = this.words;
    const to = viewOf(bytes);
    const spans = new Uint32Array(n * 4);
    const ordinals = new Float64Array(n);
    const flags = new Uint8Array(n);
    let used = 0;
    for (let i = 0; i < n; i++) {
      const key = this.keyStart(i);
      const keyEnd = this.keyEnd(i);
      const value = this.valueStart(i);
      const valueEnd = this.valueEnd(i);
      const split = used + keyEnd - key;
      const end = split + valueEnd - value;
      if (keyEnd === value) copyWords(from, key, valueEnd, to, used);
      else {
        copyWords(from, key, keyEnd, to, used);
        copyWords(from, value, valueEnd, to, split);
      }
      spans[i * 4] = used;
      spans[i * 4 + 1] = split;
      spans[i * 4 + 2] = split;
      spans[i * 4 + 3] = end;
      ordinals[i] = this.ordinal(i);
      flags[i] = this.flags(i);
      used = end;
    }
    this.clear();
    return { bytes, spans, ordinals, flags };
  }

  /** Adds all entries of another batch's `export()`. */
  import(raw: RawEntries): void {
    const base = this.used;
    this.ensure(raw.bytes.length);
    this.bytes.set(raw.bytes, base);
    this.used = base + raw.bytes.length;
    const start = this.#length;
    const end = start + raw.ordinals.length;
    while (end > this.#ordinals.length) this.#grow();
    const spans = this.#spans;
    for (let from = 0, to = start * 4; from < raw.spans.length; from++, to++)
      spans[to] = base + (raw.spans[from] as number);
    this.#ordinals.set(raw.ordinals, start);
    this.#flags.set(raw.flags, start);
    for (let i = start; i < end; i++) this.#order[i] = i;
    this.#length = end;
  }

  /** Takes back the entries pushed last, before a sort: `length` and `used` as they were read at the time to return to. */
  truncate(length: number, used: number): void {
    this.#length = length;
    this.used = used;
  }

  /** The arrays that describe the entries, in order of insertion, and their order. */
  get columns(): SortInput {
    return {
      bytes: this.bytes,
      used: this.used,
      spans: this.#spans,
      ordinals: this.#ordinals,
      flags: this.#flags,
      order: this.#order,
      length: this.#length,
    };
  }

  /** Sorts by key, then ordinal, then `CANCEL` first, then order of insertion. The accessors below follow. */
  sort(): void {
    const { columns } = this;
    if (sortByKernel(columns)) return;
    this.#sorter ??= new RadixSorter();
    this.#sorter.sort(columns);
  }

  /** Where the key of the i-th entry (in sorted order, once sorted) starts in `bytes`. */
  keyStart(i: number): number {
    return this.#spans[(this.#order[i] as number) * 4] as number;
  }

  keyEnd(i: number): number {
    return this.#spans[(this.#order[i] as number) * 4 + 1] as number;
  }

  valueStart(i: number): number {
    return this.#spans[(this.#order[i] as number) * 4 + 2] as number;
  }

  valueEnd(i: number): number {
    return this.#spans[(this.#order[i] as number) * 4 + 3] as number;
  }

  ordinal(i: number): number {
    return this.#ordinals[this.#order[i] as number] as number;
  }

  flags(i: number): number {
    return this.#flags[this.#order[i] as number] as number;
  }

  #grow(): void {
    const capacity = this.#ordinals.length * 2;
    const spans = new Uint32Array(capacity * 4);
    spans.set(this.#spans);
    this.#spans = spans;
    const ordinals = new Float64Array(capacity);
    ordinals.set(this.#ordinals);
    this.#ordinals = ordinals;
    const flags = new Uint8Array(capacity);
    flags.set(this.#flags);
    this.#flags = flags;
    const order = new Uint32Array(capacity);
    order.set(this.#order);
    this.#order = order;
  }
}
