// An index as a process sees it that only reads: rows come from the files themselves, opened for reading; everything else is asked of the
// process that writes. A query that wants the index up to date sends one message, and then reads at a state at least that new.

import type { ResolvedQuery, ViewShape } from "../query/index.js";
import { FileStamp, type DocumentRequest, type StampedFile } from "../sources/index.js";
import type {
  DocumentListQuery,
  DocumentPage,
  FoundView,
  GroupPlace,
  IndexInfo,
  PreparedQuery,
  ViewIndex,
} from "../view-index.js";
import { RequestError } from "./errors.js";
import { Gathering, type Call, type FromReader, type Reply, type WriterCalls } from "./messages.js";
import type {
  CompactionTask,
  DatabaseState,
  OpenedView,
  UpdateMode,
  ViewService,
} from "./service.js";

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The way to the writer. */
export class WriterLink {
  readonly #waiting = new Map<number, Waiting>();
  readonly #outgoing: Gathering<Call>;
  #next = 1;
  #gone = false;

  constructor(send: (message: FromReader) => void) {
    this.#outgoing = new Gathering((calls) => {
      send({ kind: "calls", calls });
    });
  }

  /** @throws RequestError as the writer told it; 503 when the writer is gone. */
  call<N extends keyof WriterCalls>(
    name: N,
    ...args: Parameters<WriterCalls[N]>
  ): ReturnType<WriterCalls[N]> {
    const id = this.#next++;
    const promise = new Promise<unknown>((resolve, reject) => {
      if (this.#gone) {
        reject(gone());
        return;
      }
      this.#waiting.set(id, { resolve, reject });
      this.#outgoing.add({ id, name, args });
    });
    return promise as ReturnType<WriterCalls[N]>;
  }

  settle(replies: readonly Reply[]): void {
    for (const { id, value, error } of replies) {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(new RequestError(error.status, error.error, error.reason));
      else waiting?.resolve(value);
    }
  }

  /** The writer is gone: nobody waits for it any longer. */
  close(): void {
    this.#gone = true;
    for (const { reject } of this.#waiting.values()) reject(gone());
    this.#waiting.clear();
  }
}

function gone(): RequestError {
  return new RequestError(503, "service_unavailable", "the indexer is being restarted; try again");
}

/** Views whose place is remembered. */
const TOLD_MAX = 1000;

/** How often a design document may change while a query of its view is read. */
const TRIES_MAX = 8;

/** No two views have the same. */
function nameOf(ddoc: string, view: string): string {
  return `${ddoc.length} ${ddoc}/${view}`;
}

function isGoneFile(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "INDEXER_NO_INDEX" || code === "BTREE_NOT_FOUND";
}

type Attempt<T> = { readonly value: T } | { readonly error: unknown };

function attempt<T>(work: () => T): Attempt<T> {
  try {
    return { value: work() };
  } catch (error) {
    return { error };
  }
}

export class ReaderService implements ViewService {
  readonly #index: ViewIndex;
  readonly #writer: WriterLink;
  /** Looks for what is asked in this turn anyway are asked once. */
  readonly #asking = new Map<string, Promise<GroupPlace>>();
  /** What the writer told last of indexes it had brought up to date, by view; good while the source's stamp is the same. */
  readonly #told = new Map<string, GroupPlace>();
  readonly #stamped: FileStamp | undefined;
  #stamp: Promise<string | undefined> | undefined;
  /** How often `forget` was called. */
  #forgotten = 0;
  #reloading: Promise<void> | undefined;

  /**
   * @param index - opened with `readOnly`.
   * @param stamped - what to look at to see whether the source may have changed; without it the writer is asked for each query.
   */
  constructor(index: ViewIndex, writer: WriterLink, stamped: StampedFile | undefined) {
    this.#index = index;
    this.#writer = writer;
    this.#stamped = stamped && new FileStamp(stamped);
  }

  get partitioned(): boolean {
    return this.#index.partitioned;
  }

  /** What the writer told of where indexes are holds no longer, also where its answer has come but nobody has run since. */
  forget(): void {
    this.#forgotten += 1;
    this.#told.clear();
  }

