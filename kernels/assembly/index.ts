// What the module exports. ../kernel.ts has its types.

import { REVISION } from "../revision";

export { setRootOrder } from "./keys";
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
export { encodeReplies, repliesEnd, setTrees } from "./replies";
export {
  encodedBlockBytesMax,
  encodedBlocks,
  encodedEntries,
  encodedIndexEnd,
  encodeEntries,
} from "./segment";
export { setEntries, sortEntries } from "./sort";
export { rowSeqEnd, rowSeqStart, slice, sliceEnd, sliceRefused, sliceRows } from "./slice";

export function revision(): i32 {
  return REVISION;
}
