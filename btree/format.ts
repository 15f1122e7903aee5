// The numbers of the file format: magic, version, kinds of records, sizes and limits. FORMAT.md explains them in context.

/** First bytes of each header slot: "VIEWMILL" in ASCII. */
export const MAGIC = Uint8Array.of(0x56, 0x49, 0x45, 0x57, 0x4d, 0x49, 0x4c, 0x4c);

/** Version of the format this code writes; it reads this one and older ones, and refuses newer ones. */
export const FORMAT_VERSION = 2;

/** Header slots A, B, C and D stand at 0, 4096, 8192 and 12288; records begin at 16384. */
export const SLOT_BYTES = 4096;
export const SLOT_COUNT = 4;
export const DATA_START = SLOT_BYTES * SLOT_COUNT;

/** Bytes of a file's salt. */
export const SALT_BYTES = 16;

/** Frame of a record: checksum u32, payload length u32, kind u8. */
export const FRAME_BYTES = 9;
/** A leaf's entries follow the frame and an entry count (u16). */
export const LEAF_START = FRAME_BYTES + 2;
/** An inner node's entries follow the frame, its height (u8) and an entry count (u16). */
export const INNER_START = FRAME_BYTES + 3;

export const KIND_LEAF = 1;
export const KIND_INNER = 2;
export const KIND_VALUE = 3;
export const KIND_ROOTS = 4;
export const KIND_BATCH = 5;

/** Entries of one node: its count is a u16. */
export const NODE_ENTRIES_MAX = 65_535;
/** A key may have up to 64 MiB: the engine copies keys, and a node holds at least one. */
export const KEY_BYTES_MAX = 64 * 1024 * 1024;
/** A commit that appended no more than this writes records and header in one go; opening reads so much to check them. */
export const TAIL_BYTES_MAX = 1024 * 1024;
/** A payload's length is a u32; Node reads and writes at most 2 GiB - 1 in one call. */
export const RECORD_BYTES_MAX = 0x7fff_ffff - FRAME_BYTES;
/** Nodes above leaves: 2^16 children each would pass 2^53 rows long before. A larger height is damage. */
export const HEIGHT_MAX = 32;

/** What the nodes of a file look like. Fixed when it is created; a file says its own. Structured-clonable. */
export interface TreeFormat {
  /** Enters every checksum of the file, so that no stored user data can pass for one of its records. */
  readonly salt: Uint8Array;
  /** Bytes a leaf is filled to. */
  readonly leafBytes: number;
  /** Bytes an inner node is filled to. */
  readonly innerBytes: number;
  /** Values longer than this lie in a record of their own. */
  readonly valueBytesMax: number;
}

export const DEFAULT_LEAF_BYTES = 4096;
export const DEFAULT_INNER_BYTES = 4096;
export const DEFAULT_VALUE_BYTES_MAX = 1024;

/** Bounds of the node sizes: below, a node would hold next to nothing; above, offsets in it would not fit 16 bits. */
export const NODE_BYTES_MIN = 128;
export const NODE_BYTES_MAX = 32_768;
