// The one file that the program is bundled into: it does what the modules do, and is left alone once they are newer.
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "@jest/globals";

const DIST = path.join(import.meta.dirname, "../..");
/** Below our own folder, so that the modules find their dependencies. */
const copy = mkdtempSync(path.join(DIST, "bundle-test-"));

beforeAll(() => {
  for (const name of ["viewserver", "protocol", ".tsbuildinfo"])
    cpSync(path.join(DIST, name), path.join(copy, name), { recursive: true });
  const script = path.join(DIST, "../scripts/bundle-server.mjs");
  const { status, stderr } = spawnSync(process.execPath, [script, copy], { encoding: "utf8" });
  if (status !== 0) throw new Error(stderr);
  // Whoever loads the modules finds out.
  writeFileSync(path.join(copy, "viewserver/program.js"), "export const run = () => 77;");
});
afterAll(() => {
  rmSync(copy, { recursive: true });
});

function run(
  lines: readonly string[],
  dist = copy,
): { readonly stdout: string; readonly status: number | null } {
  return spawnSync(process.execPath, [path.join(dist, "viewserver/main.js")], {
    input: lines.map((line) => `${line}\n`).join(""),
    encoding: "utf8",
    env: {},
  });
}

test("it answers as the modules do, without them", () => {
  const lines = [
    '["reset"]',
    '["add_lib",{"m":"exports.n = 7"}]',
    `["add_fun","function (doc) { for (;;) { break } emit(require('views/lib/m').n, doc.k); log('é') }"]`,
    '["map_doc",{"k":"ü"}]',
    '["add_fun","function (doc) {"]',
    '["reduce",["function (k, v) { return sum(v) }"],[[["a","b"],1],[["a","b"],2]]]',
  ];
  const { stdout, status } = run(lines);

  expect(stdout.split("\n")).toHaveLength(8);
  expect(stdout).toContain('["log","é"]\n[[[7,"ü"]]]\n');
  expect(stdout).toBe(run(lines, DIST).stdout);
  expect(status).toBe(0);
});

test("it contains the licences of what it contains", () => {
  const text = readFileSync(path.join(copy, "bundle/viewserver/program.js"), "utf8");

  expect(text).toContain("acorn\n\nMIT License");
  expect(text).toContain("lru-cache\n\n");
});

test("modules that were compiled since are run instead", () => {
  const notes = path.join(copy, ".tsbuildinfo/protocol.tsbuildinfo");
  const before = run([]);
  utimesSync(notes, new Date(), new Date(Date.now() + 60_000));

  expect(before.status).toBe(0);
  expect(run([]).status).toBe(77);
});

test("a package without the compiler's notes runs the bundle", () => {
  rmSync(path.join(copy, ".tsbuildinfo"), { recursive: true });

  expect(run(['["reset"]']).stdout).toBe("true\n");
});
