// The roots record: everything a commit makes current besides the nodes. Payload, numbers as varints:
//
//   state length, state · number of trees, then for each, by name: name length, name (UTF-8), height, offset, size, rows, bytes,
//   reduction length, reduction, and since version 2 operations waiting; if there are any: offset and size of the newest batch, bytes of
//   all batches
//
// A tree without nodes has size 0; one without waiting operations either is not listed.

import { compareBytes, FieldReader, NO_BYTES, writeVarint } from "./bytes.js";
import { frameRecord } from "./checksum.js";
import { FRAME_BYTES, HEIGHT_MAX, KIND_ROOTS } from "./format.js";
import type { Bytes } from "./types.js";
import type { StoredTree } from "./waiting-chain.js";
import type { TreeState } from "./waiting-tree.js";

/** What a snapshot is: the owner's blob and where the trees begin. */
export interface Roots {
  readonly state: Bytes;
  readonly trees: ReadonlyMap<string, TreeState>;
}

/** The same as it is stored: batches that wait have not been read. */
export interface StoredRoots {
  readonly state: Bytes;
  readonly trees: ReadonlyMap<string, StoredTree>;
}

/** A framed record, not sealed. */
export function encodeRoots(roots: Roots): Bytes {
  const names = new Map<string, Bytes>();
  let size = FRAME_BYTES + 16 + roots.state.length;
  for (const [name, { root }] of roots.trees) {
    const bytes = new TextEncoder().encode(name);
    names.set(name, bytes);
    size += bytes.length + (root?.reduction.length ?? 0) + 96;
  }
  const record = new Uint8Array(size);
  let pos = writeVarint(record, FRAME_BYTES, roots.state.length);
  record.set(roots.state, pos);
  pos = writeVarint(record, pos + roots.state.length, roots.trees.size);
  const sorted = [...roots.trees].sort(([a], [b]) =>
    compareBytes(names.get(a) ?? NO_BYTES, names.get(b) ?? NO_BYTES),
  );
  for (const [name, { root, waiting }] of sorted) {
    const bytes = names.get(name) ?? NO_BYTES;
    pos = writeVarint(record, pos, bytes.length);
    record.set(bytes, pos);
    pos += bytes.length;
    const { height, offset, size, count, bytes: live, reduction } = root ?? NO_ROOT;
    for (const number of [height, offset, size, count, live, reduction.length])
      pos = writeVarint(record, pos, number);
    record.set(reduction, pos);
    pos = writeVarint(record, pos + reduction.length, waiting?.chain.operations ?? 0);
    if (waiting === undefined) continue;
    const { chain } = waiting;
    for (const number of [chain.offset, chain.size, chain.bytes])
      pos = writeVarint(record, pos, number);
  }
  frameRecord(record, 0, pos, KIND_ROOTS);
  return record.subarray(0, pos);
}

const NO_ROOT = { height: 0, offset: 0, size: 0, count: 0, bytes: 0, reduction: NO_BYTES };

/**
 * Undefined when a record whose frame has been checked breaks the format.
 * @param version - Of the header that points to it.
 */
export function decodeRoots(record: Bytes, version: number): StoredRoots | undefined {
  const fields = new FieldReader(record, FRAME_BYTES, record.length);
  const state = fields.take(fields.varint());
  const count = fields.varint();
  const trees = new Map<string, StoredTree>();
  for (let i = 0; i < count; i++) {
    const name = new TextDecoder().decode(fields.take(fields.varint()));
    const height = fields.varint();
    const offset = fields.varint();
    const size = fields.varint();
    const rows = fields.varint();
    const bytes = fields.varint();
    const reduction = fields.take(fields.varint());
    if (fields.overrun || height > HEIGHT_MAX) return undefined;
    const root = size === 0 ? undefined : { offset, size, height, count: rows, bytes, reduction };
    const operations = version > 1 ? fields.varint() : 0;
    const chain =
      operations === 0
        ? undefined
        : { operations, offset: fields.varint(), size: fields.varint(), bytes: fields.varint() };
    if (!(fields.pos <= record.length)) return undefined;
    trees.set(name, { root, chain });
  }
  return fields.pos === record.length ? { state, trees } : undefined;
}
