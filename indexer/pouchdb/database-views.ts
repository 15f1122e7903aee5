// The views of one PouchDB database: an index over its design documents, and a few over views that were given as functions.

import { rm } from "node:fs/promises";
import { join } from "node:path";

import { LRUCache } from "lru-cache";

import type { ViewIndexOptions } from "../options.js";
import type { CouchAnswer } from "../query/index.js";
import { ViewIndex, type QueryParameters } from "../view-index.js";
import type { MadeView, NamedView } from "./request.js";
import { SharedDatabase, StampedSource, type PouchInstance } from "./shared-database.js";

/** Indexes of temporary views that are kept; the one unused for the longest goes. */
const TEMPORARY_MAX = 16;

/** One index, opened at its first use, closed when the last who uses it is done. */
class OpenedIndex {
  readonly #options: ViewIndexOptions;
  readonly #source: StampedSource;
  readonly #users = new Set<Promise<unknown>>();
  #index: Promise<ViewIndex> | undefined;

  constructor(database: SharedDatabase, options: ViewIndexOptions) {
    this.#source = new StampedSource(database);
    this.#options = { ...options, source: this.#source };
  }

  async use<T>(work: (index: ViewIndex) => Promise<T>): Promise<T> {
    const used = this.#use(work);
    this.#users.add(used);
    try {
      return await used;
    } finally {
      this.#users.delete(used);
    }
  }

  async #use<T>(work: (index: ViewIndex) => Promise<T>): Promise<T> {
    await this.#source.restamp();
    return work(await this.#open());
  }

  #open(): Promise<ViewIndex> {
    this.#index ??= ViewIndex.open(this.#options).catch((error: unknown) => {
      this.#index = undefined;
      throw error;
    });
    return this.#index;
  }

  async close(): Promise<void> {
    await Promise.allSettled(this.#users);
    const index = await this.#index?.catch(() => undefined);
    this.#index = undefined;
    await index?.close();
  }
}

export class DatabaseViews {
  readonly database: SharedDatabase;
  readonly #dir: string;
  readonly #options: Omit<ViewIndexOptions, "dir">;
  readonly #before: Promise<void> | undefined;
  readonly #stored: OpenedIndex;
  readonly #temporary: LRUCache<string, OpenedIndex>;
  readonly #going = new Set<Promise<void>>();

  /** @param before - the closing of indexes that lie in the same folder. */
  constructor(
    dir: string,
    first: PouchInstance,
    options: Omit<ViewIndexOptions, "dir">,
    before: Promise<void> | undefined,
  ) {
    this.#dir = dir;
    this.#before = before;
    this.database = new SharedDatabase(first.name);
    this.database.add(first);
    // A database destroyed and made again under its name has another id.
    this.#options = { ...options, rebuild: true };
    this.#stored = new OpenedIndex(this.database, {
      ...this.#options,
      dir: join(dir, "design"),
      designDocumentsFromSource: true,
    });
    this.#temporary = new LRUCache({
      max: TEMPORARY_MAX,
      dispose: (index, name) => {
        this.#remove(name, index);
      },
    });
  }

  /** Asks a view of a design document of the database. */
  async stored(view: NamedView, parameters: QueryParameters): Promise<CouchAnswer> {
    await this.#before;
    return this.#stored.use((index) => ask(index, view, parameters));
  }

  /** Asks a view given as functions. Its index is kept for the next time, as long as there is room. */
  async temporary(view: MadeView, parameters: QueryParameters): Promise<CouchAnswer> {
    const name = view.designDocument;
    await Promise.all([this.#before, ...this.#going]);
    let index = this.#temporary.get(name);
    if (!index) {
      index = new OpenedIndex(this.database, {
        ...this.#options,
        dir: this.#temporaryDir(name),
        designDocuments: [view.json],
        designDocumentsFromSource: false,
      });
      this.#temporary.set(name, index);
    }
    return index.use((opened) => ask(opened, view, parameters));
  }

  /** Removes what no design document uses, and all indexes of temporary views. */
  async cleanup(): Promise<void> {
    await this.#before;
    await this.#stored.use((index) => index.cleanup());
    this.#temporary.clear();
    await Promise.all(this.#going);
  }

  /** Closes every index; those of temporary views are removed, with `remove` the others too. */
  async close(remove: boolean): Promise<void> {
    this.#temporary.clear();
    await Promise.all([this.#stored.close(), ...this.#going]);
    if (remove) await rm(this.#dir, { recursive: true, force: true });
  }

  #remove(name: string, index: OpenedIndex): void {
    const gone = index
      .close()
      .then(() => rm(this.#temporaryDir(name), { recursive: true, force: true }))
      .finally(() => this.#going.delete(gone));
    this.#going.add(gone);
  }

  #temporaryDir(name: string): string {
    return join(this.#dir, "temporary", name);
  }
}

async function ask(
  index: ViewIndex,
  view: NamedView,
  parameters: QueryParameters,
): Promise<CouchAnswer> {
  return (await index.query(view.designDocument, view.view, parameters)).object();
}
