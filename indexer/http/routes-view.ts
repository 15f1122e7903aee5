// Views: GET, HEAD and POST on a view, several queries at once, and the same inside a partition (VIEWS §7–§20).

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";

import {
  parseViewBody,
  parseViewQuery,
  resolveViewQueries,
  resolveViewQuery,
  type ResolvedQuery,
  type ViewAnswer,
} from "../query/index.js";
import { methodNotAllowed, RequestError } from "./errors.js";
import type { HttpContext } from "./server.js";
import { sendChunks } from "./stream.js";

interface ViewParams {
  readonly db: string;
  readonly ddoc: string;
  readonly view: string;
}

/** The query string's pairs in order; repeated names are kept, the last wins. */
export function queryPairs(request: FastifyRequest): [string, string][] {
  const { url } = request;
  const mark = url.indexOf("?");
  return mark < 0 ? [] : [...new URLSearchParams(url.slice(mark + 1))];
}

/** @throws RequestError 404 for another database. */
export function requireDatabase(context: HttpContext, name: string): void {
  if (name !== context.db) throw new RequestError(404, "not_found", "Database does not exist.");
}

function jsonBody(request: FastifyRequest): string {
  const type = request.headers["content-type"] ?? "";
  if (!/^application\/json\b/i.test(type))
    throw new RequestError(415, "bad_content_type", "Content-Type must be application/json");
  return typeof request.body === "string" ? request.body : "";
}

export function viewRoutes(app: FastifyInstance, context: HttpContext): void {
  const { index } = context;

  const answer = async (request: FastifyRequest, reply: FastifyReply, body: string | undefined): Promise<FastifyReply> => {
    const { db, ddoc, view } = request.params as ViewParams;
    requireDatabase(context, db);
    const abort = abortOnClose(reply);
    const found = await index.findView(ddoc, view);
    const parsed = parseViewQuery(queryPairs(request), body === undefined ? undefined : parseViewBody(body));
    const query = resolveViewQuery(parsed, found.shape);
    const result = await index.run(found, query, { signal: abort });
    return sendChunks(request, reply, context, result.text());
  };

  const one = "/:db/_design/:ddoc/_view/:view";
  app.route({ method: ["GET", "HEAD"], url: one, handler: (request, reply) => answer(request, reply, undefined) });
  app.route({ method: "POST", url: one, handler: (request, reply) => answer(request, reply, jsonBody(request)) });
  app.route({
    method: ["PUT", "DELETE", "PATCH"],
    url: one,
    handler: () => {
      throw methodNotAllowed("GET,POST,HEAD");
    },
  });

  app.route({
    method: "POST",
    url: `${one}/queries`,
    handler: async (request, reply) => {
      const { db, ddoc, view } = request.params as ViewParams;
      requireDatabase(context, db);
      const body = jsonBody(request);
      const abort = abortOnClose(reply);
      const found = await index.findView(ddoc, view);
      const queries = resolveViewQueries(queryPairs(request), body, found.shape);
      const run = (query: ResolvedQuery): Promise<ViewAnswer> => index.run(found, query, { signal: abort });
      return sendChunks(request, reply, context, severalAnswers(queries, run));
    },
  });
  app.route({
    method: ["GET", "HEAD", "PUT", "DELETE", "PATCH"],
    url: `${one}/queries`,
    handler: () => {
      throw methodNotAllowed("POST");
    },
  });

  app.route({
    method: ["GET", "POST", "HEAD"],
    url: "/:db/_partition/:partition/*",
    handler: (request) => {
      requireDatabase(context, (request.params as ViewParams).db);
      throw new RequestError(400, "bad_request", "database is not partitioned");
    },
  });
}

/** Each query is run in turn, as CouchDB does (VIEWS §18). */
async function* severalAnswers(
  queries: readonly ResolvedQuery[],
  run: (query: ResolvedQuery) => Promise<ViewAnswer>,
): AsyncGenerator<string, void, undefined> {
  let before = '{"results":[\r\n';
  for (const query of queries) {
    yield* (await run(query)).textWithin(before);
    before = ",\r\n";
  }
  yield queries.length === 0 ? `${before}\r\n]}\n` : "\r\n]}\n";
}

/** Fires when the client goes away. */
export function abortOnClose(reply: FastifyReply): AbortSignal {
  const controller = new AbortController();
  reply.raw.once("close", () => {
    controller.abort();
  });
  return controller.signal;
}

