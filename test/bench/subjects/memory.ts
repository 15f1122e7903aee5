// How much memory first builds take, from a quarter of the documents to four times as many: it must not grow with them.

import { cliContender, takeTurns } from "../compare.js";
import { dataFile } from "../data.js";
import { median, megabytes, short, type Table } from "../numbers.js";
import { check, type Report, type Settings, type Subject } from "../subject.js";
import type { Kind } from "../views.js";

interface Point {
  readonly kind: Kind;
  readonly documents: number;
  readonly rssBytes: number;
  readonly pssBytes: number;
}

/** Three views take four times as long: they are built of fewer documents. */
const SIZES: readonly (readonly [Kind, readonly number[]])[] = [
  ["one", [0.25, 1, 4]],
  ["three", [0.25, 1]],
];

async function measure(settings: Settings, kind: Kind, documents: number): Promise<Point> {
  const file = await dataFile(settings.dataDir, documents, { seed: 1 });
  const { workDir } = settings;
  const build = cliContender({ file, kind, workDir, threads: 2, mapIn: "threads" });
  const [ours] = await takeTurns([build], settings.rounds);
  check(ours !== undefined, "the build ran");
  return {
    kind,
    documents,
    rssBytes: median(ours.runs.map(({ peakRssBytes }) => peakRssBytes)),
    pssBytes: median(ours.runs.map(({ peakPssBytes }) => peakPssBytes)),
  };
}

async function run(settings: Settings): Promise<Report> {
  const points: Point[] = [];
  for (const [kind, sizes] of SIZES)
    for (const size of sizes)
      points.push(await measure(settings, kind, Math.round(settings.docs * size)));
  const against = (point: Point): number => {
    const base = points.find(
      ({ kind, documents }) => kind === point.kind && documents === settings.docs,
    );
    return point.rssBytes / (base?.rssBytes ?? Number.NaN);
  };
  const table: Table = {
    head: [
      "views",
      "documents",
      "largest process MB",
      `against ${settings.docs.toLocaleString("en-US")}`,
      "peak PSS MB",
    ],
    rows: points.map((point) => [
      point.kind,
      point.documents.toLocaleString("en-US"),
      megabytes(point.rssBytes),
      short(against(point)),
      megabytes(point.pssBytes),
    ]),
  };
  return {
    about:
      "`viewmill build` with two threads, documents of 250 B, one view and three. The largest process is the indexer, by the most memory it ever had resident (`VmHWM`); peak PSS is that of the whole tree.",
    tables: [table],
    notes: [],
    data: { points },
  };
}

export const memory: Subject = { title: "Memory", run };
