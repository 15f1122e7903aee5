// Opens the sources of a merge, and keeps their number within what one merge may read: runs of neighbouring segments, the smallest
// first, are merged into one temporary segment each. Such a merge decides nothing: all entries and cancels are kept, in order, since
// only the final one sees every entry of a key. Each entry is rewritten about once, whatever the number of segments.

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { WORD_SLACK } from "../bytes.js";
import { BLOCK_BYTES_MAX, CANCEL } from "./format.js";
import { LoserTree } from "./loser-tree.js";
import { RunFile } from "./run-file.js";
import type { RunReaders } from "./run-readers.js";
import { EXHAUSTED, type MergeCursor, OFFSET_CAP, SegmentCursor } from "./segment-cursor.js";
import { SegmentEncoder } from "./segment-encoder.js";
import { SegmentIndex } from "./segment-index.js";

/** Keys from gte (inclusive) to lt (exclusive). */
export interface MergeRange {
  readonly gte: Uint8Array | undefined;
  readonly lt: Uint8Array | undefined;
}

interface FanInOptions {
  readonly range: MergeRange;
  readonly fanInMax: number;
  readonly bufferBytes: number;
  readonly memory: Uint8Array | undefined;
  readonly directory: string;
  readonly readers: RunReaders;
}

/** Most that one segment buffers. */
const CURSOR_BUFFER_BYTES_MAX = 1024 * 1024;

/** Temporary segments are written in pieces of at least this. */
const PIECE_BYTES = 512 * 1024;

/** The order of the entries in the range of the sources, and of `over`, which has not been moved yet; undefined if they have none. */
export function openTree(
  readers: RunReaders,
  sources: readonly SegmentIndex[],
  range: MergeRange,
  bufferBytes: number,
  memory?: Uint8Array,
  over?: MergeCursor,
): LoserTree | undefined {
  const each = Math.min(
    Math.max(
      Math.floor((memory?.length ?? bufferBytes) / Math.max(1, sources.length)) - WORD_SLACK,
      BLOCK_BYTES_MAX,
    ),
    CURSOR_BUFFER_BYTES_MAX,
  );
  const cursors: MergeCursor[] = [];
  const codes: number[] = [];
  const overCode = over?.next() ?? EXHAUSTED;
  if (over && overCode !== EXHAUSTED) {
    cursors.push(over);
    codes.push(overCode);
  }
  for (const [rank, index] of sources.entries()) {
    const lent = memory && pieceOf(memory, rank, each);
    const cursor = SegmentCursor.open(readers, index, rank, each, range.gte, range.lt, lent);
    const code = cursor.seek(range.gte);
    if (code === EXHAUSTED) continue;
    cursors.push(cursor);
    codes.push(code);
  }
  if (cursors.length === 0) return undefined;
  if (range.lt) {
    const end = SegmentCursor.sentinel(range.lt);
    cursors.push(end);
    codes.push(end.codeFromStart());
  }
  return new LoserTree(cursors, Int32Array.from(codes));
}

/** The piece of a cursor that reads `each` bytes at a time; undefined when memory does not reach so far. */
function pieceOf(memory: Uint8Array, rank: number, each: number): Uint8Array | undefined {
  const size = each + WORD_SLACK;
  const start = rank * size;
  return start + size <= memory.length ? memory.subarray(start, start + size) : undefined;
}

/** At most `fanInMax` sources with the same entries. */
export function reduceFanIn(
  sources: readonly SegmentIndex[],
  options: FanInOptions,
): readonly SegmentIndex[] {
  let current = sources;
  while (current.length > options.fanInMax) {
    const count = Math.min(options.fanInMax, current.length - options.fanInMax + 1);
    const start = smallestRun(current, count);
    current = [
      ...current.slice(0, start),
      mergeAll(current.slice(start, start + count), options),
      ...current.slice(start + count),
    ];
  }
  return current;
}

/** Where the `count` neighbours with the fewest bytes start. Neighbours, so that their ranks stay in order. */
function smallestRun(sources: readonly SegmentIndex[], count: number): number {
  const lengthOf = (i: number): number => sources[i]?.ref.length ?? 0;
  let bytes = 0;
  for (let i = 0; i < count; i++) bytes += lengthOf(i);
  let best = 0;
  let bestBytes = bytes;
  for (let start = 1; start + count <= sources.length; start++) {
    bytes += lengthOf(start + count - 1) - lengthOf(start - 1);
    if (bytes < bestBytes) {
      bestBytes = bytes;
      best = start;
    }
  }
  return best;
}

function mergeAll(sources: readonly SegmentIndex[], options: FanInOptions): SegmentIndex {
  const path = join(options.directory, `merge-${randomUUID()}.tmp`);
  const file = RunFile.temporary(path);
  try {
    const encoder = new SegmentEncoder(
      Math.min(...sources.map(({ ordinalMin }) => ordinalMin)),
      Math.max(...sources.map(({ ordinalMax }) => ordinalMax)),
      new Uint8Array(2 * PIECE_BYTES),
    );
    const tree = openTree(
      options.readers,
      sources,
      options.range,
      options.bufferBytes,
      options.memory,
    );
    if (tree) copyAll(tree, encoder, file);
    file.write(encoder.finish());
    const ref = { path, offset: 0, length: file.length, entries: encoder.entries };
    options.readers.adopt(path, file.release());
    return SegmentIndex.read(options.readers, ref);
  } finally {
    file.close();
  }
}

function copyAll(tree: LoserTree, encoder: SegmentEncoder, file: RunFile): void {
  while (tree.code !== EXHAUSTED && !tree.winner.isSentinel) {
    const entry = tree.winner;
    const { code } = tree;
    // For a key that differs beyond OFFSET_CAP, storing less than is shared is allowed and keeps its code as it is.
    const shared =
      code === 0 ? entry.keyLength : code === 1 ? OFFSET_CAP : OFFSET_CAP - (code >> 8);
    encoder.add(
      entry.keyWords,
      0,
      entry.keyLength,
      shared,
      entry.bufferWords,
      entry.valueStart,
      entry.valueEnd,
      entry.ordinal,
      entry.cancels ? CANCEL : 0,
    );
    if (encoder.pendingBytes >= PIECE_BYTES) file.write(encoder.take());
    tree.advance();
  }
}
