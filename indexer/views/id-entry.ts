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

// Flags of buffered entries (EntryBatch), which say what the mapping thread found in the index as committed. Bit 0 is CANCEL.

/** Id entry: it was compared with the index; the next three say how. */
export const ENTRY_BASED = 2;
/** Id entry: the index holds the document's rows just as they are, all of them. */
export const ENTRY_SAME_ROWS = 4;
/** Id entry: the index does not know the document. */
export const ENTRY_ABSENT = 8;
/** Id entry: the index has error records of the document. */
export const ENTRY_HAD_ERRORS = 16;
/** Row: the document has lost it. */
export const ENTRY_LOST_ROW = 2;

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

/** The keys a document emitted, in stored order: by tree, then as they were emitted. */
export function emittedKeys(entry: Uint8Array): EmittedKey[] {
  const cursor = new ByteCursor(entry, ID_HEADER_BYTES);
  const keys: EmittedKey[] = [];
  while (cursor.pos < entry.length) {
    const tree = cursor.varint();
    keys.push({ tree, key: cursor.take(cursor.varint()) });
  }
  return keys;
}

/** Past this many keys a document's old and new keys are compared by a set. */
const PAIRWISE_MAX = 16;

/** The keys that a document emitted before and does not any more. */
export function lostKeys(
  before: readonly EmittedKey[],
  after: readonly EmittedKey[],
): readonly EmittedKey[] {
  if (after.length === 0) return before;
  if (before.length <= PAIRWISE_MAX && after.length <= PAIRWISE_MAX)
    return before.filter(
      ({ tree, key }) =>
        !after.some((other) => other.tree === tree && Buffer.compare(other.key, key) === 0),
    );
  const kept = new Set(after.map(nameOf));
  return before.filter((emitted) => !kept.has(nameOf(emitted)));
}

function nameOf({ tree, key }: EmittedKey): string {
  return `${tree}:${Buffer.from(key).toString("latin1")}`;
}

/** Whether two entries have the same keys, in the same order. */
export function sameKeys(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = ID_HEADER_BYTES; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
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
