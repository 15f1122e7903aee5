// Looking after an index over HTTP (VIEWS §21): information, tasks, compaction, cleanup, health, metrics.

import type { FastifyReply, FastifyRequest } from "fastify";

import type { GroupInfo } from "../view-index.js";
import { methodNotAllowed, notFound, RequestError } from "./errors.js";
import { sendJson, type Routes } from "./routes.js";
import type { CompactionTask } from "./service.js";
import { requireDatabase } from "./view-handler.js";

interface DatabaseParams {
  readonly db: string;
  readonly ddoc: string;
}

export function maintenanceRoutes({ app, context, methods }: Routes): void {
  const { service } = context;
  const paramsOf = (request: FastifyRequest): DatabaseParams => {
    const params = request.params as DatabaseParams;
    requireDatabase(context, params.db);
    return params;
  };
  const post = (url: string, handler: (request: FastifyRequest) => Promise<void>): void => {
    app.post(url, async (request, reply) => {
      if (!/^application\/json\b/i.test(request.headers["content-type"] ?? ""))
        throw new RequestError(415, "bad_content_type", "Content-Type must be application/json");
      await handler(request);
      return sendJson(reply.code(202), '{"ok":true}');
    });
    onlyPost(url);
  };
  /** Reading would be taken for reading a document of that name. */
  const onlyPost = (url: string): void => {
    methods.only(url, "POST");
    app.route({
      method: ["GET", "HEAD"],
      url,
      handler: () => {
        throw methodNotAllowed("POST");
      },
    });
  };

  const get = (
    url: string,
    handler: (reply: FastifyReply) => FastifyReply | Promise<FastifyReply>,
  ): void => {
    app.route({ method: ["GET", "HEAD"], url, handler: (_request, reply) => handler(reply) });
    methods.only(url, "GET,HEAD");
  };

  get("/_up", (reply) => sendJson(reply, '{"status":"ok"}'));
  get("/_metrics", async (reply) => {
    const text = await service.metrics();
    return reply.type("text/plain; version=0.0.4; charset=utf-8").send(text);
  });
  get("/_active_tasks", async (reply) => {
    const { groups } = await service.info(false);
    const updates = groups
      .filter(({ updaterRunning }) => updaterRunning)
      .map((group) => indexerTask(context.db, group));
    const compactions = (await service.compactions()).map((one) => compactionTask(context.db, one));
    return sendJson(reply, [...updates, ...compactions]);
  });

  const info = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    const { ddoc } = paramsOf(request);
    const { groups } = await service.info(true);
    const group = groups.find(({ designDocument }) => designDocument === `_design/${ddoc}`);
    if (!group) throw notFound();
    const compacting = (await service.compactions()).some(
      ({ designDocument }) => designDocument === group.designDocument,
    );
    const pending = await service.pending(ddoc);
    const {
      signature,
      language,
      sizes,
      updateSeq,
      updaterRunning,
      waitingClients,
      waitingCommit,
      collatorVersions,
    } = group;
    return sendJson(reply, {
      name: ddoc,
      view_index: {
        signature,
        language,
        sizes: { file: sizes.file, external: sizes.external, active: sizes.active },
        update_seq: updateSeq === null ? 0 : (JSON.parse(updateSeq) as unknown),
        purge_seq: group.purgeSeq === null ? 0 : purgeSeqOf(group.purgeSeq),
        updater_running: updaterRunning,
        compact_running: compacting,
        waiting_commit: waitingCommit,
        waiting_clients: waitingClients,
        updates_pending: { minimum: pending, preferred: pending, total: pending },
        collator_versions: collatorVersions,
      },
    });
  };
  // CouchDB answers HEAD too, and does not say so.
  app.route({ method: ["GET", "HEAD"], url: "/:db/_design/:ddoc/_info", handler: info });
  methods.only("/:db/_design/:ddoc/_info", "GET");

  post("/:db/_compact/:ddoc", async (request) => {
    await service.compact(paramsOf(request).ddoc);
  });
  post("/:db/_view_cleanup", async (request) => {
    paramsOf(request);
    await service.cleanup();
  });

  app.post("/:db/_temp_view", (request) => {
    paramsOf(request);
    throw new RequestError(410, "gone", "Temporary views are not supported in CouchDB");
  });
  onlyPost("/:db/_temp_view");
}

function purgeSeqOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** What all tasks have. */
function taskBase(db: string, design: string, startedOn: number): Record<string, unknown> {
  return {
    node: "viewmill@127.0.0.1",
    pid: `<0.${process.pid}.0>`,
    process_status: "running",
    database: db,
    design_document: design,
    started_on: startedOn,
    updated_on: Math.floor(Date.now() / 1000),
  };
}

function percent(done: number, total: number): number {
  return total > 0 ? Math.floor((100 * Math.min(done, total)) / total) : 0;
}

function indexerTask(db: string, group: GroupInfo): Record<string, unknown> {
  const { progress, updaterStarted } = group;
  const base = taskBase(
    db,
    group.designDocument,
    Math.floor((updaterStarted ?? Date.now()) / 1000),
  );
  const changes = progress?.documents ?? 0;
  const merging = progress?.phase === "merge";
  const [done, total] = merging
    ? [progress.merged, progress.mergeTotal]
    : progress?.bytesTotal === undefined
      ? [changes, progress?.changesTotal ?? 0]
      : [progress.bytes ?? 0, progress.bytesTotal];
  return {
    type: "indexer",
    ...base,
    indexer_pid: base["pid"],
    changes_done: changes,
    total_changes:
      progress?.changesTotal ??
      (done > 0 && !merging ? Math.max(changes, Math.round((changes / done) * total)) : changes),
    progress: percent(done, total),
  };
}

function compactionTask(db: string, task: CompactionTask): Record<string, unknown> {
  const { phase, done, total } = task;
  return {
    type: "view_compaction",
    ...taskBase(db, task.designDocument, task.startedOn),
    phase,
    view: null,
    changes_done: done,
    total_changes: total,
    progress: percent(done, total),
  };
}
