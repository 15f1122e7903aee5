// Results as files: one JSON a subject under test/bench/results/, and RESULTS.md made from all of them.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import type { Machine } from "./machine.js";
import { markdown } from "./numbers.js";
import type { Report } from "./subject.js";

/** A subject's report, and the circumstances. */
export interface Result {
  readonly name: string;
  readonly title: string;
  readonly command: string;
  /** ISO 8601. */
  readonly at: string;
  readonly seconds: number;
  readonly loadBefore: string;
  readonly loadAfter: string;
  readonly machine: Machine;
  readonly report: Report;
}

const FOLDER = fileURLToPath(new URL("../../../test/bench/", import.meta.url));
const pathOf = (name: string): string => `${FOLDER}results/${name}.json`;

const HEAD = `# Results

Written by \`npm run bench\`; every figure here was measured by the command above its table, on the machine and beside the load that stand there. A table shows medians, and in brackets the least and the greatest of the rounds; ratios are taken round by round and then their median, because contenders take turns and a round's weather is the same for all of them. *CPU* is user and system time of the whole process tree. *Others' cores* says how many cores other processes kept busy meanwhile: on a machine of two cores anything above 0.1 makes wall times (not CPU times) of programs that use both cores too long. *Peak PSS* is the greatest sum of PSS (\`smaps_rollup\`) over the process tree, sampled five times a second. Wrong answers fail the bench, so they are in no table. Rivals are in [rivals/](rivals/); profiles in [PROFILES.md](PROFILES.md).
`;

export function saveResult(result: Result): void {
  mkdirSync(`${FOLDER}results`, { recursive: true });
  writeFileSync(pathOf(result.name), `${JSON.stringify(result, null, 1)}\n`);
}

/** The subject's last result. */
export function savedResult(name: string): Result | undefined {
  return existsSync(pathOf(name))
    ? (JSON.parse(readFileSync(pathOf(name), "utf8")) as Result)
    : undefined;
}

/** Writes RESULTS.md from the results of these subjects, as far as there are any. */
export function writeResults(names: readonly string[]): void {
  const sections = names
    .map(savedResult)
    .filter((result) => result !== undefined)
    .map(renderReport);
  writeFileSync(`${FOLDER}RESULTS.md`, [HEAD, ...sections].join("\n"));
}

export function renderReport({
  title,
  command,
  at,
  seconds,
  loadBefore,
  loadAfter,
  machine,
  report,
}: Result): string {
  const { cpu, cores, memoryGb, system, node, viewmill } = machine;
  const parts = [
    `## ${title}`,
    report.about,
    `\`${command}\` · ${at.slice(0, 16).replace("T", " ")} UTC, ${seconds} s · load average ${loadBefore} before, ${loadAfter} after · ${cores} cores (${cpu}), ${memoryGb} GiB · ${system} · Node ${node} · viewmill ${viewmill}`,
    ...report.tables.map(markdown),
    ...(report.notes.length > 0 ? [report.notes.map((note) => `- ${note}`).join("\n")] : []),
  ];
  return `${parts.join("\n\n")}\n`;
}
