// What the module exports. ../kernels.ts has its types.

import { REVISION } from "../revision";

export {
  mergedCount,
  mergedEnd,
  mergedEntriesRead,
  mergedFirstKeyLength,
  mergedNextKey,
  mergedNextKeyShared,
  mergedNextPlaced,
  mergedRows,
  mergeLeaf,
  openMerge,
  setLeaves,
} from "./merge";
export { project, setProjection, wroteHigh } from "./project";
export {
  encodedBlockBytesMax,
  encodedBlocks,
  encodedEntries,
  encodedIndexEnd,
  encodeEntries,
} from "./segment";
export { setEntries, sortEntries } from "./sort";
export { slice, sliceEnd, sliceRefused } from "./slice";

export function revision(): i32 {
  return REVISION;
}
