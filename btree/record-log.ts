// Appends records to a file. Offsets are claimed from a counter that all writers of the file share, so that several threads
// write at once; records are sealed (their checksum depends on their offset), gathered in one buffer and written in large pieces.

import { crc32 } from "node:zlib";
import { recordSeed, sealRecord } from "./checksum.js";
import { BtreeError } from "./errors.js";
import type { Tail } from "./header.js";
import type { StorageBackend } from "./storage.js";
import type { Bytes } from "./types.js";

/** Where nodes go to. */
export interface NodeSink {
  /** Takes a framed record, fills in its checksum, and returns the offset where it will stand. The caller may reuse the buffer. */
  append(record: Bytes): number;
  /** Reads back, written or not. Fewer bytes than asked when the file ends before. */
  read(offset: number, length: number): Bytes;
  /** Writes out what is gathered. No sync. */
  flush(): void;
  /** Record bytes appended so far. */
  readonly bytesWritten: number;
}

export interface RecordLogOptions {
  /** 0 claims exactly what a record needs; otherwise so much at a time, which keeps the records of one writer together. */
  readonly extentBytes: number;
  readonly bufferBytes: number;
  /** How much `tail` may tell of. @defaultValue nothing */
  readonly tailBytesMax?: number;
}

export class RecordLog implements NodeSink {
  readonly #storage: StorageBackend;
  readonly #next: BigUint64Array;
  readonly #seed: number;
  readonly #extentBytes: number;
  readonly #buffer: Bytes;
  readonly #tailBytesMax: number;
  /** The gathered bytes belong at [#start, #start + #used). */
  #start = 0;
  #used = 0;
  #extentEnd = 0;
  #position = 0;
  #bytesWritten = 0;
  #failure: unknown;
  /** What was written since `startTail`: undefined where it is not known, or too much. */
  #tail: { readonly start: number; end: number; crc: number } | undefined;

  constructor(
    storage: StorageBackend,
    next: BigUint64Array,
    seed: number,
    options: RecordLogOptions,
  ) {
    this.#storage = storage;
    this.#next = next;
    this.#seed = seed;
    this.#extentBytes = options.extentBytes;
    this.#buffer = new Uint8Array(options.bufferBytes);
    this.#tailBytesMax = options.tailBytesMax ?? 0;
  }

  get bytesWritten(): number {
    return this.#bytesWritten;
  }

  /** First offset nobody has claimed. */
  get end(): number {
    return Number(Atomics.load(this.#next, 0));
  }

  /** @throws BtreeError BTREE_BROKEN */
  append(record: Bytes): number {
    this.assertUsable();
    const size = record.length;
    const offset = this.#claim(size);
    if (offset !== this.#start + this.#used || this.#used + size > this.#buffer.length) {
      this.flush();
      this.#start = offset;
    }
    if (size > this.#buffer.length) {
      const sealed = record.slice();
      sealRecord(sealed, 0, size, this.#seed, offset);
      this.#write(offset, sealed);
      this.#start = offset + size;
    } else {
      this.#buffer.set(record, this.#used);
      sealRecord(this.#buffer, this.#used, this.#used + size, this.#seed, offset);
      this.#used += size;
    }
    this.#bytesWritten += size;
    return offset;
  }

  read(offset: number, length: number): Bytes {
    const at = offset - this.#start;
    if (at >= 0 && at + length <= this.#used) return this.#buffer.slice(at, at + length);
    return this.#storage.read(offset, length);
  }

  readInto(offset: number, target: Bytes): number {
    const { length } = target;
    const at = offset - this.#start;
    const storage = this.#storage;
    if (storage.readInto && !(at >= 0 && at + length <= this.#used))
      return storage.readInto(offset, target);
    const bytes = this.read(offset, length);
    target.set(bytes);
    return bytes.length;
  }

  flush(): void {
    this.assertUsable();
    if (this.#used === 0) return;
    const bytes = this.#buffer.subarray(0, this.#used);
    this.#write(this.#start, bytes);
    this.#start += this.#used;
    this.#used = 0;
  }

  /** Gives the unused rest of the extent back if nobody has claimed more since. */
  releaseExtent(): void {
    if (this.#position < this.#extentEnd) {
      Atomics.compareExchange(this.#next, 0, BigInt(this.#extentEnd), BigInt(this.#position));
    }
    this.#extentEnd = this.#position;
  }

  /** From here on, at the end of what is claimed, `tail` tells what is written. Nothing must be gathered. */
  startTail(): void {
    const start = this.end;
    if (this.#tailBytesMax > 0)
      this.#tail = { start, end: start, crc: recordSeed(this.#seed, start) };
  }

  /**
   * All that was written since `startTail`, when it is a single stretch up to the end of what is claimed, written through this log, and
   * no longer than a commit's tail may be.
   */
  tail(): Tail | undefined {
    const tail = this.#tail;
    if (tail === undefined || tail.end !== this.end || this.#used > 0) return undefined;
    return { start: tail.start, crc: tail.crc };
  }

  /** Refuses everything from now on. */
  fail(cause: unknown): BtreeError {
    this.#failure ??= cause ?? new Error("unknown failure");
    return this.#broken();
  }

  get usable(): boolean {
    return this.#failure === undefined;
  }

  assertUsable(): void {
    if (this.#failure !== undefined) throw this.#broken();
  }

  #claim(size: number): number {
    if (this.#extentBytes === 0) return Number(Atomics.add(this.#next, 0, BigInt(size)));
    if (this.#position + size > this.#extentEnd) {
      const extent = Math.max(size, this.#extentBytes);
      const start = Number(Atomics.add(this.#next, 0, BigInt(extent)));
      // When nobody else claimed in between, the extents are one and no gap is left.
      if (start !== this.#extentEnd) this.#position = start;
      this.#extentEnd = start + extent;
    }
    const offset = this.#position;
    this.#position += size;
    return offset;
  }

  #write(offset: number, bytes: Bytes): void {
    const tail = this.#tail;
    if (tail) {
      tail.crc = crc32(bytes, tail.crc);
      tail.end += bytes.length;
      if (offset + bytes.length !== tail.end || tail.end - tail.start > this.#tailBytesMax)
        this.#tail = undefined;
    }
    try {
      this.#storage.write(offset, bytes);
    } catch (cause) {
      throw this.fail(cause);
    }
  }

  #broken(): BtreeError {
    const file = this.#storage.path;
    const cause = this.#failure;
    const reason =
      cause instanceof Error || (typeof cause === "object" && cause !== null && "message" in cause)
        ? String(cause.message)
        : String(cause);
    return new BtreeError(
      "BTREE_BROKEN",
      `writing ${file ?? "the store"} failed (${reason}); nothing more is written through this handle: remove the cause, then reopen it`,
      { file },
      { cause },
    );
  }
}
