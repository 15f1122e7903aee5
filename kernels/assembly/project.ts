// Cuts documents down to the members that map functions can see; indexer/mapping/projector.ts does the same to one document, in
// JavaScript, and says what is promised.

import { at, pastBlanks, pastValue, plainEnd } from "./json";

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const COLON: u32 = 0x3a;
const OPEN_BRACE: u32 = 0x7b;
const CLOSE_BRACE: u32 = 0x7d;

/** Members copied of one document, at most. */
const PIECES_MAX: i32 = 256;

/** The wanted names: length as u32, bytes, one after the other. */
let namesAt: usize = 0;
let nameCount: i32 = 0;
/** What is written before and after each document. */
let headAt: usize = 0;
let headEnd: usize = 0;
let tailAt: usize = 0;
let tailEnd: usize = 0;

/** All bytes written by the last `project`, or-ed. */
let seen: v128 = i64x2.splat(0);

/** What `project` looks for and writes around documents. All of it lies in memory and stays there. */
export function setProjection(
  names: usize,
  count: i32,
  head: usize,
  headLength: usize,
  tail: usize,
  tailLength: usize,
): void {
  namesAt = names;
  nameCount = count;
  headAt = head;
  headEnd = head + headLength;
  tailAt = tail;
  tailEnd = tail + tailLength;
}

/**
 * Cuts the documents data[spans[2i], spans[2i + 1]) down, writes them to `out` one behind the other, and where each begins and ends (without
 * what is around it) to `outSpans`: 0 and 0 of a document that is not JSON or not simple, of which nothing is written.
 *
 * @returns how many bytes were written.
 */
export function project(data: usize, spans: usize, n: i32, out: usize, outSpans: usize): usize {
  seen = i64x2.splat(0);
  let q = out;
  for (let i = 0; i < n; i++) {
    const start = put(headAt, headEnd, q);
    const end = projectOne(data + load<u32>(spans), data + load<u32>(spans + 4), start);
    if (end == 0) {
      store<u64>(outSpans, 0);
    } else {
      store<u32>(outSpans, <u32>(start - out));
      store<u32>(outSpans + 4, <u32>(end - out));
      q = put(tailAt, tailEnd, end);
    }
    spans += 8;
    outSpans += 8;
  }
  return q - out;
}

/** Whether the last `project` may have written a byte above 0x7F; false is certain. */
export function wroteHigh(): bool {
  return i8x16.bitmask(seen) != 0;
}

/** Writes the document [p, end), cut down, to `q`; returns the end of what was written, 0 when it is not simple. */
function projectOne(p: usize, end: usize, q: usize): usize {
  if (at(p) != OPEN_BRACE) return 0;
  store<u8>(q++, OPEN_BRACE);
  p = pastBlanks(p + 1);
  if (at(p) == CLOSE_BRACE) {
    store<u8>(q, CLOSE_BRACE);
    return p + 1 == end ? q + 1 : 0;
  }
  let pieces = 0;
  while (true) {
    if (at(p) != QUOTE) return 0;
    const start = p;
    const nameEnd = plainEnd(p + 1);
    if (at(nameEnd) != QUOTE) return 0;
    p = pastBlanks(nameEnd + 1);
    if (at(p) != COLON) return 0;
    p = pastValue(pastBlanks(p + 1), 0);
    if (p == 0) return 0;
    if (isWanted(start + 1, <u32>(nameEnd - start - 1))) {
      if (pieces == PIECES_MAX) return 0;
      if (pieces++ > 0) store<u8>(q++, COMMA);
      q = put(start, p, q);
    }
    p = pastBlanks(p);
    const next = at(p++);
    if (next == CLOSE_BRACE) {
      if (p != end) return 0;
      store<u8>(q, CLOSE_BRACE);
      return q + 1;
    }
    if (next != COMMA) return 0;
    p = pastBlanks(p);
  }
}

function isWanted(p: usize, length: u32): bool {
  let name = namesAt;
  for (let i = 0; i < nameCount; i++) {
    const size = load<u32>(name);
    name += 4;
    if (size == length) {
      let k: u32 = 0;
      while (k < size && load<u8>(name + k) == load<u8>(p + k)) k++;
      if (k == size) return true;
    }
    name += size;
  }
  return false;
}

/** Copies [from, to) to `q`, 16 bytes at a time: up to 16 bytes behind the copy are overwritten. Returns its end. */
function put(from: usize, to: usize, q: usize): usize {
  const end = q + (to - from);
  while (from < to) {
    const bytes = v128.load(from);
    seen = v128.or(seen, bytes);
    v128.store(q, bytes);
    from += 16;
    q += 16;
  }
  return end;
}
