// Partitioned databases (VIEWS §19), in this process: rows are kept by partition, a query sees its own partition only, and whatever was
// written before it answers as a model does that filters.

import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  MappingRuntime,
  MemorySource,
  ViewIndex,
  type QueryParameters,
  type ViewIndexOptions,
} from "../../../indexer/index.js";
import { partitionEnd, partitionPrefix, refusedId } from "../../../indexer/views/partitions.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const RUNS = Number(process.env["TEST_RUNS"] ?? 25);
const LIMITS = { server: undefined, threads: 2, timeoutMs: 20_000, heapMb: 256, memoryMb: 1024 };
const runtimes = {
  threads: new MappingRuntime({ ...LIMITS, mapIn: "threads" }),
  processes: new MappingRuntime({ ...LIMITS, mapIn: "processes" }),
};
afterAll(async () => {
  await runtimes.threads.close();
  await runtimes.processes.close();
});

const KEYS = "function (doc) { for (const k of doc.ks) emit(k, doc.n); }";
const CUSTOM =
  "function (keys, values, rereduce) { return rereduce ? sum(values) : keys.length + 100 * keys.filter(([k, id]) => typeof id !== 'string' || id.indexOf(':') < 1).length; }";
const VIEWS = {
  rows: { map: KEYS },
  sum: { map: KEYS, reduce: "_sum" },
  stats: { map: KEYS, reduce: "_stats" },
  first: { map: KEYS, reduce: "_first" },
  distinct: { map: KEYS, reduce: "_approx_count_distinct" },
  custom: { map: KEYS, reduce: CUSTOM },
  raw: { map: KEYS, options: { collation: "raw" } },
  years: { map: "function (doc) { emit([doc.year, doc.n], 1); }", reduce: "_count" },
};
const LOCAL = { _id: "_design/local", views: VIEWS };
const GLOBAL = { _id: "_design/global", options: { partitioned: false }, views: VIEWS };

async function open(
  source: ViewIndexOptions["source"],
  more: Partial<ViewIndexOptions> = {},
): Promise<ViewIndex> {
  return ViewIndex.open({
    dir: tempDir(),
    ...(source === undefined ? {} : { source }),
    partitioned: true,
    runtime: runtimes.threads,
    ...more,
  });
}

/** `key<id>=value` of a map query, `key=value` of a reduce. */
async function rows(
  index: ViewIndex,
  view: string,
  parameters: QueryParameters,
): Promise<string[]> {
  const [ddoc = "", name = ""] = view.split("/");
  const found: string[] = [];
  for await (const { id, key, value } of (await index.query(ddoc, name, parameters)).rows())
    found.push(
      `${JSON.stringify(key)}${id === undefined ? "" : `<${id}>`}=${JSON.stringify(value)}`,
    );
  return found;
}

async function reason(asked: Promise<unknown>): Promise<string> {
  try {
    await asked;
    return "none";
  } catch (error) {
    const {
      status,
      error: name,
      reason: why,
      details,
    } = error as {
      status?: number;
      error?: string;
      reason?: string;
      details?: { status?: number; error?: string; reason?: string };
    };
    return [status ?? details?.status, name ?? details?.error, why ?? details?.reason].join(" ");
  }
}

async function sound(index: ViewIndex): Promise<void> {
  for (const { faults } of await index.verify()) expect(faults).toEqual([]);
}

function shop(): MemorySource {
  const source = new MemorySource();
  source.put(LOCAL);
  source.put(GLOBAL);
  for (const partition of ["b", "a", "ab"])
    for (const n of [1, 2, 3])
      source.put({
        _id: `${partition}:${n}`,
        ks: [n, "s", n === 3 ? "s" : "t"],
        n,
        year: 2020 + (n % 2),
      });
  return source;
}

