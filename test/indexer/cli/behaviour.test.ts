// What the program prints and does when all is well: progress and results as JSON, silence, only what changed, CouchDB's bytes, and that
// the directory alone is enough.

import { appendFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { beforeAll, describe, expect, test } from "@jest/globals";

import { buildDone, jsonLines, startViewmill, viewmill } from "../../helpers/cli.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DESIGN = {
  _id: "_design/d",
  views: {
    by_kind: { map: "function (doc) { emit([doc.kind, doc.n], doc.n); }", reduce: "_sum" },
    names: { map: "function (doc) { emit(doc._id, null); }" },
  },
};

const root = tempDir();
const source = join(root, "docs.ndjson");
const design = join(root, "design.json");
const dir = join(root, "index");

function lines(from: number, to: number, n = 1): string {
  let text = "";
  for (let i = from; i < to; i++)
    text += `{"_id":"doc-${String(i).padStart(3, "0")}","kind":"${i % 2 === 0 ? "even" : "odd"}","n":${n * i}}\n`;
  return text;
}

beforeAll(async () => {
  writeFileSync(source, lines(0, 10));
  writeFileSync(design, JSON.stringify(DESIGN));
  expect(
    await viewmill(["build", dir, "--source", source, "--ddoc", design, "--quiet"]),
  ).toMatchObject({ exit: 0, stdout: "", stderr: "" });
});

async function ask(...args: string[]): Promise<string> {
  const result = await viewmill(["query", dir, ...args, "--json"]);
  expect({ exit: result.exit, stderr: result.stderr }).toEqual({ exit: 0, stderr: "" });
  return result.stdout;
}

describe("build", () => {
  test("says with --json how far it is, and in the end what it did and what is there", async () => {
    const to = join(root, "json");
    const result = await viewmill([
      "build",
      to,
      "--source",
      source,
      "--ddoc",
      design,
      "--json",
      "--progress-interval",
      "0",
      "--min-docs",
      "1",
      "--min-bytes",
      "1",
      "--chunk-bytes",
      "100",
    ]);
    expect(result).toMatchObject({ exit: 0, stderr: "" });
    const told = jsonLines(result.stdout);
    expect(told.length).toBeGreaterThan(2);
    for (const line of told.slice(0, -1))
      expect(line["progress"]).toMatchObject({
        phase: "map",
        documents: expect.any(Number),
        mapped: expect.any(Number),
        failed: 0,
        rows: expect.any(Number),
        seconds: expect.any(Number),
        documents_per_second: expect.any(Number),
      });
    expect(told.at(-1)).toEqual({
      done: {
        documents: 10,
        mapped: 10,
        unchanged: 0,
        deleted: 0,
        failed: 0,
        rows: 20,
        errors: 0,
        seconds: expect.any(Number),
        groups: [
          {
            designDocument: "_design/d",
            signature: expect.stringMatching(/^[0-9a-f]{32}$/),
            documents: 10,
            errors: 0,
            rows: { by_kind: 10, names: 10 },
            updateSeq: expect.any(String),
            sizes: {
              file: expect.any(Number),
              active: expect.any(Number),
              external: expect.any(Number),
            },
          },
        ],
      },
    });
  });

  test("maps only what changed, works from the directory alone, and from any folder", async () => {
    const folder = join(root, "elsewhere");
    mkdirSync(folder);
    const to = join(root, "again");
    writeFileSync(join(folder, "docs.ndjson"), lines(0, 20));
    // The source is named relative to a folder that later commands do not run in.
    expect(
      await viewmill(["build", to, "--source", "docs.ndjson", "--ddoc", design, "-q"], {
        cwd: folder,
      }),
    ).toMatchObject({ exit: 0 });
    writeFileSync(join(folder, "docs.ndjson"), lines(5, 12) + lines(12, 14, 3) + lines(14, 21));
    const second = await viewmill(["build", to, "--json"]);
    expect(buildDone(second)).toMatchObject({ mapped: 3, unchanged: 13, deleted: 5 });
    expect(buildDone(await viewmill(["build", to, "--json"]))).toMatchObject({
      mapped: 0,
      documents: 0,
    });
    const told = await viewmill(["build", to]);
    expect(told).toMatchObject({ exit: 0, stdout: "" });
    expect(told.stderr).toMatch(/^0 documents in .*: 0 mapped/);
  });

  test("reads a snapshot from stdin, and a later one", async () => {
    const to = join(root, "stdin");
    const args = ["build", to, "--source", "-", "--ddoc", design, "--json"];
    expect(buildDone(await viewmill(args, { input: lines(0, 30) }))).toMatchObject({ mapped: 30 });
    expect(buildDone(await viewmill(args, { input: lines(10, 31) }))).toMatchObject({
      mapped: 1,
      unchanged: 20,
      deleted: 10,
    });
  });

  test("takes the id from another member with --id-field", async () => {
    const to = join(root, "id-field");
    const file = join(root, "named.ndjson");
    writeFileSync(file, `{"name":"x","kind":"a","n":1}\n{"name":"y","kind":"a","n":2}\n`);
    expect(
      await viewmill(["build", to, "--source", file, "--ddoc", design, "--id-field", "name", "-q"]),
    ).toMatchObject({ exit: 0 });
    expect(
      (await viewmill(["query", to, "d/by_kind", "--reduce=false", "--json"])).stdout,
    ).toContain('"id":"y","key":["a",2],"value":2');
    expect(buildDone(await viewmill(["build", to, "--json"]))).toMatchObject({ mapped: 0 });
  });

  test("with --append reads what was appended", async () => {
    const to = join(root, "append");
    const file = join(root, "log.ndjson");
    writeFileSync(file, lines(0, 5));
    expect(
      await viewmill(["build", to, "--source", file, "--append", "--ddoc", design, "-q"]),
    ).toMatchObject({ exit: 0 });
    appendFileSync(file, `${lines(3, 7)}{"_id":"doc-000","_deleted":true}\n`);
    expect(buildDone(await viewmill(["build", to, "--json"]))).toMatchObject({
      documents: 5,
      mapped: 2,
      unchanged: 2,
      deleted: 1,
    });
  });
});

