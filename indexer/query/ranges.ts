// From keys and document ids to byte ranges of the view tree, whose keys are collationKey ++ docid (VIEWS §9). A document id
// never holds the byte 0xFF, so key ++ FF is above all rows of a key, and key ++ id ++ 00 is just above one row.

import { type Bytes, type KeyRange } from "../../btree/index.js";

/** What a query says of the ends of its scan, besides their keys. */
export interface RangeEnds {
  readonly startDocId: Bytes | undefined;
  readonly endDocId: Bytes | undefined;
  readonly inclusiveEnd: boolean;
  readonly descending: boolean;
}

const NOTHING = new Uint8Array(0);
const ABOVE = new Uint8Array([0xff]);

export function joinBytes(a: Bytes, b: Bytes, last?: number): Bytes {
  const out = new Uint8Array(a.length + b.length + (last === undefined ? 0 : 1));
  out.set(a, 0);
  out.set(b, a.length);
  if (last !== undefined) out[out.length - 1] = last;
  return out;
}

export function compareBytes(a: Bytes, b: Bytes): number {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) {
    const difference = (a[i] as number) - (b[i] as number);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Just above the row (key, id); without an id above all rows of the key. */
function after(key: Bytes, docId: Bytes | undefined): Bytes {
  return docId ? joinBytes(key, docId, 0) : joinBytes(key, NOTHING, 0xff);
}

/** Just below the row (key, id); without an id below all rows of the key. */
function before(key: Bytes, docId: Bytes | undefined): Bytes {
  return docId ? joinBytes(key, docId) : key;
}

/** The rows between two encoded keys, either of them open; `prefix` is what all keys of the scan begin with (partitions). */
export function scanRange(
  ends: RangeEnds,
  startKey: Bytes | undefined,
  endKey: Bytes | undefined,
  prefix: Bytes,
): KeyRange {
  const { startDocId, endDocId, inclusiveEnd } = ends;
  let gte: Bytes | undefined;
  let lt: Bytes | undefined;
  if (ends.descending) {
    if (startKey) lt = after(startKey, startDocId);
    if (endKey) gte = inclusiveEnd ? before(endKey, endDocId) : after(endKey, endDocId);
  } else {
    if (startKey) gte = before(startKey, startDocId);
    if (endKey) lt = inclusiveEnd ? after(endKey, endDocId) : before(endKey, endDocId);
  }
  if (prefix.length === 0) return { gte, lt };
  return { gte: joinBytes(prefix, gte ?? NOTHING), lt: joinBytes(prefix, lt ?? ABOVE) };
}

/** True when no key can be in the range. */
export function isEmptyRange(range: KeyRange): boolean {
  return (
    range.gte !== undefined && range.lt !== undefined && compareBytes(range.gte, range.lt) >= 0
  );
}

/** The check of VIEWS §9: is (startkey, docid) before (endkey, docid)? */
export function startsBeforeEnd(
  startKey: Bytes,
  startDocId: Bytes | undefined,
  endKey: Bytes,
  endDocId: Bytes | undefined,
  descending: boolean,
): boolean {
  const start = joinBytes(startKey, startDocId ?? (descending ? ABOVE : NOTHING));
  const end = joinBytes(endKey, endDocId ?? (descending ? NOTHING : ABOVE));
  return compareBytes(start, end) < 0;
}
