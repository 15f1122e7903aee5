// StorageBackend over a file.

import {
  closeSync,
  fdatasync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";
import { BtreeError } from "./errors.js";
import type { StorageBackend } from "./storage.js";
import type { Bytes } from "./types.js";

/** Reads longer than this are checked against the file's size first, so that a damaged length allocates nothing. */
const READ_UNCHECKED_MAX = 65_536;

export type FileMode = "create" | "write" | "read";

export class FileStorage implements StorageBackend {
  readonly path: string;
  readonly #fd: number;
  #open = true;

  private constructor(path: string, fd: number) {
    this.path = path;
    this.#fd = fd;
  }

  /**
   * @throws BtreeError BTREE_EXISTS (create), BTREE_NOT_FOUND (write, read), BTREE_IO
   */
  static open(path: string, mode: FileMode): FileStorage {
    try {
      return new FileStorage(
        path,
        openSync(path, mode === "create" ? "wx+" : mode === "write" ? "r+" : "r"),
      );
    } catch (cause) {
      const code = (cause as NodeJS.ErrnoException).code;
      if (code === "EEXIST")
        throw new BtreeError("BTREE_EXISTS", `${path} exists already`, { file: path }, { cause });
      if (code === "ENOENT")
        throw new BtreeError(
          "BTREE_NOT_FOUND",
          `${path} does not exist`,
          { file: path },
          { cause },
        );
      throw new BtreeError(
        "BTREE_IO",
        `${path} cannot be opened: ${String(code)}`,
        { file: path },
        { cause },
      );
    }
  }

  size(): number {
    return fstatSync(this.#fd).size;
  }

  read(offset: number, length: number): Bytes {
    if (length > READ_UNCHECKED_MAX) length = Math.max(0, Math.min(length, this.size() - offset));
    const bytes = new Uint8Array(length);
    const done = this.readInto(offset, bytes);
    return done < length ? bytes.subarray(0, done) : bytes;
  }

  readInto(offset: number, target: Bytes): number {
    const { length } = target;
    let done = 0;
    while (done < length) {
      const n = readSync(this.#fd, target, done, length - done, offset + done);
      if (n === 0) break;
      done += n;
    }
    return done;
  }

  write(offset: number, bytes: Bytes): void {
    let done = 0;
    // A write may be cut short (a signal, a full disk); the rest then fails with the reason or goes through.
    while (done < bytes.length)
      done += writeSync(this.#fd, bytes, done, bytes.length - done, offset + done);
  }

  sync(): Promise<void> {
    // Syncs the file's length too, which is needed to find the data, but not its times: half the price of fsync for a header.
    return new Promise((resolve, reject) => {
      fdatasync(this.#fd, (error) => {
        if (error) reject(error);
        else resolve();
      });
    });
  }

  truncate(size: number): void {
    ftruncateSync(this.#fd, size);
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    closeSync(this.#fd);
  }
}

/** Makes a new file's name durable. Systems that cannot sync a folder (Windows) keep names durable themselves. */
export async function syncFolderOf(path: string): Promise<void> {
  let handle;
  try {
    handle = await open(dirname(path), "r");
  } catch {
    return;
  }
  try {
    await handle.sync();
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== "EISDIR" && code !== "EPERM" && code !== "EINVAL" && code !== "EBADF") throw error;
  } finally {
    await handle.close();
  }
}
