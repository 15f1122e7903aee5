// Whether one row of a view tree is what its format says.

import { isUtf8 } from "node:buffer";

import type { Bytes } from "../../btree/index.js";
import { decodeKey, encodeKeyText, keyEnd, type CollationKind } from "../collation/index.js";
import { decodeRowValue } from "./row-value.js";

/**
 * What is wrong with it; undefined when nothing is.
 *
 * @param version - of the root order that the tree is kept in.
 * @param start - where the collation key begins: after the partition, if there is one.
 * @throws RangeError, SyntaxError for bytes that are no row at all.
 */
export function rowFault(
  collation: CollationKind,
  version: number,
  key: Bytes,
  start: number,
  value: Bytes,
): string | undefined {
  const end = keyEnd(collation, key, start);
  if (end > key.length) return "the row's key breaks the format";
  if (!isUtf8(key.subarray(end))) return "the row's document id is not UTF-8";
  const { keyText, values } = decodeRowValue(value);
  if (keyText === undefined) decodeKey(collation, key, start, end, version);
  else if (
    Buffer.compare(encodeKeyText(collation, keyText, version), key.subarray(start, end)) !== 0
  )
    return "the row's key is not that of its text";
  parse(values);
  return undefined;
}

/**
 * What is wrong with a dropped row of an id entry; undefined when nothing is.
 *
 * @param version - of the root order that the file is kept in.
 * @param partition - that its document's keys begin with; empty in a group that is not kept by partition.
 * @param listed - the keys that the document has in the row's tree.
 * @throws RangeError, SyntaxError for bytes that are no row at all.
 */
export function droppedFault(
  version: number,
  partition: Bytes,
  listed: readonly Bytes[],
  row: Bytes,
): string | undefined {
  const { keyText, values } = decodeRowValue(row);
  if (keyText === undefined) return "has no key";
  parse(values);
  const key = Buffer.concat([partition, encodeKeyText("root", keyText, version)]);
  return listed.some((one) => key.equals(one)) ? undefined : "displaces no row that there is";
}

function parse(values: readonly Bytes[]): void {
  for (const text of values)
    JSON.parse(Buffer.from(text.buffer, text.byteOffset, text.length).toString("utf8"));
}
