// A batch that waits: the operations of one tree, in a record of their own, chained to the batch before. Payload, numbers as varints:
//
//   offset, size of the batch before (0, 0: there is none) · operations, then for each, by ascending key:
//   shared, own key bytes · value length + 1 (0: the key is removed) · own key bytes · value
//
// Keys are prefix-compressed against the one before.

import { copyBytes, FieldReader, NO_BYTES, sharedPrefix, writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { FRAME_BYTES, KIND_BATCH, RECORD_BYTES_MAX } from "./format.js";
import type { Bytes, TreeOp } from "./types.js";

/** Where a record lies. */
export interface BatchPlace {
  readonly offset: number;
  readonly size: number;
}

/** The chain of a tree's waiting batches, as its roots record tells it. */
export interface ChainRef extends BatchPlace {
  /** Of the newest batch: `offset` and `size`. Operations of all batches, repeated keys included. */
  readonly operations: number;
  /** Bytes of all their records. */
  readonly bytes: number;
}

/** Two varints of up to 8 bytes and three of up to 5. */
const HEAD_BYTES_MAX = 24;
const OP_OVERHEAD_MAX = 15;

/** Bytes the operations take at most, as a record. */
export function batchBytesMax(ops: readonly TreeOp[]): number {
  let bytes = FRAME_BYTES + HEAD_BYTES_MAX;
  for (const { key, value } of ops) bytes += OP_OVERHEAD_MAX + key.length + (value?.length ?? 0);
  return bytes;
}

/** A framed record, not sealed. */
export function encodeBatch(ops: readonly TreeOp[], previous: BatchPlace | undefined): Bytes {
  const record = new Uint8Array(batchBytesMax(ops));
  let pos = writeVarint(record, FRAME_BYTES, previous?.offset ?? 0);
  pos = writeVarint(record, pos, previous?.size ?? 0);
  pos = writeVarint(record, pos, ops.length);
  let last = NO_BYTES;
  for (const { key, value } of ops) {
    const shared = sharedPrefix(last, key);
    pos = writeVarint(record, pos, shared);
    pos = writeVarint(record, pos, key.length - shared);
    pos = writeVarint(record, pos, value === undefined ? 0 : value.length + 1);
    copyBytes(key, shared, key.length, record, pos);
    pos += key.length - shared;
    if (value !== undefined) {
      copyBytes(value, 0, value.length, record, pos);
      pos += value.length;
    }
    last = key;
  }
  frameRecord(record, 0, pos, KIND_BATCH);
  return record.subarray(0, pos);
}

/** What stands before the operations, which `WaitingOps.pushRecord` reads. */
export interface BatchHead {
  readonly previous: BatchPlace | undefined;
  readonly count: number;
  /** Where the first operation begins. */
  readonly start: number;
}

/** Undefined when a record whose frame has been checked breaks the format. */
export function batchHead(record: Bytes): BatchHead | undefined {
  const fields = new FieldReader(record, FRAME_BYTES, record.length);
  const offset = fields.varint();
  const size = fields.varint();
  const count = fields.varint();
  // Each operation has three bytes at least, which bounds the work against a damaged count.
  if (fields.overrun || count * 3 > record.length || record.length > RECORD_BYTES_MAX)
    return undefined;
  return { previous: size === 0 ? undefined : { offset, size }, count, start: fields.pos };
}
