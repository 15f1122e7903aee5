// Queries in-process over a warm tree in memory: lookups by key, a whole scan as text, and grouped reduces.
// usage: node dist/test/bench/query.js [rows]

import { MemoryStorage, NodeCache, Store, type TreeOp } from "../../btree/index.js";
import {
  parseViewQuery,
  resolveViewQuery,
  runViewQuery,
  type ViewContext,
  type ViewShape,
} from "../../indexer/query/index.js";
import { createViewReducer } from "../../indexer/reducers/index.js";
import { compareBytes } from "../helpers/memory-tree.js";
import { entriesOf, type EmittedRow } from "../helpers/view-model.js";

const ROWS = Number(process.argv[2] ?? 200_000);
const PER_KEY = 20;

async function contextOf(rows: readonly EmittedRow[], reduce: string): Promise<ViewContext> {
  const reducer = createViewReducer({ specs: [reduce], collation: "root" });
  const cache = new NodeCache(1 << 30);
  const store = await Store.create(new MemoryStorage(), {
    state: new Uint8Array(0),
    reducers: () => reducer,
    cache,
  });
  const ops: TreeOp[] = entriesOf(rows, "root").sort((a, b) => compareBytes(a.key, b.key));
  await store.apply(new Map([["view:0", ops]]), new Uint8Array(0));
  return { tree: store.snapshot().tree("view:0"), collation: "root", reducer, reduceIndex: 0 };
}

async function measure(
  name: string,
  unit: string,
  run: () => number | Promise<number>,
): Promise<void> {
  await run();
  let best = 0;
  for (let i = 0; i < 5; i++) {
    const started = performance.now();
    const count = await run();
    best = Math.max(best, count / (performance.now() - started));
  }
  console.log(
    `${name.padEnd(44)} ${Math.round(best * 1000)
      .toLocaleString("en")
      .padStart(12)} ${unit}/s`,
  );
}

const users = ROWS / PER_KEY;
const userRows: EmittedRow[] = Array.from({ length: ROWS }, (_, i) => ({
  id: `doc-${String(i).padStart(8, "0")}`,
  key: `"user-${i % users}"`,
  value: "1",
}));
const uniqueRows = userRows.map((row, i) => ({ ...row, key: `"user-${i}"` }));
const arrayRows = userRows.map((row, i) => ({
  ...row,
  key: `[2024,${i % 12},${i % users}]`,
  value: String(i % 100),
}));
const shape: ViewShape = { hasReduce: true, collation: "root" };

async function text(context: ViewContext, params: [string, string][]): Promise<number> {
  let rows = 0;
  const answer = runViewQuery(resolveViewQuery(parseViewQuery(params), shape), context);
  for await (const page of answer.pages()) rows += page.length;
  return rows;
}

async function bytes(context: ViewContext, params: [string, string][]): Promise<number> {
  let length = 0;
  const answer = runViewQuery(resolveViewQuery(parseViewQuery(params), shape), context);
  for await (const chunk of answer.text()) length += chunk.length;
  return length / 1e3;
}

function lookups(context: ViewContext, count: number, more: [string, string][] = []): number {
  for (let i = 0; i < 20_000; i++) {
    const params: [string, string][] = [
      ["key", `"user-${(i * 7919) % count}"`],
      ["reduce", "false"],
      ...more,
    ];
    const answer = runViewQuery(resolveViewQuery(parseViewQuery(params), shape), context);
    if (answer.objectSync()?.rows.length === 0) throw new Error("a key was not found");
  }
  return 20_000;
}

const users1 = await contextOf(userRows, "_sum");
const unique = await contextOf(uniqueRows, "_count");
const arrays = await contextOf(arrayRows, "_sum");
await measure("key= of one row, to an object", "queries", () => lookups(unique, ROWS));
await measure(`key= of ${PER_KEY} rows, to an object`, "queries", () => lookups(users1, users));
await measure(`key= of ${PER_KEY} rows, limit=1`, "queries", () =>
  lookups(users1, users, [["limit", "1"]]),
);
await measure("all rows, pages", "rows", () => text(users1, [["reduce", "false"]]));
await measure("all rows, descending, pages", "rows", () =>
  text(users1, [
    ["reduce", "false"],
    ["descending", "true"],
  ]),
);
await measure("all rows of array keys, pages", "rows", () => text(arrays, [["reduce", "false"]]));
await measure("all rows, text", "kB", () => bytes(users1, [["reduce", "false"]]));
await measure("group=true, _sum of 20 rows", "groups", () => text(users1, [["group", "true"]]));
await measure("group=true, _count of single rows", "groups", () =>
  text(unique, [["group", "true"]]),
);
await measure("group=true descending, _sum of 20 rows", "groups", () =>
  text(users1, [
    ["group", "true"],
    ["descending", "true"],
  ]),
);
await measure("group=true, _sum of array keys", "groups", () => text(arrays, [["group", "true"]]));
await measure("group_level=2, _sum", "groups", () => text(arrays, [["group_level", "2"]]));
await measure("skip=half&limit=1", "queries", () => {
  for (let i = 0; i < 5000; i++) {
    const params: [string, string][] = [
      ["skip", String(ROWS / 2)],
      ["limit", "1"],
      ["reduce", "false"],
    ];
    runViewQuery(resolveViewQuery(parseViewQuery(params), shape), users1).objectSync();
  }
  return 5000;
});
