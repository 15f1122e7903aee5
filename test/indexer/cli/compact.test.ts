// A compacted index answers as before, is as small as one that was just built, and nothing is lost or left over whenever it is killed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "@jest/globals";
import { execa } from "execa";

import { ViewIndex, type ViewIndexOptions } from "../../../indexer/index.js";
import { knownDocuments } from "../../../indexer/mapping/known-filter.js";
import { sliceDocuments, Slices } from "../../../indexer/sources/index.js";
import { verifyStore } from "../../../btree/index.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DESIGN = {
  _id: "_design/d",
  views: {
    by_group: { map: "function (doc) { emit([doc.group, doc._id], doc.n); }", reduce: "_sum" },
    names: { map: "function (doc) { emit(doc._id, null); }" },
    custom: {
      map: "function (doc) { emit(doc.group, doc.n); }",
      reduce: "function (keys, values, rereduce) { return sum(values); }",
    },
  },
};

const program = fileURLToPath(new URL("../../../indexer/cli/main.js", import.meta.url));
const child = fileURLToPath(new URL("./compacting-child.js", import.meta.url));

function lines(from: number, to: number, n: number): string {
  let text = "";
  for (let i = from; i < to; i++)
    text += `${JSON.stringify({ _id: `doc-${i}`, group: i % 10, n, pad: "x".repeat(40) })}\n`;
  return text;
}

function open(dir: string, more: Partial<ViewIndexOptions> = {}): Promise<ViewIndex> {
  return ViewIndex.open({ dir: join(dir, "index"), mapIn: "threads", threads: 1, ...more });
}

/** An index over a log of documents whose file is mostly dead bytes. */
async function worn(dir: string, documents: number, rounds: number): Promise<ViewIndex> {
  const log = join(dir, "log.ndjson");
  writeFileSync(log, lines(0, documents, 0));
  const index = await open(dir, {
    source: log,
    append: true,
    designDocuments: [DESIGN],
    minDocuments: 200,
  });
  await index.update();
  for (let round = 1; round <= rounds; round++) {
    appendFileSync(log, lines(0, documents, round));
    await index.update();
  }
  return index;
}

async function answers(index: ViewIndex): Promise<string> {
  const texts: string[] = [];
  for (const [view, parameters] of [
    ["by_group", { group_level: 1 }],
    ["by_group", { reduce: false }],
    ["names", {}],
    ["custom", { group: true }],
  ] as const)
    for await (const text of (
      await index.query("d", view, { ...parameters, update: false })
    ).text())
      texts.push(text);
  return texts.join("");
}

function indexFiles(dir: string): string[] {
  return readdirSync(join(dir, "index")).filter((name) => name.endsWith(".vmx"));
}

async function total(index: ViewIndex, parameters: Record<string, unknown> = {}): Promise<unknown> {
  const answer = await index.query("d", "by_group", parameters);
  return (await answer.object()).rows[0]?.value;
}

