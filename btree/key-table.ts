// The keys of a decoded node: an offset table over its buffer. Each key is kept as the number of bytes it shares with the key
// before it and the rest, as on disk; nothing is materialised until it is asked for.

import { copyBytes } from "./bytes.js";
import type { Bytes } from "./types.js";

/** Numbers per entry: where its key's own bytes start, how many it shares, where they end, where the entry ends. */
export const TABLE_STRIDE = 4;

/** Halves the table of all usual nodes. */
export function newTable(count: number, bytesEnd: number): Uint16Array | Uint32Array {
  return bytesEnd < 0x1_0000
    ? new Uint16Array(count * TABLE_STRIDE)
    : new Uint32Array(count * TABLE_STRIDE);
}

/** How many bytes the key last searched for shares with the entry before the place where the search stopped. */
let stoppedAfter = 0;

/** Fewer keys are searched from the first one on. */
const HEADS_KEYS_MIN = 16;
/** The search at which heads are made: a leaf that a batch passes by, or a scan, is searched less often. */
const HEADS_AT_SEARCH = 4;

/** What a search halves before it compares keys. The first key, which is an inner node's empty bound, is left out. */
interface Heads {
  /** What all keys but the first begin with. */
  readonly prefix: Bytes;
  /** The four bytes that follow in each, at its index. */
  readonly heads: Uint32Array;
}

/** Bytes [at, at + 4) as a number that compares as they do; what lies beyond the end counts as 0. */
function headOf(key: Bytes, at: number, end: number): number {
  if (at + 4 <= end)
    return (
      (((key[at] as number) << 24) |
        ((key[at + 1] as number) << 16) |
        ((key[at + 2] as number) << 8) |
        (key[at + 3] as number)) >>>
      0
    );
  let head = 0;
  for (let i = at; i < at + 4; i++) head = head * 256 + (i < end ? (key[i] as number) : 0);
  return head;
}

export class KeyTable {
  #searches = 0;
  #heads: Heads | undefined;

  constructor(
    readonly bytes: Bytes,
    readonly table: Uint16Array | Uint32Array,
    readonly count: number,
    /** Where the first entry starts. */
    readonly start: number,
  ) {}

  /**
   * Index of the entry with this key, or ~(index of the first entry with a greater one).
   * One pass in order of the table, from where heads have led if there are any: while an entry shares more with its predecessor than the sought key does it is smaller too,
   * and where it shares less it is greater; only where it shares exactly as much are bytes compared.
   */
  search(key: Bytes): number {
    const known = this.#heads;
    if (known === undefined) {
      if (++this.#searches === HEADS_AT_SEARCH && this.count >= HEADS_KEYS_MIN)
        this.#heads = this.#makeHeads();
      return this.#search(key, 0, 0);
    }
    const { prefix, heads } = known;
    const { length } = prefix;
    for (let i = 0; i < length; i++) if (prefix[i] !== key[i]) return this.#search(key, 0, 0);
    const head = headOf(key, length, key.length);
    let low = 1;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((heads[middle] as number) < head) low = middle + 1;
      else high = middle;
    }
    if (low === 1) return this.#search(key, 0, 0);
    // The key before differs in its head, which tells how much both share; a 0 may stand for a byte that is not there.
    const equal = Math.clz32((heads[low - 1] as number) ^ head) >>> 3;
    return this.#search(key, low, Math.min(length + equal, key.length, this.keyLength(low - 1)));
  }

  /** Of the table and the heads, made or not. */
  get memoryBytes(): number {
    return this.table.byteLength + (this.count < HEADS_KEYS_MIN ? 0 : 4 * this.count);
  }

