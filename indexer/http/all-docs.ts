// `_all_docs`: the documents of the source by id, from the id tree of an index, as CouchDB tells them.

import type { FastifyInstance } from "fastify";

import {
  arrayElements,
  assertJson,
  badRequest,
  checkQuery,
  jsonKind,
  parseError,
  parseViewBody,
  parseViewQuery,
  type ViewBody,
  type ViewQuery,
} from "../query/index.js";
import { memberText } from "../sources/index.js";
import type { DocumentListQuery } from "../view-index.js";
import { readJsonBody } from "./body.js";
import type { HttpContext } from "./context.js";
import { sendAnswer } from "./send.js";
import { refuseOthers } from "./routes-database.js";
import type { ViewService } from "./service.js";
import { beginning, queryPairs, requireDatabase } from "./view-handler.js";

/** Rows whose documents are read together. */
const PAGE_ROWS = 100;

interface ListQuery extends Omit<ViewQuery, "keys"> {
  /** JSON texts; also a list of one is a list here, which tells of what is not there. */
  readonly keys: readonly string[] | undefined;
}

export function allDocsRoute(app: FastifyInstance, context: HttpContext): void {
  const url = "/:db/_all_docs";
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
        requireDatabase(context, (request.params as { db: string }).db);
        const body =
          request.method === "POST"
            ? parseViewBody(await readJsonBody(request.raw, context.bodyBytesMax))
            : undefined;
        const query = listQuery(queryPairs(request.url), body, context.service.partitioned);
        const text = await beginning(textOf(context.service, query));
        void reply.hijack();
        await sendAnswer(context, request.raw, reply.raw, text, undefined);
      },
    });
    done();
  });
  refuseOthers(app, url, ["PUT", "DELETE"], "GET,HEAD,POST");
}

/**
 * Reads the parameters, and checks them as those of a view without a reduce. `keys` of the query string wins over that of the body.
 * @throws QueryError 400.
 */
function listQuery(
  pairs: readonly (readonly [string, string])[],
  body: ViewBody | undefined,
  partitioned: boolean,
): ListQuery {
  const posted = body?.members.findLast(([name]) => name === "keys")?.[1];
  const asked = pairs.findLast(([name]) => name === "keys")?.[1];
  if (posted !== undefined && posted !== "null" && jsonKind(posted) !== "array")
    throw badRequest("`keys` body member must be an array.");
  if (asked !== undefined) {
    assertJson(asked);
    if (jsonKind(asked) !== "array") throw badRequest("`keys` parameter must be an array.");
  }
  const text = asked ?? (posted === "null" ? undefined : posted);
  const keys = text === undefined ? undefined : arrayElements(text);
  const others = ([name]: readonly [string, string]): boolean => name !== "keys";
  const parsed = parseViewQuery(
    pairs.filter(others),
    body && { members: body.members.filter(others) },
  );
  const query = { ...parsed, keys };
  checkQuery(keys ? { ...parsed, keys } : parsed, false);
  if (query.partition === undefined) return query;
  if (!partitioned) throw parseError("`partition` parameter is not supported on this db");
  return inPartition(query, query.partition);
}

/** The part of the range that lies in the partition. */
function inPartition(query: ListQuery, partition: string): ListQuery {
  const { descending } = query;
  const bounds = [`${partition}:`, `${partition};`];
  const [first, last] = descending ? bounds.reverse() : bounds;
  const inner = (id: string | undefined, bound = "", higher: boolean): string => {
    if (id === undefined) return bound;
    return Buffer.compare(Buffer.from(id), Buffer.from(bound)) > 0 === higher ? id : bound;
  };
  return {
    ...query,
    startKey: JSON.stringify(inner(boundOf(query.startKey), first, !descending)),
    endKey: JSON.stringify(inner(boundOf(query.endKey), last, descending)),
  };
}

async function* textOf(
  service: ViewService,
  query: ListQuery,
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
  yield "\r\n]}\n";
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

/** The id that a key is; undefined for what is no string and so no id. */
function idOf(key: string): string | undefined {
  const value = JSON.parse(key) as unknown;
  return typeof value === "string" ? value : undefined;
}

/** An end of a range; CouchDB takes one that is no string for none. */
function boundOf(key: string | undefined): string | undefined {
  return key === undefined ? undefined : idOf(key);
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
