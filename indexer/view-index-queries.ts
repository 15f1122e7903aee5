// Queries of an open index: the view is found, its group brought up to date as the query wants it, and read from one snapshot.

import type { NodeCache, TreeReader } from "../btree/index.js";
import { IndexerError } from "./errors.js";
import type { ResolvedOptions } from "./options.js";
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
import type { DocumentRequest } from "./sources/index.js";
import type { DesignsInUse } from "./view-index-designs.js";
import type { Freshness } from "./view-index-freshness.js";
import type {
  FoundView,
  GroupPlace,
  PreparedQuery,
  PrepareOptions,
  QueryOptions,
  QueryParameters,
} from "./view-index-types.js";
import { leased } from "./views/answer-leases.js";
import type { DesignDocument } from "./views/design-document.js";
import type { GroupIndex } from "./views/group-index.js";
import { viewTreeName } from "./views/group-reducers.js";
import type { IndexDirectory } from "./views/index-directory.js";
import { partitionPrefix } from "./views/partitions.js";
import { instanceOf, shownSeqOf } from "./views/query-identity.js";

export interface QueriesHost {
  readonly options: ResolvedOptions;
  readonly directory: IndexDirectory;
  readonly designs: DesignsInUse;
  readonly freshness: Freshness;
  readonly cache: NodeCache;
  readonly documents: (requests: readonly DocumentRequest[]) => Promise<(string | undefined)[]>;
}

export class IndexQueries {
  readonly #options: ResolvedOptions;
  readonly #directory: IndexDirectory;
  readonly #designs: DesignsInUse;
  readonly #freshness: Freshness;
  readonly #cache: NodeCache;
  readonly #documents: QueriesHost["documents"];
  /** Views that were asked for. */
  readonly #found = new WeakMap<DesignDocument, Map<string, FoundView>>();

  constructor(host: QueriesHost) {
    this.#options = host.options;
    this.#directory = host.directory;
    this.#designs = host.designs;
    this.#freshness = host.freshness;
    this.#cache = host.cache;
    this.#documents = host.documents;
  }

  async query(
    designDocument: string,
    view: string,
    parameters: QueryParameters,
    options: QueryOptions,
  ): Promise<ViewAnswer> {
    const stamp = this.#options.readOnly ? undefined : this.#freshness.stampUnlessDue();
    let found: FoundView;
    let seen = stamp;
    if (stamp === undefined || this.#designs.mayBeNew(stamp)) {
      found = await this.find(designDocument, view);
      seen = found.stamp;
    } else found = this.known(designDocument, view);
    const query = resolveViewQuery(parseQueryObject(parameters), found.shape);
    const group = this.#directory.openNow(found.design);
    // Mostly all is there, and nobody has to wait for anything.
    if (group && this.#freshness.isFreshFor(query, group, seen))
      return this.#answer(found, query, group, leased(group.hold()), options).answer;
    const { answer } = await this.prepare({ ...found, stamp: seen }, query, {
      ...options,
      leased: true,
    });
    return answer;
  }

  /** Looks a view up; design documents of the source are looked at anew. */
  async find(designDocument: string, view: string): Promise<FoundView> {
    if (this.#options.readOnly) await this.#directory.follow();
    const stamp = await this.#freshness.stampSoon();
    if (stamp === undefined || this.#designs.mayBeNew(stamp)) await this.#designs.refresh(stamp);
    return { ...this.known(designDocument, view), stamp };
  }

  /** The same with what is known already. */
  known(designDocument: string, view: string): FoundView {
    const design = this.#directory.designs.require(designDocument);
    let views = this.#found.get(design);
    if (!views) this.#found.set(design, (views = new Map<string, FoundView>()));
    let found = views.get(view);
    const collation = this.#collationOf(design);
    if (found?.shape.collationVersion !== collation)
      views.set(view, (found = foundIn(design, view, collation)));
    return found;
  }

  /** Runs a resolved query over a found view as far as the group's snapshot. */
  async prepare(
    found: FoundView,
    query: ResolvedQuery,
    options: PrepareOptions,
  ): Promise<PreparedQuery> {
    const began = performance.now();
    const following = options.place && this.#directory.followTo(options.place);
    if (following) await following;
    const group = this.#directory.openNow(found.design) ?? (await this.#open(found.design));
    if (this.#options.readOnly) {
      if (options.place === undefined || options.place.commit > group.store.commitNumber)
        group.store.refresh();
    } else if (query.update === true && !this.#freshness.isFresh(group, found.stamp))
      await this.#freshness.freshen(group, found.stamp);
    const release = options.leased === true ? leased(group.hold()) : group.hold();
    const prepared = this.#answer(found, query, group, release, options, began);
    if (query.update === "lazy" && !this.#options.readOnly) this.#freshness.freshenLater(group);
    return prepared;
  }

  /** Sees to a found view's group as a query with this `update` would, and tells where it is. */
  async place(found: FoundView, update: true | false | "lazy"): Promise<GroupPlace> {
    const group = this.#directory.openNow(found.design) ?? (await this.#open(found.design));
    if (update === true && !this.#freshness.isFresh(group, found.stamp))
      await this.#freshness.freshen(group, found.stamp);
    else if (update === "lazy") this.#freshness.freshenLater(group);
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
        documents: options.documents ?? this.#documents,
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

  /** Version of the root order that the group's file is kept in. */
  #collationOf(design: DesignDocument): number {
    const { signature } = design.group;
    return this.#directory.openNow(design)?.collation ?? this.#directory.collation(signature);
  }

  async #open(design: DesignDocument): Promise<GroupIndex> {
    await this.#designs.requireCompiled(design);
    return this.#directory.openOne(design);
  }
}

function foundIn(design: DesignDocument, view: string, collationVersion: number): FoundView {
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
