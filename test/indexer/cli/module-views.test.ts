// Design documents that are one module: their functions use what stands around them, as their author expects.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { loadDesignFile } from "../../../indexer/cli/design-files.js";
import { bundleFunctions } from "../../../indexer/cli/module-functions.js";
import { ModuleScope } from "../../../indexer/cli/module-scope.js";
import { jsonLines, viewmill } from "../../helpers/cli.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DOCS = `{"_id":"a","at":{"day":"2024-01-02T3"},"total":7}\n{"_id":"c","total":1}\n`;

const FILES: Readonly<Record<string, string>> = {
  "docs.ndjson": DOCS,
  "day.mjs": `const CUT = 10;
// How long a day is.
export function dayOf(doc) {
  const at = doc.at;
  return at.day.slice(0, CUT);
}
`,
  "tax.json": '{ "vat": 0.5 }',
  "shop.ddoc.mjs": `import { readFileSync } from "node:fs";
import { twice } from "helpful";
import { dayOf } from "./day.mjs";
import tax from "./tax.json" with { type: "json" };

const unused = readFileSync(new URL("./tax.json", import.meta.url), "utf8");
const RATES = new Map();
RATES.set("all", 1 + tax.vat);
const { a: [ONE = 1], ...REST } = { a: [], two: 2 };

function helper(doc) {
  return inner(doc) + ONE;
}
const inner = (doc) => twice(doc.total) + REST.two;
console.assert(unused, RATES);

export default {
  views: {
    by_day: {
      map(doc) {
        log("seen");
        emit(dayOf(doc), doc.total * RATES.get("all"));
      },
      reduce: (keys, values) => sum(values) + ONE,
    },
    helped: { map: (doc) => emit(helper(doc)) },
    plain: { map: function (doc) { emit(doc._id); } },
  },
};
`,
  "types.ts": `import type { Nothing } from "./nowhere.js";
import { dayOf } from "./day.mjs";

enum Kind { A = 1, B }
class Money {
  constructor(readonly amount: number) {}
  get cents(): number { return this.amount * 100; }
}
interface D { _id: string; total: number; at: { day: string } }
declare function emit(key: unknown, value?: unknown): void;
declare function require(path: string): { x: number };

export default {
  views: {
    money: { map(doc: D) { emit([Kind.B, new Money(doc.total).cents]); } },
    required: { map(doc: D) { emit(require("views/lib/m").x + Kind.A); } },
    day: {
      map: (doc: D): void => {
        emit(dayOf(doc));
      },
    },
    lib: { m: "exports.x = 5" },
  },
};
`,
  "stub.mjs": `export function emit() { throw new Error("the author's own, for tests"); }
export function sum() { return "mine"; }
`,
  "named.mjs": `import { emit, sum } from "./stub.mjs";
import * as days from "./day.mjs";
import { other } from "./other.mjs";
export function again(doc) { if (doc.total) return again({}); emit(typeof nothing, sum()); }
const third = (doc) => emit(days.dayOf(doc));
export default { views: { again: { map: again }, third: { map: (d) => third(d) }, other: { map: other } } };
`,
  "other.mjs": `const KEPT = 9;
export const other = function (doc) { emit(KEPT); };
`,
  "self.mjs": `import { emit } from "./stub.mjs";
import { other } from "./other.mjs";
const all = { add(n) { return n + 1; }, views: { self: { map(doc) { emit(all.add(1)); } }, other: { map: other } } };
export default all;
`,
  "short.mjs": `const N=1;export default{views:{v:{map(d){emit(N)}},w:{map:d=>emit(N)}}}`,
};

function folder(more: Readonly<Record<string, string>> = {}): string {
  const dir = tempDir();
  const helpful = join(dir, "node_modules", "helpful");
  mkdirSync(helpful, { recursive: true });
  writeFileSync(join(helpful, "package.json"), '{"name":"helpful","main":"index.js"}');
  writeFileSync(join(helpful, "index.js"), "exports.twice = function (x) { return 2 * x; };\n");
  for (const [name, text] of Object.entries({ ...FILES, ...more }))
    writeFileSync(join(dir, name), text);
  return dir;
}

async function tried(dir: string, ddoc: string): Promise<Record<string, unknown>[]> {
  const args = ["try", "--ddoc", ddoc, "--source", "docs.ndjson", "--json", "-q"];
  const { stdout, stderr } = await viewmill(args, { cwd: dir });
  expect(stderr).toBe("");
  return jsonLines(stdout);
}

