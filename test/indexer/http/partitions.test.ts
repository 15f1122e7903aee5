// Partitions over HTTP (VIEWS §8, §19): both ways to name one, and every way to name it wrongly.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { MemorySource, ViewIndex } from "../../../indexer/index.js";
import { startServer, type RunningServer } from "../../../indexer/http/index.js";
import { viewmill } from "../../helpers/cli.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";
import { ask, design, Serving, type Answer, type AskOptions } from "./serving.js";

removeTempDirs();

let source: MemorySource;
let index: ViewIndex;
let server: RunningServer;

function get(path: string, options?: AskOptions): Promise<Answer> {
  return ask(`${server.url}${path}`, options);
}

const IN = "/db/_partition/a/_design/d/_view";

beforeAll(async () => {
  source = new MemorySource();
  source.put(design() as never);
  source.put({ ...design(), _id: "_design/g", options: { partitioned: false } });
  for (const id of ["a:1", "a:2", "b:1", "ü ber:1"]) source.put({ _id: id, k: id.slice(-1), v: 1 });
  index = await ViewIndex.open({
    dir: tempDir(),
    source,
    partitioned: true,
    mapIn: "threads",
    threads: 1,
  });
  server = await startServer({ port: 0, index });
});

afterAll(async () => {
  await server.close();
  await index.close();
});

