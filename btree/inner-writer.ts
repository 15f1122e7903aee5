// Encodes one inner node after the other from child references or ranges of an existing node. See inner-node.ts for the encoding.

import { copyBytes, sharedPrefix, writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { BtreeError, invariant } from "./errors.js";
import {
  FRAME_BYTES,
  INNER_START,
  KIND_INNER,
  NODE_ENTRIES_MAX,
  RECORD_BYTES_MAX,
} from "./format.js";
import type { ChildRef, InnerNode } from "./inner-node.js";
import type { Bytes } from "./types.js";

/** Seven varints: lengths of at most 5 bytes, numbers of at most 8. */
const ENTRY_OVERHEAD_MAX = 48;

export class InnerWriter {
  bytes: Bytes;
  used = INNER_START;
  count = 0;
  /** Lower bound of the node: its first child's. */
  low: Bytes = new Uint8Array(0);
  #last: Bytes = new Uint8Array(0);

  constructor(capacity: number) {
    this.bytes = new Uint8Array(capacity);
  }

  clear(): void {
    this.used = INNER_START;
    this.count = 0;
  }

  /** About what `put(ref)` will take. */
  sizeOf(ref: ChildRef): number {
    return ref.low.length + (ref.reduction?.length ?? 0) + 16;
  }

  put(ref: ChildRef): void {
    const reduction = ref.reduction;
    invariant(
      reduction !== undefined,
      "a child was written into its parent before its reduction was known",
    );
    let shared = 0;
    let suffix = 0;
    if (this.count === 0) {
      this.low = ref.low;
      this.#last = ref.low.subarray(0, 0);
    } else {
      shared = sharedPrefix(this.#last, ref.low);
      suffix = ref.low.length - shared;
      this.#last = ref.low;
    }
    const size = suffix + reduction.length + ENTRY_OVERHEAD_MAX;
    if (this.used + size > RECORD_BYTES_MAX)
      throw new BtreeError("BTREE_LIMIT", "reductions too large for one node");
    this.#ensure(size);
    const bytes = this.bytes;
    let pos = writeVarint(bytes, this.used, shared);
    pos = writeVarint(bytes, pos, suffix);
    copyBytes(ref.low, shared, shared + suffix, bytes, pos);
    pos = writeVarint(bytes, pos + suffix, ref.offset);
    pos = writeVarint(bytes, pos, ref.size);
    pos = writeVarint(bytes, pos, ref.count);
    pos = writeVarint(bytes, pos, ref.bytes - ref.size);
    pos = writeVarint(bytes, pos, reduction.length);
    copyBytes(reduction, 0, reduction.length, bytes, pos);
    this.used = pos + reduction.length;
    this.count++;
  }

  /** Writes the children [from, to) of a node whose own lower bound is `low`. */
  putRange(node: InnerNode, from: number, to: number, low: Bytes): void {
    if (from >= to) return;
    this.put(node.child(from, low));
    if (from + 1 === to) return;
    // What the second one shares depends on how the first is stored here (empty as the first of a node); from the third on nothing changes.
    this.put(node.child(from + 1, low));
    const done = from + 2;
    if (done === to) return;
    const keys = node.keys;
    const start = keys.entryStart(done);
    const end = keys.entryEnd(to - 1);
    this.#ensure(end - start);
    copyBytes(node.bytes, start, end, this.bytes, this.used);
    this.used += end - start;
    this.count += to - done;
    this.#last = keys.key(to - 1);
  }

  /** The finished record, framed but not sealed: a view until the next child. */
  record(height: number): Bytes {
    invariant(
      this.count > 0 && this.count <= NODE_ENTRIES_MAX,
      `an inner node of ${this.count} children`,
    );
    this.bytes[FRAME_BYTES] = height;
    this.bytes[FRAME_BYTES + 1] = this.count & 0xff;
    this.bytes[FRAME_BYTES + 2] = this.count >>> 8;
    frameRecord(this.bytes, 0, this.used, KIND_INNER);
    return this.bytes.subarray(0, this.used);
  }

  #ensure(more: number): void {
    if (this.used + more <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(this.used + more, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.used));
    this.bytes = grown;
  }
}
