// `_all_docs`: the documents of the source by id, from the id tree of an index, as CouchDB tells them; the whole list, several parts of
// it at once, and that of a partition.

import type { FastifyRequest, FastifyReply } from "fastify";

import { memberText } from "../sources/index.js";
import type { DocumentListQuery } from "../view-index.js";
import {
  boundOf,
  idOf,
  listQueries,
  listQuery,
  type ListPlace,
  type ListQuery,
} from "./all-docs-query.js";
import { readJsonBody } from "./body.js";
import type { Routes } from "./routes.js";
import { sendAnswer } from "./send.js";
import type { ViewService } from "./service.js";
import { beginning, queryPairs, requireDatabase } from "./view-handler.js";

/** Rows whose documents are read together. */
const PAGE_ROWS = 100;

/**
 * @param base - the path before `/_all_docs`; it names `:db`.
 * @param partitionOf - the partition that the path names.
 */
export function allDocsRoutes(
  { app, context, methods }: Routes,
  base: string,
  partitionOf: (request: FastifyRequest) => string | undefined = () => undefined,
): void {
  const url = `${base}/_all_docs`;
  const { service } = context;
  const placeOf = (request: FastifyRequest): ListPlace => {
    requireDatabase(context, (request.params as { db: string }).db);
    return { partition: partitionOf(request), partitioned: service.partitioned };
  };
  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    chunks: AsyncGenerator<string, void, undefined>,
  ): Promise<void> => {
    const text = await beginning(chunks);
    void reply.hijack();
    await sendAnswer(context, request.raw, reply.raw, text, undefined);
  };
  const bodyOf = ({ raw }: FastifyRequest): Promise<string> =>
    readJsonBody(raw, context.bodyBytesMax);
  void app.register((scope, _options, done) => {
    // The body is read as those of views are: its type, its size, gzipped or not.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser("*", (_request, _payload, parsed) => {
      parsed(null);
    });
    scope.route({
      method: ["GET", "HEAD", "POST"],
      url,
      handler: async (request, reply) => {
        const place = placeOf(request);
        const body = request.method === "POST" ? await bodyOf(request) : undefined;
        const query = listQuery(queryPairs(request.url), body, place);
        await send(request, reply, textOf(service, query));
      },
    });
    scope.post(`${url}/queries`, async (request, reply) => {
      const place = placeOf(request);
      const queries = listQueries(queryPairs(request.url), await bodyOf(request), place);
      await send(request, reply, textOfAll(service, queries));
    });
    done();
  });
  methods.only(`${url}/queries`, "POST");
  methods.only(url, "GET,HEAD,POST");
}

/** Each list is read when the one before has been told. */
async function* textOfAll(
  service: ViewService,
  queries: readonly ListQuery[],
): AsyncGenerator<string, void, undefined> {
  let before = '{"results":[\r\n';
  for (const query of queries) {
    yield before;
    yield* textOf(service, query, "");
    before = ",\r\n";
  }
  yield queries.length === 0 ? `${before}]}\n` : "\r\n]}\n";
}

/** @param end - what follows the list. */
async function* textOf(
  service: ViewService,
  query: ListQuery,
  end = "\n",
): AsyncGenerator<string, void, undefined> {
  const { keys } = query;
  let separator = "";
  for await (const page of keys ? pagesOfKeys(service, keys, query) : pagesOf(service, query)) {
    if (page.head !== undefined) yield page.head;
    for (const row of page.rows) {
      yield separator + row;
      separator = ",\r\n";
    }
  }
  yield `\r\n]}${end}`;
}

interface Page {
  readonly head: string | undefined;
  readonly rows: readonly string[];
}

async function* pagesOf(
  service: ViewService,
  query: ListQuery,
): AsyncGenerator<Page, void, undefined> {
  const { descending, inclusiveEnd } = query;
  let left = query.limit;
  let list: DocumentListQuery = {
    start: boundOf(query.startKey) ?? query.startKeyDocId,
    end: boundOf(query.endKey) ?? query.endKeyDocId,
    inclusiveEnd,
    descending,
    skip: query.skip,
    limit: Math.min(PAGE_ROWS, left),
  };
  // Asked before the list is read, which then holds at least what the sequence says.
  const seq = query.updateSeq ? (await service.database()).updateSeq : undefined;
  for (let first = true; ; first = false) {
    const { total, offset, ids } = await service.documentPage(list);
    yield {
      head: first ? headOf(total, offset, seq) : undefined,
      rows: await rowsOf(service, ids, query),
    };
    left -= ids.length;
    const last = ids.at(-1);
    if (last === undefined || ids.length < list.limit || left <= 0) return;
    // The list may change between two pages: the next begins behind the last id that was told.
    list = { ...list, start: last, skip: 1, limit: Math.min(PAGE_ROWS, left) };
  }
}

async function* pagesOfKeys(
  service: ViewService,
  keys: readonly string[],
  query: ListQuery,
): AsyncGenerator<Page, void, undefined> {
  const { total } = await service.documentPage({ limit: 0 });
  yield { head: headOf(total, null, query.updateSeq ? "null" : undefined), rows: [] };
  const ordered = query.descending ? [...keys].reverse() : keys;
  const end = Math.min(ordered.length, query.skip + query.limit);
  for (let at = query.skip; at < end; at += PAGE_ROWS) {
    const part = ordered.slice(at, Math.min(end, at + PAGE_ROWS));
    yield { head: undefined, rows: await rowsOf(service, part.map(idOf), query, part) };
  }
}

/** @param seq - JSON text. */
function headOf(total: number, offset: number | null, seq: string | undefined): string {
  const sequence = seq === undefined ? "" : `"update_seq":${seq},`;
  return `{"total_rows":${total},"offset":${offset},${sequence}"rows":[\r\n`;
}

/** @param keys - JSON texts that were asked for: deleted and missing documents are told. Default: the ids, and they are left out. */
async function rowsOf(
  service: ViewService,
  ids: readonly (string | undefined)[],
  { includeDocs, conflicts, attachments, attEncodingInfo }: ListQuery,
  keys?: readonly string[],
): Promise<string[]> {
  const options = {
    ...(conflicts === true ? { conflicts: true } : {}),
    ...(includeDocs && attachments ? { attachments: true } : {}),
    ...(includeDocs && attEncodingInfo ? { attEncodingInfo: true } : {}),
    ...(keys ? { deleted: true } : {}),
  };
  const requests = ids.map((id) => ({ id: id ?? "", ...options }));
  const documents = requests.length === 0 ? [] : await service.documents(requests);
  return ids.flatMap((id, i) => {
    const document = id === undefined ? undefined : documents[i];
    if (document === undefined)
      return keys ? [`{"key":${keys[i] ?? "null"},"error":"not_found"}`] : [];
    const bytes = Buffer.from(document);
    const deleted = memberText(bytes, "_deleted") === "true";
    const rev = memberText(bytes, "_rev");
    const value = `{${rev === undefined ? "" : `"rev":${rev}${deleted ? ',"deleted":true' : ""}`}}`;
    const name = JSON.stringify(id);
    const doc = includeDocs ? `,"doc":${deleted ? "null" : document}` : "";
    return [`{"id":${name},"key":${name},"value":${value}${doc}}`];
  });
}