function keysOf(told: Record<string, unknown>[]): string[] {
  return told
    .filter(({ kind }) => kind === "row")
    .map(({ view, id, key }) => `${String(view)} ${String(id)} ${JSON.stringify(key)}`)
    .sort();
}

describe("functions of a module", () => {
  test("use its imports, packages, JSON files, constants and functions, in try", async () => {
    const told = await tried(folder(), "shop.ddoc.mjs");

    expect(keysOf(told)).toEqual([
      'by_day a "2024-01-02"',
      "helped a 17",
      "helped c 5",
      'plain a "a"',
      'plain c "c"',
    ]);
    expect(told).toContainEqual({ kind: "reduced", view: "by_day", value: 12.5 });
  });

  test("fail at the author's own line, in whichever file", async () => {
    const told = await tried(folder(), "shop.ddoc.mjs");

    expect(told.find(({ kind }) => kind === "error")).toMatchObject({
      view: "by_day",
      id: "c",
      stack: ["dayOf (day.mjs:5:3)", "map (shop.ddoc.mjs:22:9)"],
      at: { file: "day.mjs", line: 5, text: "  return at.day.slice(0, CUT);" },
    });
  });

  test("use them in an index, too", async () => {
    const dir = folder();
    const args = ["--source", "docs.ndjson", "--ddoc", "shop.ddoc.mjs", "-q"];
    expect(await viewmill(["build", "x", ...args], { cwd: dir })).toMatchObject({ exit: 0 });
    const { stdout } = await viewmill(["query", "x", "shop/helped", "--json"], { cwd: dir });

    expect(stdout).toContain('{"id":"c","key":5,"value":null}');
    expect(stdout).toContain('{"id":"a","key":17,"value":null}');
  });

  test("in TypeScript use enums, classes and imports, and require the design document's modules", async () => {
    const told = await tried(folder(), "types.ts");

    expect(keysOf(told)).toEqual([
      'day a "2024-01-02"',
      "money a [2,700]",
      "money c [2,100]",
      "required a 6",
      "required c 6",
    ]);
    expect(told.find(({ kind }) => kind === "error")).toMatchObject({
      stack: ["dayOf (day.mjs:5:3)", "map (types.ts:19:9)"],
    });
  });

  test("may have a name, call themselves, stand in another file; emit stays the view's", async () => {
    const told = await tried(folder(), "named.mjs");

    expect(keysOf(told)).toEqual([
      'again a "undefined"',
      'again c "undefined"',
      "other a 9",
      "other c 9",
      'third a "2024-01-02"',
    ]);
    expect(told.find(({ kind }) => kind === "row")).toMatchObject({ value: "mine" });
  });

  test("may use the very object that they stand in", async () => {
    expect(keysOf(await tried(folder(), "self.mjs"))).toEqual([
      ...["other a 9", "other c 9", "self a 2", "self c 2"],
    ]);
  });

  test("stand on one line", async () => {
    expect(keysOf(await tried(folder(), "short.mjs"))).toEqual([
      "v a 1",
      "v c 1",
      "w a 1",
      "w c 1",
    ]);
  });

  test("that use nothing of it are their own text, and the others do not depend on the rest of it", async () => {
    interface Views {
      readonly views: Readonly<Record<string, { readonly map: string }>>;
    }
    const dir = folder();
    const { views } = (await loadDesignFile(join(dir, "shop.ddoc.mjs"))) as Views;
    expect(views["plain"]?.map).toBe("function (doc) { emit(doc._id); }");

    // Another folder, another process' name for what is made there, and a change of what the view does not use.
    const changed = (FILES["shop.ddoc.mjs"] ?? "").replace("sum(values) + ONE", "sum(values)");
    const there = join(folder({ "shop.ddoc.mjs": changed }), "shop.ddoc.mjs");
    const again = ((await loadDesignFile(there)) as Views).views;
    expect(again["by_day"]).not.toEqual(views["by_day"]);
    expect(again["by_day"]?.map).toBe(views["by_day"]?.map);
    expect(again["helped"]).toEqual(views["helped"]);
  });
});

