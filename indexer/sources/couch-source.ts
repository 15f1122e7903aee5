// A CouchDB database over HTTP. The feed is read in pages (`limit`, `since`), each streamed and cut into chunks as it
// comes; then, when it is to go on, continuously. Whatever breaks is tried again from the last row handed over.

import { IndexerError } from "../errors.js";
import { Backoff, type BackoffOptions } from "./backoff.js";
import {
  CouchClient,
  isPassing,
  type CouchClientOptions,
  type CouchRequest,
} from "./couch-client.js";
import { CouchDocuments } from "./couch-documents.js";
import { LINE_BYTES_MAX_DEFAULT } from "./line-errors.js";
import { memberText } from "./member-scan.js";
import { RowSplitter, type RowLines } from "./row-splitter.js";
import type { SliceOptions } from "./slice.js";
import type {
  ChangesOptions,
  Chunk,
  DesignDocumentRow,
  DocumentRequest,
  FeedExtent,
  Seq,
  Source,
  SourceIdentity,
} from "./source.js";

export interface CouchSourceOptions extends CouchClientOptions {
  /** Rows of one request. Default 5000. */
  readonly pageRows?: number | undefined;
  /** Asked of the server while following, in milliseconds; three of them without a byte mean a lost connection. Default 10 000. */
  readonly heartbeatMs?: number | undefined;
  /** Longest row of the feed, in bytes. Default 256 MiB. */
  readonly lineBytesMax?: number | undefined;
  readonly backoff?: BackoffOptions | undefined;
  /** Told of each attempt that failed and will be repeated. */
  readonly onWarning?: ((message: string) => void) | undefined;
}

const CHUNK_BYTES_DEFAULT = 4 * 1024 * 1024;
const PAGE_ROWS_DEFAULT = 5000;
const HEARTBEAT_MS_DEFAULT = 10_000;

interface PageEnd {
  readonly rows: number;
  readonly pending: number | undefined;
}

/** What drains carry from page to page. */
interface Cursor {
  seq: Seq | undefined;
  feedBytes: number;
}

/** `http://…/db`. */
export class CouchSource implements Source {
  readonly snapshot = false;
  readonly slicing: SliceOptions = {};
  readonly #client: CouchClient;
  readonly #documents: CouchDocuments;
  readonly #options: CouchSourceOptions;
  #wants = { conflicts: false, deletedConflicts: false, localSeq: false };
  #identity: SourceIdentity | undefined;
  #partitioned: boolean | undefined;

  constructor(url: string, options: CouchSourceOptions = {}) {
    this.#options = options;
    this.#client = new CouchClient(url, options);
    this.#documents = new CouchDocuments(this.#client, async (request) => this.#retrying(request));
  }

  configure(wants: { conflicts: boolean; deletedConflicts: boolean; localSeq: boolean }): void {
    this.#wants = { ...wants };
  }

  get partitioned(): boolean | undefined {
    return this.#partitioned;
  }

