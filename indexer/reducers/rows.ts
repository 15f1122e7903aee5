// Reads the entries of leaf slices: key text, document id, and the values in the order in which CouchDB hands them
// to reduces: the values of one document and key come last first there (VIEWS §5, §15).

import { type CollationKind, decodeKey, keyEnd } from "../collation/index.js";
import { ByteCursor, ROW_DUPS, ROW_KEY_TEXT } from "../views/row-value.js";
import { textOf } from "./term.js";

/** Where keys lie in tree keys: `[partition] collation key, document id`. */
export interface KeyLayout {
  readonly collation: CollationKind;
  /** Version of the root order. */
  readonly version: number;
  /** Index of the collation key. */
  readonly keyStart: (key: Uint8Array) => number;
}

/** Called with where one value's JSON text lies. */
export type ValueVisitor = (bytes: Uint8Array, start: number, end: number) => void;

/** Calls `visit` for each value of an entry. */
export function visitValues(entry: Uint8Array, visit: ValueVisitor): void {
  const flags = entry[0] as number;
  const cursor = new ByteCursor(entry, 1);
  if (flags & ROW_KEY_TEXT) cursor.take(cursor.varint());
  if ((flags & ROW_DUPS) === 0) {
    visit(entry, cursor.pos, entry.length);
    return;
  }
  const count = cursor.varint();
  const bounds = new Array<number>(2 * count);
  for (let i = 0; i < count; i++) {
    const length = cursor.varint();
    bounds[2 * i] = cursor.pos;
    bounds[2 * i + 1] = cursor.pos + length;
    cursor.pos += length;
  }
  for (let i = count - 1; i >= 0; i--) {
    visit(entry, bounds[2 * i] as number, bounds[2 * i + 1] as number);
  }
}

/** Text of the key of an entry as it was emitted. */
export function keyText(layout: KeyLayout, key: Uint8Array, entry: Uint8Array): string {
  if ((entry[0] as number) & ROW_KEY_TEXT) {
    const cursor = new ByteCursor(entry, 1);
    return textOf(cursor.take(cursor.varint()));
  }
  return decodeKey(layout.collation, key, layout.keyStart(key), key.length, layout.version);
}

/** Bytes of the document id in a tree key. */
export function docIdOf(layout: KeyLayout, key: Uint8Array): Uint8Array {
  return key.subarray(keyEnd(layout.collation, key, layout.keyStart(key)));
}