describe("the prefix of a partition", () => {
  test("ends itself, and none begins another's", () => {
    const names = ["a", "ab", "a\u0000", "a\u0000b", "ä", "A", "a b"];
    for (const one of names) {
      const prefix = partitionPrefix(one);
      expect(partitionEnd(Buffer.concat([prefix, Buffer.from("x:y")]))).toBe(prefix.length);
      for (const other of names)
        if (other !== one)
          expect(
            Buffer.from(partitionPrefix(other)).subarray(0, prefix.length).equals(prefix),
          ).toBe(false);
    }
  });

  test.each([
    ["a:b", undefined],
    ["a:b:c", undefined],
    ["plain", "illegal_docid: Doc id must be of form partition:id"],
    [":b", "illegal_partition: Partition must not be empty"],
    ["_a:b", "illegal_partition: Partition must not start with an underscore"],
    ["a:", "illegal_docid: Document id must not be empty"],
    ["a:_b", "illegal_docid: Only reserved document ids may start with underscore."],
  ])("of the id %s: %s", (id, told) => {
    const bytes = Buffer.from(`##${id}##`);
    const refused = refusedId(bytes, 2, bytes.length - 2);
    expect(refused && `${refused.error}: ${refused.reason}`).toBe(told);
  });
});

describe("a view that is kept by partition", () => {
  test("answers with the rows of the partition asked for, keys shown without it", async () => {
    const index = await open(shop());
    const answer = await (await index.query("local", "rows", { partition: "a" })).object();
    expect(answer).toMatchObject({ total_rows: 27, offset: 0 });
    expect(await rows(index, "local/rows", { partition: "a" })).toEqual([
      "1<a:1>=1",
      "2<a:2>=2",
      "3<a:3>=3",
      '"s"<a:1>=1',
      '"s"<a:2>=2',
      '"s"<a:3>=3',
      '"s"<a:3>=3',
      '"t"<a:1>=1',
      '"t"<a:2>=2',
    ]);
    // As in CouchDB, total and offset are those of the tree that holds the partition.
    expect((await (await index.query("local", "rows", { partition: "ab" })).object()).offset).toBe(
      9,
    );
    expect(await rows(index, "local/rows", { partition: "none" })).toEqual([]);
    await sound(index);
    await index.close();
  });

  test.each<[QueryParameters, string]>([
    [{ key: "t" }, '"t"<a:1>=1 "t"<a:2>=2'],
    [{ keys: ["t", 3, "none", 3] }, '"t"<a:1>=1 "t"<a:2>=2 3<a:3>=3 3<a:3>=3'],
    [{ startkey: 2, endkey: "r" }, "2<a:2>=2 3<a:3>=3"],
    [{ startkey: 2, endkey: 3, inclusive_end: false }, "2<a:2>=2"],
    [{ endkey: 2 }, "1<a:1>=1 2<a:2>=2"],
    [{ startkey: "t" }, '"t"<a:1>=1 "t"<a:2>=2'],
    [{ startkey: "s", startkey_docid: "a:2", endkey: "s", endkey_docid: "a:2" }, '"s"<a:2>=2'],
    [{ descending: true, limit: 3 }, '"t"<a:2>=2 "t"<a:1>=1 "s"<a:3>=3'],
    [{ descending: true, startkey: 2 }, "2<a:2>=2 1<a:1>=1"],
    [{ descending: true, endkey: "t" }, '"t"<a:2>=2 "t"<a:1>=1'],
    [{ skip: 7, limit: 1 }, '"t"<a:1>=1'],
    [{ skip: 9 }, ""],
    [{ limit: 0 }, ""],
    [{ sorted: false, key: 1, stable: true }, "1<a:1>=1"],
  ])("takes %j", async (parameters, expected) => {
    const index = await open(shop());
    for (const view of ["local/rows", "local/raw"]) {
      const found = await rows(index, view, { partition: "a", ...parameters });
      expect(found.join(" ")).toBe(expected);
    }
    await index.close();
  });

  test.each<[string, QueryParameters, string]>([
    ["sum", {}, "null=18"],
    ["sum", { group: true }, '1=1 2=2 3=3 "s"=9 "t"=3'],
    ["sum", { group: true, descending: true, limit: 2 }, '"t"=3 "s"=9'],
    ["sum", { group: true, keys: ["t", 2] }, '"t"=3 2=2'],
    ["sum", { startkey: 2, endkey: "s" }, "null=14"],
    ["sum", { reduce: false, key: 2 }, "2<a:2>=2"],
    ["years", { group_level: 1 }, "[2020]=1 [2021]=2"],
    ["years", { group_level: 1, descending: true, skip: 1 }, "[2020]=1"],
    ["years", { group: true, startkey: [2021] }, "[2021,1]=1 [2021,3]=1"],
    ["stats", { key: 2 }, 'null={"sum":2,"count":1,"min":2,"max":2,"sumsqr":4}'],
    ["first", {}, "null=1"],
    ["distinct", {}, "null=5"],
    ["custom", {}, "null=9"],
    ["custom", { group: true, key: "s" }, '"s"=4'],
    ["custom", { partition: "none" }, ""],
  ])("reduces: %s with %j", async (view, parameters, expected) => {
    const index = await open(shop());
    expect((await rows(index, `local/${view}`, { partition: "a", ...parameters })).join(" ")).toBe(
      expected,
    );
    await index.close();
  });

  test("includes documents", async () => {
    const index = await open(shop());
    const answer = await index.query("local", "rows", {
      partition: "b",
      key: 1,
      include_docs: true,
    });
    for await (const { doc } of answer.rows()) expect(doc).toMatchObject({ _id: "b:1", n: 1 });
    await index.close();
  });

  test("follows updates and deletions, in memory and by a bulk load", async () => {
    for (const bulkBytes of [0, 2 ** 30]) {
      const source = shop();
      const dir = tempDir();
      let index = await open(source, { dir, bulkBytes, bulkChanges: bulkBytes === 0 ? 0 : 1e6 });
      await index.update();
      source.put({ _id: "a:1", ks: ["new", 3], n: 10, year: 1 });
      source.delete("a:2");
      source.delete("ab:3");
      expect(await rows(index, "local/rows", { partition: "a" })).toEqual([
        "3<a:1>=10",
        "3<a:3>=3",
        '"new"<a:1>=10',
        '"s"<a:3>=3',
        '"s"<a:3>=3',
      ]);
      expect(await rows(index, "local/sum", { partition: "ab" })).toEqual(["null=9"]);
      await sound(index);
      await index.compact();
      await sound(index);
      expect(await rows(index, "local/sum", { partition: "a", group: true })).toEqual([
        "3=13",
        '"new"=10',
        '"s"=6',
      ]);
      await index.close();
      // What the directory was built with need not be said again.
      index = await ViewIndex.open({ dir, source, runtime: runtimes.threads });
      expect(index.partitioned).toBe(true);
      source.delete("a:3");
      expect(await rows(index, "local/rows", { partition: "a" })).toEqual([
        "3<a:1>=10",
        '"new"<a:1>=10',
      ]);
      await index.close();
      index = await ViewIndex.open({ dir, readOnly: true, runtime: runtimes.threads });
      expect(await rows(index, "local/rows", { partition: "a", key: "new" })).toEqual([
        '"new"<a:1>=10',
      ]);
      await index.close();
    }
  });

  test("keeps all values of a key that a document emits several times, however it is built", async () => {
    for (const bulkChanges of [0, 1e6]) {
      const source = new MemorySource();
      source.put(LOCAL);
      for (const partition of PARTITIONS)
        source.put(`{"_id":${JSON.stringify(`${partition}:1`)},"ks":[1,1,"s","s",[1],[1]],"n":1}`);
      const index = await open(source, { bulkBytes: bulkChanges, bulkChanges });
      await index.update();
      for (const partition of PARTITIONS) {
        const id = `${partition}:1`;
        const twice = ["1", '"s"', "[1]"].flatMap((key) => [`${key}<${id}>=1`, `${key}<${id}>=1`]);
        expect(await rows(index, "local/rows", { partition })).toEqual(twice);
      }
      await sound(index);
      await index.close();
    }
  });

  test("leaves design documents out, which are in no partition", async () => {
    const source = shop();
    const views = { ids: { map: "function (doc) { emit(doc._id, null); }" } };
    source.put({ _id: "_design/l", options: { include_design: true }, views });
    source.put({ _id: "_design/g", options: { include_design: true, partitioned: false }, views });
    const index = await open(source);
    expect(await rows(index, "l/ids", { partition: "a", limit: 1 })).toEqual(['"a:1"<a:1>=null']);
    expect((await rows(index, "g/ids", { endkey: "_z" })).length).toBe(4);
    expect((await index.info()).groups.every(({ errors }) => errors === 0)).toBe(true);
    await sound(index);
    await index.close();
  });
});

