// Merges the segments of a run and fills the leaves of a tree with what survives: what btree/runs/segment-cursor.ts, loser-tree.ts and
// merger.ts do, which explain it, and LeafWriter. Keys are no longer than KEY_BYTES_MAX.

import { copy, putVarint } from "./bytes";
import { at } from "./json";
import { malformed, placeValue, refill, rowsOf, superseded } from "./env";
import { sharedBytes } from "./sort";

/** Of a key in a block of the usual size. */
const KEY_BYTES_MAX: u32 = 16 * 1024;
const VALUE_BYTES_MAX: u32 = 16 * 1024;
const OFFSET_CAP: i32 = 1 << 22;
const EXHAUSTED: i32 = 0x7fffffff;
const ALL_SHARED: u32 = 0x7fffffff;

const HEADER_SUFFIX_LONG: u32 = 62;
const HEADER_POINTER: u32 = 63;
const HEADER_SAME_VALUE: u32 = 0x40;
const HEADER_SAME_SHARED: u32 = 0x80;

// A cursor's fields. POSITION and BLOCK_END are set by whoever refills it, the constant ones by whoever opens it.
const POSITION: usize = 0;
const BLOCK_END: usize = 4;
const KEY: usize = 8;
const KEY_LENGTH: usize = 12;
const VALUE_START: usize = 16;
const VALUE_END: usize = 20;
const ORDINAL_AT: usize = 24;
const ORDINAL_WIDTH: usize = 28;
const CANCELS: usize = 32;
const RANK: usize = 36;
/** 1: not an entry, but the end of the range. */
const SENTINEL: usize = 40;
const NUMBER: usize = 44;
const ORDINAL_MIN: usize = 48;
const CURSOR_BYTES: usize = 64;

let count: u32 = 0;
/** Addresses of the cursors that have entries. */
let cursors: usize = 0;
let codes: usize = 0;
let losers: usize = 0;

let leafAt: usize = 0;
let leafHead: usize = 0;
let leafBytes: usize = 0;
let valueBytesMax: u32 = 0;
let pointerAt: usize = 0;
let dropMask: u32 = 0;
let oneMask: i32 = 0;
let firstKeyAt: usize = 0;

let used: usize = 0;
let leafCount: u32 = 0;
let leafRows: f64 = 0;
let lastShared: u32 = 0;
let lastValueLength: u32 = 0;

let shared: u32 = 0;
let anyRead = false;
let anyKept = false;
let firstKeyLength: u32 = 0;
let entriesRead: u32 = 0;
/** The winner has been taken up, and did not fit into the leaf that was full. */
let pending = false;
let pendingValue: usize = 0;
let pendingLength: u32 = 0;
let pendingRows: f64 = 0;
let pendingPointer = false;

/**
 * Begins a merge. `list` has room for 16 bytes a cursor, of which `n` stand behind each other from `first` on, none of them moved yet.
 *
 * @param gte - the first key, of `gteLength` bytes; none when it has none.
 */
export function openMerge(first: usize, n: u32, list: usize, gte: usize, gteLength: u32): void {
  cursors = list;
  codes = list + ((<usize>n) << 2);
  losers = list + ((<usize>n) << 3);
  count = 0;
  for (let i: u32 = 0; i < n; i++) {
    const cursor = first + <usize>i * CURSOR_BYTES;
    const code = seek(cursor, gte, gteLength);
    if (code == EXHAUSTED) continue;
    store<u32>(cursors + ((<usize>count) << 2), <u32>cursor);
    store<i32>(codes + ((<usize>count) << 2), code);
    count++;
  }
  shared = 0;
  anyRead = anyKept = pending = false;
  firstKeyLength = 0;
  entriesRead = 0;
  clearLeaf();
  if (count > 0) playAll(list + ((<usize>n) << 2) * 3);
}

/**
 * How leaves are filled.
 *
 * @param leaf - where a leaf is put together; its entries begin `head` bytes behind it.
 * @param bytes - a leaf is full before it would be longer.
 * @param longest - of a value that stands in a leaf; what stands for others is left at `pointer` by `placeValue`.
 * @param drop - entries whose value's first byte has one of these bits are left out.
 * @param one - entries whose value's first byte has none of these bits are one row; -1 when that is not known.
 * @param firstKey - where the first key that was kept is left.
 */
