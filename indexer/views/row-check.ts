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
  for (const text of values)
    JSON.parse(Buffer.from(text.buffer, text.byteOffset, text.length).toString("utf8"));
  return undefined;
}
