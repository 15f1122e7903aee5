// Segments and their merge against a model that sorts everything in memory: any feed with repeats and cancels, any run sizes,
// any partition, any fan-in.

import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  encodeSegment,
  Merger,
  mergeSegments,
  RunFile,
  type SegmentRef,
  splitters,
} from "../../btree/index.js";
import {
  batchOf,
  entryText,
  merged,
  type ModelEntry,
  modelMerge,
  seededRandom,
  writeSegments,
} from "../helpers/run-model.js";

const runs = Number(process.env["TEST_RUNS"] ?? 150);
const folder = mkdtempSync(join(tmpdir(), "viewmill-runs-"));
const path = join(folder, "test.run");

afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** Few distinct keys, some longer than an index key may be. */
const keyArbitrary = fc
  .tuple(
    fc.constantFrom("", "a", "z".repeat(252), "aaaaaaaaaaaaaaaaa"),
    fc.array(fc.constantFrom(0, 97, 255), { maxLength: 5 }),
  )
  .map(([head, tail]) => Buffer.concat([Buffer.from(head), Buffer.from(tail)]));

const entryArbitrary = fc.record({
  key: keyArbitrary,
  value: fc.uint8Array({ maxLength: 90 }).map((bytes) => Buffer.from(bytes)),
  ordinal: fc.oneof(fc.integer({ min: 0, max: 6 }), fc.integer({ min: 0, max: 100_000 })),
  cancels: fc.boolean(),
});

const feedsArbitrary = fc.array(fc.array(entryArbitrary, { minLength: 1, maxLength: 50 }), {
  maxLength: 9,
});

/** Distinct ordinals in order of the feed, cut into runs: what a first build makes of a feed with repeats and deletions. */
const buildArbitrary = fc
  .tuple(fc.array(entryArbitrary, { maxLength: 200 }), fc.integer({ min: 1, max: 50 }))
  .map(([entries, runLength]) => {
    const feed = entries.map((entry, ordinal) => ({ ...entry, ordinal }));
    const feeds: ModelEntry[][] = [];
    for (let i = 0; i < feed.length; i += runLength) feeds.push(feed.slice(i, i + runLength));
    return feeds;
  });

