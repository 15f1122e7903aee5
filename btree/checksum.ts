// Framing and checksums of records. The CRC-32 of a record covers everything after itself and starts from a seed made of the
// file's salt and the record's own offset: a copy of a record elsewhere in the file, or in another file, does not pass.

import { crc32 } from "node:zlib";
import { readU32, writeU32 } from "./bytes.js";
import { FRAME_BYTES } from "./format.js";
import type { Bytes } from "./types.js";

export function saltSeed(salt: Bytes): number {
  return crc32(salt);
}

/**
 * For a fixed content a CRC is a bijection of its seed, and multiplication by an odd number is one of the 32-bit integers: so two
 * offsets less than 4 GiB apart always give different checksums.
 */
export function recordSeed(seed: number, offset: number): number {
  return (
    (seed +
      Math.imul(offset % 0x1_0000_0000, 0x9e37_79b1) +
      Math.imul(Math.floor(offset / 0x1_0000_0000), 0x85eb_ca6b)) >>>
    0
  );
}

/** Fills in length and kind of the record that takes up bytes[start, end). */
export function frameRecord(bytes: Bytes, start: number, end: number, kind: number): void {
  writeU32(bytes, start + 4, end - start - FRAME_BYTES);
  bytes[start + 8] = kind;
}

/** Fills in the checksum of the framed record bytes[start, end) that is to stand at `offset`. */
export function sealRecord(
  bytes: Bytes,
  start: number,
  end: number,
  seed: number,
  offset: number,
): void {
  writeU32(bytes, start, crc32(bytes.subarray(start + 4, end), recordSeed(seed, offset)));
}

/** What is wrong with a record that was read from `offset`, or undefined. */
export function recordFault(
  record: Bytes,
  size: number,
  kind: number,
  seed: number,
  offset: number,
): string | undefined {
  if (record.length < size) return `the file ends ${size - record.length} bytes too early`;
  if (readU32(record, 0) !== crc32(record.subarray(4), recordSeed(seed, offset)))
    return "checksum mismatch";
  if (readU32(record, 4) !== size - FRAME_BYTES)
    return "record of another length than its pointer says";
  if (record[8] !== kind) return `record of kind ${record[8] as number} where ${kind} was expected`;
  return undefined;
}
