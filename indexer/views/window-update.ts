// Increments: windows of at least a minimum of documents or bytes, each applied at once; following a live feed, what is there is applied
// after a time at the latest.

import { mapInOrder } from "./chunk-stream.js";
import type { GroupIndex } from "./group-index.js";
import { IDS_TREE } from "./group-reducers.js";
import { ORDINALS_A_CHUNK } from "./ordinals.js";
import type { UpdateContext } from "./update-context.js";
import type { UpdateCounts, UpdateRun } from "./update-types.js";
import { CATCH_UP_BYTES, Window } from "./window.js";

/** Chunks of a short feed are made this small at the least, so that all threads have something to do. */
const CHUNK_BYTES_MIN = 256 * 1024;
const CHUNK_BYTES_MAX = 4 * 2 ** 20;

/**
 * @param finalSeq - for a snapshot's first build: the checkpoint once everything is in; until then there is none.
 */
export async function updateByWindows(
  context: UpdateContext,
  groups: readonly GroupIndex[],
  run: UpdateRun,
  counts: UpdateCounts,
  finalSeq: string | undefined,
): Promise<void> {
  const { source, mapper } = context.options;
  const since = groups[0]?.state.seq ?? undefined;
  // A live feed has no end of its own: when this fails, nobody reads it any more.
  const givenUp = new AbortController();
  const { chunkBytes, oneWindow } = await chunkingFor(context, since, run);
  const feed = source.changes({
    since,
    until: run.until,
    chunkBytes,
    signal: run.signal ? AbortSignal.any([run.signal, givenUp.signal]) : givenUp.signal,
  });
  const fresh = groups.every(isEmptyGroup);
  const stream = mapInOrder(feed, mapper.concurrency, 0, (chunk, number) =>
    context.nextMapper().mapChunk({
      input: context.input(chunk),
      groups: groups.map((group) => ({
        config: group.config,
        output: { kind: "memory" },
        known: fresh ? undefined : { path: group.path, rows: oneWindow },
      })),
      ordinalBase: number * ORDINALS_A_CHUNK,
      signal: undefined,
    }),
  );
  const window = new Window(groups, context.options, run, counts, (chunk) => context.input(chunk));
  const seqOf = (seq: string | undefined): string | undefined =>
    source.snapshot ? undefined : seq;
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
  try {
    for (;;) {
      const step =
        window.empty || run.until === "now"
          ? await pending
          : await inTime(pending, window.deadline);
      if (step === undefined) {
        await window.flush(context.statesAt(groups, seqOf(lastSeq)));
        context.marker.checkpoint(mapper.concurrency);
        continue;
      }
      if (step.done) break;
      const { chunk, number, result } = step.value;
      pending = next();
      pending.catch(() => undefined);
      await context.requireStrict(groups, chunk, number, result);
      window.add(chunk, number, result);
      lastSeq = chunk.lastSeq;
      if (result.designs > 0) run.onDesigns?.();
      if (window.full(run.until === "now")) {
        await window.flush(context.statesAt(groups, seqOf(lastSeq)));
        context.marker.checkpoint(mapper.concurrency);
      }
    }
  } catch (error) {
    givenUp.abort();
    stream.return().catch(() => undefined);
    throw error;
  }
  const ended = stopped === undefined && !run.signal?.aborted;
  await window.flush(
    context.statesAt(groups, ended ? (finalSeq ?? seqOf(lastSeq)) : seqOf(lastSeq)),
  );
  if (fresh) await window.settle();
  await window.finish();
  if (stopped) throw stopped.error;
  run.signal?.throwIfAborted();
}

interface Chunking {
  /** Undefined leaves it to the source. */
  readonly chunkBytes: number | undefined;
  /** What is mapped is likely to be applied to the state that it is compared with. */
  readonly oneWindow: boolean;
}

async function chunkingFor(
  { options }: UpdateContext,
  since: string | undefined,
  { until }: UpdateRun,
): Promise<Chunking> {
  const { source, threads, chunkBytes } = options;
  // A source with a stamp knows its extent without asking anybody. A live feed is mostly caught up.
  if (until !== "now" || !source.stamp) return { chunkBytes, oneWindow: until !== "now" };
  const { bytes } = await source.extent(since);
  if (bytes === undefined) return { chunkBytes, oneWindow: false };
  const share = Math.ceil(bytes / threads.threads);
  return {
    chunkBytes: chunkBytes ?? Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, share)),
    oneWindow: bytes <= options.minBytes * CATCH_UP_BYTES,
  };
}

/** Nothing was ever applied to it. */
export function isEmptyGroup(group: GroupIndex): boolean {
  const snapshot = group.store.snapshot();
  try {
    return !snapshot.treeNames().includes(IDS_TREE);
  } finally {
    snapshot.release();
  }
}

/** Resolves to undefined when the deadline comes first. */
async function inTime<T>(promise: Promise<T>, deadline: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(
      () => {
        resolve(undefined);
      },
      Math.max(0, deadline - performance.now()),
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
