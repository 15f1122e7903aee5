// Runs a design document's views over a handful of documents exactly as an index would: the same server, keys, order, reduces and
// queries, over a store in memory. Nothing is written to disk.

import { EntryBatch, MemoryStorage, Store, type TreeOp } from "../../btree/index.js";
import { ByteBuffer, KeyEncoder, newestCollation } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import { combineRows } from "../mapping/combine-rows.js";
import { parseQueryObject, resolveViewQuery, runViewQuery, type Row } from "../query/index.js";
import type { JsReduceResult, JsReduceRunner, ViewReducer } from "../reducers/index.js";
import { treeLabel, type DesignDocument, type ViewTreeSpec } from "../views/design-document.js";
import { DEFAULT_REDUCE_LIMITS, reducersOfGroup } from "../views/group-index.js";
import { viewTreeName } from "../views/group-reducers.js";
import { encodeRowValue } from "../views/row-value.js";
import { failureOf, mapRemark, reduceRemark, type Remark } from "./try-remarks.js";
import { TryProcess, type TryProcessOptions } from "./try-process.js";
import type { TryDeath } from "./try-child.js";
import type { CompileFault, TryReply } from "./try-worker.js";

/** A document to try views on. */
export interface Sample {
  readonly id: string;
  /** JSON text. */
  readonly json: string;
}

export interface Reduced {
  readonly key: unknown;
  readonly value: unknown;
  readonly error: string | undefined;
}

/** A design document under trial. `close` it. */
export class TryEngine {
  readonly design: DesignDocument;
  readonly #process: TryProcess;
  readonly #reduces: readonly string[];

  constructor(design: DesignDocument, options: TryProcessOptions) {
    const { trees, lib } = design.group;
    this.design = design;
    const reduces = trees
      .flatMap((tree) => tree.reduces.map(({ source }) => source))
      .filter((source) => !source.startsWith("_"));
    this.#reduces = [...new Set(reduces)];
    this.#process = new TryProcess(
      { lib, maps: trees.map(({ map }) => map), reduces: this.#reduces },
      options,
    );
  }

  /** What does not compile, with the source and the name of its view. */
  async compile(): Promise<(CompileFault & { readonly view: string; readonly source: string })[]> {
    const loaded = await this.#process.load();
    if (loaded.kind === "death")
      throw new IndexerError(
        "INDEXER_DDOC_COMPILATION",
        `${this.design.id}: its functions cannot be loaded: ${loaded.reason}`,
      );
    return loaded.faults.map((fault) => {
      const source =
        fault.kind === "reduce"
          ? this.#reduces[fault.index]
          : this.design.group.trees[fault.index]?.map;
      return { ...fault, view: this.#viewOf(fault), source: source ?? "" };
    });
  }

  /** Maps the samples; of several with one id the last counts. Remarks of reduces join the others as their values are asked for. */
  async map(samples: readonly Sample[]): Promise<TriedViews> {
    const remarks: Remark[] = [];
    const { trees } = this.design.group;
    const batches = trees.map(() => new EntryBatch());
    const encoders = trees.map(({ collation }) => new KeyEncoder(collation));
    const last = new Map(samples.map((sample) => [sample.id, sample]));
    for (const [ordinal, { id, json }] of [...last.values()].entries()) {
      const answer = await this.#process.ask({ kind: "map", doc: json });
      if (answer.kind === "death") {
        const view = await this.#guiltyView(json);
        remarks.push(failureOf(id, answer.error, answer.reason, view));
        continue;
      }
      for (const line of answer.logs) remarks.push(mapRemark(line, id, trees[line.fn]?.map ?? ""));
      const reply: unknown = JSON.parse(answer.reply);
      if (isErrorReply(reply)) {
        remarks.push(failureOf(id, reply[1], String(reply[2])));
        continue;
      }
      for (const [tree, rows] of (reply as [unknown, unknown][][]).entries()) {
        const batch = batches[tree];
        const encoder = encoders[tree];
        if (batch && encoder)
          for (const [key, value] of rows) addRow(batch, encoder, id, key, value, ordinal);
      }
    }
    const reducers = reducersOfGroup(
      {
        spec: this.design.group,
        limits: DEFAULT_REDUCE_LIMITS,
        strict: false,
        js: () => this.#runner(remarks),
      },
      newestCollation(),
    );
    const store = await Store.create(new MemoryStorage(), {
      state: new Uint8Array(0),
      reducers: reducers.byName,
    });
    const changes = new Map(
      trees.map((tree, i) => [viewTreeName(tree.number), opsOf(tree, batches[i])] as const),
    );
    await store.apply(changes, store.state);
    return new TriedViews(this.design, store, reducers.views as readonly ViewReducer[], remarks);
  }

  close(): void {
    this.#process.close();
  }

  /** The first view whose map function alone is ended by the document; undefined where it takes several together. */
  async #guiltyView(doc: string): Promise<string | undefined> {
    const { trees } = this.design.group;
    for (const [only, tree] of trees.entries()) {
      if (trees.length === 1) return treeLabel(tree);
      const answer = await this.#process.ask({ kind: "map", doc, only });
      if (answer.kind === "death") return treeLabel(tree);
    }
    return undefined;
  }

