// A leaf in memory: its record's buffer and a table of offsets made in one pass. On disk, after the frame and the count (u16):
//
//   header u8   bits 0-5  own key bytes, 0..61; 62: a varint follows; 63: a varint follows, and the value is a pointer
//               bit 6     the value is as long as the one before (0 before the first)
//               bit 7     the key shares as many bytes with its predecessor as that one did (0 before the first)
//   [own key bytes varint] [shared bytes varint] [value length varint], own key bytes, value
//
// A pointer is: rows varint, offset varint, record size varint.

import { FieldReader } from "./bytes.js";
import { FRAME_BYTES, LEAF_START } from "./format.js";
import { KeyTable, newTable, TABLE_STRIDE } from "./key-table.js";
import type { Bytes, Reducer } from "./types.js";

export const HEADER_SUFFIX_MASK = 0x3f;
export const HEADER_SUFFIX_LONG = 62;
export const HEADER_POINTER = 63;
export const HEADER_SAME_VALUE = 0x40;
export const HEADER_SAME_SHARED = 0x80;

/** Where a value lies that is too long for a leaf. */
export interface ValuePointer {
  readonly rows: number;
  readonly offset: number;
  readonly size: number;
}

export class LeafNode {
  readonly height = 0;
  /** Whether each entry is one row, once that was looked at: nearly always, and then rows need not be counted one by one. */
  #single: boolean | undefined;

  constructor(
    readonly bytes: Bytes,
    readonly keys: KeyTable,
    readonly count: number,
    /** 1 for each entry whose value is a pointer; undefined when none is. */
    readonly pointers: Uint8Array | undefined,
  ) {}

  get memoryBytes(): number {
    return this.bytes.byteLength + this.keys.memoryBytes + (this.pointers?.byteLength ?? 0);
  }

  valueStart(i: number): number {
    return this.keys.table[i * 4 + 2] as number;
  }

  valueEnd(i: number): number {
    return this.keys.table[i * 4 + 3] as number;
  }

  isPointer(i: number): boolean {
    return this.pointers !== undefined && this.pointers[i] === 1;
  }

  pointer(i: number): ValuePointer {
    return readPointer(this.bytes, this.valueStart(i), this.valueEnd(i));
  }

  /** Rows the entries [from, to) count for. `reducer` is the tree's: the same with each call. */
  rows(from: number, to: number, reducer: Reducer): number {
    this.#single ??= this.#areSingle(reducer);
    return this.#single ? to - from : this.#count(from, to, reducer);
  }

  #areSingle(reducer: Reducer): boolean {
    if (this.pointers !== undefined) return false;
    const { bytes, count } = this;
    const table = this.keys.table;
    for (let at = 0; at < count * TABLE_STRIDE; at += TABLE_STRIDE)
      if (reducer.count(bytes, table[at + 2] as number, table[at + 3] as number) !== 1)
        return false;
    return true;
  }

  #count(from: number, to: number, reducer: Reducer): number {
    const { bytes, pointers } = this;
    const table = this.keys.table;
    let rows = 0;
    for (let i = from; i < to; i++) {
      rows +=
        pointers?.[i] === 1
          ? this.pointer(i).rows
          : reducer.count(bytes, table[i * 4 + 2] as number, table[i * 4 + 3] as number);
    }
    return rows;
  }

  /** Bytes of the value records that the entries [from, to) point to. */
  pointedBytes(from: number, to: number): number {
    if (this.pointers === undefined) return 0;
    let bytes = 0;
    for (let i = from; i < to; i++) if (this.pointers[i] === 1) bytes += this.pointer(i).size;
    return bytes;
  }
}

/** Where the last varint ended. */
export const varintRead = { end: 0 };

export function longVarint(bytes: Bytes, pos: number): number {
  let value = 0;
  let scale = 1;
  for (let i = 0; i < 5; i++) {
    const byte = bytes[pos++] as number;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) break;
    scale *= 0x80;
  }
  varintRead.end = pos;
  return value;
}

/** Where {@link findInLeaf} found the value. */
export const found = { valueStart: 0, valueEnd: 0, pointer: false };

/**
 * Looks one key up in a record whose frame has been checked, without a table: half the work where a leaf is looked at for a key or two.
 * The rule of the comparison is that of `KeyTable.search`.
 *
 * @returns whether it is there, and `found` says where; undefined when the content breaks the format.
 */
