// A small database in memory, for tests and for programs that feed an index themselves. Like CouchDB it keeps one place in
// the feed per document, the latest; unlike it, it keeps no old revisions.

import { IndexerError } from "../errors.js";
import { contentHashHex } from "./content-hash.js";
import { CONFLICT_MEMBERS, decodeString, memberText, withoutMembers } from "./member-scan.js";
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
  type SourceWants,
} from "./source.js";

const CHUNK_BYTES_DEFAULT = 4 * 1024 * 1024;

interface Stored {
  readonly id: string;
  readonly seq: number;
  readonly rev: string;
  readonly deleted: boolean;
  /** Raw JSON; a stub for deletions. */
  readonly json: string;
  /** The row of the feed, LF included. */
  readonly row: Buffer;
}

/** A document as anything JSON.stringify understands, or as its raw JSON text. */
export type MemoryDocument = string | { readonly _id: string; readonly [member: string]: unknown };

export class MemorySource implements Source {
  readonly snapshot = false;
  slicing: SliceOptions = {};
  readonly #identity: SourceIdentity;
  readonly #documents = new Map<string, Stored>();
  readonly #purged: string[] = [];
  #seq = 0;
  #waiting: (() => void)[] = [];

  configure(wants: SourceWants): void {
    this.slicing = { localSeq: wants.localSeq };
  }

  /** `name` is the identity: two memories of one name pass for the same database. */
  constructor(name = "memory") {
    this.#identity = { id: `memory:${name}`, label: name };
  }

  /**
   * Writes a document; one with `"_deleted":true` deletes. Without `_rev` it gets one, as its second member.
   * Returns the new sequence.
   */
  put(document: MemoryDocument): Seq {
    let json = typeof document === "string" ? document : JSON.stringify(document);
    const bytes = Buffer.from(json);
    const rawId = memberText(bytes, "_id");
    const id =
      rawId === undefined
        ? undefined
        : decodeString(Buffer.from(rawId), 0, Buffer.byteLength(rawId));
    if (id === undefined || id === "") {
      throw new IndexerError("SOURCE_MALFORMED", 'A document must have a non-empty string "_id".');
    }
    const deleted = memberText(bytes, "_deleted") === "true";
    let rev = memberText(bytes, "_rev")?.slice(1, -1);
    if (rev === undefined) {
      const generation = Number.parseInt(this.#documents.get(id)?.rev ?? "0", 10) + 1;
      rev = `${generation}-${contentHashHex(bytes)}`;
      const rest = withoutMembers(json, new Set(["_id"]))
        .trim()
        .slice(1);
      const comma = rest.trim() === "}" ? "" : ",";
      json = `{"_id":${JSON.stringify(id)},"_rev":${JSON.stringify(rev)}${comma}${rest}`;
    }
    return this.#store(id, rev, deleted, json);
  }

  /** Deletes a document; one that is not there is a tombstone then. */
  delete(id: string): Seq {
    return this.put({ _id: id, _deleted: true });
  }

  /** Removes a document without a trace in the feed. */
  purge(id: string): void {
    this.#documents.delete(id);
    this.#purged.push(id);
    this.#wake(++this.#seq);
  }

  /** Adds a row of a changes feed as it is, `seq` aside: revision, deletion and document are the row's. */
  putRow(row: {
    id: string;
    changes: readonly { rev: string }[];
    deleted?: boolean;
    doc?: object | null;
  }): Seq {
    const rev = row.changes[0]?.rev ?? "";
    const deleted = row.deleted === true;
    const stub = { _id: row.id, _rev: rev, _deleted: true };
    return this.#store(row.id, rev, deleted, JSON.stringify(row.doc ?? stub));
  }

  #store(id: string, rev: string, deleted: boolean, json: string): Seq {
    const seq = ++this.#seq;
    const head = `{"seq":${seq},"id":${JSON.stringify(id)},"changes":[{"rev":${JSON.stringify(rev)}}]`;
    // Documents are one line of the feed: blanks between members may hold line ends.
    const line = json.includes("\n") ? json.replaceAll("\n", " ") : json;
    const row = Buffer.from(`${head}${deleted ? ',"deleted":true' : ""},"doc":${line}}\n`);
    this.#documents.delete(id);
    this.#documents.set(id, { id, seq, rev, deleted, json, row });
    return this.#wake(seq);
  }

  #wake(seq: number): Seq {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
    return String(seq);
  }

  async identity(): Promise<SourceIdentity> {
    return Promise.resolve(this.#identity);
  }

  async *changes(options: ChangesOptions): AsyncGenerator<Chunk, void, undefined> {
    const chunkBytes = options.chunkBytes ?? CHUNK_BYTES_DEFAULT;
    let since = Number(options.since ?? 0);
    for (;;) {
      const target = this.#seq;
      // The map is in feed order: a document moves to its end with each write.
      const rows = [...this.#documents.values()].filter((one) => one.seq > since);
      let pending: Buffer[] = [];
      let bytes = 0;
      for (const one of rows) {
        if (options.signal?.aborted) throw abortedError(options.signal);
        pending.push(one.row);
        bytes += one.row.length;
        since = one.seq;
        if (bytes < chunkBytes && one !== rows.at(-1)) continue;
        yield {
          format: "changes",
          data: new Uint8Array(Buffer.concat(pending)),
          lastSeq: String(since),
        };
        pending = [];
        bytes = 0;
      }
      since = Math.max(since, target);
      if (options.signal?.aborted) throw abortedError(options.signal);
      if (options.until === "now") return;
      if (this.#seq === since) await this.#change(options.signal);
    }
  }

  async #change(signal: AbortSignal | undefined): Promise<void> {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        signal?.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.push(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
  }

  async latest(): Promise<Seq> {
    return Promise.resolve(String(this.#seq));
  }

  stamp(): string {
    return String(this.#seq);
  }

  async extent(since: Seq | undefined): Promise<FeedExtent> {
    const from = Number(since ?? 0);
    let changes = 0;
    for (const one of this.#documents.values()) if (one.seq > from) changes++;
    return Promise.resolve({ changes });
  }

  async resumable(since: Seq): Promise<boolean> {
    return Promise.resolve(Number(since) <= this.#seq);
  }

  async designDocuments(): Promise<DesignDocumentRow[]> {
    const found = [...this.#documents.values()].filter(
      (one) => one.id.startsWith("_design/") && !one.deleted,
    );
    found.sort((a, b) => Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)));
    return Promise.resolve(found.map(({ id, rev, json }) => ({ id, rev, json })));
  }

  async documents(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    return Promise.resolve(requests.map((request) => this.#find(request)));
  }

  #find(request: DocumentRequest): string | undefined {
    const found = this.#documents.get(request.id);
    if (!found) return undefined;
    if (request.rev === undefined && found.deleted)
      return request.deleted === true ? tombstone(request.id, found.rev) : undefined;
    if (request.rev !== undefined && found.rev !== request.rev) return undefined;
    return request.conflicts === true ? found.json : withoutMembers(found.json, CONFLICT_MEMBERS);
  }

  async purges(
    since: string | undefined,
  ): Promise<{ ids: string[]; purgeSeq: string; reset: boolean }> {
    const later = this.#purged.slice(since === undefined ? this.#purged.length : Number(since));
    // What was written again is in the feed again, and may have been mapped already.
    const ids = later.filter((id) => !this.#documents.has(id));
    return Promise.resolve({ ids, purgeSeq: String(this.#purged.length), reset: false });
  }

  async close(): Promise<void> {
    await Promise.resolve();
  }
}
