// The first build of groups, and large changes to them: pages of the feed are mapped in parallel into sorted runs, recorded in feed order, and
// merged into the files at the end, with what these hold already (bulk-load.ts). What is recorded survives a kill; from time to time it is made
// to survive a power loss too.

import { randomUUID } from "node:crypto";
import { existsSync, rmSync } from "node:fs";

import type { Chunk } from "../sources/index.js";
import { finishBulkLoad } from "./bulk-load.js";
import { mapInOrder } from "./chunk-stream.js";
import { encodeState, GROUP_FORMAT, type GroupIndex } from "./group-index.js";
import { bootId, RunProgress, type RunHeader } from "./run-progress.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";
import type { UpdateContext } from "./update-context.js";
import {
  addCounts,
  sum,
  type UpdateCounts,
  type UpdateProgress,
  type UpdateRun,
} from "./update-types.js";

const CHUNK_BYTES_MIN = 4 * 2 ** 20;
const CHUNK_BYTES_MAX = 64 * 2 ** 20;
/** Segments that one merge should have to read: chunks, and the memory that each thread needs for one, grow when there would be more. */
const CHUNKS_AIM = 640;

/** Maps the feed from the groups' checkpoint on into sorted runs, and merges them. Goes on where an earlier build from there was ended. */
export async function buildFromRuns(
  context: UpdateContext,
  groups: readonly GroupIndex[],
  run: UpdateRun,
  counts: UpdateCounts,
): Promise<void> {
  const { source, mapper } = context.options;
  const builds = await resumeOrBegin(context, groups);
  const done = builds[0]?.last;
  const since = groups[0]?.state.seq ?? undefined;
  const extent = await source.extent(since);
  const chunkBytes =
    context.options.chunkBytes ??
    Math.min(
      CHUNK_BYTES_MAX,
      Math.max(CHUNK_BYTES_MIN, Math.ceil((extent.bytes ?? 0) / CHUNKS_AIM)),
    );
  const latest = source.snapshot ? await source.latest() : undefined;
  const totals = { ...(done?.counts ?? { documents: 0, mapped: 0, failed: 0, rows: 0 }) };
  const tell = (
    chunk: Chunk | undefined,
    phase: UpdateProgress["phase"],
    merged = 0,
    mergeTotal = 0,
  ): void => {
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
    const feed = source.changes({
      since: done?.lastSeq ?? since,
      until: "now",
      chunkBytes,
      signal: run.signal,
    });
    let synced = performance.now();
    let syncedBytes = 0;
    const stream = mapInOrder(
      feed,
      mapper.concurrency,
      builds[0]?.chunks.length ?? 0,
      (chunk, number) =>
        context.nextMapper().mapChunk({
          input: context.input(chunk),
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
      await context.requireStrict(groups, chunk, number, result);
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
      context.marker.checkpoint(mapper.concurrency);
      const bytes = chunk.feedBytes ?? 0;
      const { intervalMs, intervalBytes } = context.options.sync;
      if (performance.now() - synced > intervalMs || bytes - syncedBytes > intervalBytes) {
        for (const build of builds) build.sync();
        synced = performance.now();
        syncedBytes = bytes;
      }
      tell(chunk, "map");
    }
    run.signal?.throwIfAborted();
    context.marker.end();
    const seq = latest ?? builds[0]?.last?.lastSeq ?? (await source.latest());
    for (const [g, group] of groups.entries())
      await finishBulkLoad(group, builds[g] as RunProgress, context.state(group, seq), {
        threads: context.options.threads,
        mapper,
        isolated: context.options.isolated,
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

/** Whether an earlier build from the groups' checkpoint was ended: it is gone on with then. Others that were left are removed. */
export function isBegun(context: UpdateContext, groups: readonly GroupIndex[]): boolean {
  let begun = false;
  for (const group of groups) {
    const folder = context.runsFolder(group);
    if (!existsSync(folder)) continue;
    if (RunProgress.header(folder)?.since === group.state.seq) begun = true;
    else rmSync(folder, { recursive: true, force: true });
  }
  return begun;
}

/** Runs that earlier, killed builds left for exactly these groups and this source are used as far as all of them go. */
async function resumeOrBegin(
  context: UpdateContext,
  groups: readonly GroupIndex[],
): Promise<RunProgress[]> {
  const { source, sourceId } = context.options;
  const folders = groups.map((group) => context.runsFolder(group));
  const headers = folders.map((folder) => RunProgress.header(folder));
  const same = groups.every((group, g) => {
    const header = headers[g];
    return (
      header?.format === GROUP_FORMAT &&
      header.signature === group.spec.signature &&
      header.since === group.state.seq &&
      header.source === sourceId &&
      header.collation === group.collation &&
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
  // An earlier release must not go on with entries that it would misread: it refuses the file from now on.
  for (const group of groups)
    if (group.state.format < GROUP_FORMAT)
      await group.writing(async () => {
        await group.store.apply(new Map(), encodeState(group.state));
        await group.store.commit({ sync: false });
      });
  const pass = randomUUID();
  return groups.map((group, g) => {
    const header: RunHeader = {
      format: GROUP_FORMAT,
      signature: group.spec.signature,
      since: group.state.seq,
      source: sourceId,
      collation: group.collation,
      pass,
      boot: bootId(),
    };
    return RunProgress.begin(folders[g] as string, header);
  });
}
