// What an index holds, in a form that can be compared: the entries of every tree as they are stored, and answers of its views.

import { readdirSync } from "node:fs";
import { join } from "node:path";

import { Store } from "../../btree/index.js";
import type { ViewIndex } from "../../indexer/index.js";
import { groupReducers, IDS_TREE } from "../../indexer/views/group-reducers.js";
import { droppedRows, emittedKeys, ID_HEADER_BYTES } from "../../indexer/views/id-entry.js";

/** Entries by tree, keys and values in hex, of the file of one group. */
export type TreeContent = Readonly<Record<string, readonly string[]>>;

/** Reads an index file as committed. */
export async function treeContent(path: string): Promise<TreeContent> {
  const store = await Store.open(path, { mode: "read", reducers: groupReducers.countsOnly });
  const snapshot = store.snapshot();
  try {
    const content: Record<string, string[]> = {};
    for (const name of snapshot.treeNames()) {
      const entries: string[] = [];
      for (const slice of snapshot.tree(name).slices({}))
        for (let i = 0; i < slice.length; i++)
          entries.push(`${hex(slice.key(i))}=${hex(slice.value(i))}`);
      if (entries.length > 0) content[name] = entries;
    }
    return content;
  } finally {
    snapshot.release();
    await store.close();
  }
}

/** The same without the order in which id entries list keys, which means nothing. */
export function withoutKeyOrder(content: TreeContent): TreeContent {
  const ids = content[IDS_TREE];
  if (!ids) return content;
  const sorted = ids.map((entry) => {
    const [id = "", value = ""] = entry.split("=");
    const bytes = Buffer.from(value, "hex");
    const keys = emittedKeys(bytes).map(({ tree, key }) => `${tree}:${hex(key)}`);
    const dropped = droppedRows(bytes).map(({ tree, row }) => `${tree}:${hex(row)}`);
    const head = hex(bytes.subarray(0, ID_HEADER_BYTES));
    return `${id}=${head} ${keys.sort().join(" ")} dropped ${dropped.join(" ")}`;
  });
  return { ...content, [IDS_TREE]: sorted };
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex");
}

/** The answer of a view as CouchDB would print it. Nothing is updated. */
export async function answerText(
  index: ViewIndex,
  design: string,
  view: string,
  parameters: Record<string, unknown> = {},
): Promise<string> {
  let text = "";
  for await (const piece of (
    await index.query(design, view, { update: false, ...parameters })
  ).text())
    text += piece;
  return text;
}

/** The same with `update_seq` and everything else that tells when, not what, left out. */
export interface ViewRows {
  readonly total_rows?: number;
  readonly rows: readonly {
    readonly id?: string;
    readonly key: unknown;
    readonly value: unknown;
  }[];
}

/** Names in an index directory, sorted: what a build may leave behind shows here. */
export function names(dir: string): string[] {
  return readdirSync(dir).sort();
}

/** The only index file of a directory. */
export function indexFile(dir: string): string {
  const files = names(dir).filter((name) => name.endsWith(".vmx"));
  if (files.length !== 1)
    throw new Error(`${dir} holds ${files.length} index files: ${files.join(" ")}`);
  return join(dir, files[0] ?? "");
}
