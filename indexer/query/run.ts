// Runs a resolved query over one view of one snapshot. Nothing is read before the answer is.

import { ViewAnswer } from "./answer.js";
import { type ViewContext } from "./context.js";
import { MapRows } from "./map-rows.js";
import { ReduceRows } from "./reduce-rows.js";
import { type ResolvedQuery } from "./resolve.js";

export interface RunOptions {
  /** Ends the reading of the answer with INDEXER_ABORTED. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the answer has been read, or given up: the tree is not needed any more. An answer that nobody reads does not call it. */
  readonly onEnd?: (() => void) | undefined;
}

const NO_OPTIONS: RunOptions = {};

/**
 * The answer of the query, to be read once. The context's tree must stay readable until then. `query.update` is not looked
 * at: bringing the index up to date, or starting that, is for who takes the snapshot (VIEWS §13).
 */
export function runViewQuery(
  query: ResolvedQuery,
  context: ViewContext,
  options: RunOptions = NO_OPTIONS,
): ViewAnswer {
  const updateSeq = query.updateSeq ? (context.updateSeq ?? "null") : undefined;
  if (query.kind === "map") {
    return new ViewAnswer({
      kind: "map",
      totalRows: context.tree.count,
      rows: new MapRows(query, context),
      updateSeq,
      stats: context.stats,
      explain: query.explain,
      signal: options.signal,
      onEnd: options.onEnd,
    });
  }
  const { reducer, reduceIndex } = context;
  if (!reducer || reduceIndex === undefined) {
    throw new Error("viewmill bug: a reduce query needs a reducer and the number of its reduce");
  }
  return new ViewAnswer({
    kind: "reduce",
    totalRows: undefined,
    rows: new ReduceRows(query, context, reducer, reduceIndex),
    updateSeq,
    stats: context.stats,
    explain: query.explain,
    signal: options.signal,
    onEnd: options.onEnd,
  });
}
