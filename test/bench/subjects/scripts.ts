// Subjects that are programs of their own and print a JSON line for each result: run here, their lines made into a table.

import { fileURLToPath } from "node:url";

import { short, type Table } from "../numbers.js";
import { runMeasured } from "../process-tree.js";
import type { Report, Settings, Subject } from "../subject.js";

export type Line = Readonly<Record<string, unknown>>;

interface Run {
  readonly title?: string;
  /** Program, from this folder's parent or the rivals' folder, and its arguments. */
  readonly args: (settings: Settings) => readonly (string | number)[];
}

function programOf(name: string): string {
  const at = name.endsWith(".mjs") ? `../../../../test/bench/rivals/${name}` : `../${name}`;
  return fileURLToPath(new URL(at, import.meta.url));
}

/** What a program prints. */
export async function linesOf(args: readonly (string | number)[]): Promise<Line[]> {
  const [name = "", ...more] = args.map(String);
  const { stdout } = await runMeasured(process.execPath, ["--expose-gc", programOf(name), ...more]);
  return stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
}

/** Objects within a line become columns of their own. */
function flat(line: Line, prefix = ""): Record<string, string> {
  const cells: Record<string, string> = {};
  for (const [name, value] of Object.entries(line)) {
    if (typeof value === "object" && value !== null)
      Object.assign(cells, flat(value as Line, `${prefix}${name} `));
    else if (typeof value === "number") cells[prefix + name] = short(value, 4);
    else cells[prefix + name] = String(value);
  }
  return cells;
}

export function tableOf(title: string | undefined, lines: readonly Line[]): Table {
  const rows = lines.map((line) => flat(line));
  const head = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return {
    ...(title === undefined ? {} : { title }),
    head,
    rows: rows.map((row) => head.map((name) => row[name] ?? "–")),
  };
}

function scripted(
  title: string,
  about: string,
  runs: readonly Run[],
  notes: readonly string[] = [],
): Subject {
  return {
    title,
    async run(settings): Promise<Report> {
      const tables: Table[] = [];
      const data: Record<string, unknown> = {};
      // Runs of one title make up one table.
      const lines = new Map<string | undefined, Line[]>();
      for (const { title, args } of runs) {
        const printed = await linesOf(args(settings));
        lines.set(title, [...(lines.get(title) ?? []), ...printed]);
      }
      for (const [heading, all] of lines) {
        tables.push(tableOf(heading, all));
        data[heading ?? title] = all;
      }
      return { about, tables, notes, data };
    },
  };
}

export const batches = scripted(
  "Experiment: minimum-size batches",
  "The same 100 000 random changes (keys changed) of an index of 200 000 documents: in updates of 100, 1000 and 10 000 changes, each synced; and in one update with a growing minimum for what is applied at once. Rows and groups equal a naive computation at the end of each.",
  [
    {
      args: ({ docs }) => ["batch-sizes.js", Math.min(docs, 200_000), Math.min(docs / 2, 100_000)],
    },
  ],
);

export const nodeCache = scripted(
  "Experiment: node cache",
  "Random leaves of a tree of 1 M rows, in microseconds: found in the node cache; read, verified and decoded with the system's page cache warm; with it dropped.",
  [{ args: ({ docs }) => ["node-cache.js", Math.min(docs, 1_000_000)] }],
);

export const documentCache = scripted(
  "Experiment: document cache",
  "Documents by id through the index, in microseconds a document: found in the document cache, alone and as queries with `include_docs` ask for them, 100 at a time (their percentiles are of batches); read from the file with the page cache warm; with it dropped.",
  [1200, 100_000].map((bytes) => ({
    args: ({ docs }: Settings) => [
      "document-cache.js",
      bytes,
      Math.min(docs, bytes > 10_000 ? 2000 : 20_000),
    ],
  })),
);

export const readersWriters = scripted(
  "Experiment: readers beside a writer",
  "Key lookups and ranges of 100 rows (latency: the mean of one of each) while updates of 10 000 changes run one after the other, and both alone.",
  [{ args: ({ docs }) => ["readers-writers.js", Math.min(docs, 200_000), docs < 100_000 ? 1 : 5] }],
);

export const syncPolicy = scripted(
  "Experiment: sync policy",
  "The same rows applied in batches of 10 000, in random order, synced at the end, once a second, with every batch.",
  [{ args: ({ docs }) => ["sync-policy.js", docs] }],
);

export const writeBuffer = scripted(
  "Experiment: write buffer",
  "Inserts of random keys of 16 bytes, each followed by a read of one of the newest (read your last writes); a full buffer (a tenth of the keys) is drained in key order. Latency of an insert in microseconds, the clock's own 0.1 included; bytes held are heap and buffers of a full buffer after a collection. A run is ended after 30 s, `inserts` says how far it came.",
  ["hash-and-list", "sorted-map", "skip-list", "sorted-array"].map((variant) => ({
    args: ({ docs }: Settings) => ["write-buffer.js", variant, docs],
  })),
);

export const bulkLoad = scripted(
  "Bulk load by external sort",
  "Unsorted rows (keys of users, ids of 32 digits) to a synced file on one thread: chunks of 65 536 sorted and spilled, one merge pass, each node written once. Read back in order and counted.",
  [1, 10].map((factor) => ({ args: ({ docs }: Settings) => ["bulk-load.js", docs * factor] })),
);

export const engine = scripted(
  "Storage engine alone",
  "Bulk build, lookups, scans, groups and batches of the tree without views, and its compaction.",
  [{ title: "tree", args: ({ docs }) => ["btree.js", Math.max(docs, 250_000)] }],
);
