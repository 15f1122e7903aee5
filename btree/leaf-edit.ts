// Applies operations to one leaf straight from its record: entries between the operations are copied as the bytes they are, and none is looked
// at behind the last operation. Half the work of a table of the leaf and ranges of it, where a batch changes a few entries of a leaf.

import { copyBytes, equalRange, NO_BYTES, writeVarint } from "./bytes.js";
import { FRAME_BYTES, LEAF_START } from "./format.js";
import {
  HEADER_SAME_SHARED,
  HEADER_SAME_VALUE,
  HEADER_SUFFIX_LONG,
  HEADER_SUFFIX_MASK,
  HEADER_POINTER,
  longVarint,
  varintRead,
} from "./leaf-node.js";
import type { Bytes, Reducer, TreeOp } from "./types.js";

/** Header and three varints of at most 5 bytes. */
const ENTRY_OVERHEAD_MAX = 16;

/** The last key written is the leaf's entry before. */
const IN_STEP = 0;
/** It is one that was inserted since. */
const INSERTED = 1;
/** The leaf's entry before was removed. */
const REMOVED = 2;

export class LeafEditor {
  /** Of the last edit: what operations did, rows there are more, whether entries only came behind all others. */
  inserted = 0;
  replaced = 0;
  removed = 0;
  unchanged = 0;
  rowsGained = 0;
  appended = true;
  /** The new content: bytes[LEAF_START, used), so many entries. */
  used = 0;
  count = 0;
  readonly #reducer: Reducer;
  readonly #valueBytesMax: number;
  #bytes: Bytes = NO_BYTES;
  #lastShared = 0;
  #lastValue = 0;

  /** @param valueBytesMax - longer values lie outside of leaves. */
  constructor(reducer: Reducer, valueBytesMax: number) {
    this.#reducer = reducer;
    this.#valueBytesMax = valueBytesMax;
  }