  #viewOf(fault: CompileFault): string {
    const { trees } = this.design.group;
    if (fault.kind === "map") {
      const tree = trees[fault.index];
      return tree ? treeLabel(tree) : "";
    }
    return this.#viewOfReduce(this.#reduces[fault.index] ?? "");
  }

  #viewOfReduce(source: string): string {
    const reduces = this.design.group.trees.flatMap((tree) => tree.reduces);
    return reduces.find((reduce) => reduce.source === source)?.name ?? "";
  }

  #runner(remarks: Remark[]): JsReduceRunner {
    const results = (
      answer: Extract<TryReply, { kind: "reduce" }> | TryDeath,
      sources: readonly string[],
    ): JsReduceResult[] => {
      const all = (result: JsReduceResult): JsReduceResult[] => sources.map(() => result);
      if (answer.kind === "death") return all({ error: answer.error, reason: answer.reason });
      for (const line of answer.logs) {
        const source = sources[line.fn] ?? sources[0] ?? "";
        const view = line.fn < 0 && sources.length > 1 ? undefined : this.#viewOfReduce(source);
        remarks.push(reduceRemark(line, view, source));
      }
      if (!answer.error) return [...answer.results];
      const { id, reason } = answer.error;
      return all(id === "reduce_overflow_error" ? { overflow: reason } : { error: id, reason });
    };
    return {
      reduce: async (sources, rows) =>
        results(await this.#process.ask({ kind: "reduce", sources, rows }), sources),
      rereduce: async (source, values) =>
        results(await this.#process.ask({ kind: "rereduce", source, values }), [source])[0] ??
        "null",
    };
  }
}

/** Views over the samples, to be queried. */
export class TriedViews {
  readonly remarks: readonly Remark[];
  readonly #design: DesignDocument;
  readonly #store: Store;
  readonly #reducers: readonly ViewReducer[];

  constructor(
    design: DesignDocument,
    store: Store,
    reducers: readonly ViewReducer[],
    remarks: readonly Remark[],
  ) {
    this.#design = design;
    this.#store = store;
    this.#reducers = reducers;
    this.remarks = remarks;
  }

  async rows(view: string): Promise<Row[]> {
    return this.#ask(view, { reduce: false });
  }

  /** The reduced value of all rows; undefined when the view has no reduce or no rows. */
  async reduced(view: string): Promise<Reduced | undefined> {
    return (await this.#reduced(view, { reduce: true }))[0];
  }

  /** One value for each group of keys, exact or of the first `level` elements. */
  async grouped(view: string, level: number | undefined): Promise<Reduced[]> {
    return this.#reduced(view, level === undefined ? { group: true } : { group_level: level });
  }

  hasReduce(view: string): boolean {
    return this.#design.views.get(view)?.reduce !== undefined;
  }

  async #reduced(view: string, parameters: object): Promise<Reduced[]> {
    if (!this.hasReduce(view)) return [];
    try {
      return (await this.#ask(view, parameters)).map(({ key, value, error, reason }) => ({
        key,
        value,
        error: error === undefined ? undefined : `${error}: ${reason ?? ""}`,
      }));
    } catch (error) {
      return [{ key: null, value: undefined, error: (error as Error).message }];
    }
  }

  async #ask(view: string, parameters: object): Promise<Row[]> {
    const location = this.#design.views.get(view);
    const tree = location && this.#design.group.trees[location.tree];
    if (!tree) throw new Error(`viewmill bug: no view ${view}`);
    const shape = { hasReduce: location.reduce !== undefined, collation: tree.collation };
    const query = resolveViewQuery(parseQueryObject(parameters as Record<string, unknown>), shape);
    const snapshot = this.#store.snapshot();
    const answer = runViewQuery(query, {
      tree: snapshot.tree(viewTreeName(tree.number)),
      collation: tree.collation,
      label: `${this.#design.id}/_view/${view}`,
      ...(location.reduce === undefined
        ? {}
        : { reducer: this.#reducers[location.tree], reduceIndex: location.reduce }),
    });
    return (await answer.object()).rows;
  }
}

function isErrorReply(reply: unknown): reply is [string, string, unknown] {
  return Array.isArray(reply) && (reply[0] === "error" || reply[0] === "fatal");
}

function addRow(
  batch: EntryBatch,
  encoder: KeyEncoder,
  id: string,
  key: unknown,
  value: unknown,
  ordinal: number,
): void {
  const text = Buffer.from(JSON.stringify(key));
  const sink = new ByteBuffer();
  encoder.encode(text, 0, sink);
  const { exact } = encoder;
  const treeKey = Buffer.concat([sink.take(), Buffer.from(id)]);
  const entry = encodeRowValue({
    keyText: exact ? undefined : text,
    values: [Buffer.from(JSON.stringify(value))],
  });
  batch.ensure(treeKey.length + entry.length);
  const start = batch.used;
  batch.bytes.set(treeKey, start);
  batch.bytes.set(entry, start + treeKey.length);
  batch.used = start + treeKey.length + entry.length;
  batch.push(start, start + treeKey.length, start + treeKey.length, batch.used, ordinal);
}

/** Rows in order; those of one document and key are one entry (VIEWS §5). */
function opsOf(tree: ViewTreeSpec, batch: EntryBatch | undefined): TreeOp[] {
  const ops: TreeOp[] = [];
  if (!batch) return ops;
  batch.sort();
  const keyAt = (i: number): Uint8Array => batch.bytes.subarray(batch.keyStart(i), batch.keyEnd(i));
  for (let i = 0; i < batch.length;) {
    const key = keyAt(i);
    let end = i + 1;
    while (end < batch.length && Buffer.compare(keyAt(end), key) === 0) end++;
    const keys = { kind: tree.collation, version: newestCollation(), partitioned: false };
    const value = combineRows(keys, batch, i, end - 1);
    ops.push({ key, value: value.bytes.subarray(value.start, value.end) });
    i = end;
  }
  return ops;
}
