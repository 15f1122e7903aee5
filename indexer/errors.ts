// Every error the indexer raises on purpose: one class, stable codes, each with what it means. Messages are for people and may
// change; codes are stable within a major version.

/** Code → when it is raised. The README's table is checked against it. */
export const INDEXER_ERROR_CODES = {
  INDEXER_CLOSED: "the index was closed while or before the call ran",
  INDEXER_ABORTED: "the caller's AbortSignal fired",
  INDEXER_LOCKED: "another process is writing to this index directory",
  INDEXER_NO_INDEX: "the directory holds no index, or not the one asked for",
  INDEXER_FORMAT_UNSUPPORTED: "the directory was written by a newer version",
  INDEXER_SOURCE_CHANGED: "the index was built from another source",
  INDEXER_DDOC_INVALID: "a design document breaks a rule",
  INDEXER_DDOC_COMPILATION: "a function of a design document does not compile",
  INDEXER_DDOC_UNREADABLE: "a design document file cannot be read",
  INDEXER_VIEW_NOT_FOUND: "the design document or view does not exist",
  INDEXER_MAP_FAILED: "strict mode: a document failed to map, so the whole group fails",
  INDEXER_SERVER_EXITED: "the view server died",
  INDEXER_SERVER_NOT_FOUND: "the view server's command cannot be started",
  INDEXER_SERVER_TIMEOUT: "the view server gave no answer in time",
  INDEXER_SERVER_PROTOCOL: "the view server broke the protocol",
  INDEXER_REDUCE_FAILED: "a reduce failed for a range that the query contains",
  INDEXER_DISK_LOW: "less room is left on the disk than `minFreeBytes` asks for",
  INDEXER_INCONSISTENT: "the trees of an index file contradict each other",
  INDEXER_RUNS_CORRUPT: "the intermediate files of a build are damaged",
  JSON_MALFORMED: "a text that must be JSON is not",
  SOURCE_NOT_FOUND: "the file or database does not exist",
  SOURCE_UNREADABLE: "the source cannot be read",
  SOURCE_MALFORMED: "a line of the source is not what it must be",
  SOURCE_LINE_TOO_LONG: "a line of the source exceeds the limit",
  SOURCE_UNREACHABLE: "the database server cannot be reached",
  SOURCE_UNAUTHORIZED: "the database server refuses the name or password",
  SOURCE_HTTP: "the database server answered with an error",
  SOURCE_CHANGED: "a file of the source was replaced or truncated while it was read",
  SOURCE_USAGE: "the source cannot be used in this way",
} as const;

export type IndexerErrorCode = keyof typeof INDEXER_ERROR_CODES;

/** Where it happened, as far as known. */
export interface IndexerErrorDetails {
  readonly file?: string;
  readonly line?: number;
  readonly docId?: string;
  readonly view?: string;
  readonly status?: number;
  /** CouchDB's error name for HTTP answers, e.g. `not_found`. */
  readonly error?: string;
  /** CouchDB's reason text for HTTP answers. */
  readonly reason?: string;
  readonly exitCode?: number;
  readonly signal?: string;
  readonly stderr?: string;
}

export class IndexerError extends Error {
  readonly code: IndexerErrorCode;
  readonly details: IndexerErrorDetails;

  constructor(
    code: IndexerErrorCode,
    message: string,
    details: IndexerErrorDetails = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
  }
}
Object.defineProperty(IndexerError.prototype, "name", { value: "IndexerError" });

/** For our own bugs only. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`viewmill bug: ${message}`);
}