describe("compacting an index", () => {
  test("changes no answer and makes the file as small as a first build", async () => {
    const dir = tempDir();
    const index = await worn(dir, 3000, 4);
    const before = await answers(index);
    const [result] = await index.compact("d");
    expect(indexFiles(dir)).toHaveLength(1);
    expect(await answers(index)).toBe(before);
    const [file = ""] = indexFiles(dir);
    const size = statSync(join(dir, "index", file)).size;
    expect(result).toMatchObject({
      generation: 2,
      file: join(dir, "index", file),
      bytesAfter: size,
    });
    await index.close();

    const fresh = join(dir, "fresh");
    writeFileSync(join(dir, "once.ndjson"), lines(0, 3000, 4));
    const rebuilt = await ViewIndex.open({
      dir: fresh,
      source: join(dir, "once.ndjson"),
      mapIn: "threads",
      threads: 1,
      designDocuments: [DESIGN],
    });
    await rebuilt.update();
    const [group] = (await rebuilt.info()).groups;
    await rebuilt.close();
    expect(result?.bytesBefore).toBeGreaterThan(3 * size);
    // Header slots and the state's text aside.
    expect(size).toBeLessThanOrEqual((group?.sizes.active ?? 0) * 1.02 + 1000);

    const report = await verifyStore(join(dir, "index", file), { reducers: () => undefined });
    expect(report.faults).toEqual([]);
  });

  test("an answer that is half read goes on from the old file, which is removed after it", async () => {
    const dir = tempDir();
    const index = await worn(dir, 3000, 1);
    const [old = ""] = indexFiles(dir);
    const expected = (await (await index.query("d", "names", { update: false })).object()).rows
      .length;
    const answer = await index.query("d", "names", { update: false });
    expect(answer.offset).toBe(0);
    const rows = answer.rows();
    let seen = 0;
    for (; seen < 10; seen++) await rows.next();
    await index.compact();
    expect(indexFiles(dir)).toContain(old);
    appendFileSync(join(dir, "log.ndjson"), '{"_id":"new","group":1,"n":1}\n');
    await index.update();
    for (let row = await rows.next(); row.done !== true; row = await rows.next()) seen++;
    expect(seen).toBe(expected);
    await index.close();
    expect(indexFiles(dir)).toHaveLength(1);
    expect(indexFiles(dir)).not.toContain(old);
  });

  test("queries and updates go on meanwhile, and each answer is that of some moment", async () => {
    const dir = tempDir();
    const log = join(dir, "log.ndjson");
    const index = await worn(dir, 4000, 2);
    const sumBefore = 4000 * 2;
    let added = 0;
    let compacting = true;
    const wrong: string[] = [];
    const work = async (): Promise<void> => {
      for (let i = 0; compacting || i < 3; i++) {
        appendFileSync(
          log,
          `${JSON.stringify({ _id: `late-${added}`, group: added % 10, n: 1 })}\n`,
        );
        added++;
        const got = await total(index);
        if (got !== sumBefore + added) wrong.push(`after ${added}: ${String(got)}`);
        const stale = await total(index, { update: false });
        if (stale !== sumBefore + added) wrong.push(`stale after ${added}: ${String(stale)}`);
      }
    };
    const compact = async (): Promise<void> => {
      for (let i = 0; i < 3; i++) await index.compact();
      compacting = false;
    };
    await Promise.all([work(), compact()]);
    expect(wrong).toEqual([]);
    expect(await total(index)).toBe(sumBefore + added);
    await index.close();
    expect(indexFiles(dir)).toHaveLength(1);
  });

  test("an index that follows a live feed is compacted too", async () => {
    const dir = tempDir();
    const log = join(dir, "log.ndjson");
    const index = await worn(dir, 2000, 2);
    const abort = new AbortController();
    const following = index.follow({ signal: abort.signal });
    await index.compact();
    appendFileSync(log, '{"_id":"new","group":1,"n":1}\n');
    for (let got: unknown = 0; got !== 4001;) got = await total(index, { update: false });
    abort.abort();
    await expect(following).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    await index.close();
    expect(indexFiles(dir)).toHaveLength(1);
  });

  test("calls for one group share a compaction; a stopped one leaves nothing", async () => {
    const dir = tempDir();
    const index = await worn(dir, 3000, 1);
    const [[a], [b]] = await Promise.all([index.compact(), index.compact("d")]);
    expect(a).toBe(b);
    const before = await answers(index);
    const abort = new AbortController();
    const stopped = index.compact(undefined, {
      signal: abort.signal,
      onProgress: () => {
        abort.abort();
      },
    });
    await expect(stopped).rejects.toMatchObject({ code: "INDEXER_ABORTED" });
    expect(indexFiles(dir)).toHaveLength(1);
    expect(await answers(index)).toBe(before);
    let begun: () => void = () => undefined;
    const first = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const closing = index.compact(undefined, { onProgress: begun });
    await first;
    await Promise.all([
      index.close(),
      expect(closing).rejects.toMatchObject({ code: "INDEXER_ABORTED" }),
    ]);
    expect(indexFiles(dir)).toHaveLength(1);
  });

  test("one that cannot name its file in the manifest changes nothing, and the next one can", async () => {
    const dir = tempDir();
    const index = await worn(dir, 500, 1);
    const before = await answers(index);
    const files = indexFiles(dir);
    // The manifest's draft cannot be written where a folder is.
    const draft = join(dir, "index", "viewmill.json.new");
    mkdirSync(draft);
    await expect(index.compact()).rejects.toMatchObject({ code: "EISDIR" });
    expect(indexFiles(dir)).toEqual(files);
    appendFileSync(join(dir, "log.ndjson"), '{"_id":"new","group":1,"n":1}\n');
    rmdirSync(draft);
    expect(await total(index)).toBe(501);
    const [result] = await index.compact();
    expect(result?.generation).toBe(2);
    expect(before).not.toBe(await answers(index));
    expect(await total(index)).toBe(501);
    await index.close();
    expect(indexFiles(dir)).toHaveLength(1);
  });

  test("who has the directory open for reading follows to the new file", async () => {
    const dir = tempDir();
    const index = await worn(dir, 500, 1);
    const reader = await open(dir, { readOnly: true });
    const before = await total(reader, { update: false });
    await index.compact();
    appendFileSync(join(dir, "log.ndjson"), '{"_id":"new","group":1,"n":1}\n');
    await index.update();
    expect(await total(reader, { update: false })).toBe(Number(before) + 1);
    expect((await reader.info()).groups[0]?.file).toBe((await index.info()).groups[0]?.file);
    await index.compact();
    expect((await reader.info()).groups[0]?.file).toBe((await index.info()).groups[0]?.file);
    await expect(reader.compact()).rejects.toThrow("readOnly");
    await reader.close();
    await index.close();
  });
});

