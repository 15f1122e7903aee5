// Applying operations to a leaf straight from its record gives, byte for byte, the leaf that is written entry by entry.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { equalBytes } from "../../btree/bytes.js";
import { LEAF_START } from "../../btree/format.js";
import { LeafEditor } from "../../btree/leaf-edit.js";
import { LeafWriter } from "../../btree/leaf-writer.js";
import { sharedPrefixes } from "../../btree/sorted-ops.js";
import type { Bytes, TreeOp } from "../../btree/types.js";

/** Counts a row for each byte, so that a row too many or too few is seen. */
const REDUCER = { count: (_bytes: Bytes, start: number, end: number): number => end - start };
const VALUE_BYTES_MAX = 300;

type Entries = ReadonlyMap<string, Bytes>;

function sorted<T>(entries: ReadonlyMap<string, T>): [Bytes, T][] {
  return [...entries]
    .map(([key, value]): [Bytes, T] => [Buffer.from(key, "latin1"), value])
    .sort(([a], [b]) => Buffer.compare(a, b));
}

function leafOf(entries: Entries): Bytes {
  const writer = new LeafWriter(1 << 16);
  for (const [key, value] of sorted(entries)) {
    const shared = writer.sharedWithLast(key, 0, key.length);
    writer.put(shared, key, 0, key.length, value, 0, value.length, false);
  }
  return writer.record().slice();
}

/** Short keys of few letters have much in common; some are long enough for headers of more than a byte. */
const key = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 6 }) },
  fc.integer({ min: 0, max: 3 }).map((i) => `a${"b".repeat(60 * i)}${i}`),
  fc.integer({ min: 120, max: 140 }).map((n) => "b".repeat(n)),
);
const value = fc.oneof(
  { weight: 4, arbitrary: fc.uint8Array({ maxLength: 2 }) },
  fc.uint8Array({ minLength: 126, maxLength: 130 }),
);

function dictionary<T>(values: fc.Arbitrary<T>, minLength: number): fc.Arbitrary<Map<string, T>> {
  return fc
    .array(fc.tuple(key, values), { minLength, maxLength: 30 })
    .map((pairs) => new Map(pairs));
}

function opsOf(changes: ReadonlyMap<string, Bytes | undefined>): TreeOp[] {
  return sorted(changes).map(([op, of]) => ({ key: op, value: of }));
}

describe("a leaf edited from its record", () => {
  test("is the leaf that is written entry by entry", () => {
    fc.assert(
      fc.property(
        dictionary(value, 1),
        dictionary(fc.option(value, { nil: undefined }), 1),
        fc.nat(2),
        (entries, changes, skipped) => {
          const ops = opsOf(changes);
          const from = Math.min(skipped, ops.length - 1);
          const editor = new LeafEditor(REDUCER, VALUE_BYTES_MAX);
          const target = new Uint8Array(1 << 16);
          const record = leafOf(entries);
          const changed = editor.edit(record, ops, sharedPrefixes(ops), from, ops.length, target);

          const after = new Map<string, Bytes>(entries);
          const counts = { inserted: 0, replaced: 0, removed: 0, unchanged: 0 };
          for (const { key: bytes, value: now } of ops.slice(from)) {
            const name = Buffer.from(bytes).toString("latin1");
            const before = after.get(name);
            const same = before && now ? equalBytes(before, now) : before === now;
            if (same) counts.unchanged++;
            else if (!before) counts.inserted++;
            else if (now) counts.replaced++;
            else counts.removed++;
            if (now) after.set(name, now);
            else after.delete(name);
          }
          const { inserted, replaced, removed, unchanged } = editor;
          expect({ inserted, replaced, removed, unchanged }).toEqual(counts);
          expect(changed).toBe(counts.unchanged < ops.length - from);
          if (!changed) return;
          const rows = (all: Entries): number =>
            [...all.values()].reduce((sum, { length }) => sum + length, 0);
          expect(editor.rowsGained).toBe(rows(after) - rows(entries));
          expect(editor.count).toBe(after.size);
          if (after.size === 0) expect(editor.used).toBe(LEAF_START);
          else
            expect(Buffer.from(target.subarray(LEAF_START, editor.used))).toEqual(
              Buffer.from(leafOf(after).subarray(LEAF_START)),
            );
        },
      ),
      { numRuns: 600 },
    );
  });

  test("is left to others where there is no room, a value is too long, or entries end too late", () => {
    const record = leafOf(
      new Map([
        ["a", Buffer.from("1")],
        ["b", Buffer.from("2")],
      ]),
    );
    const edit = (length: number, room: number, leaf = record): boolean | undefined => {
      const ops = [{ key: Buffer.from("c"), value: new Uint8Array(length) }];
      const editor = new LeafEditor(REDUCER, VALUE_BYTES_MAX);
      return editor.edit(leaf, ops, sharedPrefixes(ops), 0, 1, new Uint8Array(room));
    };

    expect(edit(VALUE_BYTES_MAX, 4096)).toBe(true);
    expect(edit(VALUE_BYTES_MAX + 1, 4096)).toBeUndefined();
    expect(edit(VALUE_BYTES_MAX, 256)).toBeUndefined();
    expect(edit(1, 4096, record.subarray(0, record.length - 1))).toBeUndefined();
    expect(edit(1, 4096, Buffer.concat([record, Buffer.from([0])]))).toBeUndefined();
  });
});
