// Finds the documents in lines, as long as they are plain; indexer/sources/slice.ts says what that is and does all other lines.

import { at, pastValue } from "./json";
import { contentHash } from "./hash";

const LF: u32 = 0x0a;
const QUOTE: u32 = 0x22;
const UNDERSCORE: u32 = 0x5f;
const CLOSE_BRACE: u32 = 0x7d;
/** `{"_id":"`, read as a little-endian word. */
const HEAD: u64 = 0x223a2264695f227b;
const HEAD_BYTES: usize = 8;
/** `\u00`, likewise. */
const ESCAPE: u32 = 0x3030755c;

// Pieces of a row, in the same way.
const ROW_SEQ: u64 = 0x003a22716573227b;
const ROW_ID: u64 = 0x003a226469222c;
const ROW_CHANGES_1: u64 = 0x65676e616863222c;
const ROW_CHANGES_2: u32 = 0x5b3a2273;
const ROW_DOC: u64 = 0x7b3a22636f64222c;
const COMMA: u32 = 0x2c;
/** Shorter lines are no rows. */
const ROW_BYTES_MIN: usize = 48;

let seqStart: usize = 0;
let seqEnd: usize = 0;

/** Where the last `slice` ended, and whether it met a line that is not plain there. */
let stopped: usize = 0;
let refused = false;

/**
 * Notes what the lines from `p` on hold, up to the first that is not plain or not whole. Six columns of `max` words at `out`: where the id
 * begins and ends, the content hash's low and high half, where the line begins and ends; places count from `data`, with `base` added.
 * Behind `end` 16 bytes must be readable.
 *
 * @returns how many lines; `sliceEnd` tells where the next one begins, `sliceRefused` whether that one is not plain. If it is neither, more
 * bytes are needed to tell, or there was no more room.
 */
export function slice(data: usize, p: usize, end: usize, base: u32, out: usize, max: i32): i32 {
  const column = (<usize>max) << 2;
  let n = 0;
  refused = true;
  while (true) {
    if (n == max || p + HEAD_BYTES >= end) {
      refused = false;
      break;
    }
    if (load<u64>(p) != HEAD) break;
    const idStart = p + HEAD_BYTES;
    const idEnd = plainIdEnd(idStart);
    const lineEnd = idEnd >= end ? idEnd : plainLineEnd(idEnd);
    if (lineEnd >= end) {
      refused = false;
      break;
    }
    if (at(idEnd) != QUOTE || idEnd == idStart || at(idStart) == UNDERSCORE) break;
    if (lineEnd == 0 || at(lineEnd - 1) != CLOSE_BRACE) break;
    const hash = contentHash(p, lineEnd);
    const to = out + ((<usize>n) << 2);
    store<u32>(to, <u32>(idStart - data) + base);
    store<u32>(to + column, <u32>(idEnd - data) + base);
    store<u32>(to + column * 2, <u32>hash);
    store<u32>(to + column * 3, <u32>(hash >> 32));
    store<u32>(to + column * 4, <u32>(p - data) + base);
    store<u32>(to + column * 5, <u32>(lineEnd - data) + base);
    n++;
    p = lineEnd + 1;
  }
  stopped = p;
  return n;
}

/**
 * The same for rows of a changes feed, as CouchDB prints them, with a document and not deleted (indexer/sources/slice-changes.ts). Seven
 * columns: as of `slice`, but the document's beginning and end in the place of the line's end. `rowSeqStart` and `rowSeqEnd` tell where
 * the sequence of the last one is.
 */
