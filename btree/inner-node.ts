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
import { KeyTable, newTable } from "./key-table.js";
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

export class InnerNode {
  constructor(
    readonly bytes: Bytes,
    readonly height: number,
    readonly keys: KeyTable,
    readonly count: number,
    readonly offsets: Float64Array,
    readonly sizes: Float64Array,
    /** Rows before each child; one more for all. */
    readonly rowsBefore: Float64Array,
    readonly below: Float64Array,
    readonly reductionStart: Uint32Array,
  ) {}

  get memoryBytes(): number {
    return this.bytes.byteLength + this.keys.table.byteLength + this.count * 36;
  }

  /** Index of the child that holds `key` if any does. */
  find(key: Bytes): number {
    const i = this.keys.search(key);
    if (i >= 0) return i;
    return ~i === 0 ? 0 : ~i - 1;
  }

  offset(i: number): number {
    return this.offsets[i] as number;
  }

  size(i: number): number {
    return this.sizes[i] as number;
  }

  rows(i: number): number {
    return (this.rowsBefore[i + 1] as number) - (this.rowsBefore[i] as number);
  }

  get rowsTotal(): number {
    return this.rowsBefore[this.count] as number;
  }

  reduction(i: number): Bytes {
    const start = this.reductionStart[i] as number;
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
      bytes: size + (this.below[i] as number),
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
      bytes += (this.sizes[i] as number) + (this.below[i] as number);
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
  const offsets = new Float64Array(count);
  const sizes = new Float64Array(count);
  const rowsBefore = new Float64Array(count + 1);
  const below = new Float64Array(count);
  const reductionStart = new Uint32Array(count);
  const fields = new FieldReader(bytes, INNER_START, end);
  let keyLength = 0;
  for (let i = 0, at = 0; i < count; i++, at += 4) {
    const shared = fields.varint();
    const suffix = fields.varint();
    table[at] = fields.pos;
    table[at + 1] = shared;
    fields.pos += suffix;
    table[at + 2] = fields.pos;
    offsets[i] = fields.varint();
    sizes[i] = fields.varint();
    rowsBefore[i + 1] = (rowsBefore[i] as number) + fields.varint();
    below[i] = fields.varint();
    const reductionLength = fields.varint();
    reductionStart[i] = fields.pos;
    fields.pos += reductionLength;
    table[at + 3] = fields.pos;
    if (fields.overrun || shared > keyLength) return undefined;
    keyLength = shared + suffix;
  }
  if (fields.pos !== end) return undefined;
  const keys = new KeyTable(bytes, table, count, INNER_START);
  return new InnerNode(
    bytes,
    height,
    keys,
    count,
    offsets,
    sizes,
    rowsBefore,
    below,
    reductionStart,
  );
}
