// Searching the keys of a node: the same places are found whether or not the table has made heads of its keys.

import { expect, test } from "@jest/globals";
import fc from "fast-check";

import { KeyTable, newTable, TABLE_STRIDE } from "../../btree/key-table.js";
import { compareBytes, sharedPrefix } from "../../btree/bytes.js";
import type { Bytes } from "../../btree/types.js";

/** Calls after which a table has its heads. */
const SEARCHES = 8;

/** Keys as a node keeps them, values left out. */
function tableOf(keys: readonly Bytes[]): KeyTable {
  const own: number[] = [];
  const table = newTable(keys.length, 0xffff);
  for (const [i, key] of keys.entries()) {
    const shared = i === 0 ? 0 : sharedPrefix(keys[i - 1] as Bytes, key);
    const at = i * TABLE_STRIDE;
    table[at] = own.length;
    table[at + 1] = shared;
    own.push(...key.subarray(shared));
    table[at + 2] = table[at + 3] = own.length;
  }
  return new KeyTable(Uint8Array.from(own), table, keys.length, 0);
}

function expected(keys: readonly Bytes[], sought: Bytes): number {
  const i = keys.findIndex((key) => compareBytes(key, sought) >= 0);
  if (i < 0) return ~keys.length;
  return compareBytes(keys[i] as Bytes, sought) === 0 ? i : ~i;
}

/** Few different bytes, zeros and the greatest among them, so that keys share much and end early. */
const tail = fc.array(fc.constantFrom(0, 1, 0xff), { maxLength: 5, size: "max" });
const node = fc
  .record({
    prefix: fc.array(fc.constantFrom(0, 7, 0xff), { maxLength: 3 }),
    tails: fc.uniqueArray(tail, {
      minLength: 1,
      size: "max",
      maxLength: 60,
      selector: (bytes) => bytes.join(),
    }),
    emptyFirst: fc.boolean(),
  })
  .map(({ prefix, tails, emptyFirst }) => {
    const keys = tails
      .map((bytes) => Uint8Array.from([...prefix, ...bytes]))
      .sort((a, b) => compareBytes(a, b));
    if (emptyFirst) keys[0] = new Uint8Array(0);
    return { prefix, keys };
  });

test("a key is found, or the place where it would be, at the first search and at all later ones", () => {
  fc.assert(
    fc.property(node, fc.array(tail), fc.array(tail), ({ prefix, keys }, within, anywhere) => {
      const sought = [
        ...keys,
        ...within.map((bytes) => Uint8Array.from([...prefix, ...bytes])),
        ...anywhere.map((bytes) => Uint8Array.from(bytes)),
      ];
      for (const key of sought) {
        const table = tableOf(keys);
        const right = expected(keys, key);
        const found = Array.from({ length: SEARCHES }, () => table.search(key));
        expect(found).toEqual(found.map(() => right));
      }
    }),
  );
});

test("a search goes on from the place of a lesser key", () => {
  fc.assert(
    fc.property(node, tail, tail, ({ prefix, keys }, one, other) => {
      const [low, high] = [one, other]
        .map((bytes) => Uint8Array.from([...prefix, ...bytes]))
        .sort((a, b) => compareBytes(a, b)) as [Bytes, Bytes];
      if (compareBytes(low, high) === 0) return;
      const table = tableOf(keys);
      for (let i = 0; i < SEARCHES; i++) {
        const found = table.search(low);
        expect(table.searchOn(high, found, sharedPrefix(low, high))).toBe(expected(keys, high));
      }
    }),
  );
});

test("what a table may come to need counts as its memory from the first", () => {
  const keys = Array.from({ length: 100 }, (_, i) => Uint8Array.of(i));
  expect(tableOf(keys).memoryBytes).toBe(100 * (2 * TABLE_STRIDE + 4));
});
