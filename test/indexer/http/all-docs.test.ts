// The list of documents, and what a database tells of itself, against the documents that were written.

import { gzipSync } from "node:zlib";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { Serving, design, type Answer } from "./serving.js";

interface DocRow {
  readonly id?: string;
  readonly key: unknown;
  readonly value?: { readonly rev: string; readonly deleted?: boolean };
  readonly doc?: Readonly<Record<string, unknown>> | null;
  readonly error?: string;
}

const INCOMPATIBLE = "`keys` is incompatible with `key`, `start_key` and `end_key`";

describe.each([[[]], [["--workers", "2"]]])("_all_docs of serve %j", (flags) => {
  const serving = new Serving();
  /** Ids in the order of their bytes. */
  let ids: string[] = [];

  const list = async (query = "", body?: unknown): Promise<Answer> =>
    serving.ask(`/db/_all_docs${query}`, body === undefined ? {} : { body });
  const rowsOf = (answer: Answer): readonly DocRow[] => answer.json["rows"] as DocRow[];
  const idsOf = (answer: Answer): unknown[] => rowsOf(answer).map(({ id }) => id);

  beforeAll(async () => {
    serving.feed.put(design());
    const made = ["B", "a", "b", "_zeta", "ä", "z\u0000", "😀", "~", "A0"];
    for (let i = 0; i < 250; i++) made.push(`doc-${String(i).padStart(4, "0")}`);
    // Some have rows in the view, others have none.
    serving.feed.put(...made.map((_id, i) => (i % 2 === 0 ? { _id, k: i, v: i } : { _id })));
    serving.feed.put({ _id: "gone" }, { _id: "doc-0000", k: 1, v: 2 });
    serving.feed.put({ _id: "gone", _deleted: true });
    ids = [...made, "_design/d"].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    await serving.start(...flags);
  });
  afterAll(() => serving.remove());

  test("before any view was asked, the database counts its documents", async () => {
    const { json } = await serving.ask("/db");
    expect(json["doc_count"]).toBe(ids.length);
  });

  test("all documents, in the order of their bytes, with their revisions", async () => {
    const answer = await list();
    expect(answer.status).toBe(200);
    expect(answer.json["total_rows"]).toBe(ids.length);
    expect(answer.json["offset"]).toBe(0);
    expect(idsOf(answer)).toEqual(ids);
    for (const { id, key, value } of rowsOf(answer)) {
      expect(key).toBe(id);
      expect(value?.rev).toMatch(id === "doc-0000" ? /^2-/ : /^1-/);
    }
    expect(
      answer.text.startsWith(`{"total_rows":${ids.length},"offset":0,"rows":[\r\n{"id":`),
    ).toBe(true);
    expect(answer.text.endsWith("\r\n]}\n")).toBe(true);
  });

  test.each([false, true])("ranges, skip and limit (descending: %s)", async (descending) => {
    const way = descending ? [...ids].reverse() : ids;
    for (const [from, to] of [
      [0, 5],
      [3, 240],
      [200, 259],
      [10, 10],
    ] as const) {
      for (const skip of [0, 1, 7])
        for (const limit of [0, 1, 3, 1000])
          for (const inclusive of [true, false]) {
            const start = encodeURIComponent(JSON.stringify(way[from]));
            const end = encodeURIComponent(JSON.stringify(way[to]));
            const answer = await list(
              `?startkey=${start}&endkey=${end}&skip=${skip}&limit=${limit}&inclusive_end=${inclusive}&descending=${descending}`,
            );
            const range = way.slice(from, inclusive ? to + 1 : to);
            expect(idsOf(answer)).toEqual(range.slice(skip, skip + limit));
            expect(answer.json["offset"]).toBe(from + skip);
          }
    }
  });

  test("one key, several keys, by GET and POST; what is not there is told", async () => {
    expect(idsOf(await list('?key="b"'))).toEqual(["b"]);
    expect(idsOf(await list('?key="none"'))).toEqual([]);
    const wanted = ["b", "none", "gone", "_design/d", "a"];
    const posted = await list("", { keys: wanted });
    const got = await list(`?keys=${encodeURIComponent(JSON.stringify(wanted))}`);
    expect(got.text).toBe(posted.text);
    expect(posted.json["total_rows"]).toBe(ids.length);
    expect(rowsOf(posted).map(({ id, key, error }) => [id, key, error])).toEqual([
      ["b", "b", undefined],
      [undefined, "none", "not_found"],
      ["gone", "gone", undefined],
      ["_design/d", "_design/d", undefined],
      ["a", "a", undefined],
    ]);
  });

  test("of a deleted document its last revision is told, and no document", async () => {
    const [gone, none] = rowsOf(await list('?keys=["gone","none"]&include_docs=true'));
    expect(gone?.value).toEqual({ rev: expect.stringMatching(/^2-/), deleted: true });
    expect(gone?.doc).toBeNull();
    expect(none).toEqual({ key: "none", error: "not_found" });
  });

  test("a list of one key is a list, and comes in its own order, also reversed", async () => {
    const one = await list('?keys=["none"]');
    expect(rowsOf(one)).toEqual([{ key: "none", error: "not_found" }]);
    expect(one.json["offset"]).toBeNull();
    expect(idsOf(await list("", { keys: ["b"] }))).toEqual(["b"]);
    expect(idsOf(await list('?keys=["b","a","B"]&descending=true&skip=1&limit=1'))).toEqual(["a"]);
    expect(rowsOf(await list("", { keys: [1, null] }))).toEqual([
      { key: 1, error: "not_found" },
      { key: null, error: "not_found" },
    ]);
  });

  test("ends that are no strings are none; ids of their own stand in for them", async () => {
    for (const query of ["?startkey=1", "?endkey=null", "?key={}"])
      expect(idsOf(await list(query))).toEqual(ids);
    expect(idsOf(await list("?startkey_docid=a&endkey_docid=b"))).toEqual(["a", "b"]);
  });

  test("a range the wrong way round is empty, and says where it is", async () => {
    const answer = await list('?startkey="b"&endkey="a"');
    expect(answer.json).toEqual({ total_rows: ids.length, offset: ids.indexOf("b"), rows: [] });
    const down = await list('?startkey="a"&endkey="b"&descending=true');
    expect(down.json["offset"]).toBe(ids.length - 1 - ids.indexOf("a"));
  });

  test("update_seq is told where the list has one", async () => {
    const { json } = await list("?update_seq=true&limit=1");
    expect(Object.keys(json)).toEqual(["total_rows", "offset", "update_seq", "rows"]);
    expect(json["update_seq"]).toBe((await serving.ask("/db")).json["update_seq"]);
    expect((await list('?update_seq=true&keys=["a"]')).json["update_seq"]).toBeNull();
  });

  test.each([
    ["group=true", "Invalid use of grouping on a map view."],
    ["reduce=true", "Reduce is invalid for map-only views."],
    ['keys=["a"]&startkey="b"', "`keys` is incompatible with `key`, `start_key` and `end_key`"],
    ["partition=a", "`partition` parameter is not supported on this db"],
  ])("refuses %s as a view does", async (query, reason) => {
    const answer = await list(`?${query}`);
    expect(answer.status).toBe(400);
    expect(answer.json).toEqual({ error: "query_parse_error", reason });
  });

  test("keys must be a list, and a body JSON", async () => {
    const reasons = [
      await list("?keys=1"),
      await list("", { keys: 1 }),
      await list("", []),
      await list("?keys=x"),
    ].map(({ status, json }) => [status, json["error"], json["reason"]]);
    expect(reasons).toEqual([
      [400, "bad_request", "`keys` parameter must be an array."],
      [400, "bad_request", "`keys` body member must be an array."],
      [400, "bad_request", "Request body must be a JSON object"],
      [400, "bad_request", "invalid UTF-8 JSON"],
    ]);
    const text = { body: "{}", headers: { "content-type": "text/plain" } };
    expect((await serving.ask("/db/_all_docs", text)).status).toBe(415);
    const zipped = {
      body: gzipSync('{"limit":1}'),
      headers: { "content-type": "application/json", "content-encoding": "gzip" },
    };
    expect(idsOf(await serving.ask("/db/_all_docs", zipped))).toEqual(ids.slice(0, 1));
  });

  test("include_docs gives each document", async () => {
    const rows = rowsOf(await list("?include_docs=true"));
    expect(rows.map(({ doc }) => doc?.["_id"])).toEqual(ids);
    for (const { value, doc } of rows) expect(doc?.["_rev"]).toBe(value?.rev);
  });

  test("what was written before it was asked is in it", async () => {
    serving.feed.put({ _id: "newest" });
    ids = [...ids, "newest"].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    expect(idsOf(await list())).toEqual(ids);
    expect((await serving.ask("/db")).json["doc_count"]).toBe(ids.length);
  });

  test("several lists at once, those of the URL's parameters by default", async () => {
    const queries = [
      { limit: 2 },
      { keys: ["b", "none"], limit: 10 },
      { key: "a" },
      { keys: ["none"] },
      { descending: true },
    ];
    const answer = await serving.ask("/db/_all_docs/queries?limit=1", { body: { queries } });
    expect(answer.status).toBe(200);
    const results = answer.json["results"] as { rows: DocRow[] }[];
    expect(results.map(({ rows }) => rows.map(({ id, error }) => id ?? error))).toEqual([
      ids.slice(0, 2),
      ["b", "not_found"],
      ["a"],
      // A list of one key is that key, and so nothing tells that it is not there.
      [],
      ids.slice(-1),
    ]);
    const one = await list("?limit=2");
    expect(answer.text.startsWith(`{"results":[\r\n${one.text.trimEnd()},\r\n{`)).toBe(true);
    expect(answer.text.endsWith("\r\n]}\r\n]}\n")).toBe(true);
    const none = await serving.ask("/db/_all_docs/queries", { body: { queries: [] } });
    expect(none.text).toBe('{"results":[\r\n]}\n');
  });

  test.each([
    [{}, 400, "POST body must include `queries` parameter."],
    [{ queries: 1 }, 400, "`queries` member must be an array."],
    [{ queries: [{}, { limit: "x" }] }, 400, 'Invalid value for integer: <<"x">>'],
    [{ queries: [{ keys: 1 }] }, 400, "`keys` must be an array of strings."],
    [{ queries: [{ keys: ["a", "b"], key: "a" }] }, 400, INCOMPATIBLE],
    [{ queries: [1] }, 500, "function_clause"],
  ])("%j is refused as a whole", async (body, status, reason) => {
    const answer = await serving.ask("/db/_all_docs/queries", { body });
    expect(answer).toMatchObject({ status, json: { reason } });
  });

  test("bad parameters and methods are refused as those of views are", async () => {
    expect((await list("?limit=x")).json["error"]).toBe("query_parse_error");
    expect((await list("?startkey=x")).status).toBe(400);
    const put = await serving.ask("/db/_all_docs", { method: "PUT" });
    expect(put.status).toBe(405);
    expect(put.headers.allow).toBe("GET,HEAD,POST");
    expect((await serving.ask("/other/_all_docs")).status).toBe(404);
  });
});
