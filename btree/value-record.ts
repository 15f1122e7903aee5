// Values that are too long for a leaf lie in records of their own; the leaf has a pointer to them (FORMAT.md).

import { writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { BtreeError } from "./errors.js";
import { FRAME_BYTES, KIND_VALUE, RECORD_BYTES_MAX } from "./format.js";
import type { NodeSink } from "./record-log.js";
import type { Bytes } from "./types.js";

/** Appends a value record and returns its offset. */
export function appendValue(sink: NodeSink, vb: Bytes, vs: number, ve: number): number {
  if (ve - vs > RECORD_BYTES_MAX) {
    throw new BtreeError("BTREE_LIMIT", `a value of ${ve - vs} bytes exceeds ${RECORD_BYTES_MAX}`);
  }
  const record = new Uint8Array(FRAME_BYTES + ve - vs);
  record.set(vb.subarray(vs, ve), FRAME_BYTES);
  frameRecord(record, 0, record.length, KIND_VALUE);
  return sink.append(record);
}

/** Writes a pointer to a value record to the start of `dst`; returns its length (at most 21 bytes). */
export function writePointer(dst: Bytes, rows: number, offset: number, size: number): number {
  return writeVarint(dst, writeVarint(dst, writeVarint(dst, 0, rows), offset), size);
}
