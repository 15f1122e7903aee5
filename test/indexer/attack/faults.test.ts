// Faults that an attack on the indexer found: each once, as small as it was.

import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { describe, expect, jest, test } from "@jest/globals";

import { ViewIndex, type ViewIndexOptions } from "../../../indexer/index.js";
import { sliceChanges, Slices } from "../../../indexer/sources/index.js";
import { DirectoryLock } from "../../../indexer/views/lock.js";
import { visibleMembers } from "../../../viewserver/index.js";
import { names } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const ALL = { all: { map: "function (doc) { emit(doc._id, doc.n) }", reduce: "_sum" } };

function design(views: object): object {
  return { _id: "_design/d", views };
}

/** A changes row with a document. */
function row(seq: number, doc: Readonly<Record<string, unknown>>): string {
  return `${JSON.stringify({ seq, id: doc["_id"], changes: [{ rev: "1-a" }], doc })}\n`;
}

function documents(count: number): string {
  return Array.from({ length: count }, (_, n) => `{"_id":"k${n}","n":${n}}\n`).join("");
}

async function withIndex(
  options: Omit<ViewIndexOptions, "dir">,
  use: (index: ViewIndex, dir: string) => Promise<void>,
): Promise<void> {
  const dir = join(tempDir(), "index");
  const index = await ViewIndex.open({ dir, mapIn: "threads", threads: 1, ...options });
  try {
    await use(index, dir);
  } finally {
    await index.close();
  }
}

async function values(
  index: ViewIndex,
  view: string,
  parameters: Record<string, unknown> = {},
): Promise<unknown[]> {
  const { rows } = await (await index.query("d", view, parameters)).object();
  return rows.map((r) => (r as { value?: unknown }).value);
}

describe("a feed of changes", () => {
  test.each([0, 1e9])(
    "may end a chunk with a deletion that has no document (bulk load past %d bytes)",
    async (bulkBytes) => {
      const feed = join(tempDir(), "feed.ndjson");
      writeFileSync(
        feed,
        `${row(1, { _id: "a", n: 1, text: "x".repeat(60) })}{"seq":2,"id":"b","deleted":true}\n`,
      );
      await withIndex(
        { source: `changes:${feed}`, designDocuments: [design(ALL)], bulkBytes },
        async (index) => {
          expect(await values(index, "all", { reduce: false })).toEqual([1]);
        },
      );
    },
  );

  test("is searched once for deletions, whatever its documents are named", () => {
    const rows = 500;
    // With blanks, which are not left to a kernel.
    const lines = Array.from(
      { length: rows },
      (_, n) => `{"seq":${n}, "id":"k${n}", "changes":[{"rev":"1-a"}], "doc":{"x":${n}}}\n`,
    ).join("");
    const search = jest.spyOn(Buffer.prototype, "indexOf");
    const slices = new Slices();
    sliceChanges(new Uint8Array(Buffer.from(lines)), slices, {}, { label: "feed" });
    const forUnderscores = search.mock.calls.filter(([what]) => what === 0x5f).length;
    search.mockRestore();
    expect(slices.count).toBe(rows);
    expect(forUnderscores).toBe(1);
  });
});

test("ids that are no UTF-8 are mended, and the index is whole", async () => {
  const source = join(tempDir(), "docs.ndjson");
  const lines = ["a", "a\xff", "b\xc3", "\xe9\xff"].map((id, n) => `{"_id":"${id}","n":${n}}\n`);
  writeFileSync(source, Buffer.from(lines.join(""), "latin1"));
  await withIndex({ source, designDocuments: [design(ALL)] }, async (index) => {
    await index.update();
    const { rows } = await (await index.query("d", "all", { reduce: false })).object();
    expect(rows.map((r) => (r as { id?: unknown }).id)).toEqual([
      "a",
      "a\ufffd",
      "b\ufffd",
      "\ufffd\ufffd",
    ]);
    const [file] = await index.verify();
    expect(file?.faults).toEqual([]);
  });
});

describe("a map function", () => {
  test.each([
    ["function map(doc) { emit(doc.n, 1) }", ["n"]],
    ["function map(doc, more) { emit(doc.n, doc._id) }", ["_id", "n"]],
    ["function map(doc) { emit(1, doc) }", undefined],
  ])("with a name sees its document: %s", (source, members) => {
    const seen = visibleMembers([source]);
    expect(seen && [...seen].sort()).toEqual(members);
  });

  test.each(["threads", "processes"] as const)(
    "with a name emits what it reads (%s)",
    async (mapIn) => {
      const source = join(tempDir(), "docs.ndjson");
      writeFileSync(source, `{"_id":"a","n":7,"text":"${"x".repeat(100)}"}\n`);
      const views = { named: { map: "function named(doc) { emit(doc.n, doc.n) }" } };
      await withIndex({ source, mapIn, designDocuments: [design(views)] }, async (index) => {
        expect(await values(index, "named")).toEqual([7]);
      });
    },
  );
});

