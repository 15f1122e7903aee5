// The seam between the updater and whatever runs map functions: threads of this process, or view servers in processes of their own.

import type { JsReduceRunner } from "../reducers/index.js";
import type {
  DocumentSelection,
  GroupConfig,
  GroupJob,
  GroupSegments,
  LineInput,
} from "./types.js";

/** A chunk to map for some groups. */
export interface ChunkJob {
  readonly input: LineInput;
  readonly groups: readonly GroupJob[];
  /** Feed ordinal of its first document. Ordinals grow along the feed. */
  readonly ordinalBase: number;
  /** Default: all documents of the chunk. */
  readonly select?: DocumentSelection;
  readonly signal: AbortSignal | undefined;
}

/** What a chunk came to: for each group the segments of one or more parts of it, in feed order. */
export interface ChunkResult {
  readonly groups: readonly (readonly GroupSegments[])[];
  readonly documents: number;
  /** Of these, design documents. */
  readonly designs: number;
}

export interface Mapper {
  /** Chunks worth having under way at once. */
  readonly concurrency: number;
  /**
   * Maps a chunk. A document whose function fails, loops, kills its server or eats its memory becomes an error record; only what is
   * wrong with the source or with the machine rejects.
   */
  mapChunk(job: ChunkJob): Promise<ChunkResult>;
  /** Custom reduces of a group. */
  reducer(config: GroupConfig): JsReduceRunner;
  /** True when merging threads can run custom reduces themselves. */
  readonly reducesInThreads: boolean;
  close(): Promise<void>;
}
