// From what a person writes to a source: `file.ndjson`, `changes:file.ndjson`, `-`, `http://…/db`, `pouchdb:PATH`.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { IndexerError } from "../errors.js";
import { ChangesFileSource } from "./changes-file-source.js";
import { CouchSource, type CouchSourceOptions } from "./couch-source.js";
import type { FileSourceOptions } from "./file-source.js";
import { NdjsonSource } from "./ndjson-source.js";
import { openPouchSource } from "./pouch-source.js";
import type { Source } from "./source.js";
import { StdinSource } from "./stdin-source.js";

/** Options of every kind of source; those that do not concern the one that is opened are refused or ignored as said. */
export interface OpenSourceOptions extends FileSourceOptions {
  /** Only for `file.ndjson`. */
  readonly append?: boolean | undefined;
  /** Only for `-`. Folder of the temporary file. */
  readonly spoolDir?: string | undefined;
  /** Only for `-`. Default `process.stdin`. */
  readonly input?: Readable | undefined;
  /** Only for `http:` and `https:`. */
  readonly couch?: CouchSourceOptions | undefined;
  /** Folder that relative paths start from. Default: the current one. */
  readonly cwd?: string | undefined;
}

/**
 * Opens a source by its name.
 * @throws IndexerError SOURCE_USAGE for a name or a combination that makes no sense. What does not exist is reported by the
 * source's first use.
 */
export async function openSource(spec: string, options: OpenSourceOptions = {}): Promise<Source> {
  const kind = kindOf(spec);
  if (options.append === true && kind !== "documents") {
    throw new IndexerError("SOURCE_USAGE", `--append is for a file of documents, not for ${spec}.`);
  }
  if (options.idField !== undefined && kind !== "documents" && kind !== "stdin") {
    throw new IndexerError(
      "SOURCE_USAGE",
      `--id-field is for files of documents, not for ${spec}.`,
    );
  }
  const cwd = options.cwd ?? process.cwd();
  switch (kind) {
    case "stdin":
      return new StdinSource(options);
    case "changes":
      return new ChangesFileSource(resolve(cwd, rest(spec)), options);
    case "pouchdb":
      return openPouchSource(resolve(cwd, rest(spec)));
    case "couchdb":
      return new CouchSource(spec, {
        onWarning: options.onWarning,
        lineBytesMax: options.lineBytesMax,
        ...options.couch,
      });
    case "documents":
      return new NdjsonSource(resolve(cwd, spec), options);
  }
}

/** Bytes of the file that a source's name stands for; 0 when there is none, or it stands for something else. */
export function fileBytes(spec: string): number {
  const kind = kindOf(spec);
  if (kind !== "documents" && kind !== "changes") return 0;
  const path = kind === "changes" ? rest(spec) : spec;
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function kindOf(spec: string): "stdin" | "changes" | "pouchdb" | "couchdb" | "documents" {
  if (spec === "") throw new IndexerError("SOURCE_USAGE", "The source is empty.");
  if (spec === "-") return "stdin";
  if (/^https?:\/\//i.test(spec)) return "couchdb";
  const prefix = /^(changes|pouchdb):(.*)$/s.exec(spec);
  if (!prefix) return "documents";
  if (prefix[2] === "") {
    throw new IndexerError("SOURCE_USAGE", `${spec} names no path after the colon.`);
  }
  return prefix[1] === "changes" ? "changes" : "pouchdb";
}

function rest(spec: string): string {
  return spec.slice(spec.indexOf(":") + 1);
}
