// Files of documents and changes feeds that change between updates: only what differs is mapped, what is gone is removed, and of a document
// that occurs several times the last state counts, wherever its occurrences fall.

import { appendFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";

import { MappingRuntime, ViewIndex, type ViewIndexOptions } from "../../../indexer/index.js";
import { CountingServer } from "../../helpers/counting-server.js";
import { answerText, indexFile, names, treeContent } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const runtime = new MappingRuntime({
  mapIn: "threads",
  server: undefined,
  threads: 2,
  timeoutMs: 20_000,
  heapMb: 256,
  memoryMb: 1024,
});
afterAll(() => runtime.close());

const DESIGN = {
  _id: "_design/d",
  views: {
    by_kind: { map: "function (doc) { emit(doc.kind, doc.n); }", reduce: "_sum" },
    texts: { map: "function (doc) { if (doc.text) emit(doc.text.length, null); }" },
  },
};

interface Doc {
  readonly _id: string;
  readonly kind: number;
  readonly n: number;
}

function documents(count: number): Doc[] {
  return Array.from({ length: count }, (_, i) => ({
    _id: `doc-${String(i).padStart(5, "0")}`,
    kind: i % 7,
    n: i,
  }));
}

function ndjson(docs: readonly object[]): string {
  return docs.map((doc) => `${JSON.stringify(doc)}\n`).join("");
}

function open(
  dir: string,
  source: string,
  more: Partial<ViewIndexOptions> = {},
): Promise<ViewIndex> {
  return ViewIndex.open({
    dir,
    source,
    designDocuments: [DESIGN],
    mapIn: "threads",
    runtime,
    ...more,
  });
}

let seq = 0;
function row(id: string, doc: object | undefined): string {
  seq++;
  const deleted = doc === undefined ? ',"deleted":true' : "";
  return `{"seq":"${seq}-opaque","id":"${id}","changes":[{"rev":"${seq}-a"}]${deleted},"doc":${JSON.stringify({ _id: id, _rev: `${seq}-a`, ...(doc ?? { _deleted: true }) })}}\n`;
}

/** What an index that is built from nothing holds. */
async function expectFresh(
  dir: string,
  source: string,
  more: Partial<ViewIndexOptions> = {},
): Promise<void> {
  const fresh = join(tempDir(), "fresh");
  const index = await open(fresh, source, more);
  await index.update();
  await index.close();
  expect(await treeContent(indexFile(dir))).toEqual(await treeContent(indexFile(fresh)));
}

/** Opens, updates and closes. */
async function build(
  dir: string,
  source: string,
  more: Partial<ViewIndexOptions> = {},
): Promise<Awaited<ReturnType<ViewIndex["update"]>>> {
  const index = await open(dir, source, more);
  try {
    return await index.update();
  } finally {
    await index.close();
  }
}

describe.each([
  { path: "the write buffer", more: { chunkBytes: 4000, minDocuments: 50 } },
  { path: "a bulk load", more: { chunkBytes: 4000, bulkBytes: 0 } },
])("a file of documents, first read by $path", ({ more }) => {
  async function built(docs: readonly object[]): Promise<{ dir: string; file: string }> {
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    writeFileSync(file, ndjson(docs));
    const dir = join(root, "index");
    expect(await build(dir, file, more)).toMatchObject({
      mapped: docs.length,
      documents: docs.length,
    });
    return { dir, file };
  }

  test("unchanged, nothing is mapped", async () => {
    const { dir, file } = await built(documents(500));
    expect(await build(dir, file, more)).toMatchObject({ mapped: 0, deleted: 0 });
  });

  test("edited, only the changed documents are mapped", async () => {
    const docs = documents(500);
    const { dir, file } = await built(docs);
    const edited = docs.map((doc, i) => (i % 100 === 3 ? { ...doc, n: -1, text: "new" } : doc));
    writeFileSync(file, ndjson([...edited, { _id: "added", kind: 1, n: 5 }]));
    expect(await build(dir, file, more)).toMatchObject({
      documents: 501,
      mapped: 6,
      unchanged: 495,
      deleted: 0,
    });
    await expectFresh(dir, file, more);
  });

  test("reordered, nothing is mapped", async () => {
    const docs = documents(500);
    const { dir, file } = await built(docs);
    writeFileSync(file, ndjson([...docs].reverse()));
    expect(await build(dir, file, more)).toMatchObject({ mapped: 0, unchanged: 500, deleted: 0 });
    await expectFresh(dir, file, more);
  });

  test("shortened, what is gone is removed and nothing is mapped", async () => {
    const docs = documents(500);
    const { dir, file } = await built(docs);
    writeFileSync(file, ndjson(docs.filter((_, i) => i % 5 !== 0)));
    expect(await build(dir, file, more)).toMatchObject({
      documents: 400,
      mapped: 0,
      unchanged: 400,
      deleted: 100,
    });
    await expectFresh(dir, file, more);
    writeFileSync(file, "");
    expect(await build(dir, file, more)).toMatchObject({ documents: 0, mapped: 0, deleted: 400 });
    expect(await treeContent(indexFile(dir))).toEqual({});
  });

  test("emptied and filled again, everything is there again", async () => {
    const docs = documents(300);
    const { dir, file } = await built(docs);
    writeFileSync(file, "");
    await build(dir, file, more);
    writeFileSync(file, ndjson(docs));
    expect(await build(dir, file, more)).toMatchObject({ mapped: 300, deleted: 0 });
    await expectFresh(dir, file, more);
  });

  test("of a repeated id the last line counts, at the first build and later", async () => {
    const docs = documents(300);
    const first = docs.map((doc) => ({ ...doc, n: doc.n + 1000 }));
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, ndjson([...first, ...docs]));
    await build(dir, file, more);
    const index = await open(dir, file, more);
    expect(await answerText(index, "d", "by_kind")).toContain(`"value":${(299 * 300) / 2}`);
    await index.close();
    writeFileSync(file, ndjson([...docs, ...first.slice(0, 10)]));
    expect(await build(dir, file, more)).toMatchObject({
      documents: 300,
      mapped: 10,
      unchanged: 290,
    });
    await expectFresh(dir, file, more);
    writeFileSync(file, ndjson([...first.slice(0, 10), ...docs]));
    expect(await build(dir, file, more)).toMatchObject({ mapped: 10 });
    await expectFresh(dir, file, more);
  });
});

