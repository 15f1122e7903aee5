// Byte strings: comparing, shared prefixes, short copies, varints. Plain loops, because keys and values are mostly shorter than
// what a call into native code costs.

import type { Bytes } from "./types.js";

export const NO_BYTES: Bytes = new Uint8Array(0);

/** Copies of at least this many bytes go through `set`, shorter ones through a loop. */
const COPY_NATIVE_MIN = 48;

export function compareBytes(a: Bytes, b: Bytes): number {
  const length = a.length < b.length ? a.length : b.length;
  for (let i = 0; i < length; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

export function equalBytes(a: Bytes, b: Bytes): boolean {
  return a.length === b.length && equalRange(a, 0, b, 0, a.length);
}

export function equalRange(
  a: Bytes,
  aStart: number,
  b: Bytes,
  bStart: number,
  length: number,
): boolean {
  for (let i = 0; i < length; i++) if (a[aStart + i] !== b[bStart + i]) return false;
  return true;
}

export function sharedPrefix(a: Bytes, b: Bytes): number {
  const length = a.length < b.length ? a.length : b.length;
  let i = 0;
  while (i < length && a[i] === b[i]) i++;
  return i;
}

/** The shortest byte string above `below` that is a prefix of `key`, where below < key. */
export function separator(below: Bytes, key: Bytes): Bytes {
  return key.slice(0, sharedPrefix(below, key) + 1);
}

/** The smallest byte string above every one that starts with `prefix`; undefined when there is none. */
export function prefixEnd(prefix: Bytes): Bytes | undefined {
  let length = prefix.length;
  while (length > 0 && prefix[length - 1] === 0xff) length--;
  if (length === 0) return undefined;
  const end = prefix.slice(0, length);
  end[length - 1] = (end[length - 1] as number) + 1;
  return end;
}

export function copyBytes(src: Bytes, start: number, end: number, dst: Bytes, at: number): void {
  if (end - start < COPY_NATIVE_MIN) {
    for (let i = start; i < end; i++) dst[at++] = src[i] as number;
  } else {
    dst.set(src.subarray(start, end), at);
  }
}

/**
 * Copies src[start, end) to dst[at, …), four bytes at a time: for the short strings of hot loops, where it takes a third of what a loop over
 * bytes does. Up to three bytes behind the copy are overwritten, so whoever fills a buffer front to back uses it and keeps so much room.
 */
export function copyWords(
  src: DataView,
  start: number,
  end: number,
  dst: DataView,
  at: number,
): void {
  if (end - start > WORDS_BYTES_MAX || end + WORD_SLACK > src.byteLength)
    copyWhole(src, start, end, dst, at);
  else for (; start < end; start += 4, at += 4) dst.setInt32(at, src.getInt32(start, true), true);
}

function copyWhole(src: DataView, start: number, end: number, dst: DataView, at: number): void {
  const to = new Uint8Array(dst.buffer, dst.byteOffset, dst.byteLength);
  to.set(new Uint8Array(src.buffer, src.byteOffset + start, end - start), at);
}

/** Room that `copyWords` needs behind a copy. */
export const WORD_SLACK = 3;
/** Longer copies are native. */
const WORDS_BYTES_MAX = 256;

/** How many bytes from `a` and from `b` on are equal, at most `limit`. */
export function sharedWords(words: DataView, a: number, b: number, limit: number): number {
  let n = 0;
  for (; n + 4 <= limit; n += 4) {
    const difference = words.getInt32(a + n, true) ^ words.getInt32(b + n, true);
    // The lowest bit that differs is in the first byte that does.
    if (difference !== 0) return n + ((31 - Math.clz32(difference & -difference)) >>> 3);
  }
  while (n < limit && words.getUint8(a + n) === words.getUint8(b + n)) n++;
  return n;
}

export function viewOf(bytes: Bytes): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function varintLength(value: number): number {
  let n = 1;
  while (value >= 0x80) {
    value = Math.floor(value / 0x80);
    n++;
  }
  return n;
}

/** Writes an unsigned integer below 2^53, 7 bits a byte, low first; returns the position after it. */
export function writeVarint(dst: Bytes, pos: number, value: number): number {
  while (value >= 0x8000_0000) {
    dst[pos++] = (value % 0x80) | 0x80;
    value = Math.floor(value / 0x80);
  }
  while (value >= 0x80) {
    dst[pos++] = (value & 0x7f) | 0x80;
    value >>>= 7;
  }
  dst[pos++] = value;
  return pos;
}

/** Reads varints and fields from a payload. Running past the end gives NaN or short fields, which callers reject by `overrun`. */
export class FieldReader {
  constructor(
    readonly bytes: Bytes,
    public pos: number,
    readonly end: number,
  ) {}

  get overrun(): boolean {
    return !(this.pos <= this.end);
  }

  varint(): number {
    const bytes = this.bytes;
    let pos = this.pos;
    // Lengths, counts and sizes have one or two bytes mostly: no loop, no multiplication for those.
    let byte = bytes[pos++] as number;
    if (byte < 0x80) {
      this.pos = pos;
      return byte;
    }
    let value = byte & 0x7f;
    byte = bytes[pos++] as number;
    value |= (byte & 0x7f) << 7;
    if (byte < 0x80) {
      this.pos = pos;
      return value;
    }
    let scale = 0x4000;
    for (let i = 2; i < 8; i++) {
      byte = bytes[pos++] as number;
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        this.pos = pos;
        return value;
      }
      scale *= 0x80;
    }
    // Eight bytes hold 2^56: more than any number of ours.
    this.pos = Number.NaN;
    return 0;
  }

  take(length: number): Bytes {
    const start = this.pos;
    this.pos += length;
    return this.bytes.subarray(start, this.pos);
  }
}

export function readU32(bytes: Bytes, at: number): number {
  return (
    ((bytes[at] as number) |
      ((bytes[at + 1] as number) << 8) |
      ((bytes[at + 2] as number) << 16) |
      ((bytes[at + 3] as number) << 24)) >>>
    0
  );
}

export function writeU32(bytes: Bytes, at: number, value: number): void {
  bytes[at] = value & 0xff;
  bytes[at + 1] = (value >>> 8) & 0xff;
  bytes[at + 2] = (value >>> 16) & 0xff;
  bytes[at + 3] = (value >>> 24) & 0xff;
}
