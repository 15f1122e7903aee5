// Views over HTTP: routes, methods, errors, headers, caching, compression.

import { gunzipSync, gzipSync } from "node:zlib";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { removeTempDirs } from "../../helpers/temp-dir.js";
import { local, type Local } from "./in-process.js";
import { design } from "./serving.js";

removeTempDirs();

let here: Local;

beforeAll(async () => {
  here = await local();
  here.source.put(
    design({
      first: {
        map: "function (doc) { emit(doc.k, doc.v); }",
        reduce: "function (keys, values) { return values[0]; }",
      },
      bad: { map: "function (doc) { emit(doc.k, null); }", reduce: "_stats" },
      long: {
        map: "function (doc) { for (var i = 0; i < 2000; i++) emit([doc.k, i], 'some text that repeats'); }",
      },
    }) as never,
  );
  here.source.put({ _id: "a", k: 1, v: 10 });
  here.source.put({ _id: "b", k: 2, v: 20 });
});

afterAll(() => here.close());

describe("a view's address", () => {
  test("answers GET with CouchDB's bytes and headers", async () => {
    const { status, headers, text } = await here.view();
    expect(status).toBe(200);
    expect(text).toBe(
      '{"total_rows":2,"offset":0,"rows":[\r\n{"id":"a","key":1,"value":10},\r\n{"id":"b","key":2,"value":20}\r\n]}\n',
    );
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["cache-control"]).toBe("must-revalidate");
    expect(headers["content-length"]).toBe(String(text.length));
  });

  test("answers HEAD with the same headers and no body", async () => {
    const get = await here.view("?key=1");
    const { status, headers, text } = await here.view("?key=1", { method: "HEAD" });
    expect([status, text]).toEqual([200, ""]);
    expect(headers["content-length"]).toBe(get.headers["content-length"]);
    expect(headers.etag).toBe(get.headers.etag);
  });

  test("takes escapes that are none as they are written", async () => {
    here.source.put({ _id: "percent", k: "100%é", v: 1 });
    const { json } = await here.view(
      "?key=%22100%%C3%A9%22&startkey_docid=%FF%&%zz=1&reduce=false",
    );
    expect((await here.view("?key=%22100%%C3%A9%22&%zz=1&reduce=false")).json["rows"]).toEqual([
      { id: "percent", key: "100%é", value: 1 },
    ]);
    expect(json["rows"]).toEqual([]);
    here.source.delete("percent");
  });

  test("answers POST with parameters in the body, those of the URL before them", async () => {
    const { json } = await here.view("?limit=1", { body: { keys: [2, 1], limit: 5 } });
    expect(json["rows"]).toEqual([{ id: "b", key: 2, value: 20 }]);
    const compressed = await here.view("", {
      method: "POST",
      headers: { "content-encoding": "gzip", "content-type": "application/json" },
      body: gzipSync('{"key":1}'),
    });
    expect(compressed.json["rows"]).toEqual([{ id: "a", key: 1, value: 10 }]);
  });

  test("may be written with an escaped slash, and with one at its end", async () => {
    const plain = await here.view();
    expect((await here.ask("/db/_design%2Fd/_view/v")).text).toBe(plain.text);
    expect((await here.ask("/db/_design%2fd/_view/v/")).text).toBe(plain.text);
  });

  test.each([
    ["PUT", "", 405, "method_not_allowed", "Only GET,POST,HEAD allowed"],
    ["DELETE", "", 405, "method_not_allowed", "Only GET,POST,HEAD allowed"],
    ["GET", "/queries", 405, "method_not_allowed", "Only POST allowed"],
    ["PUT", "/queries", 405, "method_not_allowed", "Only POST allowed"],
    ["GET", "?group=true", 400, "query_parse_error", "Invalid use of grouping on a map view."],
    ["GET", "?key=oops", 400, "bad_request", "invalid UTF-8 JSON"],
    ["GET", "?start_key=%22%FF%22", 400, "bad_request", "invalid UTF-8 JSON"],
    ["GET", "?limit=-1", 400, "query_parse_error", 'Invalid value for positive integer: "-1"'],
    [
      "GET",
      "?partition=p",
      400,
      "query_parse_error",
      "`partition` parameter is not supported in this design doc",
    ],
    [
      "GET",
      "?startkey=2&endkey=1",
      400,
      "query_parse_error",
      "No rows can match your key range, reverse your start_key and end_key or set descending=true",
    ],
  ])("%s %s is %d %s", async (method, suffix, status, error, reason) => {
    const answer = await here.view(suffix, { method });
    expect(answer.status).toBe(status);
    expect(answer.json).toEqual({ error, reason });
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(answer.headers.allow).toBe(/^Only (.*) allowed$/.exec(reason)?.[1]);
  });

  test.each([
    ["/db/_design/d/_view/none", 404, "not_found", "missing_named_view"],
    ["/db/_design/none/_view/v", 404, "not_found", "missing"],
    ["/db/_design/none/_view/v?limit=oops", 404, "not_found", "missing"],
    ["/other/_design/d/_view/v", 404, "not_found", "Database does not exist."],
    ["/db/_partition/p/_design/d/_view/v", 400, "bad_request", "database is not partitioned"],
    ["/db/_partition/p", 400, "bad_request", "database is not partitioned"],
    ["/db/_design/d/_view/%ff", 400, "bad_request", "the URL's %ff is not percent-encoded UTF-8"],
  ])("GET %s is %d %s", async (path, status, error, reason) => {
    expect(await here.ask(path)).toMatchObject({ status, json: { error, reason } });
  });

  test("reads a body only as JSON", async () => {
    const plain = await here.view("", { body: "{}", headers: { "content-type": "text/plain" } });
    expect(plain).toMatchObject({
      status: 415,
      json: { error: "bad_content_type", reason: "Content-Type must be application/json" },
    });
    expect(await here.view("", { body: "[]" })).toMatchObject({
      status: 400,
      json: { reason: "Request body must be a JSON object" },
    });
    expect(await here.view("", { body: "{" })).toMatchObject({
      status: 400,
      json: { reason: "invalid UTF-8 JSON" },
    });
    expect(await here.view("", { body: '{"queries":[]}' })).toMatchObject({
      status: 400,
      json: { reason: "The `queries` parameter is no longer supported at this endpoint" },
    });
  });
});

