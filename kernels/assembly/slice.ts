// Finds the documents in lines, as long as they are plain; indexer/sources/slice.ts says what that is and does all other lines.

import { at } from "./json";
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
