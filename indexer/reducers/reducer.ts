// The reducer of a view tree: joins the parts of its reduces into the blob that the tree keeps for each child, and
// finishes them for queries. `_count` keeps nothing, since the tree counts rows anyway; a single kept reduce is the
// blob itself; several stand one after the other, each behind its length as a varint.

import { newestCollation, type CollationKind } from "../collation/index.js";
import type { Bytes, ByteSpan, LeafSlice, RangeParts } from "../../btree/index.js";
import { invariant } from "../errors.js";
import { ROW_DUPS, rowCount, varintLength, writeVarint } from "../views/row-value.js";
import { DistinctAccumulator } from "./approx-count-distinct.js";
import { FirstLastAccumulator } from "./first-last.js";
import {
  evaluateGroups,
  jsFailureOf,
  type PartView,
  reduceLeaves,
  rereduceGroups,
} from "./javascript.js";
import type { KeyLayout } from "./rows.js";
import { NumberReader } from "./numbers.js";
import { RankAccumulator } from "./rank.js";
import { builtInKind, isBuiltIn, rankOf, validateReduce } from "./spec.js";
import { StatsAccumulator } from "./stats.js";
import { SumAccumulator } from "./sum.js";
import type {
  Accumulator,
  LeafRows,
  Awaitable,
  EvaluateOptions,
  JsReduceRunner,
  ReduceFailure,
  ReduceLimits,
  ReduceOutcome,
  ReduceSpec,
  ViewReducer,
} from "./types.js";

export interface ViewReducerOptions {
  /** The reduces of the views that share the tree, in a fixed order: it is part of what is stored. */
  readonly specs: readonly ReduceSpec[];
  readonly collation: CollationKind;
  /** Version of the root order that the tree is kept in. Default the newest. */
  readonly collationVersion?: number;
  /** Index of the collation key in a tree key: after the partition, if there is one. Default 0. */
  readonly keyStart?: (key: Bytes) => number;
  /** Needed when a spec is JavaScript. */
  readonly js?: JsReduceRunner;
  readonly limits?: ReduceLimits;
}

/** Makes the reducer of a view tree. Specs must have passed `validateReduce`. */
export function createViewReducer(options: ViewReducerOptions): ViewReducer {
  const engine = new Engine(options);
  const base = {
    specs: options.specs,
    count: rowCount,
    oneUnless: ROW_DUPS,
    evaluate: (index: number, parts: RangeParts, how?: EvaluateOptions) =>
      engine.evaluate(index, parts, how),
    evaluateAll: (index: number, groups: readonly RangeParts[], how?: EvaluateOptions) =>
      engine.evaluateAll(index, groups, how),
    failure: (reduction: Bytes) => engine.failure(reduction),
  };
  if (!engine.keepsParts) return base;
  return {
    ...base,
    reduce: (leaves: readonly LeafSlice[]) => engine.reduce(leaves),
    rereduce: (groups: readonly (readonly Bytes[])[]) => engine.rereduce(groups),
  };
}

/** Rows last first: CouchDB folds the rows of partly covered leaves against the direction of the scan (VIEWS §15). */
class ReversedRows implements LeafRows {
  readonly length: number;
  readonly #rows: LeafSlice;

  constructor(rows: LeafSlice) {
    this.#rows = rows;
    this.length = rows.length;
  }

  key(i: number): Bytes {
    return this.#rows.key(this.length - 1 - i);
  }

  value(i: number): Bytes {
    return this.#rows.value(this.length - 1 - i);
  }

  span(i: number): ByteSpan {
    return this.#rows.span(this.length - 1 - i);
  }
}

/** A reduce whose results are kept: at which place of the blob, and how it folds (undefined: JavaScript). */
interface Kept {
  readonly index: number;
  readonly source: string;
  readonly fold: Accumulator | undefined;
}

class Engine {
  readonly #options: ViewReducerOptions;
  readonly #layout: KeyLayout;
  readonly #kept: readonly Kept[];
  /** Place in the blob for each spec, -1 for `_count`. */
  readonly #slots: readonly number[];
  readonly #js: readonly Kept[];
  readonly #reader = new NumberReader();
  #start = 0;
  #end = 0;

