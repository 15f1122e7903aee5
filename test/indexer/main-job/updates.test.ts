// What an update does about design documents that change, a source that changes, and rows that no longer count.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeEach, describe, expect, test } from "@jest/globals";

import { MappingRuntime, ViewIndex, type ViewIndexOptions } from "../../../indexer/index.js";
import { names } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const runtime = new MappingRuntime({ mapIn: "threads", threads: 2, timeoutMs: 20_000 });
afterAll(() => runtime.close());

let root: string;
let dir: string;
let feed: string;
let seq: number;

beforeEach(() => {
  root = tempDir();
  dir = join(root, "index");
  feed = join(root, "feed.ndjson");
  seq = 0;
  writeFileSync(feed, "");
});

/** Appends rows of a feed. */
function put(...docs: readonly object[]): void {
  for (const doc of docs) {
    const id = (doc as { _id: string })._id;
    appendFileSync(
      feed,
      `${JSON.stringify({ seq: ++seq, id, changes: [{ rev: `${seq}-a` }], doc })}\n`,
    );
  }
}

function design(emitted: string, more: object = {}): object {
  return {
    _id: "_design/d",
    ...more,
    views: {
      v: {
        map: `function (doc) { if (doc.bad) throw null; emit(${emitted}, 1); }`,
        reduce: "_count",
      },
    },
  };
}

function open(options: Partial<ViewIndexOptions> = {}): Promise<ViewIndex> {
  return ViewIndex.open({ dir, source: `changes:${feed}`, runtime, mapIn: "threads", ...options });
}

async function keys(index: ViewIndex, update: boolean): Promise<unknown[]> {
  const answer = await index.query("d", "v", { reduce: false, update });
  return (await answer.object()).rows.map(({ key }) => key);
}

/** What the directory alone says. */
async function keysOfDirectory(): Promise<unknown[]> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    return await keys(index, false);
  } finally {
    await index.close();
  }
}

async function failing(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    return (error as { code: string }).code;
  }
  return "";
}

describe("follow", () => {
  test("builds and keeps up a design document that changes in the feed", async () => {
    put(design("doc.a"), { _id: "one", a: "a1", b: "b1" });
    const index = await open();
    const stop = new AbortController();
    let told: () => void = () => undefined;
    const reaches = async (expected: readonly unknown[]): Promise<void> => {
      for (;;) {
        const progress = new Promise<void>((resolve) => (told = resolve));
        if (JSON.stringify(await keys(index, false)) === JSON.stringify(expected)) return;
        await progress;
      }
    };
    const following = index.follow({
      signal: stop.signal,
      onProgress: () => {
        told();
      },
    });

    await reaches(["a1"]);
    put(design("doc.b"));
    await reaches(["b1"]);
    put({ _id: "two", a: "a2", b: "b2" });
    await reaches(["b1", "b2"]);

    stop.abort();
    expect(await failing(following)).toBe("INDEXER_ABORTED");
    await index.close();
  });

  test("leaves a design document alone that says autoupdate: false; a query updates it", async () => {
    put(
      design("doc.a", { autoupdate: false }),
      {
        ...design("doc.b"),
        _id: "_design/other",
      },
      { _id: "one", a: "a1", b: "b1" },
    );
    const index = await open();
    const stop = new AbortController();
    const updated = new Promise<void>((resolve) => {
      index
        .follow({
          signal: stop.signal,
          onProgress: () => {
            resolve();
          },
        })
        .catch(() => undefined);
    });
    await updated;

    expect(await keys(index, false)).toEqual([]);
    expect(await keys(index, true)).toEqual(["a1"]);

    stop.abort();
    await index.close();
  });
});

