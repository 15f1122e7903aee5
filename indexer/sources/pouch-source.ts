// A PouchDB database as a source. PouchDB is no dependency of ours: `pouchdb:PATH` loads the package where the program
// has it installed; a program that already has a database hands it over.

import { existsSync } from "node:fs";
import { IndexerError } from "../errors.js";
import { memberText } from "./member-scan.js";
import type { SliceOptions } from "./slice.js";
import {
  abortedError,
  tombstone,
  type ChangesOptions,
  type Chunk,
  type DesignDocumentRow,
  type DocumentRequest,
  type FeedExtent,
  type Seq,
  type Source,
  type SourceIdentity,
} from "./source.js";

/** What of PouchDB's API is used. */
export interface PouchDatabase {
  readonly name: string;
  /** A number of its own that the database got when it was made. */
  id?(): Promise<string>;
  info(): Promise<{ readonly update_seq: number | string; readonly doc_count: number }>;
  changes(options: Readonly<Record<string, unknown>>): PouchChanges;
  allDocs(
    options: Readonly<Record<string, unknown>>,
  ): Promise<{ readonly rows: readonly PouchRow[] }>;
  get(id: string, options: Readonly<Record<string, unknown>>): Promise<object>;
  close(): Promise<void>;
}

interface PouchChanges extends PromiseLike<{
  readonly results: readonly PouchChange[];
  readonly last_seq: number | string;
}> {
  on(event: "change", listener: (change: PouchChange) => void): unknown;
  on(event: "error", listener: (error: unknown) => void): unknown;
  on(event: "complete", listener: () => void): unknown;
  cancel(): void;
}

interface PouchChange {
  readonly seq: number | string;
  readonly id: string;
  readonly changes: readonly { readonly rev: string }[];
  readonly deleted?: boolean;
  readonly doc?: object | null;
}

interface PouchRow {
  readonly id?: string;
  readonly value?: { readonly rev: string; readonly deleted?: boolean };
  readonly doc?: object | null;
}

const PAGE_ROWS = 500;
const PACKAGE = "pouchdb";

/**
 * Opens `pouchdb:PATH`.
 * @throws IndexerError SOURCE_USAGE when the package is not installed, SOURCE_NOT_FOUND when there is nothing at the path:
 * PouchDB itself would make an empty database there.
 */
export async function openPouchSource(path: string): Promise<PouchSource> {
  let loaded: unknown;
  try {
    loaded = await import(PACKAGE);
  } catch (error) {
    const message = `pouchdb:PATH needs the package "${PACKAGE}", which is not installed. Run: npm install ${PACKAGE}`;
    throw new IndexerError("SOURCE_USAGE", message, {}, { cause: error });
  }
  if (!existsSync(path)) {
    throw new IndexerError("SOURCE_NOT_FOUND", `There is no database at ${path}.`, { file: path });
  }
  const Database = (loaded as { default: new (name: string) => PouchDatabase }).default;
  return new PouchSource(new Database(path), { owned: true });
}

/** A PouchDB database, local or remote. */
export class PouchSource implements Source {
  readonly snapshot = false;
  readonly slicing: SliceOptions = {};
  readonly #database: PouchDatabase;
  readonly #owned: boolean;
  #conflicts = false;

  /** With `owned`, closing the source closes the database. */
  constructor(database: PouchDatabase, options: { readonly owned?: boolean } = {}) {
    this.#database = database;
    this.#owned = options.owned === true;
  }

  /** PouchDB has no `_deleted_conflicts` in its feed and no `_local_seq` at all. */
  configure(wants: { conflicts: boolean }): void {
    this.#conflicts = wants.conflicts;
  }

  async identity(): Promise<SourceIdentity> {
    const { name } = this.#database;
    return { id: `pouchdb:${(await this.#database.id?.()) ?? name}`, label: name };
  }

  async *changes(options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    let since: unknown = options.since === undefined ? 0 : JSON.parse(options.since);
    for (;;) {
      if (options.signal?.aborted) throw abortedError(options.signal);
      const page = await this.#database.changes({ ...this.#feedOptions(since), limit: PAGE_ROWS });
      since = page.last_seq;
      if (page.results.length > 0) yield chunkOf(page.results, page.last_seq);
      if (page.results.length < PAGE_ROWS) break;
    }
    if (options.until === "forever") yield* this.#follow(since, options.signal);
  }

