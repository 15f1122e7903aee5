// What the engine needs from a disk. Reads and writes are synchronous (a 4 KiB read costs 4 µs so, ten times that through a
// promise); only a sync waits. FORMAT.md lists what is assumed about the medium.

import type { Bytes } from "./types.js";

/**
 * Random access to one file or something like it. Offsets and lengths are in bytes.
 * Failures are thrown as they come from the system; the store wraps them.
 */
export interface StorageBackend {
  /** The file's path; undefined when there is none. */
  readonly path: string | undefined;
  size(): number;
  /** A fresh buffer of `length` bytes, or fewer when the file ends before. */
  read(offset: number, length: number): Bytes;
  /** Fills `target` from `offset`; returns how much there was. Where it is missing, `read` does. */
  readInto?(offset: number, target: Bytes): number;
  /** Writes all of `bytes`; a gap before `offset` reads as zeros. The caller may reuse the buffer afterwards. */
  write(offset: number, bytes: Bytes): void;
  /** Resolves when everything written before the call is durable. */
  sync(): Promise<void>;
  truncate(size: number): void;
  close(): void;
}