describe("a file of documents", () => {
  test("that a view server maps: it sees only what changed", async () => {
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    const server = new CountingServer(join(root, "mapped"));
    const docs = documents(200);
    writeFileSync(file, ndjson(docs));
    const index = await ViewIndex.open({
      dir: join(root, "index"),
      source: file,
      designDocuments: [DESIGN],
      server: server.command,
      threads: 1,
    });
    await index.update();
    const counts = server.take();
    expect(counts.size).toBe(200);
    expect([...counts.values()].every((count) => count === 1)).toBe(true);
    writeFileSync(
      file,
      ndjson(docs.map((doc, i) => (i === 7 || i === 150 ? { ...doc, kind: 9 } : doc)).reverse()),
    );
    await index.update();
    expect([...server.take()].sort()).toEqual([
      ["doc-00007", 1],
      ["doc-00150", 1],
    ]);
    await index.update();
    expect(server.take().size).toBe(0);
    await index.close();
  });

  test("whose first build was stopped and which was shortened meanwhile keeps nothing of what is gone", async () => {
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, ndjson(documents(2000)));
    const abort = new AbortController();
    const index = await open(dir, file, { chunkBytes: 4000, minDocuments: 1 });
    await expect(
      index.update({
        signal: abort.signal,
        onProgress: () => {
          abort.abort();
        },
      }),
    ).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    expect((await index.info()).groups[0]).toMatchObject({ state: "building" });
    expect((await index.info()).groups[0]?.documents).toBeGreaterThan(0);
    await index.close();
    writeFileSync(file, ndjson(documents(2000).slice(10)));
    await build(dir, file);
    await expectFresh(dir, file);
  });

  test("with another design document: its views are built, those of the first are left alone", async () => {
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, ndjson(documents(100)));
    await build(dir, file);
    const other = {
      _id: "_design/e",
      views: { ids: { map: "function (doc) { emit(doc._id, 1); }", reduce: "_count" } },
    };
    expect(await build(dir, file, { designDocuments: [DESIGN, other] })).toMatchObject({
      mapped: 100,
    });
    const changed = {
      ...other,
      views: { ids: { map: "function (doc) { emit(doc.kind, 1); }", reduce: "_count" } },
    };
    expect(await build(dir, file, { designDocuments: [changed] })).toMatchObject({ mapped: 100 });
    const index = await open(dir, file, { designDocuments: [] });
    expect(await answerText(index, "e", "ids", { group: true })).toContain('{"key":0,"value":15}');
    expect(await answerText(index, "d", "by_kind")).toContain(`"value":${(99 * 100) / 2}`);
    // The views of the design document as it was are of no use to anybody.
    expect(await index.cleanup()).toHaveLength(1);
    expect(await index.cleanup()).toHaveLength(0);
    expect(await answerText(index, "e", "ids", { group: true })).toContain('{"key":0,"value":15}');
    await index.close();
    // Back to what it was: built anew.
    expect(await build(dir, file, { designDocuments: [DESIGN, other] })).toMatchObject({
      mapped: 100,
    });
  });

  test("with a reduce added to a view: the map function runs again, once, and equal views share their rows", async () => {
    const root = tempDir();
    const file = join(root, "docs.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, ndjson(documents(100)));
    await build(dir, file);
    const more = {
      ...DESIGN,
      views: { ...DESIGN.views, stats: { map: DESIGN.views.by_kind.map, reduce: "_stats" } },
    };
    expect(await build(dir, file, { designDocuments: [more] })).toMatchObject({
      mapped: 100,
      rows: 100,
    });
    const index = await open(dir, file, { designDocuments: [] });
    expect(await answerText(index, "d", "stats")).toContain('"count":100');
    await index.close();
  });
});