describe("query", () => {
  test("prints exactly CouchDB's bytes with --json", async () => {
    expect(await ask("d/names", "--limit", "2")).toBe(
      '{"total_rows":10,"offset":0,"rows":[\r\n{"id":"doc-000","key":"doc-000","value":null},\r\n{"id":"doc-001","key":"doc-001","value":null}\r\n]}\n',
    );
    expect(await ask("d/by_kind")).toBe('{"rows":[\r\n{"key":null,"value":45}\r\n]}\n');
    expect(await ask("_design/d/by_kind", "--group-level", "1")).toBe(
      '{"rows":[\r\n{"key":["even"],"value":20},\r\n{"key":["odd"],"value":25}\r\n]}\n',
    );
    expect(await ask("d/by_kind", "--key", '["no"]')).toBe('{"rows":[\r\n\r\n]}\n');
  });

  test.each([
    [
      ["--start-key", '["odd"]', "--end-key", '["odd",5]'],
      ['--startkey=["odd"]', '--endkey=["odd",5]'],
    ],
    [
      ["--start_key", '["odd"]', "--end_key", '["odd",5]'],
      ["--startkey", '["odd"]', "--endkey", '["odd",5]'],
    ],
    [
      ["--inclusive-end=false", "--endkey", '["even",4]'],
      ["--inclusive_end", "false", "--endkey", '["even",4]'],
    ],
    [
      ["--descending", "--limit", "3"],
      ["--descending=true", "--limit=3"],
    ],
    [["--keys", '[["odd",1],["even",2]]'], ['--keys=[["odd",1],["even",2]]']],
    [
      ["--startkey-docid", "doc-004", "--startkey", '["even",4]'],
      ["--start_key_doc_id", "doc-004", "--startkey", '["even",4]'],
    ],
  ])("takes parameters in every spelling: %j", async (one, other) => {
    const text = await ask("d/by_kind", "--reduce=false", ...one);
    expect(text).toBe(await ask("d/by_kind", "--reduce", "false", ...other));
    expect((JSON.parse(text) as { rows: unknown[] }).rows.length).toBeGreaterThan(0);
  });

  test.each([
    [["--group"], ["--group=true"]],
    [["--group-level=2"], ["--group_level", "2"]],
  ])("and of reduces: %j", async (one, other) => {
    expect(await ask("d/by_kind", ...one)).toBe(await ask("d/by_kind", ...other));
  });

  test("shows a table to people", async () => {
    const { stdout, stderr } = await viewmill(["query", dir, "d/by_kind", "--group-level", "1"]);
    expect(stdout.split("\n")).toEqual([
      expect.stringMatching(/^key +value$/),
      expect.stringMatching(/^─+ +─+$/),
      '["even"]     20',
      '["odd"]      25',
      "",
    ]);
    expect(stderr).toBe("2 rows\n");
    expect((await viewmill(["query", dir, "d/by_kind", "--group-level", "1", "-q"])).stderr).toBe(
      "",
    );
  });

  test("with documents and sequence", async () => {
    const text = await ask("d/names", "--include-docs", "--key", '"doc-003"');
    expect(JSON.parse(text)).toMatchObject({
      rows: [{ doc: { _id: "doc-003", kind: "odd", n: 3 } }],
    });
    expect(JSON.parse(await ask("d/names", "--update-seq", "--limit", "0"))).toMatchObject({
      update_seq: expect.anything(),
      rows: [],
    });
  });

  test("needs nothing but the directory, and updates when it is told to", async () => {
    const to = join(root, "moved");
    const file = join(root, "moving.ndjson");
    writeFileSync(file, lines(0, 4));
    expect(await viewmill(["build", to, "--source", file, "--ddoc", design, "-q"])).toMatchObject({
      exit: 0,
    });
    appendFileSync(file, lines(4, 6));
    const total = async (...args: string[]): Promise<unknown> =>
      (
        JSON.parse(
          (await viewmill(["query", to, "d/names", "--limit=0", "--json", ...args])).stdout,
        ) as { total_rows: number }
      ).total_rows;
    expect(await total()).toBe(4);
    expect(await total("--update=true")).toBe(6);
    renameSync(file, `${file}.gone`);
    expect(await total()).toBe(6);
    const info = await viewmill(["info", to, "--json"]);
    expect(JSON.parse(info.stdout)).toMatchObject({
      groups: [{ designDocument: "_design/d", state: "ready", documents: 6 }],
    });
    expect(await viewmill(["errors", to, "--json"])).toMatchObject({ exit: 0, stdout: "" });
    expect((await viewmill(["info", to])).stdout).toMatch(/_design\/d +ready/);
  });
});

