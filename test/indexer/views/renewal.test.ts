// An index that an earlier release built, in hands of a later one with another order of keys: it is asked and kept up to date in its own
// order, until compaction renews it; then it is what a build of the later release makes.

import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import {
  MappingRuntime,
  MemorySource,
  ViewIndex,
  type QueryParameters,
  type ViewIndexOptions,
} from "../../../indexer/index.js";
import { parseQueryObject, resolveViewQuery } from "../../../indexer/query/index.js";
import { answerText, indexFile, names, treeContent } from "../../helpers/index-content.js";
import {
  downgrade,
  isUpgraded,
  LATER,
  NEWLY_IGNORED,
  NEWLY_KNOWN,
  upgrade,
} from "../../helpers/later-collation.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const RUNS = Number(process.env["TEST_RUNS"] ?? 12);
const LIMITS = { server: undefined, threads: 2, timeoutMs: 20_000, heapMb: 256, memoryMb: 1024 };
/** Threads of the earlier release, and of the later one. */
const runtimes = {
  earlier: new MappingRuntime({ ...LIMITS, mapIn: "threads" }),
  later: new MappingRuntime({ ...LIMITS, mapIn: "threads" }),
};
beforeAll(upgrade);
afterEach(downgrade);
afterAll(async () => {
  await runtimes.earlier.close();
  await runtimes.later.close();
});

const EACH = "function (doc) { for (const k of doc.keys) emit(k, doc.n); }";
const DESIGN = {
  _id: "_design/d",
  views: {
    rows: { map: EACH },
    sum: { map: EACH, reduce: "_sum" },
    first: { map: EACH, reduce: "_first" },
    last: { map: EACH, reduce: "_last" },
    distinct: { map: EACH, reduce: "_approx_count_distinct" },
    custom: {
      map: "function (doc) { for (const k of doc.keys) emit(k, k); }",
      reduce:
        "function (keys, values, rereduce) { return rereduce ? sum(values) : values.length; }",
    },
    top: { map: "function (doc) { for (const k of doc.keys) emit(doc.n, k); }", reduce: "_top_3" },
    raw_first: {
      map: EACH,
      reduce: "_first",
      options: { collation: "raw" },
    },
    raw_bottom: {
      map: "function (doc) { if (doc.bad) throw new Error('bad'); for (const k of doc.keys) emit(doc.n, k); }",
      reduce: "_bottom_2",
      options: { collation: "raw" },
    },
  },
};

interface Doc {
  readonly _id: string;
  readonly keys: readonly unknown[];
  readonly n: number;
  readonly bad?: boolean;
}

async function open(
  dir: string,
  source: ViewIndexOptions["source"],
  more: Partial<ViewIndexOptions> = {},
): Promise<ViewIndex> {
  return ViewIndex.open({
    dir,
    ...(source === undefined ? {} : { source }),
    designDocuments: [DESIGN],
    runtime: isUpgraded() ? runtimes.later : runtimes.earlier,
    minDocuments: 3,
    ...more,
  });
}

function put(source: MemorySource, docs: readonly Doc[]): void {
  for (const doc of docs) {
    if (doc.keys.length === 0 && doc.n === 0) source.delete(doc._id);
    else source.put({ ...doc });
  }
}

const LETTERS = [
  "a",
  "b",
  "y",
  "B",
  "Y",
  "d",
  "é",
  "-",
  "7",
  "中",
  NEWLY_KNOWN,
  NEWLY_IGNORED,
  "m",
];
const text = fc.array(fc.constantFrom(...LETTERS), { maxLength: 4 }).map((all) => all.join(""));
const scalar = fc.oneof(
  { weight: 6, arbitrary: text },
  { weight: 1, arbitrary: fc.constantFrom<unknown>(null, true, false, 0, -1.5, 1e21, 7) },
);
const key = fc.oneof(
  { weight: 4, arbitrary: scalar },
  { weight: 2, arbitrary: fc.array(scalar, { maxLength: 3 }) },
  { weight: 1, arbitrary: fc.tuple(scalar, fc.array(scalar, { maxLength: 2 })) },
  { weight: 1, arbitrary: fc.dictionary(text, scalar, { maxKeys: 2 }) },
);
const doc: fc.Arbitrary<Doc> = fc.record(
  {
    _id: fc.constantFrom(
      "a",
      "b",
      "y",
      "é",
      "\u0000",
      "\u0001",
      "\u0000\u0001",
      "c",
      "d",
      "dd",
      "e1",
      "f",
    ),
    keys: fc.array(key, { maxLength: 5 }),
    n: fc.integer({ min: 0, max: 4 }),
    bad: fc.constant(true),
  },
  { requiredKeys: ["_id", "keys", "n"] },
);
const docs = fc.array(doc, { maxLength: 25 });

