// What answers are made of, and what they become.

import { type Step } from "./context.js";
import { type QueryCost, type QueryStats } from "./stats.js";

/** One row, parsed. `doc` with include_docs; `error` and `reason` in place of `value` where a reduce did not shrink. */
export interface Row {
  readonly id?: string;
  readonly key: unknown;
  readonly value?: unknown;
  readonly doc?: unknown;
  readonly error?: string;
  readonly reason?: string;
}

/** The whole answer, parsed. Members as CouchDB has them. */
export interface CouchAnswer {
  total_rows?: number;
  offset?: number;
  update_seq?: unknown;
  rows: Row[];
  explain?: QueryCost;
}

/** Rows that nobody must wait for, page by page; each call gives the next one, undefined after the last. */
export interface ReadyRows {
  /** Rows as CouchDB separates them; may be empty. */
  text(): string | undefined;
  objects(): Row[] | undefined;
}

/** One run of a query: its rows in pages, and how many rows come before them in the view. Rows are read in one of the ways. */
export interface RowSource {
  /** Undefined for a reduce. Where it takes long, a generator that returns it and yields now and then. */
  offset(): number | undefined | Generator<undefined, number, undefined>;
  steps(): Generator<Step, void, undefined>;
  /** The short way, for queries that have it. Its cost is not counted. */
  readonly ready: ReadyRows | undefined;
}

/** Where an answer gets its parts. */
export interface AnswerSource {
  readonly kind: "map" | "reduce";
  readonly totalRows: number | undefined;
  /** JSON text. */
  readonly updateSeq: string | undefined;
  readonly rows: RowSource;
  readonly stats: QueryStats | undefined;
  /** Statistics become part of the answer. */
  readonly explain: boolean;
  readonly signal: AbortSignal | undefined;
  /** Called once when nothing of the tree is needed any more. */
  readonly onEnd?: (() => void) | undefined;
}
