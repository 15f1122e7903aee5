// What `viewmill try` prints: for people a table, the reduced values, what was logged and what failed, with the author's own lines; or JSON
// lines.

import { printTable } from "./table.js";
import type { Reduced, TriedViews } from "./try-engine.js";
import type { Remark } from "./try-remarks.js";
import { objectWriter } from "./try-ndjson.js";
import { codeFrame, type Place, type SourceOrigins } from "./try-origins.js";
import type { CompileFault } from "./try-worker.js";
import type { Row } from "../query/index.js";
import { treeLabel, type DesignDocument } from "../views/design-document.js";

/** What was asked to be shown. */
export interface ReportOptions {
  readonly views: readonly string[];
  /** Show reduces by group: of exact keys, or of the first elements; undefined for only the total. */
  readonly group: "exact" | number | undefined;
  readonly json: boolean;
}

export type LocatedFault = CompileFault & { readonly view: string; readonly source: string };

type Print = (line: string) => void;

function cell(value: unknown): string {
  return JSON.stringify(value ?? null);
}

/** A place in a function that stands in no file, or none that is known. */
function placeOf(
  origins: SourceOrigins,
  source: string,
  label: string,
  line: number,
  column: number,
): Place {
  return (
    origins.locate(source, line, column) ?? {
      file: label,
      line,
      column,
      text: source.split(/\r\n|[\n\r\u2028\u2029]/)[line - 1],
    }
  );
}

interface ShownError {
  readonly view: string | undefined;
  readonly error: string;
  readonly reason: string;
  /** `name (file:line:column)`, innermost first. */
  readonly stack: readonly string[];
  readonly at: Place | undefined;
}

/** What does not compile, as people read it. */
export function compileErrors(
  faults: readonly LocatedFault[],
  origins: SourceOrigins,
): ShownError[] {
  return faults.map(({ kind, view, source, error }) => ({
    view,
    error: "compilation_error",
    reason: error.message,
    stack: [],
    at:
      error.line === undefined
        ? undefined
        : placeOf(origins, source, `views.${view}.${kind}`, error.line, error.column ?? 1),
  }));
}

/** An error of a map or reduce function, with its stack in the author's files. */
export function runtimeError(
  remark: Remark,
  design: DesignDocument,
  origins: SourceOrigins,
): ShownError {
  const view = remark.tree === undefined ? remark.view : labelOf(design, remark.tree);
  const places = remark.stack.map((frame) => ({
    name: frame.name,
    place: placeOf(
      origins,
      remark.source,
      `views.${view ?? ""}.${remark.id === undefined ? "reduce" : "map"}`,
      frame.line,
      frame.column,
    ),
  }));
  return {
    view,
    error: remark.text,
    reason: remark.reason,
    stack: places.map(({ name, place }) => `${name} (${place.file}:${place.line}:${place.column})`),
    at: places[0]?.place,
  };
}

/** An error as lines for people. */
export function errorLines(shown: ShownError, who: string): string[] {
  const { error, reason, stack, at } = shown;
  const lines = [`${who}: ${error}${reason === "" ? "" : `: ${reason}`}`];
  for (const frame of stack) lines.push(`    at ${frame}`);
  if (at && stack.length === 0) lines.push(`    at ${at.file}:${at.line}:${at.column}`);
  if (at) lines.push(...codeFrame(at).map((line) => `  ${line}`));
  return lines;
}

/** Prints what the views made of the samples. Returns the number of errors. */
export async function reportViews(
  tried: TriedViews,
  design: DesignDocument,
  origins: SourceOrigins,
  options: ReportOptions,
): Promise<number> {
  const results: ViewResult[] = [];
  for (const view of options.views) {
    const grouped =
      options.group === undefined
        ? []
        : await tried.grouped(view, options.group === "exact" ? undefined : options.group);
    results.push({
      view,
      rows: await tried.rows(view),
      reduced: await tried.reduced(view),
      grouped,
    });
  }
  const shownTrees = new Set(options.views.map((view) => design.views.get(view)?.tree));
  const remarks = distinct(tried.remarks).filter(
    ({ id, tree, view }) =>
      (tree === undefined || shownTrees.has(tree)) &&
      // A document that fails as a whole is missing in each view, whichever is to blame.
      (id !== undefined || view === undefined || options.views.includes(view)),
  );
  if (options.json) await printJson(results, remarks, design, origins);
  else
    await printText(results, remarks, design, origins, (line) => process.stdout.write(`${line}\n`));
  return remarks.filter(({ kind }) => kind === "error").length;
}

