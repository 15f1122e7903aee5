// Has a file changed? Told by one system call, of files that only grow and of those that are changed in place.

import { statSync, type Stats } from "node:fs";
import type { StampedFile } from "./source.js";

/** See line-file.ts. */
const CLOCK_TICK_MS = 50;
const QUIETLY = { throwIfNoEntry: false } as const;

export class FileStamp {
  readonly #file: StampedFile;
  #last: Stats | undefined;
  #text = "";

  constructor(file: StampedFile) {
    this.#file = file;
  }

  /** A text that changes whenever the file may have; undefined where that cannot be told. */
  read(): string | undefined {
    const stats = statSync(this.#file.path, QUIETLY);
    if (!stats) return undefined;
    const { mtimeMs, ctimeMs } = stats;
    // A log only grows, so its size tells; a snapshot may be changed again within the same tick of its clock.
    if (this.#file.snapshot && Date.now() - Math.max(mtimeMs, ctimeMs) < CLOCK_TICK_MS)
      return undefined;
    const last = this.#last;
    if (
      last?.ctimeMs !== ctimeMs ||
      last.mtimeMs !== mtimeMs ||
      last.size !== stats.size ||
      last.ino !== stats.ino ||
      last.dev !== stats.dev
    ) {
      this.#last = stats;
      this.#text = `${stats.dev}:${stats.ino}:${stats.size}:${mtimeMs}:${ctimeMs}`;
    }
    return this.#text;
  }
}
