// Which keys each document has, gathered tree by tree while a renewal (renewal.ts) makes them, and laid beside the old id tree for the
// new one: entries are sorted by document on disk, so that memory does not grow with the index.
//
// A sorted entry has the key  document id, 00 | number of the tree, two bytes | old key  and the new key as its value. In the id 00 is
// written 01 01, and 01 is written 01 02, so that ids come in the order of their bytes.

import type { EntryTarget, TreeBuilder } from "../../btree/index.js";
import { IndexerError } from "../errors.js";
import {
  emittedKeys,
  encodeIdEntry,
  ID_HEADER_BYTES,
  idFlags,
  type EmittedKey,
} from "./id-entry.js";
import { RowSorter } from "./row-sorter.js";

const TREE_BYTES = 2;

export class DocumentKeys {
  readonly #sorter: RowSorter;

  /** @param path - of the file in which they are sorted. */
  constructor(path: string) {
    this.#sorter = new RowSorter(path);
  }

  /** Notes what became of a document's key in this tree. */
  add(tree: number, old: Uint8Array, made: Uint8Array, id: Uint8Array): void {
    const { batch } = this.#sorter;
    batch.ensure(2 * id.length + 1 + TREE_BYTES + old.length + made.length);
    const start = batch.used;
    let at = writeId(id, batch.bytes, start);
    batch.bytes[at++] = tree >>> 8;
    batch.bytes[at++] = tree & 0xff;
    batch.bytes.set(old, at);
    batch.bytes.set(made, at + old.length);
    batch.used = at + old.length + made.length;
    this.#sorter.push(start, at + old.length, batch.used);
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
        for (; next.done !== true; next = sorted.next()) {
          const { key } = next.value;
          const order = Buffer.compare(key.subarray(0, length), place.subarray(0, length));
          if (order > 0) break;
          if (order < 0) throw unknownDocument(key);
          const tree = ((key[length] as number) << 8) | (key[length + 1] as number);
          made.set(nameOf({ tree, key: key.subarray(length + TREE_BYTES) }), next.value.value);
        }
        const entry = withKeys(old, (emitted) => {
          if (!isRenewed(emitted.tree)) return emitted.key;
          const key = made.get(nameOf(emitted));
          if (key === undefined) throw missingRow(kb.subarray(ks, ke));
          return key;
        });
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

/** The id entry with what became of its keys. Of those that have become one, which is one row then, the first stays. */
export function withKeys(
  entry: Uint8Array,
  madeOf: (emitted: EmittedKey) => Uint8Array,
): Uint8Array {
  const keys = new Map<string, EmittedKey>();
  for (const emitted of emittedKeys(entry)) {
    const made = { tree: emitted.tree, key: madeOf(emitted) };
    const name = nameOf(made);
    if (!keys.has(name)) keys.set(name, made);
  }
  return encodeIdEntry(idFlags(entry), entry.subarray(1, ID_HEADER_BYTES), [...keys.values()]);
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
