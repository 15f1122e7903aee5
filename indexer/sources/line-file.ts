// A file of lines: opened once, cut at line boundaries by small reads near the target, fingerprinted by samples. Lines
// themselves are read by whoever maps them. Small reads are synchronous: a few microseconds each, once per chunk.

import { closeSync, fstatSync, openSync, readSync, statSync, type BigIntStats } from "node:fs";
import { IndexerError } from "../errors.js";
import { contentHashHex } from "./content-hash.js";
import { malformedLine, type LineOrigin } from "./line-errors.js";

const LF = 0x0a;
const PIECE_BYTES = 16 * 1024;
const SAMPLE_BYTES = 4096;
const INNER_SAMPLES = 6;
const INNER_SAMPLE_BYTES = 256;
// A file changed this recently may change again within the same tick of its clock, unseen.
const CLOCK_TICK_MS = 50;

/** A line: [start, end) without its LF, and whether the LF is there. */
export interface LineSpan {
  readonly start: number;
  readonly end: number;
  readonly complete: boolean;
}

/** An open file. All offsets are absolute. */
export class LineFile {
  readonly path: string;
  /** Tells this file from another one that was put under its path since. */
  readonly inode: string;
  readonly #fd: number;
  #closed = false;

  private constructor(path: string, fd: number, stats: BigIntStats) {
    this.path = path;
    this.#fd = fd;
    this.inode = inodeOf(stats);
  }

