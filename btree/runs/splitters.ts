// Cuts a merge into parts of about equal size, so that several threads can each merge one range. Sees only the sparse indexes: a key
// every 16 KiB.

import { compareBytes } from "../bytes.js";
import { BLOCK_BYTES_MAX } from "./format.js";
import { RunReaders } from "./run-readers.js";
import { SegmentIndex, type SegmentRef } from "./segment-index.js";

/** Blocks looked at, about: some hundred a part cut evenly enough. */
const SAMPLES_AIM = 8192;

/**
 * Keys that cut the merged input into at most `parts` parts: below the first, from each to the next, from the last on. Strictly
 * ascending; fewer than `parts - 1` (even none) when the input is small or has few distinct keys. Equal keys stay together.
 *
 * @throws BtreeError BTREE_CORRUPT when an index is damaged; BTREE_IO when a file cannot be read.
 */
export function splitters(refs: readonly SegmentRef[], parts: number): Uint8Array[] {
  const blocks = sampleBlocks(refs);
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
      cuts.push(key);
    }
    before += bytes;
  }
  return cuts;
}

interface Sample {
  readonly key: Uint8Array;
  /** Of the blocks that it stands for. */
  readonly bytes: number;
}

/** Every block of small inputs, one of several of larger ones. */
function sampleBlocks(refs: readonly SegmentRef[]): Sample[] {
  const readers = new RunReaders();
  const blocks = refs.reduce((sum, { length }) => sum + length / BLOCK_BYTES_MAX, 0);
  const stride = Math.max(1, Math.ceil(blocks / SAMPLES_AIM));
  try {
    return refs.flatMap((ref) => {
      const index = SegmentIndex.read(readers, ref);
      const samples: Sample[] = [];
      for (let block = 0; block < index.blocks; block += stride) {
        const next = Math.min(block + stride, index.blocks);
        const { blockOffsets } = index;
        samples.push({
          // A copy: a view would keep the whole index.
          key: index.blockKey(block).slice(),
          bytes: (blockOffsets[next] as number) - (blockOffsets[block] as number),
        });
      }
      return samples;
    });
  } finally {
    readers.close();
  }
}