  async identity(): Promise<SourceIdentity> {
    const server = asObject(await this.#server());
    const database = asObject(await this.#info());
    this.#partitioned = asObject(database["props"])["partitioned"] === true;
    // CouchDB before 3 tells the time the database was opened, or "0"; PouchDB's server the time it was started.
    const stable = /^([3-9]|\d{2,})\./.test(text(server["version"]));
    const since =
      stable && !("express-pouchdb" in server) ? text(database["instance_start_time"]) : "";
    const id = `couchdb:${text(server["uuid"])}:${text(database["db_name"])}:${since}`;
    return { id, label: this.#client.label };
  }

  async *changes(options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    await this.#checkIdentity();
    const cursor: Cursor = { seq: options.since, feedBytes: 0 };
    yield* this.#pages(options, cursor);
    if (options.until === "forever") yield* this.#follow(options, cursor);
  }

  /** Up to a page that is not full: the server had no more at that moment. */
  async *#pages(options: ChangesOptions, cursor: Cursor): AsyncGenerator<Chunk, void, undefined> {
    const limit = this.#options.pageRows ?? PAGE_ROWS_DEFAULT;
    const backoff = new Backoff(this.#options.backoff);
    for (;;) {
      const before = cursor.seq;
      try {
        const end = yield* this.#page(options, cursor, limit);
        backoff.reset();
        if (end.rows < limit || end.pending === 0) return;
      } catch (error) {
        if (cursor.seq !== before) backoff.reset();
        const forever = options.until === "forever";
        await this.#again(error, backoff, forever, options.signal);
        await this.#checkIdentity(forever, options.signal);
      }
    }
  }

  async *#page(
    options: ChangesOptions,
    cursor: Cursor,
    limit: number,
  ): AsyncGenerator<Chunk, PageEnd, undefined> {
    const chunkBytes = options.chunkBytes ?? CHUNK_BYTES_DEFAULT;
    const splitter = new RowSplitter("envelope");
    const query = { ...this.#feedQuery(cursor), limit: String(limit) };
    let rows = 0;
    let failure: { readonly error: unknown } | undefined;
    try {
      for await (const piece of this.#client.stream({
        path: "_changes",
        query,
        signal: options.signal,
      })) {
        splitter.push(piece);
        this.#checkRow(splitter);
        if (splitter.bytes < chunkBytes) continue;
        const lines = splitter.take();
        if (!lines) continue;
        rows += lines.count;
        yield await this.#chunk(lines, cursor, options.signal);
      }
    } catch (error) {
      failure = { error };
    }
    const envelope = Buffer.from(splitter.envelope);
    const lastSeq = failure ? undefined : memberText(envelope, "last_seq");
    if (!failure && lastSeq === undefined) {
      failure = { error: this.#noFeed() };
    }
    const lines = splitter.take();
    if (lines) {
      rows += lines.count;
      yield await this.#chunk(lines, cursor, options.signal, lastSeq);
    }
    if (failure) throw failure.error;
    const pending = memberText(envelope, "pending");
    return { rows, pending: pending === undefined ? undefined : Number(pending) };
  }

  async *#follow(options: ChangesOptions, cursor: Cursor): AsyncGenerator<Chunk, void, undefined> {
    const heartbeatMs = this.#options.heartbeatMs ?? HEARTBEAT_MS_DEFAULT;
    const backoff = new Backoff(this.#options.backoff);
    for (;;) {
      const query = {
        ...this.#feedQuery(cursor),
        feed: "continuous",
        heartbeat: String(heartbeatMs),
      };
      const request = { path: "_changes", query, idleMs: 3 * heartbeatMs, signal: options.signal };
      const splitter = new RowSplitter("rows");
      try {
        for await (const piece of this.#client.stream(request)) {
          backoff.reset();
          splitter.push(piece);
          this.#checkRow(splitter);
          const lines = splitter.take();
          if (lines) yield await this.#chunk(lines, cursor, options.signal);
        }
        // A server may end the feed when it likes; asking again at once could turn into a storm.
        await backoff.wait(true, options.signal);
      } catch (error) {
        await this.#again(error, backoff, true, options.signal);
      }
      await this.#checkIdentity(true, options.signal);
    }
  }

  #checkRow(splitter: RowSplitter): void {
    const limit = this.#options.lineBytesMax ?? LINE_BYTES_MAX_DEFAULT;
    if (splitter.pendingBytes <= limit) return;
    const message = `${this.#client.label}: a row of the feed has more than ${limit} bytes (--line-max, lineBytesMax, allows more).`;
    throw new IndexerError("SOURCE_LINE_TOO_LONG", message);
  }

  #feedQuery(cursor: Cursor): Record<string, string> {
    return {
      include_docs: "true",
      ...(this.#wants.conflicts ? { conflicts: "true" } : {}),
      ...(cursor.seq === undefined ? {} : { since: seqParameter(cursor.seq) }),
    };
  }

  async #chunk(
    lines: RowLines,
    cursor: Cursor,
    signal: AbortSignal | undefined,
    lastSeq?: Seq,
  ): Promise<Chunk> {
    const seq =
      lastSeq ?? memberText(lines.lastRow, "seq") ?? memberText(lines.lastRow, "last_seq");
    if (seq === undefined) throw this.#noFeed();
    const { deletedConflicts, localSeq } = this.#wants;
    const data =
      deletedConflicts || localSeq
        ? await this.#documents.completeRows(lines.data, this.#wants, signal)
        : lines.data;
    cursor.seq = seq;
    cursor.feedBytes += lines.data.length;
    return { format: "changes", data, lastSeq: seq, feedBytes: cursor.feedBytes };
  }

