// An entry of the id tree: what a document's last mapping left in the index. The key is the document id (UTF-8), the value
//
//   flags u8 | version 8 B | (tree varint, keyLength varint, collation key)*
//
// one item per distinct key per view tree. `version` is a hash of the document's content: an equal one is not mapped again.
// In segments two more kinds of entry occur, which never reach the tree: a deletion, and a document found unchanged.

import { ByteCursor, varintLength, writeVarint } from "./row-value.js";

/** The document has records in the error tree. */
export const ID_ERRORS = 1;
/** Segments only: the document is deleted. */
export const ID_DELETED = 2;
/** Segments only: the index already held this version when the document was looked at. */
export const ID_UNCHANGED = 4;

/** Bytes before the items. */
export const ID_HEADER_BYTES = 9;

export interface EmittedKey {
  readonly tree: number;
  readonly key: Uint8Array;
}

export function idFlags(entry: Uint8Array): number {
  return entry[0] as number;
}

export function sameVersion(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 1; i < ID_HEADER_BYTES; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** The keys a document emitted, in stored order (by tree, then key). */
export function emittedKeys(entry: Uint8Array): EmittedKey[] {
  const cursor = new ByteCursor(entry, ID_HEADER_BYTES);
  const keys: EmittedKey[] = [];
  while (cursor.pos < entry.length) {
    const tree = cursor.varint();
    keys.push({ tree, key: cursor.take(cursor.varint()) });
  }
  return keys;
}

export function encodeIdEntry(
  flags: number,
  version: Uint8Array,
  keys: readonly EmittedKey[],
): Uint8Array {
  let size = ID_HEADER_BYTES;
  for (const { tree, key } of keys)
    size += varintLength(tree) + varintLength(key.length) + key.length;
  const entry = new Uint8Array(size);
  entry[0] = flags;
  entry.set(version.subarray(0, 8), 1);
  let pos = ID_HEADER_BYTES;
  for (const { tree, key } of keys) {
    pos = writeVarint(entry, pos, tree);
    pos = writeVarint(entry, pos, key.length);
    entry.set(key, pos);
    pos += key.length;
  }
  return entry;
}

/** The tree key of a view row: its collation key followed by the document id. */
export function rowKey(key: Uint8Array, docId: Uint8Array): Uint8Array {
  const joined = new Uint8Array(key.length + docId.length);
  joined.set(key);
  joined.set(docId, key.length);
  return joined;
}
