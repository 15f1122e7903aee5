// A file of changes rows, one a line, as CouchDB's `_changes?include_docs=true` prints them. Appended rows are new changes.

import { FileSource, type FileSourceOptions } from "./file-source.js";

/** `changes:file.ndjson`. Queries show the last row's own `seq`; resuming goes by byte offset. */
export class ChangesFileSource extends FileSource {
  constructor(path: string, options: Omit<FileSourceOptions, "idField"> = {}) {
    super(path, { format: "changes", snapshot: false }, options);
  }
}
