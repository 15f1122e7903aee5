// Compaction of a group's index file while queries and updates go on. The live trees are copied in key order into the file of the next
// generation (btree/compaction.ts), which then takes the place of the old one through the manifest:
//
// 1. `<signature>.<generation + 1>.vmx` is made; nothing refers to it yet.
// 2. The trees are copied, then what updates changed meanwhile is applied, until little is left; all of it is synced.
// 3. Updates are held. The rest is applied and synced, the manifest names the new generation (written, synced, renamed, folder
//    synced), the group reads the new file. Updates go on.
// 4. The old file is closed and removed when nobody in this process reads it any more.
//
// A file that is kept in an older version of the root order is renewed (renewal.ts): 2. makes its keys anew and sorts them, and 3. waits
// until no update is under way, because what that has mapped already has keys of the old version.
//
// Killed before the manifest is renamed, the old file is as it was, and the new one is litter; after it, the old one is. Whoever opens
// the directory next for writing removes either: every generation that the manifest does not name.

import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";

import { Compaction, Store, type NodeCache } from "../../btree/index.js";
import { newestCollation } from "../collation/index.js";
import { IndexerError } from "../errors.js";
import type { GroupIndex, GroupReducers } from "./group-index.js";
import { groupLog } from "./group-reducers.js";
import { indexFileName, sortFolderName, type Manifest } from "./manifest.js";
import { Renewal, renewedState } from "./renewal.js";

/** How far the compaction of a group is. */
export interface GroupCompactionProgress {
  readonly signature: string;
  /** `sort`: keys are made anew and sorted, only in a renewal; `copy`: the trees; `catch-up`: what changed meanwhile. */
  readonly phase: "sort" | "copy" | "catch-up";
  /** Entries sorted or copied, of all trees. */
  readonly rows: number;
  readonly rowsTotal: number;
}

/** What a compaction did. */
export interface GroupCompaction {
  readonly signature: string;
  readonly generation: number;
  readonly file: string;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
  /** Version of the root order that the file was kept in. */
  readonly collationBefore: number;
  /** And is now. */
  readonly collation: number;
}

/** Options of one compaction. */
export interface CompactOptions {
  /** Stops it: the call rejects with INDEXER_ABORTED, the index is as it was. */
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: GroupCompactionProgress) => void) | undefined;
}

/** What compactions need of the index directory. */
export interface CompactionHost {
  readonly dir: string;
  readonly cache: NodeCache;
  /** The present generation of a group. */
  readonly generation: (signature: string) => number;
  /** Makes the manifest name this generation, durably, or throws and leaves it as it was. */
  readonly publish: (signature: string, generation: number, collation: number) => void;
  /** Runs work while no update is under way. */
  readonly betweenUpdates: <T>(work: () => Promise<T>) => Promise<T>;
  readonly onWarning: (message: string) => void;
}

/** With no more than so many operations to catch up with, updates can be held meanwhile. */
const FEW_OPERATIONS = 2000;
/** A writer faster than the compaction is made to wait after so many rounds. */
const ROUNDS_MAX = 8;

/** Writes a group's trees into another file. */
type Rewrite = Pick<Compaction, "copy" | "catchUp" | "close">;

interface Running {
  readonly abort: AbortController;
  readonly done: Promise<GroupCompaction>;
}

/** The compactions of one directory: at most one a group at a time. */
export class Compactions {
  readonly #host: CompactionHost;
  readonly #running = new Map<string, Running>();
  /** Old files that are still read. */
  readonly #removals = new Set<Promise<void>>();

  constructor(host: CompactionHost) {
    this.#host = host;
  }

