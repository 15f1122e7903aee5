// A view index in its plainest form: documents in an object, map functions called directly, rows in a MemoryTree. What queries are
// tested against before, and beside, the real index.

import type { Entry, TreeReader } from "../../btree/types.js";
import { KeyEncoder, ByteBuffer, encodeKeyText } from "../../indexer/collation/index.js";
import {
  createViewReducer,
  type CollationKind,
  type JsReduceRunner,
  type ViewReducer,
} from "../../indexer/reducers/index.js";
import type { DocumentRequest } from "../../indexer/sources/source.js";
import { encodeRowValue } from "../../indexer/views/row-value.js";
import type { ViewContext } from "../../indexer/query/index.js";
import { compareBytes, MemoryTree } from "./memory-tree.js";

export interface EmittedRow {
  readonly id: string;
  /** JSON text. */
  readonly key: string;
  /** JSON text. */
  readonly value: string;
}

const utf8 = new TextEncoder();

/** Tree entries of emitted rows: equal keys of a document are one entry, its values in Erlang term order. */
export function entriesOf(rows: readonly EmittedRow[], kind: CollationKind): Entry[] {
  const encoder = new KeyEncoder(kind);
  const slots = new Map<
    string,
    { key: Uint8Array; keyText: string | undefined; values: string[] }
  >();
  for (const row of rows) {
    const sink = new ByteBuffer();
    encoder.encode(utf8.encode(row.key), 0, sink);
    const key = new Uint8Array(Buffer.concat([sink.take(), utf8.encode(row.id)]));
    const keyText = encoder.exact ? undefined : row.key;
    const name = Buffer.from(key).toString("hex");
    const slot = slots.get(name);
    // Of different keys that collate equally one document keeps one: the one whose text is greater (VIEWS §5).
    if (!slot || (slot.keyText ?? "") < (keyText ?? ""))
      slots.set(name, { key, keyText, values: [row.value] });
    else if (slot.keyText === keyText) slot.values.push(row.value);
  }
  return [...slots.values()].map(({ key, keyText, values }) => ({
    key,
    value: encodeRowValue({
      keyText: keyText === undefined ? undefined : utf8.encode(keyText),
      values: values
        .map((json) => ({ json, order: encodeKeyText("raw", json) }))
        .sort((a, b) => compareBytes(a.order, b.order))
        .map(({ json }) => utf8.encode(json)),
    }),
  }));
}

type Emit = (key: unknown, value: unknown) => void;

function jsonOf(value: unknown): string {
  const json = JSON.stringify(value) as string | undefined;
  return json ?? "null";
}

/** Rows a map function emits over documents; one that throws emits nothing for the document. */
export function mapRows(
  source: string,
  documents: Iterable<Record<string, unknown>>,
  lib?: (path: string) => unknown,
): EmittedRow[] {
  let emitted: [string, string][] = [];
  const emit: Emit = (key, value) => emitted.push([jsonOf(key), jsonOf(value)]);
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the map functions of test cases
  const make = new Function("emit", "require", `return (${source})`) as (
    emit: Emit,
    require: unknown,
  ) => (doc: unknown) => void;
  const map = make(emit, lib);
  const rows: EmittedRow[] = [];
  for (const document of documents) {
    emitted = [];
    try {
      map(structuredClone(document));
    } catch {
      continue;
    }
    for (const [key, value] of emitted) rows.push({ id: String(document["_id"]), key, value });
  }
  return rows;
}

const sum = (values: number[]): number => values.reduce((a, b) => a + b, 0);

/** Calls custom reduces where they stand. */
export const directRunner: JsReduceRunner = {
  reduce: (sources, rows) => {
    const list = JSON.parse(rows) as [unknown, unknown][];
    const [keys, values] = [list.map(([key]) => key), list.map(([, value]) => value)];
    return sources.map((source) => callReduce(source, keys, values, false));
  },
  rereduce: (source, values) => callReduce(source, null, JSON.parse(values), true),
};

function callReduce(source: string, keys: unknown, values: unknown, rereduce: boolean): string {
  // eslint-disable-next-line @typescript-eslint/no-implied-eval -- the reduce functions of test cases
  const make = new Function("sum", `return (${source})`) as (
    add: typeof sum,
  ) => (keys: unknown, values: unknown, rereduce: boolean) => unknown;
  try {
    return jsonOf(make(sum)(keys, values, rereduce));
  } catch {
    return "null";
  }
}

export interface ModelView {
  readonly hasReduce: boolean;
  readonly collation: CollationKind;
  readonly context: ViewContext;
}

export interface ModelOptions {
  readonly reduce?: string | undefined;
  readonly collation?: CollationKind;
  readonly leafEntries?: number;
  readonly js?: JsReduceRunner;
  /** Makes the tree; default a MemoryTree. */
  readonly tree?: (entries: Entry[], reducer: ViewReducer) => Promise<TreeReader>;
  readonly documents?: ViewContext["documents"];
}

export async function modelView(
  rows: readonly EmittedRow[],
  options: ModelOptions = {},
): Promise<ModelView> {
  const collation = options.collation ?? "root";
  const reducer = createViewReducer({
    specs: options.reduce === undefined ? [] : [options.reduce],
    collation,
    js: options.js ?? directRunner,
  });
  const entries = entriesOf(rows, collation);
  const tree = options.tree
    ? await options.tree(entries, reducer)
    : await MemoryTree.create(entries, reducer, { leafEntries: options.leafEntries ?? 4 });
  return {
    hasReduce: options.reduce !== undefined,
    collation,
    context: {
      tree,
      collation,
      reducer,
      reduceIndex: options.reduce === undefined ? undefined : 0,
      updateSeq: '"7-abc"',
      ...(options.documents ? { documents: options.documents } : {}),
    },
  };
}

/** Documents by id from an object; a deleted one is missing. */
export function documentsOf(
  documents: ReadonlyMap<string, Record<string, unknown>>,
): (requests: readonly DocumentRequest[]) => Promise<(string | undefined)[]> {
  return (requests) =>
    Promise.resolve(
      requests.map(({ id, rev }) => {
        const document = documents.get(id);
        if (!document || (rev !== undefined && document["_rev"] !== rev)) return undefined;
        if (rev === undefined && document["_deleted"] === true) return undefined;
        return JSON.stringify(document);
      }),
    );
}
