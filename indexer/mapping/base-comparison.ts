// Compares what a chunk's documents came to with what the index holds of them, in the thread that has looked them up: so whoever applies
// the result need not read the same leaves again. What is found goes into the flags of the entries (views/id-entry.ts).

import type { EntryBatch } from "../../btree/index.js";
import {
  emittedKeys,
  ENTRY_ABSENT,
  ENTRY_BASED,
  ENTRY_HAD_ERRORS,
  ENTRY_LOST_ROW,
  ENTRY_SAME_ROWS,
  ID_DELETED,
  ID_ERRORS,
  ID_UNCHANGED,
  idFlags,
  lostKeys,
  sameKeys,
} from "../views/id-entry.js";
import type { DocumentRef } from "./chunk-encoder.js";
import type { KnownDocuments } from "./known-filter.js";
import type { KnownBase } from "./types.js";

export class BaseComparison {
  readonly #known: KnownDocuments;
  readonly #ids: EntryBatch;
  readonly #views: readonly EntryBatch[];
  readonly #rows: boolean;
  /** By ordinal: id entries of documents whose keys are the same, and whose rows may be. */
  readonly #candidates = new Map<number, number>();

  /** @param ids, views - where the chunk's entries are gathered. */
  constructor(known: KnownDocuments, ids: EntryBatch, views: readonly EntryBatch[], rows: boolean) {
    this.#known = known;
    this.#ids = ids;
    this.#views = views;
    this.#rows = rows;
  }

  get base(): KnownBase {
    return this.#known.base;
  }

  /**
   * Compares the document whose id entry was pushed last.
   *
   * @param entry - its value.
   * @param rows - it emitted.
   */
  document(doc: DocumentRef, entry: Uint8Array, rows: number): void {
    const { before } = doc;
    const at = this.#ids.length - 1;
    const flags = idFlags(entry);
    if (!before || flags & ID_UNCHANGED) {
      this.#ids.mark(at, before ? ENTRY_BASED : ENTRY_BASED | ENTRY_ABSENT);
      return;
    }
    const hadErrors = (idFlags(before) & ID_ERRORS) !== 0;
    this.#ids.mark(at, hadErrors ? ENTRY_BASED | ENTRY_HAD_ERRORS : ENTRY_BASED);
    if ((flags & ID_DELETED) === 0 && sameKeys(before, entry)) {
      // A key that was emitted twice makes one entry of several rows: whoever applies it compares.
      if (this.#rows && (rows === 0 || rows === emittedKeys(entry).length))
        this.#candidates.set(doc.ordinal, at);
      return;
    }
    const after = flags & ID_DELETED ? [] : emittedKeys(entry);
    for (const { tree, key } of lostKeys(emittedKeys(before), after)) this.#lose(tree, key, doc);
  }

  /** To be called once everything was pushed: tells whose rows the index holds as they are. */
  finish(): void {
    const candidates = this.#candidates;
    for (const [tree, batch] of this.#views.entries()) {
      if (candidates.size === 0) return;
      batch.sort();
      const { bytes } = batch;
      const positions: number[] = [];
      const keys: Uint8Array[] = [];
      for (let i = 0; i < batch.length; i++) {
        if (!candidates.has(batch.ordinal(i))) continue;
        positions.push(i);
        keys.push(bytes.subarray(batch.keyStart(i), batch.keyEnd(i)));
      }
      for (const [n, value] of this.#known.rows(tree, keys).entries()) {
        const i = positions[n] as number;
        if (!value || !isAt(value, bytes, batch.valueStart(i), batch.valueEnd(i)))
          candidates.delete(batch.ordinal(i));
      }
    }
    for (const at of candidates.values()) this.#ids.mark(at, ENTRY_SAME_ROWS);
    candidates.clear();
  }

  #lose(tree: number, key: Uint8Array, { ids, idStart, idEnd, ordinal }: DocumentRef): void {
    const batch = this.#views[tree];
    if (!batch) throw new Error("viewmill bug: an id entry names a view tree that does not exist");
    batch.ensure(key.length + idEnd - idStart);
    const start = batch.used;
    batch.bytes.set(key, start);
    batch.bytes.set(ids.subarray(idStart, idEnd), start + key.length);
    const end = start + key.length + idEnd - idStart;
    batch.used = end;
    batch.push(start, end, end, end, ordinal, ENTRY_LOST_ROW);
  }
}

function isAt(value: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (value.length !== end - start) return false;
  for (let i = 0; i < value.length; i++) if (value[i] !== bytes[start + i]) return false;
  return true;
}
