// The reducer of each tree of an index file, by tree name: id and error trees count entries, view trees count rows and keep the
// reductions of their views.

import type { LogLimits, Reducer } from "../../btree/index.js";
import { createViewReducer, type JsReduceRunner, type ViewReducer } from "../reducers/index.js";
import { afterPartition } from "./partitions.js";
import { ROW_DUPS, rowCount } from "./row-value.js";

export const IDS_TREE = "ids";
export const ERRORS_TREE = "errors";

export function viewTreeName(number: number): string {
  return (viewTrees[number] ??= `view:${number}`);
}

/** Asked for by every query. */
const viewTrees: string[] = [];

const ENTRIES: Reducer = { count: () => 1, oneUnless: 0 };
const ROWS: Reducer = { count: rowCount, oneUnless: ROW_DUPS };

/** What a view tree's reducer is made from. */
export interface TreeReduceSpec {
  readonly collation: "root" | "raw";
  /** Version of the root order. */
  readonly collationVersion: number;
  readonly reduces: readonly string[];
  /** A partition stands before each collation key. */
  readonly partitioned: boolean;
}

export interface ReduceLimitOptions {
  readonly reduceLimit: boolean | "log";
  readonly threshold: number;
  readonly ratio: number;
}

function countsOnly(tree: string): Reducer {
  return tree === IDS_TREE || tree === ERRORS_TREE ? ENTRIES : ROWS;
}

function viewReducer(
  spec: TreeReduceSpec,
  js: JsReduceRunner | undefined,
  limits: ReduceLimitOptions,
): ViewReducer {
  return createViewReducer({
    specs: spec.reduces,
    collation: spec.collation,
    collationVersion: spec.collationVersion,
    limits,
    ...(spec.partitioned ? { keyStart: afterPartition } : {}),
    ...(js === undefined ? {} : { js }),
  });
}

export const groupReducers = {
  /** For readers that never ask for reductions. */
  countsOnly,
  viewReducer,
};

const ID_LOG: LogLimits = { entriesMax: 50_000, bytesMax: 8 * 2 ** 20 };

/**
 * How much of a group's tree may wait in its log. Ids are only ever looked up: ten thousand random ones would rewrite more than half of
 * the leaves of a million. Of rows somebody wants counts and reductions soon.
 */
export function groupLog(tree: string): LogLimits | undefined {
  return tree === IDS_TREE ? ID_LOG : undefined;
}
