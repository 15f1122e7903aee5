// The k-way merge: of each key the entry with the highest ordinal survives, unless it cancels. Synchronous and steppable: whoever builds
// a tree from it awaits between steps, nothing waits inside.
//
// 1. With more segments than one merge may read, runs of small ones are merged into larger temporary segments (pre-merge.ts).
// 2. Each segment becomes a cursor on its first entry of the range; a sentinel cursor stands at the end of the range.
// 3. The loser tree yields entries in order, equal keys by falling ordinal: the first of a key decides, the rest is superseded.
// 4. A base tree is one more cursor, older than all segments: an entry of it stays unless a segment has its key.

import { dirname } from "node:path";
import type { MergedEntry, TreeReader } from "../types.js";
import { BaseCursor } from "./base-cursor.js";
import { FAN_IN_MAX } from "./format.js";
import type { LoserTree } from "./loser-tree.js";
import { openTree, reduceFanIn } from "./pre-merge.js";
import { RunReaders } from "./run-readers.js";
import { EXHAUSTED, offsetOf, type MergeCursor } from "./segment-cursor.js";
import { SegmentIndex, type SegmentRef } from "./segment-index.js";

/** Takes one entry: key = keyBytes[keyStart, keyEnd), value likewise; copy what is to be kept. */
export type EntrySink = (
  keyBytes: Uint8Array,
  keyStart: number,
  keyEnd: number,
  valueBytes: Uint8Array,
  valueStart: number,
  valueEnd: number,
  ordinal: number,
) => void;

/** Options of {@link mergeSegments} and {@link Merger}. */
export interface MergeOptions {
  /** First key of the range. */
  readonly gte?: Uint8Array | undefined;
  /** Key after the range. */
  readonly lt?: Uint8Array | undefined;
  /**
   * Memory for reading, divided among the segments; each gets at least 16 KiB and at least one block.
   *
   * @defaultValue 32 MiB
   */
  readonly bufferBytes?: number;
  /**
   * Memory to read into instead, the merge's own until it ends: for callers who have some that lies idle. What it cannot hold is
   * allocated.
   */
  readonly memory?: Uint8Array | undefined;
  /**
   * Segments read at once.
   *
   * @defaultValue `FAN_IN_MAX`
   */
  readonly fanInMax?: number;
  /**
   * Folder for the temporary segments of a merge of more than `fanInMax`. They have no name while they are in use, so a killed
   * process leaves none behind.
   *
   * @defaultValue the folder of the first segment
   */
  readonly tempDirectory?: string;
  /**
   * Takes the entries instead of the sink, and is told how many bytes the key shares with the last one that
   * was handed over: 0 for the first, -1 in the rare case that the merge does not know.
   */
  readonly onSuccessor?: ((entry: MergedEntry, shared: number) => void) | undefined;
  /** Entries that lost against a higher ordinal of their key or were cancelled. Cancels themselves are not reported. */
  readonly onSuperseded?: EntrySink;
  /**
   * A tree whose entries take part as if they were older than all of the segments', with ordinal -1: what the segments say of a key
   * replaces or cancels them. For changes so large that building the tree anew is cheaper than applying them.
   */
  readonly base?: TreeReader | undefined;
}

/** More than any key shares. */
const ALL_SHARED = 0x7fff_ffff;

const BUFFER_BYTES_DEFAULT = 32 * 1024 * 1024;

/**
 * A merge that goes on step by step.
 *
 * @example
 * ```ts
 * const merger = new Merger(refs, {}, (kb, ks, ke, vb, vs, ve) => builder.add(kb, ks, ke, vb, vs, ve));
 * while (merger.step(10_000)) if (builder.needsDrain) await builder.drain();
 * ```
 */
export class Merger {
  readonly #refs: readonly SegmentRef[];
  readonly #options: MergeOptions;
  readonly #sink: EntrySink;
  readonly #onSuccessor: MergeOptions["onSuccessor"];
  readonly #readers = new RunReaders();
  #tree: LoserTree | undefined;
  #first = true;
  /** Bytes that all keys since the last one handed over share with it; -1 when that is not known. */
  #shared = 0;
  #state: "new" | "open" | "done" = "new";
  #entriesRead = 0;
  #entriesKept = 0;