  /**
   * Writes the leaf with ops[from, to) applied to `target`.
   *
   * @param record - of a leaf without pointers, its frame checked.
   * @param shared - of `sharedPrefixes(ops)`.
   * @returns whether anything changes; undefined when there is not enough room, or a value is too long, or the content breaks the format:
   * then `target` is spoilt.
   */
  edit(
    record: Bytes,
    ops: readonly TreeOp[],
    shared: Uint32Array,
    from: number,
    to: number,
    target: Bytes,
  ): boolean | undefined {
    if (!this.#begin(record, ops, from, to, target)) return undefined;
    const end = record.length;
    const entries = (record[FRAME_BYTES] as number) | ((record[FRAME_BYTES + 1] as number) << 8);
    let pos = LEAF_START;
    let entryShared = 0;
    let entryValue = 0;
    // Entries from here on are as they were, and not copied yet; -1: what follows is written entry by entry.
    let runStart = LEAF_START;
    let state = IN_STEP;
    // Bytes that the next operation's key shares with the leaf's entry before, and, out of step, with the last key written.
    let matched = 0;
    let before = 0;
    // Out of step: bytes that the next entry shares with the inserted key, or the removed key with the last one written; and that key.
    let sharedAfter = 0;
    let removedKey: Bytes = NO_BYTES;
    let k = from;
    for (let i = 0; ; i++) {
      if (k === to && runStart >= 0) break;
      const start = pos;
      const sharedBefore = entryShared;
      const valueBefore = entryValue;
      let own = pos;
      let valueAt = pos;
      if (i < entries) {
        const header = record[own++] as number;
        let suffix = header & HEADER_SUFFIX_MASK;
        if (suffix >= HEADER_SUFFIX_LONG) {
          if (suffix === HEADER_POINTER) return undefined;
          suffix = longVarint(record, own);
          own = varintRead.end;
        }
        if ((header & HEADER_SAME_SHARED) === 0) {
          entryShared = record[own++] as number;
          if (entryShared >= 0x80) {
            entryShared = longVarint(record, own - 1);
            own = varintRead.end;
          }
        }
        if ((header & HEADER_SAME_VALUE) === 0) {
          entryValue = record[own++] as number;
          if (entryValue >= 0x80) {
            entryValue = longVarint(record, own - 1);
            own = varintRead.end;
          }
        }
        valueAt = own + suffix;
        pos = valueAt + entryValue;
        if (!(pos <= end)) return undefined;
      } else if (pos !== end) return undefined;
      else if (k === to) break;
      let gone = false;
      while (k < to) {
        const { key, value } = ops[k] as TreeOp;
        let order = 1;
        let common = matched;
        if (i < entries) {
          if (entryShared > matched) break;
          if (entryShared < matched) common = entryShared;
          else {
            let at = own;
            while (at < valueAt && common < key.length && record[at] === key[common]) {
              at++;
              common++;
            }
            if (at === valueAt) order = common === key.length ? 0 : -1;
            else if (common < key.length && (record[at] as number) < (key[common] as number))
              order = -1;
            if (order < 0) {
              matched = common;
              break;
            }
          }
        }
        if (state === IN_STEP) before = matched;
        const same =
          order === 0 &&
          value !== undefined &&
          value.length === entryValue &&
          equalRange(value, 0, record, valueAt, entryValue);
        if (same || (order > 0 && value === undefined)) this.unchanged++;
        else {
          if (runStart >= 0) {
            this.#copyRun(record, runStart, start, sharedBefore, valueBefore);
            runStart = -1;
          }
          if (i < entries) this.appended = false;
          if (order === 0) {
            this.rowsGained -= this.#reducer.count(record, valueAt, pos);
            gone = true;
          }
          if (value === undefined) {
            this.removed++;
            state = REMOVED;
            removedKey = key;
            sharedAfter = before;
          } else {
            this.rowsGained += this.#reducer.count(value, 0, value.length);
            this.#put(before, NO_BYTES, 0, key, before, key.length, value, 0, value.length);
            if (order === 0) {
              this.replaced++;
              state = IN_STEP;
              if (this.#lastShared === entryShared && this.#lastValue === entryValue)
                runStart = pos;
            } else {
              this.inserted++;
              state = INSERTED;
              sharedAfter = common;
              before = key.length;
            }
          }
        }
        k++;
        const next = k < to ? (shared[k] as number) : 0;
        if (order === 0) matched = next;
        else if (next < matched) matched = next;
        if (next < before) before = next;
        if (order === 0) break;
      }
      if (gone || i >= entries) continue;
      if (state === IN_STEP && runStart >= 0) continue;
      if (state === INSERTED) {
        const skipped = own + sharedAfter - entryShared;
        this.#put(sharedAfter, NO_BYTES, 0, record, skipped, valueAt, record, valueAt, pos);
      } else if (state === REMOVED && sharedAfter < entryShared)
        this.#put(sharedAfter, removedKey, entryShared, record, own, valueAt, record, valueAt, pos);
      else this.#put(entryShared, NO_BYTES, 0, record, own, valueAt, record, valueAt, pos);
      state = IN_STEP;
      if (this.#lastShared === entryShared && this.#lastValue === entryValue) runStart = pos;
    }
    if (this.inserted + this.replaced + this.removed === 0) return false;
    if (runStart >= 0) this.#copyRun(record, runStart, end, entryShared, entryValue);
    this.count = entries + this.inserted - this.removed;
    return true;
  }

  #begin(record: Bytes, ops: readonly TreeOp[], from: number, to: number, target: Bytes): boolean {
    let room = record.length + ENTRY_OVERHEAD_MAX;
    for (let k = from; k < to; k++) {
      const { key, value } = ops[k] as TreeOp;
      const length = value?.length ?? 0;
      if (length > this.#valueBytesMax) return false;
      // What follows a removed key has to tell more of its own.
      room += 2 * (key.length + ENTRY_OVERHEAD_MAX) + length;
    }
    this.inserted = this.replaced = this.removed = this.unchanged = this.rowsGained = 0;
    this.appended = true;
    this.used = LEAF_START;
    this.#lastShared = this.#lastValue = 0;
    this.#bytes = target;
    return record.length >= LEAF_START && room <= target.length;
  }

  #copyRun(record: Bytes, start: number, end: number, shared: number, value: number): void {
    copyBytes(record, start, end, this.#bytes, this.used);
    this.used += end - start;
    this.#lastShared = shared;
    this.#lastValue = value;
  }

  /** Writes an entry whose own bytes are kb[shared, prefixEnd), if there are any, and then ob[os, oe). */
  #put(
    shared: number,
    kb: Bytes,
    prefixEnd: number,
    ob: Bytes,
    os: number,
    oe: number,
    vb: Bytes,
    vs: number,
    ve: number,
  ): void {
    const bytes = this.#bytes;
    const prefix = prefixEnd > shared ? prefixEnd - shared : 0;
    const suffix = prefix + oe - os;
    const value = ve - vs;
    const at = this.used;
    let header = suffix < HEADER_SUFFIX_LONG ? suffix : HEADER_SUFFIX_LONG;
    let pos = at + 1;
    if (suffix >= HEADER_SUFFIX_LONG) pos = writeVarint(bytes, pos, suffix);
    if (shared === this.#lastShared) header |= HEADER_SAME_SHARED;
    else pos = writeVarint(bytes, pos, shared);
    if (value === this.#lastValue) header |= HEADER_SAME_VALUE;
    else pos = writeVarint(bytes, pos, value);
    bytes[at] = header;
    for (let i = shared; i < prefixEnd; i++) bytes[pos++] = kb[i] as number;
    copyBytes(ob, os, oe, bytes, pos);
    copyBytes(vb, vs, ve, bytes, pos + oe - os);
    this.used = pos + oe - os + value;
    this.#lastShared = shared;
    this.#lastValue = value;
  }
}