describe("mergeSegments", () => {
  test("equals the model for any feeds, block sizes and fan-in", () => {
    fc.assert(
      fc.property(
        fc.oneof(feedsArbitrary, buildArbitrary),
        fc.constantFrom(1, 64, 300, 32_768),
        fc.integer({ min: 2, max: 12 }),
        (feeds, blockBytes, fanInMax) => {
          const refs = writeSegments(path, feeds, { blockBytes });

          expect(merged(refs, { fanInMax })).toEqual(modelMerge(feeds));
        },
      ),
      { numRuns: runs },
    );
    expect(readdirSync(folder)).toEqual(["test.run"]);
  });

  test("parts cut at any keys are together the whole", () => {
    fc.assert(
      fc.property(
        feedsArbitrary,
        fc.array(keyArbitrary, { maxLength: 5 }),
        fc.constantFrom(1, 300),
        fc.integer({ min: 2, max: 12 }),
        (feeds, cuts, blockBytes, fanInMax) => {
          const refs = writeSegments(path, feeds, { blockBytes });
          const bounds = [undefined, ...cuts.sort((a, b) => Buffer.compare(a, b)), undefined];
          const kept: string[] = [];
          const superseded: string[] = [];
          for (let i = 1; i < bounds.length; i++) {
            const range = { gte: bounds[i - 1], lt: bounds[i] };
            const part = merged(refs, { ...range, fanInMax });
            expect(part).toEqual(modelMerge(feeds, range));
            kept.push(...part.kept);
            superseded.push(...part.superseded);
          }
          expect({ kept, superseded: superseded.sort() }).toEqual(modelMerge(feeds));
        },
      ),
      { numRuns: runs },
    );
  });

  test("finds the start of a range among keys that are longer than the index tells", () => {
    const feed = Array.from({ length: 12 }, (_, i) => ({
      key: Buffer.from("z".repeat(250 + (i % 4) * 4) + String(i)),
      value: Buffer.alloc(1, i),
      ordinal: i,
      cancels: false,
    }));
    const refs = writeSegments(path, [feed, []], { blockBytes: 1 });

    for (const { key } of feed) {
      expect(merged(refs, { gte: key })).toEqual(modelMerge([feed], { gte: key }));
      expect(merged(refs, { lt: key })).toEqual(modelMerge([feed], { lt: key }));
    }
  });

  test("of equal keys the highest ordinal survives, and a cancel kills what is not above it", () => {
    const entry = (key: string, value: string, ordinal: number, cancels = false): ModelEntry => ({
      key: Buffer.from(key),
      value: Buffer.from(value),
      ordinal,
      cancels,
    });
    const refs = writeSegments(path, [
      [entry("a", "old", 1), entry("b", "gone", 2), entry("c", "kept", 9)],
      [entry("a", "new", 5), entry("b", "", 2, true), entry("c", "", 8, true)],
      [entry("d", "", 4, true)],
    ]);

    expect(merged(refs)).toEqual({
      kept: [
        entryText(Buffer.from("a"), Buffer.from("new"), 5),
        entryText(Buffer.from("c"), Buffer.from("kept"), 9),
      ],
      superseded: [
        entryText(Buffer.from("a"), Buffer.from("old"), 1),
        entryText(Buffer.from("b"), Buffer.from("gone"), 2),
      ],
    });
  });

  test("merges nothing into nothing", () => {
    expect(merged([])).toEqual({ kept: [], superseded: [] });
    expect(merged(writeSegments(path, [[], []]))).toEqual({ kept: [], superseded: [] });
  });

  test("keeps values of megabytes and keys beyond what a code can tell", () => {
    const big = Buffer.alloc(3_000_000, "v");
    const prefix = Buffer.alloc((1 << 22) + 5, "k");
    const key = (text: string): Buffer => Buffer.concat([prefix, Buffer.from(text)]);
    const entry = (k: Buffer, value: Buffer, ordinal: number): ModelEntry => ({
      key: k,
      value,
      ordinal,
      cancels: false,
    });
    const small = Buffer.from("s");
    const feeds = [
      [entry(key("b"), big, 1), entry(key(""), small, 2), entry(prefix.subarray(1), small, 3)],
      [entry(key("a"), small, 4), entry(key("b"), small, 5)],
      [entry(key("c"), big, 6), entry(Buffer.from("zz"), small, 7)],
    ];
    const refs = writeSegments(path, feeds);
    const model = modelMerge(feeds);

    // Compared as a flag: a difference of such texts would take jest minutes to print.
    expect(JSON.stringify(merged(refs)) === JSON.stringify(model)).toBe(true);
    expect(JSON.stringify(merged(refs, { fanInMax: 2 })) === JSON.stringify(model)).toBe(true);
  });

  test("merges 2500 segments, more than are read at once, and leaves no file behind", () => {
    const random = seededRandom(3);
    const feeds = Array.from({ length: 2500 }, (_, run) =>
      Array.from({ length: 10 }, (_, i) => ({
        key: Buffer.from(String(random() % 9000)),
        value: Buffer.from(`${run}/${i}`),
        ordinal: run * 10 + i,
        cancels: random() % 8 === 0,
      })),
    );
    const refs = writeSegments(path, feeds);

    expect(merged(refs)).toEqual(modelMerge(feeds));
    expect(readdirSync(folder)).toEqual(["test.run"]);
  });

  test("reads more files than it holds open", () => {
    const feeds = Array.from({ length: 250 }, (_, run) =>
      Array.from({ length: 3 }, (_, i) => ({
        key: Buffer.from(String((run * 17 + i * 31) % 400)),
        value: Buffer.alloc(20_000, run),
        ordinal: run * 3 + i,
        cancels: false,
      })),
    );
    const refs = feeds.flatMap((feed, i) => writeSegments(join(folder, `many-${i}.run`), [feed]));
    const openFiles = (): number =>
      existsSync("/proc/self/fd") ? readdirSync("/proc/self/fd").length : 0;
    const before = openFiles();
    let most = 0;
    mergeSegments(refs, { bufferBytes: 1 }, () => {
      most = Math.max(most, openFiles());
    });

    expect(JSON.stringify(merged(refs)) === JSON.stringify(modelMerge(feeds))).toBe(true);
    expect(most - before).toBeLessThanOrEqual(100);
    expect(openFiles()).toBe(before);
    for (const { path: used } of refs) rmSync(used);
  });

  test("reads segments larger than its buffers", () => {
    const random = seededRandom(5);
    const feeds = Array.from({ length: 4 }, (_, run) =>
      Array.from({ length: 6000 }, (_, i) => ({
        key: Buffer.from(`${random() % 20_000}:${"p".repeat(random() % 30)}`),
        value: Buffer.alloc(random() % 40, "v"),
        ordinal: run * 6000 + i,
        cancels: false,
      })),
    );
    const refs = writeSegments(path, feeds);

    expect(merged(refs, { bufferBytes: 1 })).toEqual(modelMerge(feeds));
  });

  test("holds buffers of the size that was asked for, not the runs", () => {
    const feed = Array.from({ length: 20_000 }, (_, i) => ({
      key: Buffer.from(String(i).padStart(10, "0")),
      value: Buffer.alloc(100, i),
      ordinal: i,
      cancels: false,
    }));
    const [ref] = writeSegments(path, [feed]);
    const refs = Array.from({ length: 20 }, () => ref as SegmentRef);
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    let seen = 0;

    mergeSegments(refs, { bufferBytes: 1024 * 1024 }, () => {
      if (seen++ % 1000 === 0) most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    });

    expect(seen).toBe(20_000);
    expect(refs.reduce((sum, { length }) => sum + length, 0)).toBeGreaterThan(40_000_000);
    expect(most).toBeLessThan(5_000_000);
  });
});

