// StorageBackend in memory: for tests and for stores that need not last.

import type { StorageBackend } from "./storage.js";
import type { Bytes } from "./types.js";

const CAPACITY_MIN = 65_536;

export class MemoryStorage implements StorageBackend {
  readonly path = undefined;
  #bytes: Bytes;
  #size: number;

  /** Starts with a copy of `image`. */
  constructor(image?: Bytes) {
    this.#size = image?.length ?? 0;
    this.#bytes = new Uint8Array(Math.max(CAPACITY_MIN, this.#size));
    if (image) this.#bytes.set(image);
  }

  size(): number {
    return this.#size;
  }

  read(offset: number, length: number): Bytes {
    return this.#bytes.slice(Math.min(offset, this.#size), Math.min(offset + length, this.#size));
  }

  write(offset: number, bytes: Bytes): void {
    const end = offset + bytes.length;
    if (end > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(end, this.#bytes.length * 2));
      grown.set(this.#bytes);
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, offset);
    if (end > this.#size) this.#size = end;
  }

  sync(): Promise<void> {
    return Promise.resolve();
  }

  truncate(size: number): void {
    if (size < this.#size) this.#bytes.fill(0, size, this.#size);
    else if (size > this.#bytes.length) this.write(size - 1, new Uint8Array(1));
    this.#size = size;
  }

  close(): void {
    // The bytes stay, so that the same storage can be opened again.
  }
}