describe("a partitioned database", () => {
  test("has global views beside those that are kept by partition", async () => {
    const index = await open(shop());
    expect(await rows(index, "global/rows", { key: 2 })).toEqual([
      "2<a:2>=2",
      "2<ab:2>=2",
      "2<b:2>=2",
    ]);
    expect(await rows(index, "global/sum", { group: true, key: "t" })).toEqual(['"t"=9']);
    expect(await rows(index, "local/sum", { partition: "b", group: true, key: "t" })).toEqual([
      '"t"=3',
    ]);
    const { groups } = await index.info();
    expect(new Set(groups.map(({ signature }) => signature)).size).toBe(2);
    await index.close();
  });

  test("shares no index with an ordinary one of the same views", async () => {
    const dir = tempDir();
    const plain = { _id: "_design/global", views: VIEWS };
    const source = shop();
    let index = await open(source, { dir, partitioned: false, designDocuments: [plain] });
    await index.update();
    const before = [...(await index.signatures()).values()];
    await index.close();
    index = await open(source, { dir, designDocuments: [plain] });
    expect([...(await index.signatures()).values()]).not.toEqual(before);
    expect(await rows(index, "global/rows", { partition: "b", key: 1 })).toEqual(["1<b:1>=1"]);
    await index.close();
  });

  test.each(["threads", "processes"] as const)(
    "records documents whose id names no partition (%s)",
    async (where) => {
      const source = shop();
      source.put({ _id: "plain", ks: [1], n: 1 });
      source.put({ _id: "a:", ks: [1], n: 1 });
      source.put({ _id: ":a", ks: [1], n: 1 });
      const index = await open(source, { runtime: runtimes[where] });
      await index.update();
      for (const ddoc of ["local", "global"]) {
        const told = [];
        for await (const { id, kind, error, reason: why } of index.errors(ddoc))
          told.push([id, kind, error, why]);
        expect(told).toEqual([
          [":a", "document_id", "illegal_partition", "Partition must not be empty"],
          ["a:", "document_id", "illegal_docid", "Document id must not be empty"],
          ["plain", "document_id", "illegal_docid", "Doc id must be of form partition:id"],
        ]);
      }
      expect(await rows(index, "global/rows", { key: 1 })).toEqual([
        "1<a:1>=1",
        "1<ab:1>=1",
        "1<b:1>=1",
      ]);
      await sound(index);
      source.delete("plain");
      source.delete("a:");
      source.delete(":a");
      await index.update();
      expect((await index.info()).groups.map(({ errors }) => errors)).toEqual([0, 0]);
      await index.close();
    },
  );

  test("may be a file, which is a snapshot", async () => {
    const file = join(tempDir(), "docs.ndjson");
    const line = (id: string, n: number): string => `${JSON.stringify({ _id: id, ks: [n], n })}\n`;
    writeFileSync(file, line("a:1", 1) + line("b:1", 1) + line("odd", 1));
    const index = await open(file, { designDocuments: [LOCAL] });
    expect(await rows(index, "local/rows", { partition: "a" })).toEqual(["1<a:1>=1"]);
    rmSync(file);
    writeFileSync(file, line("a:1", 2) + line("a:2", 1));
    expect(await rows(index, "local/rows", { partition: "a" })).toEqual(["1<a:2>=1", "2<a:1>=2"]);
    expect(await rows(index, "local/rows", { partition: "b" })).toEqual([]);
    await sound(index);
    await index.close();
  });

  test("refuses what CouchDB refuses, in its words", async () => {
    const index = await open(shop());
    const asked = (view: string, parameters: QueryParameters): Promise<string> =>
      reason(rows(index, view, parameters));
    expect(await asked("local/rows", {})).toBe(
      "400 query_parse_error `partition` parameter is mandatory for queries to this view.",
    );
    expect(await asked("global/rows", { partition: "a" })).toBe(
      "400 query_parse_error `partition` parameter is not supported in this design doc",
    );
    expect(await asked("local/rows", { partition: "" })).toBe(
      "400 illegal_partition Partition must not be empty",
    );
    expect(await asked("local/rows", { partition: "_a" })).toBe(
      "400 illegal_partition Partition must not start with an underscore",
    );
    expect(await asked("local/rows", { partition: "a:b" })).toBe(
      "400 illegal_partition Partition must not contain a colon",
    );
    expect(await asked("local/rows", { partition: 5 })).toBe(
      "400 illegal_partition Partition must be a string",
    );
    await index.close();
  });

  test("alone may have design documents that ask for partitions", async () => {
    const asking = { _id: "_design/p", options: { partitioned: true }, views: VIEWS };
    const refused =
      "400 invalid_design_doc partitioned option cannot be true in a non-partitioned database.";
    const dir = tempDir();
    const given = { dir, designDocuments: [asking] };
    expect(await reason(open(shop(), { ...given, partitioned: false }))).toBe(refused);
    const unsaid = { ...given, source: shop(), runtime: runtimes.threads };
    expect(await reason(ViewIndex.open(unsaid))).toBe(refused);
    expect(readdirSync(dir)).toEqual([]);
    const source = shop();
    source.put(asking);
    const index = await open(source, { partitioned: false });
    expect(await reason(index.query("p", "rows"))).toBe(refused);
    expect((await rows(index, "local/rows", { key: 1 })).length).toBe(3);
    await index.close();
    const allowed = await open(source);
    expect(await rows(allowed, "p/rows", { partition: "a", key: 1 })).toEqual(["1<a:1>=1"]);
    await allowed.close();
  });

  test("tells itself that it is one, unless the user says otherwise", async () => {
    const telling = (): MemorySource => Object.assign(shop(), { partitioned: true });
    const index = await ViewIndex.open({
      dir: tempDir(),
      source: telling(),
      runtime: runtimes.threads,
      designDocuments: [{ _id: "_design/p", options: { partitioned: true }, views: VIEWS }],
    });
    expect(index.partitioned).toBe(true);
    expect(await rows(index, "p/rows", { partition: "a", key: 1 })).toEqual(["1<a:1>=1"]);
    await index.close();
    const other = await open(telling(), { partitioned: false });
    expect((await rows(other, "local/rows", { key: 1 })).length).toBe(3);
    await other.close();
  });
});

