// System cases about what an index is at the moment, and who may write to it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { expect } from "@jest/globals";

import { ViewIndex, type ViewIndexOptions } from "../../indexer/index.js";
import { failureOf } from "../helpers/case-index.js";
import { tempDir } from "../helpers/temp-dir.js";
import { Feed, numbered } from "./system-feed.js";

const MAP = "function (doc) { emit(doc.k, 1); }";
const DESIGN = { _id: "_design/d", views: { v: { map: MAP, reduce: "_count" } } };
const HERE: Partial<ViewIndexOptions> = { mapIn: "threads", threads: 1 };

interface Place {
  readonly dir: string;
  readonly feed: Feed;
  readonly open: (options?: Partial<ViewIndexOptions>) => Promise<ViewIndex>;
}

function place(): Place {
  const dir = tempDir();
  const feed = new Feed(join(dir, "feed.ndjson"));
  return {
    dir: join(dir, "index"),
    feed,
    open: (options = {}) =>
      ViewIndex.open({ ...HERE, dir: join(dir, "index"), source: feed.source, ...options }),
  };
}

async function countOf(index: ViewIndex, design = "d"): Promise<unknown> {
  const { rows } = await (await index.query(design, "v")).object();
  return rows[0]?.value;
}

/** Ready, building, failed or absent, from what `info` tells. */
async function stateOf(index: ViewIndex, id: string): Promise<string> {
  const { groups, refused } = await index.info();
  if (refused.some(({ designDocument }) => designDocument === id)) return "failed";
  const group = groups.find(({ designDocument }) => designDocument === id);
  if (!group) return "absent";
  if (group.updaterRunning) return "building";
  return group.state === "ready" ? "ready" : "not built";
}

async function readyCheck(): Promise<void> {
  const { dir, feed, open } = place();
  feed.write([
    ...numbered(500, (i) => ({ _id: `n${i}`, k: i })),
    { ...DESIGN },
    { _id: "_design/wrong", views: { v: { map: 5 } } },
  ]);
  const never = await open({ designDocumentsFromSource: true, chunkBytes: 4000, minDocuments: 20 });
  // A query finds the design documents, and builds nothing.
  expect(await never.query("d", "v", { update: "what" }).catch(failureOf)).toMatchObject({
    status: 400,
  });
  expect(await stateOf(never, "_design/d")).toBe("not built");
  expect(await stateOf(never, "_design/none")).toBe("absent");
  expect(await stateOf(never, "_design/wrong")).toBe("failed");
  expect(readdirSync(dir).filter((name) => name.endsWith(".vmx"))).toEqual([]);

  const states: Promise<string>[] = [];
  await never.update({
    designDocuments: ["d"],
    onProgress: () => {
      states.push(stateOf(never, "_design/d"));
    },
  });
  expect(await states[0]).toBe("building");
  expect(await stateOf(never, "_design/d")).toBe("ready");
  const seq = (await never.info()).groups[0]?.updateSeq;
  feed.write([{ _id: "late", k: 1 }]);
  expect(await stateOf(never, "_design/d")).toBe("ready");
  expect((await never.info()).groups[0]?.updateSeq).toBe(seq);
  expect(await never.pending("d")).toBe(1);
  await never.close();
}

async function replayedBatch(): Promise<void> {
  const { feed, open } = place();
  const index = await open({ designDocuments: [DESIGN] });
  const batch = numbered(200, (i) => ({ _id: `n${i}`, k: i % 7 }));
  feed.write(batch);
  expect(await countOf(index)).toBe(200);
  feed.write([{ _id: "never seen", _deleted: true }]);
  expect(await countOf(index)).toBe(200);
  // The very rows again, as a source does that begins anew: same revisions.
  feed.replay(0, batch.length);
  const { mapped, unchanged } = await index.update();
  expect([mapped, unchanged]).toEqual([0, 200]);
  expect(await countOf(index)).toBe(200);

  const gone = feed.written.length;
  feed.write(batch.map(({ _id }) => ({ _id, _deleted: true as const })));
  expect(await countOf(index)).toBeUndefined();
  feed.replay(gone, gone + batch.length);
  expect(await countOf(index)).toBeUndefined();
  feed.write([{ _id: "n1", k: 1 }]);
  expect(await countOf(index)).toBe(1);
  await index.close();
}

const CHILD = fileURLToPath(new URL("./system-feeds-child.js", import.meta.url));

async function twoProcesses(): Promise<void> {
  const { dir, feed, open } = place();
  feed.write(numbered(300, (i) => ({ _id: `n${i}`, k: i })));
  const design = join(tempDir(), "design.json");
  writeFileSync(design, JSON.stringify(DESIGN));
  const child = spawn(process.execPath, [CHILD, dir, feed.source, design, "hold"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  for await (const line of createInterface({ input: child.stdout })) if (line === "updated") break;

  await expect(open()).rejects.toMatchObject({ code: "INDEXER_LOCKED" });
  const reader = await open({ readOnly: true });
  expect(await countOf(reader)).toBe(300);
  child.kill("SIGKILL");
  await exited;

  feed.write([{ _id: "after", k: 1 }]);
  const writer = await open();
  expect(await countOf(writer)).toBe(301);
  expect((await writer.verify())[0]?.faults).toEqual([]);
  expect(await countOf(reader)).toBe(301);
  await reader.close();
  await writer.close();
}

async function emptyOrAbsent(): Promise<void> {
  const { dir, feed, open } = place();
  mkdirSync(dir, { recursive: true });
  feed.write([{ ...DESIGN }]);
  const index = await open();
  const notFound = {
    status: 404,
    error: "not_found",
    reason: expect.stringMatching(/missing|deleted/),
  };

  // No documents: built, and empty.
  expect(await (await index.query("d", "v", { reduce: false })).object()).toMatchObject({
    total_rows: 0,
    rows: [],
  });
  // Never built: the first query does it.
  feed.write([{ _id: "_design/e", views: { v: { map: `${MAP} ` } } }]);
  await index.query("e", "v", { update: false });
  expect(await stateOf(index, "_design/e")).toBe("not built");
  expect(await (await index.query("e", "v")).object()).toMatchObject({ total_rows: 0, rows: [] });
  expect(await stateOf(index, "_design/e")).toBe("ready");
  // Deleted, and never there.
  feed.write([{ _id: "_design/e", _deleted: true }]);
  expect(await index.query("e", "v").catch(failureOf)).toEqual(notFound);
  expect(await index.query("never", "v").catch(failureOf)).toEqual(notFound);
  const file = (await index.info()).groups[0]?.file ?? "";
  expect(existsSync(file)).toBe(true);
  expect(await index.cleanup()).toHaveLength(1);
  await index.close();
}

export const stateProcedures: Readonly<Record<string, () => Promise<void>>> = {
  "sys-ready-check": readyCheck,
  "sys-replayed-batch-idempotent": replayedBatch,
  "sys-two-processes-one-index": twoProcesses,
  "sys-empty-vs-absent-index": emptyOrAbsent,
};