  #makeHeads(): Heads {
    const { count } = this;
    const first = this.key(1);
    let common = first.length;
    for (let i = 2; i < count; i++) common = Math.min(common, this.shared(i));
    const heads = new Uint32Array(count);
    let key = first;
    for (let i = 1; i < count; i++) {
      if (i > 1) key = this.keyAfter(i, key);
      heads[i] = headOf(key, common, key.length);
    }
    return { prefix: first.slice(0, common), heads };
  }

  /**
   * The same for a greater key than the one that was just searched for in this table, going on from there.
   * @param found - what that search returned.
   * @param common - bytes that both keys begin with.
   */
  searchOn(key: Bytes, found: number, common: number): number {
    // What is before that place is less than the other key. Beyond what both have in common it can share nothing with this one.
    return this.#search(key, found < 0 ? ~found : found, Math.min(stoppedAfter, common));
  }

  #search(key: Bytes, from: number, before: number): number {
    const { bytes, table, count } = this;
    const keyLength = key.length;
    let matched = before;
    for (let i = from, at = from * TABLE_STRIDE; i < count; i++, at += TABLE_STRIDE) {
      const shared = table[at + 1] as number;
      if (shared > matched) continue;
      stoppedAfter = matched;
      if (shared < matched) return ~i;
      let pos = table[at] as number;
      const end = table[at + 2] as number;
      while (pos < end && matched < keyLength && bytes[pos] === key[matched]) {
        pos++;
        matched++;
      }
      if (pos === end) {
        if (matched === keyLength) return i;
      } else if (matched === keyLength || (bytes[pos] as number) > (key[matched] as number)) {
        return ~i;
      }
    }
    stoppedAfter = matched;
    return ~count;
  }

  /** Index of the first entry whose key is >= key; `count` when there is none. */
  lowerBound(key: Bytes): number {
    const i = this.search(key);
    return i < 0 ? ~i : i;
  }

  keyLength(i: number): number {
    const at = i * TABLE_STRIDE;
    return (
      (this.table[at + 1] as number) + (this.table[at + 2] as number) - (this.table[at] as number)
    );
  }

  /** Bytes that the key shares with the one before it; 0 for the first. */
  shared(i: number): number {
    return this.table[i * TABLE_STRIDE + 1] as number;
  }

  entryStart(i: number): number {
    return i === 0 ? this.start : (this.table[i * TABLE_STRIDE - 1] as number);
  }

  entryEnd(i: number): number {
    return this.table[i * TABLE_STRIDE + 3] as number;
  }

  /** The i-th key, a fresh copy. */
  key(i: number): Bytes {
    const key = new Uint8Array(this.keyLength(i));
    this.keyInto(i, key);
    return key;
  }

  /** Writes the i-th key to the start of `dst`: its own bytes, then what it shares, found walking back. */
  keyInto(i: number, dst: Bytes): void {
    const { bytes, table } = this;
    let at = i * TABLE_STRIDE;
    let needed = table[at + 1] as number;
    copyBytes(bytes, table[at] as number, table[at + 2] as number, dst, needed);
    while (needed > 0) {
      at -= TABLE_STRIDE;
      const shared = table[at + 1] as number;
      if (shared >= needed) continue;
      const start = table[at] as number;
      copyBytes(bytes, start, start + needed - shared, dst, shared);
      needed = shared;
    }
  }

  /** Writes the i-th key over the one before it, which `dst` begins with. */
  ownInto(i: number, dst: Bytes): void {
    const at = i * TABLE_STRIDE;
    const { table } = this;
    copyBytes(
      this.bytes,
      table[at] as number,
      table[at + 2] as number,
      dst,
      table[at + 1] as number,
    );
  }

  /** The key after `previous`, which is the key before the i-th: cheaper than walking back. */
  keyAfter(i: number, previous: Bytes): Bytes {
    const { bytes, table } = this;
    const at = i * TABLE_STRIDE;
    const shared = table[at + 1] as number;
    const start = table[at] as number;
    const end = table[at + 2] as number;
    const key = new Uint8Array(shared + end - start);
    copyBytes(previous, 0, shared, key, 0);
    copyBytes(bytes, start, end, key, shared);
    return key;
  }
}