type Key = number | string;
interface Doc {
  readonly _id: string;
  readonly ks: readonly Key[];
  readonly n: number;
  readonly year: number;
}

const PARTITIONS = ["a", "ab", "a\u0000", "A", "ä", "\u{1F600}"];
const KEY_POOL: readonly Key[] = [0, 1, 2, 10, "a", "b", "bb"];
const keyOf = fc.constantFrom(...KEY_POOL);
const docOf: fc.Arbitrary<Doc> = fc
  .record({
    partition: fc.constantFrom(...PARTITIONS),
    rest: fc.constantFrom("1", "2", "x:y", "ab:1", "~"),
    ks: fc.array(keyOf, { maxLength: 4 }),
    n: fc.integer({ min: -3, max: 9 }),
  })
  .map(({ partition, rest, ks, n }) => ({ _id: `${partition}:${rest}`, ks, n, year: n }));
const writesOf = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: docOf.map((doc) => ({ doc, deleted: false })) },
    { weight: 1, arbitrary: docOf.map((doc) => ({ doc, deleted: true })) },
  ),
  { maxLength: 20 },
);
const askedOf = fc.record(
  {
    startkey: keyOf,
    endkey: keyOf,
    inclusive_end: fc.boolean(),
    descending: fc.boolean(),
    skip: fc.nat(3),
    limit: fc.nat(6),
  },
  { requiredKeys: [] },
);

