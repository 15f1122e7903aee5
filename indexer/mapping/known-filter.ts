// Tells documents that the index already holds in the same version, by looking their ids up in the id tree as committed.

import { statSync } from "node:fs";

import { Store } from "../../btree/index.js";
import { ID_UNCHANGED, idFlags } from "../views/id-entry.js";
import type { Slices } from "../sources/index.js";
import { groupReducers } from "../views/group-reducers.js";

const OPEN_MAX = 16;

interface OpenFile {
  readonly store: Store;
  /** Device and inode it had when it was opened. */
  readonly identity: string;
}

/** Index files open for reading in this thread, the least recently used first. */
const files = new Map<string, OpenFile>();

function identityOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch {
    return undefined;
  }
}

async function forget(path: string, { store }: OpenFile): Promise<void> {
  files.delete(path);
  await store.close();
}

/** A compaction or rebuild may have removed or replaced a file: kept open, it would hold its disk space. */
async function forgetRemoved(): Promise<void> {
  for (const [path, file] of [...files]) if (identityOf(path) !== file.identity) await forget(path, file);
}

/** Undefined when the file is gone. */
async function openStore(path: string): Promise<Store | undefined> {
  await forgetRemoved();
  let file = files.get(path);
  if (file) files.delete(path);
  else {
    const identity = identityOf(path);
    if (identity === undefined) return undefined;
    let store: Store;
    try {
      store = await Store.open(path, { mode: "read", reducers: groupReducers.countsOnly });
    } catch (error) {
      if ((error as { code?: string }).code === "BTREE_NOT_FOUND") return undefined;
      throw error;
    }
    file = { store, identity };
  }
  files.set(path, file);
  if (files.size > OPEN_MAX) {
    const [oldest] = files;
    if (oldest) await forget(...oldest);
  }
  file.store.refresh();
  return file.store;
}

/**
 * @returns one byte for each document of `slices`: 1 where the index holds this version. A document that is met twice in the
 * chunk is never called unchanged for its first occurrence only; both are compared with the same state. When a compaction has put
 * another file in the place of this one meanwhile, no document is known: it is mapped, and found to be the same when it is applied.
 */
export async function unchangedDocuments(path: string, slices: Slices): Promise<Uint8Array> {
  const verdicts = new Uint8Array(slices.count);
  const store = await openStore(path);
  if (!store) return verdicts;
  const order = Array.from({ length: slices.count }, (_, i) => ({
    i,
    id: slices.ids.subarray(slices.idStart[i], slices.idEnd[i]),
  })).sort((a, b) => Buffer.compare(a.id, b.id));
  const unique = order.filter(({ id }, n) => n === 0 || Buffer.compare(id, order[n - 1]?.id ?? id) !== 0);
  const snapshot = store.snapshot();
  try {
    const found = snapshot.tree("ids").getMany(unique.map(({ id }) => id));
    let at = -1;
    for (const [n, { i, id }] of order.entries()) {
      const previous = order[n - 1];
      if (!previous || Buffer.compare(id, previous.id) !== 0) at++;
      const entry = found[at];
      if (!entry || idFlags(entry) & ID_UNCHANGED) continue;
      const view = new DataView(entry.buffer, entry.byteOffset, entry.byteLength);
      if (view.getUint32(1, true) === slices.hashLow[i] && view.getUint32(5, true) === slices.hashHigh[i])
        verdicts[i] = 1;
    }
  } finally {
    snapshot.release();
  }
  return verdicts;
}
