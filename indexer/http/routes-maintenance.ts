// Looking after an index over HTTP (VIEWS §21): information, tasks, compaction, cleanup, health, metrics.

import type { FastifyInstance, FastifyRequest } from "fastify";

import type { GroupInfo } from "../view-index.js";
import { designId } from "../views/designs.js";
import { methodNotAllowed, notFound, RequestError } from "./errors.js";
import { requireDatabase } from "./routes-view.js";
import type { HttpContext } from "./server.js";

interface DatabaseParams {
  readonly db: string;
  readonly ddoc: string;
}

export function maintenanceRoutes(app: FastifyInstance, context: HttpContext): void {
  const { index, metrics } = context;
  const paramsOf = (request: FastifyRequest): DatabaseParams => {
    const params = request.params as DatabaseParams;
    requireDatabase(context, params.db);
    return params;
  };

  app.get("/_up", (_request, reply) => reply.type("application/json").send('{"status":"ok"}\n'));

  app.get("/_metrics", async (_request, reply) => {
    const { groups } = await index.info();
    const gauges = groups.flatMap((group) => [
      { name: "viewmill_index_bytes", help: "Size of the index file.", value: group.sizes.file, labels: `ddoc=${JSON.stringify(group.designDocument)}` },
    ]);
    const documents = groups.map((group) => ({
      name: "viewmill_index_documents",
      help: "Documents in the index.",
      value: group.documents,
      labels: `ddoc=${JSON.stringify(group.designDocument)}`,
    }));
    const errors = groups.map((group) => ({
      name: "viewmill_index_errors",
      help: "Error records in the index.",
      value: group.errors,
      labels: `ddoc=${JSON.stringify(group.designDocument)}`,
    }));
    return reply.type("text/plain; version=0.0.4").send(metrics.text([...gauges, ...documents, ...errors]));
  });

  app.get("/_active_tasks", async (_request, reply) => {
    const { groups } = await index.info();
    const tasks = groups.filter(({ updaterRunning }) => updaterRunning).map((group) => task(context.db, group));
    return reply.type("application/json").send(`${JSON.stringify(tasks)}\n`);
  });

  app.get("/:db/_design/:ddoc/_info", async (request, reply) => {
    const { ddoc } = paramsOf(request);
    const { groups } = await index.info();
    const group = groups.find(({ designDocument }) => designDocument === designId(ddoc));
    if (!group) throw notFound();
    const { signature, language, sizes, updateSeq, updaterRunning, collatorVersions } = group;
    return reply.type("application/json").send(
      `${JSON.stringify({
        name: ddoc,
        view_index: {
          signature,
          language,
          sizes: { file: sizes.file, external: sizes.external, active: sizes.active },
          update_seq: updateSeq === null ? 0 : (JSON.parse(updateSeq) as unknown),
          purge_seq: 0,
          updater_running: updaterRunning,
          compact_running: false,
          waiting_commit: false,
          waiting_clients: 0,
          updates_pending: { minimum: 0, preferred: 0, total: 0 },
          collator_versions: collatorVersions,
        },
      })}\n`,
    );
  });

  app.post("/:db/_view_cleanup", async (request, reply) => {
    paramsOf(request);
    await index.cleanup();
    return reply.code(202).type("application/json").send('{"ok":true}\n');
  });

  app.post("/:db/_temp_view", (request) => {
    paramsOf(request);
    throw new RequestError(410, "gone", "Temporary views are not supported in CouchDB");
  });

  for (const url of ["/:db/_view_cleanup", "/:db/_temp_view"])
    app.route({
      method: ["GET", "HEAD", "PUT", "DELETE"],
      url,
      handler: () => {
        throw methodNotAllowed("POST");
      },
    });
}

function task(db: string, group: GroupInfo): Record<string, unknown> {
  const { progress } = group;
  const total = progress?.bytesTotal ?? progress?.changesTotal ?? 0;
  const done = progress?.bytesTotal === undefined ? (progress?.documents ?? 0) : (progress.bytes ?? 0);
  const now = Math.floor(Date.now() / 1000);
  return {
    type: "indexer",
    database: db,
    design_document: group.designDocument,
    changes_done: progress?.documents ?? 0,
    total_changes: progress?.changesTotal ?? 0,
    progress: total > 0 ? Math.floor((100 * Math.min(done, total)) / total) : 0,
    started_on: now,
    updated_on: now,
    pid: `<0.${process.pid}.0>`,
    process_status: "running",
    node: "viewmill@127.0.0.1",
  };
}
