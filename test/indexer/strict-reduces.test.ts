// Strict mode: a reduction that CouchDB would have stopped at fails every view of the design document; by default only its own range.

import { afterAll, expect, test } from "@jest/globals";

import { MemorySource } from "../../indexer/sources/index.js";
import { ViewIndex } from "../../indexer/view-index.js";
import { MappingRuntime } from "../../indexer/views/runtime.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const runtime = new MappingRuntime({ mapIn: "threads", threads: 1 });
afterAll(() => runtime.close());

const DDOC = {
  _id: "_design/d",
  views: {
    stats: { map: "function (doc) { emit(doc.k, doc.v) }", reduce: "_stats" },
    plain: { map: "function (doc) { emit(doc._id, null) }" },
  },
};

async function open(strict: boolean): Promise<ViewIndex> {
  const source = new MemorySource();
  source.put({ _id: "a", k: 1, v: 1 });
  source.put({ _id: "b", k: 2, v: null });
  return ViewIndex.open({ dir: tempDir(), source, designDocuments: [DDOC], runtime, strict });
}

async function outcome(index: ViewIndex, view: string, parameters: object): Promise<unknown> {
  try {
    return (await (await index.query("d", view, { ...parameters })).object()).rows.length;
  } catch (error) {
    const { code, details } = error as { code: string; details: { status: number; error: string } };
    return [code, details.status, details.error];
  }
}

const FAILED = ["INDEXER_REDUCE_FAILED", 500, "invalid_value"];

test("by default a bad value fails the queries whose range holds it", async () => {
  const index = await open(false);
  expect(await outcome(index, "stats", {})).toEqual(FAILED);
  expect(await outcome(index, "stats", { key: 1 })).toBe(1);
  expect(await outcome(index, "plain", {})).toBe(2);
  await index.close();
});

test("in strict mode it fails every view of the design document", async () => {
  const index = await open(true);
  expect(await outcome(index, "stats", { key: 1 })).toEqual(FAILED);
  expect(await outcome(index, "plain", {})).toEqual(FAILED);
  await index.close();
});
