// What an update is told and what it tells: options, progress, counters.

import type { Mapper, ChunkResult } from "../mapping/mapper.js";
import type { ThreadPool } from "../mapping/thread-pool.js";
import type { GroupSegments } from "../mapping/types.js";
import type { Source } from "../sources/index.js";
import type { GroupIndex } from "./group-index.js";

/** When index data is made safe against power loss. Being killed never loses what was committed. */
export interface SyncPolicy {
  /** At every commit, at intervals, or only at the end of an update. */
  readonly mode: "commit" | "interval" | "end";
  /** For `interval` and for the checkpoints of a build: at most this long unsynced. Default 30 000 ms. */
  readonly intervalMs: number;
  /** Likewise in bytes read. Default 1 GiB. */
  readonly intervalBytes: number;
}

export interface UpdaterOptions {
  readonly dir: string;
  readonly source: Source;
  readonly sourceId: string;
  readonly sourceLabel: string;
  readonly idField: string;
  readonly lineBytesMax: number;
  readonly threads: ThreadPool;
  readonly mapper: Mapper;
  /** Maps what an earlier process died over; undefined when `mapper` contains every fault itself. */
  readonly isolated: (() => Promise<Mapper>) | undefined;
  readonly minDocuments: number;
  readonly minBytes: number;
  readonly maxDelayMs: number;
  /** Bytes of the feed mapped at a time; undefined: as fits. */
  readonly chunkBytes: number | undefined;
  /** A first build of no more than so many bytes and changes goes through the write buffer. */
  readonly bulkBytes: number;
  readonly bulkChanges: number;
  readonly sync: SyncPolicy;
  readonly strict: boolean;
}

export interface UpdateProgress {
  readonly phase: "map" | "merge";
  readonly documents: number;
  readonly mapped: number;
  readonly failed: number;
  readonly rows: number;
  /** Bytes of the feed read, and in all, where known. */
  readonly bytes: number | undefined;
  readonly bytesTotal: number | undefined;
  readonly changesTotal: number | undefined;
  /** In the merge phase: entries merged and in all. */
  readonly merged: number;
  readonly mergeTotal: number;
}

export interface UpdateRun {
  readonly signal: AbortSignal | undefined;
  readonly until: "now" | "forever";
  readonly onProgress: ((progress: UpdateProgress) => void) | undefined;
  /** Told when the feed brought a design document: what is to be indexed may have changed. */
  readonly onDesigns?: () => void;
  /** Takes it upon itself to make the group's commits durable: somebody waits for the update, and not for the disk. */
  readonly syncLater?: (group: GroupIndex) => void;
}

export interface UpdateCounts {
  documents: number;
  mapped: number;
  unchanged: number;
  deleted: number;
  failed: number;
  rows: number;
}

/** Counters before anything was done. */
export function noCounts(): UpdateCounts {
  return { documents: 0, mapped: 0, unchanged: 0, deleted: 0, failed: 0, rows: 0 };
}

type CountName = "mapped" | "unchanged" | "deleted" | "failed" | "rows";

export function sum(parts: readonly GroupSegments[] | undefined, name: CountName): number {
  return (parts ?? []).reduce((total, part) => total + part[name], 0);
}

export function addCounts(counts: UpdateCounts, result: ChunkResult): void {
  counts.documents += result.documents;
  for (const parts of result.groups)
    for (const name of ["mapped", "unchanged", "deleted", "failed", "rows"] as const)
      counts[name] += sum(parts, name);
}
