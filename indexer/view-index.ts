// ViewIndex: an index directory in use. It owns the writer's lock, the manifest, the groups' files and what runs user functions, and
// has four parts work with them: view-index-updates.ts, -freshness.ts, -queries.ts and -upkeep.ts.

import { mkdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { NodeCache, type CacheStats } from "../btree/index.js";
import { IndexerError } from "./errors.js";
import { resolveOptions, type ResolvedOptions, type ViewIndexOptions } from "./options.js";
import type { ResolvedQuery, ViewAnswer } from "./query/index.js";
import { DocumentCache, fileBytes, type DocumentRequest, type Source } from "./sources/index.js";
import { DesignsInUse } from "./view-index-designs.js";
import { Freshness } from "./view-index-freshness.js";
import { IndexQueries } from "./view-index-queries.js";
import { IndexUpdates } from "./view-index-updates.js";
import { IndexUpkeep } from "./view-index-upkeep.js";
import { BoundSource } from "./views/bound-source.js";
import {
  removeStaleGenerations,
  type CompactOptions,
  type GroupCompaction,
} from "./views/compaction.js";
import { DiskRoom } from "./views/disk-room.js";
import { documentPage } from "./views/document-list.js";
import type { DocumentError } from "./views/error-entry.js";
import { GroupIndex } from "./views/group-index.js";
import { IDS_TREE } from "./views/group-reducers.js";
import { IndexDirectory } from "./views/index-directory.js";
import { DirectoryLock } from "./views/lock.js";
import { EMPTY_MANIFEST, MANIFEST_FILE, readManifest, type Manifest } from "./views/manifest.js";
import { countPending } from "./views/pending.js";
import { MappingRuntime } from "./views/runtime.js";
import type { UpdateCounts } from "./views/update-types.js";
import type { GroupVerification, VerifyOptions } from "./views/verification.js";
import type {
  DocumentListQuery,
  DocumentPage,
  FoundView,
  GroupPlace,
  IndexInfo,
  PreparedQuery,
  PrepareOptions,
  QueryOptions,
  QueryParameters,
  UpdateOptions,
} from "./view-index-types.js";

export type * from "./view-index-types.js";

/**
 * An incremental map/reduce index over a source.
 *
 * @example
 * ```ts
 * const index = await ViewIndex.open({ dir: "./index", source: "orders.ndjson", designDocuments: [ddoc] });
 * await index.update();
 * for await (const row of (await index.query("orders", "by_day", { group_level: 2 })).rows()) use(row);
 * await index.close();
 * ```
 */
export class ViewIndex {
  readonly #options: ResolvedOptions;
  readonly #lock: DirectoryLock | undefined;
  readonly #runtime: MappingRuntime;
  readonly #cache: NodeCache;
  readonly #documents: DocumentCache;
  readonly #directory: IndexDirectory;
  readonly #source: BoundSource;
  readonly #designs: DesignsInUse;
  readonly #updates: IndexUpdates;
  readonly #freshness: Freshness;
  readonly #queries: IndexQueries;
  readonly #upkeep: IndexUpkeep;
  readonly #closing = new AbortController();
  #closed = false;
  /** The topmost folder that was made for this index. */
  #made: string | undefined;

  private constructor(
    options: ResolvedOptions,
    lock: DirectoryLock | undefined,
    manifest: Manifest,
  ) {
    this.#options = options;
    this.#lock = lock;
    const runtime = (this.#runtime = options.runtime ?? new MappingRuntime(options));
    const cache = (this.#cache = new NodeCache(options.cacheBytes));
    this.#documents = new DocumentCache(options.documentCacheBytes);
    const room = new DiskRoom(options.dir, options.minFreeBytes, options.onWarning);
    const directory = (this.#directory = new IndexDirectory(
      options,
      manifest,
      (spec, generation, unrecorded) =>
        GroupIndex.open({
          dir: options.dir,
          spec,
          generation,
          unrecorded,
          mode: options.readOnly ? "read" : "write",
          cache,
          limits: options.reduceLimits,
          strict: options.strict,
          js: (config) => runtime.reducer(config),
          onWarning: options.onWarning,
        }),
    ));
    const source = (this.#source = new BoundSource(options, {
      recorded: () => directory.manifest.source,
      rebuild: () => {
        directory.beginRebuild();
      },
      opened: ({ partitioned }) => {
        designs.sourceOpened(partitioned ?? false);
      },
      record: (record) => {
        directory.save({ source: record });
      },
    }));
    const designs = (this.#designs = new DesignsInUse({
      options,
      directory,
      source: () => source.require(),
      threads: () => runtime.threads,
    }));
    const updates = (this.#updates = new IndexUpdates({
      options,
      directory,
      designs,
      source,
      runtime,
      room,
      closing: this.#closing.signal,
      isNew: () => this.#made !== undefined,
    }));
    const freshness = (this.#freshness = new Freshness({
      options,
      source,
      room,
      update: (group) => updates.fresh(group),
      isClosed: () => this.#closed,
    }));
    this.#queries = new IndexQueries({
      options,
      directory,
      designs,
      freshness,
      cache,
      documents: (requests) => this.documents(requests),
    });
    this.#upkeep = new IndexUpkeep({
      options,
      directory,
      designs,
      updates,
      runtime,
      room,
      cache,
      waiting: (group) => freshness.waiting(group),
      requireOpen: () => {
        this.#requireOpen();
      },
    });
  }

  /**
   * Opens (and, unless `readOnly`, makes) an index directory. Nothing is built yet.
   *
   * @throws TypeError, RangeError for bad options; IndexerError INDEXER_LOCKED, INDEXER_NO_INDEX, INDEXER_FORMAT_UNSUPPORTED,
   * INDEXER_SOURCE_CHANGED, INDEXER_DDOC_INVALID, INDEXER_DDOC_COMPILATION, SOURCE_*.
   */
  static async open(given: ViewIndexOptions): Promise<ViewIndex> {
    const options = resolveOptions(given);
    const known = readManifest(options.dir);
    if ((options.readOnly || options.offline) && !known)
      throw new IndexerError("INDEXER_NO_INDEX", `${options.dir} holds no index: build one first`, {
        file: options.dir,
      });
    const made = options.readOnly ? undefined : mkdirSync(options.dir, { recursive: true });
    const lock = options.readOnly ? undefined : await DirectoryLock.acquire(options.dir);
    if (lock && known) removeStaleGenerations(options.dir, known);
    const index = new ViewIndex(options, lock, known ?? EMPTY_MANIFEST);
    index.#made = made;
    try {
      // Checking functions takes one thread: a large first build will want them all, and they may as well start together.
      if (
        !known &&
        typeof options.source === "string" &&
        fileBytes(options.source) > options.bulkBytes
      )
        index.#runtime.threads.start();
      await index.#start();
    } catch (error) {
      await index.close();
      throw error;
    }
    return index;
  }

  /** Brings the groups up to the state of the source at the time of the call. */
  async update(options: UpdateOptions = {}): Promise<UpdateCounts> {
    this.#requireOpen();
    return this.#updates.update(options);
  }

  /** Keeps up with a live feed until the signal fires. */
  async follow(options: UpdateOptions & { readonly signal: AbortSignal }): Promise<UpdateCounts> {
    this.#requireOpen();
    return this.#updates.follow(options);
  }

  /**
   * Asks a view. With `update` true (the default) the index is first brought up to the state of the source at the time of the call.
   *
   * @param parameters - CouchDB's parameters as JSON values, e.g. `{ startkey: ["x"], group_level: 1 }`.
   * @throws QueryError for bad parameters; IndexerError INDEXER_VIEW_NOT_FOUND and what an update throws.
   */
  async query(
    designDocument: string,
    view: string,
    parameters: QueryParameters = {},
    options: QueryOptions = {},
  ): Promise<ViewAnswer> {
    this.#requireOpen();
    return this.#queries.query(designDocument, view, parameters, options);
  }

  /**
   * Looks a view up, for callers that parse queries themselves. Design documents of the source are looked at anew.
   * @throws IndexerError `INDEXER_VIEW_NOT_FOUND` with CouchDB's 404 in its details.
   */
  async findView(designDocument: string, view: string): Promise<FoundView> {
    this.#requireOpen();
    return this.#queries.find(designDocument, view);
  }

  /** The same with what is known already. */
  knownView(designDocument: string, view: string): FoundView {
    return this.#queries.known(designDocument, view);
  }

  /** Runs a resolved query over a view that `findView` found. */
  async run(
    found: FoundView,
    query: ResolvedQuery,
    options: QueryOptions = {},
  ): Promise<ViewAnswer> {
    const { answer } = await this.prepare(found, query, { ...options, leased: true });
    return answer;
  }

  /** The same for callers that must know what the answer comes from before they read it, and that always say when they are done. */
  prepare(
    found: FoundView,
    query: ResolvedQuery,
    options: PrepareOptions = {},
  ): Promise<PreparedQuery> {
    return this.#queries.prepare(found, query, options);
  }

  /** Sees to a found view's group as a query with this `update` would, and tells where it is. */
  place(found: FoundView, update: true | false | "lazy"): Promise<GroupPlace> {
    return this.#queries.place(found, update);
  }

  /** Only with `readOnly`: takes up what another process wrote into the manifest. */
  reload(): Promise<void> {
    return this.#directory.reload();
  }

  /** Raw JSON of documents of the source, undefined where missing. */
  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    const source = await this.#source.require();
    return this.#documents.documents(source, requests);
  }

  /**
   * Ids of the source's documents in their order, from an index that is first brought up to the state of the source.
   * @returns undefined when there is no design document whose index could tell.
   */
  async documentPage(query: DocumentListQuery): Promise<DocumentPage | undefined> {
    this.#requireOpen();
    const stamp = this.#freshness.stampNow();
    if (stamp === undefined || this.#designs.mayBeNew(stamp)) await this.#designs.refresh(stamp);
    const usable = await this.#designs.usable(undefined);
    // The one that is nearest to the source.
    const design =
      usable.find((one) => this.#directory.openNow(one)?.freshAt === stamp) ?? usable[0];
    if (!design) return undefined;
    const group = await this.#directory.openOne(design);
    if (!this.#freshness.isFresh(group, stamp)) await this.#freshness.freshen(group, stamp);
    const { includeDesign } = design.group;
    const source = await this.#source.require();
    const designs = includeDesign ? undefined : await source.designDocuments();
    return documentPage(
      group.store.tree(IDS_TREE),
      designs?.map(({ id }) => id),
      query,
    );
  }

  /** Counters of the caches of index nodes and of included documents. */
  caches(): { readonly nodes: CacheStats; readonly documents: CacheStats } {
    return { nodes: this.#cache.stats(), documents: this.#documents.stats() };
  }

  /** The documents that failed to map, by design document, in id order. */
  async *errors(
    designDocument?: string,
  ): AsyncGenerator<DocumentError & { readonly designDocument: string }> {
    this.#requireOpen();
    yield* this.#upkeep.errors(designDocument);
  }

  /** @param options - `look`: look for new design documents first, which the source may be too far away for. Default false. */
  async info(options: { readonly look?: boolean } = {}): Promise<IndexInfo> {
    this.#requireOpen();
    if (options.look === true) await this.#designs.refresh(this.#freshness.stampNow());
    return this.#upkeep.info();
  }

  /** Design documents that can be indexed, and the signatures of their groups. */
  async signatures(): Promise<Map<string, string>> {
    this.#requireOpen();
    await this.#directory.follow();
    return new Map(
      [...this.#directory.designs.valid()].map(({ id, group }) => [id, group.signature]),
    );
  }

  /** Design documents known now, as JSON, by id. */
  designDocument(name: string): string | undefined {
    return this.#directory.designs.json(name);
  }

  /** Whether the source is a partitioned database, as far as that is known. */
  get partitioned(): boolean {
    return this.#directory.designs.partitioned ?? false;
  }

  /** The source, opened. */
  source(): Promise<Source> {
    return this.#source.require();
  }

  /**
   * Rewrites index files as small as a first build makes them, and in the newest version of the order of keys, while queries and updates
   * go on (views/compaction.ts). Groups that were never built are left alone. A call for a group that is being compacted waits for that.
   *
   * @param designDocument - only this one's file. Default: all.
   * @throws IndexerError INDEXER_ABORTED, INDEXER_CLOSED; TypeError with `readOnly`; BtreeError. What was not finished stays as it was.
   */
  async compact(designDocument?: string, options: CompactOptions = {}): Promise<GroupCompaction[]> {
    this.#requireOpen();
    return this.#upkeep.compact(designDocument, options);
  }

  /**
   * Proves index files: every node, and that a group's trees agree (views/verification.ts). Needs no lock, and writers may go on.
   *
   * @param designDocument - only this one's file. Default: all.
   * @returns what was found, a file each; damage is not thrown.
   * @throws IndexerError INDEXER_ABORTED, INDEXER_VIEW_NOT_FOUND.
   */
  async verify(designDocument?: string, options: VerifyOptions = {}): Promise<GroupVerification[]> {
    this.#requireOpen();
    return this.#upkeep.verify(designDocument, options);
  }

  /** Removes index files and unfinished builds that no design document uses any more. Returns their names. */
  async cleanup(options: { readonly dryRun?: boolean } = {}): Promise<string[]> {
    this.#requireOpen();
    return this.#upkeep.cleanup(options);
  }

  /** Changes that the source has and the group has not: counted up to some size of the feed, estimated beyond. */
  async pending(designDocument: string): Promise<number> {
    const design = this.#directory.designs.require(designDocument);
    const source = await this.#source.require();
    let seq: string | null = null;
    if (this.#directory.holds(design)) {
      await this.#designs.requireCompiled(design);
      ({ seq } = (await this.#directory.openOne(design)).state);
    }
    return countPending(source, seq ?? undefined);
  }

  /** Waits for a running update, then closes everything. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#closing.abort();
    await this.#upkeep.stop();
    await this.#updates.finish();
    await this.#directory.closeGroups();
    await this.#upkeep.settled();
    if (!this.#options.runtime) await this.#runtime.close();
    await this.#source.close();
    if (this.#updates.stillborn) {
      this.#directory.removeIndexes();
      rmSync(join(this.#options.dir, MANIFEST_FILE), { force: true });
    }
    await this.#lock?.release();
    if (this.#made !== undefined) removeEmptyFolders(this.#options.dir, this.#made);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #start(): Promise<void> {
    await this.#designs.start();
    if (this.#options.readOnly || this.#options.offline) return;
    if (this.#options.source !== undefined || this.#directory.manifest.source !== undefined)
      await this.#source.require();
    this.#designs.record();
  }

  #requireOpen(): void {
    if (this.#closed) throw new IndexerError("INDEXER_CLOSED", "the index was closed");
  }
}

/** From `dir` up to `made`, as far as they are empty. */
function removeEmptyFolders(dir: string, made: string): void {
  try {
    for (let folder = resolve(dir); folder.length >= resolve(made).length; folder = dirname(folder))
      rmdirSync(folder);
  } catch {
    // Somebody put something there: it stays.
  }
}