describe("several queries", () => {
  const queries = "/queries";

  test("are answered in order, with the URL's parameters as defaults", async () => {
    const { text } = await here.view(`${queries}?limit=1`, { body: { queries: [{}, { key: 2 }] } });
    expect(text).toBe(
      '{"results":[\r\n{"total_rows":2,"offset":0,"rows":[\r\n{"id":"a","key":1,"value":10}\r\n]},\r\n{"total_rows":2,"offset":1,"rows":[\r\n{"id":"b","key":2,"value":20}\r\n]}\r\n]}\n',
    );
    expect((await here.view(queries, { body: { queries: [] } })).json).toEqual({ results: [] });
  });

  test("are all refused for one that is wrong", async () => {
    expect(await here.view(queries, { body: {} })).toMatchObject({
      status: 400,
      json: { error: "bad_request", reason: "POST body must include `queries` parameter." },
    });
    expect(await here.view(queries, { body: { queries: [{}, { limit: "x" }] } })).toMatchObject({
      status: 400,
    });
    expect(await here.view(queries, { body: { queries: {} } })).toMatchObject({
      status: 400,
      json: { reason: "`queries` member must be an array." },
    });
  });
});

describe("caching", () => {
  test("a client that has the answer already gets 304", async () => {
    const first = await here.view("?key=2");
    const etag = first.headers.etag ?? "";
    expect(etag).toMatch(/^"[\w-]+"$/);
    for (const tag of [etag, `W/${etag}`, `"x", ${etag}`, "*"]) {
      const again = await here.view("?key=2", { headers: { "if-none-match": tag } });
      expect([again.status, again.text, again.headers.etag]).toEqual([304, "", etag]);
    }
    expect((await here.view("?key=1", { headers: { "if-none-match": etag } })).status).toBe(200);
    expect((await here.view("?key=2", { headers: { "if-none-match": '"x"' } })).status).toBe(200);
  });

  test("the tag changes with the rows, and only with them", async () => {
    const before = await here.view("?key=1");
    here.source.put({ _id: "c", k: 3, v: 30 });
    const after = await here.view("?key=1");
    expect(after.headers.etag).not.toBe(before.headers.etag);
    const sequence = await here.view("?update_seq=true");
    here.source.put({ _id: "c", k: 3, v: 30, other: 1 });
    expect((await here.view("?key=1")).headers.etag).toBe(after.headers.etag);
    expect((await here.view("?update_seq=true")).headers.etag).not.toBe(sequence.headers.etag);
    here.source.delete("c");
  });

  test("long answers have one too; answers that depend on more than rows have none", async () => {
    const long = await here.ask("/db/_design/d/_view/long");
    expect(long.text.length).toBeGreaterThan(100_000);
    expect(long.headers.etag).toBeDefined();
    expect(long.headers["content-length"]).toBeUndefined();
    const again = await here.ask("/db/_design/d/_view/long", {
      headers: { "if-none-match": long.headers.etag },
    });
    expect(again.status).toBe(304);
    expect((await here.view("?include_docs=true")).headers.etag).toBeUndefined();
    expect((await here.view("?explain=true")).headers.etag).toBeUndefined();
    expect((await here.view("", { body: {} })).headers.etag).toBeUndefined();
  });
});

