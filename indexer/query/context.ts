// What a query is run against: one view of one snapshot, its reducer, and a way to documents.

import { type Bytes, type TreeReader } from "../../btree/index.js";
import { type CollationKind, type ViewReducer } from "../reducers/index.js";
import { type DocumentRequest } from "../sources/index.js";
import { type QueryStats } from "./stats.js";

export interface ViewContext {
  /** Must stay readable until the answer has been read. */
  readonly tree: TreeReader;
  readonly collation: CollationKind;
  /** Asked only by reduce queries. */
  readonly reducer?: ViewReducer | undefined;
  /** Which reduce of the reducer; needed by reduce queries. */
  readonly reduceIndex?: number | undefined;
  /** Raw JSON by request, undefined where missing or deleted; asked only by include_docs. */
  readonly documents?: (requests: readonly DocumentRequest[]) => Promise<(string | undefined)[]>;
  /** JSON text of the sequence the snapshot stands at. */
  readonly updateSeq?: string | undefined;
  /** What every key of the partition asked for begins with. Default: all keys. */
  readonly keyPrefix?: Bytes | undefined;
  /** What messages of reduces name, e.g. `db/_design/d/_view/v`. */
  readonly label?: string | undefined;
  readonly stats?: QueryStats | undefined;
}

/**
 * A page of rows, as JSON texts. Everything that needs no document and no JavaScript is there at once; only what must be
 * waited for is a promise.
 */
export type Step = readonly string[] | Promise<readonly string[]>;