describe("a partition", () => {
  test("is named by the path, in CouchDB's bytes", async () => {
    const { status, text } = await get(`${IN}/v`);
    expect(status).toBe(200);
    expect(text).toBe(
      '{"total_rows":4,"offset":0,"rows":[\r\n{"id":"a:1","key":"1","value":1},\r\n{"id":"a:2","key":"2","value":1}\r\n]}\n',
    );
    expect((await get(`${IN}/v/`)).text).toBe(text);
    expect((await get("/db/_partition/a/_design%2fd/_view/v")).text).toBe(text);
    expect((await get(`${IN}/v`, { method: "HEAD" })).status).toBe(200);
  });

  test("is named by a parameter, or by both alike", async () => {
    const { text } = await get(`${IN}/v`);
    expect((await get("/db/_design/d/_view/v?partition=a")).text).toBe(text);
    expect((await get(`${IN}/v?partition=a`)).text).toBe(text);
    expect((await get("/db/_design/d/_view/v", { body: { partition: "a" } })).text).toBe(text);
    expect((await get(`${IN}/v`, { body: {} })).text).toBe(text);
  });

  test("may need escapes", async () => {
    const { json } = await get("/db/_partition/%C3%BC%20ber/_design/d/_view/v");
    expect(json["rows"]).toEqual([{ id: "ü ber:1", key: "1", value: 1 }]);
  });

  test("takes other parameters, of the URL and of a body", async () => {
    expect((await get(`${IN}/v?descending=true&limit=1&include_docs=true`)).json).toMatchObject({
      rows: [{ id: "a:2", doc: { _id: "a:2", k: "2" } }],
    });
    expect((await get(`${IN}/v`, { body: { keys: ["2", "9"] } })).json["rows"]).toHaveLength(1);
    expect((await get(`${IN}/sum`)).json).toEqual({ rows: [{ key: null, value: 2 }] });
    expect((await get(`${IN}/sum?group=true&startkey="2"`)).json).toEqual({
      rows: [{ key: "2", value: 1 }],
    });
  });

  test("answers several queries", async () => {
    const queries = [{ key: "1" }, { group: true, reduce: true }];
    expect((await get(`${IN}/sum/queries`, { body: { queries } })).json).toEqual({
      results: [
        { rows: [{ key: null, value: 1 }] },
        {
          rows: [
            { key: "1", value: 1 },
            { key: "2", value: 1 },
          ],
        },
      ],
    });
    const each = [{ partition: "a" }, { partition: "b" }];
    expect(
      (await get("/db/_design/d/_view/sum/queries", { body: { queries: each } })).json,
    ).toEqual({
      results: [{ rows: [{ key: null, value: 2 }] }, { rows: [{ key: null, value: 1 }] }],
    });
    expect(await get(`${IN}/sum/queries`, { body: { queries: each } })).toMatchObject({
      status: 400,
      json: { reason: "Conflicting value for `partition` in query string" },
    });
  });

  test("has entity tags of its own, which change with the rows", async () => {
    const { headers } = await get(`${IN}/v`);
    const again = { headers: { "if-none-match": headers.etag } };
    expect((await get(`${IN}/v`, again)).status).toBe(304);
    source.put({ _id: "c:1", k: "9", v: 1 });
    expect((await get(`${IN}/v`, again)).status).toBe(200);
    source.delete("c:1");
  });

  test.each([
    [
      "/db/_design/d/_view/v",
      400,
      "query_parse_error",
      "`partition` parameter is mandatory for queries to this view.",
    ],
    [
      "/db/_design/g/_view/v?partition=a",
      400,
      "query_parse_error",
      "`partition` parameter is not supported in this design doc",
    ],
    [
      "/db/_partition/a/_design/g/_view/v",
      400,
      "query_parse_error",
      "`partition` parameter is not supported in this design doc",
    ],
    [
      `${IN}/v?partition=b`,
      400,
      "bad_request",
      "Conflicting value for `partition` in query string",
    ],
    [`${IN}/v?partition=`, 400, "bad_request", "Conflicting value for `partition` in query string"],
    [
      "/db/_partition/a/_design/none/_view/v?partition=b",
      400,
      "bad_request",
      "Conflicting value for `partition` in query string",
    ],
    ["/db/_partition/a/_design/none/_view/v", 404, "not_found", "missing"],
    ["/db/_partition/a/_design/d/_view/none", 404, "not_found", "missing_named_view"],
    ["/db/_partition//_design/d/_view/v", 400, "illegal_partition", "Partition must not be empty"],
    [
      "/db/_partition/_a/_design/d/_view/v",
      400,
      "illegal_partition",
      "Partition must not start with an underscore",
    ],
    [
      "/db/_partition/a:b/_design/d/_view/v",
      400,
      "illegal_partition",
      "Partition must not contain a colon",
    ],
    [
      "/db/_partition/%ff/_design/d/_view/v",
      400,
      "illegal_partition",
      "Partition must be valid UTF-8",
    ],
    ["/db/_design/d/_view/v?partition=", 400, "illegal_partition", "Partition must not be empty"],
    [
      "/db/_design/d/_view/v?partition=_a",
      400,
      "illegal_partition",
      "Partition must not start with an underscore",
    ],
    [
      "/db/_design/d/_view/v?partition=a:b",
      400,
      "illegal_partition",
      "Partition must not contain a colon",
    ],
    [`${IN}/v?group=true`, 400, "query_parse_error", "Invalid use of grouping on a map view."],
    [
      `${IN}/v?startkey=2&endkey=1`,
      400,
      "query_parse_error",
      "No rows can match your key range, reverse your start_key and end_key or set descending=true",
    ],
    ["/other/_partition/a/_design/d/_view/v", 404, "not_found", "Database does not exist."],
    ["/db/_partition", 400, "bad_request", "invalid_partition_req"],
    ["/db/_partition/_a", 400, "illegal_partition", "Partition must not start with an underscore"],
    ["/db/_partition/a:b", 400, "illegal_partition", "Partition must not contain a colon"],
    ["/db/_partition/a/_changes", 404, "not_found", "missing"],
    [
      "/db/_partition/_a/_all_docs",
      400,
      "illegal_partition",
      "Partition must not start with an underscore",
    ],
    [
      "/db/_partition/a/_all_docs?partition=b",
      400,
      "bad_request",
      "Conflicting value for `partition` in query string",
    ],
    ["/other/_partition/a", 404, "not_found", "Database does not exist."],
  ])("GET %s is %d %s", async (path, status, error, reason) => {
    expect(await get(path)).toMatchObject({ status, json: { error, reason } });
  });

  test("must be a string in a body", async () => {
    expect(await get("/db/_design/d/_view/v", { body: { partition: 5 } })).toMatchObject({
      status: 400,
      json: { error: "illegal_partition", reason: "Partition must be a string" },
    });
    expect(await get(`${IN}/v`, { method: "PUT" })).toMatchObject({ status: 405 });
  });

  test("is a matter of the database, which says so", async () => {
    expect((await get("/db")).json["props"]).toEqual({ partitioned: true });
    expect((await get('/db/_design/g/_view/v?key="1"')).json["rows"]).toHaveLength(3);
  });
});

