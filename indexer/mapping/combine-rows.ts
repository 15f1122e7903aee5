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

/** The rows of one document and collation key whose keys are the same text. */
interface Spelling {
  readonly text: Buffer;
  /** Unless it can be told from the collation key. */
  readonly keyText: Uint8Array | undefined;
  readonly values: Uint8Array[];
}

/**
 * One value of entries [first, last] of a sorted batch, which have equal key and ordinal: of different spellings of the key the
 * one with the higher bytes survives; the values of equal spellings are all kept, in Erlang term order.
 */
export function combineRows(
  keys: RowKeys,
  batch: EntryBatch,
  first: number,
  last: number,
): CombinedValue {
  let best = spellingAt(keys, batch, first);
  for (let i = first + 1; i <= last; i++) {
    const other = spellingAt(keys, batch, i);
    const order = Buffer.compare(other.text, best.text);
    if (order > 0) best = other;
    else if (order === 0) best.values.push(...other.values);
  }
  const bytes = encodeRowValue({ keyText: best.keyText, values: inTermOrder(best.values) });
  return { bytes, start: 0, end: bytes.length };
}

/**
 * What {@link combineRows} drops of entries [from, to) of a batch, all of one document: row values with their key's text, by that text.
 */
export function droppedOf(
  keys: RowKeys,
  batch: EntryBatch,
  from: number,
  to: number,
): Uint8Array[] {
  const byKey = new Map<string, Map<string, Spelling>>();
  for (let i = from; i < to; i++) {
    const name = latin1(batch.bytes.subarray(batch.keyStart(i), batch.keyEnd(i)));
    let spellings = byKey.get(name);
    if (!spellings) byKey.set(name, (spellings = new Map<string, Spelling>()));
    const spelling = spellingAt(keys, batch, i);
    const same = spellings.get(latin1(spelling.text));
    if (same) same.values.push(...spelling.values);
    else spellings.set(latin1(spelling.text), spelling);
  }
  return [...byKey.values()]
    .flatMap((spellings) => [...spellings.values()].sort(byText).slice(0, -1))
    .sort(byText)
    .map(({ text, values }) => encodeRowValue({ keyText: text, values: inTermOrder(values) }));
}

function spellingAt(
  { kind, version, partitioned }: RowKeys,
  batch: EntryBatch,
  i: number,
): Spelling {
  const { keyText, values } = decodeRowValue(
    batch.bytes.subarray(batch.valueStart(i), batch.valueEnd(i)),
  );
  const end = batch.keyEnd(i);
  const start = partitioned ? partitionEnd(batch.bytes, batch.keyStart(i), end) : batch.keyStart(i);
  const text = Buffer.from(keyText ?? decodeKey(kind, batch.bytes, start, end, version));
  return { text, keyText, values: [...values] };
}

function inTermOrder(values: readonly Uint8Array[]): readonly Uint8Array[] {
  if (values.length === 1) return values;
  return values
    .map((value) => ({ value, order: encodeKeyText("raw", value) }))
    .sort((a, b) => Buffer.compare(a.order, b.order))
    .map(({ value }) => value);
}

function byText(a: Spelling, b: Spelling): number {
  return Buffer.compare(a.text, b.text);
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
}
