// The counting view server as a command, and what it counted.

import { existsSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("./servers/counting.js", import.meta.url));

export class CountingServer {
  readonly #file: string;

  /** @param file - where the servers note what they map; made by them. */
  constructor(file: string) {
    this.#file = file;
  }

  get command(): string {
    return `${process.execPath} ${PROGRAM} ${this.#file}`;
  }

  /** How often each document was mapped since the last call. */
  take(): Map<string, number> {
    const counts = new Map<string, number>();
    if (existsSync(this.#file))
      for (const id of readFileSync(this.#file, "utf8").split("\n"))
        if (id !== "") counts.set(id, (counts.get(id) ?? 0) + 1);
    rmSync(this.#file, { force: true });
    return counts;
  }
}