/** A reduce is called again for each query over the same rows, and says the same again. */
function distinct(remarks: readonly Remark[]): Remark[] {
  const known = new Set<string>();
  return remarks.filter((remark) => {
    if (remark.id !== undefined) return true;
    const text = JSON.stringify(remark);
    return !known.has(text) && known.add(text);
  });
}

interface ViewResult {
  readonly view: string;
  readonly rows: readonly Row[];
  readonly reduced: Reduced | undefined;
  readonly grouped: readonly Reduced[];
}

async function printText(
  results: readonly ViewResult[],
  remarks: readonly Remark[],
  design: DesignDocument,
  origins: SourceOrigins,
  print: Print,
): Promise<void> {
  const name = design.id.replace("_design/", "");
  for (const { view, rows, reduced, grouped } of results) {
    print(`${name}/${view}  ${rows.length} row${rows.length === 1 ? "" : "s"}`);
    if (rows.length > 0)
      await printTable(
        ["key", "id", "value"],
        rows.map(({ key, id, value }) => [cell(key), id ?? "", cell(value)]),
        print,
      );
    if (reduced) print(`reduced  ${reduced.error ?? cell(reduced.value)}`);
    if (grouped.length > 0) {
      print("");
      await printTable(
        ["group", "value"],
        grouped.map(({ key, value, error }) => [cell(key), error ?? cell(value)]),
        print,
      );
    }
    print("");
  }
  for (const remark of remarks.filter(({ kind }) => kind === "log"))
    print(`log  ${whoOf(remark, design)}: ${remark.text}`);
  for (const remark of remarks.filter(({ kind }) => kind === "error"))
    for (const line of errorLines(
      runtimeError(remark, design, origins),
      `error  ${whoOf(remark, design)}`,
    ))
      print(line);
}

function labelOf(design: DesignDocument, tree: number): string | undefined {
  const spec = design.group.trees[tree];
  return spec && treeLabel(spec);
}

function whoOf({ id, tree, view }: Remark, design: DesignDocument): string {
  const label = tree === undefined ? view : labelOf(design, tree);
  const where = label === undefined ? "" : `, view ${label}`;
  return id === undefined ? `reduce${where}` : `document ${JSON.stringify(id)}${where}`;
}

async function printJson(
  results: readonly ViewResult[],
  remarks: readonly Remark[],
  design: DesignDocument,
  origins: SourceOrigins,
): Promise<void> {
  const out = objectWriter(process.stdout);
  for (const { view, rows, reduced, grouped } of results) {
    for (const row of rows) out.write({ kind: "row", view, ...row });
    for (const { key, value, error } of grouped)
      out.write({ kind: "group", view, key, value, error });
    if (reduced) out.write({ kind: "reduced", view, value: reduced.value, error: reduced.error });
  }
  for (const remark of remarks) {
    const { kind, id, tree, text } = remark;
    const view = tree === undefined ? remark.view : labelOf(design, tree);
    if (kind === "log") out.write({ kind, id, view, text });
    else out.write({ kind, id, ...runtimeError(remark, design, origins) });
  }
  await out.end();
}

/** Prints errors that keep the views from running at all. */
export async function reportCompileErrors(
  errors: readonly ShownError[],
  json: boolean,
): Promise<void> {
  if (json) {
    const out = objectWriter(process.stdout);
    for (const error of errors) out.write({ kind: "error", ...error });
    await out.end();
    return;
  }
  for (const error of errors)
    process.stderr.write(
      `${errorLines(error, error.view === undefined ? "error" : `error  view ${error.view}`).join("\n")}\n`,
    );
}
