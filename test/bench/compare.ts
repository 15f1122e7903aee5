// Contenders that take turns: A B C A B C …, each a program of its own, so that what else the machine does meets all of them alike.

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { megabytes, median, short, spread, type Table } from "./numbers.js";
import { runMeasured, type Usage } from "./process-tree.js";
import { say } from "./subject.js";
import { designDocument, type Kind } from "./views.js";

/** A program that is run once a round. */
export interface Contender {
  readonly name: string;
  readonly args: readonly string[];
  /** Removed before each run. */
  readonly dir?: string;
  /** Looks at what the program made: after the first run, or after each. Throws WrongAnswer. */
  readonly verify?: (usage: Usage) => void | Promise<void>;
  readonly verifyEach?: (usage: Usage) => void | Promise<void>;
}

/** All rounds of one contender. */
export interface Measured {
  readonly name: string;
  readonly runs: readonly Usage[];
}

/** Runs every contender once a round. */
export async function takeTurns(
  contenders: readonly Contender[],
  rounds: number,
): Promise<Measured[]> {
  const runs = contenders.map((): Usage[] => []);
  for (let round = 0; round < rounds; round++)
    for (const [i, { name, args, dir, verify, verifyEach }] of contenders.entries()) {
      if (dir !== undefined) rmSync(dir, { recursive: true, force: true });
      const usage = await runMeasured(process.execPath, args, { memory: true });
      if (round === 0) await verify?.(usage);
      await verifyEach?.(usage);
      if (dir !== undefined) rmSync(dir, { recursive: true, force: true });
      say(
        `  ${name}: ${short(usage.wallMs / 1000)} s wall, ${short(usage.cpuMs / 1000)} s cpu, ${megabytes(usage.peakPssBytes)} MB, others ${short(usage.othersCores, 2)} cores`,
      );
      runs[i]?.push(usage);
    }
  return contenders.map(({ name }, i) => ({ name, runs: runs[i] ?? [] }));
}

/** Ratios of one measure round by round, so that both have met the same weather. */
export function ratios(a: Measured, b: Measured, of: (usage: Usage) => number): number[] {
  return a.runs.map((run, round) => of(run) / of(b.runs[round] ?? run));
}

/** Wall, processor time and memory of contenders, and their ratios against the first. */
export function usageTable(title: string, measured: readonly Measured[], documents: number): Table {
  const [base] = measured;
  const rows = measured.map((one) => {
    const wall = one.runs.map(({ wallMs }) => wallMs / 1000);
    const cpu = one.runs.map(({ cpuMs }) => cpuMs / 1000);
    const against = base ?? one;
    return [
      one.name,
      spread(wall),
      one === against ? "1" : spread(ratios(one, against, ({ wallMs }) => wallMs)),
      spread(cpu),
      one === against ? "1" : spread(ratios(one, against, ({ cpuMs }) => cpuMs)),
      short((median(cpu) * 1e6) / documents),
      megabytes(Math.max(...one.runs.map(({ peakPssBytes }) => peakPssBytes))),
      spread(
        one.runs.map(({ othersCores }) => othersCores),
        2,
      ),
    ];
  });
  const first = base?.name ?? "";
  return {
    title,
    head: [
      "program",
      "wall s",
      `× ${first}`,
      "CPU s",
      "× CPU",
      "CPU µs/doc",
      "peak PSS MB",
      "others' cores",
    ],
    rows,
  };
}

const program = (name: string): string => fileURLToPath(new URL(name, import.meta.url));

export function floorContender(file: string, kind: Kind): Contender {
  return { name: "floor", args: [program("./floor.js"), file, kind] };
}

export interface BuildSettings {
  readonly file: string;
  readonly kind: Kind;
  readonly workDir: string;
  readonly threads: number;
  readonly mapIn: "threads" | "processes";
  readonly verify?: Contender["verify"];
}

/** `viewmill build`, as a person would run it. */
export function cliContender(o: BuildSettings): Contender & { readonly dir: string } {
  const ddoc = join(o.workDir, `${o.kind}.json`);
  writeFileSync(ddoc, JSON.stringify(designDocument(o.kind)));
  const dir = join(o.workDir, `cli-${o.kind}-${o.mapIn}-${o.threads}`);
  const args = [
    program("../../indexer/cli/main.js"),
    "build",
    dir,
    "--source",
    o.file,
    "--ddoc",
    ddoc,
  ];
  args.push("--threads", String(o.threads), "--map-in", o.mapIn, "--quiet");
  const unit = o.mapIn === "threads" ? "thread" : "process";
  const plural = o.threads === 1 ? "" : unit === "thread" ? "s" : "es";
  return {
    name: `viewmill build, ${o.kind}, ${o.threads} ${unit}${plural}`,
    args,
    dir,
    ...(o.verify ? { verify: o.verify } : {}),
  };
}

/** The library in a program of its own. */
export function libraryContender(o: BuildSettings): Contender & { readonly dir: string } {
  const dir = join(o.workDir, `here-${o.kind}-${o.mapIn}-${o.threads}`);
  return {
    name: `library, ${o.kind}, ${o.threads} ${o.mapIn}`,
    args: [program("./build-here.js"), dir, o.file, o.kind, String(o.threads), o.mapIn],
    dir,
    ...(o.verify ? { verify: o.verify } : {}),
  };
}
