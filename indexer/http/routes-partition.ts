// What is below `/{db}/_partition/`: what a partition holds, and the list of its documents. Views of a partition are views
// (view-handler.ts).

import type { FastifyReply, FastifyRequest } from "fastify";

import { QueryError, requirePartition } from "../query/index.js";
import { allDocsRoutes } from "./all-docs.js";
import { partitionBounds } from "./all-docs-query.js";
import { notFound, RequestError } from "./errors.js";
import { sendJson, type Routes } from "./routes.js";
import { queryPairs, requireDatabase } from "./view-handler.js";

interface Params {
  readonly db: string;
  readonly partition: string;
}

export function partitionRoutes(routes: Routes): void {
  const { app, context, methods } = routes;
  const { service } = context;
  const base = "/:db/_partition/:partition";
  const paramsOf = (request: FastifyRequest): Params => {
    const params = request.params as Params;
    requireDatabase(context, params.db);
    return params;
  };
  const requirePartitioned = (): void => {
    if (!service.partitioned)
      throw new RequestError(400, "bad_request", "database is not partitioned");
  };
  /** Before anything else of the request is looked at. */
  const partitionOf = (request: FastifyRequest): string => {
    const { partition } = paramsOf(request);
    requirePartitioned();
    requirePartition(partition, queryPairs(request.url));
    return partition;
  };
  /** Here CouchDB looks at the name first. */
  const info = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { partition } = paramsOf(request);
    requirePartition(partition, []);
    requirePartitioned();
    const [first, last] = partitionBounds(partition);
    // Both are looked up in the same list, unless that changes just now.
    const before = await service.documentPage({ start: first, limit: 0 });
    const after = await service.documentPage({ start: last, limit: 0 });
    return sendJson(reply, {
      db_name: context.db,
      sizes: { active: 0, external: 0 },
      partition,
      doc_count: Math.max(0, after.offset - before.offset),
      doc_del_count: 0,
    });
  };

  app.all("/:db/_partition", (request) => {
    paramsOf(request);
    throw new RequestError(400, "bad_request", "invalid_partition_req");
  });
  app.route({ method: ["GET", "HEAD"], url: base, handler: info });
  app.post(base, (request) => {
    const { partition } = paramsOf(request);
    if (partition.startsWith("_"))
      throw new QueryError(400, "illegal_partition", "Partition must not start with an underscore");
    throw methods.refusal({ method: "POST", url: request.url }) ?? notFound();
  });
  methods.only(base, "GET");
  allDocsRoutes(routes, base, partitionOf);
  app.all(`${base}/*`, (request) => {
    partitionOf(request);
    throw methods.refusal(request) ?? notFound();
  });
}
