// The nouns of the reduce engine: what a view tree keeps, what a query gets, and the way to a JavaScript reduce.

import type { Bytes, ByteSpan, RangeParts, Reducer } from "../../btree/index.js";

/** Source of one reduce of a view: a built-in's name (VIEWS §1) or JavaScript. */
export type ReduceSpec = string;

/** A value, or a promise of it. */
export type Awaitable<T> = T | Promise<T>;

/** A custom reduce whose output did not shrink (PROTOCOL §5). `overflow` is the message. */
export interface ReduceOverflow {
  readonly overflow: string;
}

/** A reduce that failed: the queries whose range contains it fail with this error and reason. */
export interface ReduceFailure {
  readonly error: string;
  readonly reason: string;
}

/** What one call of a custom reduce gave: the JSON text of its result, or what went wrong. */
export type JsReduceResult = string | ReduceOverflow | ReduceFailure;

/**
 * Runs custom reduces. A function that threw is the text `null` (PROTOCOL §4). What a function did to its
 * server (killed it, ran out of time) is a `ReduceFailure` of that call; a rejection says that the
 * infrastructure is gone and fails the build or query that asked.
 */
export interface JsReduceRunner {
  /**
   * The functions run in our own view server, which is known not to tell them more than they can see. So a function that never looks
   * at keys is not sent any. Default false.
   */
  readonly ours?: boolean;
  /** One command over the rows `[[[key,id],value],…]`: a result for each source. */
  reduce(sources: readonly string[], rows: string): Awaitable<readonly JsReduceResult[]>;
  /** As `reduce`, at once and over bare values `[v,…]`, for functions that never look at keys; used where there is one. */
  reduceValues?(sources: readonly string[], values: string): readonly JsReduceResult[];
  /** One command over earlier results `[v,…]`. `context` is what an overflow message names; default empty. */
  rereduce(source: string, values: string, context?: string): Awaitable<JsReduceResult>;
  /** Several `reduce` calls in one trip; used where there is one. */
  reduceBatch?(
    sources: readonly string[],
    rows: readonly string[],
  ): Awaitable<readonly (readonly JsReduceResult[])[]>;
  /** Several `rereduce` calls in one trip; used where there is one. */
  rereduceBatch?(
    source: string,
    values: readonly string[],
    context?: string,
  ): Awaitable<readonly JsReduceResult[]>;
}

/** CouchDB's `[query_server_config]`: how much a `_sum` may grow (VIEWS §17). */
export interface ReduceLimits {
  /** `true`: an error value. `"log"` and `false`: no error. Default true. */
  readonly reduceLimit?: boolean | "log";
  /** Bytes that every result may have. Default 5000. */
  readonly threshold?: number;
  /** Above the threshold, output times ratio may not exceed the input. Default 2. */
  readonly ratio?: number;
}

export interface EvaluateOptions {
  /** The query runs from the last row to the first: custom reduces then see rows in ascending order (VIEWS §15). */
  readonly descending?: boolean;
  /** What an overflow message names, e.g. `db/_design/d/_view/v`. Default empty. */
  readonly context?: string;
}

/** `value` is JSON text. An error stands in the row, whose key is then null (VIEWS §17). */
export type ReduceOutcome = { readonly value: string } | ReduceFailure;

/** The reducer of one view tree: what the tree keeps for all reduces of the views that share it. */
export interface ViewReducer extends Reducer {
  readonly specs: readonly ReduceSpec[];
  /**
   * The value of reduce `index` over the parts of a range or group that holds at least one row.
   * Throws (or rejects with) `IndexerError` INDEXER_REDUCE_FAILED, with `status` 500 and CouchDB's error and
   * reason in its details, when the range holds a failed reduction (VIEWS §16 `_stats`).
   */
  evaluate(index: number, parts: RangeParts, options?: EvaluateOptions): Awaitable<ReduceOutcome>;
  /** `evaluate` for several groups at once: custom reduces then take a few batched calls instead of some for each. */
  evaluateAll(
    index: number,
    groups: readonly RangeParts[],
    options?: EvaluateOptions,
  ): Awaitable<readonly ReduceOutcome[]>;
  /**
   * The failure that CouchDB would not have stored but stopped at, if a stored reduction holds one. Strict mode
   * asks it of the root's reduction.
   */
  failure(reduction: Bytes): (ReduceFailure & { readonly index: number }) | undefined;
}

/**
 * Folds rows and stored parts of one built-in reduce. One instance serves many folds, one after the other:
 * `reset`, any number of `addRows` and `addPart` in key order as far as it is known, then `part` or `outcome`.
 */
export interface Accumulator {
  /** Floating-point results depend on the order of the rows: a query adds them in the order CouchDB does. */
  readonly scanOrder?: true;
  reset(): void;
  addRows(slice: LeafRows): void;
  addPart(blob: Bytes, start: number, end: number): void;
  /** What the tree keeps. */
  part(): Uint8Array;
  /** The finished value. Throws the `IndexerError` of a failed reduction. */
  outcome(options: EvaluateOptions | undefined): ReduceOutcome;
  /** The failure a stored part holds, if it is one. */
  failureOf(blob: Bytes, start: number, end: number): ReduceFailure | undefined;
}

/** The part of a leaf slice that reduces read. */
export interface LeafRows {
  readonly length: number;
  key(i: number): Bytes;
  value(i: number): Bytes;
  span(i: number): ByteSpan;
}