describe("follow", () => {
  test("keeps up with a growing file until it is told to stop, and that is no failure", async () => {
    const to = join(root, "follow");
    const file = join(root, "growing.ndjson");
    writeFileSync(file, lines(0, 5));
    const run = startViewmill([
      "follow",
      to,
      "--source",
      file,
      "--append",
      "--ddoc",
      design,
      "--json",
      "--progress-interval",
      "0",
    ]);
    const documents = (): number =>
      (run.lines().at(-1)?.["progress"] as { documents: number } | undefined)?.documents ?? 0;
    expect(await run.until(() => documents() >= 5)).toBe(true);
    let previous = run.lines().length;
    for (let i = 5; i < 8; i++) {
      appendFileSync(file, lines(i, i + 1));
      expect(await run.until((r) => r.lines().length > previous)).toBe(true);
      previous = run.lines().length;
    }
    run.signal("SIGINT");
    expect(await run.ended).toMatchObject({ exit: 0 });
    const asked = await viewmill(["query", to, "d/names", "--limit=0", "--json"]);
    expect(JSON.parse(asked.stdout)).toMatchObject({ total_rows: 8 });
  });

  test("without a design document it waits for one to come, and says so", async () => {
    const to = join(root, "follow-none");
    const file = join(root, "feed-without-views.ndjson");
    const row = (seq: number, doc: { readonly _id: string }): string =>
      `${JSON.stringify({ seq, id: doc._id, changes: [{ rev: "1-a" }], doc })}\n`;
    writeFileSync(file, row(1, { _id: "a" }));
    const source = ["--source", `changes:${file}`];
    const run = startViewmill(["follow", to, ...source, "--json", "--progress-interval", "0"]);
    expect(await run.until(({ stderr }) => stderr.includes("waiting for one"))).toBe(true);
    expect(run.stderr).toContain("there is no design document to keep up yet");
    appendFileSync(file, row(2, { _id: "b" }));
    const views = { v: { map: "function (doc) { emit(doc._id); }" } };
    appendFileSync(file, row(3, { _id: "_design/late", views } as { _id: string }));
    const documents = (): number =>
      (run.lines().at(-1)?.["progress"] as { documents: number } | undefined)?.documents ?? 0;
    expect(await run.until(() => documents() >= 2)).toBe(true);
    run.signal("SIGINT");
    expect(await run.ended).toMatchObject({ exit: 0 });
    const asked = await viewmill(["query", to, "late/v", "--json"]);
    expect(JSON.parse(asked.stdout)).toMatchObject({ total_rows: 2 });
  });

  test("with nothing but design documents that say autoupdate: false, it says that there is nothing to do", async () => {
    const kept = join(root, "not-kept-up.json");
    const map = "function (doc) { emit(doc._id); }";
    writeFileSync(
      kept,
      JSON.stringify({ _id: "_design/d", autoupdate: false, views: { v: { map } } }),
    );
    const result = await viewmill([
      "follow",
      join(root, "follow-nothing"),
      "--source",
      source,
      "--append",
      "--ddoc",
      kept,
    ]);
    expect(result.exit).toBe(2);
    expect(result.stderr).toMatch(/autoupdate: false.*SOURCE_USAGE/);
  });

  test("refuses a file of documents that is no log", async () => {
    const result = await viewmill([
      "follow",
      join(root, "no-log"),
      "--source",
      source,
      "--ddoc",
      design,
    ]);
    expect(result.exit).toBe(2);
    expect(result.stderr).toMatch(/--append.*SOURCE_USAGE/);
  });
});