  /** Compacts a group, or waits for the compaction of it that is under way. */
  run(group: GroupIndex, options: CompactOptions): Promise<GroupCompaction> {
    const { signature } = group.spec;
    const running = this.#running.get(signature);
    if (running) return running.done;
    const abort = new AbortController();
    const signal = options.signal ? AbortSignal.any([options.signal, abort.signal]) : abort.signal;
    const done = this.#compact(group, signal, options.onProgress).finally(() =>
      this.#running.delete(signature),
    );
    this.#running.set(signature, { abort, done });
    return done;
  }

  /** Stops the compaction of a group, or all of them, and waits until they have ended. */
  async stop(signature?: string): Promise<void> {
    for (const [name, { abort, done }] of [...this.#running]) {
      if (signature !== undefined && name !== signature) continue;
      abort.abort();
      await done.catch(() => undefined);
    }
  }

  /** Resolves when all old files are removed: their readers have ended, or their groups were closed. */
  async settled(): Promise<void> {
    await Promise.all(this.#removals);
  }

  /**
   * Returns when the new file is in use.
   * @throws IndexerError INDEXER_ABORTED; BtreeError from either file. The old file stays in use then, and nothing is left behind.
   */
  async #compact(
    group: GroupIndex,
    signal: AbortSignal,
    onProgress: CompactOptions["onProgress"],
  ): Promise<GroupCompaction> {
    const { dir, cache } = this.#host;
    const { signature } = group.spec;
    const collationBefore = group.collation;
    const collation = Math.max(collationBefore, newestCollation());
    const reducers = group.reducersIn(collation);
    const generation = this.#host.generation(signature) + 1;
    const path = join(dir, indexFileName(signature, generation));
    const oldPath = group.path;
    const source = group.store;
    const release = group.hold();
    let target: Store | undefined;
    let rewrite: Rewrite | undefined;
    let closed: { readonly old: Promise<void> };
    let bytesBefore: number;
    try {
      signal.throwIfAborted();
      rmSync(path, { force: true });
      target = await Store.create(path, {
        state: renewedState(source.state, collation),
        reducers: reducers.byName,
        cache,
        log: groupLog,
      });
      rewrite =
        collation === collationBefore
          ? new Compaction(source, target, {
              reducers: reducers.byName,
              signal,
              onProgress: ({ rowsDone, rowsTotal }) =>
                onProgress?.({ signature, phase: "copy", rows: rowsDone, rowsTotal }),
            })
          : new Renewal(source, target, {
              spec: group.spec,
              from: collationBefore,
              to: collation,
              reducers: reducers.byName,
              folder: join(dir, sortFolderName(signature, generation)),
              signal,
              onProgress: (progress) => onProgress?.({ signature, ...progress }),
            });
      await copyAndCatchUp(rewrite, (rows) =>
        onProgress?.({ signature, phase: "catch-up", rows, rowsTotal: rows }),
      );
      await target.commit({ sync: true });
      bytesBefore = source.stats().fileBytes;
      const change = { rewrite, target, path, reducers };
      const publish = (): void => {
        this.#host.publish(signature, generation, collation);
      };
      closed =
        collation === collationBefore
          ? await switchOver(group, change, publish)
          : await inTurn(this.#host.betweenUpdates, signal, () =>
              switchOver(group, change, publish),
            );
    } catch (error) {
      rewrite?.close();
      await target?.close();
      rmSync(path, { force: true });
      release();
      if (!signal.aborted) throw error;
      throw new IndexerError(
        "INDEXER_ABORTED",
        "the compaction was stopped; the index is as it was",
        {},
        { cause: error },
      );
    }
    rewrite.close();
    release();
    const removal = closed.old
      .then(() => {
        remove(oldPath, this.#host.onWarning);
      })
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
    // When nobody reads the old file, it is gone on return.
    await Promise.race([removal, setImmediate()]);
    const bytesAfter = target.stats().fileBytes;
    return {
      signature,
      generation,
      file: path,
      bytesBefore,
      bytesAfter,
      collationBefore,
      collation,
    };
  }
}

async function copyAndCatchUp(
  rewrite: Rewrite,
  onApplied: (operations: number) => void,
): Promise<void> {
  await rewrite.copy();
  let applied = 0;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const operations = await rewrite.catchUp();
    applied += operations;
    if (operations > 0) onApplied(applied);
    if (operations <= FEW_OPERATIONS) return;
  }
}

interface Change {
  readonly rewrite: Rewrite;
  readonly target: Store;
  readonly path: string;
  readonly reducers: GroupReducers;
}

/** `old` resolves when the last reader of the old file has ended. */
function switchOver(
  group: GroupIndex,
  { rewrite, target, path, reducers }: Change,
  publish: () => void,
): Promise<{ readonly old: Promise<void> }> {
  return group.writing(async () => {
    await rewrite.catchUp();
    await target.commit({ sync: true });
    publish();
    return { old: group.replaceFile(path, target, reducers) };
  });
}

/** Waits for the turn, but not when the signal fires before it has come: what stops a compaction may have the turn itself. */
async function inTurn<T>(
  turn: CompactionHost["betweenUpdates"],
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  let begun = false;
  let stop: () => void = () => undefined;
  const stopped = new Promise<never>((_, reject) => {
    stop = () => {
      if (!begun) reject(signal.reason as Error);
    };
    signal.addEventListener("abort", stop);
  });
  const done = turn(() => {
    signal.throwIfAborted();
    begun = true;
    return work();
  });
  try {
    return await Promise.race([done, stopped]);
  } finally {
    signal.removeEventListener("abort", stop);
    done.catch(() => undefined);
  }
}

function remove(path: string, onWarning: (message: string) => void): void {
  try {
    rmSync(path, { force: true });
  } catch (error) {
    // Somebody else may have it open, where that hinders: the next one to open the directory tries again.
    onWarning(
      `${path} is no longer needed and could not be removed yet: ${(error as Error).message}`,
    );
  }
}

/**
 * Removes what killed processes left: generations of known groups that the manifest does not name, a half-written manifest, what a
 * renewal had sorted, and what a comparison with a snapshot put aside.
 * To be called by the directory's one writer. What cannot be removed now is tried again next time.
 *
 * @returns the names of what was removed.
 */
export function removeStaleGenerations(dir: string, manifest: Manifest): string[] {
  const removed: string[] = [];
  for (const name of readdirSync(dir)) {
    const [, signature = "", generation] = /^([0-9a-f]{32})\.(\d+)\.vmx$/.exec(name) ?? [];
    const current = manifest.groups[signature]?.generation;
    // While the file that the manifest names is missing, another may be the only one there is.
    const stale =
      current === undefined
        ? name === "viewmill.json.new" || /^scan-\d+$|^[0-9a-f]{32}\.\d+\.sort$/.test(name)
        : String(current) !== generation &&
          existsSync(join(dir, indexFileName(signature, current)));
    if (!stale) continue;
    try {
      rmSync(join(dir, name), { recursive: true, force: true });
      removed.push(name);
    } catch {
      // Open elsewhere, on a system where that hinders.
    }
  }
  return removed;
}