describe("strict mode", () => {
  const cases = [
    ["a first build", { bulkBytes: 0 }],
    ["windows", {}],
    ["a first build in many chunks", { bulkBytes: 0, chunkBytes: 200 }],
    ["windows in many chunks", { chunkBytes: 200, minDocuments: 1 }],
  ] as const;

  test.each(cases)("does not fail over a row that was superseded: %s", async (_, options) => {
    put(
      { _id: "x", a: 0, bad: true },
      { _id: "y", a: 1 },
      { _id: "z", a: 2, bad: true },
      { _id: "x", a: 3 },
      { _id: "z", _deleted: true },
    );
    const index = await open({ designDocuments: [design("doc.a")], strict: true, ...options });

    await index.update();

    expect(await keys(index, false)).toEqual([1, 3]);
    await index.close();
  });

  test.each(cases)("fails over a document's last state: %s", async (_, options) => {
    put({ _id: "x", a: 0 }, { _id: "y", a: 1, bad: true }, { _id: "x", a: 3, bad: true });
    put({ _id: "y", a: 2 });
    const index = await open({ designDocuments: [design("doc.a")], strict: true, ...options });

    expect(await failing(index.update())).toBe("INDEXER_MAP_FAILED");

    await index.close();
  });
});

test("an update of a few documents among many writes little, and nothing is lost by it", async () => {
  const ids = Array.from({ length: 5000 }, (_, i) => `doc-${(i * 7919) % 5000}`);
  put(...ids.map((_id) => ({ _id, a: 1 })));
  const index = await open({ designDocuments: [design("doc.a")] });
  await index.update();
  const sizeOf = async (): Promise<number> => (await index.info()).groups[0]?.sizes.file ?? 0;
  const before = await sizeOf();

  const changed = ids.filter((_, i) => i % 50 === 0);
  put(...changed.map((_id) => ({ _id, a: 1, unseen: true })));
  put({ _id: ids[1] ?? "", _deleted: true }, { _id: "new", a: 2 });
  await index.update();

  // Each document's leaf alone would be 4 KiB.
  expect((await sizeOf()) - before).toBeLessThan(changed.length * 400);
  expect((await index.info()).groups[0]?.documents).toBe(ids.length);
  put({ _id: ids[0] ?? "", a: 3 }, { _id: "new", _deleted: true });
  expect((await keys(index, true)).slice(-2)).toEqual([1, 3]);
  expect((await index.info()).groups[0]?.documents).toBe(ids.length - 1);
  for (const { faults } of await index.verify()) expect(faults).toEqual([]);
  await index.close();
});

describe("a build that fails takes nothing away", () => {
  const BROKEN = "this is no row\n";

  test("when another source takes the place of the first", async () => {
    put({ _id: "one", a: "a1" });
    let index = await open({ designDocuments: [design("doc.a")] });
    await index.update();
    await index.close();
    const before = names(dir);
    const other = join(root, "other.ndjson");
    const line = JSON.stringify({ seq: 1, id: "two", changes: [], doc: { _id: "two", a: "a2" } });
    writeFileSync(other, `${line}\n${BROKEN}`);

    index = await open({ source: `changes:${other}`, rebuild: true });
    expect(await failing(index.update())).toBe("SOURCE_MALFORMED");
    await index.close();
    expect(await keysOfDirectory()).toEqual(["a1"]);
    index = await open();
    expect(await keys(index, true)).toEqual(["a1"]);
    await index.close();

    writeFileSync(other, `${line}\n`);
    index = await open({ source: `changes:${other}`, rebuild: true });
    expect(await keys(index, true)).toEqual(["a2"]);
    await index.close();
    expect(await keysOfDirectory()).toEqual(["a2"]);
    expect(names(dir).length).toBe(before.length);
    expect(await failing(open())).toBe("INDEXER_SOURCE_CHANGED");
  });

  test("when a given design document was changed", async () => {
    put({ _id: "one", a: "a1", b: "b1" });
    let index = await open({ designDocuments: [design("doc.a")] });
    await index.update();
    await index.close();
    appendFileSync(feed, BROKEN);

    index = await open({ designDocuments: [design("doc.b")] });
    expect(await failing(index.update())).toBe("SOURCE_MALFORMED");
    await index.close();
    expect(await keysOfDirectory()).toEqual(["a1"]);

    writeFileSync(feed, "");
    seq = 0;
    put({ _id: "one", a: "a1", b: "b1" });
    index = await open({ designDocuments: [design("doc.b")] });
    expect(await keys(index, true)).toEqual(["b1"]);
    await index.close();
    expect(await keysOfDirectory()).toEqual(["b1"]);
  });
});
