// Rows that the order of keys drops, because another key of their document collates equally: they are kept out of sight, and are rows when
// the index is renewed in an order that tells the keys apart.

import { afterAll, afterEach, beforeAll, describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { Store } from "../../../btree/index.js";
import {
  MappingRuntime,
  MemorySource,
  ViewIndex,
  type QueryParameters,
  type ViewIndexOptions,
} from "../../../indexer/index.js";
import { decodeState, GROUP_FORMAT } from "../../../indexer/views/group-index.js";
import { groupReducers, IDS_TREE } from "../../../indexer/views/group-reducers.js";
import { droppedRows, emittedKeys, encodeIdEntry } from "../../../indexer/views/id-entry.js";
import {
  answerText,
  indexFile,
  treeContent,
  withoutKeyOrder,
} from "../../helpers/index-content.js";
import {
  downgrade,
  EQUAL_ONCE,
  IGNORED_ONCE,
  isUpgraded,
  NEWLY_IGNORED,
  upgrade,
} from "../../helpers/later-collation.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const RUNS = Number(process.env["TEST_RUNS"] ?? 15);
const LIMITS = { server: undefined, threads: 2, timeoutMs: 20_000, heapMb: 256, memoryMb: 1024 };
const MAP_INS = ["threads", "processes"] as const;
type MapIn = (typeof MAP_INS)[number];
const runtimes = new Map<string, MappingRuntime>();

/** Threads and processes of the release that this thread is of. */
function runtime(mapIn: MapIn): MappingRuntime {
  const name = `${mapIn} ${isUpgraded() ? "later" : "earlier"}`;
  const made = runtimes.get(name) ?? new MappingRuntime({ ...LIMITS, mapIn });
  runtimes.set(name, made);
  return made;
}

beforeAll(upgrade);
afterEach(upgrade);
afterAll(async () => {
  downgrade();
  for (const one of runtimes.values()) await one.close();
});

const EACH = "function (doc) { for (const [k, v] of doc.rows) emit(k, v); }";
const raw = { collation: "raw" };
const DESIGN = {
  _id: "_design/d",
  views: {
    sum: { map: EACH, reduce: "_sum" },
    distinct: { map: EACH, reduce: "_approx_count_distinct" },
    last: { map: EACH, reduce: "_last" },
    nested: {
      map: "function (doc) { for (const [k, v] of doc.rows) { emit([k, 1], v); emit({[k]: v}, 1); } }",
      reduce: "_count",
    },
    custom: {
      map: "function (doc) { if (doc.bad) throw new Error('bad'); for (const [k, v] of doc.rows) emit(k, k); }",
      reduce: "function (keys, values, rereduce) { return rereduce ? sum(values) : keys.length; }",
    },
    raw: { map: EACH, reduce: "_sum", options: raw },
  },
};

interface Doc {
  readonly _id: string;
  readonly rows: readonly (readonly [string, number])[];
  readonly bad?: boolean | undefined;
}

/** What collates equally in one order, in the other, in both or in none. */
const PIECES = ["d", "e", ...EQUAL_ONCE, IGNORED_ONCE, NEWLY_IGNORED, "\u0001"];
const key = fc.array(fc.constantFrom(...PIECES), { maxLength: 3 }).map((pieces) => pieces.join(""));
const rows = fc.oneof(
  { weight: 6, arbitrary: fc.array(fc.tuple(key, fc.nat(3)), { maxLength: 9 }) },
  // Past the number up to which keys are compared pairwise.
  { weight: 1, arbitrary: fc.array(fc.tuple(key, fc.nat(3)), { minLength: 17, maxLength: 40 }) },
);
const doc: fc.Arbitrary<Doc> = fc.record(
  {
    _id: fc.constantFrom("p:a", "p:b", "p:d", "p:\u00e9", "q:a", "q:\u0001", "d:e", "e:d", "q:x"),
    rows,
    bad: fc.constant(true),
  },
  { requiredKeys: ["_id", "rows"] },
);
const docs = fc.array(doc, { maxLength: 12 });

/** The ways by which documents come into an index. */
const WAYS: Readonly<Record<string, Partial<ViewIndexOptions>>> = {
  "runs that are merged": { bulkBytes: 0, bulkChanges: 0 },
  "small batches": { minDocuments: 1 },
  "one batch": { minDocuments: 1000 },
};
const way = fc.constantFrom(...Object.keys(WAYS));

function put(source: MemorySource, all: readonly Doc[]): void {
  for (const one of all) {
    if (one.rows.length === 0) source.delete(one._id);
    else source.put({ ...one });
  }
}

async function open(
  dir: string,
  source: MemorySource,
  { mapIn = "threads", ...more }: Partial<ViewIndexOptions> & { mapIn?: MapIn } = {},
): Promise<ViewIndex> {
  return ViewIndex.open({
    dir,
    source,
    designDocuments: [DESIGN],
    runtime: runtime(mapIn),
    ...more,
  });
}

async function answers(index: ViewIndex, partitioned: boolean): Promise<string[]> {
  const texts: string[] = [];
  for (const partition of partitioned ? ["p", "q", "d", "e"] : [undefined])
    for (const view of Object.keys(DESIGN.views)) {
      const all: QueryParameters[] = [{ reduce: false }, { group: true }, {}];
      for (const one of PIECES)
        all.push({ key: one, reduce: false }, { startkey: one }, { key: [one, 1] });
      for (const parameters of all) {
        const how = partition === undefined ? parameters : { partition, ...parameters };
        texts.push(`${view} ${JSON.stringify(how)} ${await answerText(index, "d", view, how)}`);
      }
    }
  return texts;
}

async function content(dir: string): Promise<unknown> {
  const { errors: _stacks, ...trees } = withoutKeyOrder(await treeContent(indexFile(dir)));
  return trees;
}

async function expectSound(index: ViewIndex): Promise<void> {
  for (const { faults } of await index.verify()) expect(faults).toEqual([]);
}

async function expectAsBuiltAnew(
  index: ViewIndex,
  dir: string,
  source: MemorySource,
  options: Partial<ViewIndexOptions> & { mapIn: MapIn },
): Promise<void> {
  const partitioned = options.partitioned === true;
  const other = tempDir();
  const fresh = await open(other, source, options);
  await fresh.update();
  await expectSound(index);
  expect(await answers(index, partitioned)).toEqual(await answers(fresh, partitioned));
  await fresh.close();
  expect(await content(dir)).toEqual(await content(other));
}

describe("rows that an order of keys drops", () => {
  test("are in the renewed index as in one that is built anew, however they came in", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(docs, docs, docs, docs, docs),
        fc.tuple(way, way, way, way),
        fc.constantFrom(...MAP_INS),
        fc.boolean(),
        async ([a, b, c, d, e], [wayA, wayB, wayC, wayD], mapIn, partitioned) => {
          const dir = tempDir();
          const source = new MemorySource("dropped");
          const options = (name: string): Partial<ViewIndexOptions> & { mapIn: MapIn } => ({
            mapIn,
            partitioned,
            ...WAYS[name],
          });
          downgrade();
          for (const [name, some] of [
            [wayA, [{ _id: "p:first", rows: [["d", 1]] } satisfies Doc, ...a]],
            [wayB, b],
          ] as const) {
            const old = await open(dir, source, options(name));
            put(source, some);
            await old.update();
            await old.close();
          }
          upgrade();

          const index = await open(dir, source, options(wayC));
          put(source, c);
          await index.update();
          await expectSound(index);
          let late: Promise<unknown> | undefined;
          await index.compact(undefined, {
            onProgress: () => {
              if (late) return;
              put(source, d);
              late = index.update();
            },
          });
          await late;
          await expectAsBuiltAnew(index, dir, source, options(wayB));
          await index.close();

          // What was renewed is kept up to date as well.
          const again = await open(dir, source, options(wayD));
          put(source, e);
          await again.update();
          await again.compact();
          await expectAsBuiltAnew(again, dir, source, options(wayA));
          await again.close();
        },
      ),
      { numRuns: RUNS, plugins: [fc.interruptAfterTimeLimit(100_000)] },
    );
  }, 180_000);

  test("are seen by no query, and counted by no reduction, until they are told apart", async () => {
    const dir = tempDir();
    const source = new MemorySource("dropped");
    const [parts, whole] = EQUAL_ONCE;
    source.put({
      _id: "a",
      rows: [
        [parts, 1],
        [whole, 2],
        [parts, 4],
      ],
    });
    downgrade();
    const old = await open(dir, source);
    await old.update();
    await old.close();
    upgrade();
    const index = await open(dir, source);
    const seen = async (): Promise<unknown> => {
      const answer = await index.query("d", "sum", { reduce: false, update: false });
      const all = (await answer.object()).rows.map((row) => [row.key, row.value]);
      const total = await (await index.query("d", "sum", { update: false })).object();
      return [all, total.rows[0]?.value];
    };

    const before = await seen();
    await index.compact();
    const after = await seen();

    expect(before).toEqual([[[whole, 2]], 2]);
    expect(after).toEqual([
      [
        [parts, 1],
        [parts, 4],
        [whole, 2],
      ],
      7,
    ]);
    await index.close();
  });

  test("cost a document that has none not a byte", async () => {
    const dir = tempDir();
    const source = new MemorySource("dropped");
    source.put({ _id: "a", rows: [["d", 1], ["\u00e9", 1], ["d", 2], ["\u00e9", 2]] }); // prettier-ignore
    const index = await open(dir, source);
    await index.update();
    await index.close();
    const [entry = ""] = (await treeContent(indexFile(dir)))[IDS_TREE] ?? [];
    const bytes = Buffer.from(entry.split("=")[1] ?? "", "hex");
    expect(droppedRows(bytes)).toEqual([]);
    expect(encodeIdEntry(0, bytes.subarray(1), emittedKeys(bytes))).toHaveLength(bytes.length);
  });
});

