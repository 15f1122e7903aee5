// Views are tried on samples as an index would run them, and what is wrong with them is told in their author's own lines.

import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "@jest/globals";
import { execa } from "execa";

import { loadExamples } from "../../../indexer/cli/try-examples.js";
import { SourceOrigins } from "../../../indexer/cli/try-origins.js";
import { readSamples } from "../../../indexer/cli/try-samples.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";
import { DAY_TS, DOCS, MAP_TS, shop } from "./shop.js";

removeTempDirs();

const program = fileURLToPath(new URL("../../../indexer/cli/main.js", import.meta.url));

interface Ran {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

async function run(cwd: string, args: readonly string[], input = ""): Promise<Ran> {
  const { stdout, stderr, exitCode } = await execa(process.execPath, [program, ...args], {
    cwd,
    input,
    reject: false,
  });
  return { stdout, stderr, exitCode };
}

function objects(text: string): Record<string, unknown>[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("trying views", () => {
  test("shows rows in index order, the reduced value, logs, and errors at the author's line", async () => {
    const dir = shop();
    const { stdout, stderr, exitCode } = await run(dir, [
      "try",
      "--ddoc",
      "shop",
      "--source",
      "docs.ndjson",
    ]);
    expect(stdout.split("\n")).toEqual([
      "shop/by_day  2 rows",
      "key           id  value",
      "────────────  ──  ─────",
      '"2024-01-02"  a       7',
      '"2024-01-03"  b       4',
      "reduced  11",
      "",
      'log  document "b", view by_day: seen b',
      'log  document "a", view by_day: seen a',
      'log  document "c", view by_day: seen c',
      `error  document "c", view by_day: TypeError: Cannot read properties of undefined (reading 'day')`,
      `    at dayOf (${join("shop", "views", "by_day", "day.ts")}:5:3)`,
      `    at map_default (${join("shop", "views", "by_day", "map.ts")}:7:3)`,
      "  5 |   return at.day.slice(0, 10);",
      "    |   ^",
    ]);
    expect(stderr).toBe("tried 1 view on 3 documents: 1 error");
    expect(exitCode).toBe(0);
  });

  test("takes documents from stdin, and prints JSON lines", async () => {
    const dir = shop();
    const { stdout, exitCode } = await run(
      dir,
      ["try", "--ddoc", "shop", "--json", "--group"],
      '{"_id":"x","at":{"day":"1999"},"total":1}\n\n{"at":{"day":"1999"},"total":2}',
    );
    expect(exitCode).toBe(0);
    expect(objects(stdout)).toEqual([
      { kind: "row", view: "by_day", id: "2", key: "1999", value: 2 },
      { kind: "row", view: "by_day", id: "x", key: "1999", value: 1 },
      { kind: "group", view: "by_day", key: "1999", value: 3 },
      { kind: "reduced", view: "by_day", value: 3 },
      { kind: "log", id: "x", view: "by_day", text: "seen x" },
      { kind: "log", id: "2", view: "by_day", text: "seen 2" },
    ]);
  });

  test("takes the first documents of a changes feed, or named ones", async () => {
    const dir = shop();
    const rows = [
      { seq: 1, id: "_design/x", changes: [], doc: { _id: "_design/x" } },
      { seq: 2, id: "gone", changes: [], deleted: true, doc: { _id: "gone", _deleted: true } },
      ...DOCS.map((doc, i) => ({ seq: i + 3, id: doc._id, changes: [], doc })),
    ];
    writeFileSync(join(dir, "feed.ndjson"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const source = `changes:${join(dir, "feed.ndjson")}`;
    const read = async (limit: number, ids: readonly string[]): Promise<string[]> => {
      const samples = await readSamples({ source, limit, ids, idField: undefined });
      return samples.map(({ id }) => id);
    };
    expect(await read(10, [])).toEqual(["b", "a", "c"]);
    expect(await read(2, [])).toEqual(["b", "a"]);
    expect(await read(10, ["c"])).toEqual(["c"]);
    await expect(read(10, ["nobody"])).rejects.toThrow("no document nobody");
  });

  test("takes the first documents of a file, by whatever member their ids are in", async () => {
    const file = join(tempDir(), "docs.ndjson");
    const read = (idField?: string): Promise<unknown> =>
      readSamples({ source: file, limit: 10, ids: [], idField });
    writeFileSync(file, '{"sku":"x"}\n\n{"sku":"y","_deleted":true}\n{"sku":"z"}');
    expect(await read("sku")).toEqual([
      { id: "x", json: '{"sku":"x","_id":"x"}' },
      { id: "z", json: '{"sku":"z","_id":"z"}' },
    ]);
    await expect(read()).rejects.toMatchObject({
      code: "SOURCE_MALFORMED",
      message: expect.stringMatching(/line 1: no string "_id"; .*--id-field/),
    });
  });

  test("duplicates, raw collation and custom reduces come out as an index has them", async () => {
    const dir = tempDir();
    const design = {
      _id: "_design/d",
      views: {
        twice: { map: "function (doc) { emit(1, 'b'); emit(1, 'a'); emit(1.0, 3) }" },
        raw: { map: "function (doc) { emit('a'); emit('B') }", options: { collation: "raw" } },
        root: { map: "function (doc) { emit('a'); emit('B') }" },
        custom: {
          map: "function (doc) { emit(doc.n, doc.n) }",
          reduce: "function (keys, values, rereduce) { log('reduce'); return sum(values) * 2 }",
        },
        broken: { map: "function (doc) { emit(doc.n, 'x') }", reduce: "_stats" },
      },
    };
    writeFileSync(join(dir, "d.json"), JSON.stringify(design));
    const { stdout } = await run(
      dir,
      ["try", "--ddoc", "d.json", "--json"],
      '{"_id":"1","n":1}\n{"_id":"2","n":2}\n',
    );
    const all = objects(stdout);
    const rows = (view: string): unknown[] =>
      all.filter((row) => row["kind"] === "row" && row["view"] === view);
    expect(rows("twice").map((row) => (row as { value: unknown }).value)).toEqual([
      3,
      "a",
      "b",
      3,
      "a",
      "b",
    ]);
    expect(rows("raw").map((row) => (row as { key: unknown }).key)).toEqual(["B", "B", "a", "a"]);
    expect(rows("root").map((row) => (row as { key: unknown }).key)).toEqual(["a", "a", "B", "B"]);
    expect(all).toContainEqual({ kind: "reduced", view: "custom", value: 12 });
    expect(all.filter(({ text }) => text === "reduce")).toEqual([
      { kind: "log", view: "custom", text: "reduce" },
    ]);
    expect(all).toContainEqual(
      expect.objectContaining({
        kind: "reduced",
        view: "broken",
        error: expect.stringContaining("_stats"),
      }),
    );
  });

  test("a reduce that throws is told with its line, and what it threw on", async () => {
    const dir = shop();
    writeFileSync(
      join(dir, "shop", "views", "by_day", "reduce.ts"),
      `export default function (keys: unknown, values: number[], rereduce: boolean): number {
  if (rereduce) return sum(values);
  return inner(values as unknown as { a: { b: number } });
}

function inner(values: { a: { b: number } }): number {
  return values.a.b;
}
`,
    );
    const { stdout } = await run(dir, ["try", "--ddoc", "shop", "--source", "docs.ndjson"]);
    const reduce = join("shop", "views", "by_day", "reduce.ts");
    const from = stdout.indexOf("error  reduce");
    expect(stdout.slice(from).split("\n")).toEqual([
      "error  reduce, view by_day: TypeError: Cannot read properties of undefined (reading 'b')",
      `    at inner (${reduce}:7:3)`,
      `    at reduce_default (${reduce}:3:3)`,
      "  7 |   return values.a.b;",
      "    |   ^",
    ]);
  });

  test("a function that does not return, or takes its process down, costs its document only", async () => {
    const dir = tempDir();
    const map =
      "function (doc) { if (doc.n === 1) for (;;); if (doc.n === 2) { var a = []; for (;;) a.push(new Array(1e6).fill(doc.n)); } emit(doc.n) }";
    writeFileSync(join(dir, "d.json"), JSON.stringify({ views: { v: { map } } }));
    const { stdout, exitCode } = await run(
      dir,
      ["try", "--ddoc", "d.json", "--json", "--timeout", "3000", "--heap", "64"],
      '{"_id":"loop","n":1}\n{"_id":"bomb","n":2}\n{"_id":"good","n":3}\n',
    );
    expect(exitCode).toBe(0);
    expect(objects(stdout)).toEqual([
      expect.objectContaining({ kind: "row", id: "good" }),
      expect.objectContaining({ kind: "error", id: "loop", error: "timeout" }),
      expect.objectContaining({ kind: "error", id: "bomb", error: "memory" }),
    ]);
  });

  test("of several views the one that took a document down is named, also to who asked for another", async () => {
    const dir = tempDir();
    const views = {
      fine: { map: "function (doc) { emit(doc.n) }" },
      loops: { map: "function (doc) { while (doc.n === 1); emit(doc.n) }" },
    };
    writeFileSync(join(dir, "d.json"), JSON.stringify({ views }));
    const line = 'error  document "loop", view loops: timeout: took longer than 1000 ms';
    for (const only of [[], ["--view", "fine"]]) {
      const { stdout } = await run(
        dir,
        ["try", "--ddoc", "d.json", "--timeout", "1000", ...only],
        '{"_id":"loop","n":1}\n{"_id":"good","n":3}\n',
      );
      expect(stdout.split("\n").filter((text) => text.startsWith("error"))).toEqual([line]);
    }
  });

  test("what does not compile is told at the author's line, with exit 1", async () => {
    const dir = shop();
    const map = join(dir, "shop", "views", "by_day", "map.ts");
    writeFileSync(map, MAP_TS.replace("log(", "log(("));
    const bundler = await run(dir, ["try", "--ddoc", "shop"], "{}\n");
    expect(bundler.exitCode).toBe(1);
    expect(bundler.stderr.split("\n")).toEqual([
      'error: compilation_error: Expected ")" but found ";"',
      `    at ${join("shop", "views", "by_day", "map.ts")}:6:26`,
      '  6 |   log(("seen " + doc._id);',
      "    |                          ^",
    ]);

    writeFileSync(map, MAP_TS.replace("log(", "await log("));
    const refused = await run(dir, ["try", "--ddoc", "shop", "--json"], "{}\n");
    expect(refused.exitCode).toBe(1);
    expect(objects(refused.stdout)[0]).toMatchObject({
      kind: "error",
      at: { file: join("shop", "views", "by_day", "map.ts"), line: 6 },
    });

    writeFileSync(
      map,
      MAP_TS.replace(/export default function.*/, "export default async function (doc: Order) {"),
    );
    const later = await run(dir, ["try", "--ddoc", "shop", "--json"], "{}\n");
    expect(later.exitCode).toBe(1);
    expect(objects(later.stdout)[0]).toMatchObject({
      kind: "error",
      view: "by_day",
      at: { file: join("shop", "views", "by_day", "map.ts"), line: 5 },
    });

    writeFileSync(
      join(dir, "plain.json"),
      JSON.stringify({ views: { v: { map: "function (doc) {\n  emit(;\n}" } } }),
    );
    const plain = await run(dir, ["try", "--ddoc", "plain.json"], "{}\n");
    expect(plain.exitCode).toBe(1);
    expect(plain.stderr.split("\n").slice(0, 4)).toEqual([
      "error  view v: compilation_error: SyntaxError: Unexpected token",
      "    at views.v.map:2:8",
      "  2 |   emit(;",
      "    |        ^",
    ]);
  });

  test("modules of a folder's library can be required", async () => {
    const dir = shop();
    const lib = join(dir, "shop", "views", "lib", "text");
    mkdirSync(lib, { recursive: true });
    writeFileSync(join(lib, "first.js"), "exports.letter = function (text) { return text[0]; };\n");
    writeFileSync(join(dir, "shop", "views", ".hidden"), "");
    writeFileSync(
      join(dir, "shop", "views", "by_day", "map.ts"),
      "export default (doc: Doc) => emit(require('views/lib/text/first').letter(doc._id));\n",
    );
    const { stdout } = await run(dir, ["try", "--ddoc", "shop", "--json"], '{"_id":"xyz"}\n');
    expect(objects(stdout)[0]).toEqual({
      kind: "row",
      view: "by_day",
      id: "xyz",
      key: "x",
      value: null,
    });
  });

  test("functions of modules are found in their modules, also in TypeScript", async () => {
    const dir = tempDir();
    writeFileSync(
      join(dir, "d.ddoc.mjs"),
      "// one\n\nexport default {\n  views: {\n    v: {\n      map: function (doc) {\n        emit(doc.a.b);\n      },\n    },\n  },\n};\n",
    );
    writeFileSync(
      join(dir, "t.ts"),
      "interface D { a?: { b: number } }\n\nexport const ddoc = {\n  views: {\n    v: {\n      map(doc: D): void {\n        const a = doc.a as { b: number };\n        emit(a.b as number);\n      },\n    },\n    w: { map: (doc: D) => emit((doc.a as { b: number }).b) },\n  },\n};\n",
    );
    const { stdout } = await run(dir, ["try", "--ddoc", "d.ddoc.mjs", "--json"], "{}\n");
    expect(objects(stdout)[0]).toMatchObject({ at: { file: "d.ddoc.mjs", line: 7, column: 9 } });
    const typed = await run(dir, ["try", "--ddoc", "t.ts", "--json"], "{}\n");
    expect(objects(typed.stdout).map(({ view, at }) => ({ view, at }))).toEqual([
      { view: "w", at: expect.objectContaining({ file: "t.ts", line: 11 }) },
      {
        view: "v",
        at: expect.objectContaining({
          file: "t.ts",
          line: 8,
          text: "        emit(a.b as number);",
        }),
      },
    ]);
  });

  test("bad usage is told with exit 2", async () => {
    const dir = shop();
    const usage = async (input: string, ...args: string[]): Promise<string> => {
      const { exitCode, stderr } = await run(dir, ["try", ...args], input);
      expect(exitCode).toBe(2);
      return stderr;
    };
    expect(await usage("{}\n", "--ddoc", "shop", "--view", "nothing")).toContain(
      "there is no view nothing; there are by_day",
    );
    expect(await usage("{}\nnull\n{}\n", "--ddoc", "shop")).toContain(
      "stdin, line 2: expected a JSON object: null",
    );
    expect(await usage("", "--ddoc", "shop", "--watch")).toContain(
      "--watch reads its documents again and again",
    );
    expect(await usage("{}\n")).toContain("--ddoc");
  });
});

describe("examples of a view", () => {
  async function examples(
    dir: string,
    name: string,
    content: string,
    ...more: string[]
  ): Promise<Ran> {
    writeFileSync(join(dir, name), content);
    return run(dir, ["try", "--ddoc", "shop", "--test", name, ...more]);
  }

  test("hold", async () => {
    const dir = shop();
    const good = {
      name: "days",
      docs: DOCS,
      rows: [
        { id: "a", key: "2024-01-02", value: 7 },
        { key: "2024-01-03", value: 4 },
      ],
      reduced: 11,
      groups: [
        { key: "2024-01-02", value: 7 },
        { key: "2024-01-03", value: 4 },
      ],
      fails: ["c"],
    };
    const json = await examples(dir, "t.json", JSON.stringify([good]));
    expect(json).toEqual({ stdout: "✓ by_day: days", stderr: "1 of 1 examples hold", exitCode: 0 });
    const lines = await examples(
      dir,
      "t.ndjson",
      `${JSON.stringify(good)}\n${JSON.stringify({ view: "by_day", docs: [], rows: [] })}\n`,
    );
    expect(lines.stdout).toBe("✓ by_day: days\n✓ by_day: example 2");
    const module = await examples(
      dir,
      "t.ts",
      `const examples: object[] = [${JSON.stringify(good)}];\nexport default { examples };\n`,
    );
    expect(module.stdout).toBe("✓ by_day: days");
  });

  test("that do not hold are shown with what differs, and exit 1", async () => {
    const dir = shop();
    const bad = {
      docs: DOCS,
      rows: [
        { id: "a", key: "2024-01-02", value: 8 },
        { id: "b", key: "2024-01-03", value: 4 },
        { id: "d", key: "2024-01-04", value: 4 },
      ],
      reduced: 12,
      fails: ["b"],
    };
    const { stdout, exitCode } = await examples(dir, "t.json", JSON.stringify(bad));
    expect(exitCode).toBe(1);
    expect(stdout.split("\n")).toEqual([
      "✗ by_day: example 1",
      "    rows: - expected, + got",
      '      - {"id":"a","key":"2024-01-02","value":8}',
      '      + {"id":"a","key":"2024-01-02","value":7}',
      '        {"id":"b","key":"2024-01-03","value":4}',
      '      - {"id":"d","key":"2024-01-04","value":4}',
      "    reduced: - expected, + got",
      '      - {"value":12}',
      '      + {"value":11}',
      `    document "c": TypeError: Cannot read properties of undefined (reading 'day')`,
      `        at dayOf (${join("shop", "views", "by_day", "day.ts")}:5:3)`,
      `        at map_default (${join("shop", "views", "by_day", "map.ts")}:7:3)`,
      "      5 |   return at.day.slice(0, 10);",
      "        |   ^",
      '    document "b" did not fail',
    ]);
    const json = await examples(dir, "t.json", JSON.stringify(bad), "--json");
    expect(objects(json.stdout)[0]).toMatchObject({ kind: "example", view: "by_day", ok: false });
  });

  test("must expect something, and be spelled right", async () => {
    const dir = shop();
    for (const [example, message] of [
      [{ docs: [] }, "expects nothing"],
      [{ docs: [], rws: [] }, "there is no member rws"],
      [{ docs: [1], rows: [] }, "docs must be an array of documents"],
      [{ docs: [], rows: [{}] }, "rows must be an array of objects with key and value"],
      [{ docs: [], fails: [1] }, "fails must be an array of document ids"],
    ] as const) {
      const file = join(dir, "t.json");
      writeFileSync(file, JSON.stringify(example));
      await expect(loadExamples(file, new SourceOrigins())).rejects.toThrow(message);
    }
    const example = { docs: [], rows: [], view: "x" };
    const { stderr, exitCode } = await examples(dir, "t.json", JSON.stringify(example));
    expect(exitCode).toBe(2);
    expect(stderr).toContain("there is no view x");
  });
});

/** Reads a running program's output until a text has come, once more for each call. */
class Output {
  #text = "";
  #ended = false;
  #wake: () => void = () => undefined;

  constructor(stream: Readable) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => {
      this.#text += text;
      this.#wake();
    });
    stream.on("end", () => {
      this.#ended = true;
      this.#wake();
    });
  }

  async until(text: string): Promise<string> {
    while (!this.#text.includes(text)) {
      if (this.#ended) throw new Error(`ended without ${text}: ${this.#text}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const end = this.#text.indexOf(text) + text.length;
    const before = this.#text.slice(0, end);
    this.#text = this.#text.slice(end);
    return before;
  }
}

describe("watching", () => {
  test("runs again when a file is saved, also one that is imported, until it is stopped", async () => {
    const dir = shop();
    writeFileSync(
      join(dir, "t.json"),
      JSON.stringify({
        docs: [{ _id: "a", at: { day: "2024-01-02" }, total: 1 }],
        rows: [{ key: "2024-01-02", value: 1 }],
      }),
    );
    const child: ChildProcessByStdio<null, Readable, Readable> = spawn(
      process.execPath,
      [program, "try", "--ddoc", "shop", "--test", "t.json", "--view", "by_day", "--watch"],
      { cwd: dir, stdio: ["ignore", "pipe", "pipe"] },
    );
    const out = new Output(child.stdout);
    const talk = new Output(child.stderr);
    try {
      await out.until("✓ by_day");
      await talk.until("watching");
      writeFileSync(
        join(dir, "shop", "views", "by_day", "day.ts"),
        DAY_TS.replace("0, 10", "0, 4"),
      );
      expect(await out.until('+ {"id":"a","key":"2024","value":1}')).toContain("✗ by_day");
      await talk.until("watching");
      writeFileSync(join(dir, "shop", "views", "by_day", "map.ts"), "export default (");
      await talk.until("compilation_error");
      await talk.until("watching");
      cpSync(join(dir, "docs.ndjson"), join(dir, "unrelated.ndjson"));
      const more = join(dir, "shop", "views", "more");
      mkdirSync(more);
      await talk.until("compilation_error");
      await talk.until("watching");
      writeFileSync(join(more, "map.js"), "function (doc) {}");
      await talk.until("compilation_error");
      await talk.until("watching");
      writeFileSync(
        join(dir, "shop", "views", "by_day", "map.ts"),
        MAP_TS.replace("dayOf(doc)", "'2024-01-02'"),
      );
      await out.until("✓ by_day");
      await talk.until("watching");
      child.kill("SIGINT");
      const [code] = (await once(child, "exit")) as [number | null];
      expect(code).toBe(0);
    } finally {
      child.kill("SIGTERM");
    }
  });
});
