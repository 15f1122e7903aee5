// What an upgrade of the order of keys must bear: more rows than memory should hold, deaths at any moment while documents are written, and
// an index whose last updates still wait in the log of its id tree.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, describe, expect, test } from "@jest/globals";

import { Store } from "../../../btree/index.js";
import { ViewIndex, type ViewIndexOptions } from "../../../indexer/index.js";
import { groupReducers, IDS_TREE } from "../../../indexer/views/group-reducers.js";
import { answerText, indexFile, treeContent } from "../../helpers/index-content.js";
import { downgrade, LATER, NEWLY_IGNORED, upgrade } from "../../helpers/later-collation.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const RUNS = Number(process.env["TEST_RUNS"] ?? 4);
const CHILD = fileURLToPath(new URL("./renewing-child.js", import.meta.url));
const DESIGN = {
  _id: "_design/d",
  views: {
    name: { map: "function (doc) { emit(doc.name, doc.text); }" },
    sum: {
      map: "function (doc) { emit([doc.n, doc.name], doc.n); emit('b', 1); }",
      reduce: "_sum",
    },
  },
};
afterEach(downgrade);

function open(root: string, dir: string, more: Partial<ViewIndexOptions> = {}): Promise<ViewIndex> {
  return ViewIndex.open({
    dir: join(root, dir),
    source: join(root, "log.ndjson"),
    append: true,
    designDocuments: [DESIGN],
    mapIn: "threads",
    threads: 1,
    ...more,
  });
}

interface Doc {
  readonly _id: string;
  readonly name: string;
  readonly n: number;
  readonly text?: string;
}

function add(root: string, docs: readonly Doc[]): void {
  appendFileSync(join(root, "log.ndjson"), docs.map((doc) => `${JSON.stringify(doc)}\n`).join(""));
}

function made(count: number, text?: string): Doc[] {
  return Array.from({ length: count }, (_, i) => ({
    _id: `doc-${i}`,
    name: `${"byd-7mq"[i % 7] ?? ""}${i % 1013}`,
    n: i % 5,
    ...(text === undefined ? {} : { text: `${text}${i}` }),
  }));
}

/** An index of the earlier release. */
async function earlier(root: string): Promise<void> {
  downgrade();
  const index = await open(root, "index");
  await index.update();
  await index.close();
}

async function content(dir: string): Promise<unknown> {
  const { errors: _stacks, ...trees } = await treeContent(indexFile(dir));
  return trees;
}

/** The index is as one that a later release builds from nothing, and whole. */
async function expectAsBuiltAnew(root: string): Promise<void> {
  upgrade();
  const index = await open(root, "index");
  await index.update();
  for (const { faults } of await index.verify()) expect(faults).toEqual([]);
  expect((await index.info()).groups).toMatchObject([{ collation: LATER }]);
  const fresh = await open(root, "fresh", { rebuild: true });
  await fresh.update();
  for (const view of ["name", "sum"])
    expect(await answerText(index, "d", view, { reduce: false })).toBe(
      await answerText(fresh, "d", view, { reduce: false }),
    );
  expect(await answerText(index, "d", "sum", { group_level: 1 })).toBe(
    await answerText(fresh, "d", "sum", { group_level: 1 }),
  );
  await index.close();
  await fresh.close();
  expect(await content(join(root, "index"))).toEqual(await content(join(root, "fresh")));
}

async function waitingIds(root: string): Promise<number> {
  const store = await Store.open(indexFile(join(root, "index")), {
    mode: "read",
    reducers: groupReducers.countsOnly,
  });
  const waiting = store.stats().trees.find(({ name }) => name === IDS_TREE)?.waiting ?? 0;
  await store.close();
  return waiting;
}

describe("renewing an index", () => {
  test("whose last updates wait in the log of its id tree takes them over, and those of meanwhile", async () => {
    const root = tempDir();
    add(root, made(3000));
    await earlier(root);
    // Documents that are new, other, the same under another key, and equal only in the later order.
    const small = await open(root, "index");
    for (let round = 0; round < 3; round++) {
      add(root, [
        { _id: `new-${round}`, name: `y${NEWLY_IGNORED}`, n: round },
        { _id: `doc-${round * 7}`, name: "moved", n: 9 },
        { _id: `doc-${round * 11 + 1}`, name: `b${round}`, n: 2, text: "changed" },
      ]);
      await small.update();
    }
    await small.close();
    expect(await waitingIds(root)).toBeGreaterThan(0);

    upgrade();
    const index = await open(root, "index");
    let reports = 0;
    let updated: Promise<unknown> | undefined;
    await index.compact(undefined, {
      onProgress: () => {
        add(root, [
          { _id: `doc-${reports}`, name: "meanwhile", n: 1 },
          { _id: `new-${reports}`, name: "m", n: reports },
        ]);
        reports++;
        updated = index.update();
      },
    });
    await updated;
    await index.close();

    expect(reports).toBeGreaterThan(0);
    await expectAsBuiltAnew(root);
  });

  test("killed at any moment, while documents are written, the next one ends what it began", async () => {
    const moments = new Set<string>();
    for (let kill = 0; kill < RUNS; kill++) {
      const root = tempDir();
      add(root, made(4000));
      await earlier(root);
      const running = spawn(
        process.execPath,
        [CHILD, join(root, "index"), join(root, "log.ndjson"), "0"],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      // About fifty reports come in all.
      let left = 1 + ((kill * 13) % 50);
      let said = "";
      running.stdout.setEncoding("utf8").on("data", (text: string) => {
        for (const line of text.split("\n").filter((one) => one !== "")) {
          said = line;
          if (--left === 0) running.kill("SIGKILL");
        }
      });
      await once(running, "close");
      moments.add(said.split(" ")[0] ?? "");

      upgrade();
      const index = await open(root, "index");
      expect(
        readdirSync(join(root, "index")).filter((name) => /\.vmx$|\.sort$/.test(name)),
      ).toEqual([expect.stringMatching(/\.[12]\.vmx$/)]);
      for (const { faults } of await index.verify()) expect(faults).toEqual([]);
      await index.update();
      await index.compact();
      await index.close();
      await expectAsBuiltAnew(root);
      downgrade();
    }
    expect(moments.size).toBeGreaterThan(1);
  }, 120_000);

  test("takes memory that does not grow with its rows", async () => {
    const text = "x".repeat(3000);
    const peak = async (documents: number): Promise<number> => {
      const root = tempDir();
      writeFileSync(join(root, "log.ndjson"), "");
      add(root, made(documents, text));
      await earlier(root);
      const running = spawn(
        process.execPath,
        ["--max-old-space-size=64", CHILD, join(root, "index"), join(root, "log.ndjson")],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      let said = "";
      running.stdout.setEncoding("utf8").on("data", (part: string) => {
        said += part;
      });
      await once(running, "close");
      expect(said).toContain("renewed");
      return Number(/mebibytes (\d+)/.exec(said)?.[1]);
    };

    const small = await peak(10_000);
    const large = await peak(50_000);

    // The rows that the large one has more are 115 MiB in one view, and more than 300 where they are held in memory to be sorted. Caches, and what a
    // loaded machine is late to collect, are 25 to 55.
    expect(large - small).toBeLessThan(115);
  }, 120_000);
});