describe("custom reduces in threads", () => {
  const endless =
    "function (keys, values) { if (values.indexOf(15) >= 0) while (true); return sum(values) }";
  const views = { r: { map: "function (doc) { emit(doc.n, doc.n) }", reduce: endless } };

  test("that never return fail their range, and no build waits for them", async () => {
    const source = join(tempDir(), "docs.ndjson");
    writeFileSync(source, documents(1000));
    await withIndex(
      { source, designDocuments: [design(views)], bulkBytes: 0, timeoutMs: 1500 },
      async (index) => {
        await index.update();
        expect(await values(index, "r", { startkey: 990 })).toEqual([9945]);
      },
    );
  });

  test("may be asked for by more queries than there are heartbeats", async () => {
    const source = join(tempDir(), "docs.ndjson");
    writeFileSync(source, documents(40));
    const summed = {
      r: {
        map: "function (doc) { emit(doc.n, doc.n) }",
        reduce: "function (keys, values) { return sum(values) }",
      },
    };
    await withIndex({ source, designDocuments: [design(summed)] }, async (index) => {
      await index.update();
      const answers = await Promise.all(
        Array.from({ length: 300 }, () => values(index, "r", { startkey: 30, update: false })),
      );
      expect(new Set(answers.map(String))).toEqual(new Set(["345"]));
    });
  });
});

test("a query is answered while a feed is followed, as fresh as ever", async () => {
  const feed = join(tempDir(), "feed.ndjson");
  writeFileSync(feed, row(1, { _id: "a", n: 1 }));
  await withIndex({ source: `changes:${feed}`, designDocuments: [design(ALL)] }, async (index) => {
    const stop = new AbortController();
    const following = index.follow({ signal: stop.signal });
    const ended = following.catch((error: unknown) => error);
    for (let n = 2; n < 6; n++) {
      appendFileSync(feed, row(n, { _id: `k${n}`, n: 1 }));
      expect(await values(index, "all")).toEqual([n]);
    }
    appendFileSync(feed, row(6, { _id: "k6", n: 1 }));
    await index.update();
    expect(await values(index, "all", { update: false })).toEqual([6]);
    stop.abort();
    expect(await ended).toMatchObject({ code: "INDEXER_ABORTED" });
  });
});

describe("an index directory", () => {
  test.each(["", "VIEWMILL", "\0".repeat(5000)])(
    "gets over a file that a killed process had only begun to make (%#)",
    async (content) => {
      const source = join(tempDir(), "docs.ndjson");
      writeFileSync(source, documents(3));
      await withIndex({ source, designDocuments: [design(ALL)] }, async (index, dir) => {
        const [group] = (await index.info()).groups;
        writeFileSync(join(dir, `${group?.signature ?? ""}.1.vmx`), content);
        expect(await values(index, "all")).toEqual([3]);
      });
    },
  );

  test("keeps a file that was cleaned up until the answers from it are read", async () => {
    const feed = join(tempDir(), "feed.ndjson");
    const count = 4000;
    const ddoc = (map: string): Readonly<Record<string, unknown>> => ({
      _id: "_design/d",
      views: { v: { map } },
    });
    const rows = Array.from({ length: count }, (_, n) => row(n, { _id: `k${n}`, n }));
    writeFileSync(
      feed,
      `${rows.join("")}${row(count, ddoc("function (doc) { emit(doc.n, 'old') }"))}`,
    );
    await withIndex({ source: `changes:${feed}`, cacheBytes: 1 }, async (index) => {
      const reading = (await index.query("d", "v")).rows()[Symbol.asyncIterator]();
      await reading.next();
      appendFileSync(feed, row(count + 1, ddoc("function (doc) { emit(doc.n, 'new') }")));
      expect(await values(index, "v", { limit: 1 })).toEqual(["new"]);
      expect(await index.cleanup()).toHaveLength(1);
      let seen = 1;
      while ((await reading.next()).done !== true) seen++;
      expect(seen).toBe(count);
    });
  });

  test("counts the rows of a view whatever its name", async () => {
    const source = join(tempDir(), "docs.ndjson");
    writeFileSync(source, documents(3));
    const views: unknown = JSON.parse(
      `{"__proto__":${JSON.stringify(ALL.all)},"constructor":${JSON.stringify(ALL.all)}}`,
    );
    await withIndex({ source, designDocuments: [design(views as object)] }, async (index) => {
      await index.update();
      const [group] = (await index.info()).groups;
      expect(Object.entries(group?.rows ?? {})).toEqual([
        ["__proto__", 3],
        ["constructor", 3],
      ]);
    });
  });

  test("is rid of what a killed comparison put aside when it is opened again", async () => {
    const dir = tempDir();
    const source = join(dir, "docs.ndjson");
    writeFileSync(source, documents(3));
    const options = {
      dir: join(dir, "index"),
      source,
      mapIn: "threads",
      designDocuments: [design(ALL)],
    } as const;
    const first = await ViewIndex.open(options);
    await first.update();
    await first.close();
    mkdirSync(join(options.dir, "scan-12345"));
    writeFileSync(join(options.dir, "scan-12345", "0.run"), "left");
    await (await ViewIndex.open(options)).close();
    expect(names(options.dir).filter((name) => name.startsWith("scan-"))).toEqual([]);
  });

  test("is locked and set free even where the note of who holds it cannot be written", async () => {
    const dir = tempDir();
    mkdirSync(join(dir, "lock"));
    const lock = await DirectoryLock.acquire(dir);
    await expect(DirectoryLock.acquire(dir)).rejects.toMatchObject({ code: "INDEXER_LOCKED" });
    await lock.release();
    rmdirSync(join(dir, "lock"));
    const again = await DirectoryLock.acquire(dir);
    expect(readFileSync(join(dir, "lock"), "utf8")).toContain(`pid ${process.pid}`);
    await again.release();
    expect(readdirSync(dir)).toEqual([]);
  });

  test("is written again when a full disk has room again, in the same process", () => {
    const child = fileURLToPath(new URL("./disk-child.js", import.meta.url));
    const printed = execFileSync(process.execPath, [child, tempDir()], { encoding: "utf8" });
    expect(JSON.parse(printed)).toEqual(["BTREE_BROKEN", [1], [2]]);
  });
});
