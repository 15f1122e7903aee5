// A view's own examples: documents in, rows and reduced values out. `viewmill try --test FILE` runs them and shows what differs.

import { createReadStream, existsSync, readFileSync } from "node:fs";
import { extname, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";

import { importFile } from "./design-files.js";
import { UsageError } from "./exit.js";
import type { TryEngine } from "./try-engine.js";
import { readObjects } from "./try-ndjson.js";
import type { SourceOrigins } from "./try-origins.js";
import { errorLines, runtimeError } from "./try-report.js";
import { samplesOf } from "./try-samples.js";

/** One example, as it is written in a file. At least one expectation must be there. */
export interface Example {
  readonly name?: string;
  /** May be left out where there is one view, or one was named on the command line. */
  readonly view?: string;
  /** Documents; one without `_id` is numbered from 1. */
  readonly docs: readonly Record<string, unknown>[];
  /** The rows in index order; a row without `id` may come from any document. */
  readonly rows?: readonly {
    readonly id?: string;
    readonly key: unknown;
    readonly value?: unknown;
  }[];
  /** The reduced value of all rows. */
  readonly reduced?: unknown;
  /** The reduced value of each key. */
  readonly groups?: readonly { readonly key: unknown; readonly value: unknown }[];
  /** Ids of the documents that must fail to map. */
  readonly fails?: readonly string[];
}

/** How an example went. */
export interface ExampleResult {
  readonly name: string;
  readonly view: string;
  readonly ok: boolean;
  /** Lines for people: `-` was expected, `+` came instead. */
  readonly differences: readonly string[];
}

const EXPECTATIONS = ["rows", "reduced", "groups", "fails"] as const;
const MEMBERS = new Set<string>(["name", "view", "docs", ...EXPECTATIONS]);

/**
 * Examples of a file: JSON (an array, or an object with `examples`), JSON lines (.ndjson, .jsonl), or a module whose default export is one
 * of these.
 *
 * @throws UsageError when the file or an example is not what it must be.
 */
export async function loadExamples(path: string, origins: SourceOrigins): Promise<Example[]> {
  const full = resolve(path);
  if (!existsSync(full)) throw new UsageError(`--test ${path}: there is no such file`);
  origins.files.add(full);
  const loaded = await load(full, path, origins);
  const inside = (loaded as { examples?: unknown } | null)?.examples;
  const list: unknown = Array.isArray(loaded) ? loaded : Array.isArray(inside) ? inside : [loaded];
  return (list as unknown[]).map((example, i) =>
    checked(example, `--test ${path}: example ${i + 1}`),
  );
}

async function load(full: string, path: string, origins: SourceOrigins): Promise<unknown> {
  const end = extname(full);
  if (end === ".ndjson" || end === ".jsonl") return readObjects(createReadStream(full), path);
  if (end === ".json") {
    try {
      return JSON.parse(readFileSync(full, "utf8"));
    } catch (error) {
      throw new UsageError(`--test ${path}: not JSON (${(error as Error).message})`);
    }
  }
  return importFile(full, origins);
}

function checked(example: unknown, where: string): Example {
  if (typeof example !== "object" || example === null)
    throw new UsageError(`${where}: expected an object with docs and rows`);
  const unknown = Object.keys(example).find((name) => !MEMBERS.has(name));
  if (unknown !== undefined)
    throw new UsageError(
      `${where}: there is no member ${unknown}; expected ${[...MEMBERS].join(", ")}`,
    );
  const { docs, rows, groups, fails } = example as Partial<Example>;
  const isObject = (value: unknown): boolean =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  if (!Array.isArray(docs) || !docs.every(isObject))
    throw new UsageError(`${where}: docs must be an array of documents`);
  for (const [name, list] of Object.entries({ rows, groups }))
    if (
      list !== undefined &&
      !(Array.isArray(list) && list.every((row) => isObject(row) && "key" in row))
    )
      throw new UsageError(`${where}: ${name} must be an array of objects with key and value`);
  if (fails !== undefined && !(Array.isArray(fails) && fails.every((id) => typeof id === "string")))
    throw new UsageError(`${where}: fails must be an array of document ids`);
  if (!EXPECTATIONS.some((name) => name in example))
    throw new UsageError(`${where} expects nothing: give rows, reduced, groups or fails`);
  return example as Example;
}

/**
 * @param view - for examples that name none.
 * @throws UsageError for a view that does not exist.
 */
export async function runExample(
  example: Example,
  number: number,
  engine: TryEngine,
  view: string | undefined,
  origins: SourceOrigins,
): Promise<ExampleResult> {
  const name = example.name ?? `example ${number}`;
  const chosen = example.view ?? view ?? onlyView(engine, name);
  if (!engine.design.views.has(chosen))
    throw new UsageError(
      `${name}: there is no view ${chosen}; there are ${[...engine.design.views.keys()].join(", ")}`,
    );
  const tree = engine.design.views.get(chosen)?.tree;
  const tried = await engine.map(samplesOf(example.docs));
  const differences: string[] = [];
  if (example.rows)
    differences.push(
      ...listDifferences("rows", example.rows.map(asRow), (await tried.rows(chosen)).map(asRow)),
    );
  if ("reduced" in example) {
    const reduced = await tried.reduced(chosen);
    if (!reduced)
      differences.push(
        tried.hasReduce(chosen)
          ? "reduced: there are no rows"
          : `reduced: view ${chosen} has no reduce`,
      );
    else if (reduced.error !== undefined) differences.push(`reduced: ${reduced.error}`);
    else
      differences.push(
        ...listDifferences("reduced", [{ value: example.reduced }], [{ value: reduced.value }]),
      );
  }
  if (example.groups) {
    const groups = (await tried.grouped(chosen, undefined)).map(({ key, value, error }) => ({
      key,
      value: error ?? value,
    }));
    differences.push(
      ...listDifferences(
        "groups",
        example.groups.map(({ key, value }) => ({ key, value })),
        groups,
      ),
    );
  }
  const fails = new Set(example.fails ?? []);
  const failed = new Set<string>();
  for (const remark of tried.remarks) {
    if (remark.kind !== "error" || (remark.tree !== undefined && remark.tree !== tree)) continue;
    if (remark.id !== undefined) failed.add(remark.id);
    if (remark.id !== undefined && fails.has(remark.id)) continue;
    const who = remark.id === undefined ? "reduce" : `document ${JSON.stringify(remark.id)}`;
    differences.push(...errorLines(runtimeError(remark, engine.design, origins), who));
  }
  for (const id of fails)
    if (!failed.has(id)) differences.push(`document ${JSON.stringify(id)} did not fail`);
  return { name, view: chosen, ok: differences.length === 0, differences };
}

function onlyView(engine: TryEngine, name: string): string {
  const views = [...engine.design.views.keys()];
  const [only] = views;
  if (only === undefined || views.length > 1)
    throw new UsageError(
      `${name} names no view, and there are several (${views.join(", ")}): add "view", or name one with --view`,
    );
  return only;
}

/** Members in one order; no value is null, as emitted. */
function asRow(row: {
  readonly id?: string | undefined;
  readonly key: unknown;
  readonly value?: unknown;
}): object {
  return row.id === undefined
    ? { key: row.key, value: row.value ?? null }
    : { id: row.id, key: row.key, value: row.value ?? null };
}

/** The longest common subsequence stays, `-` and `+` lines tell the rest. Nothing when the lists are equal. */
export function listDifferences(
  what: string,
  expected: readonly unknown[],
  got: readonly unknown[],
): string[] {
  const equal = (i: number, j: number): boolean => sameValue(expected[i], got[j]);
  const lengths = Array.from(
    { length: expected.length + 1 },
    () => new Uint32Array(got.length + 1),
  );
  const at = (i: number, j: number): number => lengths[i]?.[j] ?? 0;
  for (let i = expected.length - 1; i >= 0; i--)
    for (let j = got.length - 1; j >= 0; j--)
      (lengths[i] as Uint32Array)[j] = equal(i, j)
        ? at(i + 1, j + 1) + 1
        : Math.max(at(i + 1, j), at(i, j + 1));
  if (at(0, 0) === expected.length && at(0, 0) === got.length) return [];
  const lines = [`${what}: - expected, + got`];
  let i = 0;
  let j = 0;
  while (i < expected.length || j < got.length) {
    if (i < expected.length && j < got.length && equal(i, j)) {
      lines.push(`    ${JSON.stringify(got[j])}`);
      i++;
      j++;
    } else if (i < expected.length && (j >= got.length || at(i + 1, j) >= at(i, j + 1)))
      lines.push(`  - ${JSON.stringify(expected[i++])}`);
    else lines.push(`  + ${JSON.stringify(got[j++])}`);
  }
  return lines;
}

/** An expected row without an id is met by one with any. */
function sameValue(expected: unknown, got: unknown): boolean {
  if (isDeepStrictEqual(expected, got)) return true;
  if (typeof expected !== "object" || expected === null || "id" in expected) return false;
  if (typeof got !== "object" || got === null || !("id" in got)) return false;
  const { key, value } = got as Record<string, unknown>;
  return isDeepStrictEqual(expected, { key, value });
}