export function findInLeaf(record: Bytes, key: Bytes): boolean | undefined {
  if (record.length < LEAF_START) return undefined;
  const count = (record[FRAME_BYTES] as number) | ((record[FRAME_BYTES + 1] as number) << 8);
  const end = record.length;
  const sought = key.length;
  let pos = LEAF_START;
  let shared = 0;
  let valueLength = 0;
  let matched = 0;
  for (let i = 0; i < count; i++) {
    const header = record[pos++] as number;
    let suffix = header & HEADER_SUFFIX_MASK;
    const pointer = suffix === HEADER_POINTER;
    if (suffix >= HEADER_SUFFIX_LONG) {
      suffix = longVarint(record, pos);
      pos = varintRead.end;
    }
    if ((header & HEADER_SAME_SHARED) === 0) {
      shared = record[pos++] as number;
      if (shared >= 0x80) {
        shared = longVarint(record, pos - 1);
        pos = varintRead.end;
      }
    }
    if ((header & HEADER_SAME_VALUE) === 0) {
      valueLength = record[pos++] as number;
      if (valueLength >= 0x80) {
        valueLength = longVarint(record, pos - 1);
        pos = varintRead.end;
      }
    }
    const valueAt = pos + suffix;
    if (!(valueAt + valueLength <= end)) return undefined;
    if (shared < matched) return false;
    if (shared === matched) {
      while (pos < valueAt && matched < sought && record[pos] === key[matched]) {
        pos++;
        matched++;
      }
      if (pos < valueAt) {
        if (matched === sought || (record[pos] as number) > (key[matched] as number)) return false;
      } else if (matched === sought) {
        found.valueStart = valueAt;
        found.valueEnd = valueAt + valueLength;
        found.pointer = pointer;
        return true;
      }
    }
    pos = valueAt + valueLength;
  }
  return false;
}

/** The pointer in bytes [start, end) of a leaf. */
export function readPointer(bytes: Bytes, start: number, end: number): ValuePointer {
  const fields = new FieldReader(bytes, start, end);
  return { rows: fields.varint(), offset: fields.varint(), size: fields.varint() };
}

/** The leaf in a record whose frame has been checked; undefined when its content breaks the format. */
export function decodeLeafRecord(record: Bytes, table?: Uint16Array): LeafNode | undefined {
  if (record.length < LEAF_START) return undefined;
  const count = (record[FRAME_BYTES] as number) | ((record[FRAME_BYTES + 1] as number) << 8);
  return decodeLeaf(record, record.length, count, table);
}

/**
 * The leaf whose entries lie in bytes[LEAF_START, end).
 * @param spare - Becomes its table if there is room in it.
 */
export function decodeLeaf(
  bytes: Bytes,
  end: number,
  count: number,
  spare?: Uint16Array,
): LeafNode | undefined {
  // Each entry has a byte at least, which bounds the table against a damaged count.
  if (count > end - LEAF_START) return undefined;
  const fits = spare !== undefined && count * TABLE_STRIDE <= spare.length && end < 0x1_0000;
  const table = fits ? spare : newTable(count, end);
  let pointers: Uint8Array | undefined;
  let pos = LEAF_START;
  let shared = 0;
  let valueLength = 0;
  let keyLength = 0;
  for (let i = 0, at = 0; i < count; i++, at += 4) {
    const header = bytes[pos++] as number;
    let suffix = header & HEADER_SUFFIX_MASK;
    if (suffix >= HEADER_SUFFIX_LONG) {
      if (suffix === HEADER_POINTER) (pointers ??= new Uint8Array(count))[i] = 1;
      suffix = longVarint(bytes, pos);
      pos = varintRead.end;
    }
    if ((header & HEADER_SAME_SHARED) === 0) {
      shared = bytes[pos++] as number;
      if (shared >= 0x80) {
        shared = longVarint(bytes, pos - 1);
        pos = varintRead.end;
      }
    }
    if ((header & HEADER_SAME_VALUE) === 0) {
      valueLength = bytes[pos++] as number;
      if (valueLength >= 0x80) {
        valueLength = longVarint(bytes, pos - 1);
        pos = varintRead.end;
      }
    }
    const valueAt = pos + suffix;
    const entryEnd = valueAt + valueLength;
    if (!(entryEnd <= end) || shared > keyLength) return undefined;
    table[at] = pos;
    table[at + 1] = shared;
    table[at + 2] = valueAt;
    table[at + 3] = entryEnd;
    pos = entryEnd;
    keyLength = shared + suffix;
  }
  if (pos !== end) return undefined;
  return new LeafNode(bytes, new KeyTable(bytes, table, count, LEAF_START), count, pointers);
}