export function setLeaves(
  leaf: usize,
  head: usize,
  bytes: usize,
  longest: u32,
  pointer: usize,
  drop: u32,
  one: i32,
  firstKey: usize,
): void {
  leafAt = leaf;
  leafHead = head;
  leafBytes = bytes;
  valueBytesMax = longest;
  pointerAt = pointer;
  dropMask = drop;
  oneMask = one;
  firstKeyAt = firstKey;
}

/** Fills the next leaf. 1: it is full. 0: it is the last one, and may be empty. */
export function mergeLeaf(): u32 {
  clearLeaf();
  if (pending) {
    pending = false;
    put(winner(), pendingValue, pendingLength, pendingRows, pendingPointer);
    advance();
  }
  while (count > 0) {
    const cursor = winner();
    const code = load<i32>(codes + ((<usize>load<u32>(losers)) << 2));
    if (code == EXHAUSTED || load<u32>(cursor, SENTINEL) != 0) return 0;
    entriesRead++;
    if (!take(cursor, code)) return 1;
    advance();
  }
  return 0;
}

/** Where the leaf's entries end. */
export function mergedEnd(): usize {
  return used;
}
export function mergedCount(): u32 {
  return leafCount;
}
export function mergedRows(): f64 {
  return leafRows;
}
export function mergedEntriesRead(): u32 {
  return entriesRead;
}
export function mergedFirstKeyLength(): u32 {
  return firstKeyLength;
}
/** Where the key begins that comes after the leaf, and how much of it tells it from the leaf's last one. */
export function mergedNextKey(): usize {
  return load<u32>(winner(), KEY);
}
export function mergedNextKeyShared(): u32 {
  return shared;
}

/** Whether that key's value was placed elsewhere already. */
export function mergedNextPlaced(): bool {
  return pendingPointer;
}

function clearLeaf(): void {
  used = leafAt + leafHead;
  leafCount = 0;
  leafRows = 0;
  lastShared = 0;
  lastValueLength = 0;
}

function winner(): usize {
  return load<u32>(cursors + ((<usize>load<u32>(losers)) << 2));
}

/** The first entry of a key decides; a code of 0 says that it is the key of the entry before. False when the leaf is full. */
function take(cursor: usize, code: i32): bool {
  const decides = code != 0 || !anyRead;
  anyRead = true;
  if (code != 0) shared = min(shared, <u32>(OFFSET_CAP - (code >> 8)));
  if (load<u32>(cursor, CANCELS) != 0) return true;
  if (!decides) {
    superseded(load<u32>(cursor, NUMBER));
    return true;
  }
  let value = <usize>load<u32>(cursor, VALUE_START);
  let length = load<u32>(cursor, VALUE_END) - <u32>value;
  const flags = length > 0 ? at(value) : 0;
  if ((flags & dropMask) != 0) return true;
  let rows: f64 = 1;
  if (length == 0 || oneMask < 0 || (flags & (<u32>oneMask)) != 0) rows = rowsOf(value, length);
  const pointer = length > valueBytesMax;
  if (pointer) {
    length = placeValue(value, length, rows);
    value = pointerAt;
  }
  if (!anyKept) {
    anyKept = true;
    shared = 0;
    firstKeyLength = load<u32>(cursor, KEY_LENGTH);
    copy(load<u32>(cursor, KEY), firstKeyAt, firstKeyLength);
  }
  const suffix = load<u32>(cursor, KEY_LENGTH) - shared;
  if (used - leafAt + suffix + length + 3 > leafBytes && leafCount > 0) {
    pending = true;
    pendingValue = value;
    pendingLength = length;
    pendingRows = rows;
    pendingPointer = pointer;
    return false;
  }
  put(cursor, value, length, rows, pointer);
  return true;
}

