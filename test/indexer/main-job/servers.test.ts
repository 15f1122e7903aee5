// Foreign view servers behind --server: ours as a program, a strictly half-duplex one, and ones that die, hang or print garbage. The guilty
// document is blamed, and it alone.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { buildDone, jsonLines, viewmill, type CliResult } from "../../helpers/cli.js";
import { answerText, indexFile, treeContent } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const root = tempDir();
const design = join(root, "design.json");
/** What the small servers do for every document, whatever they are told. */
writeFileSync(
  design,
  JSON.stringify({
    _id: "_design/d",
    views: { v: { map: "function (doc) { emit(doc._id, null); }", reduce: "_count" } },
  }),
);

function fixture(name: string): string {
  return `${process.execPath} ${fileURLToPath(new URL(`../../helpers/servers/${name}.js`, import.meta.url))}`;
}

const OURS = `${process.execPath} ${fileURLToPath(new URL("../../../viewserver/main.js", import.meta.url))}`;

let runs = 0;

/** Documents 0 … 299, some of them with more members. */
async function build(
  server: string,
  special: Readonly<Record<number, object>>,
  ...more: string[]
): Promise<{ dir: string; result: CliResult }> {
  const dir = join(root, `index-${++runs}`);
  const source = join(root, `docs-${runs}.ndjson`);
  writeFileSync(
    source,
    Array.from(
      { length: 300 },
      (_, i) => `${JSON.stringify({ _id: idOf(i), ...special[i] })}\n`,
    ).join(""),
  );
  const result = await viewmill([
    "build",
    dir,
    "--source",
    source,
    "--ddoc",
    design,
    "--json",
    "--server",
    server,
    "--threads",
    "1",
    "--timeout",
    "3000",
    ...more,
  ]);
  return { dir, result };
}

function idOf(i: number): string {
  return `doc-${String(i).padStart(3, "0")}`;
}

async function rows(dir: string): Promise<string[]> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    const answer = JSON.parse(await answerText(index, "d", "v", { reduce: false })) as {
      rows: { id: string }[];
    };
    return answer.rows.map(({ id }) => id);
  } finally {
    await index.close();
  }
}

async function blamed(dir: string): Promise<[string, string][]> {
  const { stdout } = await viewmill(["errors", dir, "--json"]);
  return (jsonLines(stdout) as { id: string; kind: string }[]).map(({ id, kind }) => [id, kind]);
}

function allBut(...missing: number[]): string[] {
  return Array.from({ length: 300 }, (_, i) => i)
    .filter((i) => !missing.includes(i))
    .map(idOf);
}

describe("a view server that does as it should", () => {
  test("and is not ours says which document a function throws for; which view, its empty rows tell", async () => {
    const source = join(root, "throws.ndjson");
    writeFileSync(source, '{"_id":"a","k":1}\n{"_id":"b","k":2}\n{"_id":"c","k":3}\n');
    const views = {
      good: { map: "function (doc) { emit(doc._id); }" },
      bad: { map: "function (doc) { if (doc.k === 2) throw new Error('bad'); emit(doc._id, 1); }" },
      quiet: {
        map: "function (doc) { if (doc.k === 3) throw new Error('quiet'); emit(doc.k, 3); }",
      },
      silent: { map: "function (doc) { if (doc.k < 3) emit(doc._id, 4); }" },
    };
    const file = join(root, "throws.json");
    writeFileSync(file, JSON.stringify({ _id: "_design/t", views }));
    const dir = join(root, "throws");
    await viewmill([
      ...["build", dir, "--source", source, "--ddoc", file, "--quiet"],
      ...["--server", OURS, "--threads", "1"],
    ]);
    const { stdout } = await viewmill(["errors", dir, "--json"]);
    const told = jsonLines(stdout) as unknown as { id: string; view: string | null }[];

    // Two functions gave no rows for the last document, and one of them threw: nobody can say which.
    expect(told.map(({ id, view }) => [id, view])).toEqual([
      ["b", "bad"],
      ["c", null],
    ]);
  });

  test("ours gives the same index as threads do", async () => {
    const { dir, result } = await build(OURS, {});
    expect(result).toMatchObject({ exit: 0, stderr: "" });
    const threads = join(root, "threads");
    expect(
      await viewmill([
        "build",
        threads,
        "--source",
        join(root, `docs-${runs}.ndjson`),
        "--ddoc",
        design,
        "-q",
      ]),
    ).toMatchObject({ exit: 0 });
    expect(await treeContent(indexFile(dir))).toEqual(await treeContent(indexFile(threads)));
  });

  test("one that does not read while its own answer of 10 MB is unread does not come to a deadlock", async () => {
    const { dir, result } = await build(fixture("half-duplex"), {
      3: { bytes: 10_000_000 },
      4: { text: "t".repeat(100_000) },
      5: { bytes: 10_000_000 },
    });
    expect(result).toMatchObject({ exit: 0 });
    expect(buildDone(result)).toMatchObject({ mapped: 300, errors: 0, rows: 300 });
    expect((await rows(dir)).sort()).toEqual(allBut());
  });
});

describe("a view server that misbehaves is blamed on its document", () => {
  test("one that dies", async () => {
    const { dir, result } = await build(
      fixture("dies"),
      { 0: { die: true }, 150: { die: true }, 151: { die: true }, 299: { die: true } },
      "--max-errors",
      "3",
    );
    expect(result.exit).toBe(3);
    expect(await blamed(dir)).toEqual([0, 150, 151, 299].map((i) => [idOf(i), "crash"]));
    expect(await rows(dir)).toEqual(allBut(0, 150, 151, 299));
  });

  test("one that says it is beyond hope, and dies", async () => {
    const { dir, result } = await build(fixture("dies"), { 20: { die: "fatal" } });
    expect(result.exit).toBe(0);
    expect((await blamed(dir)).map(([id]) => id)).toEqual([idOf(20)]);
    expect(await rows(dir)).toEqual(allBut(20));
  });

  test("one that hangs", async () => {
    const { dir, result } = await build(
      fixture("hangs"),
      { 200: { hang: true } },
      "--timeout",
      "1000",
    );
    expect(result.exit).toBe(0);
    expect(await blamed(dir)).toEqual([[idOf(200), "timeout"]]);
    expect(await rows(dir)).toEqual(allBut(200));
  });

  test("one that prints garbage", async () => {
    const { dir, result } = await build(fixture("bad-json"), { 77: { chatty: true } });
    expect(result.exit).toBe(0);
    expect((await blamed(dir)).map(([id]) => id)).toEqual([idOf(77)]);
    expect(await rows(dir)).toEqual(allBut(77));
  });
});

describe("a view server that is none", () => {
  test.each([
    ["exits at once", "exits-at-start", /INDEXER_SERVER_EXITED/],
    ["never answers", "ignores-input", /INDEXER_SERVER_(TIMEOUT|EXITED)/],
  ])("that %s ends the build with an error", async (_what, name, says) => {
    const { result } = await build(fixture(name), {}, "--timeout", "1000");
    expect(result).toMatchObject({ exit: 1, stderr: expect.stringMatching(says) });
  });

  test("that is another program ends the build with an error", async () => {
    const { result } = await build("/bin/cat", {}, "--timeout", "1000");
    expect(result).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/\/bin\/cat.*INDEXER_/s),
    });
  });
});
