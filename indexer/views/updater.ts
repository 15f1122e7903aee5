// Brings groups up to date with a source. What is committed is always a prefix of the feed: pages are mapped in parallel and taken in
// feed order; rows and checkpoint are one atomic step.
//
// - A group that was never built, and a feed that is not small: bulk load (bulk-load.ts).
// - Everything else: windows of at least a minimum of documents or bytes, each applied at once (write-buffer.ts).
// - A snapshot source: its content is compared with the index first, only what differs is mapped (snapshot-scan.ts).

import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";

import { COLLATION_VERSION } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import type { ChunkResult, Mapper } from "../mapping/mapper.js";
import type { ThreadPool } from "../mapping/thread-pool.js";
import type { GroupSegments, LineInput } from "../mapping/types.js";
import type { Chunk, Source } from "../sources/index.js";
import { finishBulkLoad } from "./bulk-load.js";
import { CarefulMarker } from "./careful.js";
import { mapInOrder } from "./chunk-stream.js";
import { encodeState, type GroupIndex, type GroupState } from "./group-index.js";
import { IDS_TREE } from "./group-reducers.js";
import { runsFolderName } from "./manifest.js";
import { bootId, RunProgress, type RunHeader } from "./run-progress.js";
import { compareSnapshot } from "./snapshot-scan.js";
import { WriteBuffer } from "./write-buffer.js";

/** Room for the documents of a chunk in feed ordinals. */
const ORDINALS_A_CHUNK = 2 ** 24;
const CHUNK_BYTES_MIN = 4 * 2 ** 20;
const CHUNK_BYTES_MAX = 64 * 2 ** 20;
/** Segments that one merge should have to read. */
const CHUNKS_AIM = 400;

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

export class Updater {
  readonly #options: UpdaterOptions;
  readonly #marker: CarefulMarker;
  #careful: number;
  #isolated: Mapper | undefined;

  constructor(options: UpdaterOptions) {
    this.#options = options;
    this.#marker = new CarefulMarker(options.dir);
    this.#careful = options.isolated ? this.#marker.leftBehind() : 0;
  }