export function sliceRows(data: usize, p: usize, end: usize, base: u32, out: usize, max: i32): i32 {
  const column = (<usize>max) << 2;
  let n = 0;
  refused = true;
  while (true) {
    if (n == max || p + ROW_BYTES_MIN >= end) {
      refused = false;
      break;
    }
    const lineEnd = rowLineEnd(p);
    if (lineEnd >= end) {
      refused = false;
      break;
    }
    if (lineEnd < p + ROW_BYTES_MIN) break;
    const last = at(lineEnd - 1) == COMMA ? lineEnd - 2 : lineEnd - 1;
    if (at(last) != CLOSE_BRACE || (load<u64>(p) & 0x00ffffffffffffff) != ROW_SEQ) break;
    const seq = p + 7;
    let q = seq;
    if (at(q) == QUOTE) {
      q = plainIdEnd(q + 1);
      if (at(q++) != QUOTE) break;
    } else while (at(q) - 0x30 <= 9) q++;
    const afterSeq = q;
    if ((load<u64>(q) & 0x0000ffffffffffff) != ROW_ID || at(q + 6) != QUOTE) break;
    const idStart = q + 7;
    const idEnd = plainIdEnd(idStart);
    if (at(idEnd) != QUOTE || idEnd == idStart || at(idStart) == UNDERSCORE) break;
    q = idEnd + 1;
    if (load<u64>(q) != ROW_CHANGES_1 || load<u32>(q, 8) != ROW_CHANGES_2) break;
    q = bracketEnd(q + 12);
    if (q >= lineEnd || load<u64>(q + 1) != ROW_DOC) break;
    const doc = q + 8;
    if (pastValue(doc, 0) != last) break;
    const hash = contentHash(doc, last);
    const to = out + ((<usize>n) << 2);
    store<u32>(to, <u32>(idStart - data) + base);
    store<u32>(to + column, <u32>(idEnd - data) + base);
    store<u32>(to + column * 2, <u32>hash);
    store<u32>(to + column * 3, <u32>(hash >> 32));
    store<u32>(to + column * 4, <u32>(p - data) + base);
    store<u32>(to + column * 5, <u32>(doc - data) + base);
    store<u32>(to + column * 6, <u32>(last - data) + base);
    seqStart = seq;
    seqEnd = afterSeq;
    n++;
    p = lineEnd + 1;
  }
  stopped = p;
  return n;
}

export function rowSeqStart(): usize {
  return seqStart;
}

export function rowSeqEnd(): usize {
  return seqEnd;
}

/** The first closing bracket or line end from `p` on. */
function bracketEnd(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    const mask = i8x16.bitmask(
      v128.or(i8x16.eq(bytes, i8x16.splat(0x5d)), i8x16.eq(bytes, i8x16.splat(0x0a))),
    );
    if (mask != 0) return p + ctz(mask);
    p += 16;
  }
}

/** The first line end from `p` on; 0 when an underscore before it could begin `_deleted`, or an escape could spell one. */
function rowLineEnd(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    let mask = i8x16.bitmask(
      v128.or(
        v128.or(i8x16.eq(bytes, i8x16.splat(0x5f)), i8x16.eq(bytes, i8x16.splat(0x5c))),
        i8x16.eq(bytes, i8x16.splat(0x0a)),
      ),
    );
    while (mask != 0) {
      const found = p + ctz(mask);
      const c = at(found);
      if (c == LF) return found;
      if (c == UNDERSCORE) {
        if (at(found - 1) == QUOTE && at(found + 1) == 0x64) return 0;
      } else if (load<u32>(found) == ESCAPE && at(found + 4) - 0x35 <= 2) return 0;
      mask &= mask - 1;
    }
    p += 16;
  }
}

export function sliceEnd(): usize {
  return stopped;
}

export function sliceRefused(): bool {
  return refused;
}

/** The first quote, backslash, line end or byte above 0x7F from `p` on. */
function plainIdEnd(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    const special = v128.or(
      v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c))),
      i8x16.eq(bytes, i8x16.splat(0x0a)),
    );
    const mask = i8x16.bitmask(v128.or(special, bytes));
    if (mask != 0) return p + ctz(mask);
    p += 16;
  }
}

/** The first line end from `p` on; 0 when an underscore before it could begin `_id` or `_deleted`, or an escape could spell one. */
function plainLineEnd(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    let mask = i8x16.bitmask(
      v128.or(
        v128.or(i8x16.eq(bytes, i8x16.splat(0x5f)), i8x16.eq(bytes, i8x16.splat(0x5c))),
        i8x16.eq(bytes, i8x16.splat(0x0a)),
      ),
    );
    while (mask != 0) {
      const found = p + ctz(mask);
      const c = at(found);
      if (c == LF) return found;
      if (c == UNDERSCORE) {
        const next = at(found + 1);
        if (at(found - 1) == QUOTE && (next == 0x69 || next == 0x64)) return 0;
      } else if (load<u32>(found) == ESCAPE && at(found + 4) - 0x35 <= 2) {
        return 0;
      }
      mask &= mask - 1;
    }
    p += 16;
  }
}
