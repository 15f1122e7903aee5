// The k-way merge: of each key the entry with the highest ordinal survives, unless it cancels. Synchronous and steppable: whoever builds
// a tree from it awaits between steps, nothing waits inside.
//
// 1. With more segments than one merge may read, runs of small ones are merged into larger temporary segments (pre-merge.ts).
// 2. Each segment becomes a cursor on its first entry of the range; a sentinel cursor stands at the end of the range.
// 3. The loser tree yields entries in order, equal keys by falling ordinal: the first of a key decides, the rest is superseded.

import { dirname } from "node:path";
import { FAN_IN_MAX } from "./format.js";
import type { LoserTree } from "./loser-tree.js";
import { openTree, reduceFanIn } from "./pre-merge.js";
import { RunReaders } from "./run-readers.js";
import { EXHAUSTED } from "./segment-cursor.js";
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
  /** Entries that lost against a higher ordinal of their key or were cancelled. Cancels themselves are not reported. */
  readonly onSuperseded?: EntrySink;
}

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
  readonly #readers = new RunReaders();
  #tree: LoserTree | undefined;
  #first = true;
  #state: "new" | "open" | "done" = "new";
  #entriesRead = 0;
  #entriesKept = 0;

  /** Does no I/O. Segments that hold equal keys and ordinals should stand in order of their creation: the later one wins. */
  constructor(refs: readonly SegmentRef[], options: MergeOptions, sink: EntrySink) {
    this.#refs = refs;
    this.#options = options;
    this.#sink = sink;
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
      if (this.#tree && this.#run(this.#tree, maxEntries)) return true;
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
      directory: this.#options.tempDirectory ?? dirname(this.#refs[0]?.path ?? "."),
      readers: this.#readers,
    });
    this.#tree = openTree(this.#readers, few, range, bufferBytes);
  }

  #run(tree: LoserTree, maxEntries: number): boolean {
    const sink = this.#sink;
    const onSuperseded = this.#options.onSuperseded;
    let first = this.#first;
    let read = 0;
    let kept = 0;
    let more = true;
    while (read < maxEntries) {
      const code = tree.code;
      const cursor = tree.winner;
      if (code === EXHAUSTED || cursor.isSentinel) {
        more = false;
        break;
      }
      read++;
      if (code !== 0 || first) {
        first = false;
        if (!cursor.cancels) {
          kept++;
          sink(
            cursor.key,
            0,
            cursor.keyLength,
            cursor.buffer,
            cursor.valueStart,
            cursor.valueEnd,
            cursor.ordinal,
          );
        }
      } else if (onSuperseded !== undefined && !cursor.cancels) {
        onSuperseded(
          cursor.key,
          0,
          cursor.keyLength,
          cursor.buffer,
          cursor.valueStart,
          cursor.valueEnd,
          cursor.ordinal,
        );
      }
      tree.advance();
    }
    this.#first = first;
    this.#entriesRead += read;
    this.#entriesKept += kept;
    return more;
  }
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
