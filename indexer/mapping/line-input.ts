// Reads what a task is to look at and slices it into documents. One instance a thread: buffers and columns are reused.

import type { IndexerError } from "../errors.js";
import {
  FileRangeReader,
  malformedLine,
  sliceChanges,
  sliceDocuments,
  Slices,
} from "../sources/index.js";
import type { LineInput } from "./types.js";

const LF = 0x0a;

export class LineReader {
  readonly slices = new Slices();
  readonly #ranges = new FileRangeReader();
  /** The bytes that the last `read` sliced. */
  lines: Uint8Array = new Uint8Array(0);
  #buffer = new Uint8Array(0);

  /**
   * Slices the input into `slices`, valid until the next call.
   * @throws IndexerError SOURCE_* naming file and line.
   */
  read(input: LineInput): Slices {
    const data = this.#bytes(input);
    this.lines = data;
    const range = "path" in input.data ? input.data : undefined;
    const origin = {
      label: input.label,
      path: input.pieces ? undefined : range?.path,
      start: range?.start,
      firstLine: input.firstLine,
    };
    const options = {
      idField: input.idField,
      lineBytesMax: input.lineBytesMax,
      localSeq: input.localSeq,
    };
    if (input.format === "documents") sliceDocuments(data, this.slices, options, origin);
    else sliceChanges(data, this.slices, options, origin);
    return this.slices;
  }

  /** The memory that lines are read into, for other use until the next `read`: `bytes` of it, or more. */
  lend(bytes: number): Uint8Array {
    if (this.#buffer.length < bytes) this.#buffer = new Uint8Array(bytes);
    return this.#buffer;
  }

  /** The error for a line of what was read last, naming file and line where they are known. */
  malformed(input: LineInput, lineStart: number, problem: string): IndexerError {
    const lf = this.lines.indexOf(LF, lineStart);
    const line = this.lines.subarray(lineStart, lf < 0 ? this.lines.length : lf);
    const { label } = input;
    if (!("path" in input.data))
      return malformedLine(this.lines, lineStart, lineStart + line.length, problem, {
        label,
        firstLine: input.firstLine,
      });
    const { path, start } = input.data;
    return malformedLine(line, 0, line.length, problem, {
      label,
      path,
      start: input.pieces ? placeInPieces(input.pieces, lineStart) : start + lineStart,
      firstLine: undefined,
    });
  }

  #bytes(input: LineInput): Uint8Array {
    if (!("path" in input.data)) return input.data;
    if (input.pieces) return this.#pieces(input.data.path, input.data.inode, input.pieces);
    const length = input.data.end - input.data.start;
    if (this.#buffer.length < length) this.#buffer = new Uint8Array(length);
    return this.#ranges.read(input.data, this.#buffer);
  }

  /** Single lines, joined by LF. */
  #pieces(path: string, inode: string | undefined, pieces: Float64Array): Uint8Array {
    let length = 0;
    for (let i = 0; i < pieces.length; i += 2)
      length += (pieces[i + 1] as number) - (pieces[i] as number) + 1;
    if (this.#buffer.length < length) this.#buffer = new Uint8Array(length);
    let used = 0;
    for (let i = 0; i < pieces.length; i += 2) {
      const start = pieces[i] as number;
      const end = pieces[i + 1] as number;
      this.#ranges.read(
        { path, start, end, ...(inode === undefined ? {} : { inode }) },
        this.#buffer.subarray(used, used + end - start),
      );
      used += end - start;
      this.#buffer[used++] = LF;
    }
    return this.#buffer.subarray(0, used);
  }
}

/** Where in its file byte `at` of the joined pieces is. */
function placeInPieces(pieces: Float64Array, at: number): number {
  let used = 0;
  for (let i = 0; i < pieces.length; i += 2) {
    const start = pieces[i] as number;
    const length = (pieces[i + 1] as number) - start + 1;
    if (at < used + length) return start + at - used;
    used += length;
  }
  return pieces.at(-1) ?? 0;
}