/** Queries of every kind, about these keys. */
function queries(some: readonly unknown[]): [string, QueryParameters][] {
  const [a = null, b = "m", c = ["y"]] = some;
  const all: [string, QueryParameters][] = Object.keys(DESIGN.views).map((view) => [view, {}]);
  for (const view of ["sum", "custom", "distinct", "first", "last", "top", "raw_first"])
    all.push(
      [view, { group: true }],
      [view, { group_level: 1, descending: true }],
      [view, { group: true, keys: [b, a, c] }],
    );
  for (const reversed of [false, true]) {
    const order = reversed ? { descending: true } : {};
    for (const view of ["rows", "raw_first"])
      all.push(
        [view, { reduce: false, key: a, ...order }],
        [view, { reduce: false, keys: [c, a, b], ...order }],
        [view, { reduce: false, startkey: a, ...order }],
        [view, { reduce: false, endkey: b, inclusive_end: false, ...order }],
        [view, { reduce: false, startkey: a, endkey: c, skip: 1, limit: 7, ...order }],
        [view, { reduce: false, startkey: b, startkey_docid: "c", ...order }],
      );
    for (const view of ["sum", "first", "custom"])
      all.push([view, { startkey: a, endkey: b, ...order }], [view, { startkey: b, ...order }]);
  }
  return all.map(([view, parameters]) =>
    view === "rows" ? [view, { ...parameters, reduce: undefined }] : [view, parameters],
  );
}

/** Answers, and where a range is refused what is said then. */
async function answers(index: ViewIndex, some: readonly unknown[]): Promise<string[]> {
  const texts: string[] = [];
  for (const [view, { reduce, ...parameters }] of queries(some)) {
    const how = reduce === undefined ? parameters : { ...parameters, reduce };
    const answer = answerText(index, "d", view, how).catch(
      (error: unknown) => (error as Error).message,
    );
    texts.push(`${view} ${JSON.stringify(how)}: ${await answer}`);
  }
  for await (const { id, view, reason } of index.errors())
    texts.push(JSON.stringify([id, view, reason]));
  return texts;
}

async function collationOf(index: ViewIndex): Promise<readonly [number, readonly string[]]> {
  const [group] = (await index.info()).groups;
  return [group?.collation ?? 0, group?.collatorVersions ?? []];
}

async function expectSound(index: ViewIndex): Promise<void> {
  for (const { faults } of await index.verify()) expect(faults).toEqual([]);
}

async function content(dir: string): Promise<unknown> {
  const { errors: _stacks, ...trees } = await treeContent(indexFile(dir));
  return trees;
}

/** What a release makes of these documents from nothing. */
async function fresh(source: MemorySource, some: readonly unknown[]): Promise<[unknown, string[]]> {
  const dir = tempDir();
  const index = await open(dir, source);
  await index.update();
  const answered = await answers(index, some);
  await index.close();
  return [await content(dir), answered];
}

/** The index of an earlier release over these documents. */
async function earlier(dir: string, source: MemorySource): Promise<void> {
  downgrade();
  const index = await open(dir, source);
  await index.update();
  await index.close();
  upgrade();
}

describe("an index of an earlier release", () => {
  test("stays what it is under the later one, and compaction makes it one of that", async () => {
    await fc.assert(
      fc.asyncProperty(docs, docs, docs, fc.array(key, { maxLength: 3 }), async (a, b, c, some) => {
        const dir = tempDir();
        const source = new MemorySource("renewal");
        put(source, [{ _id: "first", keys: ["b"], n: 1 }, ...a]);
        await earlier(dir, source);

        const index = await open(dir, source);
        put(source, b);
        await index.update();
        expect(await collationOf(index)).toEqual([1, ["1", "2"]]);
        const old = await answers(index, some);
        await expectSound(index);
        downgrade();
        const [oldContent, oldAnswers] = await fresh(source, some);
        upgrade();
        expect(old).toEqual(oldAnswers);
        expect(await content(dir)).toEqual(oldContent);

        // Whatever is written while it is renewed.
        let late: Promise<unknown> | undefined;
        const [done] = await index.compact(undefined, {
          onProgress: () => {
            if (late) return;
            put(source, c);
            late = index.update();
          },
        });
        await late;
        put(source, c);
        await index.update();
        expect(done).toMatchObject({ collationBefore: 1, collation: LATER });
        expect(await collationOf(index)).toEqual([LATER, ["2"]]);
        const [newContent, newAnswers] = await fresh(source, some);
        expect(await answers(index, some)).toEqual(newAnswers);
        await expectSound(index);
        await index.close();
        expect(await content(dir)).toEqual(newContent);
        expect(names(dir)).toEqual([expect.stringMatching(/\.2\.vmx$/), "viewmill.json"]);
      }),
      { numRuns: RUNS, plugins: [fc.interruptAfterTimeLimit(60_000)] },
    );
  }, 120_000);
});

