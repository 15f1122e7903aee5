// A merge that fills leaves in WebAssembly writes, byte for byte, what the merge entry by entry writes.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  LeafMerger,
  type LeafSlice,
  MemoryStorage,
  mergeSegments,
  type Reducer,
  type SegmentRef,
  TreeBuilder,
} from "../../btree/index.js";
import { saltSeed } from "../../btree/checksum.js";
import { RecordLog } from "../../btree/record-log.js";
import { entryText, seededRandom, writeSegments, type ModelEntry } from "../helpers/run-model.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 200);
const folder = mkdtempSync(join(tmpdir(), "viewmill-leaves-"));
const path = join(folder, "test.run");
const format = { salt: new Uint8Array(16), leafBytes: 256, innerBytes: 256, valueBytesMax: 64 };

afterAll(() => {
  rmSync(folder, { recursive: true });
});

interface Choice {
  readonly gte: Uint8Array | undefined;
  readonly lt: Uint8Array | undefined;
  readonly drop: number;
  readonly reducer: Reducer;
}
const ALL: Choice = { gte: undefined, lt: undefined, drop: 0, reducer: { count: () => 1 } };

/** Rows by the value's first byte. */
const rows = (bytes: Uint8Array, start: number, end: number): number =>
  end > start && (bytes[start] as number) & 4 ? 3 + end - start : 1;
/** All keys and values of a leaf, as its reduction. */
const contents: Pick<Reducer, "reduce" | "rereduce"> = {
  reduce: (leaves: readonly LeafSlice[]) =>
    leaves.map((leaf) =>
      Buffer.concat(
        Array.from({ length: leaf.length }, (_, i) => [leaf.key(i), leaf.value(i)]).flat(),
      ).subarray(0, 20),
    ),
  rereduce: (groups) => groups.map((parts) => Buffer.concat(parts).subarray(0, 20)),
};

async function built(
  refs: readonly SegmentRef[],
  choice: Choice,
  how: "leaves" | "entries",
): Promise<unknown> {
  const storage = new MemoryStorage();
  const sink = new RecordLog(storage, new BigUint64Array(1), saltSeed(format.salt), {
    extentBytes: 0,
    bufferBytes: 4096,
  });
  const builder = new TreeBuilder(sink, format, choice.reducer);
  const superseded: string[] = [];
  const onSuperseded = (
    kb: Uint8Array,
    ks: number,
    ke: number,
    vb: Uint8Array,
    vs: number,
    ve: number,
    ordinal: number,
  ): void => {
    superseded.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
  };
  if (how === "leaves") {
    const merger = LeafMerger.open(refs, { ...choice, format, builder, onSuperseded });
    if (!merger) throw new Error("the kernel takes no such merge; is it built (npm run build)?");
    while (merger.step()) if (builder.needsDrain) await builder.drain();
    expect(merger.step()).toBe(false);
  } else {
    const { gte, lt } = choice;
    mergeSegments(refs, { gte, lt, onSuperseded }, (kb, ks, ke, vb, vs, ve) => {
      if (ve === vs || ((vb[vs] as number) & choice.drop) === 0)
        builder.add(kb, ks, ke, vb, vs, ve);
    });
  }
  const forest = await builder.finishPartition();
  sink.flush();
  const file = Buffer.from(storage.read(0, storage.size())).toString("hex");
  return { forest, file, superseded };
}

const keys = fc
  .tuple(
    fc.array(fc.constantFrom(0, 97, 98, 255), { maxLength: 6 }),
    fc.constantFrom(0, 0, 0, 5, 70, 300),
  )
  .map(([bytes, more]) => Buffer.concat([Buffer.from(bytes), Buffer.alloc(more, 99)]));
const entries = fc.record({
  key: keys,
  value: fc
    .tuple(fc.nat(7), fc.constantFrom(0, 1, 1, 2, 9, 60, 100, 600))
    .map(([byte, length]) => Buffer.alloc(length, byte)),
  ordinal: fc.oneof(fc.nat(5), fc.constantFrom(300, 70_000, 2 ** 45)),
  cancels: fc.constantFrom(false, false, false, true),
});
const choices = fc.record({
  gte: fc.option(keys, { nil: undefined }),
  lt: fc.option(keys, { nil: undefined }),
  drop: fc.constantFrom(0, 2),
  reducer: fc.constantFrom<Reducer[]>(
    { count: rows },
    { count: rows, oneUnless: 4 },
    { count: () => 1, oneUnless: 0 },
    { count: rows, oneUnless: 4, ...contents },
  ),
});

describe("a merge that fills leaves", () => {
  test("writes what a merge entry by entry writes, whatever the entries", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(entries, { maxLength: 60 }), { maxLength: 6 }),
        fc.constantFrom(40, 16 * 1024),
        choices,
        async (feeds: readonly (readonly ModelEntry[])[], blockBytes, choice) => {
          const refs = writeSegments(path, feeds, { blockBytes });

          expect(await built(refs, choice, "leaves")).toEqual(await built(refs, choice, "entries"));
        },
      ),
      { numRuns: RUNS },
    );
  });

  test("does so with a hundred segments of many blocks and keys that share much", async () => {
    const random = seededRandom(11);
    const feeds = Array.from({ length: 100 }, (_, feed) =>
      Array.from({ length: 400 }, (_unused, i) => ({
        key: Buffer.from(`${"key ".repeat(random() % 20)}${String(random() % 5000)}`),
        value: Buffer.from(`value ${feed} ${i}`),
        ordinal: feed * 1000 + i,
        cancels: random() % 20 === 0,
      })),
    );
    const refs = writeSegments(path, feeds, { blockBytes: 1000 });

    expect(await built(refs, ALL, "leaves")).toEqual(await built(refs, ALL, "entries"));
  });

  test("says which block is damaged", async () => {
    const feed = Array.from({ length: 300 }, (_, i) => ({
      key: Buffer.from(String(1000 + i)),
      value: Buffer.from("v"),
      ordinal: i,
      cancels: false,
    }));
    const refs = writeSegments(path, [feed], { blockBytes: 200 });
    const bytes = readFileSync(path);
    bytes[500] = (bytes[500] as number) ^ 1;
    writeFileSync(path, bytes);

    const damage = async (how: "leaves" | "entries"): Promise<unknown> =>
      built(refs, ALL, how).catch((error: unknown) => error);

    expect(await damage("leaves")).toEqual(await damage("entries"));
    expect(await damage("leaves")).toMatchObject({ code: "BTREE_CORRUPT" });
  });

  test.each([
    ["an entry larger than a block", 20_000, 1],
    ["more segments than it has room for", 10, 300],
  ])("leaves %s to the merge entry by entry", (_, length, segments) => {
    const feed = [
      { key: Buffer.alloc(length, 1), value: Buffer.from("v"), ordinal: 1, cancels: false },
    ];
    const refs = writeSegments(
      path,
      Array.from({ length: segments }, () => feed),
    );
    const sink = new RecordLog(new MemoryStorage(), new BigUint64Array(1), saltSeed(format.salt), {
      extentBytes: 0,
      bufferBytes: 4096,
    });
    const builder = new TreeBuilder(sink, format, ALL.reducer);

    expect(
      LeafMerger.open(refs, { ...ALL, format, builder, onSuperseded: undefined }),
    ).toBeUndefined();
  });
});
