// `["map_doc",…]` lines of documents cut down to the members that map functions can see: for view servers of our own.

import type { Slices } from "../sources/index.js";
import { BlockProjection } from "./block-projection.js";
import { WANTED_SHARE_MAX } from "./document-text.js";
import { Projector } from "./projector.js";

const FRAME = { head: '["map_doc",', tail: "]\n" };
const HEAD = Buffer.from(FRAME.head);
const TAIL = Buffer.from(FRAME.tail);
const COMMA = 0x2c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;

/** A thread prepares one chunk after the other: the buffer in which lines are put together is kept. */
let scratch = new Uint8Array(0);

/**
 * The lines; undefined when that is not worth it or not possible for one of the documents.
 *
 * @param mapped - positions of the documents.
 * @param lineEnds - is given the offset after the LF of each line.
 */
export function projectedLines(
  slices: Slices,
  mapped: Uint32Array,
  members: ReadonlySet<string>,
  lineEnds: Uint32Array,
): Uint8Array | undefined {
  let bytes = 0;
  for (const i of mapped)
    bytes += (slices.docEnd[i] as number) - (slices.docStart[i] as number) + HEAD.length + 4;
  const limit = Math.floor(bytes * WANTED_SHARE_MAX);
  if (scratch.length < limit) scratch = new Uint8Array(limit);
  const projection = BlockProjection.create(members, FRAME);
  const projector = new Projector(members);
  let used = 0;
  for (let n = 0; n < mapped.length;) {
    const done = projection
      ? projection.project(slices.docs, slices.docStart, slices.docEnd, mapped.subarray(n))
      : 0;
    if (projection && done > 0) {
      for (let k = 0; k < done; k++) {
        if (projection.start(k) === 0) return undefined;
        lineEnds[n + k] = used + projection.end(k) + TAIL.length;
      }
      if (used + projection.length > limit) return undefined;
      scratch.set(projection.written, used);
      used += projection.length;
      n += done;
    } else {
      used = putOne(projector, slices, mapped[n] as number, used);
      if (used < 0 || used > limit) return undefined;
      lineEnds[n++] = used;
    }
  }
  return scratch.slice(0, used);
}

/** Returns the end of the line, which may lie behind what could be written; -1 when there can be none. */
function putOne(projector: Projector, slices: Slices, i: number, start: number): number {
  const { docs, docStart, docEnd } = slices;
  if (!projector.project(docs, docStart[i] as number, docEnd[i] as number)) return -1;
  const lines = scratch;
  let p = start;
  // Bytes past the end of the buffer are dropped.
  for (const byte of HEAD) lines[p++] = byte;
  lines[p++] = OPEN_BRACE;
  for (let k = 0; k < projector.count; k++) {
    if (k > 0) lines[p++] = COMMA;
    const to = projector.to[k] as number;
    for (let from = projector.from[k] as number; from < to; from++)
      lines[p++] = docs[from] as number;
  }
  lines[p++] = CLOSE_BRACE;
  for (const byte of TAIL) lines[p++] = byte;
  return p;
}
