// Reads the file ranges of chunks in whoever maps them: synchronously, in a thread that has nothing else to do.
// A file that was replaced or cut since the range was made is noticed, so that no wrong bytes are mapped.

import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import type { FileRange } from "./source.js";
import { changedWhileRead, inodeOf, unreadable } from "./line-file.js";

/** Keeps the last file open between ranges. */
export class FileRangeReader {
  #path: string | undefined;
  #inode = "";
  #fd = -1;

  /**
   * The bytes of the range: in `into` from its start when they fit there, else in a new buffer.
   * @throws IndexerError SOURCE_CHANGED, SOURCE_NOT_FOUND, SOURCE_UNREADABLE.
   */
  read(range: FileRange, into?: Uint8Array): Uint8Array {
    this.#open(range);
    const length = range.end - range.start;
    const target =
      into && into.length >= length ? into.subarray(0, length) : new Uint8Array(length);
    let used = 0;
    while (used < length) {
      let got: number;
      try {
        got = readSync(this.#fd, target, used, length - used, range.start + used);
      } catch (error) {
        throw unreadable(range.path, error);
      }
      if (got === 0) throw changedWhileRead(range.path);
      used += got;
    }
    return target;
  }

  close(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
    this.#path = undefined;
  }

  #open(range: FileRange): void {
    const wanted = range.inode;
    if (this.#path === range.path && (wanted === undefined || wanted === this.#inode)) return;
    this.close();
    let fd: number;
    try {
      fd = openSync(range.path, "r");
    } catch (error) {
      throw unreadable(range.path, error);
    }
    const inode = inodeOf(fstatSync(fd, { bigint: true }));
    if (wanted !== undefined && wanted !== inode) {
      closeSync(fd);
      throw changedWhileRead(range.path);
    }
    this.#fd = fd;
    this.#path = range.path;
    this.#inode = inode;
  }
}