  async view<T>(
    ddoc: string,
    view: string,
    resolve: (shape: ViewShape) => T,
    updateOf: (resolved: T) => UpdateMode,
  ): Promise<OpenedView<T>> {
    // The writer knows whether the design document is still this one; what it is asked to do depends on the request, which most likely
    // is read rightly with what is known here.
    let found = this.#known(ddoc, view);
    let resolved = found && attempt(() => resolve((found as FoundView).shape));
    let update = resolved && "value" in resolved ? updateOf(resolved.value) : false;
    let place = await this.#place(ddoc, view, update);
    for (let tries = 0; !found || found.design.group.signature !== place.signature; tries++) {
      if (tries === TRIES_MAX)
        throw new RequestError(
          503,
          "service_unavailable",
          `design document ${ddoc} keeps changing; try again`,
        );
      await this.#reload();
      found = this.#index.knownView(ddoc, view);
      const { shape } = found;
      resolved = attempt(() => resolve(shape));
      update = "value" in resolved ? updateOf(resolved.value) : false;
      place = await this.#place(ddoc, view, update);
    }
    if (!resolved || "error" in resolved) throw resolved?.error;
    let first: GroupPlace | undefined = place;
    const view_ = found;
    return {
      resolved: resolved.value,
      prepare: async (query: ResolvedQuery, options) => {
        const known = first;
        first = undefined;
        const read = (at: GroupPlace): Promise<PreparedQuery> =>
          this.#index.prepare(view_, query, {
            ...options,
            place: at,
            documents: (requests) => this.documents(requests),
          });
        try {
          return await read(known ?? (await this.#place(ddoc, view, query.update)));
        } catch (error) {
          if (!isGoneFile(error)) throw error;
          // A compaction has removed the file since the writer told of it.
          return read(await this.#place(ddoc, view, false));
        }
      },
    };
  }

  #known(ddoc: string, view: string): FoundView | undefined {
    try {
      return this.#index.knownView(ddoc, view);
    } catch {
      return undefined;
    }
  }

  /** The writer need not be asked again what it has told of the same state of the source. */
  async #place(ddoc: string, view: string, update: UpdateMode): Promise<GroupPlace> {
    const name = nameOf(ddoc, view);
    const stamp = this.#stamped && (await this.#stampSoon(this.#stamped));
    const told = this.#told.get(name);
    if (stamp !== undefined && told?.stamp === stamp && update !== "lazy") return told;
    const forgotten = this.#forgotten;
    const place = await this.#askPlace(ddoc, view, update);
    if (update === true && forgotten === this.#forgotten) {
      if (this.#told.size >= TOLD_MAX) this.#told.clear();
      this.#told.set(name, place);
    }
    return place;
  }

  /** One look for all who ask in this turn of the event loop, after they have asked. */
  #stampSoon(stamped: FileStamp): Promise<string | undefined> {
    this.#stamp ??= new Promise((resolve) => {
      setImmediate(() => {
        this.#stamp = undefined;
        resolve(stamped.read());
      });
    });
    return this.#stamp;
  }

  #askPlace(ddoc: string, view: string, update: UpdateMode): Promise<GroupPlace> {
    const name = `${String(update)} ${nameOf(ddoc, view)}`;
    let place = this.#asking.get(name);
    if (!place) {
      place = this.#writer.call("place", ddoc, view, update);
      this.#asking.set(name, place);
      // Once the message is out, whoever asks has come later than what it will be answered with.
      setImmediate(() => this.#asking.delete(name));
    }
    return place;
  }

  async #reload(): Promise<void> {
    this.#reloading ??= this.#index.reload().finally(() => {
      this.#reloading = undefined;
    });
    await this.#reloading;
  }

  documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    return this.#writer.call("documents", requests);
  }

  designDocument(name: string): Promise<string | undefined> {
    return this.#writer.call("designDocument", name);
  }

  database(): Promise<DatabaseState> {
    return this.#writer.call("database");
  }

  documentPage(query: DocumentListQuery): Promise<DocumentPage> {
    return this.#writer.call("documentPage", query);
  }

  info(look: boolean): Promise<IndexInfo> {
    return this.#writer.call("info", look);
  }

  pending(designDocument: string): Promise<number> {
    return this.#writer.call("pending", designDocument);
  }

  compactions(): Promise<readonly CompactionTask[]> {
    return this.#writer.call("compactions");
  }

  compact(designDocument: string): Promise<void> {
    return this.#writer.call("compact", designDocument);
  }

  cleanup(): Promise<void> {
    return this.#writer.call("cleanup");
  }

  metrics(): Promise<string> {
    return this.#writer.call("metrics");
  }
}
