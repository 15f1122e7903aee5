// Writing run files. Appends are not synced: the owner records a segment in a checkpoint, and
// one that did not survive a power loss is found damaged and built again.

import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { damaged, runIoError } from "./run-errors.js";
import { FOOTER_BYTES, FOOTER_ENTRIES } from "./format.js";
import type { SegmentRef } from "./segment-index.js";

/** A file of segments, open for appending by one writer. */
export class RunFile {
  readonly path: string;
  #fd: number;
  #length: number;

  /**
   * Begins an empty run file; what a killed build may have left under this name is replaced.
   *
   * @throws BtreeError BTREE_IO when the file cannot be made.
   */
  static create(path: string): RunFile {
    return new RunFile(path, openFile(path, "w"), 0);
  }

  /**
   * Goes on after the first `length` bytes, those a checkpoint knows of; what is behind them is cut off.
   *
   * @throws BtreeError BTREE_IO when the file cannot be opened, BTREE_CORRUPT when it is shorter.
   */
  static resume(path: string, length: number): RunFile {
    const fd = openFile(path, "r+");
    try {
      if (fstatSync(fd).size < length) {
        throw damaged(path, length, `is shorter than the ${length} bytes of its last checkpoint`);
      }
      ftruncateSync(fd, length);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    return new RunFile(path, fd, length);
  }

  /**
   * A run file without a name: it vanishes with its descriptor, also when the process is killed.
   *
   * @internal
   */
  static temporary(path: string): RunFile {
    const fd = openFile(path, "wx+");
    unlinkSync(path);
    return new RunFile(path, fd, 0);
  }

  private constructor(path: string, fd: number, length: number) {
    this.path = path;
    this.#fd = fd;
    this.#length = length;
  }

  /** Bytes written. */
  get length(): number {
    return this.#length;
  }

  /**
   * Appends a segment made by `encodeSegment`.
   *
   * @throws BtreeError BTREE_IO when the disk refuses: the file is then as it was before, and may be appended to again.
   */
  append(segment: Uint8Array): SegmentRef {
    const offset = this.#length;
    this.write(segment);
    const footer = new DataView(
      segment.buffer,
      segment.byteOffset + segment.length - FOOTER_BYTES,
      FOOTER_BYTES,
    );
    return {
      path: this.path,
      offset,
      length: segment.length,
      entries: footer.getFloat64(FOOTER_ENTRIES, true),
    };
  }

  /**
   * Appends bytes of a segment that is written piece by piece.
   *
   * @internal
   */
  write(bytes: Uint8Array): void {
    let done = 0;
    try {
      while (done < bytes.length) {
        done += writeSync(this.#fd, bytes, done, bytes.length - done, this.#length + done);
      }
    } catch (error) {
      throw runIoError(this.path, "cannot be written", error);
    }
    this.#length += done;
  }

  /** Makes what was appended survive a power loss. */
  sync(): void {
    try {
      fsyncSync(this.#fd);
    } catch (error) {
      throw runIoError(this.path, "cannot be synced", error);
    }
  }

  /**
   * Hands the descriptor over to a reader, who closes it.
   *
   * @internal
   */
  release(): number {
    const fd = this.#fd;
    this.#fd = -1;
    return fd;
  }

  /** Closes the file; a second call does nothing. */
  close(): void {
    if (this.#fd < 0) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }
}

function openFile(path: string, flags: string): number {
  try {
    return openSync(path, flags);
  } catch (error) {
    throw runIoError(path, "cannot be opened", error);
  }
}
