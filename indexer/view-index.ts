// ViewIndex: an index directory in use. It owns the writer's lock, the manifest, the groups' files and what runs user functions; the
// work is done in views/, mapping/ and query/.

import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";

import { NodeCache } from "../btree/index.js";
import { COLLATION_VERSION } from "./collation/index.js";
import { IndexerError } from "./errors.js";
import { resolveOptions, type ResolvedOptions, type ViewIndexOptions } from "./options.js";
import {
  parseViewQuery,
  QueryStats,
  resolveViewQuery,
  runViewQuery,
  viewBodyOf,
  type ResolvedQuery,
  type ViewAnswer,
  type ViewShape,
} from "./query/index.js";
import type { ViewReducer } from "./reducers/index.js";
import { displaySeq, openSource, type DocumentRequest, type Source } from "./sources/index.js";
import type { DesignDocument, ViewLocation } from "./views/design-document.js";
import { Designs } from "./views/designs.js";
import type { DocumentError } from "./views/error-entry.js";
import { GroupIndex } from "./views/group-index.js";
import { ERRORS_TREE, IDS_TREE, viewTreeName } from "./views/group-reducers.js";
import { DirectoryLock } from "./views/lock.js";
import {
  EMPTY_MANIFEST,
  readManifest,
  writeManifest,
  type Manifest,
  type SourceRecord,
} from "./views/manifest.js";
import { MappingRuntime } from "./views/runtime.js";
import { UpdateScheduler } from "./views/update-scheduler.js";
import { Updater, type UpdateCounts, type UpdateProgress, type UpdateRun } from "./views/updater.js";

/** Options of one update. */
export interface UpdateOptions {
  /** Only these design documents. Default: all. */
  readonly designDocuments?: readonly string[];
  /** Stops the update: what was mapped until then is committed, and the call rejects with INDEXER_ABORTED. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: UpdateProgress) => void;
}

/** Parameters of a query under CouchDB's names (VIEWS §7), as JSON values. */
export type QueryParameters = Readonly<Record<string, unknown>>;

export interface QueryOptions {
  readonly signal?: AbortSignal;
  /** What messages of reduces call the view. Default `_design/NAME/_view/VIEW`. */
  readonly label?: string;
}

/** What is known about one design document's index. */
export interface GroupInfo {
  readonly designDocument: string;
  readonly signature: string;
  readonly language: string;
  readonly file: string;
  /** `building` until the first build has ended. */
  readonly state: "building" | "ready";
  readonly updaterRunning: boolean;
  readonly updateSeq: string | null;
  readonly purgeSeq: string | null;
  readonly documents: number;
  readonly errors: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly sizes: { readonly file: number; readonly active: number; readonly external: number };
  readonly collatorVersions: readonly string[];
  readonly progress: UpdateProgress | undefined;
}

export interface IndexInfo {
  readonly dir: string;
  readonly source: SourceRecord | undefined;
  readonly groups: readonly GroupInfo[];
  /** Design documents that cannot be indexed, and why. */
  readonly refused: readonly { readonly designDocument: string; readonly reason: string }[];
}

/** One view, found by its names. */
interface FoundView {
  readonly name: string;
  readonly design: DesignDocument;
  readonly location: ViewLocation;
  readonly shape: ViewShape;
}

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
  readonly #designs = new Designs();
  readonly #groups = new Map<string, Promise<GroupIndex>>();
  readonly #scheduler: UpdateScheduler;
  readonly #checked = new Set<string>();
  readonly #ownsSource: boolean;
  readonly #closing = new AbortController();
  #manifest: Manifest;
  #source: Source | undefined;
  #sourceId = "";
  #sourceLabel = "";
  #followsDesigns = false;
  #progress: UpdateProgress | undefined;
  #run: Pick<UpdateRun, "signal" | "onProgress"> = { signal: undefined, onProgress: undefined };
  #counts: UpdateCounts | undefined;
  #closed = false;

