// The hash of waiting operations: HalfSipHash-1-3. Values are those of the reference algorithm, whose variant 2-4 was checked against
// its published vectors.

import { describe, expect, test } from "@jest/globals";
import { keyedHash } from "../../btree/keyed-hash.js";
import { bytesOf } from "./tree-model.js";

describe("the hash of a key", () => {
  test.each([
    [0, 0x5814_c896],
    [1, 0xe7e8_64ca],
    [3, 0x0153_9939],
    [4, 0x7e05_9ea6],
    [7, 0x9d38_d9d6],
    [8, 0x5779_99b1],
    [23, 0x6251_2deb],
    [300, 0x5d34_8cb1],
  ])("of %d bytes is that of the reference", (length, hash) => {
    const bytes = Uint8Array.from({ length }, (_, i) => i & 255);

    expect(keyedHash(0x0302_0100, 0x0706_0504)(bytes)).toBe(hash);
  });

  test("collides for others when its own key is another", () => {
    const [one, other] = [keyedHash(1, 2), keyedHash(3, 4)];
    const seen = new Map<number, Uint8Array>();
    const collisions: [Uint8Array, Uint8Array][] = [];
    for (let i = 0; i < 200_000; i++) {
      const bytes = bytesOf(`document-${i}`);
      const before = seen.get(one(bytes));
      if (before) collisions.push([before, bytes]);
      seen.set(one(bytes), bytes);
    }

    expect(collisions.length).toBeGreaterThan(0);
    expect(collisions.length).toBeLessThan(50);
    expect(collisions.filter(([a, b]) => other(a) === other(b))).toEqual([]);
  });
});
