// A file of documents, one a line: a snapshot, or with `append` a log that only grows.

import { FileSource, type FileSourceOptions } from "./file-source.js";

export interface NdjsonSourceOptions extends FileSourceOptions {
  /** The file only grows: later lines are later changes, `"_deleted":true` deletes, nothing is read twice. Default false. */
  readonly append?: boolean | undefined;
}

/** `file.ndjson`. */
export class NdjsonSource extends FileSource {
  constructor(path: string, options: NdjsonSourceOptions = {}) {
    super(path, { format: "documents", snapshot: options.append !== true }, options);
  }
}
