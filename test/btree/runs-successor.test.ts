// A tree built from entries that are copied where they lie is, byte for byte, the tree built from whole keys.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  type LeafSlice,
  MemoryStorage,
  mergeSegments,
  NodeCache,
  type SegmentRef,
  Store,
  TreeBuilder,
  type TreeReader,
} from "../../btree/index.js";
import { copyWords, sharedWords, viewOf } from "../../btree/bytes.js";
import { saltSeed } from "../../btree/checksum.js";
import { RecordLog } from "../../btree/record-log.js";
import { type ModelEntry, writeSegments } from "../helpers/run-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 100);
const folder = mkdtempSync(join(tmpdir(), "viewmill-runs-"));
const path = join(folder, "test.run");
const format = { salt: new Uint8Array(16), leafBytes: 256, innerBytes: 256, valueBytesMax: 64 };

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** All that can be seen of a leaf, as its reduction. */
const reducer = {
  count: (_: Uint8Array, start: number, end: number): number => end - start + 1,
  reduce: (leaves: readonly LeafSlice[]) =>
    leaves.map((leaf) => {
      let sum = 0;
      for (let i = 0; i < leaf.length; i++) {
        for (const byte of leaf.key(i)) sum = (sum * 31 + byte) % 251;
        const span = leaf.span(i);
        const value = span.bytes.subarray(span.start, span.end);
        if (Buffer.compare(value, leaf.value(i)) !== 0) throw new Error("a span is not the value");
        for (const byte of value) sum = (sum * 31 + byte) % 251;
      }
      return Uint8Array.of(sum);
    }),
  rereduce: (groups: readonly (readonly Uint8Array[])[]) =>
    groups.map((parts) =>
      Uint8Array.of(parts.reduce((sum, part) => sum + (part[0] ?? 0), 0) % 251),
    ),
};

function logInto(storage: MemoryStorage): RecordLog {
  const next = new BigUint64Array(1);
  return new RecordLog(storage, next, saltSeed(format.salt), { extentBytes: 0, bufferBytes: 4096 });
}

type Keep = (value: Uint8Array, start: number) => boolean;

async function built(
  refs: readonly SegmentRef[],
  how: "whole keys" | "where they lie",
  keep: Keep,
  { memoryBytes = 0, base }: { memoryBytes?: number; base?: TreeReader | undefined } = {},
): Promise<unknown> {
  const storage = new MemoryStorage();
  const sink = logInto(storage);
  const builder = new TreeBuilder(sink, format, reducer);
  let shared = Infinity;
  mergeSegments(
    refs,
    {
      base,
      // What it holds already must not matter.
      memory: memoryBytes > 0 ? new Uint8Array(memoryBytes).fill(99) : undefined,
      onSuccessor:
        how === "whole keys"
          ? undefined
          : (entry, sharedWithLast) => {
              shared = Math.min(shared, sharedWithLast);
              if (!keep(entry.buffer, entry.valueStart)) return;
              builder.addSuccessor(entry, shared);
              shared = Infinity;
            },
    },
    (kb, ks, ke, vb, vs, ve) => {
      if (keep(vb, vs)) builder.add(kb, ks, ke, vb, vs, ve);
    },
  );
  const forest = await builder.finishPartition();
  sink.flush();
  return { forest, file: Buffer.from(storage.read(0, storage.size())).toString("hex") };
}

/** A tree with the entries, those from `waiting` on in its log. */
async function treeOf(entries: readonly ModelEntry[], waiting: number): Promise<TreeReader> {
  const { salt: _, ...sizes } = format;
  const store = await Store.create(new MemoryStorage(), {
    ...sizes,
    state: new Uint8Array(0),
    reducers: () => ({ count: reducer.count }),
    cache: new NodeCache(2 ** 20),
    log: { entriesMax: entries.length - waiting, bytesMax: 2 ** 20 },
  });
  for (const part of [entries.slice(0, waiting), entries.slice(waiting)]) {
    const ops = part.map(({ key, value }) => ({ key, value }));
    ops.sort((a, b) => Buffer.compare(a.key, b.key));
    await store.apply(new Map([["t", ops]]), new Uint8Array(0));
  }
  return store.snapshot().tree("t");
}

