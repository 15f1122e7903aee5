// Sorts a batch and encodes it as a segment in WebAssembly (kernels/assembly/sort.ts, segment.ts). What does not fit into the memory it may
// take is left to radix-sort.ts and encode-segment.ts, which do the same.

import { crc32 } from "node:zlib";

import { createKernel, MEMORY_START, type Kernel } from "../../kernels/index.js";
import { readU32, writeU32 } from "../bytes.js";
import type { CombinedValue, EncodeSegmentOptions } from "./encode-segment.js";
import type { EntryBatch } from "./entry-batch.js";
import {
  BLOCK_BYTES_MAX,
  FOOTER_BYTES,
  INDEX_KEY_BYTES_MAX,
  INDEX_RECORD_BYTES,
  ordinalWidthOf,
} from "./format.js";
import type { SortInput } from "./radix-sort.js";
import { writeFooter } from "./segment-encoder.js";

/** Below this, what a call costs is more than it saves. */
const ENTRIES_MIN = 128;
const MEMORY_BYTES_MIN = 2 * 2 ** 20;
const MEMORY_BYTES_MAX = 64 * 2 ** 20;
/** A larger memory, made for one huge chunk, is given back. */
const MEMORY_BYTES_KEPT_MAX = 16 * 2 ** 20;
/** What may be read or written behind the end of a region. */
const SLACK = 64;
/** Spans, ordinal, flags and place of an entry; what sorting it takes beside. */
const ENTRY_BYTES = 29;
const SORT_BYTES = 26;
/** Of an encoded entry beside its key and value. */
const ENTRY_HEAD_BYTES = 32;
const COMBINED_BYTES_MAX = 64 * 1024;
const INDEX_RECORD_BYTES_MAX = INDEX_RECORD_BYTES + INDEX_KEY_BYTES_MAX;

let kernel: Kernel | undefined;
let kernelBytes = 0;
/** False once there turned out to be none. */
let available = true;
/** While entries are combined, whoever combines may sort and encode in JavaScript. */
let busy = false;
let combineInto: ((first: number, last: number) => number) | undefined;

/** Sorts `input.order`. False when it did not. */
export function sortByKernel(input: SortInput): boolean {
  const { length } = input;
  const entriesEnd = input.used + SLACK + (ENTRY_BYTES + 1) * length + SLACK;
  const lent = borrow(length, entriesEnd + SORT_BYTES * length + SLACK);
  if (!lent) return false;
  const scratch = load(lent, input);
  lent.run.sortEntries(length, scratch.end);
  input.order.set(lent.words.subarray(scratch.order >>> 2, (scratch.order >>> 2) + length));
  giveBack();
  return true;
}

/** The sorted batch as one segment, valid until the next call of this module; undefined when it did not make it. */
export function encodeByKernel(
  batch: EntryBatch,
  ordinalMin: number,
  ordinalMax: number,
  options: EncodeSegmentOptions,
): Uint8Array | undefined {
  const { columns } = batch;
  const { length } = columns;
  const outBytes = columns.used + length * ENTRY_HEAD_BYTES + COMBINED_BYTES_MAX;
  const blockLimit = options.blockBytes ?? BLOCK_BYTES_MAX;
  // Two blocks that follow each other are longer than the limit together.
  const indexBytes = (2 * Math.ceil(outBytes / blockLimit) + 2) * INDEX_RECORD_BYTES_MAX;
  const lent = borrow(
    length,
    columns.used +
      (ENTRY_BYTES + 1) * length +
      outBytes +
      2 * indexBytes +
      COMBINED_BYTES_MAX +
      6 * SLACK +
      FOOTER_BYTES,
  );
  if (!lent) return undefined;
  const { run, bytes } = lent;
  const combined = load(lent, columns).end;
  const indexAt = combined + COMBINED_BYTES_MAX + SLACK;
  const out = indexAt + indexBytes + SLACK;
  const { combine } = options;
  busy = true;
  combineInto =
    combine &&
    ((first, last) => {
      const value = combine(batch, first, last);
      return put(value, bytes, combined);
    });
  let blockBytes = -1;
  try {
    blockBytes = run.encodeEntries(
      length,
      out,
      outBytes,
      indexAt,
      indexBytes,
      blockLimit,
      ordinalMin,
      ordinalWidthOf(ordinalMax - ordinalMin),
      combine ? combined : 0,
    );
  } finally {
    busy = false;
    combineInto = undefined;
    giveBack();
  }
  if (blockBytes < 0) return undefined;
  const index = bytes.subarray(indexAt, run.encodedIndexEnd());
  const segment = bytes.subarray(out, out + blockBytes + index.length + FOOTER_BYTES);
  let at = 0;
  for (let block = 0, start = 0; block < run.encodedBlocks(); block++) {
    const end = start + readU32(index, at);
    writeU32(index, at + 4, crc32(segment.subarray(start, end)));
    at += INDEX_RECORD_BYTES + (index[at + 8] as number);
    start = end;
  }
  segment.set(index, blockBytes);
  writeFooter(segment, {
    blockBytes,
    indexBytes: index.length,
    blocks: run.encodedBlocks(),
    entries: run.encodedEntries(),
    ordinalMin,
    ordinalMax,
    blockBytesMax: run.encodedBlockBytesMax(),
  });
  return segment;
}

function put({ bytes, start, end }: CombinedValue, memory: Uint8Array, at: number): number {
  if (end - start > COMBINED_BYTES_MAX) return -1;
  memory.set(bytes.subarray(start, end), at);
  return end - start;
}

function borrow(entries: number, bytes: number): Kernel | undefined {
  if (busy || !available || entries < ENTRIES_MIN || bytes > MEMORY_BYTES_MAX) return undefined;
  if (kernel === undefined || bytes > kernelBytes) {
    kernelBytes = Math.max(MEMORY_BYTES_MIN, 2 ** Math.ceil(Math.log2(bytes)));
    kernel = createKernel(kernelBytes, {
      combine: (first, last) => combineInto?.(first, last) ?? -1,
    });
    available = kernel !== undefined;
  }
  return kernel;
}

/** What was borrowed may be used until the caller returns. */
function giveBack(): void {
  if (kernelBytes > MEMORY_BYTES_KEPT_MAX) kernel = undefined;
}

/** Copies the entries into the kernel's memory; returns where their order lies, and where they end. */
function load({ run, bytes, words }: Kernel, input: SortInput): { order: number; end: number } {
  const { length } = input;
  bytes.set(input.bytes.subarray(0, input.used), MEMORY_START);
  const ordinals = align(MEMORY_START + input.used + SLACK);
  new Float64Array(bytes.buffer, ordinals, length).set(input.ordinals.subarray(0, length));
  const spans = ordinals + length * 8;
  words.set(input.spans.subarray(0, length * 4), spans >>> 2);
  const order = spans + length * 16;
  words.set(input.order.subarray(0, length), order >>> 2);
  const flags = order + length * 4;
  bytes.set(input.flags.subarray(0, length), flags);
  run.setEntries(MEMORY_START, spans, ordinals, flags, order);
  return { order, end: align(flags + length) };
}

function align(address: number): number {
  return (address + 7) & ~7;
}
