// Small writes into an arena, without a view or a call into the engine. All return the position after what was written.

/** Short runs by a loop: a call into the engine's copy costs more than a dozen bytes. */
export function copy(
  dst: Uint8Array,
  pos: number,
  src: Uint8Array,
  from: number,
  to: number,
): number {
  if (to - from > 64) {
    dst.set(src.subarray(from, to), pos);
    return pos + to - from;
  }
  while (from < to) dst[pos++] = src[from++] as number;
  return pos;
}

export function writeWord(dst: Uint8Array, pos: number, word: number): number {
  dst[pos] = word & 0xff;
  dst[pos + 1] = (word >>> 8) & 0xff;
  dst[pos + 2] = (word >>> 16) & 0xff;
  dst[pos + 3] = word >>> 24;
  return pos + 4;
}
