// Documents from a stream that ends, such as stdin: spooled to a temporary file, so that workers can read their ranges and
// memory does not grow with it; then a snapshot like any other file.

import { createWriteStream, openSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import { IndexerError } from "../errors.js";
import { FileSource, type FileSourceOptions } from "./file-source.js";

export interface StdinSourceOptions extends FileSourceOptions {
  /** Folder of the temporary file. Default: the system's. */
  readonly spoolDir?: string | undefined;
  /** What to read. Default `process.stdin`. */
  readonly input?: Readable | undefined;
  /** Name in messages. Default `stdin`. */
  readonly label?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

const PREFIX = "viewmill-stdin-";

/** `-`. */
export class StdinSource extends FileSource {
  readonly #options: StdinSourceOptions;
  #spooled: Promise<void> | undefined;
  readonly #removeAtExit: () => void;

  constructor(options: StdinSourceOptions = {}) {
    const dir = options.spoolDir ?? tmpdir();
    const name = `${PREFIX}${process.pid}-${randomBytes(6).toString("hex")}.ndjson`;
    super(join(dir, name), { format: "documents", snapshot: true }, options);
    this.#options = options;
    removeOrphans(dir);
    this.#removeAtExit = () => {
      rmSync(this.path, { force: true });
    };
    process.once("exit", this.#removeAtExit);
  }

  override get label(): string {
    return this.#options.label ?? "stdin";
  }

  protected override async ready(): Promise<void> {
    this.#spooled ??= this.#spool();
    await this.#spooled;
  }

  async #spool(): Promise<void> {
    const { signal } = this.#options;
    const input = this.#options.input ?? process.stdin;
    try {
      // Opened at once: a stream that opens later could make the file after it was removed.
      const fd = openSync(this.path, "wx", 0o600);
      await pipeline(input, createWriteStream(this.path, { fd }), { signal });
    } catch (error) {
      if (signal?.aborted) throw new IndexerError("INDEXER_ABORTED", "The operation was aborted.");
      const why = error instanceof Error ? error.message : String(error);
      throw new IndexerError(
        "SOURCE_UNREADABLE",
        `${this.label} could not be copied to ${this.path}: ${why}.`,
        { file: this.path },
        { cause: error },
      );
    }
  }

  override async close(): Promise<void> {
    await super.close();
    process.removeListener("exit", this.#removeAtExit);
    this.#removeAtExit();
  }
}

/** Removes what killed processes left behind. */
function removeOrphans(dir: string): void {
  try {
    for (const name of readdirSync(dir)) {
      const pid = name.startsWith(PREFIX) ? Number.parseInt(name.slice(PREFIX.length), 10) : NaN;
      if (Number.isInteger(pid) && pid > 0 && !isRunning(pid)) {
        rmSync(join(dir, name), { force: true });
      }
    }
  } catch {
    // A folder that cannot be listed is reported when the file is made.
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as { code?: unknown }).code !== "ESRCH";
  }
}