function put(cursor: usize, value: usize, length: u32, rows: f64, pointer: bool): void {
  const from = leafCount == 0 ? 0 : shared;
  const suffix = load<u32>(cursor, KEY_LENGTH) - from;
  let p = used;
  let header: u32 = 0;
  if (from == lastShared) header = HEADER_SAME_SHARED;
  if (length == lastValueLength) header |= HEADER_SAME_VALUE;
  if (pointer || suffix >= HEADER_SUFFIX_LONG) {
    store<u8>(p, header | (pointer ? HEADER_POINTER : HEADER_SUFFIX_LONG));
    p = putVarint(p + 1, suffix);
  } else {
    store<u8>(p++, header | suffix);
  }
  if (from != lastShared) {
    lastShared = from;
    p = putVarint(p, from);
  }
  if (length != lastValueLength) {
    lastValueLength = length;
    p = putVarint(p, length);
  }
  copy(load<u32>(cursor, KEY) + from, p, suffix);
  p += suffix;
  copy(value, p, length);
  used = p + length;
  leafCount++;
  leafRows += rows;
  shared = ALL_SHARED;
}

// The tournament.

/** `winners` has room for two u32 a cursor. */
function playAll(winners: usize): void {
  for (let i: u32 = 0; i < count; i++) store<u32>(winners + ((<usize>(count + i)) << 2), i);
  for (let node = count - 1; node > 0; node--) {
    const a = load<u32>(winners + ((<usize>node) << 3));
    const b = load<u32>(winners + ((<usize>node) << 3), 4);
    const won = beats(a, b) ? a : b;
    store<u32>(winners + ((<usize>node) << 2), won);
    store<u32>(losers + ((<usize>node) << 2), won == a ? b : a);
  }
  store<u32>(losers, count == 1 ? 0 : load<u32>(winners, 4));
}

/** Moves the winner's cursor on and finds the next winner. */
function advance(): void {
  let current = load<u32>(losers);
  let code = next(load<u32>(cursors + ((<usize>current) << 2)));
  store<i32>(codes + ((<usize>current) << 2), code);
  for (let node = (current + count) >> 1; node > 0; node >>= 1) {
    const place = losers + ((<usize>node) << 2);
    const other = load<u32>(place);
    const otherCode = load<i32>(codes + ((<usize>other) << 2));
    if (otherCode < code || (otherCode == code && beats(other, current))) {
      store<u32>(place, current);
      current = other;
      code = otherCode;
    }
  }
  store<u32>(losers, current);
}

/** Plays a against b and corrects the loser's code. */
function beats(a: u32, b: u32): bool {
  const aCode = codes + ((<usize>a) << 2);
  const bCode = codes + ((<usize>b) << 2);
  const code = load<i32>(aCode);
  if (code != load<i32>(bCode)) return code < load<i32>(bCode);
  if (code == EXHAUSTED) return true;
  const left = <usize>load<u32>(cursors + ((<usize>a) << 2));
  const right = <usize>load<u32>(cursors + ((<usize>b) << 2));
  if (code != 0) {
    const x = <usize>load<u32>(left, KEY);
    const y = <usize>load<u32>(right, KEY);
    const xEnd = load<u32>(left, KEY_LENGTH);
    const yEnd = load<u32>(right, KEY_LENGTH);
    const end = min(xEnd, yEnd);
    let offset = <u32>(OFFSET_CAP - (code >> 8) + 1);
    if (offset < end) offset += sharedBytes(x + offset, y + offset, end - offset);
    if (offset < xEnd || offset < yEnd) {
      const wins = offset >= xEnd || (offset < yEnd && at(x + offset) < at(y + offset));
      if (wins) store<i32>(bCode, codeOf(offset, at(y + offset)));
      else store<i32>(aCode, codeOf(offset, at(x + offset)));
      return wins;
    }
  }
  const wins = precedes(left, right);
  store<i32>(wins ? bCode : aCode, 0);
  return wins;
}

/** Order of entries with equal keys. */
function precedes(a: usize, b: usize): bool {
  if (load<u32>(a, SENTINEL) != 0) return true;
  if (load<u32>(b, SENTINEL) != 0) return false;
  const x = ordinalOf(a);
  const y = ordinalOf(b);
  if (x != y) return x > y;
  if (load<u32>(a, CANCELS) != load<u32>(b, CANCELS)) return load<u32>(a, CANCELS) != 0;
  return load<u32>(a, RANK) > load<u32>(b, RANK);
}

