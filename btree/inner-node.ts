// An inner node in memory. On disk, after the frame, the height (u8) and the count (u16), for each child:
//
//   shared varint, own bytes varint, own bytes      the lower bound of the child's keys, prefix-compressed
//   offset varint, size varint                      its record
//   rows varint, below varint                       rows in it; live bytes below it (nodes and value records, without its own)
//   reduction length varint, reduction
//
// Every key of a child is >= its bound, every key of the children before it is < it. The first child's bound is stored empty:
// the parent's stands for it.

import { FieldReader, NO_BYTES } from "./bytes.js";
import { FRAME_BYTES, HEIGHT_MAX, INNER_START } from "./format.js";
import { KeyTable, newTable, TABLE_STRIDE } from "./key-table.js";
import type { Bytes } from "./types.js";

/** A node as its parent knows it. Structured-clonable. */
export interface ChildRef {
  /** Lower bound of its keys, above all keys before it. */
  low: Bytes;
  readonly offset: number;
  readonly size: number;
  /** Rows in it. */
  readonly count: number;
  /** Live bytes: itself and all below it. */
  readonly bytes: number;
  /** Undefined while it is being computed. */
  reduction: Bytes | undefined;
}

/** Numbers per child: offset, size, rows before it, live bytes below it, where its reduction starts. One buffer, not five. */
const STRIDE = 5;
const SIZE = 1;
const ROWS_BEFORE = 2;
const BELOW = 3;
const REDUCTION_START = 4;

/** The child where a search of the bounds ended. */
export function childAt(found: number): number {
  if (found >= 0) return found;
  return ~found === 0 ? 0 : ~found - 1;
}

export class InnerNode {
  /** `numbers` has the rows of all children behind the last child's, at the place of a next one's. */
  constructor(
    readonly bytes: Bytes,
    readonly height: number,
    readonly keys: KeyTable,
    readonly count: number,
    readonly numbers: Float64Array,
  ) {}

  get memoryBytes(): number {
    return this.bytes.byteLength + this.keys.memoryBytes + this.numbers.byteLength;
  }

  /** Index of the child that holds `key` if any does. */
  find(key: Bytes): number {
    return childAt(this.keys.search(key));
  }

  offset(i: number): number {
    return this.numbers[i * STRIDE] as number;
  }

  size(i: number): number {
    return this.numbers[i * STRIDE + SIZE] as number;
  }

  /** Rows in the children before this one. */
  rowsBefore(i: number): number {
    return this.numbers[i * STRIDE + ROWS_BEFORE] as number;
  }

  rows(i: number): number {
    return this.rowsBefore(i + 1) - this.rowsBefore(i);
  }

  /** Live bytes below the child, without its own. */
  below(i: number): number {
    return this.numbers[i * STRIDE + BELOW] as number;
  }

  get rowsTotal(): number {
    return this.rowsBefore(this.count);
  }

  reduction(i: number): Bytes {
    const start = this.numbers[i * STRIDE + REDUCTION_START] as number;
    const end = this.keys.entryEnd(i);
    return start === end ? NO_BYTES : this.bytes.subarray(start, end);
  }

  /** Lower bound of child `i`; `low` is this node's own. */
  low(i: number, low: Bytes): Bytes {
    return i === 0 ? low : this.keys.key(i);
  }

  child(i: number, low: Bytes): ChildRef {
    const size = this.size(i);
    return {
      low: this.low(i, low),
      offset: this.offset(i),
      size,
      count: this.rows(i),
      bytes: size + this.below(i),
      reduction: this.reduction(i),
    };
  }

  reductions(): Bytes[] {
    const all: Bytes[] = [];
    for (let i = 0; i < this.count; i++) all.push(this.reduction(i));
    return all;
  }

  /** Live bytes below this node. */
  bytesBelow(): number {
    let bytes = 0;
    for (let i = 0; i < this.count; i++)
      bytes += this.size(i) + (this.numbers[i * STRIDE + BELOW] as number);
    return bytes;
  }
}

/** The inner node in a record whose frame has been checked; undefined when its content breaks the format. */
export function decodeInnerRecord(record: Bytes): InnerNode | undefined {
  if (record.length < INNER_START) return undefined;
  const height = record[FRAME_BYTES] as number;
  const count = (record[FRAME_BYTES + 1] as number) | ((record[FRAME_BYTES + 2] as number) << 8);
  return decodeInner(record, record.length, height, count);
}

/** The inner node whose entries lie in bytes[INNER_START, end). */
export function decodeInner(
  bytes: Bytes,
  end: number,
  height: number,
  count: number,
): InnerNode | undefined {
  if (count === 0 || count > end - INNER_START || height === 0 || height > HEIGHT_MAX)
    return undefined;
  const table = newTable(count, end);
  const numbers = new Float64Array((count + 1) * STRIDE);
  const fields = new FieldReader(bytes, INNER_START, end);
  let keyLength = 0;
  let rows = 0;
  for (let at = 0, to = 0; at < count * TABLE_STRIDE; at += TABLE_STRIDE, to += STRIDE) {
    const shared = fields.varint();
    const suffix = fields.varint();
    table[at] = fields.pos;
    table[at + 1] = shared;
    fields.pos += suffix;
    table[at + 2] = fields.pos;
    numbers[to] = fields.varint();
    numbers[to + SIZE] = fields.varint();
    numbers[to + ROWS_BEFORE] = rows;
    rows += fields.varint();
    numbers[to + BELOW] = fields.varint();
    const reductionLength = fields.varint();
    numbers[to + REDUCTION_START] = fields.pos;
    fields.pos += reductionLength;
    table[at + 3] = fields.pos;
    if (fields.overrun || shared > keyLength) return undefined;
    keyLength = shared + suffix;
  }
  if (fields.pos !== end) return undefined;
  numbers[count * STRIDE + ROWS_BEFORE] = rows;
  const keys = new KeyTable(bytes, table, count, INNER_START);
  return new InnerNode(bytes, height, keys, count, numbers);
}
