// Builds a group's trees: sorted runs on disk, one k-way merge a tree, each node written once. What the trees held before takes part as if it
// were older than all runs: so a large change to an index that exists is merged into it.
//
// 1. Chunks are mapped into sorted segments, and recorded in feed order (run-progress.ts).
// 2. The id runs are merged: of a document met several times, or known already, the last state stays, rows of the others are cancelled.
// 3. The view runs and the error runs are merged, with those cancels. Each tree is cut into as many key ranges as there are threads.
// 4. The upper levels are put above the ranges, the roots adopted, the checkpoint committed, the runs removed.

import { setMaxListeners } from "node:events";
import { join } from "node:path";
import { MessageChannel } from "node:worker_threads";

import {
  assembleForests,
  openBulkSink,
  splitters,
  type SegmentRef,
  type TreeRoot,
} from "../../btree/index.js";
import type { Mapper } from "../mapping/mapper.js";
import { serveReducer } from "../mapping/port-reducer.js";
import { ThreadDeath, type ThreadPool } from "../mapping/thread-pool.js";
import type { KnownBase, MergeResult, MergeTask } from "../mapping/types.js";
import { encodeState, type GroupIndex, type GroupState } from "./group-index.js";
import { ERRORS_TREE, groupReducers, IDS_TREE, viewTreeName } from "./group-reducers.js";
import type { RunProgress } from "./run-progress.js";

/** A tree with fewer entries is merged in one piece. */
const PARTITION_ENTRIES_MIN = 50_000;
const EXTENT_BYTES = 256 * 1024;
/** Below this a single writer appends exactly, so that small files have no gaps. */
const PARALLEL_ENTRIES_MIN = 200_000;

export interface MergeContext {
  readonly threads: ThreadPool;
  readonly mapper: Mapper;
  /** Makes a mapper that runs reduces in processes of their own; undefined when `mapper` does. */
  readonly isolated: (() => Promise<Mapper>) | undefined;
  readonly signal: AbortSignal | undefined;
  readonly onMerged: (entries: number, total: number) => void;
}

/** Merges everything recorded in `progress` into the group's file and commits it with `state`. */
export async function finishBulkLoad(
  group: GroupIndex,
  progress: RunProgress,
  state: GroupState,
  context: MergeContext,
): Promise<void> {
  await group.writing(async () => {
    const load = new BulkMerge(group, progress, context, await baseOf(group));
    try {
      const roots = await load.run();
      group.store.adopt(roots, encodeState(state));
      await group.store.commit({ sync: true });
    } finally {
      await load.close();
    }
  });
  progress.remove();
}

/**
 * What the trees hold up to the group's checkpoint; undefined before a first build: what an unfinished one left is not merged with. Merging
 * threads read it from the file.
 */
async function baseOf({ path, store, state }: GroupIndex): Promise<KnownBase | undefined> {
  if (state.seq === null) return undefined;
  await store.commit({ sync: false });
  return { path, commit: store.commitNumber };
}

class BulkMerge {
  readonly #group: GroupIndex;
  readonly #progress: RunProgress;
  readonly #context: MergeContext;
  readonly #base: KnownBase | undefined;
  readonly #target;
  readonly #extentBytes: number;
  readonly #total: number;
  #merged = 0;
  #elsewhere: Promise<Mapper> | undefined;

