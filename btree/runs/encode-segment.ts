// A sorted batch as one segment, in one pass: entries that share key and ordinal are combined by the owner, entries that share the
// key alone are all kept, highest ordinal first, since only the merge knows which of them counts.

import { sharedWords, viewOf } from "../bytes.js";
import type { EntryBatch } from "./entry-batch.js";
import { CANCEL } from "./format.js";
import type { RunFile } from "./run-file.js";
import { SegmentEncoder } from "./segment-encoder.js";
import { encodeByKernel } from "./segment-kernel.js";
import type { SegmentRef } from "./segment-index.js";

/** A value that `combine` made: bytes[start, end), read before the next call. */
export interface CombinedValue {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
}

/** Options of {@link encodeSegment}. */
export interface EncodeSegmentOptions {
  /**
   * Makes one value of the entries `first` to `last` (inclusive, positions in sorted order), which have the same key and ordinal:
   * a document that emitted a key several times. They come in order of insertion; cancels are never among them.
   *
   * @defaultValue none: the merge keeps the one inserted last and hands the others to `onSuperseded`.
   */
  readonly combine?: (batch: EntryBatch, first: number, last: number) => CombinedValue;
  /**
   * A block is closed before it would grow beyond this.
   *
   * @defaultValue 16 KiB
   */
  readonly blockBytes?: number;
}

/** Memory kept from one segment to the next. Larger pieces are given back. */
const SPARE_BYTES_MAX = 8 * 1024 * 1024;
let spare: Uint8Array = new Uint8Array(64 * 1024);

/** The sorted batch as one segment, ready for `RunFile.append`. The batch stays as it is. */
export function encodeSegment(batch: EntryBatch, options?: EncodeSegmentOptions): Uint8Array {
  return withSegment(batch, options, (segment) => segment.slice());
}

/**
 * Appends the sorted batch to a run file as one segment.
 *
 * @throws BtreeError BTREE_IO when the disk refuses.
 */
export function appendSegment(
  run: RunFile,
  batch: EntryBatch,
  options?: EncodeSegmentOptions,
): SegmentRef {
  return withSegment(batch, options, (segment) => run.append(segment));
}

/** The segment is valid until `take` returns: its memory serves the next one too. */
function withSegment<T>(
  batch: EntryBatch,
  options: EncodeSegmentOptions | undefined,
  take: (segment: Uint8Array) => T,
): T {
  const [ordinalMin, ordinalMax] = batch.ordinalRange();
  const encoded = encodeByKernel(batch, ordinalMin, ordinalMax, options ?? {});
  if (encoded) return take(encoded);
  // Taken, not shared: `combine` might encode a segment of its own.
  const scratch = spare;
  spare = new Uint8Array(0);
  const encoder = new SegmentEncoder(ordinalMin, ordinalMax, scratch, options?.blockBytes);
  addEntries(encoder, batch, options);
  const taken = take(encoder.finish());
  if (encoder.scratch.length <= SPARE_BYTES_MAX) spare = encoder.scratch;
  return taken;
}

/** Adds all entries of the sorted batch. */
export function addEntries(
  encoder: SegmentEncoder,
  batch: EntryBatch,
  options?: EncodeSegmentOptions,
): void {
  const n = batch.length;
  const { words } = batch;
  let shared = 0;
  let i = 0;
  while (i < n) {
    const keyStart = batch.keyStart(i);
    const keyEnd = batch.keyEnd(i);
    let end = i + 1;
    let sharedNext = 0;
    while (end < n) {
      const nextStart = batch.keyStart(end);
      const nextLength = batch.keyEnd(end) - nextStart;
      const length = keyEnd - keyStart;
      sharedNext = sharedWords(words, keyStart, nextStart, Math.min(length, nextLength));
      if (sharedNext < length || sharedNext < nextLength) break;
      end++;
    }
    if (end === i + 1) {
      encoder.add(
        words,
        keyStart,
        keyEnd,
        shared,
        words,
        batch.valueStart(i),
        batch.valueEnd(i),
        batch.ordinal(i),
        batch.flags(i),
      );
    } else {
      addEqualKeys(encoder, batch, i, end, shared, options);
    }
    shared = sharedNext;
    i = end;
  }
}

/** Entries [start, end) have one key. */
function addEqualKeys(
  encoder: SegmentEncoder,
  batch: EntryBatch,
  start: number,
  end: number,
  shared: number,
  options: EncodeSegmentOptions | undefined,
): void {
  const { words } = batch;
  const keyStart = batch.keyStart(start);
  const keyEnd = batch.keyEnd(start);
  let prefix = shared;
  const add = (value: DataView, vs: number, ve: number, ordinal: number, flags: number): void => {
    encoder.add(words, keyStart, keyEnd, prefix, value, vs, ve, ordinal, flags);
    prefix = keyEnd - keyStart;
  };
  let groupEnd = end;
  while (groupEnd > start) {
    const ordinal = batch.ordinal(groupEnd - 1);
    let rows = groupEnd;
    while (
      rows > start &&
      batch.ordinal(rows - 1) === ordinal &&
      batch.flags(rows - 1) !== CANCEL
    ) {
      rows--;
    }
    let first = rows;
    while (first > start && batch.ordinal(first - 1) === ordinal) first--;
    // Cancels come first in the batch and in the file; one says as much as several.
    if (first < rows) add(words, 0, 0, ordinal, CANCEL);
    if (groupEnd - rows > 1 && options?.combine) {
      const value = options.combine(batch, rows, groupEnd - 1);
      add(viewOf(value.bytes), value.start, value.end, ordinal, 0);
    } else {
      for (let i = groupEnd - 1; i >= rows; i--) {
        add(words, batch.valueStart(i), batch.valueEnd(i), ordinal, 0);
      }
    }
    groupEnd = first;
  }
}
