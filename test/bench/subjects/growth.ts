// How first builds grow, from 10 k documents on: time, file and memory, a straight line through them, and a plot.

import { mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { cliContender, floorContender, takeTurns } from "../compare.js";
import { dataFile } from "../data.js";
import { linearFit, median, megabytes, short, type Table } from "../numbers.js";
import { plotSvg } from "../plot.js";
import { check, type Report, type Settings, type Subject } from "../subject.js";
import { verifyIndex } from "../verify-index.js";
import { expectedOf } from "../views.js";
import { indexBytes } from "./builds.js";

const LEAST = 10_000;
/** Beyond this every row is compared no more: the naive computation would take longer than all builds. */
const VERIFIED_MAX = 1_000_000;

interface Point {
  readonly documents: number;
  readonly wallS: number;
  readonly cpuS: number;
  readonly floorS: number;
  readonly floorCpuS: number;
  readonly fileBytes: number;
  readonly pssBytes: number;
}

async function measure(settings: Settings, documents: number): Promise<Point> {
  const file = await dataFile(settings.dataDir, documents, { seed: 1 });
  let fileBytes = 0;
  const build = cliContender({
    file,
    kind: "one",
    workDir: settings.workDir,
    threads: 2,
    mapIn: "threads",
  });
  const [floor, ours] = await takeTurns(
    [
      floorContender(file, "one"),
      {
        ...build,
        verifyEach: async () => {
          const first = fileBytes === 0;
          fileBytes = indexBytes(build.dir);
          if (first && documents <= VERIFIED_MAX)
            await verifyIndex(build.dir, "one", expectedOf(file, "one"));
        },
      },
    ],
    documents > VERIFIED_MAX ? 1 : settings.rounds,
  );
  check(floor !== undefined && ours !== undefined, "two programs ran");
  return {
    documents,
    wallS: median(ours.runs.map(({ wallMs }) => wallMs)) / 1000,
    cpuS: median(ours.runs.map(({ cpuMs }) => cpuMs)) / 1000,
    floorS: median(floor.runs.map(({ wallMs }) => wallMs)) / 1000,
    floorCpuS: median(floor.runs.map(({ cpuMs }) => cpuMs)) / 1000,
    fileBytes,
    pssBytes: Math.max(...ours.runs.map(({ peakPssBytes }) => peakPssBytes)),
  };
}

async function run(settings: Settings): Promise<Report> {
  const points: Point[] = [];
  for (let documents = LEAST; documents <= settings.docs * 10; documents *= 10)
    points.push(await measure(settings, documents));
  const folder = fileURLToPath(new URL("../../../../test/bench/plots/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    `${folder}growth.svg`,
    await plotSvg({
      title: "First build of one view, two threads",
      x: "documents",
      y: "seconds",
      series: points.flatMap(({ documents, wallS, cpuS, floorS }) => [
        { name: "build, wall", x: documents, y: wallS },
        { name: "build, CPU", x: documents, y: cpuS },
        { name: "floor, wall", x: documents, y: floorS },
      ]),
    }),
  );
  const fit = (of: (point: Point) => number): ReturnType<typeof linearFit> =>
    linearFit(points.map((point) => [point.documents, of(point)]));
  const cpu = fit(({ cpuS }) => cpuS);
  const size = fit(({ fileBytes }) => fileBytes);
  const last = points.at(-1);
  const before = points.at(-2);
  const table: Table = {
    head: [
      "documents",
      "wall s",
      "CPU s",
      "wall µs/doc",
      "CPU µs/doc",
      "floor s",
      "wall / floor",
      "CPU / floor CPU",
      "file MB",
      "bytes/doc",
      "peak PSS MB",
    ],
    rows: points.map(({ documents, wallS, cpuS, floorS, floorCpuS, fileBytes, pssBytes }) => [
      documents.toLocaleString("en-US"),
      short(wallS),
      short(cpuS),
      short((wallS * 1e6) / documents),
      short((cpuS * 1e6) / documents),
      short(floorS),
      short(wallS / floorS),
      short(cpuS / floorCpuS),
      megabytes(fileBytes),
      short(fileBytes / documents),
      megabytes(pssBytes),
    ]),
  };
  const notes = [
    `CPU: ${short(cpu.start)} s + ${short(cpu.slope * 1e6)} µs × documents (least squares, R² ${short(cpu.r2, 5)}).`,
    `File: ${short(size.slope)} bytes × documents + ${megabytes(size.start)} MB (R² ${short(size.r2, 5)}).`,
    "Plot: [plots/growth.svg](plots/growth.svg), both axes logarithmic.",
  ];
  if (last && before) {
    const each = (of: (point: Point) => number): string =>
      short(of(last) / last.documents / (of(before) / before.documents));
    notes.unshift(
      `From ${before.documents.toLocaleString("en-US")} to ${last.documents.toLocaleString("en-US")} documents the time per document grows by × ${each(({ wallS }) => wallS)} (wall), × ${each(({ cpuS }) => cpuS)} (CPU); the floor's by × ${each(({ floorS }) => floorS)}.`,
    );
  }
  return {
    about: `\`viewmill build\` of one view with two threads, powers of ten documents of 250 B, beside the floor; beyond ${VERIFIED_MAX.toLocaleString("en-US")} documents one run each, and no comparison of every row.`,
    tables: [table],
    notes,
    data: { points },
  };
}

export const growth: Subject = { title: "Growth", run };
