// System cases about view servers and queries that run at once.

import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect } from "@jest/globals";

import { MappingRuntime, ViewIndex, type DocumentError } from "../../indexer/index.js";
import { mapDocLines } from "../../protocol/index.js";
import { CountingServer } from "../helpers/counting-server.js";
import { tempDir } from "../helpers/temp-dir.js";
import { Feed, numbered } from "./system-feed.js";
import { programClient } from "./view-server-program.js";

async function failuresOf(index: ViewIndex): Promise<DocumentError[]> {
  const failures: DocumentError[] = [];
  for await (const failure of index.errors()) failures.push(failure);
  return failures;
}

async function idsOf(index: ViewIndex, view: string): Promise<string[]> {
  const { rows } = await (await index.query("d", view)).object();
  return rows.map(({ id, key, value }) => {
    // Every row is its own document's.
    expect([key, value]).toEqual([id, view]);
    return String(id);
  });
}

async function oneBuildManyQueries(): Promise<void> {
  const dir = tempDir();
  const server = new CountingServer(join(dir, "mapped"));
  const feed = new Feed(join(dir, "feed.ndjson"));
  feed.write(numbered(2000, (i) => ({ _id: `n${i}`, k: i % 50 })));
  const map = "function (doc) { emit(doc.k, 1); }";
  const index = await ViewIndex.open({
    dir: join(dir, "index"),
    source: feed.source,
    designDocuments: [{ _id: "_design/d", views: { v: { map, reduce: "_sum" } } }],
    server: server.command,
    threads: 2,
  });
  const answers = await Promise.all(
    Array.from({ length: 50 }, async () =>
      JSON.stringify(await (await index.query("d", "v", { group: true })).object()),
    ),
  );
  await index.close();

  expect(new Set(answers).size).toBe(1);
  expect((JSON.parse(answers[0] ?? "") as { rows: unknown[] }).rows).toHaveLength(50);
  const counts = [...server.take().values()];
  expect(counts).toHaveLength(2000);
  expect(counts.every((count) => count === 1)).toBe(true);
}

async function poisonDocument(): Promise<void> {
  // As told, ten megabytes a thousand times: more than a document may emit. And one that eats memory itself.
  const maps = {
    emits:
      'function (doc) { if (doc.bad) { var s = new Array(1e7 + 1).join("x"); for (var i = 0; i < 1000; i++) emit(i, s + i); } emit(doc._id, "v"); }',
    eats: 'function (doc) { if (doc.bad) { var a = []; for (;;) a.push(new Array(1e5).fill(a.length)); } emit(doc._id, "v"); }',
  };
  for (const map of Object.values(maps)) {
    const dir = tempDir();
    const server = new CountingServer(join(dir, "mapped"));
    const feed = new Feed(join(dir, "feed.ndjson"));
    feed.write(
      numbered(1001, (i) => (i === 500 ? { _id: "poison", bad: true } : { _id: `n${i}` })),
    );
    const index = await ViewIndex.open({
      dir: join(dir, "index"),
      source: feed.source,
      designDocuments: [{ _id: "_design/d", views: { v: { map } } }],
      server: server.command.replace(/^(\S+)/, "$1 --max-old-space-size=128"),
      threads: 1,
      timeoutMs: 20_000,
    });
    const ids = await idsOf(index, "v");
    const failures = await failuresOf(index);
    // Nor is it tried again when somebody asks again.
    await idsOf(index, "v");
    await index.close();

    expect(ids).toHaveLength(1000);
    expect(failures.map(({ id }) => id)).toEqual(["poison"]);
    expect(failures[0]?.reason).not.toBe("");
    const counts = server.take();
    expect(counts.get("poison")).toBeLessThanOrEqual(3);
    for (const [id, count] of counts)
      if (id !== "poison") expect([id, count <= 2]).toEqual([id, true]);
  }
}

