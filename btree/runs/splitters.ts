// Cuts a merge into parts of about equal size, so that several threads can each merge one range. Sees only the sparse indexes: a key
// every 16 KiB.

import { compareBytes } from "../bytes.js";
import { RunReaders } from "./run-readers.js";
import { SegmentIndex, type SegmentRef } from "./segment-index.js";

/**
 * Keys that cut the merged input into at most `parts` parts: below the first, from each to the next, from the last on. Strictly
 * ascending; fewer than `parts - 1` (even none) when the input is small or has few distinct keys. Equal keys stay together.
 *
 * @throws BtreeError BTREE_CORRUPT when an index is damaged; BTREE_IO when a file cannot be read.
 */
export function splitters(refs: readonly SegmentRef[], parts: number): Uint8Array[] {
  const blocks = readBlocks(refs);
  blocks.sort((a, b) => compareBytes(a.key, b.key));
  const total = blocks.reduce((sum, block) => sum + block.bytes, 0);
  const cuts: Uint8Array[] = [];
  let before = 0;
  for (const { key, bytes } of blocks) {
    const last = cuts.at(-1);
    if (
      cuts.length < parts - 1 &&
      before >= (total * (cuts.length + 1)) / parts &&
      (last === undefined || compareBytes(last, key) < 0)
    ) {
      cuts.push(key.slice());
    }
    before += bytes;
  }
  return cuts;
}

function readBlocks(refs: readonly SegmentRef[]): { key: Uint8Array; bytes: number }[] {
  const readers = new RunReaders();
  try {
    return refs.flatMap((ref) => {
      const index = SegmentIndex.read(readers, ref);
      return Array.from({ length: index.blocks }, (_, block) => ({
        key: index.blockKey(block),
        bytes: (index.blockOffsets[block + 1] as number) - (index.blockOffsets[block] as number),
      }));
    });
  } finally {
    readers.close();
  }
}
