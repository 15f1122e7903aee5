// A sorted, immutable table (hash of id → offset of its line) over a stretch of a file, in memory or in a side file.
// An entry is three 32-bit words: hash, offset low, offset high; entries are in order of hash, then offset. Hashes are
// uniform, so a search guesses the place by interpolation and reads one or two blocks at any size.

import { closeSync, openSync, readSync, writeSync } from "node:fs";

const WORDS = 3;
export const SEGMENT_ENTRY_BYTES = WORDS * 4;
/** Entries a table can be built with at once: the sort packs hash and position into one double. */
export const SEGMENT_BUILD_MAX = 2 ** 20;
const BLOCK_ENTRIES = 340;
const HASHES = 2 ** 32;
const GUESSES_MAX = 6;
const WRITE_ENTRIES = 16 * 1024;

/** Where a table's words are. */
export interface Words {
  readonly entries: number;
  read(first: number, count: number): Uint32Array;
}

export class LookupSegment {
  /** The stretch of the source file it covers. */
  readonly start: number;
  readonly end: number;
  readonly entries: number;
  /** Path of the side file; undefined in memory. */
  readonly path: string | undefined;
  readonly #words: Words;
  readonly #close: () => void;

  private constructor(
    start: number,
    end: number,
    words: Words,
    path: string | undefined,
    close: () => void,
  ) {
    this.start = start;
    this.end = end;
    this.entries = words.entries;
    this.path = path;
    this.#words = words;
    this.#close = close;
  }

  /** From hashes and offsets in file order, at most SEGMENT_BUILD_MAX of them. */
  static build(
    start: number,
    end: number,
    hashes: Uint32Array,
    offsets: Float64Array,
    count: number,
  ): LookupSegment {
    const order = new Float64Array(count);
    for (let i = 0; i < count; i++) order[i] = (hashes[i] as number) * SEGMENT_BUILD_MAX + i;
    order.sort();
    const words = new Uint32Array(count * WORDS);
    for (let i = 0; i < count; i++) {
      const packed = order[i] as number;
      const offset = offsets[packed % SEGMENT_BUILD_MAX] as number;
      words[i * WORDS] = Math.floor(packed / SEGMENT_BUILD_MAX);
      words[i * WORDS + 1] = offset % HASHES;
      words[i * WORDS + 2] = Math.floor(offset / HASHES);
    }
    return LookupSegment.inMemory(start, end, words);
  }

  static inMemory(start: number, end: number, words: Uint32Array): LookupSegment {
    const entries = words.length / WORDS;
    const read = (first: number, count: number): Uint32Array =>
      words.subarray(first * WORDS, (first + count) * WORDS);
    return new LookupSegment(start, end, { entries, read }, undefined, () => undefined);
  }

  /** Opens a side file. Throws what node throws when it is not there or not of that size. */
  static open(path: string, start: number, end: number, entries: number): LookupSegment {
    const fd = openSync(path, "r");
    const read = (first: number, count: number): Uint32Array => {
      const words = new Uint32Array(count * WORDS);
      const bytes = new Uint8Array(words.buffer);
      const got = readSync(fd, bytes, 0, bytes.length, first * SEGMENT_ENTRY_BYTES);
      if (got !== bytes.length) throw new Error(`${path} is shorter than it must be`);
      return words;
    };
    const segment = new LookupSegment(start, end, { entries, read }, path, () => {
      closeSync(fd);
    });
    if (entries > 0) read(entries - 1, 1);
    return segment;
  }

  /** Merges neighbours (in file order): into a side file, or in memory without a path. */
  static merge(segments: readonly LookupSegment[], path?: string): LookupSegment {
    const start = segments[0]?.start ?? 0;
    const end = segments.at(-1)?.end ?? 0;
    const entries = segments.reduce((sum, segment) => sum + segment.entries, 0);
    if (path === undefined) {
      const all = new Uint32Array(entries * WORDS);
      mergeWords(segments, all, () => undefined);
      return LookupSegment.inMemory(start, end, all);
    }
    const fd = openSync(path, "wx");
    try {
      const block = new Uint32Array(WRITE_ENTRIES * WORDS);
      mergeWords(segments, block, (words) => {
        writeSync(fd, new Uint8Array(words.buffer, words.byteOffset, words.byteLength));
      });
    } finally {
      closeSync(fd);
    }
    return LookupSegment.open(path, start, end, entries);
  }

