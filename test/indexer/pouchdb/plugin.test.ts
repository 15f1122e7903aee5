// The plugin under a real PouchDB, beside PouchDB's own map/reduce over the same documents.

import { execFile } from "node:child_process";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { viewmill, type ViewmillPlugin } from "../../../indexer/pouchdb/index.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

declare const emit: (key: unknown, value?: unknown) => void;

interface Answer {
  readonly rows: { key: unknown; value: unknown; id?: string; doc?: Record<string, unknown> }[];
  readonly total_rows?: number;
  readonly offset?: number;
}

interface Database {
  readonly name: string;
  put(doc: object): Promise<{ rev: string }>;
  get(id: string): Promise<{ _rev: string }>;
  bulkDocs(docs: readonly object[]): Promise<unknown>;
  query(...args: unknown[]): Promise<Answer>;
  viewCleanup(...args: unknown[]): Promise<unknown>;
  close(): Promise<void>;
  destroy(): Promise<void>;
}

interface Pouch {
  new (name: string, options?: object): Database;
  defaults(options: object): Pouch;
  plugin(plugin: unknown): Pouch;
}

removeTempDirs();
const dir = tempDir();

const DOCS = Array.from({ length: 60 }, (_, i) => ({
  _id: `doc-${String(i).padStart(2, "0")}`,
  kind: ["a", "b", "ä", "Z"][i % 4],
  n: (i * 7) % 13,
  tags: [i % 3, i % 5],
}));
const DESIGN = {
  _id: "_design/shop",
  views: {
    kinds: { map: "function (doc) { emit([doc.kind, doc.n], doc.n); }", reduce: "_sum" },
    tags: { map: "function (doc) { doc.tags.forEach(function (t) { emit(t); }); }" },
    stats: { map: "function (doc) { emit(doc.kind, doc.n); }", reduce: "_stats" },
    own: {
      map: "function (doc) { emit(doc.kind, doc.n); }",
      reduce: "function (keys, values, rereduce) { return Math.max.apply(null, values); }",
    },
  },
};

const QUERIES: readonly (readonly [string, object])[] = [
  ["shop/tags", {}],
  ["shop/tags", { key: 2, include_docs: true }],
  ["shop/tags", { keys: [1, 0, 9, 1] }],
  ["shop/tags", { startkey: 3, endkey: 1, descending: true, skip: 2, limit: 5 }],
  ["shop/tags", { startkey: 1, endkey: 2, inclusive_end: false }],
  ["shop/tags", { limit: "3", skip: "1" }],
  ["shop/kinds", { reduce: false, startkey: ["a"], endkey: ["ä", {}] }],
  ["shop/kinds", {}],
  ["shop/kinds", { group: true }],
  ["shop/kinds", { group_level: 1 }],
  ["shop/kinds", { group_level: "1", descending: true, limit: 2 }],
  ["shop/stats", { group: true, keys: ["b", "Z"] }],
  ["shop/own", { group: true }],
];

let Plain: Pouch;
let Mill: Pouch;
let plugin: ViewmillPlugin;

beforeAll(async () => {
  const modules = ["pouchdb-core", "pouchdb-adapter-memory", "pouchdb-mapreduce"];
  const [core, memory, mapreduce] = (await Promise.all(
    modules.map((name) => import(name) as Promise<{ default: unknown }>),
  )) as [{ default: Pouch }, { default: unknown }, { default: unknown }];
  plugin = viewmill({ dir: join(dir, "views"), threads: 1 });
  // Plugins go to the constructor they are given to, so that the two need constructors of their own.
  Plain = core.default.plugin(memory.default).defaults({ adapter: "memory" });
  Plain.plugin(mapreduce.default);
  Mill = core.default.defaults({ adapter: "memory" });
  Mill.plugin(plugin);
});

afterAll(async () => {
  await plugin.close();
});

let databases = 0;

async function filled(Constructor: Pouch = Mill): Promise<Database> {
  const database = new Constructor(`db-${String((databases += 1))}`);
  await database.bulkDocs([...DOCS, DESIGN]);
  return database;
}