  constructor(options: ViewReducerOptions) {
    this.#options = options;
    this.#layout = {
      collation: options.collation,
      version: options.collationVersion ?? newestCollation(),
      keyStart: options.keyStart ?? (() => 0),
    };
    const kept: Kept[] = [];
    this.#slots = options.specs.map((source, index) => {
      if (builtInKind(source) === "_count") return -1;
      return (
        kept.push({ index, source, fold: accumulatorOf(source, this.#layout, options.limits) }) - 1
      );
    });
    this.#kept = kept;
    this.#js = kept.filter(({ fold }) => fold === undefined);
    invariant(this.#js.length === 0 || options.js !== undefined, "a custom reduce needs a runner");
  }

  get keepsParts(): boolean {
    return this.#kept.length > 0;
  }

  reduce(leaves: readonly LeafSlice[]): Awaitable<Bytes[]> {
    if (this.#js.length === 0) return leaves.map((leaf) => this.#join((kept) => fold(kept, leaf)));
    return this.#reduceWithJs(leaves);
  }

  async #reduceWithJs(leaves: readonly LeafSlice[]): Promise<Bytes[]> {
    const sources = this.#js.map(({ source }) => source);
    const results = await reduceLeaves(this.#runner(), this.#layout, sources, leaves);
    return leaves.map((leaf, i) => {
      let next = 0;
      return this.#join((kept) =>
        kept.fold === undefined ? ((results[i] as Bytes[])[next++] as Bytes) : fold(kept, leaf),
      );
    });
  }

  rereduce(groups: readonly (readonly Bytes[])[]): Awaitable<Bytes[]> {
    if (this.#js.length === 0) {
      return groups.map((blobs) => this.#join((kept, slot) => this.#refold(kept, slot, blobs)));
    }
    return this.#rereduceWithJs(groups);
  }

  async #rereduceWithJs(groups: readonly (readonly Bytes[])[]): Promise<Bytes[]> {
    const bySlot = await Promise.all(
      this.#kept.map(async (kept, slot) => {
        if (kept.fold !== undefined) return undefined;
        const parts = groups.map((blobs) => blobs.map((blob) => this.#view(blob, slot)));
        return rereduceGroups(this.#runner(), kept.source, parts);
      }),
    );
    return groups.map((blobs, i) =>
      this.#join((kept, slot) => bySlot[slot]?.[i] ?? this.#refold(kept, slot, blobs)),
    );
  }

  #refold(kept: Kept, slot: number, blobs: readonly Bytes[]): Bytes {
    const accumulator = kept.fold as Accumulator;
    accumulator.reset();
    for (const blob of blobs) {
      this.#locate(blob, slot);
      accumulator.addPart(blob, this.#start, this.#end);
    }
    return accumulator.part();
  }

  evaluate(index: number, parts: RangeParts, how?: EvaluateOptions): Awaitable<ReduceOutcome> {
    const kept = this.#keptFor(index);
    if (kept === undefined) return { value: String(parts.count) };
    if (kept.fold !== undefined) return this.#evaluateFold(kept.fold, index, parts, how);
    return this.#evaluateJs(kept, index, [parts], how).then(
      ([outcome]) => outcome as ReduceOutcome,
    );
  }

  evaluateAll(
    index: number,
    groups: readonly RangeParts[],
    how?: EvaluateOptions,
  ): Awaitable<readonly ReduceOutcome[]> {
    const kept = this.#keptFor(index);
    if (kept === undefined) return groups.map(({ count }) => ({ value: String(count) }));
    const { fold: accumulator } = kept;
    if (accumulator === undefined) return this.#evaluateJs(kept, index, groups, how);
    return groups.map((parts) => this.#evaluateFold(accumulator, index, parts, how));
  }

  /** Undefined for `_count`. */
  #keptFor(index: number): Kept | undefined {
    const slot = this.#slots[index];
    invariant(slot !== undefined, `the view tree has no reduce ${index}`);
    return this.#kept[slot];
  }

  #evaluateFold(
    accumulator: Accumulator,
    index: number,
    parts: RangeParts,
    how: EvaluateOptions | undefined,
  ): ReduceOutcome {
    if (accumulator.scanOrder === true && how?.descending !== true && parts.slices.length > 0) {
      const rows: LeafRows[] = parts.slices.map((slice) => new ReversedRows(slice)).reverse();
      this.#addAll(accumulator, index, rows, parts.reductions);
      try {
        return accumulator.outcome(how);
      } catch {
        // What fails, fails in CouchDB when the leaf is written: in key order, and with that order's message.
      }
    }
    this.#addAll(accumulator, index, parts.slices, parts.reductions);
    return accumulator.outcome(how);
  }

