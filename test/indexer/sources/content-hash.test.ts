// The content hash decides whether a document is mapped again: a collision would leave a stale row.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { ContentHasher, contentHashHex } from "../../../indexer/sources/index.js";

describe("the content hash", () => {
  test("is fixed: index files hold it", () => {
    expect(contentHashHex(Buffer.from(""))).toBe("df90554a1de2b485");
    expect(contentHashHex(Buffer.from('{"_id":"a","n":1}'))).toBe("10843a38337d99a1");
  });

  test("does not depend on where the bytes lie", () => {
    const hasher = new ContentHasher();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(20), (bytes, offset) => {
        const buffer = new Uint8Array(offset + bytes.length + 3).fill(0xaa);
        buffer.set(bytes, offset);
        hasher.attach(buffer);
        hasher.hash(offset, offset + bytes.length);
        const hex = (word: number): string => word.toString(16).padStart(8, "0");
        expect(hex(hasher.high) + hex(hasher.low)).toBe(contentHashHex(bytes));
      }),
    );
  });

  test("has no collisions among a hundred thousand near neighbours, in either half by chance only", () => {
    const whole = new Set<string>();
    const low = new Set<number>();
    const hasher = new ContentHasher();
    const count = 100_000;
    for (let i = 0; i < count; i++) {
      const bytes = Buffer.from(`{"_id":"document-${i}","n":${i % 97},"tail":"${i * 7}"}`);
      hasher.attach(bytes);
      hasher.hash(0, bytes.length);
      whole.add(`${hasher.high}:${hasher.low}`);
      low.add(hasher.low);
    }
    expect(whole.size).toBe(count);
    // 1.2 collisions are expected among so many 32-bit values.
    expect(low.size).toBeGreaterThan(count - 12);
  });

  test("changes about half of its bits with any one bit of the text", () => {
    const bytes = Buffer.from('{"_id":"0123456789abcdef","text":"some text that is long enough"}');
    const hasher = new ContentHasher();
    hasher.attach(bytes);
    hasher.hash(0, bytes.length);
    const before = [hasher.low, hasher.high];
    let flipped = 0;
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
      hasher.hash(0, bytes.length);
      const one =
        ones(hasher.low ^ (before[0] as number)) + ones(hasher.high ^ (before[1] as number));
      expect(one).toBeGreaterThan(10);
      flipped += one;
      bytes[bit >> 3] = (bytes[bit >> 3] as number) ^ (1 << (bit & 7));
    }
    expect(flipped / (bytes.length * 8)).toBeGreaterThan(31);
    expect(flipped / (bytes.length * 8)).toBeLessThan(33);
  });

  test("tells trailing zero bytes apart", () => {
    const hashes = [0, 1, 2, 7, 8, 9, 16].map((length) => contentHashHex(new Uint8Array(length)));
    expect(new Set(hashes).size).toBe(hashes.length);
  });
});

function ones(word: number): number {
  let count = 0;
  for (let rest = word >>> 0; rest !== 0; rest &= rest - 1) {
    rest >>>= 0;
    count++;
  }
  return count;
}