describe("without a source", () => {
  test.each(["build", "follow"])(
    "%s of a directory without an index says so and makes nothing",
    async (command) => {
      const dir = join(root, `sourceless-${command}`);
      const result = await viewmill([command, dir, "--ddoc", design]);
      expect(result).toMatchObject({ exit: 2, stderr: expect.stringMatching(/--source/) });
      expect(existsSync(dir)).toBe(false);
    },
  );
});

describe("the program", () => {
  test("tells its version and its options", async () => {
    expect(await viewmill(["--version"])).toMatchObject({
      exit: 0,
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    });
    const help = await viewmill(["build", "--help"]);
    expect(help.exit).toBe(0);
    for (const flag of [
      "--source",
      "--ddoc",
      "--append",
      "--server",
      "--max-errors",
      "--strict",
      "--rebuild",
      "--line-max",
    ])
      expect(help.stdout).toContain(flag);
  });
});

describe("what is told", () => {
  test("counts one thing as one", async () => {
    const dir = join(root, "one-of-each");
    const file = join(root, "one.ndjson");
    writeFileSync(file, lines(0, 1));
    const built = await viewmill(["build", dir, "--source", file, "--ddoc", design]);
    expect(built.stderr).toMatch(/^1 document in .*, 2 rows$/m);
    const { stdout } = await viewmill(["info", dir]);
    expect(stdout).toMatch(/documents {2}1, 0 error records$/m);
    expect(stdout).toMatch(/ 1 row$/m);
  });

  test("cleanup of what is no index says so and makes nothing; of one without litter, that there is none", async () => {
    const none = join(root, "no-index-at-all");
    const result = await viewmill(["cleanup", none]);
    expect(result).toMatchObject({ exit: 1, stderr: expect.stringMatching(/INDEXER_NO_INDEX/) });
    expect(existsSync(none)).toBe(false);
    const dir = join(root, "one-of-each");
    expect(await viewmill(["cleanup", dir])).toMatchObject({
      exit: 0,
      stdout: "",
      stderr: "nothing to remove: every file is in use\n",
    });
    expect((await viewmill(["cleanup", dir, "--json"])).stdout).toBe(
      '{"removed":[],"dryRun":false}\n',
    );
  });

  test("a line that is too long names the option", async () => {
    const file = join(root, "long-line.ndjson");
    writeFileSync(file, `{"_id":"a","text":"${"x".repeat(2000)}"}\n`);
    const dir = join(root, "long-line");
    const args = ["--source", file, "--ddoc", design, "--line-max", "1000"];
    const result = await viewmill(["build", dir, ...args]);
    expect(result.exit).toBe(1);
    expect(result.stderr).toMatch(/more than 1000 bytes \(--line-max.*SOURCE_LINE_TOO_LONG/);
  });
});
