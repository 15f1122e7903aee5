// System cases about compaction, and about disks that run out: each builds the situation for real.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { expect } from "@jest/globals";

import { ViewIndex, type ViewIndexOptions } from "../../indexer/index.js";
import { failureOf } from "../helpers/case-index.js";
import { startViewmill, viewmill } from "../helpers/cli.js";
import { goldenCases, queriesOf } from "../helpers/golden-cases.js";
import { indexFile } from "../helpers/index-content.js";
import { tempDir } from "../helpers/temp-dir.js";
import { Feed, numbered } from "./system-feed.js";
import { DESIGN, FIFTY, groupsOf, numbers, RUNS, SMALL, writeDesign } from "./system-index.js";

/** Answers of all parameters that occur in any case, whatever its view. */
async function askEverything(index: ViewIndex): Promise<string[]> {
  const parameters = new Set<string>();
  for (const one of goldenCases)
    for (const query of [
      ...queriesOf(one),
      ...(one.steps ?? []).flatMap((step) => step.query ?? []),
    ])
      parameters.add(JSON.stringify({ ...query.params, ...query.body }));
  const answers: string[] = [];
  for (const text of parameters)
    for (const view of ["v", "rows"]) {
      const asked = JSON.parse(text) as Record<string, unknown>;
      let answer = "";
      try {
        for await (const piece of (await index.query("d", view, asked)).text()) answer += piece;
      } catch (error) {
        answer = JSON.stringify(failureOf(error));
      }
      answers.push(`${view} ${text} ${answer}`);
    }
  expect(answers.length).toBeGreaterThan(100);
  return answers;
}

async function compactionKeepsAnswers(): Promise<void> {
  const dir = tempDir();
  const feed = new Feed(join(dir, "feed.ndjson"));
  const next = numbers(3);
  const keys = ["a", "b", "c", "d", "e", "f", 0, 1, null, ["x"], ["x", 1], [2024, 1, 5], "é", true];
  const more = {
    ...SMALL,
    source: feed.source,
    designDocuments: [DESIGN],
    sync: { mode: "end" } as const,
  };
  const index = await ViewIndex.open({ ...more, dir: join(dir, "index") });
  for (let step = 0; step < 50; step++) {
    feed.write(
      numbered(100, () => {
        const _id = `doc-${Math.floor(next() * 200)}`;
        const k = keys[Math.floor(next() * keys.length)];
        return next() < 0.2 ? { _id, _deleted: true } : { _id, k, n: Math.floor(next() * 100) };
      }),
    );
    await index.update();
  }
  const before = await askEverything(index);
  const seq = (await index.info()).groups[0]?.updateSeq;
  const [done] = await index.compact();

  expect(await askEverything(index)).toEqual(before);
  expect((await index.info()).groups[0]?.updateSeq).toBe(seq);
  await index.close();
  const fresh = await ViewIndex.open({ ...more, dir: join(dir, "fresh"), chunkBytes: 2 ** 20 });
  await fresh.update();
  await fresh.compact();
  const { bytesBefore = 0, bytesAfter = 0 } = done ?? {};
  expect(bytesAfter).toBeLessThan(bytesBefore / 5);
  expect(bytesAfter).toBeLessThanOrEqual(statSync(indexFile(join(dir, "fresh"))).size * 1.1);
  await fresh.close();
}

const COMPACTING = fileURLToPath(new URL("../indexer/cli/compacting-child.js", import.meta.url));