function ordinalOf(cursor: usize): f64 {
  const width = load<u32>(cursor, ORDINAL_WIDTH);
  const delta =
    width == 0 ? 0 : load<u64>(load<u32>(cursor, ORDINAL_AT)) & (~(<u64>0) >> (64 - (width << 3)));
  return load<f64>(cursor, ORDINAL_MIN) + <f64>delta;
}

function codeOf(offset: u32, byte: u32): i32 {
  return ((OFFSET_CAP - <i32>offset) << 8) | byte;
}

// One segment, entry by entry.

/** Moves to the first entry that is not below `gte`; returns its code relative to the empty key. */
function seek(cursor: usize, gte: usize, gteLength: u32): i32 {
  if (load<u32>(cursor, SENTINEL) == 0) {
    do {
      if (next(cursor) == EXHAUSTED) return EXHAUSTED;
    } while (isBelow(cursor, gte, gteLength));
  }
  return load<u32>(cursor, KEY_LENGTH) == 0 ? 0 : codeOf(0, at(load<u32>(cursor, KEY)));
}

function isBelow(cursor: usize, gte: usize, gteLength: u32): bool {
  const key = <usize>load<u32>(cursor, KEY);
  const length = load<u32>(cursor, KEY_LENGTH);
  const limit = min(length, gteLength);
  const same = sharedBytes(key, gte, limit);
  return same < limit ? at(key + same) < at(gte + same) : length < gteLength;
}

/** Moves to the next entry; returns its code relative to the one before, or EXHAUSTED. */
function next(cursor: usize): i32 {
  let p = <usize>load<u32>(cursor, POSITION);
  const first = p == <usize>load<u32>(cursor, BLOCK_END);
  if (first) {
    if (load<u32>(cursor, SENTINEL) != 0 || !refill(load<u32>(cursor, NUMBER))) return EXHAUSTED;
    p = load<u32>(cursor, POSITION);
  }
  let prefix = at(p);
  let suffix = at(p + 1);
  let value = at(p + 2);
  if ((prefix | suffix | value) < 0x80) {
    p += 3;
  } else {
    const head = readVarint(p);
    prefix = <u32>head;
    p += <usize>(head >> 32);
    const middle = readVarint(p);
    suffix = <u32>middle;
    p += <usize>(middle >> 32);
    const tail = readVarint(p);
    value = <u32>tail;
    p += <usize>(tail >> 32);
  }
  store<u32>(cursor, <u32>p, ORDINAL_AT);
  p += load<u32>(cursor, ORDINAL_WIDTH);
  const valueLength = value >> 1;
  const end = p + suffix + valueLength;
  if (
    prefix > KEY_BYTES_MAX ||
    suffix > KEY_BYTES_MAX ||
    prefix + suffix > KEY_BYTES_MAX ||
    valueLength > VALUE_BYTES_MAX ||
    end > <usize>load<u32>(cursor, BLOCK_END)
  )
    malformed(load<u32>(cursor, NUMBER));
  store<u32>(cursor, value & 1, CANCELS);
  store<u32>(cursor, <u32>(p + suffix), VALUE_START);
  store<u32>(cursor, <u32>end, VALUE_END);
  store<u32>(cursor, <u32>end, POSITION);
  const key = <usize>load<u32>(cursor, KEY);
  const before = load<u32>(cursor, KEY_LENGTH);
  // The first key of a block is whole: how it differs from the one before must be found out.
  if (first) prefix = sharedBytes(key, p, min(suffix, before));
  const length = first ? suffix : prefix + suffix;
  const from = first ? p + prefix : p;
  if (prefix == length) {
    // Keys ascend: one that adds nothing is the same key again.
    if (prefix != before) malformed(load<u32>(cursor, NUMBER));
    return 0;
  }
  copy(from, key + prefix, length - prefix);
  store<u32>(cursor, length, KEY_LENGTH);
  return codeOf(prefix, at(from));
}

/** The number at `p` in the low half, its length in the high half. */
function readVarint(p: usize): u64 {
  let value: u64 = 0;
  let length: u64 = 0;
  while (length < 5) {
    const byte = <u64>at(p + <usize>length);
    value |= (byte & 0x7f) << (7 * length);
    length++;
    if (byte < 0x80) break;
  }
  // What needs more bits is larger than anything allowed here.
  if (value > 0x7fffffff) value = 0x7fffffff;
  return (length << 32) | value;
}
