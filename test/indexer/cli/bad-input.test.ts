// Bad input through the program: each with an error that says what and where, exit code 1 or 2, and the directory as it was.

import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { jsonLines, viewmill, type CliResult } from "../../helpers/cli.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";
import { CouchFixture } from "../sources/couch-fixture.js";

removeTempDirs();

const DESIGN = {
  _id: "_design/d",
  views: { v: { map: "function (doc) { emit(doc.k, 1); }", reduce: "_sum" } },
};

const root = tempDir();
const design = file("design.json", JSON.stringify(DESIGN));
const source = file("docs.ndjson", lines(0, 100));
const made = join(root, "made");

function file(name: string, text: string): string {
  const path = join(root, name);
  writeFileSync(path, text);
  return path;
}

function lines(from: number, to: number): string {
  let text = "";
  for (let i = from; i < to; i++) text += `{"_id":"doc-${i}","k":${i}}\n`;
  return text;
}

/** Everything in a directory; undefined when there is none. */
function content(dir: string): Record<string, string> | undefined {
  if (!existsSync(dir)) return undefined;
  const all: Record<string, string> = {};
  for (const name of readdirSync(dir, { recursive: true, encoding: "utf8" }).sort())
    all[name] = createHash("sha256")
      .update(readIfFile(join(dir, name)))
      .digest("hex");
  return all;
}

/** The answer of a reduce over everything. */
function reduced(value: number): string {
  return `{"rows":[\r\n{"key":null,"value":${value}}\r\n]}\n`;
}

function readIfFile(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    return Buffer.from("directory");
  }
}

beforeAll(async () => {
  expect(await viewmill(["build", made, "--source", source, "--ddoc", design])).toMatchObject({
    exit: 0,
  });
});

/** Runs a command for a directory that is not there, and for one with an index, which must both be left as they were. */
async function refused(
  args: (dir: string) => readonly string[],
  exit: 1 | 2,
  says: RegExp,
): Promise<CliResult> {
  const absent = join(root, "absent", "deeper");
  const before = content(made);
  const results = await Promise.all([absent, made].map((dir) => viewmill(args(dir))));
  for (const result of results) {
    expect({ exit: result.exit, stderr: result.stderr }).toEqual({
      exit,
      stderr: expect.stringMatching(says),
    });
    expect(result.stderr).not.toContain("    at ");
  }
  expect(existsSync(join(root, "absent"))).toBe(false);
  expect(content(made)).toEqual(before);
  return results[0] as CliResult;
}

