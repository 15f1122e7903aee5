// What the helpers of a file source need to know about it, and how they read one of its lines.

import type { LineFile } from "./line-file.js";
import { LINE_BYTES_MAX_DEFAULT, type LineOrigin } from "./line-errors.js";
import { sliceChanges } from "./slice-changes.js";
import { sliceDocuments, type SliceOptions } from "./slice.js";
import type { Slices } from "./slices.js";

export interface FileFeed {
  readonly path: string;
  readonly format: "documents" | "changes";
  readonly snapshot: boolean;
  readonly slicing: SliceOptions;
  /** End of the last line that counts, at or after `from`. */
  complete(file: LineFile, from: number, warn: boolean): number;
}

/** Slices bytes of the feed, whatever its format. */
export function sliceFeed(
  feed: Pick<FileFeed, "format" | "slicing">,
  data: Uint8Array,
  out: Slices,
  origin: LineOrigin,
): void {
  if (feed.format === "changes") sliceChanges(data, out, feed.slicing, origin);
  else sliceDocuments(data, out, feed.slicing, origin);
}

const LINE_GUESS_BYTES = 4096;
const LF = 0x0a;

/** The line that begins at `start`, without its LF. */
export function readLine(file: LineFile, start: number, size: number, feed: FileFeed): Uint8Array {
  const guess = file.read(start, Math.min(LINE_GUESS_BYTES, size - start));
  const found = guess.indexOf(LF);
  if (found >= 0) return guess.subarray(0, found);
  if (start + guess.length >= size) return guess;
  const limit = feed.slicing.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
  const end = file.lineEnd(start + guess.length, size, limit);
  const line = file.read(start, end - start);
  return line[line.length - 1] === LF ? line.subarray(0, line.length - 1) : line;
}
