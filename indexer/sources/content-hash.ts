// A 64-bit content hash of byte ranges, as two 32-bit halves: what tells a document that changed from one that did not.
// Each step is a bijection of its 8 input bytes and of the 64-bit state, so two texts that differ in one block never
// collide, and others do with a chance of about 2^-64. It is fixed for ever: hashes are stored in index files.
// Not keyed: whoever can write documents can make two states of *their own* document collide, and gains a stale row of it.

const C1 = 0xcc9e2d51 | 0;
const C2 = 0x1b873593;
const SEED1 = 0x9e3779b9 | 0;
const SEED2 = 0x85ebca6b | 0;

/** Hashes ranges of one buffer; read {@link low} and {@link high} after each {@link hash}. Reused: no allocation per document. */
export class ContentHasher {
  /** Low 32 bits of the last hash, unsigned. */
  low = 0;
  /** High 32 bits of the last hash, unsigned. */
  high = 0;
  #bytes: Uint8Array = new Uint8Array(0);
  #view: DataView = new DataView(new ArrayBuffer(0));

  /** Sets the buffer that following ranges lie in. */
  attach(bytes: Uint8Array): void {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** Hashes bytes [start, end) of the attached buffer. */
  hash(start: number, end: number): void {
    const view = this.#view;
    const bytes = this.#bytes;
    let h1 = SEED1;
    let h2 = SEED2;
    let p = start;
    for (const wholeEnd = start + ((end - start) & ~7); p < wholeEnd; p += 8) {
      const a = Math.imul(h1 ^ view.getInt32(p, true), C1);
      const b = Math.imul(h2 ^ view.getInt32(p + 4, true), C2);
      h1 = (a + ((b << 13) | (b >>> 19))) | 0;
      h2 = b ^ ((h1 << 17) | (h1 >>> 15));
    }
    let k1 = 0;
    let k2 = 0;
    for (let shift = 0; p < end; p++, shift += 8) {
      if (shift < 32) k1 |= (bytes[p] as number) << shift;
      else k2 |= (bytes[p] as number) << (shift - 32);
    }
    const a = Math.imul(h1 ^ k1, C1);
    const b = Math.imul(h2 ^ k2, C2);
    h1 = (a + ((b << 13) | (b >>> 19))) ^ (end - start);
    h2 = b ^ ((h1 << 17) | (h1 >>> 15));
    h1 = avalanche((h1 + h2) | 0);
    h2 = avalanche((h2 + h1) | 0);
    h1 = (h1 + h2) | 0;
    this.low = h1 >>> 0;
    this.high = h2 >>> 0;
  }
}

/** The hash of a whole buffer as 16 hex digits. For small things: fingerprints, identities. */
export function contentHashHex(bytes: Uint8Array): string {
  const hasher = new ContentHasher();
  hasher.attach(bytes);
  hasher.hash(0, bytes.length);
  return hex32(hasher.high) + hex32(hasher.low);
}

function hex32(word: number): string {
  return word.toString(16).padStart(8, "0");
}

/** Murmur3's final mix. */
function avalanche(word: number): number {
  let h = word ^ (word >>> 16);
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return h ^ (h >>> 16);
}