describe("Merger", () => {
  const feeds = [0, 1, 2].map((run) =>
    Array.from({ length: 50 }, (_, i) => ({
      key: Buffer.from(String((i * 7 + run) % 40)),
      value: Buffer.from(`${run}.${i}`),
      ordinal: run * 50 + i,
      cancels: false,
    })),
  );

  test("goes on where a step ended", () => {
    const refs = writeSegments(path, feeds);
    const kept: string[] = [];
    const merger = new Merger(refs, {}, (kb, ks, ke, vb, vs, ve, ordinal) => {
      kept.push(entryText(kb.subarray(ks, ke), vb.subarray(vs, ve), ordinal));
    });

    let steps = 1;
    while (merger.step(7)) steps++;

    expect(kept).toEqual(modelMerge(feeds).kept);
    expect(steps).toBe(Math.floor(150 / 7) + 1);
    expect(merger.entriesRead).toBe(150);
    expect(merger.entriesKept).toBe(kept.length);
    expect(merger.step(7)).toBe(false);
  });

  test("passes on what the sink throws, and is over then", () => {
    const refs = writeSegments(path, feeds);
    const merger = new Merger(refs, {}, () => {
      throw new RangeError("sink is full");
    });

    expect(() => merger.step(10)).toThrow("sink is full");
    expect(merger.step(10)).toBe(false);
  });

  test("says which file is missing", () => {
    const missing = join(folder, "missing.run");
    const merger = new Merger([{ path: missing, offset: 0, length: 99, entries: 1 }], {}, () => 0);

    expect(() => merger.step(1)).toThrow(
      expect.objectContaining({ code: "BTREE_CORRUPT", file: missing }),
    );
  });
});

describe("encodeSegment", () => {
  test("hands entries of equal key and ordinal to combine, in order of insertion, and no others", () => {
    const entry = (key: string, value: string, ordinal: number, cancels = false): ModelEntry => ({
      key: Buffer.from(key),
      value: Buffer.from(value),
      ordinal,
      cancels,
    });
    const feed = [
      entry("k", "z", 3),
      entry("k", "a", 3),
      entry("j", "lone", 3),
      entry("k", "other", 4),
      entry("k", "", 3, true),
      entry("k", "m", 3),
    ];
    const calls: string[] = [];
    const [ref] = writeSegments(path, [feed], {
      combine: (batch, first, last) => {
        const values: string[] = [];
        for (let i = first; i <= last; i++) {
          values.push(
            Buffer.from(batch.bytes.subarray(batch.valueStart(i), batch.valueEnd(i))).toString(),
          );
        }
        calls.push(values.join("+"));
        const bytes = Buffer.from(`-${values.join("+")}-`);
        return { bytes, start: 1, end: bytes.length - 1 };
      },
    });

    expect(calls).toEqual(["z+a+m"]);
    expect(ref?.entries).toBe(4);
    expect(merged(ref ? [ref] : [])).toEqual({
      kept: [
        entryText(Buffer.from("j"), Buffer.from("lone"), 3),
        entryText(Buffer.from("k"), Buffer.from("other"), 4),
      ],
      superseded: [entryText(Buffer.from("k"), Buffer.from("z+a+m"), 3)],
    });
  });

  test("takes no more than 1.1 times the bytes it is given", () => {
    const random = seededRandom(11);
    const hex = (length: number): string =>
      Array.from({ length }, () => (random() % 16).toString(16)).join("");
    const feed = Array.from({ length: 10_000 }, (_, i) => ({
      key: Buffer.from(String(random() % 1e9).padStart(12, "0") + hex(32)),
      value: Buffer.from("12"),
      ordinal: i,
      cancels: false,
    }));
    const batch = batchOf(feed);
    batch.sort();

    expect(encodeSegment(batch).length).toBeLessThan(1.1 * batch.used);
  });
});

