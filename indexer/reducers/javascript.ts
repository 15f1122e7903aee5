// Custom reduces (VIEWS §15): the calls a function can see, and their results as parts. At index time one reduce per
// leaf and one rereduce per inner node; for a query one reduce over the rows of partly covered leaves against the
// direction of the scan, one rereduce with the stored results if there are any, and always one last rereduce.
//
// A stored part is  VALUE json | OVERFLOW message | FAILED json [error, reason].

import type { Bytes } from "../../btree/index.js";
import { readsKeys } from "../../viewserver/index.js";
import { decodeFailure, encodeFailure, reduceFailed } from "./failure.js";
import type { KeyLayout } from "./rows.js";
import { rowsText, valuesText } from "./rows-text.js";
import { textOf } from "./term.js";
import type {
  EvaluateOptions,
  JsReduceResult,
  JsReduceRunner,
  LeafRows,
  ReduceFailure,
  ReduceOutcome,
} from "./types.js";

const VALUE = 0;
const OVERFLOW = 1;
const FAILED = 2;

/** Where one part lies. */
export interface PartView {
  readonly blob: Bytes;
  readonly start: number;
  readonly end: number;
}

function encode(result: JsReduceResult): Uint8Array {
  const [tag, text] =
    typeof result === "string"
      ? [VALUE, result]
      : "overflow" in result
        ? [OVERFLOW, result.overflow]
        : [FAILED, encodeFailure(result)];
  const bytes = Buffer.allocUnsafe(1 + Buffer.byteLength(text));
  bytes[0] = tag;
  bytes.write(text, 1);
  return bytes;
}

function decode({ blob, start, end }: PartView): JsReduceResult {
  const text = textOf(blob, start + 1, end);
  if (blob[start] === VALUE) return text;
  return blob[start] === OVERFLOW ? { overflow: text } : decodeFailure(text);
}

/** The failure a part holds, if it is one. */
export function jsFailureOf(part: PartView): ReduceFailure | undefined {
  return part.blob[part.start] === FAILED
    ? decodeFailure(textOf(part.blob, part.start + 1, part.end))
    : undefined;
}

/** One part for each source, for each leaf. */
export async function reduceLeaves(
  runner: JsReduceRunner,
  layout: KeyLayout,
  sources: readonly string[],
  leaves: readonly LeafRows[],
): Promise<Uint8Array[][]> {
  const rows = leaves.map((leaf) => [leaf]);
  const results = await reduceAll(runner, layout, sources, rows, false);
  return results.map((perSource) => perSource.map(encode));
}

/** One part for each group of parts. */
export async function rereduceGroups(
  runner: JsReduceRunner,
  source: string,
  groups: readonly (readonly PartView[])[],
): Promise<Uint8Array[]> {
  const results = groups.map((parts) => parts.map(decode));
  return (await rereduceAll(runner, source, results)).map(encode);
}

/** What a range or group is made of. */
export interface JsParts {
  readonly slices: readonly LeafRows[];
  readonly stored: readonly PartView[];
}

/** A value for each group of a query. Rejects with the `IndexerError` of the first failed reduction. */
export async function evaluateGroups(
  runner: JsReduceRunner,
  layout: KeyLayout,
  source: string,
  groups: readonly JsParts[],
  { descending = false, context = "" }: EvaluateOptions,
): Promise<ReduceOutcome[]> {
  const results = groups.map(({ stored }) => {
    const decoded = stored.map(decode);
    return descending ? decoded : decoded.reverse();
  });
  const withRows = groups.flatMap(({ slices }, i) =>
    slices.some((slice) => slice.length > 0) ? [i] : [],
  );
  const rows = withRows.map((i) => (groups[i] as JsParts).slices);
  const reduced = await reduceAll(runner, layout, [source], rows, !descending);
  for (const [n, i] of withRows.entries()) {
    (results[i] as JsReduceResult[]).unshift(reduced[n]?.[0] ?? "null");
  }
  const several = results.filter((list) => list.length > 1);
  const combined = (await rereduceAll(runner, source, several)).values();
  const partial = results.map((list) =>
    list.length > 1 ? [combined.next().value ?? "null"] : list,
  );
  const final = await rereduceAll(runner, source, partial, context);
  return final.map((result) => {
    if (typeof result === "string") return { value: result };
    if ("overflow" in result) return { error: "reduce_overflow_error", reason: result.overflow };
    throw reduceFailed(result);
  });
}

type Results = readonly JsReduceResult[];

/** Calls over the rows of each list of slices. Keys are not even put together for functions that never look at them. */
async function reduceAll(
  runner: JsReduceRunner,
  layout: KeyLayout,
  sources: readonly string[],
  rows: readonly (readonly LeafRows[])[],
  reverse: boolean,
): Promise<readonly Results[]> {
  if (runner.ours !== true || sources.some(readsKeys)) {
    const texts = rows.map((slices) => rowsText(layout, slices, reverse));
    return reduceTexts(runner, sources, texts);
  }
  const results = runner.reduceValues
    ? rows.map((slices) => runner.reduceValues?.(sources, valuesText(slices, reverse, true)) ?? [])
    : await reduceTexts(
        runner,
        sources,
        rows.map((slices) => valuesText(slices, reverse, false)),
      );
  if (!results.some(overflows)) return results;
  // The overflow rule measures the whole input (PROTOCOL §5): without the keys a result may only seem too large.
  const doubtful = rows.filter((_, i) => overflows(results[i] as Results));
  const again = await reduceTexts(
    runner,
    sources,
    doubtful.map((slices) => rowsText(layout, slices, reverse)),
  );
  const next = again.values();
  return results.map((result) => (overflows(result) ? (next.next().value ?? result) : result));
}

function overflows(results: Results): boolean {
  return results.some((result) => typeof result !== "string" && "overflow" in result);
}

async function reduceTexts(
  runner: JsReduceRunner,
  sources: readonly string[],
  texts: readonly string[],
): Promise<readonly Results[]> {
  if (texts.length === 0) return [];
  if (texts.length > 1 && runner.reduceBatch) return runner.reduceBatch(sources, texts);
  return Promise.all(texts.map(async (text) => runner.reduce(sources, text)));
}

/**
 * A rereduce for each list of results. An overflow or failure among them stands for the whole, without a call.
 */
async function rereduceAll(
  runner: JsReduceRunner,
  source: string,
  lists: readonly (readonly JsReduceResult[])[],
  context?: string,
): Promise<JsReduceResult[]> {
  const stops = lists.map(stopAmong);
  const texts = lists
    .filter((_, i) => stops[i] === undefined)
    .map((list) => `[${list.filter((result) => typeof result === "string").join(",")}]`);
  const results =
    texts.length > 1 && runner.rereduceBatch
      ? await runner.rereduceBatch(source, texts, context)
      : await Promise.all(texts.map(async (text) => runner.rereduce(source, text, context)));
  const next = results.values();
  return stops.map((stop) => stop ?? next.next().value ?? "null");
}

function stopAmong(results: readonly JsReduceResult[]): JsReduceResult | undefined {
  return (
    results.find((result) => typeof result !== "string" && "error" in result) ??
    results.find((result) => typeof result !== "string")
  );
}
