// What clients ask on the way to a view: the server, the database, a document, a design document.

import type { FastifyReply } from "fastify";

import { memberText } from "../sources/index.js";
import { allDocsRoutes } from "./all-docs.js";
import { notFound } from "./errors.js";
import { sendJson, type Routes } from "./routes.js";
import { matchesTag } from "./send.js";
import { queryPairs, requireDatabase } from "./view-handler.js";

const READING = ["GET", "HEAD"] as const;

export function databaseRoutes(routes: Routes): void {
  const { app, context, methods } = routes;
  const { service } = context;
  const get = (
    url: string,
    handler: (reply: FastifyReply) => FastifyReply | Promise<FastifyReply>,
  ): void => {
    app.route({ method: [...READING], url, handler: (_request, reply) => handler(reply) });
    methods.only(url, "GET,HEAD");
  };

  get("/", (reply) =>
    sendJson(reply, {
      couchdb: "Welcome",
      version: "3.5.0",
      vendor: { name: "viewmill" },
      features: [],
    }),
  );
  get("/_all_dbs", (reply) => sendJson(reply, [context.db]));
  get("/_session", (reply) =>
    sendJson(reply, { ok: true, userCtx: { name: null, roles: [] }, info: {} }),
  );

  app.route({
    method: [...READING],
    url: "/:db",
    handler: async (request, reply) => {
      requireDatabase(context, (request.params as { db: string }).db);
      const { updateSeq, documents } = await service.database();
      return sendJson(reply, {
        db_name: context.db,
        update_seq: JSON.parse(updateSeq) as unknown,
        purge_seq: "0",
        doc_count: documents,
        doc_del_count: 0,
        sizes: { file: 0, external: 0, active: 0 },
        props: service.partitioned ? { partitioned: true } : {},
        instance_start_time: "0",
        compact_running: false,
        cluster: { q: 1, n: 1, w: 1, r: 1 },
        disk_format_version: 8,
      });
    },
  });

  const sendDocument = async (
    url: string,
    reply: FastifyReply,
    id: string,
    none: () => Promise<string | undefined>,
  ): Promise<FastifyReply> => {
    const pairs = queryPairs(url);
    const flag = (name: string): boolean => pairs.some(([n, v]) => n === name && v === "true");
    const rev = pairs.findLast(([name]) => name === "rev")?.[1];
    const [found] = await service.documents([
      {
        id,
        ...(rev === undefined ? {} : { rev }),
        conflicts: flag("conflicts"),
        attachments: flag("attachments"),
        attEncodingInfo: flag("att_encoding_info"),
      },
    ]);
    const json = found ?? (await none());
    if (json === undefined) throw notFound();
    const revision = memberText(Buffer.from(json), "_rev");
    if (revision !== undefined && pairs.length === 0) {
      void reply.header("etag", revision);
      if (matchesTag(reply.request.raw, revision)) return reply.code(304).send();
    }
    return sendJson(reply, json);
  };
  allDocsRoutes(routes, "/:db");
  app.route({
    method: [...READING],
    url: "/:db/_design/:ddoc",
    handler: (request, reply) => {
      const { db, ddoc } = request.params as { db: string; ddoc: string };
      requireDatabase(context, db);
      return sendDocument(request.url, reply, `_design/${ddoc}`, () =>
        service.designDocument(ddoc),
      );
    },
  });
  app.route({
    method: [...READING],
    url: "/:db/:id",
    handler: (request, reply) => {
      const { db, id } = request.params as { db: string; id: string };
      requireDatabase(context, db);
      return sendDocument(request.url, reply, id, () => Promise.resolve(undefined));
    },
  });
  for (const url of ["/:db", "/:db/_design/:ddoc", "/:db/:id"]) methods.only(url, "GET,HEAD");
}
