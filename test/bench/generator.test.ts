// The generator decides what the benches measure: it must not drift.

import { statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import { temporaryFolder } from "../indexer/sources/collect.js";
import { generateFile, generateLines } from "./generator.js";

interface Doc {
  _id: string;
  _rev?: string;
  user: string;
  ts: number[];
  amount: number;
  tags: string[];
  title: string;
  place: { city: string };
}

describe("generated documents", () => {
  const lines = generateLines(4000, { seed: 1 });
  const docs = lines.map((line) => JSON.parse(line) as Doc);

  test("are what the benches say: sizes, ids, users, tags, foreign strings", () => {
    const sizes = lines.map((line) => Buffer.byteLength(line));
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(230);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(270);
    expect(new Set(docs.map((doc) => doc._id)).size).toBe(4000);
    expect(docs.every((doc) => /^[0-9a-f]{32}$/.test(doc._id))).toBe(true);
    expect(docs.every((doc) => doc.tags.length <= 4 && Array.isArray(doc.ts))).toBe(true);
    const foreign = lines.filter((line) => /[^ -~]/.test(line)).length;
    expect(foreign).toBeGreaterThan(15);
    expect(foreign).toBeLessThan(80);
    // Zipf: the first user has about 1 / H(50 000) = 8.8 % of all.
    const first = docs.filter((doc) => doc.user === "u0").length;
    expect(first).toBeGreaterThan(280);
    expect(first).toBeLessThan(430);
    expect(new Set(docs.map((doc) => doc.user)).size).toBeGreaterThan(1000);
  });

  test("are the same for the same seed, others for another", () => {
    expect(generateLines(50, { seed: 1 })).toEqual(lines.slice(0, 50));
    expect(generateLines(50, { seed: 2 })).not.toEqual(lines.slice(0, 50));
  });

  test("can be touched: exactly so many differ", () => {
    const touched = generateLines(1000, { seed: 1, touch: { count: 37, of: 1000 } });
    expect(touched.filter((line, i) => line !== lines[i])).toHaveLength(37);
    expect(touched.map((line) => (JSON.parse(line) as Doc)._id)).toEqual(
      docs.slice(0, 1000).map((doc) => doc._id),
    );
  });

  test.each([1200, 100_000])("can be %d bytes long", (docBytes) => {
    for (const line of generateLines(5, { seed: 3, docBytes })) {
      expect(Math.abs(Buffer.byteLength(line) - docBytes)).toBeLessThan(150);
      JSON.parse(line);
    }
  });

  test("can be rows of a feed, in a file", async () => {
    const row = JSON.parse(generateLines(1, { seed: 1, changes: true })[0] ?? "") as {
      seq: string;
      id: string;
      changes: { rev: string }[];
      doc: Doc;
    };
    expect(row.doc._id).toBe(row.id);
    expect(row.doc._rev).toBe(row.changes[0]?.rev);
    const path = join(temporaryFolder(), "out");
    const bytes = await generateFile(path, 100, { seed: 1 });
    expect(statSync(path).size).toBe(bytes);
  });
});