describe("an index of format 1 of the group", () => {
  /** An index whose checkpoint says that an earlier release wrote it. */
  async function ofFormat1(dir: string, source: MemorySource): Promise<void> {
    for (let i = 0; i < 50; i++) source.put({ _id: `doc-${i}`, rows: [["d", i]] });
    const index = await open(dir, source);
    await index.update();
    await index.close();
    const store = await Store.open(indexFile(dir), { mode: "write", reducers: groupReducers.countsOnly }); // prettier-ignore
    const state = { ...decodeState(store.state), format: 1 };
    await store.apply(new Map(), Buffer.from(JSON.stringify(state)));
    await store.commit({ sync: true });
    await store.close();
  }

  async function formatOf(dir: string): Promise<number> {
    const store = await Store.open(indexFile(dir), { mode: "read", reducers: groupReducers.countsOnly }); // prettier-ignore
    const { format } = decodeState(store.state);
    await store.close();
    return format;
  }

  test.each(Object.entries(WAYS))(
    "is read, and is one of the present format once %s hold what an earlier release would misread",
    async (_name, options) => {
      const dir = tempDir();
      const source = new MemorySource("format");
      await ofFormat1(dir, source);
      const index = await open(dir, source, options);
      expect(await answerText(index, "d", "sum")).toContain('"value":1225');
      expect(await formatOf(dir)).toBe(1);
      for (let i = 0; i < 20; i++)
        source.put({ _id: `doc-${i}`, rows: EQUAL_ONCE.map((one) => [one, i]) });
      await index.update();
      await expectSound(index);
      await index.close();
      expect(await formatOf(dir)).toBe(GROUP_FORMAT);
    },
  );

  test("is refused by an earlier release as soon as runs for it are on disk", async () => {
    const dir = tempDir();
    const source = new MemorySource("format");
    await ofFormat1(dir, source);
    const index = await open(dir, source, WAYS["runs that are merged"]);
    for (let i = 0; i < 20; i++) source.put({ _id: `doc-${i}`, rows: [["e", i]] });
    const abort = new AbortController();
    const onProgress = (): void => {
      abort.abort();
    };
    await expect(index.update({ signal: abort.signal, onProgress })).rejects.toMatchObject({
      code: "INDEXER_ABORTED",
    });
    await index.close();
    expect(await formatOf(dir)).toBe(GROUP_FORMAT);
  });
});