async function extraOutput(): Promise<void> {
  const program = fileURLToPath(new URL("../helpers/servers/stray-output.js", import.meta.url));
  const map = 'function (doc) { emit(doc._id, "v"); }';
  const other = 'function (doc) { emit(doc._id, "other"); }';
  for (const fault of ["stray", "twice", "list"]) {
    const dir = tempDir();
    const feed = new Feed(join(dir, "feed.ndjson"));
    feed.write(numbered(60, (i) => ({ _id: `n${i}`, ...(i === 30 ? { [fault]: true } : {}) })));
    const index = await ViewIndex.open({
      dir: join(dir, "index"),
      source: feed.source,
      designDocuments: [{ _id: "_design/d", views: { v: { map }, other: { map: other } } }],
      server: `${process.execPath} ${program}`,
      threads: 1,
      timeoutMs: 20_000,
    });
    const want = feed.written
      .map(({ _id }) => _id)
      .filter((id) => id !== "n30")
      .sort();
    expect([fault, (await idsOf(index, "v")).sort()]).toEqual([fault, want]);
    expect([fault, (await idsOf(index, "other")).sort()]).toEqual([fault, want]);
    const failures = await failuresOf(index);
    expect([fault, failures.map(({ id }) => id)]).toEqual([fault, ["n30"]]);
    if (fault !== "twice")
      expect(failures[0]?.reason).toContain(fault === "stray" ? "hello" : ",[]]");
    await index.close();
  }
}

async function pipelineOrder(): Promise<void> {
  // Documents take what time they say.
  const map =
    "function (doc) { for (var i = 0, x = 0; i < doc.spin; i++) x += i; emit(doc._id, x); }";
  const docs = numbered(400, (i) => ({ _id: `n${i}`, spin: (i * 7919) % 20_011 }));
  const texts = docs.map((doc) => Buffer.from(JSON.stringify(doc)));
  const joined = Buffer.concat(texts);
  const starts = new Uint32Array(texts.length);
  const ends = new Uint32Array(texts.length);
  for (let i = 0, at = 0; i < texts.length; i++) {
    starts[i] = at;
    ends[i] = at += texts[i]?.length ?? 0;
  }
  const run = async (windowCommands: number): Promise<string> => {
    const { client, stop } = programClient({ windowCommands, timeoutMs: 20_000 });
    try {
      await client.prompt(["reset"]);
      await client.prompt(["add_fun", map]);
      const lines = mapDocLines(joined, starts, ends, docs.length);
      const { replies } = await client.batch(lines, docs.length);
      return Buffer.from(replies).toString();
    } finally {
      await stop();
    }
  };
  const deep = await run(64);

  expect(deep).toBe(await run(1));
  const replies = deep
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
  expect(replies).toEqual(
    docs.map(({ _id, spin }) => [[[_id, Math.max(0, (Number(spin) * (Number(spin) - 1)) / 2)]]]),
  );
}

async function crossDatabaseIsolation(): Promise<void> {
  const leaves =
    "function (doc) { secret = doc._id; Array.prototype.secret = 1; emit(doc._id, typeof secret); }";
  const looks = "function (doc) { emit(doc._id, [typeof secret, typeof [].secret]); }";
  const both = "function (doc) { emit(doc._id, typeof secret); secret = doc._id; }";
  const reduce = "function () { var seen = typeof secret; secret = 1; return seen; }";
  const untouched = ["undefined", "undefined"];
  for (const mapIn of ["threads", "processes"] as const) {
    const runtime = new MappingRuntime({
      mapIn,
      server: undefined,
      threads: 1,
      timeoutMs: 20_000,
      heapMb: 512,
      memoryMb: 1024,
    });
    const valuesOf = async (
      map: string,
      more: object = {},
      parameters: object = {},
    ): Promise<unknown[]> => {
      const dir = tempDir();
      const feed = new Feed(join(dir, "feed.ndjson"));
      feed.write([{ _id: "a" }]);
      const index = await ViewIndex.open({
        dir: join(dir, "index"),
        source: feed.source,
        designDocuments: [{ _id: "_design/d", views: { v: { map, ...more } } }],
        runtime,
      });
      const { rows } = await (await index.query("d", "v", { ...parameters })).object();
      await index.close();
      return rows.map(({ value }) => value);
    };
    await valuesOf(leaves);
    expect(await valuesOf(looks)).toEqual([untouched]);
    // The very same functions, in two databases.
    for (let database = 0; database < 2; database++) {
      expect(await valuesOf(both)).toEqual(["undefined"]);
      expect(await valuesOf(looks, { reduce }, { reduce: true })).toEqual(["undefined"]);
    }
    await runtime.close();
  }
}

export const serverProcedures: Readonly<Record<string, () => Promise<void>>> = {
  "sys-one-build-many-queries": oneBuildManyQueries,
  "sys-poison-document": poisonDocument,
  "sys-view-server-extra-output": extraOutput,
  "sys-pipeline-order": pipelineOrder,
  "sys-cross-database-isolation": crossDatabaseIsolation,
};