/** An index of the earlier release over some hundred documents, opened by the later one. */
async function upgraded(
  dir: string,
  more: Partial<ViewIndexOptions> = {},
): Promise<{ index: ViewIndex; source: MemorySource }> {
  const source = new MemorySource("renewal");
  for (let i = 0; i < 600; i++)
    source.put({
      _id: `doc-${i}`,
      keys: [`${LETTERS[i % LETTERS.length] ?? ""}${i % 40}`],
      n: i % 7,
    });
  await earlier(dir, source);
  return { index: await open(dir, source, more), source };
}

async function keysOf(index: ViewIndex, parameters: QueryParameters = {}): Promise<unknown[]> {
  const answer = await index.query("d", "sum", { group: true, update: false, ...parameters });
  return (await answer.object()).rows.map(({ key: one }) => one);
}

/** But for the lock of who has it open. */
function files(dir: string): string[] {
  return names(dir).filter((name) => name !== "lock");
}

/** A range in which nothing lies in the later order. */
const NEITHER = ["b1", "y2"];

describe("renewing", () => {
  test("is seen in the order of rows, and in which of them lie in a range", async () => {
    upgrade();
    const dir = tempDir();
    const { index } = await upgraded(dir);
    const inRange = async (): Promise<unknown[]> =>
      keysOf(index, { startkey: "y", endkey: "y\ufff0" });
    expect((await inRange()).every((one) => /^y/i.test(String(one)))).toBe(true);
    const order = await keysOf(index);
    await index.compact();
    expect((await inRange()).every((one) => /^y/i.test(String(one)))).toBe(true);
    expect((await keysOf(index)).length).toBe(order.length);
    expect(await keysOf(index)).not.toEqual(order);
    expect((await keysOf(index)).sort()).toEqual(order.sort());
    const refused = { startkey: NEITHER[0], endkey: NEITHER[1] };
    await expect(keysOf(index, refused)).rejects.toThrow("No rows can match your key range");
    expect(await keysOf(index, { ...refused, descending: true })).not.toEqual([]);
    await index.close();
  });

  test("between a query's being read and its being run: it is run in the order of the file it meets", async () => {
    upgrade();
    const { index } = await upgraded(tempDir());
    const found = await index.findView("d", "rows");
    const ask = (parameters: QueryParameters): ReturnType<typeof resolveViewQuery> =>
      resolveViewQuery(parseQueryObject({ update: false, ...parameters }), found.shape);
    const one = ask({ key: "y2" });
    const some = ask({ keys: ["y2", "b1"] });
    const none = ask({ startkey: NEITHER[0], endkey: NEITHER[1] });
    expect(one.collationVersion).toBe(1);
    const expected = (await (await index.run(found, one)).object()).rows;
    await index.compact();
    expect((await (await index.run(found, one)).object()).rows).toEqual(expected);
    expect(expected.length).toBeGreaterThan(0);
    expect((await (await index.run(found, some)).object()).rows.length).toBeGreaterThan(
      expected.length,
    );
    await expect(index.run(found, none)).rejects.toThrow("No rows can match your key range");
    await index.close();
  });

  test("leaves an answer that is half read to the old file, and a reader follows to the new one", async () => {
    upgrade();
    const dir = tempDir();
    const { index } = await upgraded(dir);
    const reader = await open(dir, undefined, { readOnly: true, designDocuments: [] });
    const order = await keysOf(index);
    expect(await keysOf(reader)).toEqual(order);
    const half = await index.query("d", "sum", { group: true, update: false });
    const rows = half.rows();
    const read: unknown[] = [(await rows.next()).value?.key];
    await index.compact();
    for await (const row of rows) read.push(row.key);
    expect(read).toEqual(order);
    expect(await keysOf(reader)).toEqual(await keysOf(index));
    expect(await keysOf(reader, { key: "y2" })).toEqual(["y2"]);
    expect(await collationOf(reader)).toEqual([LATER, ["2"]]);
    await expectSound(reader);
    await reader.close();
    await index.close();
  });

  test("goes on while a feed is followed, and waits for no more than a turn", async () => {
    upgrade();
    const { index, source } = await upgraded(tempDir());
    const abort = new AbortController();
    const following = index.follow({ signal: abort.signal });
    await index.compact();
    source.put({ _id: "late", keys: ["late"], n: 1 });
    while (!(await keysOf(index)).includes("late"));
    abort.abort();
    await expect(following).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    expect(await collationOf(index)).toEqual([LATER, ["2"]]);
    await expectSound(index);
    await index.close();
  });

  test("stopped or killed at any moment leaves the old file whole, and nothing else", async () => {
    upgrade();
    const dir = tempDir();
    const { index, source } = await upgraded(dir);
    const order = await keysOf(index);
    const moments: string[] = [];
    const copies: string[] = [];
    // What a process killed at this moment leaves is what the directory holds.
    const copy = (phase: string): void => {
      moments.push(phase);
      const to = `${dir}-${copies.length}`;
      cpSync(dir, to, { recursive: true });
      copies.push(to);
    };
    for (const after of [0, 2, 5]) {
      const abort = new AbortController();
      let reports = 0;
      await expect(
        index.compact(undefined, {
          signal: abort.signal,
          onProgress: () => {
            if (reports++ === after) abort.abort();
          },
        }),
      ).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
      expect(files(dir)).toEqual([expect.stringMatching(/\.1\.vmx$/), "viewmill.json"]);
    }
    await index.compact(undefined, {
      onProgress: ({ phase }) => {
        copy(phase);
      },
    });
    await index.close();
    expect(new Set(moments)).toEqual(new Set(["sort", "copy"]));
    for (const left of copies) {
      const again = await open(left, source);
      expect(files(left)).toEqual([expect.stringMatching(/\.1\.vmx$/), "viewmill.json"]);
      expect(await keysOf(again)).toEqual(order);
      await again.close();
    }
    const last = await open(copies.at(-1) ?? "", source);
    await last.compact();
    expect(await collationOf(last)).toEqual([LATER, ["2"]]);
    await expectSound(last);
    await last.close();
  });

  test("ends when its group is cleaned up meanwhile", async () => {
    upgrade();
    const dir = tempDir();
    const source = new MemorySource("renewal");
    source.put(DESIGN);
    source.put({ _id: "a", keys: ["b", "y"], n: 1 });
    const given = { designDocuments: [] };
    downgrade();
    const old = await open(dir, source, given);
    await old.update();
    await old.close();
    upgrade();
    const index = await open(dir, source, given);
    await index.info({ look: true });
    let cleaning: Promise<string[]> | undefined;
    const compacting = index.compact("d", {
      onProgress: () => {
        if (cleaning) return;
        source.delete(DESIGN._id);
        cleaning = index.cleanup();
      },
    });
    await expect(compacting).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    expect(await cleaning).toContainEqual(expect.stringMatching(/\.1\.vmx$/));
    await index.close();
    expect(names(dir)).toEqual(["viewmill.json"]);
  });

  test("an earlier release refuses the renewed file, and says what to do", async () => {
    upgrade();
    const dir = tempDir();
    const { index, source } = await upgraded(dir);
    await index.compact();
    await index.close();
    downgrade();
    const old = await open(dir, source);
    await expect(keysOf(old)).rejects.toMatchObject({
      code: "INDEXER_FORMAT_UNSUPPORTED",
      message: expect.stringContaining("Use a newer viewmill") as unknown,
    });
    await old.close();
    expect(readdirSync(dir).filter((name) => name.endsWith(".vmx"))).toHaveLength(1);
  });

  test("an index whose manifest tells no version is of the first", async () => {
    upgrade();
    const dir = tempDir();
    const { index, source } = await upgraded(dir);
    const order = await keysOf(index);
    await index.close();
    const path = join(dir, "viewmill.json");
    const manifest = readFileSync(path, "utf8");
    expect(manifest).toContain('"collation": 1');
    writeFileSync(path, manifest.replace(/,\s*"collation": 1/, ""));
    const again = await open(dir, source);
    expect(await keysOf(again)).toEqual(order);
    expect(await keysOf(again, { key: "y2" })).toEqual(["y2"]);
    await again.close();
  });

  test("keeps partitions apart", async () => {
    upgrade();
    const dir = tempDir();
    const source = new MemorySource("renewal");
    const more = { partitioned: true };
    for (let i = 0; i < 60; i++)
      source.put({ _id: `${i % 3 === 0 ? "y" : "b"}:${i}`, keys: [LETTERS[i % 11], "m"], n: i });
    downgrade();
    const old = await open(dir, source, more);
    await old.update();
    await old.close();
    upgrade();
    const index = await open(dir, source, more);
    source.put({ _id: "y:new", keys: ["y", `x${NEWLY_IGNORED}`, "x"], n: 1 });
    await index.update();
    const asked = async (at: ViewIndex): Promise<string[]> => {
      const texts: string[] = [];
      for (const partition of ["b", "y", "m"])
        for (const parameters of [{ group: true }, { startkey: "b", endkey: "b\ufff0" }, {}])
          texts.push(await answerText(at, "d", "sum", { partition, ...parameters }));
      return texts;
    };
    await index.compact();
    await expectSound(index);
    const made = await open(tempDir(), source, more);
    await made.update();
    expect(await asked(index)).toEqual(await asked(made));
    await made.close();
    await index.close();
  });
});
