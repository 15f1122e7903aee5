// Which keys each document has, gathered tree by tree while a renewal (renewal.ts) makes them, and laid beside the old id tree for the
// new one: entries are sorted by document on disk, so that memory does not grow with the index.
//
// A sorted entry has the key  document id, 00 | number of the tree, two bytes | kind, one byte | name  and a value:
//
//   kind      name             value
//   RENEWED   old key          new key
//   RETURNED  new key          none       of a row that had been dropped
//   DROPPED   text of the key  the row    as it is kept in the id entry from now on
//
// In the id 00 is written 01 01, and 01 is written 01 02, so that ids come in the order of their bytes.

import type { EntryTarget, TreeBuilder } from "../../btree/index.js";
import { IndexerError } from "../errors.js";
import {
  emittedKeys,
  encodeIdEntry,
  ID_DROPPED,
  ID_HEADER_BYTES,
  idFlags,
  type DroppedRow,
  type EmittedKey,
} from "./id-entry.js";
import { RowSorter } from "./row-sorter.js";
import { decodeRowValue } from "./row-value.js";

const TREE_BYTES = 2;
const HEAD_BYTES = TREE_BYTES + 1;
const RENEWED = 0;
const RETURNED = 1;
const DROPPED = 2;
const NOTHING = new Uint8Array(0);

export class DocumentKeys {
  readonly #sorter: RowSorter;

  /** @param path - of the file in which they are sorted. */
  constructor(path: string) {
    this.#sorter = new RowSorter(path);
  }

  /** Notes what became of a document's key in this tree. */
  renewed(tree: number, old: Uint8Array, made: Uint8Array, id: Uint8Array): void {
    this.#add(tree, RENEWED, old, made, id);
  }

  /** Notes the key of a row that had been dropped. */
  returned(tree: number, made: Uint8Array, id: Uint8Array): void {
    this.#add(tree, RETURNED, made, NOTHING, id);
  }

  /** Notes a row that is dropped in the new order. */
  dropped(tree: number, row: Uint8Array, id: Uint8Array): void {
    this.#add(tree, DROPPED, keyTextOf(row), row, id);
  }

  #add(tree: number, kind: number, name: Uint8Array, value: Uint8Array, id: Uint8Array): void {
    const { batch } = this.#sorter;
    batch.ensure(2 * id.length + 1 + HEAD_BYTES + name.length + value.length);
    const start = batch.used;
    let at = writeId(id, batch.bytes, start);
    batch.bytes[at++] = tree >>> 8;
    batch.bytes[at++] = tree & 0xff;
    batch.bytes[at++] = kind;
    batch.bytes.set(name, at);
    batch.bytes.set(value, at + name.length);
    batch.used = at + name.length + value.length;
    this.#sorter.push(start, at + name.length, batch.used);
  }

  /** Makes the new id tree of the entries of the old one. `end` is to be called after the last. */
  idTree(
    builder: TreeBuilder,
    isRenewed: (tree: number) => boolean,
  ): EntryTarget & { end(): void } {
    const sorted = this.#sorter.sorted();
    let place = new Uint8Array(256);
    let next = sorted.next();
    return {
      add: (kb, ks, ke, vb, vs, ve) => {
        const old = vb.subarray(vs, ve);
        if (place.length < 2 * (ke - ks) + 1) place = new Uint8Array(4 * (ke - ks));
        const length = writeId(kb.subarray(ks, ke), place, 0);
        const made = new Map<string, Uint8Array>();
        const returned: EmittedKey[] = [];
        const dropped: DroppedRow[] = [];
        for (; next.done !== true; next = sorted.next()) {
          const { key } = next.value;
          const order = Buffer.compare(key.subarray(0, length), place.subarray(0, length));
          if (order > 0) break;
          if (order < 0) throw unknownDocument(key);
          const tree = ((key[length] as number) << 8) | (key[length + 1] as number);
          const kind = key[length + TREE_BYTES];
          const name = { tree, key: key.subarray(length + HEAD_BYTES) };
          if (kind === RENEWED) made.set(nameOf(name), next.value.value);
          else if (kind === RETURNED) returned.push(name);
          else dropped.push({ tree, row: next.value.value });
        }
        const keys = emittedKeys(old).map((emitted) => {
          if (!isRenewed(emitted.tree)) return emitted;
          const key = made.get(nameOf(emitted));
          if (key === undefined) throw missingRow(kb.subarray(ks, ke));
          return { tree: emitted.tree, key };
        });
        const entry = renewedEntry(old, [...keys, ...returned], dropped);
        builder.add(kb, ks, ke, entry, 0, entry.length);
      },
      get needsDrain() {
        return builder.needsDrain;
      },
      drain: () => builder.drain(),
      end: () => {
        if (next.done !== true) throw unknownDocument(next.value.key);
      },
    };
  }

  close(): void {
    this.#sorter.close();
  }
}

/**
 * The id entry with other keys and dropped rows, which may come in any order.
 *
 * @param made - its keys. Of those that are one, which is one row then, the first stays.
 */
export function renewedEntry(
  entry: Uint8Array,
  made: readonly EmittedKey[],
  dropped: readonly DroppedRow[],
): Uint8Array {
  const keys = new Map<string, EmittedKey>();
  for (const emitted of made) {
    const name = nameOf(emitted);
    if (!keys.has(name)) keys.set(name, emitted);
  }
  return encodeIdEntry(
    idFlags(entry) & ~ID_DROPPED,
    entry.subarray(1, ID_HEADER_BYTES),
    [...keys.values()],
    dropped.length > 1 ? [...dropped].sort(inStoredOrder) : dropped,
  );
}

function inStoredOrder(a: DroppedRow, b: DroppedRow): number {
  return a.tree - b.tree || Buffer.compare(keyTextOf(a.row), keyTextOf(b.row));
}

function keyTextOf(row: Uint8Array): Uint8Array {
  return decodeRowValue(row).keyText ?? NOTHING;
}

/** Tells a document's keys apart. */
export function nameOf({ tree, key }: EmittedKey): string {
  const bytes = Buffer.from(key.buffer, key.byteOffset, key.length);
  return `${tree}:${bytes.toString("latin1")}`;
}

/** @returns the index after what was written. */
function writeId(id: Uint8Array, dst: Uint8Array, at: number): number {
  for (const byte of id) {
    if (byte < 2) {
      dst[at++] = 1;
      dst[at++] = 1 + byte;
    } else dst[at++] = byte;
  }
  dst[at++] = 0;
  return at;
}

function unknownDocument(key: Uint8Array): IndexerError {
  const id = Buffer.from(key.subarray(0, key.indexOf(0))).toString("utf8");
  return inconsistent(
    `there is a row of document ${JSON.stringify(id)}, which the id tree does not have`,
  );
}

export function missingRow(id: Uint8Array): IndexerError {
  return inconsistent(
    `document ${JSON.stringify(Buffer.from(id).toString("utf8"))} lists a key of which there is no row`,
  );
}

/** For an index file whose trees contradict each other, which only damage or a bug can bring about. */
function inconsistent(what: string): IndexerError {
  return new IndexerError(
    "INDEXER_INCONSISTENT",
    `${what}. Run \`viewmill verify\` to see all that is wrong, and \`viewmill build --rebuild\` to build anew`,
  );
}
