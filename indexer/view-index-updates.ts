// Updates of an open index: one at a time, asked for, or on and on as the source changes.

import { readdirSync } from "node:fs";

import { IndexerError } from "./errors.js";
import type { ResolvedOptions } from "./options.js";
import type { DesignsInUse } from "./view-index-designs.js";
import type { UpdateOptions } from "./view-index-types.js";
import type { BoundSource } from "./views/bound-source.js";
import type { DiskRoom } from "./views/disk-room.js";
import type { GroupIndex } from "./views/group-index.js";
import type { IndexDirectory } from "./views/index-directory.js";
import { LaterSyncs } from "./views/later-syncs.js";
import type { MappingRuntime } from "./views/runtime.js";
import { UpdateScheduler } from "./views/update-scheduler.js";
import type { UpdateCounts, UpdateProgress, UpdateRun } from "./views/update-types.js";
import { Updater } from "./views/updater.js";

export interface UpdatesHost {
  readonly options: ResolvedOptions;
  readonly directory: IndexDirectory;
  readonly designs: DesignsInUse;
  readonly source: BoundSource;
  readonly runtime: MappingRuntime;
  readonly room: DiskRoom;
  /** Fires when the index is closed. */
  readonly closing: AbortSignal;
  /** Whether the directory was made for this index. */
  readonly isNew: () => boolean;
}

/** What is going on with a group. */
export interface UpdateState {
  readonly running: boolean;
  /** When the running update began, in Unix milliseconds. */
  readonly started: number | undefined;
  readonly progress: UpdateProgress | undefined;
  /** Something was committed that is not safe against a loss of power yet. */
  readonly waitsForSync: boolean;
}

export class IndexUpdates {
  readonly #host: UpdatesHost;
  readonly #scheduler: UpdateScheduler;
  readonly #syncs: LaterSyncs;
  #progress: UpdateProgress | undefined;
  #run: Pick<UpdateRun, "signal" | "onProgress"> = { signal: undefined, onProgress: undefined };
  #counts: UpdateCounts | undefined;
  #began: number | undefined;
  #stillborn = false;

  constructor(host: UpdatesHost) {
    this.#host = host;
    this.#scheduler = new UpdateScheduler((groups) => this.#update(groups, false));
    this.#syncs = new LaterSyncs(host.options.sync.intervalMs, host.options.onWarning);
  }

  /** The last update was a first build that met input it could do nothing with: nothing of the index is to remain. */
  get stillborn(): boolean {
    return this.#stillborn;
  }

