// Turns map replies into entries of trees, as indexer/mapping/chunk-encoder.ts does, which says what they are. Only the ordinary reply is taken:
// short, of few rows, canonical JSON in printable ASCII, keys without objects that are told from their bytes.

import { copy, putVarint } from "./bytes";
import { at, pastCanonical } from "./json";
import { keyEnd, pastKey } from "./keys";

const COMMA: u32 = 0x2c;
const OPEN_BRACKET: u32 = 0x5b;
const CLOSE_BRACKET: u32 = 0x5d;
const LF: u32 = 0x0a;

const LINE_BYTES_MAX: u32 = 16_384;
const ID_BYTES_MAX: u32 = 256;
const ROWS_A_DOCUMENT_MAX: u32 = 16;
/** What an entry takes beside its key, id and value: flags, version, tree, lengths. */
const ENTRY_HEAD_BYTES: u32 = 24;
/** A key takes at most three bytes for one of its text, and three. */
const KEY_GROWTH: u32 = 4;

// A tree's record: eight u32.
const BYTES: usize = 0;
const USED: usize = 4;
const BASE: usize = 8;
const SPANS: usize = 12;
const ORDINALS: usize = 16;
const ENTRIES: usize = 20;
const USED_BEFORE: usize = 24;
const ENTRIES_BEFORE: usize = 28;
const TREE_BYTES: usize = 32;

/** Records of the view trees, then of the id tree. */
let treesAt: usize = 0;
let views: u32 = 0;
let regionBytes: u32 = 0;
let regionEntries: u32 = 0;

/** Rows of the document that is encoded: tree, place and length of the key, three u32 each. */
const rows = memory.data(16 * 12, 16);
let rowCount: u32 = 0;

let textEnd: usize = 0;

/**
 * Where entries go: `count` view trees and then the id tree. A tree's record of eight u32 at `trees`: where its region of `bytes` is; bytes used there;
 * what to add to positions in it; where spans (four u32 an entry, as `setEntries`) and ordinals (f64) go, `entries` of them at most; entries
 * there are; and two for this module.
 */
export function setTrees(trees: usize, count: u32, bytes: u32, entries: u32): void {
  treesAt = trees;
  views = count;
  regionBytes = bytes;
  regionEntries = entries;
}

/**
 * Encodes replies that begin at `p`, each ended by a LF, of documents described by five u32 each at `documents`: where the id begins and ends
 * (from `ids` on), the version's low and high half, and what to add to `ordinal`. 64 bytes behind everything must be readable.
 *
 * @returns of how many documents; it stops at the first that is not simple, or has no room.
 */
export function encodeReplies(p: usize, n: u32, documents: usize, ids: usize, ordinal: f64): u32 {
  let done: u32 = 0;
  for (; done < n; done++) {
    const id = ids + load<u32>(documents);
    const idBytes = load<u32>(documents, 4) - load<u32>(documents);
    if (!begin(p, idBytes)) break;
    const at = ordinal + <f64>load<u32>(documents, 16);
    const end = pastRows(p, id, idBytes, at);
    if (end == 0) {
      rewind();
      break;
    }
    putIdEntry(id, idBytes, load<u64>(documents, 8), at);
    p = end + 1;
    documents += 20;
  }
  textEnd = p;
  return done;
}

/** Where the reply after the last one that was encoded begins. */
export function repliesEnd(): usize {
  return textEnd;
}

function treeAt(tree: u32): usize {
  return treesAt + <usize>tree * TREE_BYTES;
}

/** Whether a document's entries have room in every region; remembers where it began. */
function begin(p: usize, idBytes: u32): bool {
  const line = lineBytes(p);
  if (line > LINE_BYTES_MAX || idBytes > ID_BYTES_MAX) return false;
  const needed = KEY_GROWTH * line + ROWS_A_DOCUMENT_MAX * (idBytes + ENTRY_HEAD_BYTES) + 64;
  for (let tree: u32 = 0; tree <= views; tree++) {
    const record = treeAt(tree);
    const used = load<u32>(record, USED);
    const entries = load<u32>(record, ENTRIES);
    if (used + needed > regionBytes || entries + ROWS_A_DOCUMENT_MAX > regionEntries) return false;
    store<u32>(record, used, USED_BEFORE);
    store<u32>(record, entries, ENTRIES_BEFORE);
  }
  rowCount = 0;
  return true;
}

function rewind(): void {
  for (let tree: u32 = 0; tree < views; tree++) {
    const record = treeAt(tree);
    store<u32>(record, load<u32>(record, USED_BEFORE), USED);
    store<u32>(record, load<u32>(record, ENTRIES_BEFORE), ENTRIES);
  }
}

