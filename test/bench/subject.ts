// What a subject of the bench is: a module under subjects/ that measures, checks the answers, and reports tables.

import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { Table } from "./numbers.js";

/** What the runner hands to a subject. */
export interface Settings {
  /** Documents (or rows) of the main size. */
  readonly docs: number;
  /** Rounds; a subject whose single run is short may take more. */
  readonly rounds: number;
  /** Generated files are kept here from run to run. */
  readonly dataDir: string;
  /** Empty; removed afterwards. */
  readonly workDir: string;
  /** Contenders to run, by name; of the others the subject shows what was measured before. Empty runs all. */
  readonly only: readonly string[];
  /** `data` of the subject's last result. */
  readonly before: Readonly<Record<string, unknown>> | undefined;
}

/** What a subject found out. */
export interface Report {
  /** One paragraph: what was run, how it was checked. */
  readonly about: string;
  readonly tables: readonly Table[];
  /** What is to be said about the numbers. */
  readonly notes: readonly string[];
  /** Every figure as measured, for those who want to reckon themselves. */
  readonly data?: Readonly<Record<string, unknown>>;
}

export interface Subject {
  readonly title: string;
  run(settings: Settings): Promise<Report>;
  /** Contenders that can be run one by one (`--only`), for subjects that take long. */
  readonly contenders?: readonly string[];
}

/** Thrown when a measured program gave a wrong answer: the whole bench fails. */
export class WrongAnswer extends Error {}

/** @throws WrongAnswer unless `right`. */
export function check(right: boolean, what: string): asserts right {
  if (!right) throw new WrongAnswer(what);
}

/** Where generated documents are kept: `VIEWMILL_BENCH_DATA`, or a folder of the system's temporary directory. */
export function dataDirectory(): string {
  const dir = process.env["VIEWMILL_BENCH_DATA"] ?? join(tmpdir(), "viewmill-bench-data");
  mkdirSync(dir, { recursive: true });
  return dir;
}

/** Progress goes to stderr; tables to stdout. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}
