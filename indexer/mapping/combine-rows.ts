// Several rows of one document with one collation key (VIEWS §5).

import type { CombinedValue, EntryBatch } from "../../btree/index.js";
import { decodeKey, encodeKeyText, type CollationKind } from "../collation/index.js";
import { partitionEnd } from "../views/partitions.js";
import { decodeRowValue, encodeRowValue } from "../views/row-value.js";

/** How the keys of a batch are made. */
export interface RowKeys {
  readonly kind: CollationKind;
  /** Of the root order. */
  readonly version: number;
  /** A partition stands before the collation key. */
  readonly partitioned: boolean;
}

/**
 * One value of entries [first, last] of a sorted batch, which have equal key and ordinal: of different spellings of the key the
 * one with the higher bytes survives; the values of equal spellings are all kept, in Erlang term order.
 */
export function combineRows(
  { kind, version, partitioned }: RowKeys,
  batch: EntryBatch,
  first: number,
  last: number,
): CombinedValue {
  let best: Buffer | undefined;
  let bestText: Uint8Array | undefined;
  let values: Uint8Array[] = [];
  for (let i = first; i <= last; i++) {
    const entry = decodeRowValue(batch.bytes.subarray(batch.valueStart(i), batch.valueEnd(i)));
    const end = batch.keyEnd(i);
    const start = partitioned
      ? partitionEnd(batch.bytes, batch.keyStart(i), end)
      : batch.keyStart(i);
    const text = Buffer.from(entry.keyText ?? decodeKey(kind, batch.bytes, start, end, version));
    const order = best === undefined ? 1 : Buffer.compare(text, best);
    if (order > 0) {
      best = text;
      bestText = entry.keyText;
      values = [];
    }
    if (order >= 0) values.push(...entry.values);
  }
  const sorted = values
    .map((value) => ({ value, order: encodeKeyText("raw", value) }))
    .sort((a, b) => Buffer.compare(a.order, b.order))
    .map(({ value }) => value);
  const bytes = encodeRowValue({ keyText: bestText, values: sorted });
  return { bytes, start: 0, end: bytes.length };
}
