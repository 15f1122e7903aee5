// Builds that are killed or stopped, as real processes: the next one goes on from the last checkpoint, and in the end the index holds what
// an uninterrupted build's holds. Nothing is left over.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { beforeAll, describe, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { buildDone, startViewmill, viewmill, type CliRun } from "../../helpers/cli.js";
import { CountingServer } from "../../helpers/counting-server.js";
import { answerText, indexFile, names, treeContent } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DOCUMENTS = 12_000;

const DESIGN = {
  _id: "_design/d",
  views: {
    by_user: {
      map: "function (doc) { if (doc.bad) throw new Error('bad'); emit(doc.user, doc.n); }",
      reduce: "_sum",
    },
    by_day: {
      map: "function (doc) { emit([2024, doc.n % 12, doc.n % 28], {n: doc.n}); }",
      reduce:
        "function (keys, values, rereduce) { return rereduce ? sum(values) : values.length; }",
    },
  },
};

const root = tempDir();
const source = join(root, "docs.ndjson");
const design = join(root, "design.json");
const whole = join(root, "whole");

beforeAll(async () => {
  const pieces: string[] = [];
  for (let i = 0; i < DOCUMENTS; i++) {
    const n = (i * 7919) % DOCUMENTS;
    pieces.push(
      JSON.stringify({
        _id: `doc-${n}`,
        user: `user-${n % 997}`,
        n,
        ...(n % 5000 === 0 ? { bad: true } : {}),
        pad: "p".repeat(650),
      }),
    );
  }
  writeFileSync(source, `${pieces.join("\n")}\n`);
  writeFileSync(design, JSON.stringify(DESIGN));
  expect(
    await viewmill(["build", whole, "--source", source, "--ddoc", design, "--quiet"]),
  ).toMatchObject({ exit: 0 });
});

/** A build with a chunk for each 200 KiB or so, which says how far it is after each of them. */
function args(dir: string, ...more: string[]): string[] {
  return [
    "build",
    dir,
    "--source",
    source,
    "--ddoc",
    design,
    "--json",
    "--chunk-bytes",
    "200000",
    "--progress-interval",
    "0",
    ...more,
  ];
}

interface Progress {
  readonly phase: "map" | "merge";
  readonly documents: number;
  readonly merged: number;
}

function progressOf(run: CliRun): Progress | undefined {
  return run.lines().findLast((line) => line["progress"] !== undefined)?.["progress"] as
    Progress | undefined;
}

async function answers(dir: string): Promise<string[]> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    return [
      await answerText(index, "d", "by_user", { group: true }),
      await answerText(index, "d", "by_user", { reduce: false }),
      await answerText(index, "d", "by_day", { group_level: 2 }),
      await answerText(index, "d", "by_day", { startkey: [2024, 3], endkey: [2024, 7, 11] }),
    ];
  } finally {
    await index.close();
  }
}

/** As good as the uninterrupted one, and as tidy. */
async function expectWhole(dir: string): Promise<void> {
  expect(names(dir)).toEqual(names(whole));
  const { errors, ...trees } = await treeContent(indexFile(dir));
  const { errors: expectedErrors, ...expected } = await treeContent(indexFile(whole));
  expect(trees).toEqual(expected);
  expect(errors?.length).toBe(expectedErrors?.length);
  expect(await answers(dir)).toEqual(await answers(whole));
}

describe.each(["threads", "processes"] as const)("a first build that maps in %s", (mapIn) => {
  test("killed when nine tenths were mapped, hardly more than the rest is mapped anew", async () => {
    const dir = join(root, `most-${mapIn}`);
    const run = startViewmill(args(dir, "--map-in", mapIn));
    expect(await run.until((r) => (progressOf(r)?.documents ?? 0) >= DOCUMENTS * 0.9)).toBe(true);
    await run.killTree();
    const again = await viewmill(args(dir, "--map-in", mapIn));
    expect(again.exit).toBe(0);
    expect(buildDone(again).mapped).toBeLessThanOrEqual(DOCUMENTS * 0.15);
    await expectWhole(dir);
  });

  test("killed several times in a row, at the beginning, in the middle and while it merged", async () => {
    const dir = join(root, `often-${mapIn}`);
    const moments: ((progress: Progress | undefined) => boolean)[] = [
      (p) => (p?.documents ?? 0) > 0,
      (p) => (p?.documents ?? 0) > DOCUMENTS * 0.3,
      (p) => (p?.documents ?? 0) > DOCUMENTS * 0.6,
      (p) => p?.phase === "merge",
      (p) => p?.phase === "merge",
    ];
    for (const moment of moments) {
      const run = startViewmill(args(dir, "--map-in", mapIn));
      await run.until((r) => moment(progressOf(r)));
      await run.killTree();
    }
    expect(await viewmill(args(dir, "--map-in", mapIn))).toMatchObject({ exit: 0 });
    await expectWhole(dir);
  });
});