const rank = (key: Key): number => KEY_POOL.indexOf(key);

interface Row {
  readonly key: Key;
  readonly id: string;
  readonly n: number;
}

/** Filters, sorts, cuts. */
function model(docs: ReadonlyMap<string, Doc>, partition: string, asked: QueryParameters): Row[] {
  const {
    startkey,
    endkey,
    inclusive_end: inclusive = true,
    descending = false,
    skip = 0,
    limit = Infinity,
  } = asked as {
    startkey?: Key;
    endkey?: Key;
    inclusive_end?: boolean;
    descending?: boolean;
    skip?: number;
    limit?: number;
  };
  const sign = descending ? -1 : 1;
  return [...docs.values()]
    .filter(({ _id }) => _id.slice(0, _id.indexOf(":")) === partition)
    .flatMap(({ _id, ks, n }) => ks.map((key) => ({ key, id: _id, n })))
    .filter(({ key }) => startkey === undefined || sign * (rank(key) - rank(startkey)) >= 0)
    .filter(({ key }) => {
      if (endkey === undefined) return true;
      const order = sign * (rank(key) - rank(endkey));
      return inclusive ? order <= 0 : order < 0;
    })
    .sort(
      (a, b) =>
        sign * (rank(a.key) - rank(b.key) || Buffer.compare(Buffer.from(a.id), Buffer.from(b.id))),
    )
    .slice(skip, skip + limit);
}