describe("representations", () => {
  test.each(["/db/_design/d/_view/long", "/db/_design/d/_view/long?limit=100"])(
    "gzip on request: %s",
    async (path) => {
      const plain = await here.ask(path);
      const { request } = await import("node:http");
      const zipped = await new Promise<{
        encoding: string | undefined;
        etag: string | undefined;
        body: Buffer;
      }>((resolve) => {
        request(
          `${here.server.url}${path}`,
          { headers: { "accept-encoding": "deflate, gzip;q=0.5" } },
          (response) => {
            const parts: Buffer[] = [];
            response.on("data", (part: Buffer) => parts.push(part));
            response.on("end", () => {
              const { etag } = response.headers;
              resolve({
                encoding: response.headers["content-encoding"],
                etag,
                body: Buffer.concat(parts),
              });
            });
          },
        ).end();
      });
      expect(zipped.encoding).toBe("gzip");
      expect(gunzipSync(zipped.body).toString()).toBe(plain.text);
      expect(zipped.etag).not.toBe(plain.headers.etag);
      const known = { "if-none-match": zipped.etag, "accept-encoding": "gzip" };
      expect((await here.ask(path, { headers: known })).status).toBe(304);
    },
  );

  test("no gzip for short answers, or when it is refused", async () => {
    const short = await here.view("", { headers: { "accept-encoding": "gzip" } });
    expect(short.headers["content-encoding"]).toBeUndefined();
    const refused = await here.ask("/db/_design/d/_view/long", {
      headers: { "accept-encoding": "gzip;q=0, br" },
    });
    expect(refused.headers["content-encoding"]).toBeUndefined();
  });

  test("text/plain for clients that do not take JSON", async () => {
    const { headers, status } = await here.view("", { headers: { accept: "text/html" } });
    expect([status, headers["content-type"]]).toEqual([200, "text/plain; charset=utf-8"]);
  });
});

describe("explain", () => {
  test("adds what the query cost, and changes nothing else", async () => {
    for (const path of [
      "/db/_design/d/_view/v",
      "/db/_design/d/_view/sum?group=true",
      "/db/_design/d/_view/first",
    ]) {
      const mark = path.includes("?") ? "&" : "?";
      const plain = await here.ask(path);
      const explained = await here.ask(`${path}${mark}explain=true`);
      const { explain, ...rest } = explained.json;
      expect(rest).toEqual(plain.json);
      const start = explained.text.indexOf(',"explain":');
      expect(`${explained.text.slice(0, start)}}\n`).toBe(plain.text);
      expect(explain).toMatchObject({
        nodes_read: expect.any(Number) as unknown,
        cache_hits: expect.any(Number) as unknown,
        rows_scanned: expect.any(Number) as unknown,
        milliseconds: { update: expect.any(Number) as unknown },
      });
    }
  });
});

describe("failing reduces", () => {
  test("are an ordinary error answer as long as nothing was sent", async () => {
    const bad = await here.ask("/db/_design/d/_view/bad");
    expect(bad).toMatchObject({ status: 500, json: { error: "invalid_value" } });
    expect((await here.ask("/db/_design/d/_view/bad?reduce=false")).status).toBe(200);
  });
});