describe("a source that cannot be read", () => {
  test("a missing file", async () => {
    await refused(
      (dir) => ["build", dir, "--source", join(root, "nothing.ndjson"), "--ddoc", design],
      1,
      /nothing\.ndjson.*SOURCE_NOT_FOUND/,
    );
    await refused(
      (dir) => [
        "build",
        dir,
        "--source",
        `changes:${join(root, "nothing.ndjson")}`,
        "--ddoc",
        design,
        "--rebuild",
      ],
      1,
      /nothing\.ndjson.*SOURCE_NOT_FOUND/,
    );
  });

  test.each(["threads", "processes"])(
    "a line that is not an object, a document that is not JSON: file, line, 80 characters (in %s)",
    async (mapIn) => {
      const more = ["--ddoc", design, "--map-in", mapIn, "--threads", "1"];
      const long = `{"_id":"x","k":oops,"text":"${"y".repeat(200)}"}`;
      const notJson = file("not-json.ndjson", `${lines(0, 50)}${long}\n${lines(50, 100)}`);
      const { stderr } = await refused(
        (dir) => ["build", dir, "--source", notJson, ...more],
        1,
        /not-json\.ndjson, line 51: .*SOURCE_MALFORMED/,
      );
      expect(stderr).toContain(`: ${long.slice(0, 80)} [`);
      const cut = file("cut.ndjson", `${lines(0, 70)}{"_id":"x","k":\n`);
      await refused(
        (dir) => ["build", dir, "--source", cut, ...more],
        1,
        /cut\.ndjson, line 71: .*\{"_id":"x","k": \[SOURCE_MALFORMED/,
      );
      const list = file("list.ndjson", `[1,2]\n`);
      await refused(
        (dir) => ["build", dir, "--source", list, ...more],
        1,
        /list\.ndjson, line 1: .*: \[1,2\] \[SOURCE_MALFORMED/,
      );
      const noId = file("no-id.ndjson", `${lines(0, 3)}{"id":"x"}\n`);
      await refused(
        (dir) => ["build", dir, "--source", noId, ...more],
        1,
        /no-id\.ndjson, line 4: .*_id.*--id-field.*SOURCE_MALFORMED/,
      );
    },
  );

  test.each(["threads", "processes"])(
    "a bad line among changed ones of a file that was indexed before (in %s)",
    async (mapIn) => {
      const dir = join(root, `later-${mapIn}`);
      const path = file(`later-${mapIn}.ndjson`, lines(0, 40));
      const args = [
        "build",
        dir,
        "--source",
        path,
        "--ddoc",
        design,
        "--map-in",
        mapIn,
        "--threads",
        "1",
        "--min-docs",
        "5",
      ];
      expect(await viewmill(args)).toMatchObject({ exit: 0 });
      const before = await viewmill(["query", dir, "d/v", "--reduce=false", "--json"]);
      writeFileSync(path, `${lines(20, 30)}{"_id":"new","k":1 2}\n${lines(30, 40)}`);
      const result = await viewmill(args);
      expect(result).toMatchObject({ exit: 1 });
      expect(result.stderr).toMatch(
        /later-.*ndjson, line 11: .*: \{"_id":"new","k":1 2\} \[SOURCE_MALFORMED\]/,
      );
      // Nothing of the file as it is now may show before it can be read whole.
      expect((await viewmill(["query", dir, "d/v", "--reduce=false", "--json"])).stdout).toBe(
        before.stdout,
      );
      writeFileSync(path, lines(20, 45));
      expect(await viewmill([...args, "--quiet"])).toMatchObject({ exit: 0, stderr: "" });
      expect((await viewmill(["query", dir, "d/v", "--json"])).stdout).toBe(reduced(25));
    },
  );

  test("a line longer than the limit", async () => {
    const long = file("long.ndjson", `${lines(0, 5)}{"_id":"long","text":"${"z".repeat(5000)}"}\n`);
    await refused(
      (dir) => ["build", dir, "--source", long, "--ddoc", design, "--line-max", "1000"],
      1,
      /long\.ndjson, line 6: .*1000 bytes.*: \{"_id":"long","text":"z+ \[SOURCE_LINE_TOO_LONG/,
    );
    const dir = join(root, "long-is-fine");
    expect(
      await viewmill(["build", dir, "--source", long, "--ddoc", design, "--line-max", "6000"]),
    ).toMatchObject({ exit: 0 });
  });

  test("bad rows of a changes feed", async () => {
    const feed = file(
      "feed.ndjson",
      `{"seq":1,"id":"a","changes":[{"rev":"1-a"}],"doc":{"_id":"a"}}\n{"seq":2,"changes":[],"doc":{}}\n`,
    );
    const absent = join(root, "absent", "deeper");
    const result = await viewmill([
      "build",
      absent,
      "--source",
      `changes:${feed}`,
      "--ddoc",
      design,
    ]);
    expect(result).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/feed\.ndjson, line 2: .*SOURCE_MALFORMED/),
    });
    expect(existsSync(join(root, "absent"))).toBe(false);
  });

  test("an unreachable CouchDB", async () => {
    const gone = new CouchFixture();
    await gone.start();
    const url = gone.url();
    await gone.stop();
    await refused(
      (dir) => ["build", dir, "--source", url, "--ddoc", design, "--rebuild"],
      1,
      /127\.0\.0\.1.*ECONNREFUSED.*SOURCE_UNREACHABLE/,
    );
  });

  test("a wrong password, which is not printed", async () => {
    const couch = new CouchFixture();
    await couch.start();
    couch.auth = { user: "admin", password: "right" };
    try {
      const { stdout, stderr } = await refused(
        (dir) => [
          "build",
          dir,
          "--source",
          couch.url("admin:wrong@"),
          "--ddoc",
          design,
          "--rebuild",
        ],
        1,
        /incorrect.*SOURCE_UNAUTHORIZED|SOURCE_UNAUTHORIZED/,
      );
      expect(stdout + stderr).not.toContain("wrong@");
      expect(stderr).not.toContain("wrong");
      couch.exists = false;
      await refused(
        (dir) => [
          "build",
          dir,
          "--source",
          couch.url("admin:right@"),
          "--ddoc",
          design,
          "--rebuild",
        ],
        1,
        /SOURCE_NOT_FOUND/,
      );
    } finally {
      await couch.stop();
    }
  });

  test("another source than the one the directory was built from", async () => {
    const before = content(made);
    const feed = file(
      "other.ndjson",
      `{"seq":1,"id":"a","changes":[{"rev":"1-a"}],"doc":{"_id":"a","k":1}}\n`,
    );
    const result = await viewmill(["build", made, "--source", `changes:${feed}`, "--ddoc", design]);
    expect(result.exit).toBe(1);
    expect(result.stderr).toMatch(/docs\.ndjson.*other\.ndjson.*--rebuild.*INDEXER_SOURCE_CHANGED/);
    expect(content(made)).toEqual(before);
    const copy = join(root, "moved");
    expect(await viewmill(["build", copy, "--source", source, "--ddoc", design])).toMatchObject({
      exit: 0,
    });
    expect(
      await viewmill(["build", copy, "--source", `changes:${feed}`, "--rebuild"]),
    ).toMatchObject({ exit: 0 });
    expect((await viewmill(["query", copy, "d/v", "--json"])).stdout).toBe(reduced(1));
  });
});

describe("a design document that cannot be used", () => {
  test("one that does not compile: view, message, line and column", async () => {
    const broken = {
      _id: "_design/b",
      views: { good: DESIGN.views.v, wrong: { map: "function (doc) {\n  emit(doc.k,, 1);\n}" } },
    };
    const path = file("broken.json", JSON.stringify(broken));
    const { stderr } = await refused(
      (dir) => ["build", dir, "--source", source, "--ddoc", path],
      1,
      /_design\/b.*'wrong'.*SyntaxError.*line 2, column 14/,
    );
    expect(stderr).toContain("emit(doc.k,, 1);");
    const reduce = {
      _id: "_design/b",
      views: { wrong: { map: DESIGN.views.v.map, reduce: "function (keys values) { return 1; }" } },
    };
    const other = file("broken-reduce.json", JSON.stringify(reduce));
    await refused(
      (dir) => ["build", dir, "--source", source, "--ddoc", other],
      1,
      /reduce function.*'wrong'.*SyntaxError.*line 1, column 1\d/,
    );
  });

  test("one that a view server refuses: view and message", async () => {
    const broken = file(
      "broken2.json",
      JSON.stringify({ _id: "_design/b", views: { wrong: { map: "function (doc) {" } } }),
    );
    const server = `${process.execPath} ${new URL("../../../viewserver/main.js", import.meta.url).pathname}`;
    const result = await viewmill([
      "build",
      join(root, "refused"),
      "--source",
      source,
      "--ddoc",
      broken,
      "--server",
      server,
    ]);
    expect(result.exit).toBe(1);
    expect(result.stderr).toMatch(/'wrong'.*compilation_error|Compilation.*'wrong'/);
  });

  test.each([
    ["missing", () => join(root, "nowhere.json"), 2, /nowhere\.json.*no such file/],
    ["not JSON", () => file("ddoc1.json", '{"_id":"_design/x",'), 2, /ddoc1\.json.*not JSON/],
    [
      "without views",
      () => file("ddoc2.json", '{"_id":"_design/x","views":{}}'),
      2,
      /ddoc2\.json.*no views/,
    ],
    [
      "with a view that has no map",
      () => file("ddoc3.json", '{"_id":"_design/x","views":{"v":{"reduce":"_sum"}}}'),
      1,
      /_design\/x|map/,
    ],
    [
      "with a wrong id",
      () => file("ddoc4.json", '{"_id":7,"views":{"v":{"map":"function(doc){}"}}}'),
      2,
      /_id|_design/,
    ],
    [
      "with an unknown builtin reduce",
      () =>
        file(
          "ddoc5.json",
          '{"_id":"_design/x","views":{"v":{"map":"function(doc){}","reduce":"_median"}}}',
        ),
      1,
      /_median/,
    ],
  ] as const)("one that is %s", async (_what, path, exit, says) => {
    const ddoc = path();
    await refused((dir) => ["build", dir, "--source", source, "--ddoc", ddoc], exit, says);
  });

  test("none at all", async () => {
    const dir = join(root, "none");
    const result = await viewmill(["build", dir, "--source", source]);
    expect(result).toMatchObject({ exit: 2 });
    expect(result.stderr).toContain("--ddoc");
  });

  test("one of the source that does not compile does not keep the others from being built", async () => {
    const dir = join(root, "mixed");
    const mixed = file(
      "mixed.ndjson",
      `${lines(0, 3)}${JSON.stringify(DESIGN)}\n{"_id":"_design/b","views":{"w":{"map":"function ("}}}\n`,
    );
    const result = await viewmill(["build", dir, "--source", mixed]);
    expect(result.exit).toBe(0);
    expect(result.stderr).toMatch(/_design\/b.*'w'/);
    expect((await viewmill(["query", dir, "d/v", "--json"])).stdout).toBe(reduced(3));
    const asked = await viewmill(["query", dir, "b/w"]);
    expect(asked.exit).toBe(1);
    expect(asked.stderr).toMatch(/INDEXER_NO_INDEX/);
  });
});

describe("a view server that cannot be started", () => {
  test("is named, and nothing is left of a first build", async () => {
    const result = await viewmill([
      "build",
      join(root, "absent", "x"),
      "--source",
      source,
      "--ddoc",
      design,
      "--server",
      "/no/such/program",
    ]);
    expect(result).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/\/no\/such\/program.*INDEXER_SERVER_NOT_FOUND/),
    });
    expect(existsSync(join(root, "absent"))).toBe(false);
  });
});

