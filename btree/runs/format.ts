// How a sorted segment lies in a run file, in numbers; FORMAT.md explains it. A run file is segments one after the other, each of
// which stands alone.
//
//   segment  = block* index footer
//   block    = entry*, prefix-compressed; the first entry of a block shares nothing
//   entry    = shared varint | suffixLength varint | valueLength * 2 + cancel varint | ordinal - base, `ordinalWidth` bytes LE
//            | key suffix | value
//   index    = per block: bytes u32 | crc32 u32 | keyLength u8 | first key, cut to 255 bytes
//   footer   = see FOOTER_*; its crc32 covers index and footer, and the index holds the crc32 of every block, so that a
//              block is only ever accepted in its own place.
//
// Entries ascend by key; of equal keys the highest ordinal comes first, a cancel before the rows of its ordinal.
// All integers are little endian.

/** Entry flag: kills every entry of equal key with an ordinal not above its own. */
export const CANCEL = 1;

/**
 * Segments that one merge reads at once; more are merged into larger ones first. Reading 2400 at once takes three quarters of the
 * time of merging them 512 at a time and writing most entries twice; each needs a buffer of a block, so this many need 32 MiB.
 */
export const FAN_IN_MAX = 2048;

/** A block is closed before it would grow beyond this, unless a single entry is larger. */
export const BLOCK_BYTES_MAX = 16 * 1024;

/** First keys in the index are cut to this, the most that their length byte can tell. */
export const INDEX_KEY_BYTES_MAX = 255;

/** Bytes of an index record before its key. */
export const INDEX_RECORD_BYTES = 9;

/** "VMRS", read as a little-endian u32. */
export const SEGMENT_MAGIC = 0x53524d56;
export const SEGMENT_VERSION = 1;

// Footer:        magic u32 | version u32 | index bytes u32 | blocks u32 | entries f64 | lowest ordinal f64
//              | highest ordinal f64 | ordinal width u32 | largest block's bytes u32 | crc32 u32
export const FOOTER_BYTES = 52;
export const FOOTER_VERSION = 4;
export const FOOTER_INDEX_BYTES = 8;
export const FOOTER_BLOCKS = 12;
export const FOOTER_ENTRIES = 16;
export const FOOTER_ORDINAL_MIN = 24;
export const FOOTER_ORDINAL_MAX = 32;
export const FOOTER_ORDINAL_WIDTH = 40;
export const FOOTER_BLOCK_BYTES = 44;
export const FOOTER_CRC = 48;

/** Bytes that hold every number from 0 to `range`. */
export function ordinalWidthOf(range: number): number {
  let width = 0;
  for (let rest = range; rest >= 1; rest = Math.floor(rest / 256)) width++;
  return width;
}
