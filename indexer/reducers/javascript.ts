// Custom reduces (VIEWS §15): the calls a function can see, and their results as parts. At index time one reduce per
// leaf and one rereduce per inner node; for a query one reduce over the rows of partly covered leaves against the
// direction of the scan, one rereduce with the stored results if there are any, and always one last rereduce.
//
// A stored part is  VALUE json | OVERFLOW message | FAILED json [error, reason].

import type { Bytes } from "../../btree/types.js";
import { decodeFailure, encodeFailure, reduceFailed } from "./failure.js";
import { type KeyLayout, rowsText } from "./rows.js";
import { textOf } from "./term.js";
import type {
  JsReduceResult,
  JsReduceRunner,
  LeafRows,
  ReduceFailure,
  ReduceOutcome,
} from "./types.js";

const VALUE = 0;
const OVERFLOW = 1;
const FAILED = 2;

const OVERFLOW_TEXT = '{"reduce_overflow_error":"';

/** Where one part lies. */
export interface PartView {
  readonly blob: Bytes;
  readonly start: number;
  readonly end: number;
}

/** A result is stored, read and passed on as one of these. */
type Result = string | { readonly overflow: string } | ReduceFailure;

function resultOf(given: JsReduceResult): Result {
  if (typeof given !== "string" || !given.startsWith(OVERFLOW_TEXT)) return given;
  const members = JSON.parse(given) as Record<string, string>;
  const [overflow, ...others] = Object.values(members);
  return overflow === undefined || others.length > 0 ? given : { overflow };
}

function encode(result: Result): Uint8Array {
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

function decode({ blob, start, end }: PartView): Result {
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
  const texts = leaves.map((leaf) => rowsText(layout, [leaf], false));
  const results = runner.reduceBatch
    ? await runner.reduceBatch(sources, texts)
    : await Promise.all(texts.map((text) => runner.reduce(sources, text)));
  return results.map((perSource) => perSource.map((result) => encode(resultOf(result))));
}

/** One part for each group of parts. */
export async function rereduceGroups(
  runner: JsReduceRunner,
  source: string,
  groups: readonly (readonly PartView[])[],
): Promise<Uint8Array[]> {
  const inputs = groups.map((parts) => combineInput(parts.map(decode)));
  const texts = inputs.filter((input) => typeof input === "string");
  const results = runner.rereduceBatch
    ? await runner.rereduceBatch(source, texts)
    : await Promise.all(texts.map((text) => runner.rereduce(source, text)));
  let next = 0;
  return inputs.map((input) =>
    encode(typeof input === "string" ? resultOf(results[next++] as JsReduceResult) : input),
  );
}

/** The value list of a rereduce; an overflow or failure among the results stands for the whole. */
function combineInput(results: readonly Result[]): Result {
  const broken = results.find((result) => typeof result !== "string" && !("overflow" in result));
  const stop = broken ?? results.find((result) => typeof result !== "string");
  return stop ?? `[${results.join(",")}]`;
}

/** The value for a query. Rejects with the `IndexerError` of a failed reduction. */
export async function evaluateJs(
  runner: JsReduceRunner,
  layout: KeyLayout,
  source: string,
  slices: readonly LeafRows[],
  stored: readonly PartView[],
  descending: boolean,
): Promise<ReduceOutcome> {
  const results = stored.map(decode);
  if (!descending) results.reverse();
  if (slices.some((slice) => slice.length > 0)) {
    const [rows] = await runner.reduce([source], rowsText(layout, slices, !descending));
    results.unshift(resultOf(rows ?? "null"));
  }
  const partial =
    results.length > 1 ? await rereduce(runner, source, results) : (results[0] ?? "null");
  const final = await rereduce(runner, source, [partial]);
  if (typeof final === "string") return { value: final };
  if ("overflow" in final) return { error: "reduce_overflow_error", reason: final.overflow };
  throw reduceFailed(final);
}

async function rereduce(
  runner: JsReduceRunner,
  source: string,
  results: readonly Result[],
): Promise<Result> {
  const input = combineInput(results);
  return typeof input === "string" ? resultOf(await runner.rereduce(source, input)) : input;
}
