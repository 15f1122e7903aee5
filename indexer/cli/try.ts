// `viewmill try`: runs a design document's views over a few documents and shows what comes out, or runs the views' own examples.

import { dirname, resolve } from "node:path";

import { loadDesignFile } from "./design-files.js";
import { EXIT, UsageError } from "./exit.js";
import { TryEngine } from "./try-engine.js";
import { loadExamples, runExample } from "./try-examples.js";
import { objectWriter } from "./try-ndjson.js";
import { shown, SourceOrigins } from "./try-origins.js";
import { compileErrors, reportCompileErrors, reportViews } from "./try-report.js";
import { readSamples } from "./try-samples.js";
import { tellFiles, watchRuns } from "./try-watch.js";
import type { IndexerError } from "../errors.js";
import { parseDesignDocument, type DesignDocument } from "../views/design-document.js";

export interface TryFlags {
  readonly ddoc: string;
  readonly source?: string;
  readonly view?: readonly string[];
  readonly limit: number;
  readonly id?: readonly string[];
  readonly idField?: string;
  /** `true`: of exact keys. */
  readonly group?: true | number;
  readonly test?: string;
  readonly watch?: boolean;
  readonly timeout: number;
  readonly heap: number;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** Exit 1 when a function does not compile or an example is not met; documents that fail to map are part of the answer. */
export async function tryViews(argv: readonly string[], flags: TryFlags): Promise<number> {
  if (flags.watch) {
    if (flags.test === undefined && (flags.source === undefined || flags.source === "-"))
      throw new UsageError(
        "--watch reads its documents again and again: name a source with --source, or examples with --test",
      );
    const local = [
      flags.ddoc,
      flags.test,
      /^(https?|pouchdb):/.test(flags.source ?? "")
        ? undefined
        : flags.source?.replace(/^changes:/, ""),
    ];
    await watchRuns(
      argv.filter((arg) => arg !== "--watch"),
      local.filter((path) => path !== undefined).map((path) => resolve(path)),
      flags.quiet ?? false,
    );
    return EXIT.done;
  }
  const origins = new SourceOrigins();
  origins.files.add(resolve(flags.ddoc));
  try {
    return await run(flags, origins);
  } finally {
    tellFiles(origins);
  }
}

async function run(flags: TryFlags, origins: SourceOrigins): Promise<number> {
  const json = flags.json ?? false;
  const design = await loadDesign(flags.ddoc, origins, json);
  if (!design) return EXIT.failed;
  const views = viewsOf(design, flags.view ?? []);
  const engine = new TryEngine(design, { timeoutMs: flags.timeout, heapMb: flags.heap });
  try {
    const faults = (await engine.compile()).filter(
      (fault) => views.includes(fault.view) || flags.view === undefined,
    );
    if (faults.length > 0) {
      await reportCompileErrors(compileErrors(faults, origins), json);
      return EXIT.failed;
    }
    if (flags.test !== undefined) return await runTests(flags.test, engine, flags, origins);
    const samples = await readSamples({
      source: flags.source,
      limit: flags.limit,
      ids: flags.id ?? [],
      idField: flags.idField,
    });
    const tried = await engine.map(samples);
    const errors = await reportViews(tried, design, origins, {
      views,
      group: flags.group === true ? "exact" : flags.group,
      json,
    });
    if (!flags.quiet && !json)
      process.stderr.write(
        `tried ${views.length} view${views.length === 1 ? "" : "s"} on ${samples.length} document${samples.length === 1 ? "" : "s"}${errors > 0 ? `: ${errors} error${errors === 1 ? "" : "s"}` : ""}\n`,
      );
    return EXIT.done;
  } finally {
    engine.close();
  }
}

/** Undefined, after saying why, when the author's code cannot be bundled. */
async function loadDesign(
  path: string,
  origins: SourceOrigins,
  json: boolean,
): Promise<DesignDocument | undefined> {
  let document: object;
  try {
    document = await loadDesignFile(path, origins);
  } catch (error) {
    const errors = bundleErrors(error);
    for (const { file } of errors) origins.files.add(file);
    if (errors.length === 0) throw error;
    await reportCompileErrors(
      errors.map(({ text, ...at }) => ({
        view: undefined,
        error: "compilation_error",
        reason: text,
        stack: [],
        at: { file: shown(at.file), line: at.line, column: at.column, text: at.lineText },
      })),
      json,
    );
    return undefined;
  }
  const design = parseDesignDocument(document, { partitioned: undefined });
  const { language } = design.group;
  if (language !== "javascript")
    throw new UsageError(`${design.id} is in ${language}: only JavaScript can be tried`);
  return design;
}

interface BundleError {
  readonly text: string;
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly lineText: string;
}

/** What esbuild says of the author's files. */
function bundleErrors(error: unknown): BundleError[] {
  const errors = causesOf(error).flatMap((cause) =>
    Array.isArray(cause["errors"]) ? (cause["errors"] as unknown[]) : [],
  );
  const entry = (error as Partial<IndexerError>).details?.file ?? "";
  return errors.flatMap((told) => {
    const { text, location } = told as { text: string; location: Omit<BundleError, "text"> | null };
    // esbuild counts columns from 0, in bytes of the line.
    if (!location) return [];
    const column =
      Buffer.from(location.lineText).subarray(0, location.column).toString("utf8").length + 1;
    return [
      {
        text,
        file: resolve(dirname(entry), location.file),
        line: location.line,
        column,
        lineText: location.lineText,
      },
    ];
  });
}

function causesOf(error: unknown): Record<string, unknown>[] {
  const causes: Record<string, unknown>[] = [];
  for (
    let cause = error;
    typeof cause === "object" && cause !== null;
    cause = (cause as { cause?: unknown }).cause
  )
    causes.push(cause as Record<string, unknown>);
  return causes;
}

function viewsOf(design: DesignDocument, chosen: readonly string[]): string[] {
  const all = [...design.views.keys()];
  if (all.length === 0) throw new UsageError(`${design.id} has no views`);
  for (const view of chosen)
    if (!all.includes(view))
      throw new UsageError(`there is no view ${view}; there are ${all.join(", ")}`);
  return chosen.length > 0 ? [...chosen] : all;
}

async function runTests(
  path: string,
  engine: TryEngine,
  flags: TryFlags,
  origins: SourceOrigins,
): Promise<number> {
  const examples = await loadExamples(path, origins);
  const out = flags.json ? objectWriter(process.stdout) : undefined;
  let failed = 0;
  for (const [i, example] of examples.entries()) {
    const result = await runExample(example, i + 1, engine, flags.view?.[0], origins);
    if (!result.ok) failed++;
    if (out) out.write({ kind: "example", ...result });
    else {
      process.stdout.write(`${result.ok ? "✓" : "✗"} ${result.view}: ${result.name}\n`);
      for (const line of result.differences) process.stdout.write(`    ${line}\n`);
    }
  }
  await out?.end();
  if (!flags.quiet && !flags.json)
    process.stderr.write(`${examples.length - failed} of ${examples.length} examples hold\n`);
  return failed === 0 ? EXIT.done : EXIT.failed;
}