  async latest(): Promise<Seq> {
    const raw = memberText(Buffer.from(await this.#retrying({ path: "" })), "update_seq");
    if (raw === undefined) throw this.#noFeed();
    return raw;
  }

  async extent(since: Seq | undefined): Promise<FeedExtent> {
    const query = {
      limit: "1",
      ...(since === undefined ? {} : { since: seqParameter(since) }),
    };
    const answer = asObject(JSON.parse(await this.#retrying({ path: "_changes", query })));
    const { results, pending } = answer;
    if (typeof pending === "number") {
      return { changes: pending + (Array.isArray(results) ? results.length : 0) };
    }
    if (since !== undefined) return {};
    const info = asObject(await this.#info());
    return { changes: Number(info["doc_count"] ?? 0) + Number(info["doc_del_count"] ?? 0) };
  }

  /** Always: a database keeps its feed, and another database under the URL has another identity. */
  async resumable(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async designDocuments(): Promise<DesignDocumentRow[]> {
    return this.#documents.designDocuments();
  }

  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    return this.#documents.read(requests);
  }

  /** CouchDB tells which documents were purged, but not since when: after any purge the index must be built anew. */
  async purges(
    since: string | undefined,
  ): Promise<{ ids: string[]; purgeSeq: string; reset: boolean }> {
    const info = asObject(await this.#info());
    const seq = info["purge_seq"];
    // Only the number before the dash counts purges; the rest is how the cluster writes it.
    const purgeSeq = typeof seq === "number" ? String(seq) : (text(seq).split("-")[0] ?? "");
    return { ids: [], purgeSeq, reset: since !== undefined && since !== purgeSeq };
  }

  async close(): Promise<void> {
    this.#client.close();
    return Promise.resolve();
  }

  async #info(): Promise<unknown> {
    return JSON.parse(await this.#retrying({ path: "" })) as unknown;
  }

  /** What the server says about itself; nothing where a proxy shows only the database. */
  async #server(): Promise<unknown> {
    try {
      return JSON.parse(await this.#retrying({ path: "/" })) as unknown;
    } catch (error) {
      if (error instanceof IndexerError && error.details.status !== undefined) return {};
      throw error;
    }
  }

  /** Notices that the database was deleted and made anew while this source is open. */
  async #checkIdentity(forever = false, signal?: AbortSignal): Promise<void> {
    const backoff = new Backoff(this.#options.backoff);
    let now: SourceIdentity | undefined;
    while (!now) {
      try {
        now = await this.identity();
      } catch (error) {
        await this.#again(error, backoff, forever, signal);
      }
    }
    this.#identity ??= now;
    if (now.id === this.#identity.id) return;
    throw new IndexerError(
      "SOURCE_CHANGED",
      `${this.#client.label} is another database than before: it was deleted and made anew. Build again with --rebuild.`,
    );
  }

  /** A small request, repeated while its failure may pass. */
  async #retrying(request: CouchRequest): Promise<string> {
    const backoff = new Backoff(this.#options.backoff);
    for (;;) {
      try {
        return await this.#client.text(request);
      } catch (error) {
        await this.#again(error, backoff, false, request.signal);
      }
    }
  }

  /** Waits if another attempt makes sense; throws the error otherwise. */
  async #again(
    error: unknown,
    backoff: Backoff,
    forever: boolean,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    if (!isPassing(error) || !(await backoff.wait(forever, signal))) throw error;
    const message = error instanceof Error ? error.message : String(error);
    this.#options.onWarning?.(`${message} Trying again.`);
  }

  #noFeed(): IndexerError {
    const message = `${this.#client.label} answered, but not as CouchDB does. Is this URL a CouchDB database?`;
    return new IndexerError("SOURCE_HTTP", message);
  }
}

/** A sequence as the `since` parameter: strings without their quotes, everything else as JSON. */
function seqParameter(seq: Seq): string {
  const value: unknown = JSON.parse(seq);
  return typeof value === "string" ? value : seq;
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
