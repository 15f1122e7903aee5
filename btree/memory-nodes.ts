// Nodes in memory: what a tree would look like with its waiting operations applied, for readers that need counts, ranks or reductions.
// They have offsets that no file reaches, so that a tree may be made of both kinds.

import { invariant } from "./errors.js";
import type { NodeSink } from "./record-log.js";
import type { Bytes } from "./types.js";

/** Offsets from here on are of nodes in memory: below the node cache's limit, beyond any file. */
export const MEMORY_OFFSETS_START = 2 ** 42;

/** Counts up the offsets of all nodes in memory of one store: none means two things. */
export class MemoryOffsets {
  #next = MEMORY_OFFSETS_START;

  next(): number {
    return this.#next++;
  }
}

export class MemoryNodes implements NodeSink {
  readonly #offsets: MemoryOffsets;
  readonly #records = new Map<number, Bytes>();
  #bytesWritten = 0;

  constructor(offsets: MemoryOffsets) {
    this.#offsets = offsets;
  }

  get bytesWritten(): number {
    return this.#bytesWritten;
  }

  append(record: Bytes): number {
    const offset = this.#offsets.next();
    this.#records.set(offset, record.slice());
    this.#bytesWritten += record.length;
    return offset;
  }

  read(offset: number, length: number): Bytes {
    return this.record(offset).subarray(0, length);
  }

  /** The whole framed record; its checksum is not set. */
  record(offset: number): Bytes {
    const record = this.#records.get(offset);
    invariant(record !== undefined, "a node in memory is gone");
    return record;
  }

  flush(): void {
    // Nothing is written anywhere.
  }
}
