// What the HTTP server asks of an index, whether that is in this process or in the one that writes it.

import type { ResolvedQuery, ViewShape } from "../query/index.js";
import { displaySeq, type DocumentRequest } from "../sources/index.js";
import type {
  DocumentListQuery,
  DocumentPage,
  IndexInfo,
  PreparedQuery,
  ViewIndex,
} from "../view-index.js";
import { notFound } from "./errors.js";
import { textOfMetrics, type Counters, type Metrics } from "./metrics.js";

/** `update` of VIEWS §13. */
export type UpdateMode = true | false | "lazy";

/** A view that was found, and what was made of the request for it. */
export interface OpenedView<T> {
  readonly resolved: T;
  /** Brings the index up to date as the query asks, and takes the snapshot that it is answered from. */
  prepare(
    query: ResolvedQuery,
    options: { readonly signal?: AbortSignal; readonly label: string },
  ): Promise<PreparedQuery>;
}

export interface CompactionTask {
  readonly designDocument: string;
  /** Unix seconds. */
  readonly startedOn: number;
  readonly phase: string;
  readonly done: number;
  readonly total: number;
}

export interface DatabaseState {
  /** JSON text. */
  readonly updateSeq: string;
  readonly documents: number;
}

export interface ViewService {
  /** Whether the database is partitioned. */
  readonly partitioned: boolean;
  /**
   * Looks a view up and resolves the request for it.
   *
   * @param resolve - reads the request for a view of this shape; called again if the design document changed meanwhile.
   * @param updateOf - how fresh the first query wants its index.
   * @throws IndexerError or RequestError 404; what `resolve` throws.
   */
  view<T>(
    ddoc: string,
    view: string,
    resolve: (shape: ViewShape) => T,
    updateOf: (resolved: T) => UpdateMode,
  ): Promise<OpenedView<T>>;
  documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]>;
  /** A design document as JSON; of the source, or given when the server was started. */
  designDocument(name: string): Promise<string | undefined>;
  database(): Promise<DatabaseState>;
  /**
   * Ids of documents in their order, of an index that was brought up to date.
   * @throws RequestError 404 when there is none.
   */
  documentPage(query: DocumentListQuery): Promise<DocumentPage>;
  /** @param look - for design documents that nobody has asked for yet, too. */
  info(look: boolean): Promise<IndexInfo>;
  /** Changes that the group of a design document has still to take. */
  pending(designDocument: string): Promise<number>;
  compactions(): Promise<readonly CompactionTask[]>;
  /** Begins; does not wait for the end. */
  compact(designDocument: string): Promise<void>;
  cleanup(): Promise<void>;
  /** The text of `/_metrics`, for all processes. */
  metrics(): Promise<string>;
}

/** Over an index of this process. */
export class LocalService implements ViewService {
  readonly #index: ViewIndex;
  readonly #counters: () => Promise<Counters>;
  readonly #onWarning: (message: string) => void;
  readonly #onMoved: () => void;
  readonly #compactions = new Map<string, CompactionTask>();

  /** @param onMoved - called when a compaction has put another file in the place of one. */
  constructor(
    index: ViewIndex,
    metrics: Metrics | (() => Promise<Counters>),
    onWarning: (message: string) => void,
    onMoved: () => void = () => undefined,
  ) {
    this.#onMoved = onMoved;
    this.#index = index;
    this.#counters =
      typeof metrics === "function" ? metrics : () => Promise.resolve(metrics.counters());
    this.#onWarning = onWarning;
  }

  get partitioned(): boolean {
    return this.#index.partitioned;
  }

  async view<T>(
    ddoc: string,
    view: string,
    resolve: (shape: ViewShape) => T,
  ): Promise<OpenedView<T>> {
    let found = await this.#index.findView(ddoc, view);
    const resolved = resolve(found.shape);
    return {
      resolved,
      prepare: (query, options) => {
        const asked = found;
        // A second query of the request looks at the source anew.
        found = { ...found, stamp: undefined };
        return this.#index.prepare(asked, query, options);
      },
    };
  }

  documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    return this.#index.documents(requests);
  }

  async designDocument(name: string): Promise<string | undefined> {
    const [json] = await this.#index.documents([{ id: `_design/${name}` }]);
    return json ?? this.#index.designDocument(name);
  }

  async database(): Promise<DatabaseState> {
    const source = await this.#index.source();
    const page = await this.#index.documentPage({ limit: 0 });
    return { updateSeq: displaySeq(await source.latest()), documents: page?.total ?? 0 };
  }

  async documentPage(query: DocumentListQuery): Promise<DocumentPage> {
    const page = await this.#index.documentPage(query);
    if (!page) throw notFound("documents are listed from an index: give a design document first");
    return page;
  }

  info(look: boolean): Promise<IndexInfo> {
    return this.#index.info({ look });
  }

  pending(designDocument: string): Promise<number> {
    return this.#index.pending(designDocument);
  }

  compactions(): Promise<readonly CompactionTask[]> {
    return Promise.resolve([...this.#compactions.values()]);
  }

  async compact(designDocument: string): Promise<void> {
    const { groups } = await this.#index.info({ look: true });
    const group = groups.find((one) => one.designDocument === `_design/${designDocument}`);
    if (!group) throw notFound();
    const id = group.designDocument;
    if (this.#compactions.has(id)) return;
    const task = {
      designDocument: id,
      startedOn: Math.floor(Date.now() / 1000),
      phase: "copy",
      done: 0,
      total: 0,
    };
    this.#compactions.set(id, task);
    this.#index
      .compact(designDocument, {
        onProgress: ({ phase, rows, rowsTotal }) => {
          this.#compactions.set(id, { ...task, phase, done: rows, total: rowsTotal });
        },
      })
      .then(this.#onMoved)
      .catch((error: unknown) => {
        if ((error as { code?: string }).code !== "INDEXER_ABORTED")
          this.#onWarning(`compaction of ${id} failed: ${(error as Error).message}`);
      })
      .finally(() => this.#compactions.delete(id));
  }

  async cleanup(): Promise<void> {
    await this.#index.cleanup();
  }

  async metrics(): Promise<string> {
    return textOfMetrics(await this.#counters(), await this.#index.info());
  }
}