const entryArbitrary = fc.record({
  key: fc
    .tuple(
      fc.array(fc.constantFrom(0, 97, 98, 255), { maxLength: 6 }),
      fc.constantFrom(0, 0, 0, 5, 70, 300),
    )
    .map(([bytes, more]) => Buffer.concat([Buffer.from(bytes), Buffer.alloc(more, 99)])),
  value: fc
    .tuple(fc.nat(255), fc.constantFrom(1, 1, 2, 3, 9, 60, 100, 600))
    .map(([byte, length]) => Buffer.alloc(length, byte)),
  ordinal: fc.nat(5),
  cancels: fc.constantFrom(false, false, false, true),
});

describe("addSuccessor", () => {
  test("writes what add writes, whatever the entries, whichever are left out", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(entryArbitrary, { maxLength: 60 }), { maxLength: 6 }),
        fc.boolean(),
        fc.constantFrom(40, 16 * 1024),
        fc.constantFrom(0, 100, 40_000, 200_000),
        async (feeds: readonly (readonly ModelEntry[])[], selective, blockBytes, memoryBytes) => {
          const refs = writeSegments(path, feeds, { blockBytes });
          const keep: Keep = (value, start) => !selective || (value[start] ?? 0) % 3 > 0;

          const fast = await built(refs, "where they lie", keep, { memoryBytes });

          expect(fast).toEqual(await built(refs, "whole keys", keep));
        },
      ),
      { numRuns: runs },
    );
  });

  test("does so over a base tree too, whether its entries lie in nodes or wait", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(entryArbitrary, {
          selector: ({ key }) => key.toString("hex"),
          maxLength: 60,
        }),
        fc.nat(60),
        fc.array(fc.array(entryArbitrary, { maxLength: 30 }), { maxLength: 3 }),
        fc.boolean(),
        async (entries, waiting, feeds: readonly (readonly ModelEntry[])[], selective) => {
          const base = await treeOf(entries, Math.min(waiting, entries.length));
          const refs = writeSegments(path, feeds);
          const keep: Keep = (value, start) => !selective || (value[start] ?? 0) % 3 > 0;

          const fast = await built(refs, "where they lie", keep, { base });

          expect(fast).toEqual(await built(refs, "whole keys", keep, { base }));
        },
      ),
      { numRuns: runs },
    );
  });

  test("refuses a key that is too long, as add does", () => {
    const builder = new TreeBuilder(logInto(new MemoryStorage()), format, reducer);
    const key = new Uint8Array(64 * 1024 * 1024 + 1);
    const entry = {
      key,
      keyWords: viewOf(key),
      keyLength: key.length,
      buffer: key,
      bufferWords: viewOf(key),
      valueStart: 0,
      valueEnd: 0,
      suffixFrom: 0,
      ordinal: 0,
    };

    expect(() => {
      builder.addSuccessor(entry, 0);
    }).toThrow(expect.objectContaining({ code: "BTREE_LIMIT" }));
  });
});

describe("copies and comparisons by words", () => {
  test("are those by bytes", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 600 }),
        fc.nat(600),
        fc.nat(600),
        (bytes, a, b) => {
          const [start, end] = [Math.min(a, b), Math.max(a, b)].map((at) => at % bytes.length);
          const [from, to] = [Math.min(start ?? 0, end ?? 0), Math.max(start ?? 0, end ?? 0)];
          const target = new Uint8Array(620);

          copyWords(viewOf(bytes), from, to, viewOf(target), 7);

          expect(target.subarray(7, 7 + to - from)).toEqual(bytes.subarray(from, to));
          expect(target.subarray(0, 7)).toEqual(new Uint8Array(7));
        },
      ),
      { numRuns: runs },
    );
    fc.assert(
      fc.property(fc.array(fc.constantFrom(0, 1), { maxLength: 12 }), fc.nat(11), (bits, flip) => {
        const one = Uint8Array.from([...bits, ...bits]);
        if (flip < bits.length) one[bits.length + flip] = 1 - (bits[flip] ?? 0) + 128;

        expect(sharedWords(viewOf(one), 0, bits.length, bits.length)).toBe(
          Math.min(flip, bits.length),
        );
      }),
      { numRuns: runs },
    );
  });
});
