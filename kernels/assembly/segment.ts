// Encodes sorted entries as the blocks and the index of a segment, byte for byte as btree/runs/encode-segment.ts and segment-encoder.ts do.
// Checksums are left 0: whoever called fills them in, and adds the footer.

import { copy, putVarint } from "./bytes";
import { combine } from "./env";
import {
  entryAt,
  flagsOf,
  keyEnd,
  keyStart,
  ordinalOf,
  sharedBytes,
  valueEnd,
  valueStart,
} from "./sort";

const CANCEL: u32 = 1;
/** Three varints of 5 bytes, an ordinal of 7, and three bytes that an encoder in JavaScript may write beyond an entry's end. */
const ENTRY_HEAD_BYTES_MAX: usize = 25;
const INDEX_KEY_BYTES_MAX: usize = 255;
const INDEX_RECORD_BYTES: usize = 9;
/** What copies may write behind their end. */
const SLACK: usize = 16;

let outEnd: usize = 0;
let blockLimit: usize = 0;
let ordinalMin: f64 = 0;
let ordinalWidth: usize = 0;

let used: usize = 0;
let blockStart: usize = 0;
let index: usize = 0;
let indexEnd: usize = 0;
let blocks: u32 = 0;
let blockBytesMax: usize = 0;
let entries: u32 = 0;
let failed = false;

/**
 * Encodes `n` entries in order: blocks to `out`, the index to `indexAt`, of which `outBytes` and `indexBytes` may be written.
 *
 * @param combinedAt - where `combine` leaves its value; 0 when entries of one key and ordinal are not combined.
 * @returns bytes of all blocks; -1 when there was not enough room.
 */
export function encodeEntries(
  n: u32,
  out: usize,
  outBytes: usize,
  indexAt: usize,
  indexBytes: usize,
  limit: usize,
  lowest: f64,
  width: usize,
  combinedAt: usize,
): i32 {
  used = blockStart = out;
  outEnd = out + outBytes - SLACK;
  index = indexAt;
  indexEnd = indexAt + indexBytes - SLACK;
  blockLimit = limit;
  ordinalMin = lowest;
  ordinalWidth = width;
  blocks = 0;
  blockBytesMax = 0;
  entries = 0;
  failed = false;
  let shared: u32 = 0;
  let i: u32 = 0;
  while (i < n && !failed) {
    const entry = entryAt(i);
    const start = keyStart(entry);
    const length = <u32>(keyEnd(entry) - start);
    let end = i + 1;
    let sharedNext: u32 = 0;
    while (end < n) {
      const next = entryAt(end);
      const nextStart = keyStart(next);
      const nextLength = <u32>(keyEnd(next) - nextStart);
      sharedNext = sharedBytes(start, nextStart, min(length, nextLength));
      if (sharedNext < length || sharedNext < nextLength) break;
      end++;
    }
    if (end == i + 1) {
      const value = valueStart(entry);
      add(start, length, shared, value, valueEnd(entry), ordinalOf(entry), flagsOf(entry));
    } else {
      addEqualKeys(i, end, start, length, shared, combinedAt);
    }
    shared = sharedNext;
    i = end;
  }
  if (failed) return -1;
  if (used > blockStart) closeBlock();
  return <i32>(used - out);
}

export function encodedEntries(): u32 {
  return entries;
}
export function encodedBlocks(): u32 {
  return blocks;
}
export function encodedBlockBytesMax(): usize {
  return blockBytesMax;
}
/** Where the index ends. */
export function encodedIndexEnd(): usize {
  return index;
}

/** Entries [start, end) have one key. */
function addEqualKeys(
  start: u32,
  end: u32,
  key: usize,
  length: u32,
  shared: u32,
  combinedAt: usize,
): void {
  let prefix = shared;
  let groupEnd = end;
  while (groupEnd > start) {
    const ordinal = ordinalOf(entryAt(groupEnd - 1));
    let rows = groupEnd;
    while (rows > start) {
      const entry = entryAt(rows - 1);
      if (ordinalOf(entry) != ordinal || flagsOf(entry) == CANCEL) break;
      rows--;
    }
    let first = rows;
    while (first > start && ordinalOf(entryAt(first - 1)) == ordinal) first--;
    // Cancels come first in the batch and in the file; one says as much as several.
    if (first < rows) {
      add(key, length, prefix, key, key, ordinal, CANCEL);
      prefix = length;
    }
    if (groupEnd - rows > 1 && combinedAt != 0) {
      const bytes = combine(rows, groupEnd - 1);
      if (bytes < 0) {
        failed = true;
        return;
      }
      add(key, length, prefix, combinedAt, combinedAt + <usize>bytes, ordinal, 0);
      prefix = length;
    } else {
      for (let i = groupEnd; i > rows; i--) {
        const entry = entryAt(i - 1);
        add(key, length, prefix, valueStart(entry), valueEnd(entry), ordinal, 0);
        prefix = length;
      }
    }
    groupEnd = first;
  }
}

function add(
  key: usize,
  length: u32,
  shared: u32,
  value: usize,
  valueEnd: usize,
  ordinal: f64,
  flags: u32,
): void {
  const valueLength = valueEnd - value;
  const bytesMax = <usize>length + valueLength + ENTRY_HEAD_BYTES_MAX;
  if (used > blockStart && used - blockStart + bytesMax - shared > blockLimit) closeBlock();
  if (used + bytesMax > outEnd) {
    failed = true;
    return;
  }
  let prefix = shared;
  if (used == blockStart) {
    prefix = 0;
    if (!beginIndexRecord(key, length)) return;
  }
  const suffix = length - prefix;
  let p = putVarint(used, prefix);
  p = putVarint(p, suffix);
  p = putVarint(p, (<u32>(valueLength << 1)) | (flags & CANCEL));
  // Stores more than its width: what follows is written after it.
  store<u64>(p, <u64>(ordinal - ordinalMin));
  p += ordinalWidth;
  copy(key + prefix, p, suffix);
  p += suffix;
  copy(value, p, valueLength);
  used = p + valueLength;
  entries++;
}

/** The record's head is written when the block is closed. */
function beginIndexRecord(key: usize, length: u32): bool {
  const bytes = min(<usize>length, INDEX_KEY_BYTES_MAX);
  if (index + INDEX_RECORD_BYTES + bytes > indexEnd) {
    failed = true;
    return false;
  }
  store<u8>(index, bytes, 8);
  copy(key, index + INDEX_RECORD_BYTES, bytes);
  return true;
}

function closeBlock(): void {
  const bytes = used - blockStart;
  store<u32>(index, <u32>bytes);
  store<u32>(index, 0, 4);
  index += INDEX_RECORD_BYTES + <usize>load<u8>(index, 8);
  if (bytes > blockBytesMax) blockBytesMax = bytes;
  blocks++;
  blockStart = used;
}