describe("bad usage", () => {
  test.each([
    [["query", made, "d/other"], 1, /other/],
    [["query", made, "other/v"], 1, /_design\/other/],
    [["query", made, "nonsense"], 2, /DDOC\/VIEW/],
    [["query", made, "d/v", "--key", "{bad"], 2, /--key.*\{bad/],
    [["query", made, "d/v", "--keys", "3"], 2, /keys/],
    [["query", made, "d/v", "--startkey", "[1"], 2, /--startkey/],
    [["query", made, "d/v", "--limit", "-1"], 2, /limit/],
    [["query", made, "d/v", "--limit", "some"], 2, /--limit.*some/],
    [["query", made, "d/v", "--descending=maybe"], 2, /descending.*maybe/],
    [["query", made, "d/v", "--reduce=false", "--group"], 2, /group/],
    [["query", made, "d/v", "--include-docs"], 2, /include_docs/],
    [["query", join(root, "no-index"), "d/v"], 1, /holds no index.*INDEXER_NO_INDEX/],
    [["info", join(root, "no-index")], 1, /INDEXER_NO_INDEX/],
    [["errors", join(root, "no-index")], 1, /INDEXER_NO_INDEX/],
    [["build"], 2, /dir/],
    [["build", made, "--frobnicate"], 2, /--frobnicate/],
    [["build", made, "--timeout", "soon"], 2, /--timeout/],
    [["build", made, "--heap", "1"], 2, /heap/i],
    [["build", made, "--map-in", "space"], 2, /map-in/],
    [["build", made, "--sync", "never"], 2, /sync/],
    [["mill", made], 2, /mill/],
    [["build", made, "--source", ""], 2, /source/],
    [["build", made, "--source", `changes:${source}`, "--append"], 2, /--append/],
    [["build", made, "--server", ""], 1, /--server/],
  ] as [string[], number, RegExp][])("%j", async (args, exit, says) => {
    const before = content(made);
    const result = await viewmill(args);
    expect({ exit: result.exit, stderr: result.stderr }).toEqual({
      exit,
      stderr: expect.stringMatching(says),
    });
    expect(result.stderr).not.toContain("    at ");
    expect(result.stdout).toBe("");
    expect(content(made)).toEqual(before);
    expect(existsSync(join(root, "no-index"))).toBe(false);
  });

  test("with --json the error is a line on stdout too", async () => {
    const result = await viewmill(["build", made, "--source", join(root, "nothing"), "--json"]);
    expect(result.exit).toBe(1);
    expect(jsonLines(result.stdout)).toEqual([
      { error: "SOURCE_NOT_FOUND", reason: expect.stringContaining("nothing") },
    ]);
  });

  test("a directory that another writer uses, which is named; readers are let in", async () => {
    const dir = join(root, "busy");
    mkdirSync(dir);
    const writer = await ViewIndex.open({ dir, source, designDocuments: [DESIGN] });
    await writer.update();
    const result = await viewmill(["build", dir]);
    expect(result.exit).toBe(1);
    expect(result.stderr).toMatch(new RegExp(`busy is in use.*pid ${process.pid}.*INDEXER_LOCKED`));
    expect(await viewmill(["query", dir, "d/v", "--json"])).toMatchObject({ exit: 0 });
    await writer.close();
    expect(await viewmill(["build", dir, "--quiet"])).toMatchObject({
      exit: 0,
      stderr: "",
      stdout: "",
    });
  });
});

afterAll(() => {
  expect(existsSync(join(root, "absent"))).toBe(false);
});