  /** Brings the groups up to the state of the source at the time of the call. */
  async update(options: UpdateOptions): Promise<UpdateCounts> {
    const { designs, directory, source } = this.#host;
    await designs.refresh();
    const groups = await directory.open(await designs.usable(options.designDocuments));
    return this.#scheduler.exclusive(async () => {
      this.#run = { signal: this.#signal(options.signal), onProgress: options.onProgress };
      this.#stillborn = false;
      try {
        await this.#update(groups, true);
        directory.save({ source: source.record });
        return (
          this.#counts ?? { documents: 0, mapped: 0, unchanged: 0, deleted: 0, failed: 0, rows: 0 }
        );
      } catch (error) {
        this.#stillborn =
          BAD_INPUT.has((error as { code?: string }).code) && this.#isWorthNothing(groups);
        throw error;
      } finally {
        this.#run = { signal: undefined, onProgress: undefined };
      }
    }, groups);
  }

  /** Keeps up with a live feed until the signal fires. */
  async follow(options: UpdateOptions & { readonly signal: AbortSignal }): Promise<UpdateCounts> {
    const { designs, directory, source } = this.#host;
    if ((await source.require()).snapshot)
      throw new IndexerError(
        "SOURCE_USAGE",
        `${source.record?.identity.label ?? "the source"} is a snapshot of documents and cannot be followed. Use --append if it only grows, or build again when it changed.`,
      );
    const stop = this.#signal(options.signal);
    for (;;) {
      const names = options.designDocuments ?? (await designs.followed());
      await this.update({ ...options, ...(names ? { designDocuments: names } : {}) });
      const groups = await directory.open(await designs.usable(names));
      if (groups.length === 0) {
        await this.#designComes(stop);
        continue;
      }
      const counts = await this.#keepUp(groups, stop, options.onProgress);
      if (counts) return counts;
    }
  }

  /** Resolves when the group holds all changes that the source had at the time of this call. */
  fresh(group: GroupIndex): Promise<void> {
    return this.#scheduler.fresh(group);
  }

  /** Runs `work` while no update runs. */
  between<T>(work: () => Promise<T>): Promise<T> {
    return this.#scheduler.exclusive(work);
  }

  stateOf(signature: string, group: GroupIndex | undefined): UpdateState {
    const running = this.#scheduler.isRunning(signature);
    return {
      running,
      started: running ? this.#began : undefined,
      progress: running ? this.#progress : undefined,
      waitsForSync: group !== undefined && this.#syncs.has(group),
    };
  }

  /** Resolves when nothing runs, nobody waits, and what was committed is on the disk. */
  async finish(): Promise<void> {
    await this.#scheduler.idle();
    await this.#syncs.finish();
  }

  /**
   * Waits until a design document that is to be kept up comes with the feed.
   * @throws IndexerError INDEXER_ABORTED; SOURCE_USAGE where none can come.
   */
  async #designComes(stop: AbortSignal): Promise<void> {
    const { designs, options } = this.#host;
    if (!designs.follows)
      throw new IndexerError(
        "SOURCE_USAGE",
        "there is no design document to keep up: each says autoupdate: false. Name those that are wanted, or ask their views.",
      );
    const source = await this.#host.source.require();
    const wanted = async (): Promise<boolean> =>
      (await designs.usable(await designs.followed())).length > 0;
    const since = await source.latest();
    // One may have come before the wait begins.
    if ((await designs.refresh()) && (await wanted())) return;
    options.onWarning(
      "there is no design document to keep up yet: waiting for one to come with the feed (or stop, and give one with --ddoc)",
    );
    for await (const _page of source.changes({ since, until: "forever", signal: stop }))
      if ((await designs.refresh()) && (await wanted())) return;
  }

  /** Updates the groups for ever. Returns undefined when a design document has come with the feed: what to keep up may have changed. */
  async #keepUp(
    groups: readonly GroupIndex[],
    stop: AbortSignal,
    onProgress: UpdateOptions["onProgress"],
  ): Promise<UpdateCounts | undefined> {
    const designs = new AbortController();
    while (!designs.signal.aborted) {
      const counts = await this.#scheduler.exclusive(async (wanted) => {
        const updater = await this.#updater();
        try {
          return await updater.update(groups, {
            signal: AbortSignal.any([stop, wanted, designs.signal]),
            until: "forever",
            onProgress: (progress) => {
              this.#progress = progress;
              onProgress?.(progress);
            },
            onDesigns: () => {
              if (this.#host.designs.follows) designs.abort();
            },
          });
        } catch (error) {
          // A query, or another update, waits: its turn comes, then this goes on.
          if (
            stop.aborted ||
            !(wanted.aborted || designs.signal.aborted) ||
            (error as { code?: string }).code !== "INDEXER_ABORTED"
          )
            throw error;
          return undefined;
        }
      });
      if (counts) return counts;
    }
    return undefined;
  }

  /** True when this index made its directory, and nothing in it would save the next build any work. */
  #isWorthNothing(groups: readonly GroupIndex[]): boolean {
    const { isNew, options, source } = this.#host;
    if (!isNew() || groups.some(({ state }) => state.seq !== null)) return false;
    // What is before a bad row of a feed can be gone on from; a file of documents must be edited, and is another one then.
    return (
      source.opened?.snapshot === true ||
      !readdirSync(options.dir).some((name) => name.endsWith(".runs"))
    );
  }

  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#host.closing]) : this.#host.closing;
  }

  async #updater(): Promise<Updater> {
    const { directory, options: o, room, runtime } = this.#host;
    const source = await this.#host.source.require();
    const { record } = this.#host.source;
    return new Updater({
      dir: o.dir,
      source: room.guard(source),
      sourceId: record?.identity.id ?? "",
      sourceLabel: record?.identity.label ?? "",
      idField: directory.manifest.source?.idField ?? o.idField,
      lineBytesMax: o.lineBytesMax,
      threads: runtime.threads,
      mapper: await runtime.mapper(),
      isolated: runtime.isolated,
      minDocuments: o.minDocuments,
      minBytes: o.minBytes,
      maxDelayMs: o.maxDelayMs,
      chunkBytes: o.chunkBytes,
      bulkBytes: o.bulkBytes,
      bulkChanges: o.bulkChanges,
      sync: o.sync,
      strict: o.strict,
    });
  }

  /** @param durable - whether to wait until the disk has it; if not, it gets there some time later. */
  async #update(groups: readonly GroupIndex[], durable: boolean): Promise<void> {
    const { closing, directory, source } = this.#host;
    this.#began = Date.now();
    const { signal, onProgress } = this.#run;
    const updater = await this.#updater();
    try {
      this.#counts = await updater.update(groups, {
        signal: signal ?? closing,
        until: "now",
        ...(durable
          ? {}
          : {
              syncLater: (group) => {
                this.#syncs.add(group);
              },
            }),
        onProgress: (progress) => {
          this.#progress = progress;
          onProgress?.(progress);
        },
      });
      directory.built(groups, source.record);
    } catch (error) {
      // When there is room on the disk again it goes on.
      if ((error as { code?: string }).code === "BTREE_BROKEN")
        for (const { spec } of groups) await directory.discard(spec.signature);
      throw error;
    } finally {
      this.#progress = undefined;
    }
  }
}

/** What ends a first build without a reason to keep anything of it. */
const BAD_INPUT = new Set<string | undefined>([
  "SOURCE_MALFORMED",
  "SOURCE_LINE_TOO_LONG",
  "INDEXER_SERVER_NOT_FOUND",
  "INDEXER_DDOC_COMPILATION",
]);
