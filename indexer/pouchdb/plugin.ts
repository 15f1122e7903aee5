// The PouchDB plugin: `db.query()` and `db.viewCleanup()` answered from viewmill's indexes.

import { mkdtempSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import type { ViewIndexOptions } from "../options.js";
import { IndexerError } from "../errors.js";
import { QueryError, type CouchAnswer } from "../query/index.js";
import { MappingRuntime } from "../views/runtime.js";
import { DatabaseViews } from "./database-views.js";
import {
  madeView,
  namedView,
  parametersOf,
  type QueryRequestOptions,
  type TemporaryView,
} from "./request.js";
import type { PouchInstance } from "./shared-database.js";

/** Options of the plugin: where indexes lie, and any option of an index that does not name a source or design documents. */
export interface ViewmillPluginOptions extends Omit<
  ViewIndexOptions,
  | "dir"
  | "source"
  | "designDocuments"
  | "designDocumentsFromSource"
  | "rebuild"
  | "readOnly"
  | "offline"
  | "append"
  | "idField"
  | "lineBytesMax"
> {
  /**
   * Folder for the indexes, one folder a database in it. Default: a folder in the system's place for temporary files that is removed
   * when the last database is closed; then every run of the program builds anew.
   */
  readonly dir?: string;
}

/** What `PouchDB.plugin` hands to a plugin. */
interface PouchConstructor {
  readonly prototype: object;
}

type Callback<T> = (error: unknown, result?: T) => void;

/** The plugin, to be given to `PouchDB.plugin`. */
export interface ViewmillPlugin {
  (PouchDB: PouchConstructor): void;
  /**
   * Closes the indexes of every database and stops what runs functions. A database that is queried after that opens its index again.
   * Closing a database closes its indexes too, but does not wait for it.
   */
  close(): Promise<void>;
}

/** Methods of a database as PouchDB users know them. */
interface QueryMethods {
  query?: (
    this: PouchInstance,
    fun: string | TemporaryView,
    options?: QueryRequestOptions | Callback<CouchAnswer>,
    callback?: Callback<CouchAnswer>,
  ) => Promise<CouchAnswer>;
  viewCleanup?: (this: PouchInstance, callback?: Callback<{ ok: true }>) => Promise<{ ok: true }>;
}

/**
 * Makes the plugin. It takes the place of `db.query()` and `db.viewCleanup()` for local databases; queries of remote ones go where they
 * went before. Answers are CouchDB's; errors have PouchDB's members `status`, `name`, `message`, `reason`.
 *
 * @example
 * ```js
 * PouchDB.plugin(viewmill({ dir: "views" }));
 * const { rows } = await new PouchDB("shop").query("orders/by_day", { group_level: 1 });
 * ```
 */
export function viewmill(options: ViewmillPluginOptions = {}): ViewmillPlugin {
  const registry = new Registry(options);
  const plugin = (PouchDB: PouchConstructor): void => {
    const methods = PouchDB.prototype as QueryMethods;
    const { query, viewCleanup } = methods;
    methods.query = function (fun, given, callback) {
      if (query && isRemote(this)) return query.call(this, fun, given, callback);
      const asked = typeof given === "function" ? {} : (given ?? {});
      return told(
        answered(registry, this, fun, asked),
        typeof given === "function" ? given : callback,
      );
    };
    methods.viewCleanup = function (callback) {
      if (viewCleanup && isRemote(this)) return viewCleanup.call(this, callback);
      return told(
        registry
          .views(this)
          .cleanup()
          .then(() => ({ ok: true as const })),
        callback,
      );
    };
  };
  return Object.assign(plugin, { close: () => registry.close() });
}

async function answered(
  registry: Registry,
  database: PouchInstance,
  fun: string | TemporaryView,
  options: QueryRequestOptions,
): Promise<CouchAnswer> {
  try {
    const parameters = parametersOf(options);
    const views = registry.views(database);
    const answer =
      typeof fun === "string"
        ? await views.stored(namedView(fun), parameters)
        : await views.temporary(madeView(fun, options.reduce), parameters);
    if (options.binary === true) decodeAttachments(answer);
    return answer;
  } catch (error) {
    throw asPouchError(error);
  }
}

/** Which database has which indexes. */
class Registry {
  readonly #dir: string | undefined;
  readonly #options: Omit<ViewIndexOptions, "dir">;
  readonly #byName = new Map<string, DatabaseViews>();
  readonly #closing = new Map<string, Promise<void>>();
  #runtime: MappingRuntime | undefined;
  #temporaryDir: string | undefined;

  constructor({ dir, ...options }: ViewmillPluginOptions) {
    this.#dir = dir === undefined ? undefined : resolve(dir);
    this.#options = options;
  }

  views(database: PouchInstance): DatabaseViews {
    const { name } = database;
    let views = this.#byName.get(name);
    if (!views) {
      views = this.#make(database);
      this.#byName.set(name, views);
    } else if (!views.database.has(database)) views.database.add(database);
    else return views;
    this.#watch(views, database);
    return views;
  }

  async close(): Promise<void> {
    for (const [name, views] of this.#byName) this.#close(name, views, false);
    await Promise.all(this.#closing.values());
  }

  #make(database: PouchInstance): DatabaseViews {
    const { runtime } = this.#options;
    this.#runtime ??= runtime ?? new MappingRuntime({ mapIn: "processes", ...this.#options });
    const dir = this.#dir ?? (this.#temporaryDir ??= temporaryFolder());
    return new DatabaseViews(
      join(dir, encodeURIComponent(database.name)),
      database,
      {
        ...this.#options,
        runtime: this.#runtime,
      },
      this.#closing.get(database.name),
    );
  }

  #watch(views: DatabaseViews, database: PouchInstance): void {
    const gone = (destroyed: boolean): void => {
      views.database.remove(database);
      if (destroyed || views.database.isEmpty) this.#close(database.name, views, destroyed);
    };
    database.once("closed", () => {
      gone(false);
    });
    database.once("destroyed", () => {
      gone(true);
    });
  }

  #close(name: string, views: DatabaseViews, remove: boolean): void {
    if (this.#byName.get(name) === views) this.#byName.delete(name);
    const closed: Promise<void> = Promise.resolve(this.#closing.get(name))
      .then(() => views.close(remove))
      .then(() => {
        if (this.#closing.get(name) === closed) this.#closing.delete(name);
        return this.#closeShared();
      });
    this.#closing.set(name, closed);
  }

  /** With the last database goes what they shared. */
  async #closeShared(): Promise<void> {
    if (this.#byName.size > 0 || this.#closing.size > 0) return;
    const runtime = this.#runtime;
    const dir = this.#temporaryDir;
    this.#runtime = undefined;
    this.#temporaryDir = undefined;
    if (runtime && runtime !== this.#options.runtime) await runtime.close();
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  }
}

/** Goes at the end of the process, should nobody close the databases. */
function temporaryFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), "viewmill-"));
  process.once("exit", () => {
    rmSync(dir, { recursive: true, force: true });
  });
  return dir;
}

