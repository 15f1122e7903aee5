// Errors about one line of a source: which file, which line, how it begins. Line numbers are counted only when something
// is wrong, so that the good case pays nothing for them.

import { closeSync, openSync, readSync } from "node:fs";
import { IndexerError, type IndexerErrorCode } from "../errors.js";

/** Where the bytes of a chunk come from. */
export interface LineOrigin {
  /** What a person calls the source: a path, a URL. */
  readonly label: string;
  /** The file the bytes were read from, to count lines in; with {@link start}. */
  readonly path?: string | undefined;
  /** Offset of the first byte in that file. Default 0. */
  readonly start?: number | undefined;
  /** Number of the first line, from 1, where known. */
  readonly firstLine?: number | undefined;
}

/** Bytes a line may have unless an option says otherwise: 256 MiB, below the longest string V8 can make. */
export const LINE_BYTES_MAX_DEFAULT = 256 * 1024 * 1024;

const LF = 0x0a;
const EXCERPT_CHARACTERS = 80;

/** The error for a line that is not what it must be; `lineStart` is an index into `data`. */
export function malformedLine(
  data: Uint8Array,
  lineStart: number,
  lineEnd: number,
  problem: string,
  origin: LineOrigin,
  code: IndexerErrorCode = "SOURCE_MALFORMED",
): IndexerError {
  const line = lineNumber(data, lineStart, origin);
  const where = line === undefined ? origin.label : `${origin.label}, line ${line}`;
  return new IndexerError(code, `${where}: ${problem}: ${excerpt(data, lineStart, lineEnd)}`, {
    file: origin.label,
    ...(line === undefined ? {} : { line }),
  });
}

/** The first 80 characters of a line, on one printable line. */
export function excerpt(data: Uint8Array, start: number, end: number): string {
  const cut = Math.min(end, start + EXCERPT_CHARACTERS * 4);
  const text = Buffer.from(data.buffer, data.byteOffset + start, cut - start).toString("utf8");
  // A character cut in two at the end of the excerpt decodes to U+FFFD; it is beyond the 80th anyway.
  const shown = Array.from(text).slice(0, EXCERPT_CHARACTERS).join("");
  return shown.replace(/[\u0000-\u001f\u007f-\u009f]/g, "\u00b7");
}

function lineNumber(data: Uint8Array, lineStart: number, origin: LineOrigin): number | undefined {
  const before = countLines(data, lineStart);
  if (origin.firstLine !== undefined) return origin.firstLine + before;
  if (origin.path === undefined) return undefined;
  const start = origin.start ?? 0;
  const earlier = start === 0 ? 0 : countFileLines(origin.path, start);
  return earlier === undefined ? undefined : earlier + before + 1;
}

/** Line ends in the first `end` bytes. */
export function countLines(data: Uint8Array, end: number): number {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  let count = 0;
  for (let p = bytes.indexOf(LF); p >= 0 && p < end; p = bytes.indexOf(LF, p + 1)) count++;
  return count;
}

/** Line ends in the first `end` bytes of a file; undefined when it cannot be read any more. */
export function countFileLines(path: string, end: number): number | undefined {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch {
    return undefined;
  }
  try {
    const buffer = Buffer.allocUnsafe(1024 * 1024);
    let count = 0;
    for (let at = 0; at < end;) {
      const got = readSync(fd, buffer, 0, Math.min(buffer.length, end - at), at);
      if (got === 0) return undefined;
      count += countLines(buffer.subarray(0, got), got);
      at += got;
    }
    return count;
  } catch {
    return undefined;
  } finally {
    closeSync(fd);
  }
}