/** Rows that collate equally come in the order of ids here, as in CouchDB; PouchDB's own may differ in members only. */
function shown({ rows, total_rows, offset }: Answer): unknown {
  return { total_rows, offset, rows };
}

describe("db.query", () => {
  test("answers as PouchDB does", async () => {
    const [plain, mill] = await Promise.all([filled(Plain), filled()]);
    for (const [view, options] of QUERIES)
      expect([view, options, shown(await mill.query(view, { ...options }))]).toEqual([
        view,
        options,
        shown(await plain.query(view, { ...options })),
      ]);
    await Promise.all([plain.destroy(), mill.destroy()]);
  });

  test("sees what was written before it, changed design documents too", async () => {
    const database = await filled();
    const count = async (): Promise<unknown> =>
      (
        await database.query(
          (doc: { n: number }) => {
            emit(doc.n);
          },
          { reduce: "_count" },
        )
      ).rows;
    expect(await count()).toEqual([{ key: null, value: 60 }]);
    expect((await database.query("shop/tags", { key: 99 })).rows).toEqual([]);
    await database.put({ _id: "new", tags: [99], n: 1 });
    expect((await database.query("shop/tags", { key: 99 })).rows).toHaveLength(1);
    expect(await count()).toEqual([{ key: null, value: 61 }]);
    const { _rev } = await database.get("new");
    await database.put({ _id: "new", _rev, _deleted: true });
    expect((await database.query("shop/tags", { key: 99 })).rows).toEqual([]);
    const design = await database.get("_design/shop");
    await database.put({ ...design, views: { tags: { map: "function (d) { emit(99); }" } } });
    expect((await database.query("shop/tags", { key: 99 })).rows).toHaveLength(60);
    // Without an update it answers from what is there.
    await database.put({ _id: "later", tags: [] });
    expect((await database.query("shop/tags", { stale: "ok" })).rows).toHaveLength(60);
    await database.destroy();
  });

  test("takes functions, methods and their texts, and two arguments", async () => {
    const database = await filled();
    const views: unknown[] = [
      (doc: { n: number }, emits: (key: unknown) => void) => {
        if (doc.n === 3) emits(doc.n);
      },
      {
        map(doc: { n: number }) {
          if (doc.n === 3) emit(doc.n);
        },
      },
      { map: "function (doc) { if (doc.n === 3) emit(doc.n); }" },
    ];
    for (const view of views) {
      const { rows } = await database.query(view, { include_docs: true });
      expect(rows.map(({ key, doc }) => [key, doc?.["n"]])).toEqual(rows.map(() => [3, 3]));
      expect(rows.length).toBeGreaterThan(3);
    }
    const reduce = (_keys: unknown, values: number[], again: boolean): number =>
      again ? values.reduce((a, b) => a + b) : values.length;
    expect((await database.query({ map: "(doc) => emit(1)", reduce })).rows).toEqual([
      { key: null, value: 60 },
    ]);
    await expect(database.query({ map: 7 })).rejects.toMatchObject({ status: 400 });
    await database.destroy();
  });

  test("keeps the indexes of the functions used last, and removes the others", async () => {
    const database = await filled();
    for (let i = 0; i < 20; i += 1)
      expect(
        (await database.query({ map: `(doc) => { if (doc.n < 1) emit(${String(i)}); }` })).rows,
      ).toHaveLength(5);
    const folder = join(join(dir, "views"), database.name, "temporary");
    await database.query({ map: "(doc) => { if (doc.n < 1) emit(0); }" });
    expect(readdirSync(folder).length).toBeLessThanOrEqual(17);
    expect(await database.viewCleanup()).toEqual({ ok: true });
    expect(readdirSync(folder)).toEqual([]);
    await database.destroy();
  });

  test("tells errors as PouchDB does, to promises and callbacks", async () => {
    const database = await filled();
    await expect(database.query("none/none")).rejects.toMatchObject({
      status: 404,
      name: "not_found",
      error: true,
    });
    await expect(database.query("shop/none")).rejects.toMatchObject({ status: 404 });
    await expect(database.query("shop/tags", { startkey: 2, endkey: 1 })).rejects.toMatchObject({
      status: 400,
      name: "query_parse_error",
    });
    const called = await new Promise((resolve) => {
      void database.query("shop/tags", { key: 2, limit: 1 }, (error: unknown, answer: Answer) => {
        resolve([error, answer.rows.length]);
      });
    });
    expect(called).toEqual([null, 1]);
    const failed = await new Promise((resolve) => {
      database.query("shop/none", resolve).catch(() => undefined);
    });
    expect(failed).toMatchObject({ status: 404 });
    await database.destroy();
  });

  test("gives attachments as buffers to those who ask for it", async () => {
    const database = await filled();
    const data = Buffer.from("text").toString("base64");
    const _attachments = { "a.txt": { content_type: "text/plain", data } };
    await database.put({ _id: "with", tags: [50], _attachments });
    const ask = async (binary: boolean): Promise<unknown> => {
      const options = { key: 50, include_docs: true, attachments: true, binary };
      const [row] = (await database.query("shop/tags", options)).rows;
      return (row?.doc?.["_attachments"] as typeof _attachments)["a.txt"].data;
    };
    expect(await ask(false)).toBe(data);
    expect(await ask(true)).toEqual(Buffer.from("text"));
    await database.destroy();
  });

  test("leaves remote databases to what answered before", async () => {
    const asked: unknown[] = [];
    class Remote {
      readonly name = "http://localhost:1/db";
      readonly _remote = true;
      query(...args: unknown[]): Promise<string> {
        asked.push(args);
        return Promise.resolve("from the server");
      }
    }
    viewmill()(Remote);
    expect(await new Remote().query("a/b", { key: 1 })).toBe("from the server");
    expect(asked).toEqual([["a/b", { key: 1 }, undefined]]);
  });
});

