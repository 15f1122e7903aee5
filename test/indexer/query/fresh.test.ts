// Queries that are answered without waiting: they see what was written just before, and leave others their turns.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

let index: ViewIndex;
let feed: string;
let seq = 0;

function row(id: string, k: number): string {
  const rev = `${++seq}-a`;
  const doc = { _id: id, _rev: rev, k };
  return `${JSON.stringify({ seq, id, changes: [{ rev }], doc })}\n`;
}

beforeAll(async () => {
  const dir = tempDir();
  feed = join(dir, "feed.ndjson");
  writeFileSync(feed, row("a", 0));
  index = await ViewIndex.open({
    dir: join(dir, "index"),
    source: `changes:${feed}`,
    designDocuments: [
      { _id: "_design/d", views: { v: { map: "function (doc) { emit(doc.k); }" } } },
    ],
    mapIn: "threads",
    threads: 1,
  });
  await index.update();
});

afterAll(() => index.close());

test("a query sees what was written before it, whatever was asked in the same turn", async () => {
  for (let k = 1; k <= 50; k++) {
    const before = index.query("d", "v");
    appendFileSync(feed, row("a", k));
    const after = index.query("d", "v");

    expect((await (await after).object()).rows).toEqual([{ id: "a", key: k, value: null }]);
    await (await before).object();
  }
});

test("queries one after the other do not keep the event loop to themselves", async () => {
  await (await index.query("d", "v")).object();
  let rung = false;
  setTimeout(() => {
    rung = true;
  }, 0);

  while (!rung) expect((await index.query("d", "v")).objectSync()?.rows).toHaveLength(1);
});
