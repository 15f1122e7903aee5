// The storage engine beside three others (rivals/batch.mjs). Engines can be measured one by one and at several sizes: the tables show the
// last run of each engine at each size.

import { fileURLToPath } from "node:url";

import { loadNow, machine } from "../machine.js";
import { short, type Table } from "../numbers.js";
import { runMeasured } from "../process-tree.js";
import { rivalVersion } from "../rivals.js";
import { say, type Report, type Settings, type Subject } from "../subject.js";

const ENGINES = ["viewmill", "sqlite", "lmdb", "level"] as const;

/** A line that batch.mjs prints. */
interface Line {
  readonly name: string;
  readonly microsecondsEach?: number;
  readonly mean?: number;
  readonly max?: number;
  readonly batches?: number;
  readonly bytes?: number;
}

/** One run of an engine. */
interface EngineRun {
  readonly engine: string;
  readonly rows: number;
  readonly at: string;
  readonly load: string;
  readonly othersCores: number;
  readonly viewmill: string;
  readonly lines: readonly Line[];
}

const PROGRAM = fileURLToPath(new URL("../../../../test/bench/rivals/batch.mjs", import.meta.url));

async function runEngine(engine: string, rows: number): Promise<EngineRun> {
  const at = new Date().toISOString();
  const load = loadNow();
  const { stdout, othersCores } = await runMeasured(process.execPath, [
    "--expose-gc",
    PROGRAM,
    String(rows),
    engine,
  ]);
  const lines = stdout
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Line);
  return { engine, rows, at, load, othersCores, viewmill: machine().viewmill, lines };
}

async function run({ docs, only, before }: Settings): Promise<Report> {
  const runs = [...((before?.["runs"] ?? []) as EngineRun[])];
  for (const engine of only.length === 0 ? ENGINES : only) {
    say(`  ${engine}`);
    const latest = await runEngine(engine, docs);
    const at = runs.findIndex((run) => run.engine === engine && run.rows === docs);
    runs.splice(at < 0 ? runs.length : at, at < 0 ? 0 : 1, latest);
  }
  const sizes = [...new Set(runs.map(({ rows }) => rows))].sort((a, b) => a - b);
  return {
    about:
      "Rows of 32-byte keys and 13-byte values: load in key order, synced batches of random new rows, point lookups, scans, all warm. Caches of 256 MiB. sqlite WITHOUT ROWID, WAL, synchronous=FULL; lmdb with a transaction a batch, flushed at its end; level with sync; viewmill with a log of at most 256 Ki operations and 32 MiB. Microseconds are for one row, or one call, medians. A batch's *mean* has in it what an engine puts off: viewmill's log applied to the tree, sqlite's checkpoints, level's compactions.",
    tables: sizes.map((rows) => tableOf(rows, runs)),
    notes: [
      `Versions: ${["better-sqlite3", "lmdb", "classic-level"].map(versionOf).join(", ")}.`,
      ...sizes.map((rows) => conditionsOf(rows, runs)),
    ],
    data: { runs },
  };
}

function tableOf(rows: number, all: readonly EngineRun[]): Table {
  const runs = ENGINES.map((name) => all.find((run) => run.rows === rows && run.engine === name));
  const names = [...new Set(runs.flatMap((run) => run?.lines.map(({ name }) => name) ?? []))];
  const table: string[][] = [];
  const put = (title: string, figures: readonly (number | undefined)[]): void => {
    const [ours = NaN, sqlite = NaN, , level = NaN] = figures;
    table.push([
      title,
      ...figures.map((figure) => (figure === undefined ? "–" : short(figure))),
      short(sqlite / ours),
      short(level / ours),
    ]);
  };
  for (const name of names) {
    const lines = runs.map((run) => run?.lines.find((line) => line.name === name));
    const figures = (of: (line: Line) => number | undefined): (number | undefined)[] =>
      lines.map((line) => line && of(line));
    if (lines.some((line) => line?.mean !== undefined)) {
      const runsOf = lines.find((line) => line)?.batches ?? 0;
      put(
        `${name}, median of ${runsOf}`,
        figures(({ microsecondsEach }) => microsecondsEach),
      );
      put(
        `${name}, mean`,
        figures(({ mean }) => mean),
      );
    } else
      put(
        name,
        figures((line) => line.bytes ?? line.microsecondsEach),
      );
  }
  return {
    title: `${rows.toLocaleString("en-US")} rows, µs`,
    head: ["work", ...ENGINES, "sqlite / viewmill", "level / viewmill"],
    rows: table,
  };
}

function conditionsOf(rows: number, all: readonly EngineRun[]): string {
  const runs = all.filter((run) => run.rows === rows);
  const conditions = runs.map(
    ({ engine, at, load, othersCores, viewmill }) =>
      `${engine} ${at.slice(0, 16).replace("T", " ")} UTC, load average ${load}, others' cores ${short(othersCores, 2)}${engine === "viewmill" ? ` (${viewmill})` : ""}`,
  );
  return `${rows.toLocaleString("en-US")} rows: ${conditions.join("; ")}.`;
}

function versionOf(name: string): string {
  try {
    return rivalVersion(name);
  } catch {
    return `${name} (not installed)`;
  }
}

export const storage: Subject = {
  title: "Storage engine against sqlite, lmdb and level",
  contenders: ENGINES,
  run,
};