describe("whatever goes on meanwhile", () => {
  /** Rows of a changes feed: writes and deletions of 300 documents, some of which fail to map. */
  function randomRows(random: () => number, seq: number, count: number): string {
    let text = "";
    for (let i = 0; i < count; i++) {
      const id = `doc-${Math.floor(random() * 300)}`;
      const deleted = random() < 0.2;
      const doc = deleted
        ? { _id: id, _rev: `${seq + i}-x`, _deleted: true }
        : {
            _id: id,
            _rev: `${seq + i}-x`,
            group: Math.floor(random() * 10),
            n: Math.floor(random() * 100),
            bad: random() < 0.05,
          };
      text += `${JSON.stringify({ seq: seq + i, id, changes: [{ rev: doc._rev }], ...(deleted ? { deleted } : {}), doc })}\n`;
    }
    return text;
  }

  const DESIGNS = [
    DESIGN,
    {
      _id: "_design/failing",
      views: {
        v: {
          map: "function (doc) { if (doc.bad) throw new Error('bad'); emit(doc.n, null); emit(doc.n, 1); }",
          reduce: "_count",
        },
      },
    },
  ];

  async function everything(index: ViewIndex): Promise<string> {
    const texts = [await answers(index)];
    for await (const text of (
      await index.query("failing", "v", { reduce: false, update: false })
    ).text())
      texts.push(text);
    for await (const { id, view, reason } of index.errors())
      texts.push(JSON.stringify([id, view, reason]));
    return texts.join("");
  }

  test.each(Array.from({ length: Number(process.env["TEST_RUNS"] ?? 1) }, (_, i) => i + 1))(
    "the index is that of the feed: seed %d",
    async (seed) => {
      let state = seed;
      const random = (): number => {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        return state / 2 ** 32;
      };
      const dir = tempDir();
      const feed = join(dir, "feed.ndjson");
      writeFileSync(feed, randomRows(random, 1, 400));
      const options = { source: `changes:${feed}`, designDocuments: DESIGNS, minDocuments: 20 };
      const index = await open(dir, options);
      await index.update();
      for (let step = 0, seq = 401; step < 12; step++, seq += 60) {
        appendFileSync(feed, randomRows(random, seq, 60));
        const work: Promise<unknown>[] = [
          index.update(),
          index.compact(random() < 0.5 ? "d" : undefined),
        ];
        if (random() < 0.5) work.push(everything(index));
        await Promise.all(work);
      }
      const got = await everything(index);
      for (const { faults } of await index.verify()) expect(faults).toEqual([]);
      await index.close();
      const fresh = await ViewIndex.open({
        ...options,
        dir: join(dir, "fresh"),
        mapIn: "threads",
        threads: 1,
      });
      await fresh.update();
      expect(got).toBe(await everything(fresh));
      await fresh.close();
      expect(indexFiles(dir)).toHaveLength(2);
    },
  );

  test("a thread that knew the old file lets it go, and calls no document of it unchanged", async () => {
    const dir = tempDir();
    const index = await worn(dir, 100, 1);
    const old = (await index.info()).groups[0]?.file ?? "";
    const slices = new Slices();
    sliceDocuments(
      Buffer.from(lines(0, 10, 1) + lines(200, 201, 1)),
      slices,
      {},
      { label: "test" },
    );
    const known = async (path: string): Promise<number[] | undefined> => {
      const documents = await knownDocuments(path, slices);
      documents?.release();
      return documents && [...documents.unchanged];
    };
    const all = [...Array<number>(10).fill(1), 0];
    expect(await known(old)).toEqual(all);
    await index.compact();
    expect(await known(old)).toBeUndefined();
    expect(await known((await index.info()).groups[0]?.file ?? "")).toEqual(all);
    await index.close();
    const held = existsSync("/proc/self/fd")
      ? readdirSync("/proc/self/fd").flatMap((fd) => {
          try {
            return [readlinkSync(join("/proc/self/fd", fd))];
          } catch {
            return [];
          }
        })
      : [];
    expect(held.filter((target) => target.startsWith(old))).toEqual([]);
  });
});

