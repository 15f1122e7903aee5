// What clients ask on the way to a view: the server, the database, a document, a design document.

import type { FastifyInstance, FastifyReply } from "fastify";

import { displaySeq } from "../sources/index.js";
import { notFound } from "./errors.js";
import { queryPairs, requireDatabase } from "./routes-view.js";
import type { HttpContext } from "./server.js";

export function databaseRoutes(app: FastifyInstance, context: HttpContext): void {
  const { index } = context;
  const send = (reply: FastifyReply, value: unknown): FastifyReply =>
    reply
      .type("application/json")
      .header("cache-control", "must-revalidate")
      .send(`${typeof value === "string" ? value : JSON.stringify(value)}\n`);

  app.route({
    method: ["GET", "HEAD"],
    url: "/",
    handler: (_request, reply) =>
      send(reply, { couchdb: "Welcome", version: "3.5.0", vendor: { name: "viewmill" }, features: [] }),
  });
  app.route({ method: "GET", url: "/_all_dbs", handler: (_request, reply) => send(reply, [context.db]) });
  app.route({
    method: ["GET", "HEAD"],
    url: "/:db",
    handler: async (request, reply) => {
      requireDatabase(context, (request.params as { db: string }).db);
      const source = await index.source();
      const { groups } = await index.info();
      const seq: unknown = JSON.parse(displaySeq(await source.latest()));
      return send(reply, {
        db_name: context.db,
        update_seq: seq,
        purge_seq: "0",
        doc_count: Math.max(0, ...groups.map(({ documents }) => documents)),
        doc_del_count: 0,
        sizes: { file: 0, external: 0, active: 0 },
        props: {},
        instance_start_time: "0",
        compact_running: false,
        cluster: { q: 1, n: 1, w: 1, r: 1 },
        disk_format_version: 8,
      });
    },
  });
  const documentAnswer = async (reply: FastifyReply, id: string, pairs: [string, string][]): Promise<FastifyReply> => {
    const flag = (name: string): boolean => pairs.some(([n, v]) => n === name && v === "true");
    const rev = pairs.findLast(([name]) => name === "rev")?.[1];
    const [json] = await index.documents([
      {
        id,
        ...(rev === undefined ? {} : { rev }),
        conflicts: flag("conflicts"),
        attachments: flag("attachments"),
        attEncodingInfo: flag("att_encoding_info"),
      },
    ]);
    if (json === undefined) throw notFound();
    const revision = /"_rev":"([^"]+)"/.exec(json)?.[1];
    if (revision !== undefined) void reply.header("etag", `"${revision}"`);
    return send(reply, json);
  };
  app.route({
    method: ["GET", "HEAD"],
    url: "/:db/_design/:ddoc",
    handler: async (request, reply) => {
      const { db, ddoc } = request.params as { db: string; ddoc: string };
      requireDatabase(context, db);
      try {
        return await documentAnswer(reply, `_design/${ddoc}`, queryPairs(request));
      } catch (error) {
        // Given by the user of the index, not by the source.
        const json = index.designDocument(ddoc);
        if (json === undefined) throw error;
        return send(reply, json);
      }
    },
  });
  app.route({
    method: ["GET", "HEAD"],
    url: "/:db/:id",
    handler: (request, reply) => {
      const { db, id } = request.params as { db: string; id: string };
      requireDatabase(context, db);
      return documentAnswer(reply, id, queryPairs(request));
    },
  });
}