/** As PouchDB decides it: adapters may say so themselves. */
function isRemote(database: PouchInstance): boolean {
  const { _remote, adapter } = database as {
    readonly _remote?: unknown;
    readonly adapter?: unknown;
  };
  return typeof _remote === "boolean" ? _remote : adapter === "http" || adapter === "https";
}

function told<T>(promise: Promise<T>, callback: Callback<T> | undefined): Promise<T> {
  if (callback)
    promise.then(
      (result) => {
        process.nextTick(callback, null, result);
      },
      (error: unknown) => {
        process.nextTick(callback, error);
      },
    );
  return promise;
}

/** PouchDB's own errors are told apart by `status` and `name`. */
function asPouchError(error: unknown): unknown {
  const known =
    error instanceof QueryError
      ? error
      : error instanceof IndexerError && error.details.status !== undefined
        ? error.details
        : undefined;
  if (!known || !(error instanceof Error)) return error;
  const { status, error: name, reason } = known;
  const told = new Error(reason ?? error.message, { cause: error });
  Object.defineProperty(told, "name", { value: name, enumerable: true, configurable: true });
  return Object.assign(told, { status, error: true, reason: reason ?? error.message });
}

function decodeAttachments(answer: CouchAnswer): void {
  for (const row of answer.rows) {
    const attachments = (row.doc as { _attachments?: Record<string, { data?: unknown }> } | null)
      ?._attachments;
    for (const attachment of Object.values(attachments ?? {}))
      if (typeof attachment.data === "string")
        attachment.data = Buffer.from(attachment.data, "base64");
  }
}
