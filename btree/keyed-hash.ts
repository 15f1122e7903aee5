// HalfSipHash-1-3 (Aumasson, Bernstein): a hash of 32 bits under a key of 64. Keys of trees come from documents, whose authors could make
// thousands that collide in a hash without a key; each would be compared with all the others.

import type { Bytes } from "./types.js";

/** @param key0 - and `key1`: 32 bits of the key each. */
export function keyedHash(
  key0: number,
  key1: number,
): (bytes: Bytes, start?: number, end?: number) => number {
  return (bytes, start = 0, end = bytes.length) => {
    const length = end - start;
    let v0 = key0 | 0;
    let v1 = key1 | 0;
    let v2 = 0x6c79_6765 ^ key0;
    let v3 = 0x7465_6462 ^ key1;
    const whole = start + (length & ~3);
    // One round for each word, the last of which has the length in its highest byte; then three that end it.
    for (let pos = start, left = 4; left > 0; pos += 4) {
      let word = 0;
      if (pos < whole) {
        word =
          (bytes[pos] as number) |
          ((bytes[pos + 1] as number) << 8) |
          ((bytes[pos + 2] as number) << 16) |
          ((bytes[pos + 3] as number) << 24);
      } else {
        if (left === 4) {
          word = length << 24;
          for (let i = whole; i < end; i++) word |= (bytes[i] as number) << ((i - whole) * 8);
        } else if (left === 3) v2 ^= 0xff;
        left--;
      }
      v3 ^= word;
      v0 = (v0 + v1) | 0;
      v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
      v0 = (v0 << 16) | (v0 >>> 16);
      v2 = (v2 + v3) | 0;
      v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
      v0 = (v0 + v3) | 0;
      v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
      v2 = (v2 + v1) | 0;
      v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
      v2 = (v2 << 16) | (v2 >>> 16);
      v0 ^= word;
    }
    return (v1 ^ v3) >>> 0;
  };
}