  private constructor(options: ResolvedOptions, lock: DirectoryLock | undefined, manifest: Manifest) {
    this.#options = options;
    this.#lock = lock;
    this.#manifest = manifest;
    this.#runtime = new MappingRuntime(options);
    this.#cache = new NodeCache(options.cacheBytes);
    this.#ownsSource = typeof options.source !== "object";
    this.#scheduler = new UpdateScheduler((groups) => this.#updateGroups(groups));
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
    if (options.readOnly && !known)
      throw new IndexerError("INDEXER_NO_INDEX", `${options.dir} holds no index: build one first`, { file: options.dir });
    if (!options.readOnly) mkdirSync(options.dir, { recursive: true });
    const lock = options.readOnly ? undefined : await DirectoryLock.acquire(options.dir);
    const index = new ViewIndex(options, lock, known ?? EMPTY_MANIFEST);
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
    const designs = options.designDocuments?.map((name) => this.#designs.require(name)) ?? [...this.#designs.valid()];
    for (const design of designs) await this.#requireCompiled(design);
    const groups = await this.#openGroups(designs);
    return this.#scheduler.exclusive(async () => {
      this.#run = { signal: this.#signal(options.signal), onProgress: options.onProgress };
      try {
        await this.#updateGroups(groups);
        return this.#counts ?? { documents: 0, mapped: 0, unchanged: 0, deleted: 0, failed: 0, rows: 0 };
      } finally {
        this.#run = { signal: undefined, onProgress: undefined };
      }
    });
  }

  /** Keeps up with a live feed until the signal fires. */
  async follow(options: UpdateOptions & { readonly signal: AbortSignal }): Promise<UpdateCounts> {
    this.#requireOpen();
    await this.update(options);
    const groups = await this.#openGroups([...this.#designs.valid()]);
    return this.#scheduler.exclusive(async () => {
      const updater = await this.#updater();
      return updater.update(groups, {
        signal: this.#signal(options.signal),
        until: "forever",
        onProgress: (progress) => {
          this.#progress = progress;
          options.onProgress?.(progress);
        },
      });
    });
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
    const found = await this.findView(designDocument, view);
    const query = resolveViewQuery(parseViewQuery([], viewBodyOf(parameters)), found.shape);
    return this.run(found, query, options);
  }

  /**
   * Looks a view up, for callers that parse queries themselves. Design documents of the source are looked at anew.
   * @throws IndexerError `INDEXER_VIEW_NOT_FOUND` with CouchDB's 404 in its details.
   */
  async findView(designDocument: string, view: string): Promise<FoundView> {
    this.#requireOpen();
    await this.#refreshDesigns();
    const design = this.#designs.require(designDocument);
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
      shape: { hasReduce: location.reduce !== undefined, collation: tree?.collation ?? "root" },
    };
  }

  /** Runs a resolved query over a view that `findView` found. */
  async run(found: FoundView, query: ResolvedQuery, options: QueryOptions = {}): Promise<ViewAnswer> {
    await this.#requireCompiled(found.design);
    const [group] = await this.#openGroups([found.design]);
    if (!group) throw new Error("viewmill bug: a design document without a group");
    if (this.#options.readOnly) group.store.refresh();
    else if (query.update === true) await this.#scheduler.fresh(group);
    const { trees, state } = group.snapshot();
    const reducer = group.reducers[found.location.tree];
    const answer = runViewQuery(
      query,
      {
        tree: trees.tree(viewTreeName(found.location.tree)),
        collation: found.shape.collation,
        label: options.label ?? `${found.design.id}/_view/${found.name}`,
        updateSeq: state.seq === null ? '"0"' : displaySeq(state.seq),
        documents: (requests) => this.documents(requests),
        ...(found.location.reduce === undefined
          ? {}
          : { reducer: reducer as ViewReducer, reduceIndex: found.location.reduce }),
        ...(query.explain ? { stats: new QueryStats() } : {}),
      },
      options.signal ? { signal: options.signal } : {},
    );
    trees.release();
    if (query.update === "lazy" && !this.#options.readOnly)
      this.#scheduler.fresh(group).catch((error: unknown) => {
        this.#options.onWarning(`a background update failed: ${(error as Error).message}`);
      });
    return answer;
  }

  /** Raw JSON of documents of the source, undefined where missing. */
  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    const source = await this.#requireSource();
    return source.documents(requests);
  }

  /** The documents that failed to map, by design document, in id order. */
  async *errors(designDocument?: string): AsyncGenerator<DocumentError & { readonly designDocument: string }> {
    this.#requireOpen();
    const designs =
      designDocument === undefined ? [...this.#designs.valid()] : [this.#designs.require(designDocument)];
    for (const design of designs) {
      if (!this.#hasFile(design)) continue;
      const [group] = await this.#openGroups([design]);
      const snapshot = group?.store.snapshot();
      try {
        for (const slice of snapshot?.tree(ERRORS_TREE).slices({}) ?? [])
          for (let i = 0; i < slice.length; i++) {
            const record = JSON.parse(Buffer.from(slice.value(i)).toString("utf8")) as DocumentError;
            yield { designDocument: design.id, ...record };
          }
      } finally {
        snapshot?.release();
      }
    }
  }

  async info(): Promise<IndexInfo> {
    this.#requireOpen();
    const groups: GroupInfo[] = [];
    const refused: { designDocument: string; reason: string }[] = [];
    for (const [id, { design }] of this.#designs.entries()) {
      if (design instanceof IndexerError) refused.push({ designDocument: id, reason: design.message });
      else groups.push(await this.#groupInfo(design));
    }
    return { dir: this.#options.dir, source: this.#manifest.source, groups, refused };
  }

  /** Design documents known now, as JSON, by id. */
  designDocument(name: string): string | undefined {
    return this.#designs.json(name);
  }

  /** The source, opened. */
  source(): Promise<Source> {
    return this.#requireSource();
  }

  /** Removes index files and unfinished builds that no design document uses any more. Returns their names. */
  async cleanup(options: { readonly dryRun?: boolean } = {}): Promise<string[]> {
    this.#requireOpen();
    await this.#refreshDesigns();
    return this.#scheduler.exclusive(async () => {
      const used = new Set([...this.#designs.valid()].map((design) => design.group.signature));
      const removed: string[] = [];
      for (const name of readdirSync(this.#options.dir)) {
        const signature = /^([0-9a-f]{32})\.(\d+\.vmx|runs)/.exec(name)?.[1];
        if (signature === undefined || used.has(signature)) continue;
        removed.push(name);
        if (options.dryRun) continue;
        const open = this.#groups.get(signature);
        this.#groups.delete(signature);
        (await open)?.close();
        rmSync(join(this.#options.dir, name), { recursive: true, force: true });
      }
      if (!options.dryRun && removed.length > 0) {
        const groups = Object.fromEntries(Object.entries(this.#manifest.groups).filter(([s]) => used.has(s)));
        this.#saveManifest({ ...this.#manifest, groups });
      }
      return removed;
    });
  }

  /** Waits for a running update, then closes everything. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#closing.abort();
    await this.#scheduler.idle();
    for (const group of this.#groups.values()) await group.then((open) => { open.close(); }, () => undefined);
    this.#groups.clear();
    await this.#runtime.close();
    if (this.#ownsSource) await this.#source?.close();
    await this.#lock?.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #start(): Promise<void> {
    const { options } = { options: this.#options };
    this.#designs.load(this.#manifest);
    for (const document of options.designDocuments) this.#designs.give(document);
    this.#followsDesigns = options.designDocumentsFromSource ?? !this.#designs.given;
    if (options.readOnly) {
      this.#followsDesigns = false;
      return;
    }
    if (options.source !== undefined || this.#manifest.source !== undefined) await this.#requireSource();
    for (const design of this.#designs.valid())
      if (options.designDocuments.length > 0) await this.#requireCompiled(design);
    if (options.designDocuments.length > 0) this.#saveManifest(this.#manifest);
  }

  #requireOpen(): void {
    if (this.#closed) throw new IndexerError("INDEXER_CLOSED", "the index was closed");
  }

  #signal(signal: AbortSignal | undefined): AbortSignal {
    return signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
  }

  async #requireSource(): Promise<Source> {
    if (this.#source) return this.#source;
    const { options } = { options: this.#options };
    const recorded = this.#manifest.source;
    const spec = options.source ?? recorded?.spec;
    if (spec === undefined)
      throw new IndexerError("SOURCE_USAGE", `${options.dir} was built from no named source: give one (--source)`);
    const append = options.append || (options.source === undefined && (recorded?.append ?? false));
    const idField = options.source === undefined ? (recorded?.idField ?? options.idField) : options.idField;
    const source =
      typeof spec === "string"
        ? await openSource(spec, {
            append,
            ...(idField === "_id" ? {} : { idField }),
            lineBytesMax: options.lineBytesMax,
            lookupDir: join(options.dir, "lookup"),
            onWarning: options.onWarning,
          })
        : spec;
    const identity = await source.identity();
    if (recorded && recorded.identity.id !== identity.id && !options.readOnly) {
      if (!options.rebuild)
        throw new IndexerError(
          "INDEXER_SOURCE_CHANGED",
          `${options.dir} was built from ${recorded.identity.label} (${recorded.identity.id}), which is not ${identity.label} (${identity.id}). Use another directory, or --rebuild to build anew.`,
          { file: options.dir },
        );
      this.#removeIndexes();
    }
    this.#source = source;
    this.#sourceId = identity.id;
    this.#sourceLabel = identity.label;
    if (!options.readOnly)
      this.#saveManifest({
        ...this.#manifest,
        source: { spec: typeof spec === "string" ? withoutPassword(spec) : "", identity, append, idField },
      });
    return source;
  }

  #removeIndexes(): void {
    for (const name of readdirSync(this.#options.dir))
      if (/\.(vmx|runs)$/.test(name)) rmSync(join(this.#options.dir, name), { recursive: true, force: true });
    this.#manifest = { ...this.#manifest, groups: {} };
  }

  async #refreshDesigns(): Promise<void> {
    if (!this.#followsDesigns) return;
    const source = await this.#requireSource();
    if (this.#designs.follow(await source.designDocuments())) this.#saveManifest(this.#manifest);
  }

  #saveManifest(manifest: Manifest): void {
    if (this.#options.readOnly) return;
    const designs = Object.fromEntries(
      [...this.#designs.entries()].map(([id, { json, origin, design }]) => [
        id,
        { json, origin, signature: design instanceof IndexerError ? "" : design.group.signature },
      ]),
    );
    const next = { ...manifest, designs };
    if (JSON.stringify(next) === JSON.stringify(this.#manifest)) return;
    this.#manifest = next;
    writeManifest(this.#options.dir, next);
  }

  /** @throws IndexerError INDEXER_DDOC_COMPILATION naming view, message, line and column. */
  async #requireCompiled(design: DesignDocument): Promise<void> {
    const { signature, trees, language } = design.group;
    if (this.#checked.has(signature) || this.#options.server !== undefined) return;
    if (language !== "javascript")
      throw new IndexerError("INDEXER_DDOC_INVALID", `${design.id}: there is no view server for language ${language}; name one with --server`, {
        status: 500,
        error: "unknown_query_language",
        reason: language,
      });
    const functions = trees.flatMap((tree) => [
      { kind: "map", view: [...tree.mapOnly, ...tree.reduces.map(({ name }) => name)].at(-1) ?? "", source: tree.map },
      ...tree.reduces
        .filter(({ source }) => !source.startsWith("_"))
        .map(({ name, source }) => ({ kind: "reduce", view: name, source })),
    ]);
    const { faults } = await this.#runtime.threads.check({ kind: "check", sources: functions.map(({ source }) => source) });
    const [fault] = faults;
    if (fault) {
      const { kind, view } = functions[fault.index] ?? { kind: "map", view: "" };
      const place = fault.line === undefined ? "" : ` (line ${fault.line}, column ${fault.column ?? 0})`;
      const shown = fault.sourceLine === undefined ? "" : `\n  ${fault.sourceLine}`;
      const reason = `Compilation of the ${kind} function in the '${view}' view failed: ${fault.message}`;
      throw new IndexerError("INDEXER_DDOC_COMPILATION", `${design.id}: ${reason}${place}${shown}`, {
        view,
        status: 400,
        error: "compilation_error",
        reason,
        ...(fault.line === undefined ? {} : { line: fault.line }),
      });
    }
    this.#checked.add(signature);
  }

  #generation(signature: string): number {
    return this.#manifest.groups[signature]?.generation ?? 1;
  }

  #hasFile(design: DesignDocument): boolean {
    return this.#groups.has(design.group.signature) || this.#manifest.groups[design.group.signature] !== undefined;
  }

  async #openGroups(designs: readonly DesignDocument[]): Promise<GroupIndex[]> {
    const bySignature = new Map(designs.map((design) => [design.group.signature, design]));
    const open: GroupIndex[] = [];
    for (const [signature, design] of bySignature) {
      let group = this.#groups.get(signature);
      if (!group) {
        group = this.#openGroup(design);
        this.#groups.set(signature, group);
        group.catch(() => this.#groups.delete(signature));
      }
      open.push(await group);
    }
    return open;
  }

  async #openGroup(design: DesignDocument): Promise<GroupIndex> {
    const { signature } = design.group;
    const { dir, readOnly, reduceLimits, strict } = this.#options;
    const generation = this.#generation(signature);
    const group = await GroupIndex.open({
      dir,
      spec: design.group,
      generation,
      mode: readOnly ? "read" : "write",
      cache: this.#cache,
      limits: reduceLimits,
      strict,
      js: (config) => this.#runtime.reducer(config),
    });
    if (!readOnly)
      this.#saveManifest({ ...this.#manifest, groups: { ...this.#manifest.groups, [signature]: { generation } } });
    return group;
  }

  async #updater(): Promise<Updater> {
    const source = await this.#requireSource();
    const o = this.#options;
    return new Updater({
      dir: o.dir,
      source,
      sourceId: this.#sourceId,
      sourceLabel: this.#sourceLabel,
      idField: this.#manifest.source?.idField ?? o.idField,
      lineBytesMax: o.lineBytesMax,
      threads: this.#runtime.threads,
      mapper: this.#runtime.mapper,
      isolated: this.#runtime.isolated,
      minDocuments: o.minDocuments,
      minBytes: o.minBytes,
      maxDelayMs: o.maxDelayMs,
      sync: o.sync,
      strict: o.strict,
    });
  }

  async #updateGroups(groups: readonly GroupIndex[]): Promise<void> {
    const source = await this.#requireSource();
    source.configure?.({
      conflicts: mentions(groups, "_conflicts"),
      deletedConflicts: mentions(groups, "_deleted_conflicts"),
      localSeq: groups.some(({ spec }) => spec.localSeq),
    });
    const { signal, onProgress } = this.#run;
    const updater = await this.#updater();
    this.#counts = await updater.update(groups, {
      signal: signal ?? this.#closing.signal,
      until: "now",
      onProgress: (progress) => {
        this.#progress = progress;
        onProgress?.(progress);
      },
    });
    this.#progress = undefined;
  }

  async #groupInfo(design: DesignDocument): Promise<GroupInfo> {
    const { signature, language, trees } = design.group;
    const nothing = {
      designDocument: design.id,
      signature,
      language,
      file: "",
      state: "building",
      updaterRunning: this.#scheduler.isRunning(signature),
      updateSeq: null,
      purgeSeq: null,
      documents: 0,
      errors: 0,
      rows: {},
      sizes: { file: 0, active: 0, external: 0 },
      collatorVersions: [String(COLLATION_VERSION)],
      progress: undefined,
    } as const;
    if (!this.#hasFile(design)) return nothing;
    const [group] = await this.#openGroups([design]);
    if (!group) return nothing;
    if (this.#options.readOnly) group.store.refresh();
    const { trees: snapshot, state } = group.snapshot();
    try {
      const stats = group.store.stats();
      const rows: Record<string, number> = {};
      for (const tree of trees)
        for (const name of [...tree.mapOnly, ...tree.reduces.map((r) => r.name)])
          rows[name] = snapshot.tree(viewTreeName(tree.number)).count;
      return {
        ...nothing,
        file: group.path,
        state: state.seq === null ? "building" : "ready",
        updateSeq: state.seq === null ? null : displaySeq(state.seq),
        purgeSeq: state.purgeSeq,
        documents: snapshot.tree(IDS_TREE).count,
        errors: snapshot.tree(ERRORS_TREE).count,
        rows,
        sizes: {
          file: statSync(group.path).size,
          active: stats.liveBytes,
          external: stats.trees.reduce((sum, { bytes }) => sum + bytes, 0),
        },
        collatorVersions: [String(state.collation)],
        progress: nothing.updaterRunning ? this.#progress : undefined,
      };
    } finally {
      snapshot.release();
    }
  }
}

/** Whether a map function or the library so much as names a member: cheaper than always fetching what nobody reads. */
function mentions(groups: readonly GroupIndex[], member: string): boolean {
  return groups.some(({ spec }) => spec.trees.some(({ map }) => map.includes(member)) || (spec.lib?.includes(member) ?? false));
}

function withoutPassword(spec: string): string {
  return spec.replace(/^(https?:\/\/)[^/@]*@/, "$1");
}
