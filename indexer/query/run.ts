// Runs a resolved query over one view of one snapshot. Nothing is read before the answer is.

import { ViewAnswer } from "./answer.js";
import { type ViewContext } from "./context.js";
import { MapRows } from "./map-rows.js";
import { ReduceRows } from "./reduce-rows.js";
import { type ResolvedQuery } from "./resolve.js";

export interface RunOptions {
  /** Ends the reading of the answer with INDEXER_ABORTED. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The answer of the query, to be read once. The context's tree must stay readable until then. `query.update` is not looked
 * at: bringing the index up to date, or starting that, is for who takes the snapshot (VIEWS §13).
 */
export function runViewQuery(
  query: ResolvedQuery,
  context: ViewContext,
  options: RunOptions = {},
): ViewAnswer {
  const shared = {
    updateSeq: query.updateSeq ? (context.updateSeq ?? "null") : undefined,
    stats: context.stats,
    explain: query.explain,
    signal: options.signal,
  };
  if (query.kind === "map") {
    const rows = new MapRows(query, context);
    return new ViewAnswer({
      ...shared,
      kind: "map",
      totalRows: context.tree.count,
      offset: () => rows.offset(),
      steps: () => rows.steps(),
    });
  }
  const { reducer, reduceIndex } = context;
  if (!reducer || reduceIndex === undefined) {
    throw new Error("viewmill bug: a reduce query needs a reducer and the number of its reduce");
  }
  const rows = new ReduceRows(query, context, reducer, reduceIndex);
  return new ViewAnswer({
    ...shared,
    kind: "reduce",
    totalRows: undefined,
    offset: () => undefined,
    steps: () => rows.steps(),
  });
}
