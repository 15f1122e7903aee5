// What documents show is what happens: the README's library example and its first command, and the commands of examples/README.md.

import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, describe, expect, test } from "@jest/globals";

import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";
import { codeBlocks, readDocument, ROOT } from "./documents.js";

removeTempDirs();

const readme = readDocument("README.md");
const program = join(ROOT, "dist/indexer/cli/main.js");

function run(
  args: readonly string[],
  cwd: string,
): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd, encoding: "utf8" });
  return { status, stdout, stderr };
}

/** `viewmill` commands of a shell block: words, quoted or not. */
function commandsOf(block: string): string[][] {
  return block
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.startsWith("viewmill "))
    .map((line) =>
      [...line.replace(/ #.*$/, "").matchAll(/'([^']*)'|(\S+)/g)]
        .slice(1)
        .map(([, quoted, plain]) => quoted ?? plain ?? ""),
    );
}

describe("the README's library example", () => {
  // Inside the package, so that its name is found.
  const folder = join(ROOT, "dist", `readme-${process.pid}`);
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  test("prints what the README says", () => {
    const [, rest = ""] = readme.split("<!-- test: library -->");
    const [code = ""] = codeBlocks(rest, "js");
    const [output = ""] = codeBlocks(rest, "");
    mkdirSync(folder);
    writeFileSync(join(folder, "example.mjs"), code);

    const { stdout, stderr, status } = run([join(folder, "example.mjs")], tempDir());

    expect({ stdout, stderr, status }).toEqual({ stdout: output, stderr: "", status: 0 });
    expect(code).toContain('from "viewmill"');
  });
});

describe("the bookshop", () => {
  test("answers as the README shows, to the commands of examples/README.md", () => {
    const cwd = tempDir();
    symlinkSync(join(ROOT, "examples"), join(cwd, "examples"));
    const commands = codeBlocks(readDocument("examples/README.md"), "sh").flatMap(commandsOf);
    const [shown = ""] = codeBlocks(readme, "").filter((block) =>
      block.startsWith("$ viewmill query"),
    );
    const [line = "", ...table] = shown.split("\n");
    expect(commands.length).toBeGreaterThan(2);

    for (const args of commands) {
      const { status, stdout, stderr } = run([program, ...args], cwd);
      expect({ args, status, stderr }).toMatchObject({ status: 0 });
      if (args[0] === "query") expect(stdout.split("\n").length).toBeGreaterThan(3);
    }
    const [asked = []] = commandsOf(
      line.replace("$ ", "").replace(".viewmill/bookshop", "shop.index"),
    );
    const { stdout, stderr } = run([program, ...asked], cwd);
    expect(`${stdout}${stderr}`).toBe(table.join("\n"));
  });
});
