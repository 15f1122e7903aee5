// Reads run files. A build may have left thousands of them, more than a process may hold open: descriptors are kept for the files read
// last, and a file is opened again when it is its turn, which costs little beside reading what then is needed of it.

import { closeSync, openSync, readSync } from "node:fs";
import { damaged, runIoError } from "./run-errors.js";

/** Descriptors one merge holds. Several merges run at once, and a limit of 1024 a process is common. */
const OPEN_FILES_MAX = 100;

export class RunReaders {
  /** By path, the one used last at the end. */
  readonly #open = new Map<string, number>();
  /** Files without a name, which could not be opened again. */
  readonly #unnamed = new Map<string, number>();

  /** Takes over the descriptor of a file that has no name any more; `path` stands for it. */
  adopt(path: string, fd: number): void {
    this.#unnamed.set(path, fd);
  }

  /**
   * Fills dst[0, length) from the file.
   *
   * @throws BtreeError BTREE_CORRUPT when the file is missing or ends before, BTREE_IO when it cannot be opened or read.
   */
  read(path: string, dst: Uint8Array, length: number, position: number): void {
    const fd = this.#unnamed.get(path) ?? this.#descriptor(path);
    let done = 0;
    while (done < length) {
      let n: number;
      try {
        n = readSync(fd, dst, done, length - done, position + done);
      } catch (error) {
        throw runIoError(path, `cannot be read at byte ${position + done}`, error);
      }
      if (n === 0) throw damaged(path, position + done, "ends before its segment does");
      done += n;
    }
  }

  close(): void {
    for (const fds of [this.#open, this.#unnamed]) {
      for (const fd of fds.values()) closeSync(fd);
      fds.clear();
    }
  }

  #descriptor(path: string): number {
    const open = this.#open;
    let fd = open.get(path);
    if (fd !== undefined) {
      open.delete(path);
    } else {
      for (const [oldest, descriptor] of open) {
        if (open.size < OPEN_FILES_MAX) break;
        open.delete(oldest);
        closeSync(descriptor);
      }
      try {
        fd = openSync(path, "r");
      } catch (error) {
        // A file that a checkpoint refers to and that is not there is as bad as one whose bytes are not.
        if ((error as NodeJS.ErrnoException).code === "ENOENT")
          throw damaged(path, 0, "is missing");
        throw runIoError(path, "cannot be opened", error);
      }
    }
    open.set(path, fd);
    return fd;
  }
}
