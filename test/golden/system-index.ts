// The design document and the index that the system cases about crashes, compaction and disks share.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import type { ViewIndex, ViewIndexOptions } from "../../indexer/index.js";

/** How much longer than usual. */
export const RUNS = Number(process.env["TEST_RUNS"] ?? 1);

export const DESIGN = {
  _id: "_design/d",
  views: {
    v: { map: "function (doc) { emit(doc.k, 1); }", reduce: "_sum" },
    rows: { map: "function (doc) { emit(doc.k, doc.n); }" },
  },
};

/** Small windows: many commits. */
export const SMALL: Partial<ViewIndexOptions> = {
  mapIn: "threads",
  threads: 1,
  chunkBytes: 9000,
  minDocuments: 5,
  sync: { mode: "commit" },
};

interface Group {
  readonly key: unknown;
  readonly value: number;
}

export async function groupsOf(index: ViewIndex): Promise<Group[]> {
  return (await (await index.query("d", "v", { group: true })).object()).rows as Group[];
}

/** Deterministic numbers in [0, 1). */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function writeDesign(dir: string): string {
  const file = join(dir, "design.json");
  writeFileSync(file, JSON.stringify(DESIGN));
  return file;
}

/** The groups of documents whose `k` is their number modulo 50. */
export const FIFTY: readonly number[] = Array.from({ length: 50 }, (_, i) => i);