describe("splitters", () => {
  test("cut into parts of about equal size, at ascending keys", () => {
    const random = seededRandom(2);
    const feeds = Array.from({ length: 5 }, (_, run) =>
      Array.from({ length: 4000 }, (_, i) => ({
        key: Buffer.from(String(random() % 1_000_000).padStart(7, "0")),
        value: Buffer.alloc(40),
        ordinal: run * 4000 + i,
        cancels: false,
      })),
    );
    const refs = writeSegments(path, feeds);

    const cuts = splitters(refs, 3);

    const bounds = [undefined, ...cuts, undefined];
    const sizes = bounds.slice(1).map((lt, i) => merged(refs, { gte: bounds[i], lt }).kept.length);
    expect(cuts).toHaveLength(2);
    for (const size of sizes) expect(size).toBeGreaterThan(5000);
  });

  test("are none for one part, nothing, or a single key", () => {
    const feed = Array.from({ length: 3000 }, (_, i) => ({
      key: Buffer.from("same"),
      value: Buffer.alloc(100),
      ordinal: i,
      cancels: false,
    }));
    const refs = writeSegments(path, [feed, feed]);

    expect(splitters(refs, 4).length).toBeLessThanOrEqual(1);
    expect(splitters(refs, 1)).toEqual([]);
    expect(splitters([], 4)).toEqual([]);
  });
});

describe("RunFile", () => {
  test("resumes after the length a checkpoint knows, and cuts off the rest", () => {
    const feeds = [1, 2, 3].map((n) => [
      { key: Buffer.from(`k${n}`), value: Buffer.from("v"), ordinal: n, cancels: false },
    ]);
    const refs = writeSegments(path, feeds.slice(0, 2));
    const first = refs[0] as SegmentRef;

    const file = RunFile.resume(path, first.length);
    const batch = batchOf(feeds[2] ?? []);
    const third = file.append(encodeSegment(batch));
    file.sync();
    file.close();
    file.close();

    expect(third.offset).toBe(first.length);
    expect(merged([first, third])).toEqual(modelMerge([feeds[0] ?? [], feeds[2] ?? []]));
  });

  test("refuses to resume a file that lost bytes its checkpoint knows of", () => {
    const [ref] = writeSegments(path, [[]]);

    expect(() => RunFile.resume(path, (ref as SegmentRef).length + 1)).toThrow(
      expect.objectContaining({ code: "BTREE_CORRUPT", file: path }),
    );
  });

  (existsSync("/dev/full") ? test : test.skip)(
    "says that the disk is full, and appends nothing",
    () => {
      const file = RunFile.create("/dev/full");
      const batch = batchOf([
        { key: Buffer.from("k"), value: Buffer.from("v"), ordinal: 1, cancels: false },
      ]);

      expect(() => file.append(encodeSegment(batch))).toThrow(
        expect.objectContaining({
          code: "BTREE_IO",
          file: "/dev/full",
          message: expect.stringContaining("see that the disk is well and has room") as unknown,
        }),
      );
      expect(file.length).toBe(0);
      file.close();
    },
  );

  test("names the file that cannot be made", () => {
    const impossible = join(folder, "no", "such", "folder.run");

    expect(() => RunFile.create(impossible)).toThrow(
      expect.objectContaining({ code: "BTREE_IO", file: impossible }),
    );
  });
});
