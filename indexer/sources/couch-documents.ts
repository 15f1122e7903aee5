// Documents of a CouchDB database by id and revision, as their raw JSON: many winners with one `_all_docs` request,
// revisions one by one, a few at a time.

import { IndexerError } from "../errors.js";
import type { CouchClient, CouchRequest } from "./couch-client.js";
import { decodeString, memberText, withoutMembers } from "./member-scan.js";
import { RowSplitter } from "./row-splitter.js";
import { tombstone, type DesignDocumentRow, type DocumentRequest } from "./source.js";

const KEYS_MAX = 1000;
const PARALLEL = 8;
const LF = 0x0a;
const DOC_ONLY: ReadonlySet<string> = new Set(["doc"]);

/** What mapped documents must carry beyond what the feed gives. */
export interface RowWants {
  readonly conflicts: boolean;
  readonly deletedConflicts: boolean;
  readonly localSeq: boolean;
}

type Send = (request: CouchRequest) => Promise<string>;

export class CouchDocuments {
  readonly #client: CouchClient;
  readonly #send: Send;

  /** `send` repeats a request while its failure may pass. */
  constructor(client: CouchClient, send: Send) {
    this.#client = client;
    this.#send = send;
  }

  async designDocuments(): Promise<DesignDocumentRow[]> {
    const query = { include_docs: "true", startkey: '"_design/"', endkey: '"_design0"' };
    const rows = await this.#rows({ path: "_all_docs", query });
    const found: DesignDocumentRow[] = [];
    for (const row of rows) {
      const json = docOfRow(row);
      if (json === undefined) continue;
      const id = stringOf(memberText(Buffer.from(json), "_id"));
      if (id?.startsWith("_design/") !== true) continue;
      found.push({ id, rev: stringOf(memberText(Buffer.from(json), "_rev")) ?? "", json });
    }
    return found;
  }

  /** As `Source.documents`. */
  async read(requests: readonly DocumentRequest[]): Promise<(string | undefined)[]> {
    const results = new Array<string | undefined>(requests.length).fill(undefined);
    const winners = new Map<string, number[]>();
    const revisions: number[] = [];
    for (const [i, request] of requests.entries()) {
      if (request.rev !== undefined) {
        revisions.push(i);
        continue;
      }
      const flags = winnerQuery(request);
      const same = winners.get(flags);
      if (same) same.push(i);
      else winners.set(flags, [i]);
    }
    for (const [flags, places] of winners) {
      for (let from = 0; from < places.length; from += KEYS_MAX) {
        await this.#winners(requests, places.slice(from, from + KEYS_MAX), flags, results);
      }
    }
    await eachOf(revisions, async (i) => {
      const { id, rev } = requests[i] as DocumentRequest;
      results[i] = await this.#one(id, rev === undefined ? {} : { rev });
    });
    return results;
  }

  async #winners(
    requests: readonly DocumentRequest[],
    places: readonly number[],
    flags: string,
    results: (string | undefined)[],
  ): Promise<void> {
    const keys = places.map((i) => (requests[i] as DocumentRequest).id);
    const query = Object.fromEntries(new URLSearchParams(flags));
    const rows = await this.#rows({ path: "_all_docs", query, body: { keys } });
    for (const [k, place] of places.entries()) {
      const row = rows[k];
      if (row) results[place] = docOfRow(row) ?? tombstoneOfRow(row, requests[place]);
    }
  }

  /** One document; undefined when it is not there. */
  async #one(
    id: string,
    query: Readonly<Record<string, string>>,
    signal?: AbortSignal,
  ): Promise<string | undefined> {
    try {
      const text = await this.#send({ path: documentPath(id), query, signal });
      return text.trim().replaceAll("\n", " ");
    } catch (error) {
      // 400: a revision that is not one; to the reader of a row it is a document that is not there.
      if (error instanceof IndexerError && [400, 404].includes(error.details.status ?? 0)) {
        return undefined;
      }
      throw error;
    }
  }

  /** Rows of a view-like answer, each as its bytes. */
  async #rows(request: CouchRequest): Promise<Uint8Array[]> {
    const splitter = new RowSplitter("envelope");
    splitter.push(Buffer.from(await this.#send(request)));
    const lines = splitter.take();
    if (!lines) {
      if (memberText(Buffer.from(splitter.envelope), "rows") !== undefined) return [];
      const message = `${this.#client.label} answered, but not as CouchDB does. Is this URL a CouchDB database?`;
      throw new IndexerError("SOURCE_HTTP", message);
    }
    return splitLines(lines.data);
  }

  /**
   * Rows of the feed whose documents also carry what the feed cannot give: each is fetched by its id. One that is gone by
   * now becomes a deletion; the feed will say so too.
   */
  async completeRows(
    data: Uint8Array,
    wants: RowWants,
    signal: AbortSignal | undefined,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const rows = splitLines(data);
    const query = {
      ...(wants.conflicts ? { conflicts: "true" } : {}),
      ...(wants.deletedConflicts ? { deleted_conflicts: "true" } : {}),
      ...(wants.localSeq ? { local_seq: "true" } : {}),
    };
    const complete = rows.map((row) => Buffer.from(row).toString("utf8"));
    await eachOf([...rows.keys()], async (i) => {
      const row = rows[i] as Uint8Array;
      const id = stringOf(memberText(row, "id"));
      if (id === undefined || memberText(row, "deleted") === "true") return;
      const doc = await this.#one(id, query, signal);
      const head = withoutMembers(complete[i] as string, DOC_ONLY).slice(0, -1);
      complete[i] = doc === undefined ? `${head},"deleted":true}` : `${head},"doc":${doc}}`;
    });
    return new Uint8Array(Buffer.from(complete.map((line) => `${line}\n`).join("")));
  }
}

function winnerQuery(request: DocumentRequest): string {
  const query = new URLSearchParams({ include_docs: "true" });
  if (request.conflicts === true) query.set("conflicts", "true");
  if (request.attachments === true) query.set("attachments", "true");
  if (request.attEncodingInfo === true) query.set("att_encoding_info", "true");
  return query.toString();
}

/** `_design/x` and `_local/x` keep their slash. */
function documentPath(id: string): string {
  const special = /^(_design|_local)\/(.*)$/s.exec(id);
  if (special) return `${special[1] ?? ""}/${encodeURIComponent(special[2] ?? "")}`;
  return encodeURIComponent(id);
}

function docOfRow(row: Uint8Array): string | undefined {
  const doc = memberText(row, "doc");
  return doc === undefined || doc === "null" ? undefined : doc;
}

/** CouchDB tells of a deletion in the row's value. */
function tombstoneOfRow(row: Uint8Array, request: DocumentRequest | undefined): string | undefined {
  if (request?.deleted !== true) return undefined;
  const value = memberText(row, "value");
  if (value === undefined) return undefined;
  const { rev, deleted } = JSON.parse(value) as { rev?: string; deleted?: boolean };
  return deleted === true && rev !== undefined ? tombstone(request.id, rev) : undefined;
}

function stringOf(raw: string | undefined): string | undefined {
  if (raw === undefined) return undefined;
  const bytes = Buffer.from(raw);
  return decodeString(bytes, 0, bytes.length);
}

function splitLines(data: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let start = 0; start < data.length;) {
    const end = data.indexOf(LF, start);
    lines.push(data.subarray(start, end < 0 ? data.length : end));
    start = end < 0 ? data.length : end + 1;
  }
  return lines;
}

/** Runs a few at a time. */
async function eachOf(places: readonly number[], run: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < places.length) await run(places[next++] as number);
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, places.length) }, lane));
}
