// `_all_docs`: the documents of the source by id, from the id tree of an index, as CouchDB tells them.

import type { FastifyInstance } from "fastify";

import { parseViewBody, parseViewQuery, type ViewQuery } from "../query/index.js";
import { memberText } from "../sources/index.js";
import type { DocumentListQuery } from "../view-index.js";
import type { HttpContext } from "./context.js";
import { sendAnswer } from "./send.js";
import { refuseOthers } from "./routes-database.js";
import type { ViewService } from "./service.js";
import { beginning, queryPairs, requireDatabase } from "./view-handler.js";

/** Rows whose documents are read together. */
const PAGE_ROWS = 100;

export function allDocsRoute(app: FastifyInstance, context: HttpContext): void {
  const url = "/:db/_all_docs";
  app.route({
    method: ["GET", "HEAD", "POST"],
    url,
    handler: async (request, reply) => {
      requireDatabase(context, (request.params as { db: string }).db);
      const body = request.method === "POST" ? request.body : undefined;
      const query = parseViewQuery(
        queryPairs(request.url),
        typeof body === "string" ? parseViewBody(body) : undefined,
      );
      const text = await beginning(textOf(context.service, query));
      void reply.hijack();
      await sendAnswer(context, request.raw, reply.raw, text, undefined);
    },
  });
  refuseOthers(app, url, ["PUT", "DELETE"], "GET,HEAD,POST");
}

async function* textOf(
  service: ViewService,
  query: ViewQuery,
): AsyncGenerator<string, void, undefined> {
  const keys = keysOf(query);
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

/** A list, or one key, which is a list of one without telling where it is. */
function keysOf({ keys }: ViewQuery): readonly string[] | undefined {
  return keys === undefined || keys === "invalid" ? undefined : keys;
}

async function* pagesOf(
  service: ViewService,
  query: ViewQuery,
): AsyncGenerator<Page, void, undefined> {
  const { startKey, endKey, descending, inclusiveEnd } = query;
  const start = idOf(startKey);
  const end = idOf(endKey);
  // What is no string is below all of them: nothing comes before it, everything after.
  const nothing = descending ? start === null : end === null;
  let left = nothing ? 0 : query.limit;
  let list: DocumentListQuery = {
    start: start ?? undefined,
    end: end ?? undefined,
    inclusiveEnd,
    descending,
    skip: query.skip,
    limit: Math.min(PAGE_ROWS, left),
  };
  for (let first = true; ; first = false) {
    const { total, offset, ids } = await service.documentPage(list);
    yield {
      head: first ? headOf(total, offset) : undefined,
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
  query: ViewQuery,
): AsyncGenerator<Page, void, undefined> {
  const { total } = await service.documentPage({ limit: 0 });
  yield { head: headOf(total, null), rows: [] };
  const ordered = query.descending ? [...keys].reverse() : keys;
  const end = Math.min(ordered.length, query.skip + query.limit);
  for (let at = query.skip; at < end; at += PAGE_ROWS) {
    const part = ordered.slice(at, Math.min(end, at + PAGE_ROWS));
    yield { head: undefined, rows: await rowsOf(service, part.map(idOf), query, part) };
  }
}

function headOf(total: number, offset: number | null): string {
  return `{"total_rows":${total},"offset":${offset},"rows":[\r\n`;
}

/** Undefined without a key, null for what is no string and so no id. */
function idOf(key: string | undefined): string | null | undefined {
  if (key === undefined) return undefined;
  const value = JSON.parse(key) as unknown;
  return typeof value === "string" ? value : null;
}

/** @param keys - JSON texts that were asked for; where there is no such document that is told. Default: the ids. */
async function rowsOf(
  service: ViewService,
  ids: readonly (string | null | undefined)[],
  { includeDocs, conflicts }: ViewQuery,
  keys?: readonly string[],
): Promise<string[]> {
  const requests = ids.map((id) => ({
    id: id ?? "",
    ...(conflicts === true ? { conflicts: true } : {}),
  }));
  const documents = requests.length === 0 ? [] : await service.documents(requests);
  return ids.flatMap((id, i) => {
    const document = id === null || id === undefined ? undefined : documents[i];
    if (document === undefined)
      return keys ? [`{"key":${keys[i] ?? "null"},"error":"not_found"}`] : [];
    const rev = memberText(Buffer.from(document), "_rev");
    const value = rev === undefined ? "{}" : `{"rev":${rev}}`;
    const name = JSON.stringify(id);
    return [
      `{"id":${name},"key":${name},"value":${value}${includeDocs ? `,"doc":${document}` : ""}}`,
    ];
  });
}
