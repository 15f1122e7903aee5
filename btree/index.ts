// The public names of the storage engine, one by one. Another folder enters btree/ through this file only.

export { CANCEL, FAN_IN_MAX } from "./runs/format.js";
export { EntryBatch } from "./runs/entry-batch.js";
export {
  type CombinedValue,
  encodeSegment,
  type EncodeSegmentOptions,
} from "./runs/encode-segment.js";
export { RunFile } from "./runs/run-file.js";
export type { SegmentRef } from "./runs/segment-index.js";
export { type EntrySink, Merger, type MergeOptions, mergeSegments } from "./runs/merger.js";
export { splitters } from "./runs/splitters.js";
