// Room on the disk: below a floor, updates pause between pages of the feed and go on by themselves; queries that need an update are
// refused as CouchDB refuses them (VIEWS §13), those that take the index as it is are answered.

import { statfsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import { IndexerError } from "../errors.js";
import { abortedError, type ChangesOptions, type Chunk, type Source } from "../sources/index.js";

/** How often it is looked for room, and how old an answer may be. */
const INTERVAL_MS = 500;

export class DiskRoom {
  readonly #dir: string;
  readonly #floor: number;
  readonly #onWarning: (message: string) => void;
  #paused = false;
  #looked = -Infinity;
  #free = Infinity;

  /** @param floor - bytes that stay free; 0: all may be used. */
  constructor(dir: string, floor: number, onWarning: (message: string) => void) {
    this.#dir = dir;
    this.#floor = floor;
    this.#onWarning = onWarning;
  }

  /** Whether an update waits for room. */
  get paused(): boolean {
    return this.#paused;
  }

  /** @throws IndexerError INDEXER_DISK_LOW with CouchDB's 507 in its details. */
  require(): void {
    if (this.#isThere()) return;
    throw new IndexerError(
      "INDEXER_DISK_LOW",
      `${this.#text()}: make room, or ask with update=false`,
      {
        file: this.#dir,
        status: 507,
        error: "insufficient_storage",
        reason: "not enough room to update index",
      },
    );
  }

  /** The same source, whose pages come only while there is room. */
  guard(source: Source): Source {
    if (this.#floor === 0) return source;
    const changes = (options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> =>
      this.#pages(source, options);
    return new Proxy(source, {
      get: (target, name) => {
        if (name === "changes") return changes;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }

  async *#pages(source: Source, options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    for await (const chunk of source.changes(options)) {
      await this.#wait(options.signal);
      yield chunk;
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
    if (this.#isThere()) return;
    this.#paused = true;
    this.#onWarning(`${this.#text()}: updates pause until there is more`);
    try {
      while (!this.#isThere()) {
        if (signal?.aborted) throw abortedError(signal);
        await sleep(INTERVAL_MS);
      }
      this.#onWarning("there is room on the disk again: updates go on");
    } finally {
      this.#paused = false;
    }
  }

  #isThere(): boolean {
    if (this.#floor === 0) return true;
    const now = performance.now();
    if (now - this.#looked >= INTERVAL_MS) {
      const { bavail, bsize } = statfsSync(this.#dir);
      this.#free = bavail * bsize;
      this.#looked = now;
    }
    return this.#free >= this.#floor;
  }

  #text(): string {
    return `${this.#dir}: less than ${Math.ceil(this.#floor / 2 ** 20)} MiB are free on the disk`;
  }
}
