// A damaged run file never yields a wrong entry: each byte flipped, each length cut, blocks and segments exchanged.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "@jest/globals";
import type { BtreeError } from "../../btree/errors.js";
import { damagedSegments, type SegmentRef, splitters } from "../../btree/index.js";
import {
  merged,
  type ModelEntry,
  modelMerge,
  type Outcome,
  writeSegments,
} from "../helpers/run-model.js";

const folder = mkdtempSync(join(tmpdir(), "viewmill-runs-"));
const path = join(folder, "test.run");
const damagedPath = join(folder, "damaged.run");

afterAll(() => {
  rmSync(folder, { recursive: true });
});

const feeds: ModelEntry[][] = [0, 1].map((run) =>
  Array.from({ length: 20 }, (_, i) => ({
    key: Buffer.from(`key-${(i * 3 + run) % 25}`),
    value: Buffer.from(`value ${run}.${i}`),
    ordinal: run * 300 + i,
    cancels: i % 7 === 0,
  })),
);
const refs = writeSegments(path, feeds, { blockBytes: 100 }).map((ref) => ({
  ...ref,
  path: damagedPath,
}));
const whole = readFileSync(path);
const expected = modelMerge(feeds);

/** What the merge of a file of these bytes says: its outcome, or the error's code. */
function outcomeOf(bytes: Uint8Array, of: readonly SegmentRef[] = refs): Outcome | string {
  writeFileSync(damagedPath, bytes);
  try {
    return merged(of);
  } catch (error) {
    const { code, file, offset, message } = error as BtreeError;
    expect(file).toBe(damagedPath);
    expect(message).toContain("build again");
    if (code === "BTREE_CORRUPT") expect(offset).toBeGreaterThanOrEqual(0);
    return code;
  }
}

describe("a damaged run file", () => {
  test("is merged as before when nothing is wrong", () => {
    expect(outcomeOf(whole)).toEqual(expected);
  });

  test("is found out whichever byte is flipped", () => {
    for (let at = 0; at < whole.length; at++) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] as number) ^ (1 << (at % 8));
      expect([at, outcomeOf(bytes)]).toEqual([at, "BTREE_CORRUPT"]);
    }
  });

  test("is found out wherever it is cut off", () => {
    for (let length = 0; length < whole.length; length++) {
      expect([length, outcomeOf(whole.subarray(0, length))]).toEqual([length, "BTREE_CORRUPT"]);
    }
  });

  test("is found out when a stretch of it was never written", () => {
    for (let at = 0; at < whole.length; at += 64) {
      const bytes = Buffer.from(whole).fill(0, at, Math.min(at + 64, whole.length));
      expect([at, outcomeOf(bytes)]).toEqual([at, "BTREE_CORRUPT"]);
    }
  });

  test("is found out when two equally long blocks changed places", () => {
    const alike = ["aaaa", "bbbb", "cccc"].map((key, ordinal) => ({
      key: Buffer.from(key),
      value: Buffer.from("v"),
      ordinal,
      cancels: false,
    }));
    const blocks = writeSegments(path, [alike], { blockBytes: 1 });
    const bytes = readFileSync(path);
    const size = bytes.indexOf("bbbb") - bytes.indexOf("aaaa");
    const exchanged = Buffer.concat([
      bytes.subarray(size, 2 * size),
      bytes.subarray(0, size),
      bytes.subarray(2 * size),
    ]);

    const moved = blocks.map((ref) => ({ ...ref, path: damagedPath }));
    expect(outcomeOf(bytes, moved)).toEqual(modelMerge([alike]));
    expect(outcomeOf(exchanged, moved)).toBe("BTREE_CORRUPT");
  });

  test("is found out by damagedSegments, whatever is wrong with it", () => {
    writeFileSync(damagedPath, whole);
    const [first, second] = refs as [SegmentRef, SegmentRef];
    const missing = { ...first, path: join(folder, "missing.run") };
    const beyond = { ...first, offset: whole.length };

    expect(damagedSegments(refs)).toEqual([]);
    expect(damagedSegments([first, missing, second, beyond])).toEqual([
      {
        ref: missing,
        error: expect.objectContaining({ code: "BTREE_CORRUPT", file: missing.path }) as unknown,
      },
      {
        ref: beyond,
        error: expect.objectContaining({ code: "BTREE_CORRUPT", file: damagedPath }) as unknown,
      },
    ]);
    for (let at = 0; at < whole.length; at++) {
      const bytes = Buffer.from(whole);
      bytes[at] = (bytes[at] as number) ^ 0x20;
      writeFileSync(damagedPath, bytes);
      expect(damagedSegments(refs).map(({ ref }) => ref)).toEqual([
        at < first.length ? first : second,
      ]);
    }
  });

  test("is found out by splitters when its index is hit", () => {
    const bytes = Buffer.from(whole);
    bytes[bytes.length - 60] = (bytes[bytes.length - 60] as number) ^ 4;
    writeFileSync(damagedPath, bytes);

    expect(() => splitters(refs, 2)).toThrow(
      expect.objectContaining({ code: "BTREE_CORRUPT", file: damagedPath }),
    );
  });
});
