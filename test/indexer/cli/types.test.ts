// The declarations that `viewmill types` writes are what views compile against.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "@jest/globals";
import { execa } from "execa";

import { VIEW_TYPES } from "../../../indexer/cli/types-command.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const program = fileURLToPath(new URL("../../../indexer/cli/main.js", import.meta.url));
const tsc = fileURLToPath(new URL("../../../../node_modules/typescript/bin/tsc", import.meta.url));

const GOOD = `
interface Order extends Doc { total: number; day: string; tags?: string[] }
export default function (doc: Order): void {
  emit(doc.day, doc.total);
  emit([doc.day, doc.total, null, true], { total: doc.total, tags: doc.tags });
  emit(null);
  emit(new Date(0), undefined);
  (emit as Emit<[year: number, month: number], number>)([2024, 5], doc.total);
  log("text"); log({ any: 1 });
  const { words } = require<{ words: (text: string) => string[] }>("views/lib/text");
  for (const word of words(doc.day)) emit(word);
  const text: string = toJSON(doc);
  if (isArray(doc.tags)) emit(text);
  const total: number = sum([1, 2]);
  emit(total);
}
const reduce: ReduceFunction<string, number> = (keys: unknown, values: readonly number[], rereduce: boolean) => rereduce ? sum(values) : values.length;
function list(head: { total_rows: number }, req: RequestObject): string {
  registerType("point", "application/x-point");
  provides("point", () => {
    start({ code: 200, headers: { "X-Rows": String(head.total_rows) } });
    for (let row = getRow(); row; row = getRow()) send(row.key);
    return { body: req.query["x"] ?? "" };
  });
  return "";
}
const map: MapFunction<Order> = (doc) => emit(doc._id);
export { reduce, list, map };
`;

const BAD: readonly [string, string][] = [
  ["emit()", "Expected 1-2 arguments"],
  ['(emit as Emit<[number], number>)(["x"], 1)', "not assignable"],
  ["sum(['a'])", "not assignable"],
  ["setTimeout(log, 1)", "Cannot find name 'setTimeout'"],
  ["isArray(1, 2)", "Expected 1 arguments"],
  ["start('text')", "no properties in common"],
];

async function compile(dir: string): Promise<{ exitCode: number | undefined; stdout: string }> {
  const compilerOptions = {
    noEmit: true,
    strict: true,
    target: "es2022",
    lib: ["es2023"],
    module: "esnext",
    moduleResolution: "bundler",
    types: [],
  };
  writeFileSync(
    join(dir, "tsconfig.json"),
    JSON.stringify({ compilerOptions, files: ["viewmill.d.ts", "view.ts"] }),
  );
  const { exitCode, stdout } = await execa(process.execPath, [tsc, "-p", "."], {
    cwd: dir,
    reject: false,
  });
  return { exitCode, stdout };
}

describe("viewmill types", () => {
  test("writes declarations that a view with everything in it compiles against", async () => {
    const dir = tempDir();
    const { exitCode } = await execa(
      process.execPath,
      [program, "types", "--out", "viewmill.d.ts"],
      { cwd: dir },
    );
    expect(exitCode).toBe(0);
    expect(readFileSync(join(dir, "viewmill.d.ts"), "utf8")).toBe(VIEW_TYPES);
    writeFileSync(join(dir, "view.ts"), GOOD);
    expect(await compile(dir)).toEqual({ exitCode: 0, stdout: "" });
  });

  test("catches what would fail", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "viewmill.d.ts"), VIEW_TYPES);
    writeFileSync(
      join(dir, "view.ts"),
      BAD.map(([code]) => `${code};\n`).join("") + "export {};\n",
    );
    const { stdout } = await compile(dir);
    for (const [i, [, message]] of BAD.entries())
      expect(stdout).toMatch(
        new RegExp(`view\\.ts\\(${i + 1},\\d+\\): error TS\\d+: .*${message}`),
      );
  });

  test("prints them without --out, and refuses a place it cannot write to", async () => {
    const dir = tempDir();
    const { stdout } = await execa(process.execPath, [program, "types"]);
    expect(`${stdout}\n`).toBe(VIEW_TYPES);
    mkdirSync(join(dir, "taken"));
    const { exitCode, stderr } = await execa(
      process.execPath,
      [program, "types", "--out", join(dir, "taken")],
      { reject: false },
    );
    expect(exitCode).toBe(2);
    expect(stderr).toContain("cannot be written");
  });
});
