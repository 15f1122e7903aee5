// What a renewal (renewal.ts) has to catch up with: the documents that differ between two states of the old file, each taken over whole.
// Rows of a document are nobody else's in either order, so its rows of then can go and its rows of now come without a look at others.

import { treeChanges, type Bytes, type Snapshot, type TreeOp } from "../../btree/index.js";
import { ByteBuffer } from "../collation/index.js";
import type { ViewGroupSpec } from "./design-document.js";
import { missingRow, nameOf, renewedEntry } from "./document-keys.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./group-reducers.js";
import { droppedRows, emittedKeys, rowKey, type DroppedRow, type EmittedKey } from "./id-entry.js";
import type { RowRenewer } from "./renewed-rows.js";

/** Changes are applied in batches of at most so many operations or bytes. */
const BATCH_OPS_MAX = 5000;
const BATCH_BYTES_MAX = 4 * 2 ** 20;

/** Operations on the new trees, by tree. */
export interface Batch {
  readonly changes: ReadonlyMap<string, readonly TreeOp[]>;
  readonly operations: number;
}

interface Row extends EmittedKey {
  readonly value: Bytes;
}

export class RenewedDocuments {
  readonly #spec: ViewGroupSpec;
  readonly #renewer: RowRenewer;
  readonly #before: Snapshot;
  readonly #after: Snapshot;
  readonly #sink = new ByteBuffer();
  /** Operations of the batch under way: by tree, then by key. A later one of a key takes the place of an earlier one. */
  #ops = new Map<string, Map<string, TreeOp>>();
  #count = 0;
  #bytes = 0;

  constructor(spec: ViewGroupSpec, renewer: RowRenewer, before: Snapshot, after: Snapshot) {
    this.#spec = spec;
    this.#renewer = renewer;
    this.#before = before;
    this.#after = after;
  }

  /** Lazy. @throws BtreeError; IndexerError INDEXER_INCONSISTENT. */
  *batches(): IterableIterator<Batch> {
    for (const { key, value } of this.#changes(IDS_TREE)) {
      this.#document(key, value);
      if (this.#isFull) yield this.#take();
    }
    // A document that was mapped again to other values under the same keys has the same id entry.
    for (const { number, collation } of this.#spec.trees)
      for (const { key, value } of this.#changes(viewTreeName(number))) {
        if (collation === "raw") this.#put(viewTreeName(number), key, value);
        else {
          const id = key.subarray(this.#renewer.idStart(key));
          const entry = this.#after.tree(IDS_TREE).get(id);
          if (sameEntry(this.#before.tree(IDS_TREE).get(id), entry)) this.#document(id, entry);
        }
        if (this.#isFull) yield this.#take();
      }
    for (const { key, value } of this.#changes(ERRORS_TREE)) {
      this.#put(ERRORS_TREE, key, value);
      if (this.#isFull) yield this.#take();
    }
    if (this.#count > 0) yield this.#take();
  }

  /** Rows in raw order are taken over as they are, by `batches`. */
  #document(id: Bytes, entry: Bytes | undefined): void {
    const before = this.#before.tree(IDS_TREE).get(id);
    for (const { tree, key } of before ? this.#renewedRows(this.#before, id, before) : [])
      this.#put(viewTreeName(tree), rowKey(key, id), undefined);
    if (entry === undefined) {
      this.#put(IDS_TREE, id, undefined);
      return;
    }
    const rows = new Map<string, Row>();
    const dropped: DroppedRow[] = [];
    for (const row of this.#renewedRows(this.#after, id, entry)) {
      const name = nameOf(row);
      const other = rows.get(name);
      if (!other) {
        rows.set(name, row);
        continue;
      }
      const settled = this.#renewer.settle(row.key, other.value, row.value);
      rows.set(name, { ...row, value: settled.kept });
      dropped.push({ tree: row.tree, row: settled.dropped });
    }
    for (const { tree, key, value } of rows.values())
      this.#put(viewTreeName(tree), rowKey(key, id), value);
    const raw = emittedKeys(entry).filter(({ tree }) => this.#isRaw(tree));
    this.#put(IDS_TREE, id, renewedEntry(entry, [...raw, ...rows.values()], dropped));
  }

  /** A document's rows in trees in root order, the dropped ones too, under their new keys: several may have one. */
  *#renewedRows(snapshot: Snapshot, id: Bytes, entry: Bytes): IterableIterator<Row> {
    for (const { tree, key } of emittedKeys(entry)) {
      if (this.#isRaw(tree)) continue;
      const value = snapshot.tree(viewTreeName(tree)).get(rowKey(key, id));
      if (value === undefined) throw missingRow(id);
      yield this.#renewed(tree, key, value);
    }
    for (const { tree, row } of droppedRows(entry)) yield this.#renewed(tree, id, row);
  }

  #renewed(tree: number, key: Bytes, value: Bytes): Row {
    this.#sink.clear();
    const renewed = this.#renewer.renew(key, value, this.#sink);
    return { tree, key: this.#sink.take(), value: renewed };
  }

  #isRaw(tree: number): boolean {
    return this.#spec.trees[tree]?.collation === "raw";
  }

  #changes(tree: string): IterableIterator<TreeOp> {
    return treeChanges(this.#before.tree(tree), this.#after.tree(tree));
  }

  #put(tree: string, key: Bytes, value: Bytes | undefined): void {
    let ops = this.#ops.get(tree);
    if (!ops) this.#ops.set(tree, (ops = new Map<string, TreeOp>()));
    ops.set(latin1(key), { key, value });
    this.#count++;
    this.#bytes += key.length + (value?.length ?? 0);
  }

  get #isFull(): boolean {
    return this.#count >= BATCH_OPS_MAX || this.#bytes >= BATCH_BYTES_MAX;
  }

  #take(): Batch {
    const changes = new Map<string, readonly TreeOp[]>();
    for (const [tree, ops] of this.#ops)
      changes.set(
        tree,
        [...ops.values()].sort((a, b) => Buffer.compare(a.key, b.key)),
      );
    const operations = this.#count;
    this.#ops = new Map();
    this.#count = 0;
    this.#bytes = 0;
    return { changes, operations };
  }
}

function sameEntry(a: Bytes | undefined, b: Bytes | undefined): boolean {
  return a !== undefined && b !== undefined && Buffer.compare(a, b) === 0;
}

function latin1(bytes: Bytes): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}
