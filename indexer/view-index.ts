// ViewIndex: an index directory in use. It owns the writer's lock, the manifest, the groups' files and what runs user functions; the
// work is done in views/, mapping/ and query/.

import { mkdirSync, readdirSync, rmdirSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { NodeCache, type CacheStats, type Reducer, type TreeReader } from "../btree/index.js";
import { IndexerError } from "./errors.js";
import { resolveOptions, type ResolvedOptions, type ViewIndexOptions } from "./options.js";
import {
  inCollation,
  parseQueryObject,
  QueryStats,
  resolveViewQuery,
  runViewQuery,
  type ResolvedQuery,
  type ViewAnswer,
} from "./query/index.js";
import type { ViewReducer } from "./reducers/index.js";
import {
  Compactions,
  removeStaleGenerations,
  type CompactOptions,
  type GroupCompaction,
} from "./views/compaction.js";
import { DocumentCache, type DocumentRequest, type Source } from "./sources/index.js";
import type { DesignDocument } from "./views/design-document.js";
import { documentPage } from "./views/document-list.js";
import type { Designs } from "./views/designs.js";
import { DiskRoom } from "./views/disk-room.js";
import { BoundSource } from "./views/bound-source.js";
import { CompileCheck } from "./views/compile-check.js";
import type { DocumentError } from "./views/error-entry.js";
import { GroupIndex, reducersOfGroup } from "./views/group-index.js";
import { groupInfo } from "./views/group-info.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./views/group-reducers.js";
import { IndexDirectory } from "./views/index-directory.js";
import { leased } from "./views/answer-leases.js";
import { LaterSyncs } from "./views/later-syncs.js";
import { DirectoryLock } from "./views/lock.js";
import {
  EMPTY_MANIFEST,
  MANIFEST_FILE,
  indexFileName,
  readManifest,
  type Manifest,
} from "./views/manifest.js";
import { partitionPrefix } from "./views/partitions.js";
import { countPending } from "./views/pending.js";
import { instanceOf, shownSeqOf } from "./views/query-identity.js";
import { MappingRuntime } from "./views/runtime.js";
import { Turns } from "./views/turns.js";
import { UpdateScheduler } from "./views/update-scheduler.js";
import type { UpdateCounts, UpdateProgress, UpdateRun } from "./views/update-types.js";
import { Updater } from "./views/updater.js";
import { verifyGroup, type GroupVerification, type VerifyOptions } from "./views/verification.js";
import type {
  DocumentListQuery,
  DocumentPage,
  FoundView,
  GroupInfo,
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
  readonly #designs: Designs;
  readonly #scheduler: UpdateScheduler;
  readonly #check: CompileCheck;
  readonly #source: BoundSource;
  readonly #closing = new AbortController();
  readonly #compactions: Compactions;
  readonly #room: DiskRoom;
  #followsDesigns = false;
  /** Ids of the design documents that were given with this opening. */
  #given: readonly string[] = [];
  #progress: UpdateProgress | undefined;
  #run: Pick<UpdateRun, "signal" | "onProgress"> = { signal: undefined, onProgress: undefined };
  #counts: UpdateCounts | undefined;
  #updateBegan: number | undefined;
  #closed = false;
  /** The topmost folder that was made for this index. */
  #made: string | undefined;
  /** Its first build met input that it could do nothing with: nothing of the index is to remain. */
  #stillborn = false;
  /** The source's stamp at which design documents were last looked for, and groups were last brought up to date. */
  #designsStamp: string | undefined;
  /** Views that were asked for. */
  readonly #known = new WeakMap<DesignDocument, Map<string, FoundView>>();
  readonly #documentsOf = (requests: readonly DocumentRequest[]) => this.documents(requests);
  readonly #turns = new Turns();
  #nextStamp: Promise<string | undefined> | undefined;
  readonly #waiting = new WeakMap<GroupIndex, number>();
  readonly #syncs: LaterSyncs;

  private constructor(
    options: ResolvedOptions,
    lock: DirectoryLock | undefined,
    manifest: Manifest,
  ) {
    this.#options = options;
    this.#lock = lock;
    this.#runtime = options.runtime ?? new MappingRuntime(options);
    this.#check = new CompileCheck(() => this.#runtime.threads);
    this.#cache = new NodeCache(options.cacheBytes);
    this.#documents = new DocumentCache(options.documentCacheBytes);
    this.#directory = new IndexDirectory(options, manifest, (spec, generation, unrecorded) =>
      GroupIndex.open({
        dir: options.dir,
        spec,
        generation,
        unrecorded,
        mode: options.readOnly ? "read" : "write",
        cache: this.#cache,
        limits: options.reduceLimits,
        strict: options.strict,
        js: (config) => this.#runtime.reducer(config),
        onWarning: options.onWarning,
      }),
    );
    this.#designs = this.#directory.designs;
    this.#room = new DiskRoom(options.dir, options.minFreeBytes, options.onWarning);
    this.#compactions = new Compactions({
      dir: options.dir,
      cache: this.#cache,
      generation: (signature) => this.#directory.generation(signature),
      publish: (signature, generation, collation) => {
        this.#directory.publish(signature, generation, collation);
      },
      betweenUpdates: (work) => this.#scheduler.exclusive(work),
      onWarning: options.onWarning,
    });
    this.#source = new BoundSource(options, {
      recorded: () => this.#directory.manifest.source,
      rebuild: () => {
        this.#directory.beginRebuild();
      },
      opened: ({ partitioned }) => {
        this.#designs.setPartitioned(partitioned ?? false);
        // Only now is it known whether design documents may be partitioned, and nothing is written yet.
        for (const id of this.#given) this.#designs.require(id);
      },
      record: (source) => {
        this.#directory.save({ source });
      },
    });
    this.#scheduler = new UpdateScheduler((groups) => this.#updateGroups(groups, false));
    this.#syncs = new LaterSyncs(options.sync.intervalMs, options.onWarning);
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
    await this.#refreshDesigns();
    const groups = await this.#directory.open(await this.#usable(options.designDocuments));
    return this.#scheduler.exclusive(async () => {
      this.#run = { signal: this.#signal(options.signal), onProgress: options.onProgress };
      this.#stillborn = false;
      try {
        await this.#updateGroups(groups, true);
        this.#directory.save({ source: this.#source.record });
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
    this.#requireOpen();
    if ((await this.#source.require()).snapshot)
      throw new IndexerError(
        "SOURCE_USAGE",
        `${this.#source.record?.identity.label ?? "the source"} is a snapshot of documents and cannot be followed. Use --append if it only grows, or build again when it changed.`,
      );
    const stop = this.#signal(options.signal);
    for (;;) {
      const names = options.designDocuments ?? (await this.#followed());
      await this.update({ ...options, ...(names ? { designDocuments: names } : {}) });
      const groups = await this.#directory.open(await this.#usable(names));
      const counts = await this.#keepUp(groups, stop, options.onProgress);
      if (counts) return counts;
    }
  }

  /** Design documents that are kept up without being asked for: all but those that say `autoupdate: false`. */
  async #followed(): Promise<string[] | undefined> {
    await this.#refreshDesigns();
    const designs = [...this.#designs.valid()];
    const kept = designs.filter(({ group }) => group.autoupdate);
    return kept.length === designs.length ? undefined : kept.map(({ id }) => id);
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
              if (this.#followsDesigns) designs.abort();
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
    const stamp = this.#options.readOnly || this.#turns.due() ? undefined : this.#stampNow();
    const found =
      stamp === undefined || this.#mayHaveNewDesigns(stamp)
        ? await this.findView(designDocument, view)
        : { ...this.knownView(designDocument, view), stamp };
    const query = resolveViewQuery(parseQueryObject(parameters), found.shape);
    const group = this.#directory.openNow(found.design);
    // Mostly all is there, and nobody has to wait for anything.
    if (group && this.#isFreshFor(query, group, found.stamp))
      return this.#answer(found, query, group, leased(group.hold()), options).answer;
    return this.run(found, query, options);
  }

  /**
   * Looks a view up, for callers that parse queries themselves. Design documents of the source are looked at anew.
   * @throws IndexerError `INDEXER_VIEW_NOT_FOUND` with CouchDB's 404 in its details.
   */
  async findView(designDocument: string, view: string): Promise<FoundView> {
    this.#requireOpen();
    if (this.#options.readOnly) await this.#directory.follow();
    const stamp = await this.#stampSoon();
    if (stamp === undefined || this.#mayHaveNewDesigns(stamp)) await this.#refreshDesigns(stamp);
    return { ...this.knownView(designDocument, view), stamp };
  }

  /** The same with what is known already. */
  knownView(designDocument: string, view: string): FoundView {
    const design = this.#designs.require(designDocument);
    let views = this.#known.get(design);
    if (!views) this.#known.set(design, (views = new Map<string, FoundView>()));
    let found = views.get(view);
    const collation = this.#collationOf(design);
    if (found?.shape.collationVersion !== collation)
      views.set(view, (found = this.#foundIn(design, view, collation)));
    return found;
  }

  /** Version of the root order that the group's file is kept in. */
  #collationOf(design: DesignDocument): number {
    const { signature } = design.group;
    return this.#directory.openNow(design)?.collation ?? this.#directory.collation(signature);
  }

  #foundIn(design: DesignDocument, view: string, collationVersion: number): FoundView {
    const location = design.views.get(view);
    if (!location)
      throw new IndexerError("INDEXER_VIEW_NOT_FOUND", `${design.id} has no view ${view}`, {
        view,
        status: 404,
        error: "not_found",
        reason: "missing_named_view",
      });
    const tree = design.group.trees[location.tree];
    return {
      name: view,
      design,
      location,
      shape: {
        hasReduce: location.reduce !== undefined,
        collation: tree?.collation ?? "root",
        collationVersion,
        partitioned: design.group.partitioned,
      },
      label: `${design.id}/_view/${view}`,
      stamp: undefined,
    };
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
  async prepare(
    found: FoundView,
    query: ResolvedQuery,
    options: PrepareOptions = {},
  ): Promise<PreparedQuery> {
    const began = performance.now();
    if (options.place) await this.#directory.followTo(options.place);
    const group = this.#directory.openNow(found.design) ?? (await this.#openFound(found.design));
    if (this.#options.readOnly) {
      if (options.place === undefined || options.place.commit > group.store.commitNumber)
        group.store.refresh();
    } else if (query.update === true && !this.#isFresh(group, found.stamp))
      await this.#freshen(group, found.stamp);
    const release = options.leased === true ? leased(group.hold()) : group.hold();
    const prepared = this.#answer(found, query, group, release, options, began);
    if (query.update === "lazy" && !this.#options.readOnly) this.#freshenLater(group);
    return prepared;
  }

  /** @param began - when the query was asked, by `performance.now()`. */
  #answer(
    found: FoundView,
    asked: ResolvedQuery,
    group: GroupIndex,
    release: () => void,
    options: PrepareOptions,
    began?: number,
  ): PreparedQuery {
    // Nothing is waited for in here, so all is of one file.
    const { store } = group;
    let query: ResolvedQuery;
    try {
      query = inCollation(asked, group.collation);
    } catch (error) {
      release();
      throw error;
    }
    if (this.#options.strict) requireReductions(group, release);
    const { tree: number, reduce } = found.location;
    const tree = store.tree(viewTreeName(number));
    const { state } = store;
    let stats: QueryStats | undefined;
    if (query.explain) {
      stats = new QueryStats(() => this.#cache.stats());
      stats.add("update", performance.now() - (began ?? performance.now()));
    }
    const answer = runViewQuery(
      query,
      {
        tree,
        collation: found.shape.collation,
        keyPrefix: query.partition === undefined ? undefined : partitionPrefix(query.partition),
        label: options.label ?? found.label,
        updateSeq: query.updateSeq ? shownSeqOf(state) : undefined,
        documents: options.documents ?? this.#documentsOf,
        reducer: reduce === undefined ? undefined : (group.reducers[number] as ViewReducer),
        reduceIndex: reduce,
        stats,
      },
      { signal: options.signal, onEnd: release },
    );
    return new Prepared(
      answer,
      release,
      state,
      tree,
      () => options.place?.instance ?? instanceOf(store),
    );
  }

  /** Sees to a found view's group as a query with this `update` would, and tells where it is. */
  async place(found: FoundView, update: true | false | "lazy"): Promise<GroupPlace> {
    const group = this.#directory.openNow(found.design) ?? (await this.#openFound(found.design));
    if (update === true && !this.#isFresh(group, found.stamp))
      await this.#freshen(group, found.stamp);
    else if (update === "lazy") this.#freshenLater(group);
    const { signature } = found.design.group;
    const { store } = group;
    return {
      signature,
      generation: this.#directory.generation(signature),
      commit: store.commitNumber,
      instance: instanceOf(store),
      stamp: found.stamp,
    };
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
    const stamp = this.#stampNow();
    if (stamp === undefined || this.#mayHaveNewDesigns(stamp)) await this.#refreshDesigns(stamp);
    const usable = await this.#usable(undefined);
    // The one that is nearest to the source.
    const design =
      usable.find((one) => this.#directory.openNow(one)?.freshAt === stamp) ?? usable[0];
    if (!design) return undefined;
    const group = await this.#directory.openOne(design);
    if (!this.#isFresh(group, stamp)) await this.#freshen(group, stamp);
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
    await this.#directory.follow();
    const designs =
      designDocument === undefined
        ? [...this.#designs.valid()]
        : [this.#designs.require(designDocument)];
    for (const design of designs) {
      if (!this.#directory.holds(design)) continue;
      const [group] = await this.#directory.open([design]);
      const release = group?.hold();
      const snapshot = group?.store.snapshot();
      try {
        for (const slice of snapshot?.tree(ERRORS_TREE).slices({}) ?? [])
          for (let i = 0; i < slice.length; i++) {
            const record = JSON.parse(
              Buffer.from(slice.value(i)).toString("utf8"),
            ) as DocumentError;
            yield { designDocument: design.id, ...record };
          }
      } finally {
        snapshot?.release();
        release?.();
      }
    }
  }

  /** @param options - `look`: look for new design documents first, which the source may be too far away for. Default false. */
  async info(options: { readonly look?: boolean } = {}): Promise<IndexInfo> {
    this.#requireOpen();
    if (options.look === true) await this.#refreshDesigns(this.#stampNow());
    await this.#directory.follow();
    const groups: GroupInfo[] = [];
    const refused: { designDocument: string; reason: string }[] = [];
    for (const [id, { design }] of this.#designs.entries()) {
      if (design instanceof IndexerError)
        refused.push({ designDocument: id, reason: design.message });
      else groups.push(await this.#groupInfo(design));
    }
    return {
      dir: this.#options.dir,
      source: this.#directory.manifest.source,
      groups,
      refused,
      pausedForRoom: this.#room.paused,
    };
  }

  /** Design documents that can be indexed, and the signatures of their groups. */
  async signatures(): Promise<Map<string, string>> {
    this.#requireOpen();
    await this.#directory.follow();
    return new Map([...this.#designs.valid()].map(({ id, group }) => [id, group.signature]));
  }

  /** Design documents known now, as JSON, by id. */
  designDocument(name: string): string | undefined {
    return this.#designs.json(name);
  }

  /** Whether the source is a partitioned database, as far as that is known. */
  get partitioned(): boolean {
    return this.#designs.partitioned ?? false;
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
    if (this.#options.readOnly)
      throw new TypeError("an index that was opened with readOnly cannot be compacted");
    const designs =
      designDocument === undefined
        ? [...this.#designs.valid()]
        : [this.#designs.require(designDocument)];
    const done: GroupCompaction[] = [];
    for (const group of await this.#directory.open(
      designs.filter((design) => this.#directory.holds(design)),
    )) {
      this.#requireOpen();
      if (group.state.seq !== null) done.push(await this.#compactions.run(group, options));
    }
    return done;
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
    await this.#directory.follow();
    const designs =
      designDocument === undefined
        ? [...this.#designs.valid()]
        : [this.#designs.require(designDocument)];
    const groups = new Map(
      designs
        .filter((design) => this.#directory.holds(design))
        .map(({ group }) => [group.signature, group]),
    );
    const { dir, reduceLimits: limits, strict } = this.#options;
    const done: GroupVerification[] = [];
    for (const [signature, spec] of groups) {
      const js = this.#runtime.reducer.bind(this.#runtime);
      const reducers = (collation: number): ((tree: string) => Reducer) =>
        reducersOfGroup({ spec, limits, strict, js }, collation).byName;
      for (;;) {
        const generation = this.#directory.generation(signature);
        const file = join(dir, indexFileName(signature, generation));
        const report = await verifyGroup({ ...options, path: file, spec, reducers });
        await this.#directory.follow();
        // A compaction may have taken the file away meanwhile.
        if (report.faults.length > 0 && this.#directory.generation(signature) !== generation)
          continue;
        done.push({ signature, file, ...report });
        break;
      }
    }
    return done;
  }

  /** Removes index files and unfinished builds that no design document uses any more. Returns their names. */
  async cleanup(options: { readonly dryRun?: boolean } = {}): Promise<string[]> {
    this.#requireOpen();
    await this.#refreshDesigns();
    return this.#scheduler.exclusive(async () => {
      const used = new Set([
        ...[...this.#designs.valid()].map((design) => design.group.signature),
        ...Object.values(this.#directory.manifest.designs).map(({ signature }) => signature),
      ]);
      const removed: string[] = [];
      for (const name of readdirSync(this.#options.dir)) {
        const signature = /^([0-9a-f]{32})\.(\d+\.(?:vmx|sort)|runs)/.exec(name)?.[1];
        if (signature === undefined || used.has(signature)) continue;
        removed.push(name);
        if (options.dryRun) continue;
        await this.#compactions.stop(signature);
        await this.#directory.drop(signature);
        rmSync(join(this.#options.dir, name), { recursive: true, force: true });
      }
      if (!options.dryRun && removed.length > 0) {
        const groups = Object.fromEntries(
          Object.entries(this.#directory.manifest.groups).filter(([s]) => used.has(s)),
        );
        this.#directory.save({ groups });
      }
      return removed;
    });
  }

  /** Changes that the source has and the group has not: counted up to some size of the feed, estimated beyond. */
  async pending(designDocument: string): Promise<number> {
    const design = this.#designs.require(designDocument);
    const source = await this.#source.require();
    const seq = this.#directory.holds(design) ? (await this.#openFound(design)).state.seq : null;
    return countPending(source, seq ?? undefined);
  }

  /** Waits for a running update, then closes everything. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#closing.abort();
    await this.#compactions.stop();
    await this.#scheduler.idle();
    await this.#syncs.finish();
    await this.#directory.closeGroups();
    await this.#compactions.settled();
    if (!this.#options.runtime) await this.#runtime.close();
    await this.#source.close();
    if (this.#stillborn) {
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
    const options = this.#options;
    const given = options.designDocuments.map((document) => this.#designs.give(document));
    this.#given = given.map(({ id }) => id);
    this.#followsDesigns = options.designDocumentsFromSource ?? !this.#designs.given;
    if (options.readOnly || options.offline) {
      this.#followsDesigns = false;
      return;
    }
    // What is wrong with the design documents is said before anything is written.
    for (const design of given) await this.#requireCompiled(design);
    if (options.source !== undefined || this.#directory.manifest.source !== undefined)
      await this.#source.require();
    if (options.designDocuments.length > 0) this.#directory.given(this.#given);
  }

  /** True when this index made its directory, and nothing in it would save the next build any work. */
  #isWorthNothing(groups: readonly GroupIndex[]): boolean {
    if (this.#made === undefined || groups.some(({ state }) => state.seq !== null)) return false;
    // What is before a bad row of a feed can be gone on from; a file of documents must be edited, and is another one then.
    return (
      this.#source.opened?.snapshot === true ||
      !readdirSync(this.#options.dir).some((name) => name.endsWith(".runs"))
    );
  }

  /** Design documents to be indexed. One of the source that does not compile is its author's affair, and no reason to fail the others. */
  async #usable(names: readonly string[] | undefined): Promise<DesignDocument[]> {
    if (names) {
      const designs = names.map((name) => this.#designs.require(name));
      for (const design of designs) await this.#requireCompiled(design);
      return designs;
    }
    const usable: DesignDocument[] = [];
    for (const [id, { design, origin }] of this.#designs.entries()) {
      if (design instanceof IndexerError || design.views.size === 0) continue;
      try {
        await this.#requireCompiled(design);
        usable.push(design);
      } catch (error) {
        if (origin === "given" || !(error instanceof IndexerError)) throw error;
        this.#options.onWarning(`${id} is left out: ${error.message}`);
      }
    }
    return usable;
  }

  #requireOpen(): void {
    if (this.#closed) throw new IndexerError("INDEXER_CLOSED", "the index was closed");
  }

  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
  }

  /** @param stamp - the source's, taken before; where it is the one of the last time there is nothing to look for. */
  async #refreshDesigns(stamp?: string): Promise<void> {
    if (!this.#followsDesigns || (stamp !== undefined && stamp === this.#designsStamp)) return;
    const source = await this.#source.require();
    if (this.#designs.follow(await source.designDocuments())) this.#directory.save();
    this.#designsStamp = stamp;
  }

  async #openFound(design: DesignDocument): Promise<GroupIndex> {
    await this.#requireCompiled(design);
    return this.#directory.openOne(design);
  }

  /** One look at the source for all who ask in this turn of the event loop, after they have asked. */
  #stampSoon(): Promise<string | undefined> {
    this.#nextStamp ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#nextStamp = undefined;
        this.#turns.taken();
        resolve(this.#stampNow());
      });
    });
    return this.#nextStamp;
  }

  #stampNow(): string | undefined {
    return this.#source.opened?.stamp?.();
  }

  #mayHaveNewDesigns(stamp: string): boolean {
    return this.#followsDesigns && stamp !== this.#designsStamp;
  }

  #isFresh(group: GroupIndex, stamp: string | undefined): boolean {
    return stamp !== undefined && group.freshAt === stamp;
  }

  /** Whether the query can be answered at once from what is there. */
  #isFreshFor({ update }: ResolvedQuery, group: GroupIndex, stamp: string | undefined): boolean {
    if (this.#options.readOnly || update === "lazy") return false;
    return !update || this.#isFresh(group, stamp);
  }

  /** Brings the group up to the source as it was at the stamp; without one, as it is now. */
  async #freshen(group: GroupIndex, asked: string | undefined): Promise<void> {
    const stamp = asked ?? this.#stampNow();
    if (this.#isFresh(group, stamp)) return;
    this.#room.require();
    this.#waiting.set(group, (this.#waiting.get(group) ?? 0) + 1);
    try {
      await this.#scheduler.fresh(group);
    } finally {
      this.#waiting.set(group, (this.#waiting.get(group) ?? 1) - 1);
    }
    if (stamp !== undefined) group.freshAt = stamp;
  }

  #freshenLater(group: GroupIndex): void {
    this.#freshen(group, undefined).catch((error: unknown) => {
      if (!this.#closed)
        this.#options.onWarning(`a background update failed: ${(error as Error).message}`);
    });
  }

  async #requireCompiled(design: DesignDocument): Promise<void> {
    // A foreign server knows best; and who only reads is not the first to see it.
    if (this.#options.server === undefined && !this.#options.readOnly)
      await this.#check.require(design);
  }

  async #updater(): Promise<Updater> {
    const source = await this.#source.require();
    const o = this.#options;
    return new Updater({
      dir: o.dir,
      source: this.#room.guard(source),
      sourceId: this.#source.record?.identity.id ?? "",
      sourceLabel: this.#source.record?.identity.label ?? "",
      idField: this.#directory.manifest.source?.idField ?? o.idField,
      lineBytesMax: o.lineBytesMax,
      threads: this.#runtime.threads,
      mapper: await this.#runtime.mapper(),
      isolated: this.#runtime.isolated,
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
  async #updateGroups(groups: readonly GroupIndex[], durable: boolean): Promise<void> {
    this.#updateBegan = Date.now();
    const { signal, onProgress } = this.#run;
    const updater = await this.#updater();
    try {
      this.#counts = await updater.update(groups, {
        signal: signal ?? this.#closing.signal,
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
      this.#directory.built(groups, this.#source.record);
    } catch (error) {
      // When there is room on the disk again it goes on.
      if ((error as { code?: string }).code === "BTREE_BROKEN")
        for (const { spec } of groups) await this.#directory.discard(spec.signature);
      throw error;
    } finally {
      this.#progress = undefined;
    }
  }

  async #groupInfo(design: DesignDocument): Promise<GroupInfo> {
    const { signature } = design.group;
    const [group] = this.#directory.holds(design) ? await this.#directory.open([design]) : [];
    if (group && this.#options.readOnly) group.store.refresh();
    const updaterRunning = this.#scheduler.isRunning(signature);
    return groupInfo(design, group, {
      updaterRunning,
      updaterStarted: updaterRunning ? this.#updateBegan : undefined,
      progress: updaterRunning ? this.#progress : undefined,
      waitingClients: (group && this.#waiting.get(group)) ?? 0,
      waitingCommit: group !== undefined && this.#syncs.has(group),
    });
  }
}

/** What ends a first build without a reason to keep anything of it. */
const BAD_INPUT = new Set<string | undefined>([
  "SOURCE_MALFORMED",
  "SOURCE_LINE_TOO_LONG",
  "INDEXER_SERVER_NOT_FOUND",
  "INDEXER_DDOC_COMPILATION",
]);

/** From `dir` up to `made`, as far as they are empty. */
function removeEmptyFolders(dir: string, made: string): void {
  try {
    for (let folder = resolve(dir); folder.length >= resolve(made).length; folder = dirname(folder))
      rmdirSync(folder);
  } catch {
    // Somebody put something there: it stays.
  }
}

/**
 * Strict mode: a reduction that CouchDB would have stopped at fails all views of the group (VIEWS §16).
 * @throws IndexerError `INDEXER_REDUCE_FAILED` with CouchDB's error and reason.
 */
function requireReductions(group: GroupIndex, release: () => void): void {
  for (const [tree, reducer] of group.reducers.entries()) {
    const reduction = group.store.tree(viewTreeName(tree)).root?.reduction;
    const failure = reduction && "failure" in reducer ? reducer.failure(reduction) : undefined;
    if (!failure) continue;
    release();
    throw new IndexerError(
      "INDEXER_REDUCE_FAILED",
      `a reduce failed, and with it, in strict mode, all views of its group: ${failure.error}: ${failure.reason}`,
      { status: 500, error: failure.error, reason: failure.reason },
    );
  }
}

/** What the HTTP server needs of a query is made when it is asked for: others do not need it. */
class Prepared implements PreparedQuery {
  readonly #state: Uint8Array;
  readonly #tree: TreeReader;
  readonly #instance: () => string;

  constructor(
    readonly answer: ViewAnswer,
    readonly release: () => void,
    state: Uint8Array,
    tree: TreeReader,
    instance: () => string,
  ) {
    this.#state = state;
    this.#tree = tree;
    this.#instance = instance;
  }

  get version(): string {
    return `${this.#instance()}-${this.#tree.version}`;
  }

  get updateSeq(): string {
    return shownSeqOf(this.#state);
  }
}
