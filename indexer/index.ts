// The public names of the library, one by one.

export { ViewIndex } from "./view-index.js";
export type {
  GroupInfo,
  IndexInfo,
  QueryOptions,
  QueryParameters,
  UpdateOptions,
} from "./view-index.js";
export type { ViewIndexOptions } from "./options.js";
export { MappingRuntime, type RuntimeOptions } from "./views/runtime.js";
export type { SyncPolicy, UpdateCounts, UpdateProgress } from "./views/update-types.js";
export type {
  CompactOptions,
  GroupCompaction,
  GroupCompactionProgress,
} from "./views/compaction.js";
export type { GroupVerification, VerifyOptions } from "./views/verification.js";
export type { DocumentError } from "./views/error-entry.js";
export {
  IndexerError,
  INDEXER_ERROR_CODES,
  type IndexerErrorCode,
  type IndexerErrorDetails,
} from "./errors.js";
export { QueryError, type CouchAnswer, type Row, type ViewAnswer } from "./query/index.js";
export {
  ChangesFileSource,
  CouchSource,
  MemorySource,
  NdjsonSource,
  openSource,
  type ChangesOptions,
  type Chunk,
  type DesignDocumentRow,
  type DocumentRequest,
  type FeedExtent,
  type FileRange,
  type Seq,
  type Source,
  type SourceIdentity,
} from "./sources/index.js";
