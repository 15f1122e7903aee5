// Brings groups up to date with a source. What is committed is always a prefix of the feed: pages are mapped in parallel and taken in
// feed order; rows and checkpoint are one atomic step.
//
// - A group that was never built, and a feed that is not small: a bulk load (run-build.ts).
// - A source that is read whole: compared with the index first, only what differs is mapped (snapshot-update.ts).
// - A change of a large part of the index: sorted runs merged with it into new trees, as in a bulk load.
// - Everything else: windows of changes, each applied at once (window-update.ts).

import { IndexerError } from "../errors.js";
import type { FeedExtent } from "../sources/index.js";
import { encodeState, type GroupIndex } from "./group-index.js";
import { IDS_TREE } from "./group-reducers.js";
import { buildFromRuns, isBegun } from "./run-build.js";
import { updateSnapshot } from "./snapshot-update.js";
import { UpdateContext } from "./update-context.js";
import {
  noCounts,
  type UpdateCounts,
  type UpdateRun,
  type UpdaterOptions,
} from "./update-types.js";
import { isEmptyGroup, updateByWindows } from "./window-update.js";
import { WriteBuffer } from "./write-buffer.js";

/**
 * Of the documents, or of the bytes of the feed: above it a change is merged. Random changes cost the same either way at a thirtieth already;
 * documents that all come last touch few nodes when they are applied (test/bench/PROFILES.md).
 */
const MERGED_SHARE_MIN = 0.1;

export class Updater {
  readonly #context: UpdateContext;

  constructor(options: UpdaterOptions) {
    this.#context = new UpdateContext(options);
  }

  /**
   * Updates all groups to the state of the source at the time of the call, or for ever.
   * @throws IndexerError `INDEXER_ABORTED` after an abort: what was mapped until then is committed.
   */
  async update(groups: readonly GroupIndex[], run: UpdateRun): Promise<UpdateCounts> {
    const counts = noCounts();
    try {
      await this.#context.begin();
      // A live feed has no end after which the next could begin.
      if (run.until === "forever")
        await Promise.all(cohorts(groups).map((cohort) => this.#updateCohort(cohort, run, counts)));
      else
        for (const cohort of cohorts(groups)) {
          run.signal?.throwIfAborted();
          await this.#updateCohort(cohort, run, counts);
        }
    } catch (error) {
      if (run.signal?.aborted)
        throw new IndexerError(
          "INDEXER_ABORTED",
          "the update was stopped; what was mapped until then is kept",
          {},
          { cause: error },
        );
      throw error;
    } finally {
      await this.#context.end();
    }
    return counts;
  }

  async #updateCohort(
    groups: readonly GroupIndex[],
    run: UpdateRun,
    counts: UpdateCounts,
  ): Promise<void> {
    await this.#takePurges(groups);
    const since = groups[0]?.state.seq ?? undefined;
    const { source } = this.#context.options;
    source.configure?.({
      conflicts: mentions(groups, "_conflicts"),
      deletedConflicts: mentions(groups, "_deleted_conflicts"),
      localSeq: groups[0]?.spec.localSeq ?? false,
    });
    const begun = isBegun(this.#context, groups);
    if (since === undefined) {
      const extent = await source.extent(undefined);
      const unknown = extent.bytes === undefined && extent.changes === undefined;
      if (begun || unknown || this.#isLarge(extent)) {
        await buildFromRuns(this.#context, groups, run, counts);
        if (run.until === "now") return;
      } else if (source.snapshot && groups.every(isEmptyGroup)) {
        // What an interrupted first build left of a snapshot is compared with it: documents may be gone from it since.
        await updateByWindows(
          this.#context,
          groups,
          { ...run, until: "now" },
          counts,
          await source.latest(),
        );
        return;
      }
    } else if (!source.snapshot && (begun || (await this.#changesMuch(groups, since)))) {
      await buildFromRuns(this.#context, groups, run, counts);
      if (run.until === "now") return;
    }
    if (source.snapshot) await updateSnapshot(this.#context, groups, run, counts);
    else await updateByWindows(this.#context, groups, run, counts, undefined);
  }

  #isLarge({ bytes = 0, changes = 0 }: FeedExtent): boolean {
    const { bulkBytes, bulkChanges } = this.#context.options;
    return bytes > bulkBytes || changes > bulkChanges;
  }

  /** Whether so much of the feed is new to these groups that merging it with what they hold is cheaper than applying it. */
  async #changesMuch(groups: readonly GroupIndex[], since: string): Promise<boolean> {
    const { source } = this.#context.options;
    const extent = await source.extent(since);
    if (!this.#isLarge(extent)) return false;
    if (extent.changes !== undefined) {
      const documents = Math.max(...groups.map(documentsIn));
      return extent.changes > documents * MERGED_SHARE_MIN;
    }
    const { bytes = 0 } = await source.extent(undefined);
    return (extent.bytes ?? 0) > bytes * MERGED_SHARE_MIN;
  }

  /**
   * Purged documents leave no trace in the feed. Where the source names them their rows are removed; where it only says that there
   * were some, the group is built anew.
   */
  async #takePurges(groups: readonly GroupIndex[]): Promise<void> {
    const { source } = this.#context.options;
    if (!source.purges) return;
    for (const group of groups) {
      const { state } = group;
      const { ids, purgeSeq, reset } = await source.purges(state.purgeSeq ?? undefined);
      if (purgeSeq === state.purgeSeq) continue;
      const next = { ...state, purgeSeq };
      const built = state.seq !== null && state.purgeSeq !== null;
      await group.writing(async () => {
        if (built && reset) {
          const trees = group.store.snapshot().treeNames();
          group.store.adopt(
            new Map(trees.map((name) => [name, undefined])),
            encodeState({ ...next, seq: null }),
          );
          await group.store.commit({ sync: true });
        } else if (built && ids.length > 0) {
          const buffer = new WriteBuffer(group.config);
          buffer.addDeletions(ids.map((id) => Buffer.from(id)));
          const { changes } = buffer.drain(group.store.snapshot(), undefined);
          await group.store.apply(changes, encodeState(next));
        } else await group.store.apply(new Map(), encodeState(next));
      });
    }
  }
}

/** About: what waits in the log is not counted. */
function documentsIn({ store }: GroupIndex): number {
  return store.stats().trees.find(({ name }) => name === IDS_TREE)?.count ?? 0;
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

/** Whether a map function or the library so much as names a member: cheaper than always fetching what nobody reads. */
function mentions(groups: readonly GroupIndex[], member: string): boolean {
  return groups.some(
    ({ spec }) =>
      spec.trees.some(({ map }) => map.includes(member)) || (spec.lib?.includes(member) ?? false),
  );
}