  #addAll(
    accumulator: Accumulator,
    index: number,
    rows: readonly LeafRows[],
    reductions: readonly Bytes[],
  ): void {
    const slot = this.#slots[index] as number;
    accumulator.reset();
    for (const slice of rows) accumulator.addRows(slice);
    for (const blob of reductions) {
      this.#locate(blob, slot);
      accumulator.addPart(blob, this.#start, this.#end);
    }
  }

  #evaluateJs(
    { source }: Kept,
    index: number,
    groups: readonly RangeParts[],
    how: EvaluateOptions = {},
  ): Promise<ReduceOutcome[]> {
    const slot = this.#slots[index] as number;
    const parts = groups.map(({ slices, reductions }) => ({
      slices,
      stored: reductions.map((blob) => this.#view(blob, slot)),
    }));
    return evaluateGroups(this.#runner(), this.#layout, source, parts, how);
  }

  failure(reduction: Bytes): (ReduceFailure & { readonly index: number }) | undefined {
    if (reduction.length === 0) return undefined;
    for (const [slot, { index, fold: accumulator }] of this.#kept.entries()) {
      const part = this.#view(reduction, slot);
      const failure = accumulator
        ? accumulator.failureOf(part.blob, part.start, part.end)
        : jsFailureOf(part);
      if (failure !== undefined) return { ...failure, index };
    }
    return undefined;
  }

  #runner(): JsReduceRunner {
    const { js } = this.#options;
    invariant(js !== undefined, "a custom reduce needs a runner");
    return js;
  }

  /** The blob of the parts that `part` gives for each kept reduce. */
  #join(part: (kept: Kept, slot: number) => Bytes): Bytes {
    const [only] = this.#kept;
    if (this.#kept.length === 1 && only !== undefined) return part(only, 0);
    const parts = this.#kept.map(part);
    let size = 0;
    for (const bytes of parts) size += varintLength(bytes.length) + bytes.length;
    const blob = new Uint8Array(size);
    let at = 0;
    for (const bytes of parts) {
      at = writeVarint(blob, at, bytes.length);
      blob.set(bytes, at);
      at += bytes.length;
    }
    return blob;
  }

  /** Finds the part of a slot: `#start` and `#end` are then its bounds. */
  #locate(blob: Bytes, slot: number): void {
    this.#start = 0;
    this.#end = blob.length;
    if (this.#kept.length === 1) return;
    this.#reader.open(blob, 0);
    for (let i = 0; ; i++) {
      const length = this.#reader.varint();
      this.#start = this.#reader.pos;
      this.#end = this.#start + length;
      if (i === slot) return;
      this.#reader.pos = this.#end;
    }
  }

  #view(blob: Bytes, slot: number): PartView {
    this.#locate(blob, slot);
    return { blob, start: this.#start, end: this.#end };
  }
}

function fold(kept: Kept, leaf: LeafSlice): Bytes {
  const accumulator = kept.fold as Accumulator;
  accumulator.reset();
  accumulator.addRows(leaf);
  return accumulator.part();
}

function accumulatorOf(
  source: string,
  layout: KeyLayout,
  limits: ReduceLimits | undefined,
): Accumulator | undefined {
  if (!isBuiltIn(source)) return undefined;
  const kind = builtInKind(source);
  invariant(validateReduce(source) === undefined && kind !== undefined, `bad reduce ${source}`);
  switch (kind) {
    case "_sum":
      return new SumAccumulator(layout, limits);
    case "_stats":
      return new StatsAccumulator();
    case "_approx_count_distinct":
      return new DistinctAccumulator(layout);
    case "_first":
    case "_last":
      return new FirstLastAccumulator(layout, kind);
    case "_top_":
    case "_bottom_":
      return new RankAccumulator(kind, rankOf(source), layout.version);
    case "_count":
      return undefined;
  }
}
