// What is asked around views: the server, the database, documents, information, tasks, compaction, cleanup, metrics.

import { readdirSync } from "node:fs";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { removeTempDirs } from "../../helpers/temp-dir.js";
import { local, type Local } from "./in-process.js";
import { design } from "./serving.js";

removeTempDirs();

let here: Local;

beforeAll(async () => {
  here = await local({ db: "shop" });
  here.source.put(design() as never);
  here.source.put({ _id: "a/b", _rev: "1-a", k: 1, v: 1 });
});

afterAll(() => here.close());

const JSON_TYPE = { "content-type": "application/json" };
const post = (path: string, headers = JSON_TYPE) =>
  here.ask(path, { method: "POST", body: "{}", headers });

test("before anybody asked for rows, an index has everything still to do", async () => {
  const before = await here.ask("/shop/_design/d/_info");
  expect(before.json).toMatchObject({
    name: "d",
    view_index: { update_seq: 0, updates_pending: { total: 2 } },
  });
});

describe("what clients ask on the way", () => {
  test("the server", async () => {
    expect((await here.ask("/")).json).toMatchObject({ couchdb: "Welcome" });
    expect((await here.ask("/_up")).json).toEqual({ status: "ok" });
    for (const path of ["/_up", "/_metrics", "/_active_tasks"]) {
      const head = await here.ask(path, { method: "HEAD" });
      expect([head.status, head.text]).toEqual([200, ""]);
    }
    expect((await here.ask("/_all_dbs")).text).toBe('["shop"]\n');
    expect((await here.ask("/_session")).json).toMatchObject({ ok: true });
    expect(await here.ask("/_nothing")).toMatchObject({
      status: 404,
      json: { error: "not_found" },
    });
  });

  test("the database, with or without a slash", async () => {
    for (const path of ["/shop", "/shop/"])
      expect(await here.ask(path)).toMatchObject({
        status: 200,
        json: { db_name: "shop", update_seq: 2, doc_count: 2 },
      });
    expect((await here.ask("/shop", { method: "HEAD" })).status).toBe(200);
    expect(await here.ask("/none/")).toMatchObject({
      status: 404,
      json: { reason: "Database does not exist." },
    });
    expect(await here.ask("/shop", { method: "PUT" })).toMatchObject({
      status: 405,
      json: { reason: "Only GET,HEAD allowed" },
    });
  });

  test("documents, with their revision as ETag", async () => {
    const answer = await here.ask("/shop/a%2Fb");
    expect(answer).toMatchObject({ status: 200, json: { _id: "a/b", k: 1 } });
    expect(answer.headers.etag).toBe('"1-a"');
    expect((await here.ask("/shop/a%2Fb", { headers: { "if-none-match": '"1-a"' } })).status).toBe(
      304,
    );
    expect((await here.ask("/shop/a%2Fb?rev=1-a")).status).toBe(200);
    expect(await here.ask("/shop/a%2Fb?rev=1-b")).toMatchObject({
      status: 404,
      json: { error: "not_found", reason: "missing" },
    });
    expect((await here.ask("/shop/none")).status).toBe(404);
  });

  test("design documents, escaped or not", async () => {
    for (const path of ["/shop/_design/d", "/shop/_design%2Fd", "/shop/_design%2fd"])
      expect(await here.ask(path)).toMatchObject({ status: 200, json: { _id: "_design/d" } });
    expect((await here.ask("/shop/_design/none")).status).toBe(404);
  });
});

