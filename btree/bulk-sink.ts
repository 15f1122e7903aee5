// A writer of its own into a store's file, for bulk loads from several threads. Nothing it writes is reachable until the
// store adopts the roots, so a crash leaves at most unused bytes.

import { saltSeed } from "./checksum.js";
import { FileStorage } from "./file-storage.js";
import type { TreeFormat } from "./format.js";
import { RecordLog, type NodeSink } from "./record-log.js";
import type { Bytes } from "./types.js";

/** What another thread needs in order to write nodes into a store's file. Structured-clonable. */
export interface BulkTarget extends TreeFormat {
  readonly path: string;
  /** One BigUint64: the next free offset, which all writers claim from. */
  readonly next: SharedArrayBuffer;
}

export interface BulkSinkOptions {
  /**
   * Claim so many bytes of the file at a time; 0 claims record by record, for a single writer.
   * @defaultValue 1 MiB
   */
  readonly extentBytes?: number;
}

/** Bytes of one write. */
const BUFFER_BYTES = 512 * 1024;
const DEFAULT_EXTENT_BYTES = 1024 * 1024;

/** A NodeSink with a file descriptor of its own. */
export class BulkSink implements NodeSink {
  readonly #storage: FileStorage;
  readonly #log: RecordLog;

  constructor(target: BulkTarget, options: BulkSinkOptions) {
    this.#storage = FileStorage.open(target.path, "write");
    this.#log = new RecordLog(
      this.#storage,
      new BigUint64Array(target.next),
      saltSeed(target.salt),
      {
        extentBytes: options.extentBytes ?? DEFAULT_EXTENT_BYTES,
        bufferBytes: BUFFER_BYTES,
      },
    );
  }

  get bytesWritten(): number {
    return this.#log.bytesWritten;
  }

  append(record: Bytes): number {
    return this.#log.append(record);
  }

  read(offset: number, length: number): Bytes {
    return this.#log.read(offset, length);
  }

  /** Writes out what is gathered and gives back the unused rest of the extent if it is the file's end. */
  flush(): void {
    this.#log.flush();
    this.#log.releaseExtent();
  }

  /** Closes the descriptor. What was not flushed is lost. */
  close(): void {
    this.#storage.close();
  }
}

/**
 * Opens the file of `store.bulk()` for writing nodes, in any thread.
 * @throws BtreeError BTREE_NOT_FOUND, BTREE_IO
 */
export function openBulkSink(target: BulkTarget, options: BulkSinkOptions = {}): BulkSink {
  return new BulkSink(target, options);
}