  /** Does no I/O. Segments that hold equal keys and ordinals should stand in order of their creation: the later one wins. */
  constructor(refs: readonly SegmentRef[], options: MergeOptions, sink: EntrySink) {
    this.#refs = refs;
    this.#options = options;
    this.#sink = sink;
    this.#onSuccessor = options.onSuccessor;
  }

  /** Entries consumed so far. */
  get entriesRead(): number {
    return this.#entriesRead;
  }

  /** Entries handed to the sink so far. */
  get entriesKept(): number {
    return this.#entriesKept;
  }

  /**
   * Consumes up to `maxEntries` entries. After the last one, and after an error, all files are closed.
   *
   * @returns whether there may be more.
   * @throws BtreeError BTREE_CORRUPT when a block, index or footer is damaged; BTREE_IO when a file cannot be read.
   */
  step(maxEntries: number): boolean {
    if (this.#state === "done") return false;
    try {
      if (this.#state === "new") this.#open();
      if (this.#run(maxEntries)) return true;
    } catch (error) {
      this.close();
      throw error;
    }
    this.close();
    return false;
  }

  /** Gives the merge up and closes its files. */
  close(): void {
    this.#state = "done";
    this.#tree = undefined;
    this.#readers.close();
  }

  #open(): void {
    this.#state = "open";
    const { gte, lt, fanInMax = FAN_IN_MAX, bufferBytes = BUFFER_BYTES_DEFAULT } = this.#options;
    const sources = this.#refs.map((ref) => SegmentIndex.read(this.#readers, ref));
    const range = { gte, lt };
    const few = reduceFanIn(sources, {
      range,
      fanInMax: Math.max(2, fanInMax),
      bufferBytes,
      memory: this.#options.memory,
      directory: this.#options.tempDirectory ?? dirname(this.#refs[0]?.path ?? "."),
      readers: this.#readers,
    });
    const { base, memory } = this.#options;
    const over = base && new BaseCursor(base, range);
    this.#tree = openTree(this.#readers, few, range, bufferBytes, memory, over);
  }

  #run(maxEntries: number): boolean {
    const tree = this.#tree;
    if (tree === undefined) return false;
    let read = 0;
    let more = true;
    while (read < maxEntries) {
      const cursor = tree.winner;
      if (tree.code === EXHAUSTED || cursor.isSentinel) {
        more = false;
        break;
      }
      read++;
      this.#take(cursor, tree.code);
      tree.advance();
    }
    this.#entriesRead += read;
    return more;
  }

  /** The first entry of a key decides; a code of 0 says that it is the key of the entry before. */
  #take(cursor: MergeCursor, code: number): void {
    const decides = code !== 0 || this.#first;
    this.#first = false;
    if (code !== 0) {
      const offset = offsetOf(code);
      if (offset < this.#shared) this.#shared = offset;
    }
    if (cursor.cancels) return;
    if (!decides) {
      const { onSuperseded } = this.#options;
      if (onSuperseded) handOver(cursor, onSuperseded);
      return;
    }
    this.#entriesKept++;
    const onSuccessor = this.#onSuccessor;
    if (onSuccessor) onSuccessor(cursor, this.#shared);
    else handOver(cursor, this.#sink);
    this.#shared = ALL_SHARED;
  }
}

function handOver(entry: MergedEntry, sink: EntrySink): void {
  const { key, keyLength, buffer, valueStart, valueEnd, ordinal } = entry;
  sink(key, 0, keyLength, buffer, valueStart, valueEnd, ordinal);
}

/** Merges segments at one go; see {@link Merger}, which can stop between entries. */
export function mergeSegments(
  refs: readonly SegmentRef[],
  options: MergeOptions,
  sink: EntrySink,
): void {
  const merger = new Merger(refs, options, sink);
  while (merger.step(Infinity));
}