describe("a log of documents (--append)", () => {
  const more = { append: true } as const;

  test("a document that goes from A to B and back to A within one update ends as A", async () => {
    const root = tempDir();
    const file = join(root, "log.ndjson");
    const dir = join(root, "index");
    const a = { _id: "x", kind: 1, n: 1 };
    const b = { _id: "x", kind: 2, n: 2 };
    for (const chunkBytes of [10, 4_000_000]) {
      for (const minDocuments of [1, 2, 5000]) {
        writeFileSync(file, ndjson([...documents(20), a]));
        const index = await open(join(dir, `${chunkBytes}-${minDocuments}`), file, {
          ...more,
          chunkBytes,
          minDocuments,
        });
        await index.update();
        appendFileSync(file, ndjson([b, a]));
        await index.update();
        expect(await answerText(index, "d", "by_kind", { reduce: false, key: 1 })).toContain(
          '"id":"x"',
        );
        expect(await answerText(index, "d", "by_kind", { reduce: false, key: 2 })).not.toContain(
          '"id":"x"',
        );
        appendFileSync(file, ndjson([b, a, b, { _id: "x", _deleted: true }, a, b]));
        await index.update();
        expect(await answerText(index, "d", "by_kind", { reduce: false, key: 1 })).not.toContain(
          '"id":"x"',
        );
        expect(await answerText(index, "d", "by_kind", { reduce: false, key: 2 })).toContain(
          '"id":"x"',
        );
        await index.close();
        await expectFresh(join(dir, `${chunkBytes}-${minDocuments}`), file, more);
      }
    }
  });

  test("only what was appended is read", async () => {
    const root = tempDir();
    const file = join(root, "log.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, ndjson(documents(300)));
    await build(dir, file, more);
    appendFileSync(file, ndjson([{ _id: "late", kind: 3, n: 1 }, documents(1)[0] as Doc]));
    expect(await build(dir, file, more)).toMatchObject({ documents: 2, mapped: 1, unchanged: 1 });
    await expectFresh(dir, file, more);
  });

  test("whose beginning was edited is refused, and left as it was", async () => {
    const root = tempDir();
    const file = join(root, "log.ndjson");
    const dir = join(root, "index");
    const docs = documents(300);
    writeFileSync(file, ndjson(docs));
    await build(dir, file, more);
    const before = await treeContent(indexFile(dir));
    writeFileSync(file, ndjson(docs.slice(0, 200)));
    await expect(build(dir, file, more)).rejects.toMatchObject({ code: "SOURCE_CHANGED" });
    expect(await treeContent(indexFile(dir))).toEqual(before);
  });
});

describe.each([
  { path: "the write buffer", more: { minDocuments: 3 } },
  { path: "a bulk load", more: { bulkBytes: 0 } },
])("a changes feed, first read by $path", ({ more }) => {
  test.each([60, 1000, 1_000_000])(
    "rows that repeat, rewind and supersede each other, in chunks of %d bytes",
    async (chunkBytes) => {
      const root = tempDir();
      const file = join(root, "feed.ndjson");
      const source = `changes:${file}`;
      const dir = join(root, "index");
      const options = { ...more, chunkBytes };
      const rows: string[] = [];
      for (let i = 0; i < 40; i++)
        rows.push(row(`doc-${i % 15}`, i % 6 === 5 ? undefined : { kind: i % 4, n: i }));
      writeFileSync(file, rows.join(""));
      await build(dir, source, options);
      await expectFresh(dir, source);
      // The feed rewinds: its last rows come once more, then new ones.
      const late = [
        ...rows.slice(-12),
        row("doc-3", { kind: 1, n: 1 }),
        row("doc-4", undefined),
        row("doc-5", undefined),
        row("doc-5", { kind: 0, n: 7 }),
      ];
      appendFileSync(file, late.join(""));
      await build(dir, source, options);
      await expectFresh(dir, source);
      appendFileSync(file, late.slice(-1).join("").repeat(5));
      expect(await build(dir, source, options)).toMatchObject({ mapped: 0 });
      await expectFresh(dir, source);
    },
  );

  test("nothing but deletions, some of documents that were never there", async () => {
    const root = tempDir();
    const file = join(root, "feed.ndjson");
    const dir = join(root, "index");
    writeFileSync(file, row("a", { kind: 1, n: 1 }) + row("never", undefined));
    await build(dir, `changes:${file}`, more);
    appendFileSync(
      file,
      row("a", undefined) + row("never", undefined) + row("nor this", undefined),
    );
    await build(dir, `changes:${file}`, more);
    expect(await treeContent(indexFile(dir))).toEqual({});
  });
});

describe("a large changes feed", () => {
  test("a bulk load of more than its threshold, with repeats and deletions in distant chunks", async () => {
    const root = tempDir();
    const file = join(root, "feed.ndjson");
    const source = `changes:${file}`;
    const dir = join(root, "index");
    const pad = "x".repeat(400);
    const pieces: string[] = [];
    for (let i = 0; i < 22_000; i++) {
      const id = `doc-${(i * 7919) % 15_000}`;
      pieces.push(row(id, i % 11 === 10 ? undefined : { kind: i % 13, n: i, pad }));
    }
    writeFileSync(file, pieces.join(""));
    const large = await open(dir, source);
    const phases = new Set<string>();
    await large.update({ onProgress: ({ phase }) => phases.add(phase) });
    expect(phases).toEqual(new Set(["map", "merge"]));
    expect((await large.verify())[0]?.faults).toEqual([]);
    await large.close();
    expect(names(dir).filter((name) => name.endsWith(".runs"))).toEqual([]);
    await expectFresh(dir, source, {
      bulkBytes: 2 ** 40,
      bulkChanges: 2 ** 40,
      chunkBytes: 300_000,
    });
  });
});
