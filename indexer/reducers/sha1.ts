// SHA-1 of short messages without an object per hash. It names HyperLogLog registers here and secures nothing.

const block = new Uint8Array(64);
const words = new Int32Array(80);

/** Hash of `bytes[0..length)` as five big-endian words in `out`. */
export function sha1(bytes: Uint8Array, length: number, out: Int32Array): void {
  out[0] = 0x67452301;
  out[1] = 0xefcdab89 | 0;
  out[2] = 0x98badcfe | 0;
  out[3] = 0x10325476;
  out[4] = 0xc3d2e1f0 | 0;
  let at = 0;
  for (; at + 64 <= length; at += 64) mix(bytes, at, out);
  const rest = length - at;
  block.fill(0);
  for (let i = 0; i < rest; i++) block[i] = bytes[at + i] as number;
  block[rest] = 0x80;
  if (rest > 55) {
    mix(block, 0, out);
    block.fill(0);
  }
  const bitsHigh = Math.floor(length / 0x20000000);
  const bitsLow = length << 3;
  for (let i = 0; i < 4; i++) {
    block[56 + i] = bitsHigh >>> (24 - 8 * i);
    block[60 + i] = bitsLow >>> (24 - 8 * i);
  }
  mix(block, 0, out);
}

function mix(bytes: Uint8Array, at: number, out: Int32Array): void {
  const w = words;
  for (let i = 0; i < 16; i++) {
    const p = at + 4 * i;
    w[i] =
      ((bytes[p] as number) << 24) |
      ((bytes[p + 1] as number) << 16) |
      ((bytes[p + 2] as number) << 8) |
      (bytes[p + 3] as number);
  }
  for (let i = 16; i < 80; i++) {
    const x =
      (w[i - 3] as number) ^ (w[i - 8] as number) ^ (w[i - 14] as number) ^ (w[i - 16] as number);
    w[i] = (x << 1) | (x >>> 31);
  }
  let a = out[0] as number;
  let b = out[1] as number;
  let c = out[2] as number;
  let d = out[3] as number;
  let e = out[4] as number;
  for (let i = 0; i < 20; i++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (~b & d)) + 0x5a827999) | 0;
    const sum = (next + e + (w[i] as number)) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = sum;
  }
  for (let i = 20; i < 40; i++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + 0x6ed9eba1) | 0;
    const sum = (next + e + (w[i] as number)) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = sum;
  }
  for (let i = 40; i < 60; i++) {
    const next = (((a << 5) | (a >>> 27)) + ((b & c) | (b & d) | (c & d)) + (0x8f1bbcdc | 0)) | 0;
    const sum = (next + e + (w[i] as number)) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = sum;
  }
  for (let i = 60; i < 80; i++) {
    const next = (((a << 5) | (a >>> 27)) + (b ^ c ^ d) + (0xca62c1d6 | 0)) | 0;
    const sum = (next + e + (w[i] as number)) | 0;
    e = d;
    d = c;
    c = (b << 30) | (b >>> 2);
    b = a;
    a = sum;
  }
  out[0] = (out[0] as number) + a;
  out[1] = (out[1] as number) + b;
  out[2] = (out[2] as number) + c;
  out[3] = (out[3] as number) + d;
  out[4] = (out[4] as number) + e;
}
