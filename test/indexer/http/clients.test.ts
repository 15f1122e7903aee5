// Real clients, unmodified: nano, PouchDB's HTTP adapter, curl.

import { execFile } from "node:child_process";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import Nano from "nano";

import { Serving, design } from "./serving.js";

const run = promisify(execFile);

const serving = new Serving();

beforeAll(async () => {
  serving.feed.put(
    design(),
    { _id: "a", k: "x", v: 1 },
    { _id: "b", k: "y", v: 2 },
    { _id: "c", k: "y", v: 3, linked: true },
  );
  await serving.start();
});

afterAll(() => serving.remove());

describe("nano", () => {
  test("finds server, database, documents and views", async () => {
    const nano = Nano(serving.url);
    expect(await nano.info()).toMatchObject({ couchdb: "Welcome" });
    expect(await nano.db.get("db")).toMatchObject({ db_name: "db", update_seq: 4 });
    const db = nano.use<{ k: string; v: number }>("db");
    expect(await db.get("a")).toMatchObject({ k: "x", v: 1 });
    expect(await db.get("_design/d")).toMatchObject({ _id: "_design/d" });
    await expect(db.get("none")).rejects.toMatchObject({ statusCode: 404, error: "not_found" });
    const all = await db.view("d", "v", { include_docs: true, startkey: "y", descending: false });
    expect(all).toMatchObject({ total_rows: 3, offset: 1 });
    expect(all.rows.map(({ id, doc }) => [id, doc?.v])).toEqual([
      ["b", 2],
      ["c", 3],
    ]);
    const sums = await db.view<number>("d", "sum", { group: true });
    expect(sums.rows).toEqual([
      { key: "x", value: 1 },
      { key: "y", value: 5 },
    ]);
    expect((await db.view("d", "v", { keys: ["y", "x"] })).rows.map(({ id }) => id)).toEqual([
      "b",
      "c",
      "a",
    ]);
    await expect(db.view("d", "v", { group: true })).rejects.toMatchObject({
      statusCode: 400,
      error: "query_parse_error",
    });
  });

  test("asks several queries at once", async () => {
    const nano = Nano(serving.url);
    const queries = [{ key: "x" }, { key: "y", limit: 1 }];
    const answer = (await nano.request({
      db: "db",
      path: "_design/d/_view/v/queries",
      method: "post",
      body: { queries },
    })) as {
      results: { rows: unknown[] }[];
    };
    expect(answer.results.map(({ rows }) => rows.length)).toEqual([1, 1]);
    // As CouchDB 3 answers what nano still offers.
    await expect(nano.use("db").view("d", "v", { queries } as never)).rejects.toMatchObject({
      statusCode: 400,
    });
  });
});

describe("PouchDB's HTTP adapter", () => {
  test("queries views", async () => {
    // They bring no types of their own.
    const [core, adapter, mapreduce] = (await Promise.all(
      ["pouchdb-core", "pouchdb-adapter-http", "pouchdb-mapreduce"].map(
        (name) => import(name) as Promise<{ default: unknown }>,
      ),
    )) as [{ default: PouchConstructor }, { default: unknown }, { default: unknown }];
    const Pouch = core.default.plugin(adapter.default).plugin(mapreduce.default);
    const db = new Pouch(serving.db);
    expect(await db.info()).toMatchObject({ db_name: "db" });
    expect(await db.get("b")).toMatchObject({ k: "y" });
    expect(await db.query("d/v", { startkey: "y", include_docs: true })).toMatchObject({
      total_rows: 3,
      offset: 1,
      rows: [
        { id: "b", doc: { v: 2 } },
        { id: "c", doc: { v: 3 } },
      ],
    });
    expect(await db.query("d/v", { keys: ["y", "x"] })).toMatchObject({
      rows: [{ id: "b" }, { id: "c" }, { id: "a" }],
    });
    expect(await db.query("d/sum", { group: true })).toEqual({
      rows: [
        { key: "x", value: 1 },
        { key: "y", value: 5 },
      ],
    });
    await expect(db.query("d/none")).rejects.toMatchObject({ status: 404 });
    await db.close();
  });
});

interface PouchConstructor {
  new (url: string): {
    info(): Promise<unknown>;
    get(id: string): Promise<unknown>;
    query(view: string, options?: object): Promise<unknown>;
    close(): Promise<void>;
  };
  plugin(plugin: unknown): PouchConstructor;
}

async function hasCurl(): Promise<boolean> {
  return run("curl", ["--version"]).then(
    () => true,
    () => false,
  );
}

const curl = (await hasCurl()) ? test : test.skip;

describe("curl", () => {
  curl("keeps an ETag and is told when nothing changed", async () => {
    const tag = `${serving.dir}/etag`;
    const ask = async (): Promise<{ status: string; body: string }> => {
      const args = [
        "-s",
        "--compressed",
        "-w",
        "\n%{http_code}",
        "--etag-compare",
        tag,
        "--etag-save",
        tag,
        `${serving.db}/_design/d/_view/v`,
      ];
      const { stdout } = await run("curl", args);
      const end = stdout.lastIndexOf("\n");
      return { status: stdout.slice(end + 1), body: stdout.slice(0, end) };
    };
    await run("touch", [tag]);
    const first = await ask();
    expect(first.status).toBe("200");
    expect(JSON.parse(first.body)).toMatchObject({ total_rows: 3 });
    expect(await ask()).toEqual({ status: "304", body: "" });
    serving.feed.put({ _id: "d", k: "z", v: 4 });
    const changed = await ask();
    expect(changed.status).toBe("200");
    expect(JSON.parse(changed.body)).toMatchObject({ total_rows: 4 });
  });
});
