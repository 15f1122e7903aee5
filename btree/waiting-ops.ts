// Operations that wait to be applied to a tree: a hash and an ordered list in one. They lie in an arena in the order they came, which only
// grows, so that a snapshot is the number of operations there were when it was taken. A hash table leads to the newest operation of
// a key, and each operation to the one before it of the same key. The order of keys is made when somebody asks for it: batches
// come sorted, so that they are merged, and what was in order stays so.

import { randomBytes } from "node:crypto";
import type { BatchHead } from "./batch-record.js";
import { compareBytes, copyBytes, FieldReader } from "./bytes.js";
import { keyedHash } from "./keyed-hash.js";
import type { Bytes, TreeOp } from "./types.js";

const SLOTS_MIN = 256;
const NONE = -1;

const hashKey = new Uint32Array(Uint8Array.from(randomBytes(8)).buffer);
/** Of keys; another one in each thread of each process. */
const hashOf = keyedHash(hashKey[0] as number, hashKey[1] as number);

/** Value end of an operation that removes its key. */
const REMOVED = 0xffff_ffff;

export class WaitingOps {
  #bytes: Bytes = new Uint8Array(4096);
  #used = 0;
  /** Three numbers an operation: key start, key end and value start, value end or REMOVED. */
  #spans = new Uint32Array(SLOTS_MIN * 3);
  /** The operation before of the same key. */
  #before = new Int32Array(SLOTS_MIN);
  #hashes = new Uint32Array(SLOTS_MIN);
  #table = new Int32Array(SLOTS_MIN * 2).fill(NONE);
  #length = 0;
  /** Where batches begin. */
  readonly #batches: number[] = [];
  /** The newest operation of each key among the first `length`, by key. */
  #ordered: { readonly length: number; readonly order: Uint32Array } = {
    length: 0,
    order: new Uint32Array(0),
  };

  /** Operations so far. */
  get length(): number {
    return this.#length;
  }

  /** Bytes held, bookkeeping included. */
  get memoryBytes(): number {
    return (
      this.#bytes.length +
      this.#spans.byteLength +
      this.#before.byteLength * 2 +
      this.#table.byteLength +
      this.#ordered.order.byteLength
    );
  }

  /** Adds a batch: ascending keys. Copies them. */
  push(ops: readonly TreeOp[]): void {
    let bytes = 0;
    for (const { key, value } of ops) bytes += key.length + (value?.length ?? 0);
    this.#grow(ops.length, bytes);
    this.#batches.push(this.#length);
    for (const { key, value } of ops) {
      const start = this.#used;
      const arena = this.#bytes;
      copyBytes(key, 0, key.length, arena, start);
      const keyEnd = start + key.length;
      if (value) copyBytes(value, 0, value.length, arena, keyEnd);
      this.#add(start, keyEnd, value ? keyEnd + value.length : REMOVED);
    }
  }

  /**
   * Adds the batch of a record, without making an object of each operation.
   *
   * @returns false when the record breaks the format: some of its operations may be there then.
   */
  pushRecord(record: Bytes, { count, start }: BatchHead): boolean {
    this.#grow(count, record.length - start);
    this.#batches.push(this.#length);
    const fields = new FieldReader(record, start, record.length);
    let last = this.#used;
    let lastLength = 0;
    for (let i = 0; i < count; i++) {
      const shared = fields.varint();
      const own = fields.varint();
      const value = fields.varint();
      const ownStart = fields.pos;
      const valueStart = ownStart + own;
      const end = value === 0 ? valueStart : valueStart + value - 1;
      if (!(end <= record.length) || shared > lastLength) return false;
      const key = this.#used;
      const keyEnd = key + shared + own;
      const used = keyEnd + end - valueStart;
      if (used > this.#bytes.length) this.#grow(0, used - key);
      const arena = this.#bytes;
      copyBytes(arena, last, last + shared, arena, key);
      copyBytes(record, ownStart, end, arena, key + shared);
      if (i > 0 && !isGreater(arena, key + shared, keyEnd, last + shared, last + lastLength))
        return false;
      this.#add(key, keyEnd, value === 0 ? REMOVED : used);
      fields.pos = end;
      last = key;
      lastLength = shared + own;
    }
    return fields.pos === record.length;
  }

  #add(start: number, keyEnd: number, valueEnd: number): void {
    const at = this.#length * 3;
    this.#spans[at] = start;
    this.#spans[at + 1] = keyEnd;
    this.#spans[at + 2] = valueEnd;
    this.#used = valueEnd === REMOVED ? keyEnd : valueEnd;
    this.#hashes[this.#length] = hashOf(this.#bytes, start, keyEnd);
    this.#place(this.#length++, start, keyEnd);
  }

  /** The newest operation of the key among the first `length`; -1 when there is none. */
  find(key: Bytes, length: number): number {
    const slot = this.#slotOf(key, 0, key.length, hashOf(key));
    let op = this.#table[slot] as number;
    while (op >= length) op = this.#before[op] as number;
    return op;
  }

  key(op: number): Bytes {
    return this.#bytes.subarray(this.#spans[op * 3], this.#spans[op * 3 + 1]);
  }

  /** Undefined when the operation removes its key. */
  value(op: number): Bytes | undefined {
    const end = this.#spans[op * 3 + 2] as number;
    return end === REMOVED ? undefined : this.#bytes.subarray(this.#spans[op * 3 + 1], end);
  }

  /** Of the operations [from, to), which begin and end with a batch, the newest of each key, by key. */
  order(from: number, to: number): Uint32Array {
    if (from === to) return new Uint32Array(0);
    if (from > 0) return this.#mergeBatches(from, to);
    const known = this.#ordered;
    if (known.length === to) return known.order;
    const order =
      known.length > 0 && known.length < to
        ? this.#merge(known.order, this.#mergeBatches(known.length, to))
        : this.#mergeBatches(0, to);
    if (to > known.length) this.#ordered = { length: to, order };
    return order;
  }

  /** First place in `order` whose key is >= `key`. */
  lowerBound(order: Uint32Array, key: Bytes): number {
    let low = 0;
    let high = order.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareBytes(this.key(order[middle] as number), key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The operations of an order. */
  ops(order: Uint32Array): TreeOp[] {
    const ops = new Array<TreeOp>(order.length);
    for (let i = 0; i < order.length; i++) {
      const op = order[i] as number;
      ops[i] = { key: this.key(op), value: this.value(op) };
    }
    return ops;
  }

  #mergeBatches(from: number, to: number): Uint32Array {
    const runs: Uint32Array[] = [];
    let first = lastAtMost(this.#batches, from);
    for (; first < this.#batches.length && (this.#batches[first] as number) < to; first++) {
      const start = this.#batches[first] as number;
      const end = Math.min(this.#batches[first + 1] ?? this.#length, to);
      const run = new Uint32Array(end - start);
      for (let i = 0; i < run.length; i++) run[i] = start + i;
      runs.push(run);
    }
    while (runs.length > 1) {
      let kept = 0;
      for (let i = 0; i < runs.length; i += 2) {
        const a = runs[i] as Uint32Array;
        const b = runs[i + 1];
        runs[kept++] = b ? this.#merge(a, b) : a;
      }
      runs.length = kept;
    }
    return runs[0] ?? new Uint32Array(0);
  }

  /** `b` is newer: of equal keys its operation stays. */
  #merge(a: Uint32Array, b: Uint32Array): Uint32Array {
    const merged = new Uint32Array(a.length + b.length);
    let i = 0;
    let j = 0;
    let n = 0;
    while (i < a.length && j < b.length) {
      const order = this.#compare(a[i] as number, b[j] as number);
      if (order < 0) merged[n++] = a[i++] as number;
      else {
        if (order === 0) i++;
        merged[n++] = b[j++] as number;
      }
    }
    while (i < a.length) merged[n++] = a[i++] as number;
    while (j < b.length) merged[n++] = b[j++] as number;
    return merged.subarray(0, n);
  }

  #compare(a: number, b: number): number {
    const bytes = this.#bytes;
    let i = this.#spans[a * 3] as number;
    let j = this.#spans[b * 3] as number;
    const iEnd = this.#spans[a * 3 + 1] as number;
    const jEnd = this.#spans[b * 3 + 1] as number;
    for (; i < iEnd && j < jEnd; i++, j++) {
      const difference = (bytes[i] as number) - (bytes[j] as number);
      if (difference !== 0) return difference;
    }
    return iEnd - i - (jEnd - j);
  }

  #place(op: number, start: number, end: number): void {
    const slot = this.#slotOf(this.#bytes, start, end, this.#hashes[op] as number);
    this.#before[op] = this.#table[slot] as number;
    this.#table[slot] = op;
  }

  /** Where the key's newest operation stands, or would. */
  #slotOf(key: Bytes, from: number, to: number, hash: number): number {
    const table = this.#table;
    const bytes = this.#bytes;
    const mask = table.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const op = table[slot] as number;
      if (op === NONE) return slot;
      if (this.#hashes[op] !== hash) continue;
      const start = this.#spans[op * 3] as number;
      if ((this.#spans[op * 3 + 1] as number) - start !== to - from) continue;
      let i = from;
      while (i < to && bytes[start + i - from] === key[i]) i++;
      if (i === to) return slot;
    }
  }

  #grow(ops: number, bytes: number): void {
    if (this.#used + bytes > this.#bytes.length) {
      // Views that were handed out keep the old arena, which is never written to again.
      const grown = new Uint8Array(Math.max(this.#used + bytes, this.#bytes.length * 2));
      grown.set(this.#bytes.subarray(0, this.#used));
      this.#bytes = grown;
    }
    const needed = this.#length + ops;
    if (needed > this.#before.length) {
      const size = Math.max(needed, this.#before.length * 2);
      const spans = new Uint32Array(size * 3);
      spans.set(this.#spans);
      this.#spans = spans;
      const before = new Int32Array(size);
      before.set(this.#before);
      this.#before = before;
      const hashes = new Uint32Array(size);
      hashes.set(this.#hashes);
      this.#hashes = hashes;
    }
    if (needed * 2 <= this.#table.length) return;
    let slots = this.#table.length;
    while (slots < needed * 2) slots *= 2;
    const old = this.#table;
    this.#table = new Int32Array(slots).fill(NONE);
    const mask = slots - 1;
    for (const op of old) {
      if (op === NONE) continue;
      let slot = (this.#hashes[op] as number) & mask;
      while (this.#table[slot] !== NONE) slot = (slot + 1) & mask;
      this.#table[slot] = op;
    }
  }
}

/** Whether bytes [a, aEnd) come after [b, bEnd). */
function isGreater(bytes: Bytes, a: number, aEnd: number, b: number, bEnd: number): boolean {
  for (; a < aEnd && b < bEnd; a++, b++)
    if (bytes[a] !== bytes[b]) return (bytes[a] as number) > (bytes[b] as number);
  return a < aEnd;
}

/** Index of the last number that is at most `value`. */
function lastAtMost(numbers: readonly number[], value: number): number {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((numbers[middle] as number) <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
