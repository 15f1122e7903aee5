// The source of an index directory: opened when it is first needed, and held against what the directory was built from.

import { join, resolve } from "node:path";

import { IndexerError } from "../errors.js";
import type { ResolvedOptions } from "../options.js";
import { openSource, sameSource, type Source } from "../sources/index.js";
import type { SourceRecord } from "./manifest.js";

/** What the directory knows, and how it is changed. */
export interface SourceHost {
  /** The source that the directory was built from. */
  recorded(): SourceRecord | undefined;
  /** Another source takes its place, and is recorded once everything is built from it. */
  rebuild(): void;
  /** The source was opened. Called before it is recorded. */
  opened(source: SourceRecord): void;
  record(source: SourceRecord): void;
}

export class BoundSource {
  readonly #options: ResolvedOptions;
  readonly #host: SourceHost;
  readonly #owned: boolean;
  #opened: Source | undefined;
  #record: SourceRecord | undefined;

  constructor(options: ResolvedOptions, host: SourceHost) {
    this.#options = options;
    this.#host = host;
    this.#owned = typeof options.source !== "object";
  }

  /** Undefined until it was needed. */
  get opened(): Source | undefined {
    return this.#opened;
  }

  /** How it is recorded; undefined until it was opened. */
  get record(): SourceRecord | undefined {
    return this.#record;
  }

  /**
   * The source, opened.
   * @throws IndexerError SOURCE_USAGE when none was ever named, INDEXER_SOURCE_CHANGED when it is another one than the directory was built
   * from, SOURCE_*.
   */
  async require(): Promise<Source> {
    if (this.#opened) return this.#opened;
    const options = this.#options;
    const recorded = this.#host.recorded();
    const spec = options.source ?? recorded?.spec;
    if (spec === undefined)
      throw new IndexerError(
        "SOURCE_USAGE",
        `${options.dir} was built from no named source: give one (--source)`,
      );
    const append = options.append || (options.source === undefined && (recorded?.append ?? false));
    const idField =
      options.source === undefined ? (recorded?.idField ?? options.idField) : options.idField;
    const source =
      typeof spec === "string"
        ? await openSource(spec, {
            append,
            ...(idField === "_id" ? {} : { idField }),
            lineBytesMax: options.lineBytesMax,
            lookupDir: join(options.dir, "lookup"),
            onWarning: options.onWarning,
          })
        : spec;
    const identity = await source.identity();
    const same = recorded !== undefined && sameSource(recorded.identity, identity);
    if (recorded && !same && !options.readOnly) {
      if (!options.rebuild)
        throw new IndexerError(
          "INDEXER_SOURCE_CHANGED",
          `${options.dir} was built from ${recorded.identity.label} (${recorded.identity.id}), which is not ${identity.label} (${identity.id}). Use another directory, or --rebuild to build anew.`,
          { file: options.dir },
        );
      this.#host.rebuild();
    }
    const partitioned =
      options.partitioned ?? (same ? recorded.partitioned : undefined) ?? source.partitioned;
    this.#opened = source;
    this.#record = {
      spec: typeof spec === "string" ? recordedSpec(spec) : "",
      identity,
      append,
      idField,
      ...(partitioned === undefined ? {} : { partitioned }),
    };
    this.#host.opened(this.#record);
    // Another file in the place of the recorded one is recorded when it has proved readable.
    if (
      !options.readOnly &&
      (recorded?.identity.id !== identity.id || recorded.partitioned !== partitioned)
    )
      this.#host.record(this.#record);
    return source;
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#opened?.close();
  }
}

/** As it will be found again from any folder, and without a password. */
function recordedSpec(spec: string): string {
  if (spec === "-") return spec;
  if (/^https?:\/\//i.test(spec)) return spec.replace(/^(https?:\/\/)[^/@]*@/i, "$1");
  const [, kind = "", path = ""] = /^(changes:|pouchdb:)?(.*)$/s.exec(spec) ?? [];
  return kind + resolve(path);
}
