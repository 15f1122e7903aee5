// Are segments whole? Asked before a build resumes after the machine may have lost power: what a checkpoint refers to was
// written, but perhaps never reached the disk.

import { crc32 } from "node:zlib";
import type { BtreeError } from "../errors.js";
import { isBtreeError } from "../errors.js";
import { damaged } from "./run-errors.js";
import { RunReaders } from "./run-readers.js";
import { SegmentIndex, type SegmentRef } from "./segment-index.js";

/** A segment that cannot be merged, and why. */
export interface DamagedSegment {
  readonly ref: SegmentRef;
  /** BTREE_CORRUPT, or BTREE_IO when the system could not read it. */
  readonly error: BtreeError;
}

/** Bytes read at a time. */
const PIECE_BYTES = 1024 * 1024;

/**
 * Reads all bytes of the segments and returns those that are not as they were written: missing, short, or with a wrong checksum. Never
 * throws because of damage.
 */
export function damagedSegments(refs: Iterable<SegmentRef>): DamagedSegment[] {
  const readers = new RunReaders();
  const found: DamagedSegment[] = [];
  try {
    for (const ref of refs) {
      try {
        checkBlocks(readers, SegmentIndex.read(readers, ref));
      } catch (error) {
        if (!isBtreeError(error)) throw error;
        found.push({ ref, error });
      }
    }
  } finally {
    readers.close();
  }
  return found;
}

function checkBlocks(readers: RunReaders, index: SegmentIndex): void {
  const { path } = index.ref;
  const { blockOffsets, blockCrcs, blocks } = index;
  let buffer = new Uint8Array(0);
  for (let block = 0; block < blocks;) {
    const start = blockOffsets[block] as number;
    let end = block + 1;
    while (end < blocks && (blockOffsets[end + 1] as number) - start <= PIECE_BYTES) end++;
    const length = (blockOffsets[end] as number) - start;
    if (buffer.length < length) buffer = new Uint8Array(length);
    readers.read(path, buffer, length, start);
    for (; block < end; block++) {
      const offset = blockOffsets[block] as number;
      const bytes = buffer.subarray(offset - start, (blockOffsets[block + 1] as number) - start);
      if (crc32(bytes) !== blockCrcs[block]) throw damaged(path, offset, "has a damaged block");
    }
  }
}
