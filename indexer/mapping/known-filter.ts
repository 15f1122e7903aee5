// Tells documents that the index already holds in the same version, by looking their ids up in the id tree as committed.

import { Store } from "../../btree/index.js";
import { ID_UNCHANGED, idFlags } from "../views/id-entry.js";
import type { Slices } from "../sources/index.js";
import { groupReducers } from "../views/group-reducers.js";

const OPEN_MAX = 16;

/** Index files open for reading in this thread, the least recently used closed first. */
const stores = new Map<string, Store>();

async function openStore(path: string): Promise<Store> {
  let store = stores.get(path);
  if (store) stores.delete(path);
  else store = await Store.open(path, { mode: "read", reducers: groupReducers.countsOnly });
  stores.set(path, store);
  if (stores.size > OPEN_MAX) {
    const [oldest] = stores.entries();
    if (oldest) {
      stores.delete(oldest[0]);
      oldest[1].close();
    }
  }
  store.refresh();
  return store;
}

/** Forgets an index file that is about to be replaced or removed. */
export function forgetStore(path: string): void {
  stores.get(path)?.close();
  stores.delete(path);
}

/**
 * @returns one byte for each document of `slices`: 1 where the index holds this version. A document that is met twice in the
 * chunk is never called unchanged for its first occurrence only; both are compared with the same state.
 */
export async function unchangedDocuments(path: string, slices: Slices): Promise<Uint8Array> {
  const store = await openStore(path);
  const verdicts = new Uint8Array(slices.count);
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