  constructor(
    group: GroupIndex,
    progress: RunProgress,
    context: MergeContext,
    base: KnownBase | undefined,
  ) {
    this.#group = group;
    this.#progress = progress;
    this.#context = context;
    this.#base = base;
    this.#target = group.store.bulk();
    // Every merge that is under way listens.
    if (context.signal) setMaxListeners(0, context.signal);
    const counts = new Map(group.store.stats().trees.map(({ name, count }) => [name, count]));
    const views = group.config.maps.map((_, i) => viewTreeName(i));
    this.#total = [IDS_TREE, ERRORS_TREE, ...views].reduce((sum, name, i) => {
      const entries = entriesOf(progress.segments(i));
      return entries === 0 ? sum : sum + entries + (counts.get(name) ?? 0);
    }, 0);
    this.#extentBytes = this.#total < PARALLEL_ENTRIES_MIN ? 0 : EXTENT_BYTES;
  }

  async run(): Promise<Map<string, TreeRoot | undefined>> {
    const roots = new Map<string, TreeRoot | undefined>();
    const build = async (
      name: string,
      tree: MergeTask["tree"],
      segments: readonly SegmentRef[],
    ): Promise<readonly MergeResult[]> => {
      const parts = await this.#mergeTree(tree, segments);
      // A tree that nothing is new for stays as it is.
      if (parts.length > 0 || this.#base === undefined)
        roots.set(name, await this.#assemble(name, parts));
      return parts;
    };
    const views = this.#group.config.maps.length;
    const ids = await build(IDS_TREE, "ids", this.#progress.segments(0));
    const cancels = Array.from({ length: views + 1 }, (_, i) =>
      ids.flatMap((part) => part.cancels[i] ?? []),
    );

    const jobs: (() => Promise<unknown>)[] = [
      () =>
        build(ERRORS_TREE, "errors", [...this.#progress.segments(1), ...(cancels[views] ?? [])]),
    ];
    // The largest first: what is left at the end keeps all threads busy.
    const order = Array.from({ length: views }, (_, tree) => tree).sort(
      (a, b) => this.#bytesOf(b + 2) - this.#bytesOf(a + 2),
    );
    for (const tree of order) {
      jobs.push(() =>
        build(viewTreeName(tree), tree, [
          ...this.#progress.segments(tree + 2),
          ...(cancels[tree] ?? []),
        ]),
      );
    }
    // With exact appends there can be one writer at a time; else all trees share the threads.
    if (this.#extentBytes === 0) for (const job of jobs) await job();
    else await allEnded(jobs.map((job) => job()));
    return roots;
  }

  #bytesOf(part: number): number {
    return this.#progress.segments(part).reduce((sum, { length }) => sum + length, 0);
  }

  async close(): Promise<void> {
    const { isolated } = this.#context;
    if (isolated) await (await this.#elsewhere)?.close();
  }

  async #mergeTree(
    tree: MergeTask["tree"],
    segments: readonly SegmentRef[],
  ): Promise<MergeResult[]> {
    const used = segments.filter(({ entries }) => entries > 0);
    if (used.length === 0) return [];
    const entries = entriesOf(used);
    const parts =
      this.#extentBytes === 0 || entries < PARTITION_ENTRIES_MIN
        ? 1
        : this.#context.threads.threads;
    const bounds = parts === 1 ? [] : splitters(used, parts);
    const edges = [undefined, ...bounds, undefined];
    return allEnded(edges.slice(1).map((lt, i) => this.#mergePart(tree, used, edges[i], lt, i)));
  }

  async #mergePart(
    tree: MergeTask["tree"],
    segments: readonly SegmentRef[],
    gte: Uint8Array | undefined,
    lt: Uint8Array | undefined,
    part: number,
  ): Promise<MergeResult> {
    const { mapper, onMerged } = this.#context;
    const custom =
      typeof tree === "number" &&
      (this.#group.config.reduces[tree] ?? []).some((source) => !source.startsWith("_"));
    const task = { tree, segments, gte, lt, cancelName: `cancel-${part}.run` };
    let result: MergeResult;
    try {
      result = await this.#runMerge(task, custom && !mapper.reducesInThreads ? mapper : undefined);
    } catch (error) {
      // A reduce function took the merging thread down: once more, with every call where it can only fail alone.
      if (!(error instanceof ThreadDeath) || !custom) throw error;
      // Not in the pool: merges hold its threads, and would wait for ever.
      this.#elsewhere ??= this.#context.isolated?.() ?? Promise.resolve(mapper);
      result = await this.#runMerge(task, await this.#elsewhere);
    }
    this.#merged += result.entries;
    onMerged(this.#merged, this.#total);
    return result;
  }

  async #runMerge(
    task: Pick<MergeTask, "tree" | "segments" | "gte" | "lt"> & { cancelName: string },
    reduceElsewhere: Mapper | undefined,
  ): Promise<MergeResult> {
    const { threads, signal } = this.#context;
    const { cancelName, ...what } = task;
    const channel = reduceElsewhere ? new MessageChannel() : undefined;
    const runner = reduceElsewhere?.reducer(this.#group.config);
    if (channel && runner) serveReducer(channel.port1, runner);
    try {
      return await threads.merge(
        {
          kind: "merge",
          base: this.#base,
          ...what,
          config: this.#group.config,
          target: this.#target,
          extentBytes: this.#extentBytes,
          cancelPath: task.tree === "ids" ? join(this.#progress.folder, cancelName) : undefined,
          reducePort: channel?.port2,
          reduceOurs: runner?.ours ?? false,
        },
        signal,
      );
    } finally {
      channel?.port1.close();
    }
  }

  async #assemble(name: string, parts: readonly MergeResult[]): Promise<TreeRoot | undefined> {
    const forests = parts.map(({ forest }) => forest).filter(({ entries }) => entries > 0);
    if (forests.length === 0) return undefined;
    const sink = openBulkSink(this.#target, { extentBytes: 0 });
    try {
      const reducer =
        name === IDS_TREE || name === ERRORS_TREE
          ? groupReducers.countsOnly(name)
          : (this.#group.reducers[Number(name.slice("view:".length))] ??
            groupReducers.countsOnly(name));
      const root = await assembleForests(sink, this.#target, reducer, forests);
      sink.flush();
      return root;
    } finally {
      sink.close();
    }
  }
}

function entriesOf(segments: readonly SegmentRef[]): number {
  return segments.reduce((sum, { entries }) => sum + entries, 0);
}

/** Like Promise.all, but rejects when nothing is under way any more: no merge goes on into a file that was given up. */
async function allEnded<T>(promises: readonly Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(promises);
  return Promise.all(promises);
}
