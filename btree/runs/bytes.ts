// Byte loops of the run files. Keys and small values are short: a plain loop beats the call into TypedArray.prototype.set and the
// view that it needs.

/** Copies of up to this many bytes are looped. */
const LOOP_BYTES_MAX = 64;

/** Copies src[start, end) to dst[at…]. */
export function copyBytes(
  src: Uint8Array,
  start: number,
  end: number,
  dst: Uint8Array,
  at: number,
): void {
  if (end - start <= LOOP_BYTES_MAX) {
    for (let i = start, j = at; i < end; i++, j++) dst[j] = src[i] as number;
  } else {
    dst.set(src.subarray(start, end), at);
  }
}

/** Negative, zero or positive as a[0, aEnd) sorts before, equals or sorts after b[0, bEnd). */
export function compareBytes(a: Uint8Array, aEnd: number, b: Uint8Array, bEnd: number): number {
  const n = aEnd < bEnd ? aEnd : bEnd;
  for (let i = 0; i < n; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return aEnd - bEnd;
}

/** Writes an unsigned varint (7 bits a byte, low first), at most 5 bytes for a u32; returns the position after it. */
export function writeVarint(dst: Uint8Array, at: number, value: number): number {
  let p = at;
  let rest = value;
  while (rest >= 0x80) {
    dst[p++] = (rest & 0x7f) | 0x80;
    rest = Math.floor(rest / 0x80);
  }
  dst[p++] = rest;
  return p;
}

/** Writes a little-endian u32. */
export function writeUint32(dst: Uint8Array, at: number, value: number): void {
  dst[at] = value;
  dst[at + 1] = value >>> 8;
  dst[at + 2] = value >>> 16;
  dst[at + 3] = value >>> 24;
}

/** Reads a little-endian u32. */
export function readUint32(src: Uint8Array, at: number): number {
  return (
    ((src[at] as number) |
      ((src[at + 1] as number) << 8) |
      ((src[at + 2] as number) << 16) |
      ((src[at + 3] as number) << 24)) >>>
    0
  );
}