async function compactionCrash(): Promise<void> {
  const dir = tempDir();
  const place = join(dir, "index");
  const log = join(dir, "log.ndjson");
  const lines = numbered(3000, (i) => ({ _id: `n${i}`, group: i % 50, n: 1, k: i % 50 }));
  writeFileSync(log, lines.map((doc) => `${JSON.stringify(doc)}\n`).join(""));
  const options: Partial<ViewIndexOptions> = { mapIn: "threads", threads: 1 };
  const made = await ViewIndex.open({
    ...options,
    dir: place,
    source: log,
    append: true,
    designDocuments: [DESIGN],
  });
  await made.update();
  await made.close();
  const next = numbers(4);
  for (let round = 0; round < 3 * RUNS; round++) {
    const child = spawn(process.execPath, [COMPACTING, place, log, String(round * 100_000)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(child, "exit");
    let left = 1 + Math.floor(next() * 9);
    for await (const _line of createInterface({ input: child.stdout }))
      if (--left === 0) child.kill("SIGKILL");
    await exited;

    const index = await ViewIndex.open({ ...options, dir: place });
    const documents = readFileSync(log, "utf8").split("\n").length - 1;
    const { rows } = await (await index.query("d", "v")).object();
    expect(rows[0]?.value).toBe(documents);
    await index.compact();
    expect((await index.verify())[0]?.faults).toEqual([]);
    await index.close();
    expect(readdirSync(place).filter((name) => name.endsWith(".vmx"))).toHaveLength(1);
  }
}

const FULL_DISK = new URL("./full-disk.js", import.meta.url).href;

async function fullDisk(): Promise<void> {
  const dir = tempDir();
  const place = join(dir, "index");
  const feed = new Feed(join(dir, "feed.ndjson"));
  const build = [
    "build",
    place,
    "--source",
    feed.source,
    "--ddoc",
    writeDesign(dir),
    "--json",
    ...["--min-docs", "100"],
    ...["--chunk-bytes", "9000"],
  ];
  feed.write(numbered(1000, (i) => ({ _id: `n${i}`, k: i % 50 })));
  expect((await viewmill(build)).exit).toBe(0);
  feed.write(numbered(4000, (i) => ({ _id: `m${i}`, k: i % 50 })));
  const size = statSync(indexFile(place)).size;
  for (const room of [1000, 60_000]) {
    const failed = await viewmill(build, {
      env: {
        NODE_OPTIONS: `--import ${FULL_DISK}`,
        VIEWMILL_TEST_DIR: place,
        VIEWMILL_TEST_DISK: String(size + room),
      },
    });
    expect([room, failed.exit]).toEqual([room, 1]);
    expect(`${failed.stderr}${failed.stdout}`).toMatch(/ENOSPC|disk is full/);

    // What is there can be read, by those who write nothing, and is a prefix of the feed.
    const index = await ViewIndex.open({ dir: place, readOnly: true });
    const seq = Number((await index.info()).groups[0]?.updateSeq);
    const groups = await groupsOf(index);
    await index.close();
    expect(seq).toBeGreaterThanOrEqual(1000);
    expect(groups.reduce((sum, { value }) => sum + value, 0)).toBe(seq);
  }
  const resumed = await viewmill(build);
  expect(resumed.exit).toBe(0);
  const index = await ViewIndex.open({ dir: place, readOnly: true });
  expect(await groupsOf(index)).toEqual(FIFTY.map((key) => ({ key, value: 100 })));
  await index.close();
}

const LOW_DISK = new URL("./low-disk.js", import.meta.url).href;

async function lowDisk(): Promise<void> {
  const dir = tempDir();
  const place = join(dir, "index");
  const feed = new Feed(join(dir, "feed.ndjson"));
  const free = join(dir, "free");
  const design = ["--source", feed.source, "--ddoc", writeDesign(dir)];
  const small = ["--min-docs", "100", "--chunk-bytes", "9000"];
  feed.write(numbered(1000, (i) => ({ _id: `n${i}`, k: i % 50 })));
  expect((await viewmill(["build", place, ...design, ...small])).exit).toBe(0);
  feed.write(numbered(1000, (i) => ({ _id: `m${i}`, k: i % 50 })));
  writeFileSync(free, String(9 * 2 ** 20));
  const env = { NODE_OPTIONS: `--import ${LOW_DISK}`, VIEWMILL_TEST_FREE: free };

  // A build pauses, and says so; what there is can be read.
  const build = startViewmill(["build", place, ...design, ...small, "--min-free", "10"], { env });
  expect(await build.until(({ stderr }) => stderr.includes("updates pause"))).toBe(true);
  const reader = await ViewIndex.open({ dir: place, readOnly: true });
  expect(await groupsOf(reader)).toEqual(FIFTY.map((key) => ({ key, value: 20 })));
  // It goes on by itself.
  writeFileSync(free, String(11 * 2 ** 20));
  const { exit, stderr } = await build.ended;
  expect([exit, stderr]).toEqual([0, expect.stringContaining("updates go on")]);
  expect(await groupsOf(reader)).toEqual(FIFTY.map((key) => ({ key, value: 40 })));
  await reader.close();

  // A query that needs an update is refused, one that takes what there is, is answered.
  feed.write([{ _id: "late", k: 0 }]);
  const floor = Number.MAX_SAFE_INTEGER;
  const index = await ViewIndex.open({ ...SMALL, dir: place, minFreeBytes: floor });
  expect(await index.query("d", "v").catch(failureOf)).toEqual({
    status: 507,
    error: "insufficient_storage",
    reason: "not enough room to update index",
  });
  const { rows } = await (await index.query("d", "v", { update: false })).object();
  expect(rows[0]?.value).toBe(2000);
  const abort = new AbortController();
  const update = index.update({ signal: abort.signal }).catch((error: unknown) => error);
  while (!(await index.info()).pausedForRoom) await setImmediate();
  abort.abort();
  expect(await update).toMatchObject({ code: "INDEXER_ABORTED" });
  expect((await index.info()).pausedForRoom).toBe(false);
  await index.close();
}

export const diskProcedures: Readonly<Record<string, () => Promise<void>>> = {
  "sys-compaction-equivalence": compactionKeepsAnswers,
  "sys-compaction-crash-and-resume": compactionCrash,
  "sys-enospc": fullDisk,
  "sys-disk-low-pause": lowDisk,
};
