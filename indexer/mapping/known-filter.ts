// What the index already holds of the documents of a chunk: their ids are looked up in the id tree as committed.

import { statSync } from "node:fs";

import { EntryBatch, Store, type Snapshot } from "../../btree/index.js";
import type { Slices } from "../sources/index.js";
import { groupReducers, IDS_TREE, viewTreeName } from "../views/group-reducers.js";
import type { KnownBase } from "./types.js";

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
  for (const [path, file] of [...files])
    if (identityOf(path) !== file.identity) await forget(path, file);
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

/** What the index holds of the documents of a chunk, in its committed state. To be released. */
export class KnownDocuments {
  readonly base: KnownBase;
  /** One byte for each document: 1 where the index holds this version. */
  readonly unchanged: Uint8Array;
  /** By position in the chunk: the id tree's entry. */
  readonly entries: readonly (Uint8Array | undefined)[];
  readonly #snapshot: Snapshot;

  constructor(path: string, store: Store, slices: Slices) {
    this.base = { path, commit: store.commitNumber };
    this.unchanged = new Uint8Array(slices.count);
    const entries = new Array<Uint8Array | undefined>(slices.count).fill(undefined);
    // Sorted by radix: comparing thousands of ids by calls costs more than looking them up.
    const order = sortedIds(slices);
    this.#snapshot = store.snapshot();
    const found = this.#snapshot.tree(IDS_TREE).getMany(order.unique);
    let at = -1;
    for (let n = 0; n < order.documents.length; n++) {
      if (order.first[n] === 1) at++;
      const entry = found[at];
      if (!entry) continue;
      const i = order.documents[n] as number;
      entries[i] = entry;
      if (readWord(entry, 1) === slices.hashLow[i] && readWord(entry, 5) === slices.hashHigh[i])
        this.unchanged[i] = 1;
    }
    this.entries = entries;
  }

  /** Values of a view's entries, by sorted row keys. */
  rows(tree: number, sortedKeys: readonly Uint8Array[]): (Uint8Array | undefined)[] {
    return this.#snapshot.tree(viewTreeName(tree)).getMany(sortedKeys);
  }

  release(): void {
    this.#snapshot.release();
  }
}

/**
 * A document that is met twice in the chunk is never called unchanged for its first occurrence only; both are compared with the same
 * state.
 *
 * @returns undefined when a compaction has put another file in the place of this one meanwhile: no document is known then; it is
 * mapped, and found to be the same when it is applied.
 */
export async function knownDocuments(
  path: string,
  slices: Slices,
): Promise<KnownDocuments | undefined> {
  const store = await openStore(path);
  return store && new KnownDocuments(path, store, slices);
}

/** Documents by id. */
interface IdOrder {
  readonly documents: Uint32Array;
  /** 1 where an id is met for the first time. */
  readonly first: Uint8Array;
  readonly unique: readonly Uint8Array[];
}

const arena = new EntryBatch();

function sortedIds(slices: Slices): IdOrder {
  arena.clear();
  for (let i = 0; i < slices.count; i++) {
    const from = slices.idStart[i] as number;
    const to = slices.idEnd[i] as number;
    arena.ensure(to - from);
    const start = arena.used;
    const { bytes } = arena;
    for (let k = from, at = start; k < to; k++) bytes[at++] = slices.ids[k] as number;
    arena.used = start + to - from;
    arena.push(start, arena.used, arena.used, arena.used, i);
  }
  arena.sort();
  const count = arena.length;
  const documents = new Uint32Array(count);
  const first = new Uint8Array(count);
  const unique: Uint8Array[] = [];
  let last: Uint8Array | undefined;
  for (let n = 0; n < count; n++) {
    documents[n] = arena.ordinal(n);
    const id = arena.bytes.subarray(arena.keyStart(n), arena.keyEnd(n));
    if (last && sameBytes(last, id)) continue;
    first[n] = 1;
    unique.push(id);
    last = id;
  }
  return { documents, first, unique };
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function readWord(bytes: Uint8Array, at: number): number {
  const low =
    (bytes[at] as number) | ((bytes[at + 1] as number) << 8) | ((bytes[at + 2] as number) << 16);
  return (low | ((bytes[at + 3] as number) << 24)) >>> 0;
}
