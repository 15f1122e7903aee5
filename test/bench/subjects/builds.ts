// First builds against the floor: one view, three views, processes, a reduce in JavaScript, larger documents.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import {
  cliContender,
  floorContender,
  libraryContender,
  ratios,
  takeTurns,
  usageTable,
  type Contender,
  type Measured,
} from "../compare.js";
import { dataFile } from "../data.js";
import { median, megabytes, short } from "../numbers.js";
import { check, type Report, type Settings, type Subject } from "../subject.js";
import { verifyIndex } from "../verify-index.js";
import { expectedOf, type Expected, type Kind } from "../views.js";

const METHOD =
  "Each program is started anew for each run, `viewmill build` being the whole command from start to exit, its supervising process included; the floor likewise with the start of Node. After its first run every row and group of the index is compared with a naive computation, after the others the programs' exit.";

/** Bytes of the index files in a directory. */
export function indexBytes(dir: string): number {
  return readdirSync(dir)
    .filter((name) => name.endsWith(".vmx"))
    .reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
}

interface Plan {
  readonly kind: Kind;
  readonly docBytes?: number;
  readonly documents: number;
  readonly cli: readonly (readonly [threads: number, mapIn: "threads" | "processes"])[];
  readonly library?: boolean;
  /** More kinds, built by `viewmill build` with two threads. */
  readonly beside?: readonly Kind[];
}

interface Outcome {
  readonly measured: readonly Measured[];
  readonly sizes: readonly {
    readonly name: string;
    readonly bytes: number;
    readonly dataBytes: number;
  }[];
}

async function compare(settings: Settings, plan: Plan): Promise<Outcome> {
  const { kind, docBytes = 250, documents } = plan;
  const { workDir } = settings;
  const file = await dataFile(settings.dataDir, documents, { seed: 1, docBytes });
  const expectations = new Map<Kind, Expected>();
  const sizes: Outcome["sizes"][number][] = [];
  const build = (
    make: typeof cliContender,
    what: Kind,
    threads: number,
    mapIn: "threads" | "processes",
  ): Contender => {
    const expected = expectations.get(what) ?? expectedOf(file, what);
    expectations.set(what, expected);
    const contender = make({ file, kind: what, workDir, threads, mapIn });
    return {
      ...contender,
      verify: async () => {
        sizes.push({
          name: contender.name,
          bytes: indexBytes(contender.dir),
          dataBytes: expected.dataBytes,
        });
        await verifyIndex(contender.dir, what, expected);
      },
    };
  };
  const floor: Contender = {
    ...floorContender(file, kind),
    verifyEach: ({ stdout }) => {
      const { rows } = JSON.parse(stdout) as { rows: number };
      const wanted = Object.values(expectations.get(kind)?.views ?? {}).reduce(
        (sum, view) => sum + view.rows,
        0,
      );
      check(rows === wanted, `the floor counted ${rows} rows, not ${wanted}`);
    },
  };
  const contenders = [
    floor,
    ...plan.cli.map(([threads, mapIn]) => build(cliContender, kind, threads, mapIn)),
    ...(plan.library ? [build(libraryContender, kind, 2, "threads")] : []),
    ...(plan.beside ?? []).map((other) => build(cliContender, other, 2, "threads")),
  ];
  return { measured: await takeTurns(contenders, settings.rounds), sizes };
}

function sizeLines(sizes: Outcome["sizes"]): string[] {
  return sizes.map(
    ({ name, bytes, dataBytes }) =>
      `File of ${name}: ${megabytes(bytes)} MB = ${short(bytes / dataBytes)} × D (D = ${megabytes(dataBytes)} MB: key, id and value JSON of every row, id and keys JSON of every document with rows).`,
  );
}

function runs(measured: readonly Measured[]): Record<string, unknown> {
  return Object.fromEntries(
    measured.map(({ name, runs }) => [name, runs.map(({ stdout: _, ...usage }) => usage)]),
  );
}

function subject(title: string, what: string, planOf: (docs: number) => Plan): Subject {
  return {
    title,
    async run(settings): Promise<Report> {
      const plan = planOf(settings.docs);
      const { measured, sizes } = await compare(settings, plan);
      const heading = `${plan.documents.toLocaleString("en-US")} documents of ${plan.docBytes ?? 250} B`;
      const notes = sizeLines(sizes);
      const [sum, js] = ["sum", "js"].map((kind) =>
        measured.find(({ name }) => name.includes(`, ${kind},`)),
      );
      if (sum && js) {
        const wall = median(ratios(js, sum, ({ wallMs }) => wallMs));
        const cpu = median(ratios(js, sum, ({ cpuMs }) => cpuMs));
        notes.push(
          `The reduce in JavaScript against \`_sum\`, round by round: ${short(wall)} × wall, ${short(cpu)} × CPU.`,
        );
      }
      return {
        about: `${what} ${METHOD}`,
        tables: [usageTable(heading, measured, plan.documents)],
        notes,
        data: {
          documents: plan.documents,
          docBytes: plan.docBytes ?? 250,
          runs: runs(measured),
          sizes,
        },
      };
    },
  };
}

export const buildOne = subject(
  "First build, one view",
  "`emit(doc.user, 1)` with `_count`.",
  (documents) => ({
    kind: "one",
    documents,
    cli: [
      [2, "threads"],
      [1, "threads"],
    ],
    library: true,
  }),
);

export const buildThree = subject(
  "First build, three views",
  "`emit(doc.user, doc.amount)` with `_sum`, `emit(doc.ts, null)` with `_count`, a row a tag with `_stats`: four rows a document. The floor runs the same three maps.",
  (documents) => ({ kind: "three", documents, cli: [[2, "threads"]] }),
);

export const buildProcesses = subject(
  "First build, child processes",
  "The same through view servers in child processes, over pipes, by the standard protocol.",
  (documents) => ({
    kind: "one",
    documents,
    cli: [
      [2, "processes"],
      [1, "processes"],
    ],
  }),
);

export const buildReduce = subject(
  "First build, a reduce in JavaScript",
  "`emit(doc.user, 1)` with `function (keys, values, rereduce) { return sum(values) }` beside the same view with `_sum`.",
  (documents) => ({ kind: "sum", documents, cli: [[2, "threads"]], beside: ["js"] }),
);

export const buildMedium = subject(
  "First build, documents of 1.2 KB",
  "`emit(doc.user, 1)` with `_count`.",
  (documents) => ({
    kind: "one",
    docBytes: 1200,
    documents: Math.ceil(documents / 4),
    cli: [
      [2, "threads"],
      [2, "processes"],
    ],
  }),
);

export const buildLarge = subject(
  "First build, documents of 100 KB",
  "`emit(doc.user, 1)` with `_count`.",
  (documents) => ({
    kind: "one",
    docBytes: 100_000,
    documents: Math.ceil(documents / 200),
    cli: [
      [2, "threads"],
      [2, "processes"],
    ],
  }),
);