describe("leftovers of killed compactions", () => {
  test("a new file that the manifest does not name yet, and an old one that it names no more, go at the next opening", async () => {
    const dir = tempDir();
    const index = await worn(dir, 500, 1);
    const before = await answers(index);
    const [first = ""] = indexFiles(dir);
    await index.close();
    const place = join(dir, "index");
    copyFileSync(join(place, first), join(place, "kept"));
    writeFileSync(
      join(place, first.replace(".1.vmx", ".2.vmx")),
      readFileSync(join(place, first)).subarray(0, 5000),
    );
    writeFileSync(join(place, "viewmill.json.new"), "{");
    const again = await open(dir);
    expect(indexFiles(dir)).toEqual([first]);
    expect(existsSync(join(place, "viewmill.json.new"))).toBe(false);
    expect(await answers(again)).toBe(before);
    await again.compact();
    await again.close();
    const [second = ""] = indexFiles(dir);
    expect(second).toBe(first.replace(".1.vmx", ".2.vmx"));
    renameSync(join(place, "kept"), join(place, first));
    const last = await open(dir);
    expect(indexFiles(dir)).toEqual([second]);
    expect(await answers(last)).toBe(before);
    await last.close();
  });

  test("killed at any moment, the next opening has everything and no litter", async () => {
    const dir = tempDir();
    const log = join(dir, "log.ndjson");
    await (await worn(dir, 4000, 1)).close();
    let documents = 0;
    for (let kill = 0; kill < Number(process.env["TEST_RUNS"] ?? 5); kill++) {
      const running = spawn(process.execPath, [child, join(dir, "index"), log, String(documents)], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let left = 1 + ((kill * 5) % 11);
      let acknowledged = documents;
      for await (const line of createInterface({ input: running.stdout })) {
        const [, next] = /^compacted (\d+)/.exec(line) ?? [];
        if (next !== undefined) acknowledged = Number(next);
        if (--left === 0) running.kill("SIGKILL");
      }
      if (running.signalCode === null) await once(running, "exit");
      expect(running.signalCode).toBe("SIGKILL");
      const index = await open(dir);
      expect(indexFiles(dir)).toHaveLength(1);
      expect(await total(index, { update: false })).toBeGreaterThanOrEqual(4000 + acknowledged);
      documents = readFileSync(log, "utf8").match(/"late-/g)?.length ?? 0;
      expect(await total(index)).toBe(4000 + documents);
      const file = join(dir, "index", indexFiles(dir)[0] ?? "");
      expect((await verifyStore(file, { reducers: () => undefined })).faults).toEqual([]);
      await index.close();
    }
  });
});

describe("viewmill compact", () => {
  test("works from the directory alone, even when the source is gone", async () => {
    const dir = tempDir();
    const index = await worn(dir, 2000, 2);
    const before = await answers(index);
    await index.close();
    renameSync(join(dir, "log.ndjson"), join(dir, "elsewhere"));
    const { stdout, exitCode } = await execa(process.execPath, [
      program,
      "compact",
      join(dir, "index"),
      "--json",
    ]);
    expect(exitCode).toBe(0);
    const done = JSON.parse(stdout.split("\n").at(-1) ?? "") as {
      done: { designDocuments: string[]; bytesBefore: number; bytesAfter: number }[];
    };
    expect(done.done[0]?.designDocuments).toEqual(["_design/d"]);
    expect(done.done[0]?.bytesAfter).toBeLessThan((done.done[0]?.bytesBefore ?? 0) / 2);
    const reader = await open(dir, { readOnly: true });
    expect(await answers(reader)).toBe(before);
    await reader.close();
    const plain = await execa(process.execPath, [program, "compact", join(dir, "index"), "d"]);
    expect(plain.stdout).toMatch(/^_design\/d {2}[\d.,]+ (MiB|bytes), now [\d.,]+ (MiB|bytes)$/);
    const unknown = await execa(
      process.execPath,
      [program, "compact", join(dir, "index"), "nothing"],
      { reject: false },
    );
    expect(unknown.exitCode).toBe(1);
    expect(unknown.stderr).toContain("INDEXER_VIEW_NOT_FOUND");
    const nowhere = await execa(process.execPath, [program, "compact", join(dir, "typo")], {
      reject: false,
    });
    expect(nowhere.exitCode).toBe(1);
    expect(nowhere.stderr).toContain("holds no index");
    expect(existsSync(join(dir, "typo"))).toBe(false);
  });
});