describe("whatever was written", () => {
  test("a partition answers as a model that filters", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(writesOf, { minLength: 1, maxLength: 4 }),
        fc.array(askedOf, { minLength: 4, maxLength: 4 }),
        fc.boolean(),
        async (steps, queries, bulk) => {
          const source = new MemorySource();
          source.put(LOCAL);
          source.put(GLOBAL);
          const index = await open(source, bulk ? { bulkBytes: 0, bulkChanges: 0 } : {});
          try {
            const docs = new Map<string, Doc>();
            for (const writes of steps) {
              for (const { doc, deleted } of writes) {
                docs.delete(doc._id);
                if (deleted) source.delete(doc._id);
                else {
                  source.put({ ...doc });
                  docs.set(doc._id, doc);
                }
              }
              await index.update();
            }
            await sound(index);
            for (const partition of PARTITIONS) {
              const all = model(docs, partition, {});
              for (const asked of queries) {
                const {
                  startkey,
                  endkey,
                  descending = false,
                } = asked as { startkey?: Key; endkey?: Key; descending?: boolean };
                if (
                  startkey !== undefined &&
                  endkey !== undefined &&
                  rank(startkey) > rank(endkey) !== descending
                )
                  continue;
                expect(await rows(index, "local/rows", { partition, ...asked })).toEqual(
                  model(docs, partition, asked).map(
                    ({ key, id, n }) => `${JSON.stringify(key)}<${id}>=${n}`,
                  ),
                );
              }
              const total = all.reduce((sum, { n }) => sum + n, 0);
              expect(await rows(index, "local/sum", { partition })).toEqual(
                all.length === 0 ? [] : [`null=${total}`],
              );
              expect(await rows(index, "local/custom", { partition })).toEqual(
                all.length === 0 ? [] : [`null=${all.length}`],
              );
              const groups = KEY_POOL.map((key) => all.filter((row) => row.key === key)).filter(
                ({ length }) => length > 0,
              );
              expect(await rows(index, "local/sum", { partition, group: true })).toEqual(
                groups.map(
                  (group) =>
                    `${JSON.stringify(group[0]?.key)}=${group.reduce((sum, { n }) => sum + n, 0)}`,
                ),
              );
            }
            const whole = PARTITIONS.flatMap((partition) => model(docs, partition, {}));
            expect((await rows(index, "global/rows", {})).length).toBe(whole.length);
          } finally {
            await index.close();
          }
        },
      ),
      { numRuns: RUNS },
    );
  });
});