describe("the indexes of a database", () => {
  test("serve all its objects", async () => {
    const first = await filled();
    const second = new Mill(first.name);
    expect((await first.query("shop/tags")).rows).toHaveLength(120);
    expect((await second.query("shop/tags")).rows).toHaveLength(120);
    await second.put({ _id: "more", tags: [1] });
    expect((await second.query("shop/tags")).rows).toHaveLength(121);
    expect((await first.query("shop/tags")).rows).toHaveLength(121);
    await second.destroy();
  });

  test("go when it is destroyed; one made anew under its name starts from nothing", async () => {
    const first = await filled();
    await first.query("shop/tags");
    const folder = join(join(dir, "views"), first.name);
    expect(existsSync(folder)).toBe(true);
    await first.destroy();
    const again = new Mill(first.name);
    await again.bulkDocs([{ _id: "only", tags: [1, 2] }, DESIGN]);
    expect((await again.query("shop/tags")).rows).toHaveLength(2);
    await again.destroy();
    await plugin.close();
    expect(existsSync(folder)).toBe(false);
  });
});

test("a program that closes nothing ends, and leaves no temporary folder", async () => {
  const entry = pathToFileURL(
    join(dirname(fileURLToPath(import.meta.url)), "../../../indexer/pouchdb/index.js"),
  ).href;
  // Beside the packages, so that they are found.
  const program = join(dirname(fileURLToPath(import.meta.url)), "never-closes.mjs");
  writeFileSync(
    program,
    `import PouchDB from "pouchdb-core";
import memory from "pouchdb-adapter-memory";
import { viewmill } from ${JSON.stringify(entry)};
const db = new (PouchDB.plugin(memory).plugin(viewmill()))("db", { adapter: "memory" });
await db.put({ _id: "a" });
console.log(JSON.stringify((await db.query((doc) => emit(doc._id))).rows));`,
  );
  const env = { PATH: process.env["PATH"] ?? "", TMPDIR: tempDir() };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });
  expect(JSON.parse(stdout)).toEqual([{ id: "a", key: "a", value: null }]);
  expect(readdirSync(env.TMPDIR)).toEqual([]);
});