/** A build over a changes file that tells of its progress all the time. */
function changesBuild(dir: string, feed: string, ...more: readonly string[]): string[] {
  const source = ["--source", `changes:${feed}`, "--ddoc", design];
  return ["build", dir, ...source, "--json", "--progress-interval", "0", ...more];
}

/** An index is as one that the same command builds from nothing in `fresh`. */
async function expectAsFresh(
  dir: string,
  fresh: string,
  command: (to: string) => string[],
): Promise<void> {
  expect(await viewmill(command(fresh))).toMatchObject({ exit: 0 });
  expect(await treeContent(indexFile(dir))).toEqual(await treeContent(indexFile(fresh)));
  expect(names(dir)).toEqual(names(fresh));
}

describe("a build", () => {
  test("whose program alone is killed takes its children along, and frees the directory", async () => {
    const dir = join(root, "alone");
    const run = startViewmill(args(dir));
    expect(await run.until((r) => (progressOf(r)?.documents ?? 0) > DOCUMENTS * 0.2)).toBe(true);
    run.signal("SIGKILL");
    // Its outputs are closed when the last of its processes is gone.
    await run.ended;
    expect(await viewmill(args(dir))).toMatchObject({ exit: 0 });
    await expectWhole(dir);
  });

  const onLinux = process.platform === "linux" ? test : test.skip;
  onLinux(
    "that is killed alone while a function of a view server never ends takes the view server along",
    async () => {
      const dir = join(root, "endless");
      const feed = join(root, "endless.ndjson");
      const good = Array.from({ length: 200 }, (_, n) => `{"_id":"doc-${n}","n":${n}}\n`).join("");
      writeFileSync(feed, `${good}{"_id":"endless","n":3,"loop":true}\n`);
      const loop = join(root, "loop.json");
      const map = "function (doc) { while (doc.loop); emit(doc.n, null); }";
      writeFileSync(loop, JSON.stringify({ _id: "_design/l", views: { v: { map } } }));
      const more = [
        "--map-in",
        "processes",
        "--threads",
        "1",
        "--chunk-bytes",
        "1000",
        "--min-docs",
        "1",
        "--timeout",
        "600000",
      ];
      const run = startViewmill([
        "build",
        dir,
        "--source",
        feed,
        "--ddoc",
        loop,
        "--json",
        "--progress-interval",
        "0",
        ...more,
      ]);
      expect(await run.until((r) => (progressOf(r)?.documents ?? 0) >= 100)).toBe(true);
      const { pid = 0 } = run.child;
      const servers = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
      expect(servers.length).toBeGreaterThan(0);
      // What is left would take it milliseconds: a server that goes on computing is in the function that does not end.
      const before = servers.map(ticks);
      while (!servers.some((server, i) => ticks(server) > (before[i] ?? 0) + 100))
        await new Promise((resolve) => setTimeout(resolve, 20));
      run.signal("SIGKILL");
      await run.ended;
      // Ends when they have ended.
      for (const server of servers)
        await once(spawn("tail", ["-f", "/dev/null", `--pid=${server}`]), "exit");
    },
  );

  test.each(["SIGINT", "SIGTERM"] as const)(
    "stopped by %s finishes its batch, says how to go on, and goes on",
    async (signal) => {
      const dir = join(root, `stopped-${signal}`);
      const server = new CountingServer(join(root, `mapped-${signal}`));
      const more = ["--server", server.command, "--threads", "1"];
      const run = startViewmill(args(dir, ...more));
      expect(await run.until((r) => (progressOf(r)?.documents ?? 0) > DOCUMENTS * 0.4)).toBe(true);
      run.signal(signal);
      const stopped = await run.ended;
      expect(stopped).toMatchObject({ exit: 130, signal: null });
      expect(stopped.stderr).toContain("Run the same command again to go on");
      const again = await viewmill(args(dir, ...more));
      expect(again.exit).toBe(0);
      expect(buildDone(again).mapped).toBeLessThan(DOCUMENTS * 0.6);
      // What was under way when the signal came was kept: nothing was mapped twice.
      const counts = [...server.take().values()];
      expect(counts).toHaveLength(DOCUMENTS);
      expect(counts.every((count) => count === 1)).toBe(true);
      await expectWhole(dir);
    },
  );

  test("sent the same signal twice, by a terminal and its supervisor, still ends in an orderly way", async () => {
    const dir = join(root, "twice");
    const run = startViewmill(args(dir));
    expect(await run.until((r) => (progressOf(r)?.documents ?? 0) > DOCUMENTS * 0.2)).toBe(true);
    process.kill(-(run.child.pid ?? 0), "SIGINT");
    const stopped = await run.ended;
    expect(stopped.exit).toBe(130);
    expect(stopped.stderr).toContain("Run the same command again to go on");
    const again = await viewmill(args(dir));
    expect(again.exit).toBe(0);
    expect(buildDone(again).mapped).toBeLessThan(DOCUMENTS * 0.8);
    await expectWhole(dir);
  });

  test("killed in the middle of an update: the next one brings the rest", async () => {
    const dir = join(root, "update");
    const feed = join(root, "feed.ndjson");
    const rows = (from: number, to: number, n: number): string => {
      let text = "";
      for (let i = from; i < to; i++)
        text += `{"seq":"${i}-${n}","id":"doc-${i}","changes":[{"rev":"${n}-a"}],"doc":{"_id":"doc-${i}","user":"u${(i + n) % 50}","n":${i}}}\n`;
      return text;
    };
    writeFileSync(feed, rows(0, 3000, 1));
    const command = (to: string): string[] =>
      changesBuild(to, feed, "--chunk-bytes", "20000", "--min-docs", "100");
    expect(await viewmill(command(dir))).toMatchObject({ exit: 0 });
    writeFileSync(feed, rows(0, 3000, 1) + rows(0, 3000, 2));
    for (const share of [0.2, 0.6]) {
      const run = startViewmill(command(dir));
      await run.until((r) => (progressOf(r)?.documents ?? 0) > 3000 * share * 0.5);
      await run.killTree();
    }
    const last = await viewmill(command(dir));
    expect(last.exit).toBe(0);
    expect(buildDone(last).mapped).toBeLessThan(3000);
    await expectAsFresh(dir, join(root, "update-fresh"), command);
  });

  test("killed in a change of everything, which is merged: the next one maps what is left, and merges", async () => {
    const dir = join(root, "large-change");
    const feed = join(root, "large-feed.ndjson");
    const rows = (n: number): string => {
      const lines: string[] = [];
      const pad = "p".repeat(700);
      for (let i = 0; i < DOCUMENTS; i++)
        lines.push(
          `{"seq":"${i}-${n}","id":"doc-${i}","changes":[{"rev":"${n}-a"}],"doc":{"_id":"doc-${i}","user":"u${(i + n) % 50}","n":${i},"pad":"${pad}"}}\n`,
        );
      return lines.join("");
    };
    const command = (to: string): string[] => changesBuild(to, feed, "--chunk-bytes", "200000");
    writeFileSync(feed, rows(1));
    expect(await viewmill(command(dir))).toMatchObject({ exit: 0 });
    writeFileSync(feed, rows(1) + rows(2));
    const moments: ((progress: Progress | undefined) => boolean)[] = [
      (p) => (p?.documents ?? 0) > DOCUMENTS * 0.6,
      (p) => p?.phase === "merge",
    ];
    for (const moment of moments) {
      const run = startViewmill(command(dir));
      expect(await run.until((r) => moment(progressOf(r)))).toBe(true);
      await run.killTree();
    }
    const last = await viewmill(command(dir));
    expect(last.exit).toBe(0);
    expect(buildDone(last).mapped).toBeLessThan(DOCUMENTS * 0.15);
    await expectAsFresh(dir, join(root, "large-change-fresh"), command);
  });
});

/** Processor time of a process, in hundredths of a second (proc(5): utime). */
function ticks(pid: string): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[11]);
}
