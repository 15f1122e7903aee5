// The public names of the storage engine, one by one. Another folder enters btree/ through this file only.

export { CANCEL, FAN_IN_MAX } from "./runs/format.js";
export { EntryBatch, type RawEntries } from "./runs/entry-batch.js";
export {
  appendSegment,
  type CombinedValue,
  encodeSegment,
  type EncodeSegmentOptions,
} from "./runs/encode-segment.js";
export { RunFile } from "./runs/run-file.js";
export type { SegmentRef } from "./runs/segment-index.js";
export { LeafMerger, type LeafMergeOptions } from "./runs/merge-kernel.js";
export { type EntrySink, Merger, type MergeOptions, mergeSegments } from "./runs/merger.js";
export { type DamagedSegment, damagedSegments } from "./runs/check-segments.js";
export { splitters } from "./runs/splitters.js";

export type {
  Bytes,
  ByteSpan,
  CacheStats,
  Entry,
  GroupParts,
  KeyRange,
  LeafSlice,
  MergedEntry,
  RangeParts,
  RangeWalk,
  Reducer,
  TreeOp,
  TreeReader,
  TreeRoot,
  VisitedSlice,
} from "./types.js";
export {
  BTREE_ERROR_CODES,
  BtreeError,
  type BtreeErrorCode,
  type BtreeErrorDetails,
  isBtreeError,
} from "./errors.js";
export { FORMAT_VERSION, type TreeFormat } from "./format.js";
export type { StorageBackend } from "./storage.js";
export { FileStorage } from "./file-storage.js";
export { MemoryStorage } from "./memory-storage.js";
export { NodeCache, sharedNodeCache } from "./node-cache.js";
export { Store } from "./store.js";
export type {
  CreateOptions,
  LogLimits,
  OpenOptions,
  StoreOptions,
  StoreStats,
} from "./store-options.js";
export type { Snapshot } from "./snapshot.js";
export type { ApplyStats } from "./tree-update.js";
export type { ChildRef } from "./inner-node.js";
export type { NodeSink } from "./record-log.js";
export { BulkSink, type BulkSinkOptions, type BulkTarget, openBulkSink } from "./bulk-sink.js";
export { TreeBuilder } from "./builder.js";
export { assembleForests, type Forest } from "./forest.js";
export {
  Compaction,
  type CompactionOptions,
  type CompactionProgress,
  compactTree,
  type CompactTreeOptions,
  type EntryTarget,
} from "./compaction.js";
export { treeChanges } from "./tree-diff.js";
export { type Fault, type VerifyOptions, type VerifyReport, verifyStore } from "./verify.js";
export type { TreeReport } from "./verify-tree.js";