describe("what a view cannot take along is told with view, place and way out", () => {
  test.each([
    [
      "a parameter around it",
      "d.mjs",
      "const by = (field) => ({\n  map(doc) { emit(doc[field]); },\n});\nexport default { views: { v: by('n') } };",
      /view v: its map function \(line 2\) uses "field", a variable of a function or block around it.*views\/v\/map\.js/,
    ],
    [
      "a parameter around it, in TypeScript",
      "d.ts",
      "interface D { n: number }\nfunction by(field: 'n') {\n  return { map(doc: D) { emit(doc[field]); } };\n}\nexport default { views: { v: by('n') } };",
      /view v: its map function \(.*d\.ts:3\) uses "field"/,
    ],
    [
      "a constant of a CommonJS module",
      "d.cjs",
      "const N = 3;\nmodule.exports = { views: { v: { map: function (doc) { emit(N); } } } };",
      /view v: its map function \(.*d\.cjs:2\) uses "N".*\.mjs/,
    ],
    [
      "what was read from a file",
      "d.mjs",
      "import { readFileSync } from 'node:fs';\nconst text = readFileSync('docs.ndjson', 'utf8');\nexport default { views: { v: { reduce: () => text, map: 'function (doc) {}' } } };",
      /view v: its reduce function uses text, which cannot be taken along: Could not resolve "node:fs"/,
    ],
  ])("%s", async (_what, name, text, says) => {
    const dir = folder({ [name]: text });
    for (const command of [["try"], ["build", "x"]]) {
      const args = [...command, "--ddoc", name, "--source", "docs.ndjson"];
      expect(await viewmill(args, { cwd: dir })).toMatchObject({
        exit: 2,
        stderr: expect.stringMatching(says),
      });
    }
  });
});

test("a module that cannot be parsed is taken as it is", async () => {
  const map = (): void => undefined;
  const module = { code: "not a ) program", map: undefined, value: { views: { v: { map } } } };
  const flat = (): Promise<never> => Promise.reject(new Error("not asked for"));

  expect(await bundleFunctions("d.mjs", module, flat, undefined)).toBe(module.value);
});

test("of the statements that use a name, those are taken along that make or change it", () => {
  const code = `const A = new Map(), B = [];
A.set(1, B);
B.push(2);
console.log(A.get(1), JSON.stringify(A));
assert(A.size);
if (B.length) { B[1] = C; }
const C = 3;
const D = A.size;
function E() { A.clear(); }
other(D);
JSON.stringify(A);
for (const x of A) B.unshift(x);`;
  const lines = code.split("\n");
  const scope = new ModuleScope(code);
  const taken = scope
    .closure(["A"], new Set())
    .map(({ start }) => code.slice(0, start).split("\n").length);

  expect(taken.map((line) => lines[line - 1])).toEqual([
    "const A = new Map(), B = [];",
    "A.set(1, B);",
    "B.push(2);",
    "if (B.length) { B[1] = C; }",
    "const C = 3;",
    "for (const x of A) B.unshift(x);",
  ]);
});

describe("names around a function", () => {
  test.each([
    ["f = function () { return a + b + c; }", ["a", "b"], [], ["c"]],
    ["f = (a, { b: [c = d] }) => a + b + c", ["b", "d"], [], []],
    ["f = function a() { let b; var c; { var d; } return a(b, c, d, arguments); }", [], [], []],
    ["f = function () { x.a.b; ({ a: 1, b }); a: for (;;) break a; }", ["b"], [], ["x"]],
    ["f = () => { try { a(); } catch (b) { b(); } for (const d of c) d(); }", ["a"], [], ["c"]],
    ["f = () => class a { b() { return super.b(a, d); } static [b] = 1; }", ["b", "d"], [], []],
    [
      "g = function (z) { let y; return function () { return z + y + a; }; }",
      ["a"],
      ["y", "z"],
      [],
    ],
    ["f = () => { d(); function d() {} e(); { function e() {} } }", [], [], ["e"]],
  ])("%s", (code, ofModule, ofEnclosing, free) => {
    const scope = new ModuleScope(`import a from "a"; const b = 1, [d] = [];\nvar f, g; ${code}`);
    const text = /(function|\().*$/.exec(code)?.[0] ?? "";
    const inner = code.startsWith("g") ? /function \(\).*(?=; })/.exec(code)?.[0] : undefined;
    const [fn] = scope.find(inner ?? text);
    const names = scope.outerNames(fn as NonNullable<typeof fn>);

    expect([...names.ofModule].sort()).toEqual(ofModule);
    expect([...names.ofEnclosing].sort()).toEqual(ofEnclosing);
    expect([...names.free].sort()).toEqual(free);
  });
});
