// A thread cannot contain every allocation: some memory bombs abort the whole process. So while threads map, a small file counts the
// chunks that were begun since the last checkpoint. If it is found at the next start, a process died with that many chunks under
// way: they are mapped in child processes, where the guilty document can only take its own process down.

import { closeSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";

const CAREFUL_FILE = "mapping";

export class CarefulMarker {
  readonly #path: string;
  #fd: number | undefined;
  #begun = 0;

  constructor(dir: string) {
    this.#path = join(dir, CAREFUL_FILE);
  }

  /** Chunks after the checkpoint that were under way when an earlier process died; 0 when none did. */
  leftBehind(): number {
    try {
      return Number.parseInt(readFileSync(this.#path, "latin1"), 10) || 0;
    } catch {
      return 0;
    }
  }

  /** A chunk goes to the threads. */
  begin(): void {
    this.#begun++;
    this.#write();
  }

  /** Everything up to here is in a checkpoint; `underWay` chunks after it have begun. */
  checkpoint(underWay: number): void {
    this.#begun = underWay;
    if (this.#fd !== undefined) this.#write();
  }

  /** Mapping ended in an orderly way. */
  end(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
    this.#begun = 0;
    rmSync(this.#path, { force: true });
  }

  #write(): void {
    this.#fd ??= openSync(this.#path, "w");
    writeSync(this.#fd, String(this.#begun).padEnd(12), 0, "latin1");
  }
}
