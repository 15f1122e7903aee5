// The roots record: everything a commit makes current besides the nodes. Payload, numbers as varints:
//
//   state length, state · number of trees, then for each, by name: name length, name (UTF-8), height, offset, size, rows, bytes,
//   reduction length, reduction
//
// Trees without entries are not listed.

import { compareBytes, FieldReader, NO_BYTES, writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { FRAME_BYTES, HEIGHT_MAX, KIND_ROOTS } from "./format.js";
import type { Bytes, TreeRoot } from "./types.js";

/** What a snapshot is: the owner's blob and where the trees begin. */
export interface Roots {
  readonly state: Bytes;
  readonly trees: ReadonlyMap<string, TreeRoot>;
}

/** A framed record, not sealed. */
export function encodeRoots(roots: Roots): Bytes {
  const names = new Map<string, Bytes>();
  let size = FRAME_BYTES + 16 + roots.state.length;
  for (const [name, root] of roots.trees) {
    const bytes = new TextEncoder().encode(name);
    names.set(name, bytes);
    size += bytes.length + root.reduction.length + 64;
  }
  const record = new Uint8Array(size);
  let pos = writeVarint(record, FRAME_BYTES, roots.state.length);
  record.set(roots.state, pos);
  pos = writeVarint(record, pos + roots.state.length, roots.trees.size);
  const sorted = [...roots.trees].sort(([a], [b]) =>
    compareBytes(names.get(a) ?? NO_BYTES, names.get(b) ?? NO_BYTES),
  );
  for (const [name, root] of sorted) {
    const bytes = names.get(name) ?? NO_BYTES;
    pos = writeVarint(record, pos, bytes.length);
    record.set(bytes, pos);
    pos += bytes.length;
    for (const number of [
      root.height,
      root.offset,
      root.size,
      root.count,
      root.bytes,
      root.reduction.length,
    ]) {
      pos = writeVarint(record, pos, number);
    }
    record.set(root.reduction, pos);
    pos += root.reduction.length;
  }
  frameRecord(record, 0, pos, KIND_ROOTS);
  return record.subarray(0, pos);
}

/** Undefined when a record whose frame has been checked breaks the format. */
export function decodeRoots(record: Bytes): Roots | undefined {
  const fields = new FieldReader(record, FRAME_BYTES, record.length);
  const state = fields.take(fields.varint());
  const count = fields.varint();
  const trees = new Map<string, TreeRoot>();
  for (let i = 0; i < count; i++) {
    const name = new TextDecoder().decode(fields.take(fields.varint()));
    const height = fields.varint();
    const offset = fields.varint();
    const size = fields.varint();
    const rows = fields.varint();
    const bytes = fields.varint();
    const reduction = fields.take(fields.varint());
    if (fields.overrun || height > HEIGHT_MAX) return undefined;
    trees.set(name, { offset, size, height, count: rows, bytes, reduction });
  }
  return fields.pos === record.length ? { state, trees } : undefined;
}