  /** @throws IndexerError SOURCE_NOT_FOUND, SOURCE_UNREADABLE. */
  static open(path: string): LineFile {
    let fd: number;
    try {
      fd = openSync(path, "r");
    } catch (error) {
      throw unreadable(path, error);
    }
    try {
      const stats = fstatSync(fd, { bigint: true });
      if (stats.isDirectory()) {
        throw new IndexerError("SOURCE_UNREADABLE", `${path} is a folder, not a file of lines.`, {
          file: path,
        });
      }
      if (!stats.isFile()) {
        const advice = "is not a regular file. Pipe it in instead, with `-` as the source.";
        throw new IndexerError("SOURCE_UNREADABLE", `${path} ${advice}`, { file: path });
      }
      return new LineFile(path, fd, stats);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  size(): number {
    return fstatSync(this.#fd).size;
  }

  /** Reads up to `length` bytes; fewer at the end of the file. */
  read(offset: number, length: number): Buffer {
    const buffer = Buffer.allocUnsafe(length);
    return buffer.subarray(0, this.readInto(buffer, offset));
  }

  /** Fills the buffer from `offset`; returns how many bytes there were. */
  readInto(buffer: Uint8Array, offset: number): number {
    let used = 0;
    try {
      while (used < buffer.length) {
        const got = readSync(this.#fd, buffer, used, buffer.length - used, offset + used);
        if (got === 0) break;
        used += got;
      }
    } catch (error) {
      throw unreadable(this.path, error);
    }
    return used;
  }

  /** Offset of the first line: after a byte order mark, if there is one. */
  firstByte(): number {
    const head = this.read(0, 3);
    return head.length === 3 && head[0] === 0xef && head[1] === 0xbb && head[2] === 0xbf ? 3 : 0;
  }

  /**
   * The end of the line that byte `at` belongs to: index after its LF, or `size` when it has none before.
   * @throws IndexerError SOURCE_LINE_TOO_LONG after `lineBytesMax` bytes without a line end.
   */
  lineEnd(at: number, size: number, lineBytesMax: number): number {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, Math.max(0, size - at)));
    for (let p = at; p < size;) {
      const got = this.readInto(piece.subarray(0, Math.min(piece.length, size - p)), p);
      if (got === 0) throw changedWhileRead(this.path);
      const found = piece.subarray(0, got).indexOf(LF);
      if (found >= 0) return p + found + 1;
      p += got;
      if (p - at > lineBytesMax) throw this.#tooLong(at, lineBytesMax);
    }
    return size;
  }

  /** Start of the line that ends at `end` (its LF, if any, at `end - 1`), not before `floor`. */
  lineStart(end: number, floor: number, lineBytesMax: number): number {
    let high = end > floor && this.read(end - 1, 1)[0] === LF ? end - 1 : end;
    const top = high;
    while (high > floor) {
      const low = Math.max(floor, high - PIECE_BYTES);
      const found = this.read(low, high - low).lastIndexOf(LF);
      if (found >= 0) return low + found + 1;
      high = low;
      if (top - high > lineBytesMax) throw this.#tooLong(high, lineBytesMax);
    }
    return floor;
  }

  /** Hash of samples of the first `at` bytes: the beginning, the end, and six places between. Cheap at any size. */
  fingerprint(at: number): string {
    const samples: Buffer[] = [this.read(0, Math.min(at, SAMPLE_BYTES))];
    if (at > SAMPLE_BYTES) {
      const tail = Math.min(SAMPLE_BYTES, at - SAMPLE_BYTES);
      samples.push(this.read(at - tail, tail));
    }
    const inner = at - 2 * SAMPLE_BYTES;
    if (inner > INNER_SAMPLES * INNER_SAMPLE_BYTES) {
      for (let i = 0; i < INNER_SAMPLES; i++) {
        const offset = SAMPLE_BYTES + Math.floor((inner / INNER_SAMPLES) * i);
        samples.push(this.read(offset, INNER_SAMPLE_BYTES));
      }
    } else if (inner > 0) samples.push(this.read(SAMPLE_BYTES, inner));
    return contentHashHex(Buffer.concat(samples));
  }

  /**
   * Changes whenever the file's content may have: inode, size, times. A file that changed a moment ago gets a signature
   * that equals no other, because a second change within one tick of the clock would not show.
   */
  signature(): string {
    const stats = fstatSync(this.#fd, { bigint: true });
    const changed = stats.ctimeNs > stats.mtimeNs ? stats.ctimeNs : stats.mtimeNs;
    const recent = Date.now() - Number(changed / 1_000_000n) < CLOCK_TICK_MS;
    const parts = [inodeOf(stats), stats.size, stats.mtimeNs, stats.ctimeNs];
    return parts.join(".") + (recent ? `.${process.hrtime.bigint()}` : "");
  }

  /** Is the path still this file? */
  isCurrent(): boolean {
    try {
      return inodeOf(statSync(this.path, { bigint: true })) === this.inode;
    } catch {
      return false;
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#fd);
  }

  #tooLong(lineStart: number, lineBytesMax: number): IndexerError {
    const data = this.read(lineStart, 512);
    const origin: LineOrigin = { label: this.path, path: this.path, start: lineStart };
    const problem = `the line has more than ${lineBytesMax} bytes (--line-max, lineBytesMax, allows more)`;
    return malformedLine(data, 0, data.length, problem, origin, "SOURCE_LINE_TOO_LONG");
  }
}

/** Device and inode of an open file, as text. */
export function inodeOf(stats: { readonly dev: bigint; readonly ino: bigint }): string {
  return `${stats.dev}:${stats.ino}`;
}

/** A file error as ours. */
export function unreadable(path: string, error: unknown): IndexerError {
  const code = errorCode(error);
  if (code === "ENOENT" || code === "ENOTDIR") {
    return new IndexerError(
      "SOURCE_NOT_FOUND",
      `There is no file ${path}.`,
      { file: path },
      { cause: error },
    );
  }
  const why = code === "EACCES" || code === "EPERM" ? "permission denied" : (code ?? String(error));
  return new IndexerError(
    "SOURCE_UNREADABLE",
    `${path} cannot be read: ${why}.`,
    { file: path },
    { cause: error },
  );
}

/** The error for a file that became shorter, or another one, in the middle of a read. */
export function changedWhileRead(path: string): IndexerError {
  const message = `${path} was replaced or truncated while it was read. Run again when it is complete.`;
  return new IndexerError("SOURCE_CHANGED", message, { file: path });
}

/** Node's code of a system error. */
export function errorCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}
