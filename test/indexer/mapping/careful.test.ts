// A thread that dies takes the results of its documents along. None of them is run more than once again, and only the guilty have no rows.

import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterEach, describe, expect, test } from "@jest/globals";

import { deathFailure } from "../../../indexer/mapping/careful-mapping.js";
import { ThreadMapper } from "../../../indexer/mapping/thread-mapper.js";
import { ThreadPool } from "../../../indexer/mapping/thread-pool.js";
import type { GroupConfig, GroupSegments } from "../../../indexer/mapping/types.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const dir = tempDir();
const noted = join(dir, "mapped");
const program = pathToFileURL(join(dir, "program.mjs"));
const { href } = new URL("../../helpers/workers/counting.js", import.meta.url);
writeFileSync(
  program,
  `import work, { noteInto } from ${JSON.stringify(href)};\nnoteInto(${JSON.stringify(noted)});\nexport default work;\n`,
);

const COUNT = 300;
const LOOP = "while (doc.bomb === 'loop') ;";
const EAT = "if (doc.bomb === 'eat') for (var a = []; ; ) a.push(new Array(1e5).fill(a));";

function config(key: string, ...maps: string[]): GroupConfig {
  return {
    key,
    lib: undefined,
    maps: maps.map((body) => `function (doc) { ${body} emit(doc._id, 1); }`),
    collations: maps.map(() => "root" as const),
    collationVersion: 1,
    reduces: maps.map(() => []),
    labels: maps.map((_, i) => `v${i}`),
    includeDesign: false,
    partitioned: false,
    partitionedIds: false,
    limits: { reduceLimit: false, threshold: 5000, ratio: 2 },
    strict: false,
  };
}

let pool: ThreadPool | undefined;
afterEach(async () => {
  await pool?.close();
  rmSync(noted, { force: true });
});

interface Mapped {
  readonly groups: readonly (readonly GroupSegments[])[];
  /** How often each document's functions were called, by position. */
  readonly counts: readonly number[];
}

async function mapChunk(
  bombs: Readonly<Record<number, string>>,
  configs: readonly GroupConfig[],
): Promise<Mapped> {
  pool = new ThreadPool({ threads: 1, timeoutMs: 500, heapMb: 64, program });
  const lines = Array.from(
    { length: COUNT },
    (_, i) => `${JSON.stringify({ _id: `d${i}`, ...(bombs[i] ? { bomb: bombs[i] } : {}) })}\n`,
  );
  const { groups, documents } = await new ThreadMapper(pool).mapChunk({
    input: {
      format: "documents",
      data: Buffer.from(lines.join("")),
      label: "chunk",
      idField: "_id",
      localSeq: false,
      firstLine: 1,
      lineBytesMax: 1e6,
    },
    groups: configs.map((one) => ({ config: one, output: { kind: "memory" }, known: undefined })),
    ordinalBase: 0,
    signal: undefined,
  });
  expect(documents).toBe(COUNT);
  const counts = Array.from({ length: COUNT }, () => 0);
  for (const id of readFileSync(noted, "utf8").split("\n"))
    if (id !== "") counts[Number(id.slice(1))] = (counts[Number(id.slice(1))] ?? 0) + 1;
  return { groups, counts };
}

function ran(counts: readonly number[], bombs: Readonly<Record<number, string>>): Set<number> {
  return new Set(counts.filter((_, i) => bombs[i] === undefined));
}

describe("a chunk that its thread dies of", () => {
  test.each([
    ["first", { 0: "loop" }],
    ["last", { [COUNT - 1]: "eat" }],
    ["side by side", { 150: "loop", 151: "eat", 153: "loop" }],
  ] as readonly (readonly [string, Readonly<Record<number, string>>])[])(
    "has no innocent document run more than twice: bombs %s",
    async (_where, bombs) => {
      const { groups, counts } = await mapChunk(bombs, [config("g", LOOP + EAT)]);

      const guilty = Object.keys(bombs).length;
      expect(groups[0]).toMatchObject([{ mapped: COUNT, failed: guilty, rows: COUNT - guilty }]);
      expect(Math.max(...ran(counts, bombs))).toBeLessThanOrEqual(2);
      expect(Math.min(...ran(counts, bombs))).toBeGreaterThanOrEqual(1);
    },
  );

  test("has them run twice for each group at most, and the guilty one has its rows in the others", async () => {
    const bombs = { 100: "loop", 200: "eat" };
    const { groups, counts } = await mapChunk(bombs, [
      config("a", ""),
      config("b", LOOP),
      config("c", EAT),
    ]);

    expect(groups).toMatchObject([
      [{ mapped: COUNT, failed: 0, rows: COUNT }],
      [{ mapped: COUNT, failed: 1, rows: COUNT - 1 }],
      [{ mapped: COUNT, failed: 1, rows: COUNT - 1 }],
    ]);
    expect(Math.max(...ran(counts, bombs))).toBeLessThanOrEqual(6);
  });

  test("keeps what functions logged and threw before it died", async () => {
    const body = `${LOOP} if (doc._id === 'd3') log('three'); if (doc._id === 'd4') throw new Error('four');`;
    const { groups } = await mapChunk({ 250: "loop" }, [config("g", body)]);

    expect(groups[0]).toMatchObject([{ failed: 2, logs: [{ id: "d3", text: "three" }] }]);
  });
});

test("a death is a record with its kind", () => {
  expect(deathFailure(3, { reason: "memory", message: "exhausted the JavaScript heap" })).toEqual({
    index: 3,
    kind: "memory",
    error: "out_of_memory",
    reason: "The document exhausted the JavaScript heap",
  });
});