function lineBytes(p: usize): u32 {
  let end = p;
  while (true) {
    const mask = i8x16.bitmask(i8x16.eq(v128.load(end), i8x16.splat(0x0a)));
    if (mask != 0) return <u32>(end + ctz(mask) - p);
    end += 16;
    if (<u32>(end - p) > LINE_BYTES_MAX) return LINE_BYTES_MAX + 1;
  }
}

/** Puts the rows of `[[[key,value],…],…]` into their trees; returns where it ends, 0 when it is not simple. */
function pastRows(p: usize, id: usize, idBytes: u32, ordinal: f64): usize {
  if (at(p++) != OPEN_BRACKET) return 0;
  for (let tree: u32 = 0; tree < views; tree++) {
    if (tree > 0 && at(p++) != COMMA) return 0;
    if (at(p++) != OPEN_BRACKET) return 0;
    if (at(p) == CLOSE_BRACKET) {
      p++;
      continue;
    }
    while (true) {
      p = pastRow(p, tree, id, idBytes, ordinal);
      if (p == 0) return 0;
      const next = at(p++);
      if (next == CLOSE_BRACKET) break;
      if (next != COMMA) return 0;
    }
  }
  return at(p) == CLOSE_BRACKET && at(p + 1) == LF ? p + 1 : 0;
}

function pastRow(p: usize, tree: u32, id: usize, idBytes: u32, ordinal: f64): usize {
  if (rowCount == ROWS_A_DOCUMENT_MAX || at(p) != OPEN_BRACKET) return 0;
  const record = treeAt(tree);
  const key = <usize>load<u32>(record, BYTES) + load<u32>(record, USED);
  p = pastKey(p + 1, key);
  if (p == 0 || at(p++) != COMMA) return 0;
  const end = pastCanonical(p);
  if (end == 0 || at(end) != CLOSE_BRACKET) return 0;
  const keyBytes = <u32>(keyEnd() - key);
  copy(id, keyEnd(), idBytes);
  const value = keyEnd() + idBytes;
  // No text of the key: it is told from its bytes.
  store<u8>(value, 0);
  copy(p, value + 1, end - p);
  putEntry(record, key, value, value + 1 + (end - p), ordinal);
  const row = rows + <usize>rowCount * 12;
  rowCount++;
  store<u32>(row, tree);
  store<u32>(row, <u32>key, 4);
  store<u32>(row, keyBytes, 8);
  return end + 1;
}

/** The entry [key, end) whose value begins at `value`, at the end of what is used of the tree's region. */
function putEntry(record: usize, key: usize, value: usize, end: usize, ordinal: f64): void {
  const region = <usize>load<u32>(record, BYTES);
  const base = load<u32>(record, BASE);
  const n = <usize>load<u32>(record, ENTRIES);
  const span = <usize>load<u32>(record, SPANS) + (n << 4);
  const split = base + <u32>(value - region);
  store<u32>(span, base + <u32>(key - region));
  store<u32>(span, split, 4);
  store<u32>(span, split, 8);
  store<u32>(span, base + <u32>(end - region), 12);
  store<f64>(<usize>load<u32>(record, ORDINALS) + (n << 3), ordinal);
  store<u32>(record, <u32>n + 1, ENTRIES);
  store<u32>(record, <u32>(end - region), USED);
}

function putIdEntry(id: usize, idBytes: u32, version: u64, ordinal: f64): void {
  const record = treeAt(views);
  const key = <usize>load<u32>(record, BYTES) + load<u32>(record, USED);
  copy(id, key, idBytes);
  const value = key + idBytes;
  store<u8>(value, 0);
  store<u64>(value + 1, version);
  let q = value + 9;
  for (let i: u32 = 0; i < rowCount; i++) {
    if (repeats(i)) continue;
    const row = rows + <usize>i * 12;
    const length = load<u32>(row, 8);
    q = putVarint(putVarint(q, load<u32>(row)), length);
    copy(<usize>load<u32>(row, 4), q, length);
    q += length;
  }
  putEntry(record, key, value, q, ordinal);
}

/** Did the document emit the i-th row's key before, in the same view? */
function repeats(i: u32): bool {
  const row = rows + <usize>i * 12;
  const length = load<u32>(row, 8);
  for (let other = row - 12; other >= rows; other -= 12) {
    if (load<u32>(other) != load<u32>(row)) return false;
    if (load<u32>(other, 8) == length && isEqual(load<u32>(other, 4), load<u32>(row, 4), length))
      return true;
  }
  return false;
}

function isEqual(a: usize, b: usize, length: usize): bool {
  let i: usize = 0;
  for (; i + 8 <= length; i += 8) if (load<u64>(a + i) != load<u64>(b + i)) return false;
  for (; i < length; i++) if (load<u8>(a + i) != load<u8>(b + i)) return false;
  return true;
}