describe("the program", () => {
  test("remembers that its source is partitioned, for query and for serve with several processes", async () => {
    const dir = tempDir();
    const file = join(dir, "docs.ndjson");
    const ddoc = join(dir, "d.json");
    const at = join(dir, "index");
    const docs = ["a:1", "b:1", "b:2", "odd"].map(
      (_id) => `${JSON.stringify({ _id, k: 1, v: 2 })}\n`,
    );
    writeFileSync(file, docs.join(""));
    writeFileSync(ddoc, JSON.stringify(design()));
    const built = await viewmill([
      "build",
      at,
      "--source",
      file,
      "--ddoc",
      ddoc,
      "--partitioned",
      "--json",
    ]);
    expect([built.exit, built.stderr]).toEqual([0, expect.anything()]);
    const told = await viewmill(["query", at, "d/sum", "--partition", "b", "--json"]);
    expect(JSON.parse(told.stdout)).toEqual({ rows: [{ key: null, value: 4 }] });
    const missing = await viewmill(["query", at, "d/v"]);
    expect(missing.exit).not.toBe(0);
    expect(missing.stderr).toContain("`partition` parameter is mandatory");
    const wrong = await viewmill(["query", at, "d/v", "--partition", "_b"]);
    expect([wrong.exit, wrong.stderr]).toEqual([
      2,
      expect.stringContaining("must not start with an underscore"),
    ]);
    writeFileSync(file, [...docs, `${JSON.stringify({ _id: "b:3", k: 1, v: 3 })}\n`].join(""));
    const updated = await viewmill([
      "query",
      at,
      "d/sum",
      "--partition",
      "b",
      "--update",
      "true",
      "--json",
    ]);
    expect(JSON.parse(updated.stdout)).toEqual({ rows: [{ key: null, value: 7 }] });
    const failed = await viewmill(["errors", at, "--json"]);
    expect(JSON.parse(failed.stdout)).toMatchObject({
      id: "odd",
      kind: "document_id",
      error: "illegal_docid",
    });
    const verified = await viewmill(["verify", at]);
    expect(verified.exit).toBe(0);
  });

  test("answers for a partition from processes that only read", async () => {
    const serving = new Serving();
    try {
      serving.feed.put(design(), { _id: "a:1", k: 1, v: 5 }, { _id: "b:1", k: 1, v: 6 });
      await serving.start("--partitioned", "--workers", "1");
      expect((await serving.ask("/db/_partition/b/_design/d/_view/sum")).json).toEqual({
        rows: [{ key: null, value: 6 }],
      });
      serving.feed.put({ _id: "b:2", k: 1, v: 1 });
      expect((await serving.ask("/db/_design/d/_view/sum?partition=b")).json).toEqual({
        rows: [{ key: null, value: 7 }],
      });
      expect(await serving.view()).toMatchObject({
        status: 400,
        json: { error: "query_parse_error" },
      });
    } finally {
      await serving.remove();
    }
  });
});

test("a partition tells what it holds", async () => {
  const { status, text } = await get("/db/_partition/a");
  expect(status).toBe(200);
  expect(text).toBe(
    '{"db_name":"db","sizes":{"active":0,"external":0},"partition":"a","doc_count":2,"doc_del_count":0}\n',
  );
  expect((await get("/db/_partition/%C3%BC%20ber")).json["doc_count"]).toBe(1);
  expect((await get("/db/_partition/nobody")).json["doc_count"]).toBe(0);
  expect(await get("/db/_partition/a", { method: "HEAD" })).toMatchObject({
    status: 200,
    text: "",
  });
});

test("the list of a partition's documents is there under its path too", async () => {
  const inPath = "/db/_partition/a/_all_docs";
  const { status, text } = await get(inPath);
  expect(status).toBe(200);
  expect(text).toBe((await get("/db/_all_docs?partition=a")).text);
  expect((await get(`${inPath}?descending=true&limit=1`)).json["rows"]).toMatchObject([
    { id: "a:2" },
  ]);
  expect((await get(inPath, { body: { skip: 1 } })).json["rows"]).toMatchObject([{ id: "a:2" }]);
  expect((await get(`${inPath}?include_docs=true`)).json["rows"]).toMatchObject([
    { doc: { _id: "a:1" } },
    { doc: { _id: "a:2" } },
  ]);
  const several = await get(`${inPath}/queries`, {
    body: { queries: [{ limit: 1 }, { skip: 1 }] },
  });
  expect(several.json["results"]).toMatchObject([
    { rows: [{ id: "a:1" }] },
    { rows: [{ id: "a:2" }] },
  ]);
});

test.each([
  ["POST", "/db/_partition/a", "GET"],
  ["PATCH", "/db/_partition/a", "GET"],
  ["PATCH", "/db/_partition/a/_all_docs", "GET,HEAD,POST"],
  ["GET", "/db/_partition/a/_all_docs/queries", "POST"],
])("%s %s is refused", async (method, path, allowed) => {
  const answer = await get(path, { method });
  expect(answer).toMatchObject({
    status: 405,
    json: { error: "method_not_allowed", reason: `Only ${allowed} allowed` },
  });
  expect(answer.headers.allow).toBe(allowed);
});

test("the list of documents is cut to a partition", async () => {
  const idsOf = async (query: string): Promise<unknown[]> =>
    ((await get(`/db/_all_docs?${query}`)).json["rows"] as { id: unknown }[]).map(({ id }) => id);
  expect(await idsOf("partition=a")).toEqual(["a:1", "a:2"]);
  expect(await idsOf("partition=a&descending=true")).toEqual(["a:2", "a:1"]);
  expect(await idsOf('partition=a&startkey="a:2"&endkey="b:9"')).toEqual(["a:2"]);
  expect(await idsOf('partition=a&startkey="b:9"&endkey="a:2"&descending=true')).toEqual(["a:2"]);
  expect(await idsOf('partition=a&startkey="b:1"')).toEqual([]);
  expect((await get("/db/_all_docs?partition=_a")).json["error"]).toBe("illegal_partition");
});