  /**
   * Updates all groups to the state of the source at the time of the call, or for ever.
   * @throws IndexerError `INDEXER_ABORTED` after an abort: what was mapped until then is committed.
   */
  async update(groups: readonly GroupIndex[], run: UpdateRun): Promise<UpdateCounts> {
    const counts: UpdateCounts = { documents: 0, mapped: 0, unchanged: 0, deleted: 0, failed: 0, rows: 0 };
    try {
      if (this.#careful > 0) this.#isolated = await this.#options.isolated?.();
      // A live feed has no end after which the next could begin.
      if (run.until === "forever") await Promise.all(cohorts(groups).map((cohort) => this.#updateCohort(cohort, run, counts)));
      else
        for (const cohort of cohorts(groups)) {
          run.signal?.throwIfAborted();
          await this.#updateCohort(cohort, run, counts);
        }
    } catch (error) {
      if (run.signal?.aborted)
        throw new IndexerError("INDEXER_ABORTED", "the update was stopped; what was mapped until then is kept", {}, { cause: error });
      throw error;
    } finally {
      this.#marker.end();
      await this.#isolated?.close();
      this.#isolated = undefined;
    }
    return counts;
  }

  async #updateCohort(groups: readonly GroupIndex[], run: UpdateRun, counts: UpdateCounts): Promise<void> {
    await this.#takePurges(groups);
    const since = groups[0]?.state.seq ?? undefined;
    const { source, bulkBytes, bulkChanges } = this.#options;
    source.configure?.({
      conflicts: mentions(groups, "_conflicts"),
      deletedConflicts: mentions(groups, "_deleted_conflicts"),
      localSeq: groups[0]?.spec.localSeq ?? false,
    });
    if (since === undefined) {
      const extent = await source.extent(undefined);
      const leftover = groups.some((group) => existsSync(this.#runsFolder(group)));
      const large =
        (extent.bytes ?? 0) > bulkBytes ||
        (extent.changes ?? 0) > bulkChanges ||
        (extent.bytes === undefined && extent.changes === undefined);
      if (large || leftover) {
        await this.#bulk(groups, run, counts);
        if (run.until === "now") return;
      } else if (source.snapshot && groups.every(isEmpty)) {
        // What an interrupted first build left of a snapshot is compared with it: documents may be gone from it since.
        await this.#windows(groups, { ...run, until: "now" }, counts, await source.latest());
        return;
      }
    }
    if (source.snapshot) await this.#snapshot(groups, run, counts);
    else await this.#windows(groups, run, counts, undefined);
  }

  /**
   * Purged documents leave no trace in the feed. Where the source names them their rows are removed; where it only says that there
   * were some, the group is built anew.
   */
  async #takePurges(groups: readonly GroupIndex[]): Promise<void> {
    const { source } = this.#options;
    if (!source.purges) return;
    for (const group of groups) {
      const { state } = group;
      const { ids, purgeSeq, reset } = await source.purges(state.purgeSeq ?? undefined);
      if (purgeSeq === state.purgeSeq) continue;
      const next = { ...state, purgeSeq };
      const built = state.seq !== null && state.purgeSeq !== null;
      if (built && reset) {
        const trees = group.store.snapshot().treeNames();
        group.store.adopt(new Map(trees.map((name) => [name, undefined])), encodeState({ ...next, seq: null }));
        await group.store.commit({ sync: true });
      } else if (built && ids.length > 0) {
        const buffer = new WriteBuffer(group.config);
        buffer.addDeletions(ids.map((id) => Buffer.from(id)));
        const { changes } = buffer.drain(group.store.snapshot());
        await group.store.apply(changes, encodeState(next));
      } else await group.store.apply(new Map(), encodeState(next));
    }
  }

  #runsFolder(group: GroupIndex): string {
    return join(this.#options.dir, runsFolderName(group.spec.signature));
  }

  #input(chunk: Chunk): LineInput {
    return {
      format: chunk.format,
      data: chunk.data,
      label: this.#options.sourceLabel,
      idField: this.#options.idField,
      localSeq: this.#options.source.slicing.localSeq ?? false,
      firstLine: chunk.firstLine,
      lineBytesMax: this.#options.lineBytesMax,
    };
  }

  /** The mapper for the next chunk: careful ones first, when an earlier process died. */
  #nextMapper(): Mapper {
    if (this.#careful > 0 && this.#isolated) {
      this.#careful--;
      return this.#isolated;
    }
    if (this.#options.isolated) this.#marker.begin();
    return this.#options.mapper;
  }

  // --- first builds -------------------------------------------------------------------------------------------------------

  async #bulk(groups: readonly GroupIndex[], run: UpdateRun, counts: UpdateCounts): Promise<void> {
    const { source, mapper } = this.#options;
    const builds = await this.#resumeOrBegin(groups);
    const done = builds[0]?.last;
    const extent = await source.extent(undefined);
    const chunkBytes =
      this.#options.chunkBytes ??
      Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, Math.ceil((extent.bytes ?? 0) / CHUNKS_AIM)));
    const latest = source.snapshot ? await source.latest() : undefined;
    const totals = { ...(done?.counts ?? { documents: 0, mapped: 0, failed: 0, rows: 0 }) };
    const tell = (chunk: Chunk | undefined, phase: UpdateProgress["phase"], merged = 0, mergeTotal = 0): void => {
      run.onProgress?.({
        phase,
        ...totals,
        bytes: chunk?.feedBytes,
        bytesTotal: extent.bytes,
        changesTotal: extent.changes,
        merged,
        mergeTotal,
      });
    };
    try {
      const feed = source.changes({ since: done?.lastSeq, until: "now", chunkBytes, signal: run.signal });
      let synced = performance.now();
      let syncedBytes = 0;
      const stream = mapInOrder(feed, mapper.concurrency, builds[0]?.chunks.length ?? 0, (chunk, number) =>
        this.#nextMapper().mapChunk({
          input: this.#input(chunk),
          groups: groups.map((group, g) => ({
            config: group.config,
            output: { kind: "run", path: (builds[g] as RunProgress).runPath(number) },
            known: undefined,
          })),
          ordinalBase: number * ORDINALS_A_CHUNK,
          signal: undefined,
        }),
      );
      for await (const { chunk, number, result } of stream) {
        this.#requireStrict(groups, result);
        addCounts(counts, result);
        const [first] = result.groups;
        totals.documents += result.documents;
        totals.mapped += sum(first, "mapped");
        totals.failed += sum(first, "failed");
        totals.rows += sum(first, "rows");
        for (const [g, build] of builds.entries())
          build.record(
            { number, lastSeq: chunk.lastSeq, counts: { ...totals }, feedBytes: chunk.feedBytes },
            result.groups[g] ?? [],
          );
        this.#marker.checkpoint(mapper.concurrency);
        const bytes = chunk.feedBytes ?? 0;
        const { intervalMs, intervalBytes } = this.#options.sync;
        if (performance.now() - synced > intervalMs || bytes - syncedBytes > intervalBytes) {
          for (const build of builds) build.sync();
          synced = performance.now();
          syncedBytes = bytes;
        }
        tell(chunk, "map");
      }
      run.signal?.throwIfAborted();
      this.#marker.end();
      const seq = latest ?? builds[0]?.last?.lastSeq ?? (await source.latest());
      for (const [g, group] of groups.entries())
        await finishBulkLoad(group, builds[g] as RunProgress, this.#state(group, seq), {
          threads: this.#options.threads,
          mapper,
          signal: run.signal,
          onMerged: (merged, total) => {
            tell(undefined, "merge", merged, total);
          },
        });
    } catch (error) {
      if (run.signal?.aborted) for (const build of builds) build.sync();
      throw error;
    } finally {
      for (const build of builds) build.close();
    }
  }

  /** Runs that earlier, killed builds left for exactly these groups and this source are used as far as all of them go. */
  async #resumeOrBegin(groups: readonly GroupIndex[]): Promise<RunProgress[]> {
    const { source, sourceId } = this.#options;
    const folders = groups.map((group) => this.#runsFolder(group));
    const headers = folders.map((folder) => RunProgress.header(folder));
    const same = groups.every((group, g) => {
      const header = headers[g];
      return (
        header?.signature === group.spec.signature &&
        header.source === sourceId &&
        header.collation === COLLATION_VERSION &&
        header.pass === headers[0]?.pass
      );
    });
    if (same) {
      const lengths = folders.map((folder) => {
        const progress = RunProgress.resume(folder, Infinity);
        progress.close();
        return progress.chunks.length;
      });
      const chunks = Math.min(...lengths);
      const builds = folders.map((folder) => RunProgress.resume(folder, chunks));
      const seq = builds[0]?.last?.lastSeq;
      if (seq !== undefined && (await source.resumable(seq))) return builds;
      for (const build of builds) build.close();
    }
    const pass = randomUUID();
    return groups.map((group, g) => {
      const header: RunHeader = {
        format: 1,
        signature: group.spec.signature,
        source: sourceId,
        collation: COLLATION_VERSION,
        pass,
        boot: bootId(),
      };
      return RunProgress.begin(folders[g] as string, header);
    });
  }

  // --- increments ---------------------------------------------------------------------------------------------------------

  /**
   * @param finalSeq - for a snapshot's first build: the checkpoint once everything is in; until then there is none.
   */
  async #windows(
    groups: readonly GroupIndex[],
    run: UpdateRun,
    counts: UpdateCounts,
    finalSeq: string | undefined,
  ): Promise<void> {
    const { source, mapper } = this.#options;
    const since = groups[0]?.state.seq ?? undefined;
    const feed = source.changes({ since, until: run.until, chunkBytes: this.#options.chunkBytes, signal: run.signal });
    const fresh = groups.every(isEmpty);
    const stream = mapInOrder(feed, mapper.concurrency, 0, (chunk, number) =>
      this.#nextMapper().mapChunk({
        input: this.#input(chunk),
        groups: groups.map((group) => ({
          config: group.config,
          output: { kind: "memory" },
          known: fresh ? undefined : { path: group.path },
        })),
        ordinalBase: number * ORDINALS_A_CHUNK,
        signal: undefined,
      }),
    );
    const window = new Window(groups, this.#options, run, counts, (chunk) => this.#input(chunk));
    const seqOf = (seq: string | undefined): string | undefined => (source.snapshot ? undefined : seq);
    let lastSeq: string | undefined;
    let stopped: { readonly error: unknown } | undefined;
    // An aborted feed ends like any other: what was mapped until then is applied.
    const next = async (): ReturnType<typeof stream.next> => {
      try {
        return await stream.next();
      } catch (error) {
        if (!run.signal?.aborted) throw error;
        stopped = { error };
        return { done: true, value: undefined };
      }
    };
    let pending = next();
    for (;;) {
      const step = window.empty || run.until === "now" ? await pending : await inTime(pending, window.deadline);
      if (step === undefined) {
        await window.flush(this.#statesAt(groups, seqOf(lastSeq)));
        this.#marker.checkpoint(mapper.concurrency);
        continue;
      }
      if (step.done) break;
      const { chunk, number, result } = step.value;
      pending = next();
      pending.catch(() => undefined);
      this.#requireStrict(groups, result);
      window.add(chunk, number, result);
      lastSeq = chunk.lastSeq;
      if (window.full) {
        await window.flush(this.#statesAt(groups, seqOf(lastSeq)));
        this.#marker.checkpoint(mapper.concurrency);
      }
    }
    const ended = stopped === undefined && !run.signal?.aborted;
    await window.flush(this.#statesAt(groups, ended ? (finalSeq ?? seqOf(lastSeq)) : seqOf(lastSeq)));
    await window.finish();
    if (stopped) throw stopped.error;
    run.signal?.throwIfAborted();
  }

  #statesAt(groups: readonly GroupIndex[], seq: string | undefined): GroupState[] {
    return groups.map((group) => (seq === undefined ? group.state : this.#state(group, seq)));
  }

  #state(group: GroupIndex, seq: string): GroupState {
    return { ...group.state, seq, source: this.#options.sourceId };
  }

  /** Compares the snapshot with each group's id tree, and maps what differs. */
  async #snapshot(groups: readonly GroupIndex[], run: UpdateRun, counts: UpdateCounts): Promise<void> {
    const { source, mapper, threads, dir } = this.#options;
    const latest = await source.latest();
    const behind = groups.filter((group) => group.state.seq !== latest);
    if (behind.length === 0) return;
    const scan = await compareSnapshot(behind, source, {
      dir,
      threads,
      input: (chunk) => this.#input(chunk),
      chunkBytes: this.#options.chunkBytes,
      signal: run.signal,
    });
    try {
      counts.documents += scan.documents;
      for (const [g, group] of behind.entries()) {
        counts.unchanged += scan.unchanged(g);
        const window = new Window([group], this.#options, run, counts, (chunk) => this.#input(chunk));
        const stream = mapInOrder(scan.changed(g), mapper.concurrency, 0, (chunk, number) => {
          const { pieces, ...rest } = chunk;
          return this.#nextMapper().mapChunk({
            input: { ...this.#input(rest), pieces },
            groups: [{ config: group.config, output: { kind: "memory" }, known: undefined }],
            ordinalBase: number * ORDINALS_A_CHUNK,
            signal: undefined,
          });
        });
        for await (const { chunk, number, result } of stream) {
          this.#requireStrict([group], result);
          window.add(chunk, number, { ...result, documents: 0 });
          if (window.full) await window.flush([group.state]);
          if (run.signal?.aborted) break;
        }
        if (run.signal?.aborted) {
          await window.flush([group.state]);
          await window.finish();
          run.signal.throwIfAborted();
        }
        await window.flush([group.state]);
        // Last, so that a file with a line that cannot be read does not first take documents away.
        for (const ids of scan.deletions(g)) {
          counts.deleted += ids.length;
          await window.remove(ids);
        }
        await window.flush([this.#state(group, latest)]);
        await window.finish();
      }
    } finally {
      scan.close();
    }
  }

  #requireStrict(groups: readonly GroupIndex[], result: ChunkResult): void {
    if (!this.#options.strict) return;
    for (const [g, parts] of result.groups.entries()) {
      const failed = parts.find((part) => part.documentFailure !== undefined);
      if (!failed?.documentFailure) continue;
      const { id, error, reason } = failed.documentFailure;
      throw new IndexerError(
        "INDEXER_MAP_FAILED",
        `document ${id} failed to map for ${groups[g]?.spec.signature ?? ""}: ${error}: ${reason}`,
        { docId: id, status: 500, error, reason },
      );
    }
  }
}

function isEmpty(group: GroupIndex): boolean {
  const snapshot = group.store.snapshot();
  try {
    return snapshot.tree(IDS_TREE).root === undefined;
  } finally {
    snapshot.release();
  }
}

/** Resolves to undefined when the deadline comes first. */
async function inTime<T>(promise: Promise<T>, deadline: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => {
      resolve(undefined);
    }, Math.max(0, deadline - performance.now()));
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Groups with the same checkpoint that see the same documents share a pass over the feed; those that are farthest behind, never built,
 * come first.
 */
function cohorts(groups: readonly GroupIndex[]): GroupIndex[][] {
  const passes = new Map<string, GroupIndex[]>();
  for (const group of groups) {
    const pass = JSON.stringify([group.state.seq, group.spec.localSeq]);
    const cohort = passes.get(pass);
    if (cohort) cohort.push(group);
    else passes.set(pass, [group]);
  }
  const built = (cohort: readonly GroupIndex[]): number => Number(cohort[0]?.state.seq !== null);
  return [...passes.values()].sort((a, b) => built(a) - built(b));
}

type CountName = "mapped" | "unchanged" | "deleted" | "failed" | "rows";

function sum(parts: readonly GroupSegments[] | undefined, name: CountName): number {
  return (parts ?? []).reduce((total, part) => total + part[name], 0);
}

function addCounts(counts: UpdateCounts, result: ChunkResult): void {
  counts.documents += result.documents;
  for (const parts of result.groups)
    for (const name of ["mapped", "unchanged", "deleted", "failed", "rows"] as const)
      counts[name] += sum(parts, name);
}

/** Chunks that were mapped and not yet applied, and how they are applied. */
class Window {
  readonly #groups: readonly GroupIndex[];
  readonly #options: UpdaterOptions;
  readonly #run: UpdateRun;
  readonly #counts: UpdateCounts;
  readonly #input: (chunk: Chunk) => LineInput;
  readonly #buffers: readonly WriteBuffer[];
  readonly #chunks = new Map<number, Chunk>();
  #since = 0;
  #synced = performance.now();
  #dirty = false;

  constructor(
    groups: readonly GroupIndex[],
    options: UpdaterOptions,
    run: UpdateRun,
    counts: UpdateCounts,
    input: (chunk: Chunk) => LineInput,
  ) {
    this.#groups = groups;
    this.#options = options;
    this.#run = run;
    this.#counts = counts;
    this.#input = input;
    this.#buffers = groups.map((group) => new WriteBuffer(group.config));
  }

  get empty(): boolean {
    return this.#chunks.size === 0;
  }

  get full(): boolean {
    const { minDocuments, minBytes } = this.#options;
    return this.#buffers.some((buffer) => buffer.documents >= minDocuments || buffer.bytes >= minBytes);
  }

  /** When a window that is not full must be applied all the same. */
  get deadline(): number {
    return this.#since + this.#options.maxDelayMs;
  }

  add(chunk: Chunk, number: number, result: ChunkResult): void {
    if (this.empty) this.#since = performance.now();
    this.#chunks.set(number, chunk);
    addCounts(this.#counts, result);
    for (const [g, parts] of result.groups.entries()) for (const part of parts) this.#buffers[g]?.add(part);
  }

  /** Applies everything, with these checkpoints. */
  async flush(states: readonly GroupState[]): Promise<void> {
    for (const [g, group] of this.#groups.entries()) {
      const buffer = this.#buffers[g] as WriteBuffer;
      const state = states[g] as GroupState;
      await group.writing(() => this.#apply(group, buffer, state));
    }
    this.#chunks.clear();
    this.#tell();
  }

  async #apply(group: GroupIndex, buffer: WriteBuffer, state: GroupState): Promise<void> {
    const snapshot = group.store.snapshot();
    try {
      let drained = buffer.drain(snapshot);
      if (drained.remap.length > 0) {
        await this.#remap(group, buffer, drained.remap);
        drained = buffer.drain(snapshot);
      }
      const bytes = encodeState(state);
      const moved = Buffer.compare(bytes, group.store.state) !== 0;
      if (drained.changes.size > 0 || moved) {
        await group.store.apply(drained.changes, bytes);
        this.#dirty = true;
        await this.#commit(group);
      }
    } finally {
      snapshot.release();
      buffer.clear();
    }
  }

  /** Removes documents by id (sorted); the checkpoint stays. */
  async remove(ids: readonly Uint8Array[]): Promise<void> {
    const [group] = this.#groups;
    const [buffer] = this.#buffers;
    if (!group || !buffer) return;
    buffer.addDeletions(ids);
    await this.flush([group.state]);
  }

  /** The update has ended: what was applied is made durable. */
  async finish(): Promise<void> {
    if (!this.#dirty) return;
    for (const group of this.#groups)
      if (this.#run.syncLater) this.#run.syncLater(group);
      else await group.writing(() => group.store.commit({ sync: true }));
    this.#dirty = false;
  }

  async #commit(group: GroupIndex): Promise<void> {
    const { mode, intervalMs } = this.#options.sync;
    const due = mode === "commit" || (mode === "interval" && performance.now() - this.#synced > intervalMs);
    await group.store.commit({ sync: due });
    if (due) this.#synced = performance.now();
  }

  /** Documents that were called unchanged, and are not any more: mapped after all. */
  async #remap(group: GroupIndex, buffer: WriteBuffer, ordinals: readonly number[]): Promise<void> {
    const byChunk = new Map<number, number[]>();
    for (const ordinal of ordinals) {
      const number = Math.floor(ordinal / ORDINALS_A_CHUNK);
      byChunk.set(number, [...(byChunk.get(number) ?? []), ordinal % ORDINALS_A_CHUNK]);
    }
    for (const [number, positions] of byChunk) {
      const chunk = this.#chunks.get(number);
      if (!chunk) throw new Error("viewmill bug: a document to map again is in no chunk of the window");
      for (const position of positions) {
        const { groups } = await this.#options.mapper.mapChunk({
          input: this.#input(chunk),
          groups: [{ config: group.config, output: { kind: "memory" }, known: undefined }],
          ordinalBase: number * ORDINALS_A_CHUNK,
          select: { from: position, to: position + 1 },
          signal: this.#run.signal,
        });
        for (const part of groups[0] ?? []) buffer.add(part);
      }
    }
  }

  #tell(): void {
    const { documents, mapped, failed, rows } = this.#counts;
    this.#run.onProgress?.({
      phase: "map",
      documents,
      mapped,
      failed,
      rows,
      bytes: undefined,
      bytesTotal: undefined,
      changesTotal: undefined,
      merged: 0,
      mergeTotal: 0,
    });
  }
}

/** Whether a map function or the library so much as names a member: cheaper than always fetching what nobody reads. */
function mentions(groups: readonly GroupIndex[], member: string): boolean {
  return groups.some(({ spec }) => spec.trees.some(({ map }) => map.includes(member)) || (spec.lib?.includes(member) ?? false));
}