  /** The table's words, for the merge. */
  get words(): Words {
    return this.#words;
  }

  /** Offsets of lines whose id has this hash, in file order; a few may belong to other ids. */
  find(hash: number): number[] {
    const offsets: number[] = [];
    for (let first = this.#lowerBound(hash); first < this.entries; first += BLOCK_ENTRIES) {
      const count = Math.min(BLOCK_ENTRIES, this.entries - first);
      const words = this.#words.read(first, count);
      for (let i = 0; i < count; i++) {
        if (words[i * WORDS] !== hash) return offsets;
        const high = words[i * WORDS + 2] as number;
        offsets.push(high * HASHES + (words[i * WORDS + 1] as number));
      }
    }
    return offsets;
  }

  /** Index of the first entry whose hash is not less. */
  #lowerBound(hash: number): number {
    let low = 0;
    let high = this.entries;
    let lowHash = 0;
    let highHash = HASHES;
    for (let guess = 0; low < high; guess++) {
      const share = guess < GUESSES_MAX ? (hash - lowHash) / Math.max(1, highHash - lowHash) : 0.5;
      const middle = low + Math.floor((high - low) * Math.min(1, Math.max(0, share)));
      const first = Math.max(low, Math.min(middle - (BLOCK_ENTRIES >> 1), high - BLOCK_ENTRIES));
      const count = Math.min(BLOCK_ENTRIES, high - first);
      const words = this.#words.read(first, count);
      const firstHash = words[0] as number;
      const lastHash = words[(count - 1) * WORDS] as number;
      if (firstHash >= hash) {
        high = first;
        highHash = firstHash;
      } else if (lastHash < hash) {
        low = first + count;
        lowHash = lastHash;
      } else {
        let i = 1;
        while ((words[i * WORDS] as number) < hash) i++;
        return first + i;
      }
    }
    return low;
  }

  close(): void {
    this.#close();
  }
}

/** Fills `block` with merged entries as often as it takes; `flush` gets each filled part. */
function mergeWords(
  segments: readonly LookupSegment[],
  block: Uint32Array,
  flush: (words: Uint32Array) => void,
): void {
  const cursors = segments.map((segment) => new SegmentCursor(segment.words));
  let used = 0;
  for (;;) {
    // Ties go to the earlier stretch: offsets stay in order within a hash.
    let least: SegmentCursor | undefined;
    for (const cursor of cursors) {
      if (cursor.hash >= 0 && (!least || cursor.hash < least.hash)) least = cursor;
    }
    if (used === block.length || (!least && used > 0)) {
      flush(block.subarray(0, used));
      used = 0;
    }
    if (!least) return;
    least.copyTo(block, used);
    least.next();
    used += WORDS;
  }
}

class SegmentCursor {
  /** Hash of the current entry; -1 at the end. */
  hash = -1;
  readonly #words: Words;
  #block: Uint32Array = new Uint32Array(0);
  #at = 0;
  #nextBlock = 0;

  constructor(words: Words) {
    this.#words = words;
    this.next();
  }

  next(): void {
    this.#at += WORDS;
    if (this.#at >= this.#block.length) {
      const count = Math.min(WRITE_ENTRIES, this.#words.entries - this.#nextBlock);
      if (count === 0) {
        this.hash = -1;
        return;
      }
      this.#block = this.#words.read(this.#nextBlock, count);
      this.#nextBlock += count;
      this.#at = 0;
    }
    this.hash = this.#block[this.#at] as number;
  }

  copyTo(out: Uint32Array, at: number): void {
    for (let i = 0; i < WORDS; i++) out[at + i] = this.#block[this.#at + i] as number;
  }
}