  async *#follow(
    since: unknown,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Chunk, void, undefined> {
    let pending: PouchChange[] = [];
    let failure: { readonly error: unknown } | undefined;
    let wake: (() => void) | undefined;
    const feed = this.#database.changes({ ...this.#feedOptions(since), live: true });
    const woken = (): void => wake?.();
    feed.on("change", (change) => {
      pending.push(change);
      woken();
    });
    feed.on("error", (error) => {
      failure = { error };
      woken();
    });
    signal?.addEventListener("abort", woken, { once: true });
    try {
      for (;;) {
        if (signal?.aborted) throw abortedError(signal);
        const batch = pending;
        pending = [];
        const last = batch.at(-1);
        if (last) yield chunkOf(batch, last.seq);
        else if (failure) throw this.#unreadable(failure.error);
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
            if (pending.length > 0 || failure || signal?.aborted) resolve();
          });
        }
      }
    } finally {
      signal?.removeEventListener("abort", woken);
      feed.cancel();
    }
  }

  #feedOptions(since: unknown): Record<string, unknown> {
    return { since, include_docs: true, conflicts: this.#conflicts, batch_size: PAGE_ROWS };
  }

  async latest(): Promise<Seq> {
    return JSON.stringify((await this.#database.info()).update_seq);
  }

  async extent(since: Seq | undefined): Promise<FeedExtent> {
    return since === undefined ? { changes: (await this.#database.info()).doc_count } : {};
  }

  /** A local database counts: one that has not come so far is another one. */
  async resumable(since: Seq): Promise<boolean> {
    const seq: unknown = JSON.parse(since);
    const now = (await this.#database.info()).update_seq;
    return typeof seq !== "number" || typeof now !== "number" || seq <= now;
  }

  async designDocuments(): Promise<DesignDocumentRow[]> {
    const options = { startkey: "_design/", endkey: "_design0", include_docs: true };
    const { rows } = await this.#database.allDocs(options);
    const found: DesignDocumentRow[] = [];
    for (const { id, doc } of rows) {
      if (id === undefined || !doc) continue;
      const json = JSON.stringify(doc);
      const rev = memberText(Buffer.from(json), "_rev")?.slice(1, -1) ?? "";
      found.push({ id, rev, json });
    }
    return found;
  }

  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    return Promise.all(requests.map(async (request) => this.#document(request)));
  }

  async #document(request: DocumentRequest): Promise<string | undefined> {
    const options = {
      ...(request.rev === undefined ? {} : { rev: request.rev }),
      conflicts: request.conflicts === true,
      attachments: request.attachments === true,
    };
    try {
      return JSON.stringify(await this.#database.get(request.id, options));
    } catch (error) {
      const status =
        typeof error === "object" && error !== null && "status" in error ? error.status : undefined;
      if (status === 404 && request.deleted === true && request.rev === undefined)
        return this.#tombstone(request.id);
      if (status === 404 || status === 400) return undefined;
      throw this.#unreadable(error);
    }
  }

  async #tombstone(id: string): Promise<string | undefined> {
    const { rows } = await this.#database.allDocs({ keys: [id] });
    const value = rows[0]?.value;
    return value?.deleted === true ? tombstone(id, value.rev) : undefined;
  }

  async close(): Promise<void> {
    if (this.#owned) await this.#database.close();
  }

  #unreadable(error: unknown): IndexerError {
    const why = error instanceof Error ? error.message : String(error);
    const message = `The PouchDB database ${this.#database.name} cannot be read: ${why}.`;
    return new IndexerError("SOURCE_UNREADABLE", message, {}, { cause: error });
  }
}

function chunkOf(changes: readonly PouchChange[], lastSeq: number | string): Chunk {
  const lines = changes.map(({ seq, id, changes: revs, deleted, doc }) => {
    const row = {
      seq,
      id,
      changes: revs,
      ...(deleted === true ? { deleted } : {}),
      doc: doc ?? null,
    };
    return `${JSON.stringify(row)}\n`;
  });
  const data = new Uint8Array(Buffer.from(lines.join("")));
  return { format: "changes", data, lastSeq: JSON.stringify(lastSeq) };
}
