// An entry of the id tree: what a document's last mapping left in the index. The key is the document id (UTF-8), the value
//
//   flags u8 | version 8 B | [droppedLength varint, dropped rows]  if DROPPED
//            | (tree varint, keyLength varint, collation key)*
//   dropped rows = (tree varint, rowLength varint, row value)*
//
// one item per distinct key per view tree; their order means nothing. `version` is a hash of the document's content: an equal one is not
// mapped again. Dropped rows are those that another row of the document displaced, whose key is other text and collates equally (VIEWS §5):
// no query sees them, but in another version of the root order they may be rows of their own (renewal.ts). They stand by tree, then by
// their key's text, which the row value (row-value.ts) always holds. Views in raw order have none: that order does not change.
// In segments two more kinds of entry occur, which never reach the tree: a deletion, and a document found unchanged.

import { ByteCursor, varintLength, writeVarint } from "./row-value.js";

/** The document has records in the error tree. */
export const ID_ERRORS = 1;
/** The entry holds dropped rows. Since format 2 of the group (group-index.ts). */
export const ID_DROPPED = 8;
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

/** A row that is in no view tree, because another one of its document was kept in its place. */
export interface DroppedRow {
  readonly tree: number;
  /** A row value (row-value.ts) with the text of its key. */
  readonly row: Uint8Array;
}

export function idFlags(entry: Uint8Array): number {
  return entry[0] as number;
}

export function sameVersion(a: Uint8Array, b: Uint8Array): boolean {
  for (let i = 1; i < ID_HEADER_BYTES; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** The keys a document emitted, in stored order. */
export function emittedKeys(entry: Uint8Array): EmittedKey[] {
  const cursor = new ByteCursor(entry, ID_HEADER_BYTES);
  if (idFlags(entry) & ID_DROPPED) cursor.take(cursor.varint());
  const keys: EmittedKey[] = [];
  while (cursor.pos < entry.length) {
    const tree = cursor.varint();
    keys.push({ tree, key: cursor.take(cursor.varint()) });
  }
  return keys;
}

/** The rows of a document that were dropped, in stored order. */
export function droppedRows(entry: Uint8Array): DroppedRow[] {
  if ((idFlags(entry) & ID_DROPPED) === 0) return [];
  const length = new ByteCursor(entry, ID_HEADER_BYTES);
  const end = length.varint() + length.pos;
  const cursor = new ByteCursor(entry, length.pos, Math.min(end, entry.length));
  const rows: DroppedRow[] = [];
  while (cursor.pos < end) {
    const tree = cursor.varint();
    rows.push({ tree, row: cursor.take(cursor.varint()) });
  }
  return rows;
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

/** Whether two entries have the same keys, in the same order, and the same dropped rows. */
export function sameKeys(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length || (idFlags(a) ^ idFlags(b)) & ID_DROPPED) return false;
  for (let i = ID_HEADER_BYTES; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/**
 * @param flags - without `ID_DROPPED`, which is set as there are dropped rows.
 * @param dropped - in stored order.
 */
export function encodeIdEntry(
  flags: number,
  version: Uint8Array,
  keys: readonly EmittedKey[],
  dropped: readonly DroppedRow[] = [],
): Uint8Array {
  const droppedLength = dropped.reduce((sum, { tree, row }) => sum + itemLength(tree, row), 0);
  let size = ID_HEADER_BYTES;
  if (dropped.length > 0) size += varintLength(droppedLength) + droppedLength;
  for (const { tree, key } of keys) size += itemLength(tree, key);
  const entry = new Uint8Array(size);
  entry[0] = dropped.length > 0 ? flags | ID_DROPPED : flags;
  entry.set(version.subarray(0, 8), 1);
  let pos = ID_HEADER_BYTES;
  if (dropped.length > 0) pos = writeVarint(entry, pos, droppedLength);
  for (const { tree, row } of dropped) pos = writeItem(entry, pos, tree, row);
  for (const { tree, key } of keys) pos = writeItem(entry, pos, tree, key);
  return entry;
}

function itemLength(tree: number, bytes: Uint8Array): number {
  return varintLength(tree) + varintLength(bytes.length) + bytes.length;
}

function writeItem(entry: Uint8Array, at: number, tree: number, bytes: Uint8Array): number {
  const pos = writeVarint(entry, writeVarint(entry, at, tree), bytes.length);
  entry.set(bytes, pos);
  return pos + bytes.length;
}

/** The tree key of a view row: its collation key followed by the document id. */
export function rowKey(key: Uint8Array, docId: Uint8Array): Uint8Array {
  const joined = new Uint8Array(key.length + docId.length);
  joined.set(key);
  joined.set(docId, key.length);
  return joined;
}
