// The content hash of indexer/sources/content-hash.ts: the same numbers, for ever.

const C1: u32 = 0xcc9e2d51;
const C2: u32 = 0x1b873593;
const SEED1: u32 = 0x9e3779b9;
const SEED2: u32 = 0x85ebca6b;

/** Of the bytes [p, end); 8 bytes behind them must be readable. */
export function contentHash(p: usize, end: usize): u64 {
  const length = <u32>(end - p);
  let h1 = SEED1;
  let h2 = SEED2;
  const whole = p + (length & ~7);
  for (; p < whole; p += 8) {
    const word = load<u64>(p);
    const a = (h1 ^ (<u32>word)) * C1;
    const b = (h2 ^ (<u32>(word >> 32))) * C2;
    h1 = a + rotl(b, 13);
    h2 = b ^ rotl(h1, 17);
  }
  const bits: u64 = (length & 7) << 3;
  const rest = bits == 0 ? 0 : load<u64>(p) & (((<u64>1) << bits) - 1);
  const a = (h1 ^ (<u32>rest)) * C1;
  const b = (h2 ^ (<u32>(rest >> 32))) * C2;
  h1 = (a + rotl(b, 13)) ^ length;
  h2 = b ^ rotl(h1, 17);
  h1 = avalanche(h1 + h2);
  h2 = avalanche(h2 + h1);
  h1 += h2;
  return ((<u64>h2) << 32) | (<u64>h1);
}

/** Murmur3's final mix. */
function avalanche(h: u32): u32 {
  h ^= h >>> 16;
  h *= 0x85ebca6b;
  h ^= h >>> 13;
  h *= 0xc2b2ae35;
  return h ^ (h >>> 16);
}