describe("looking after an index", () => {
  test("_info tells what is there and what is still to do", async () => {
    await here.ask("/shop/_design/d/_view/v");
    const after = await here.ask("/shop/_design/d/_info");
    expect(after.json).toEqual({
      name: "d",
      view_index: {
        signature: expect.stringMatching(/^[0-9a-f]{32}$/) as unknown,
        language: "javascript",
        sizes: {
          file: expect.any(Number) as unknown,
          external: expect.any(Number) as unknown,
          active: expect.any(Number) as unknown,
        },
        update_seq: 2,
        purge_seq: 0,
        updater_running: false,
        compact_running: false,
        waiting_commit: expect.any(Boolean) as unknown,
        waiting_clients: 0,
        updates_pending: { minimum: 0, preferred: 0, total: 0 },
        collator_versions: [expect.any(String) as unknown],
      },
    });
    expect((await here.ask("/shop/_design/none/_info")).status).toBe(404);
    expect((await here.ask("/shop/_design/d/_info", { method: "PUT" })).status).toBe(405);
  });

  test.each([
    ["/", "GET,HEAD"],
    ["/_up", "GET,HEAD"],
    ["/_metrics", "GET,HEAD"],
    ["/_session", "GET,HEAD"],
    ["/_all_dbs", "GET,HEAD"],
    ["/_active_tasks", "GET,HEAD"],
    ["/shop", "GET,HEAD"],
    ["/shop/", "GET,HEAD"],
    ["/shop/a%2Fb", "GET,HEAD"],
    ["/shop/_design/d", "GET,HEAD"],
    ["/shop/_all_docs", "GET,HEAD,POST"],
    ["/shop/_all_docs?limit=1", "GET,HEAD,POST"],
    ["/shop/_all_docs/queries", "POST"],
    ["/shop/_design/d/_info", "GET"],
    ["/shop/_design/d/_view/v", "GET,POST,HEAD"],
    ["/shop/_design/d/_view/v/queries", "POST"],
    ["/shop/_compact/d", "POST"],
    ["/shop/_view_cleanup", "POST"],
    ["/shop/_temp_view", "POST"],
  ])("%s answers to its own methods and no others", async (path, allowed) => {
    for (const method of ["PATCH", "OPTIONS", "COPY", "PUT", "DELETE", "PROPFIND", "HEAD", "GET"]) {
      const answer = await here.ask(path, { method });
      if (allowed.split(",").includes(method) || (method === "HEAD" && allowed === "GET")) {
        expect(answer.status).toBe(200);
        continue;
      }
      expect(answer.status).toBe(405);
      expect(answer.headers.allow).toBe(allowed);
      if (method !== "HEAD")
        expect(answer.json).toEqual({
          error: "method_not_allowed",
          reason: `Only ${allowed} allowed`,
        });
    }
  });

  test("_compact rewrites the file, and queries go on", async () => {
    for (let i = 0; i < 50; i++) {
      here.source.put({ _id: "c", k: i, v: i });
      await here.ask("/shop/_design/d/_view/v");
    }
    const before = await here.ask("/shop/_design/d/_view/v");
    expect(await post("/shop/_compact/d")).toMatchObject({ status: 202, json: { ok: true } });
    for (;;) {
      const { json } = await here.ask("/shop/_design/d/_info");
      if ((json["view_index"] as { compact_running: boolean }).compact_running) continue;
      break;
    }
    const after = await here.ask("/shop/_design/d/_view/v");
    expect(after.text).toBe(before.text);
    expect(after.headers.etag).not.toBe(before.headers.etag);
    expect(await post("/shop/_compact/none")).toMatchObject({ status: 404 });
    expect(await post("/shop/_compact/d", { "content-type": "text/plain" })).toMatchObject({
      status: 415,
      json: { error: "bad_content_type" },
    });
    expect(await here.ask("/shop/_compact/d")).toMatchObject({
      status: 405,
      json: { reason: "Only POST allowed" },
    });
  });

  test("_view_cleanup removes what no design document uses", async () => {
    here.source.put({
      _id: "_design/old",
      views: { v: { map: "function (doc) { emit(doc.v); }" } },
    });
    await here.ask("/shop/_design/old/_view/v");
    const { dir } = await here.index.info();
    const files = (): number => readdirSync(dir).filter((name) => name.endsWith(".vmx")).length;
    expect(files()).toBe(2);
    here.source.delete("_design/old");
    expect(await post("/shop/_view_cleanup")).toMatchObject({ status: 202, json: { ok: true } });
    expect(files()).toBe(1);
    expect((await here.ask("/shop/_design/old/_view/v")).status).toBe(404);
  });

  test("_active_tasks lists a running update", async () => {
    here.source.put({
      _id: "_design/slow",
      views: {
        v: { map: "function (doc) { var x = 0; for (var i = 0; i < 3e8; i++) x += i; emit(x); }" },
      },
    });
    const query = here.ask("/shop/_design/slow/_view/v");
    let tasks: Record<string, unknown>[] = [];
    while (tasks.length === 0)
      tasks = JSON.parse((await here.ask("/_active_tasks")).text) as Record<string, unknown>[];
    expect(tasks[0]).toMatchObject({
      type: "indexer",
      database: "shop",
      design_document: "_design/slow",
      progress: expect.any(Number) as unknown,
    });
    expect(Date.now() / 1000 - (tasks[0]?.["started_on"] as number)).toBeLessThan(600);
    const { json } = await here.ask("/shop/_design/slow/_info");
    expect(json).toMatchObject({ view_index: { updater_running: true, waiting_clients: 1 } });
    expect((await query).status).toBe(200);
  });

  test("_metrics counts requests and measures indexes", async () => {
    const { text, headers } = await here.ask("/_metrics");
    expect(headers["content-type"]).toMatch(/^text\/plain/);
    expect(text).toMatch(/^viewmill_requests_total\{status="200"\} \d+$/m);
    expect(text).toMatch(/^viewmill_query_seconds_count \d+$/m);
    expect(text).toMatch(/^viewmill_index_documents\{ddoc="_design\/d"\} \d+$/m);
  });

  test("temporary views are gone", async () => {
    expect(await post("/shop/_temp_view")).toMatchObject({ status: 410, json: { error: "gone" } });
  });
});
