// Which file is started: the bundle, unless there is none or something was compiled since.

import { copyFileSync, mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { beforeEach, describe, expect, test } from "@jest/globals";

import { isSurelyGuarded } from "../../indexer/cli/supervisor.js";
import type * as StartFile from "../../indexer/start-file.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

describe("startFile", () => {
  let dist = "";
  let bundle = "";

  beforeEach(() => {
    dist = tempDir();
    bundle = join(dist, "bundle/mapping/worker.js");
    write("indexer/start-file.js");
    copyFileSync(
      fileURLToPath(new URL("../../indexer/start-file.js", import.meta.url)),
      join(dist, "indexer/start-file.js"),
    );
    writeFileSync(join(dist, "package.json"), '{ "type": "module" }');
  });

  function write(path: string, minute = 0): void {
    const file = join(dist, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "");
    utimesSync(file, minute * 60, minute * 60);
  }

  async function started(): Promise<string> {
    const module = pathToFileURL(join(dist, "indexer/start-file.js")).href;
    const { startFile } = (await import(module)) as typeof StartFile;
    return fileURLToPath(startFile("worker"));
  }

  test("is the bundle when that was made after everything was compiled", async () => {
    write(".tsbuildinfo/btree.tsbuildinfo", 1);
    write(".tsbuildinfo/indexer.tsbuildinfo", 2);
    write("bundle/mapping/worker.js", 2);

    expect(await started()).toBe(bundle);
  });

  test("is the module when a room was compiled since", async () => {
    write(".tsbuildinfo/btree.tsbuildinfo", 3);
    write(".tsbuildinfo/indexer.tsbuildinfo", 1);
    write("bundle/mapping/worker.js", 2);

    expect(await started()).toBe(join(dist, "indexer/mapping/worker.js"));
  });

  test("is the module when there is no bundle", async () => {
    rmSync(join(dist, "bundle"), { recursive: true, force: true });

    expect(await started()).toBe(join(dist, "indexer/mapping/worker.js"));
  });

  test("is the bundle in a package, which has no notes of the compiler", async () => {
    write("bundle/mapping/worker.js");

    expect(await started()).toBe(bundle);
  });
});

describe("a command line", () => {
  test.each([
    ["build dir --source a.ndjson --ddoc d.json"],
    ["follow dir"],
    ["serve dir --port 0"],
    ["build --help"],
  ])("%s runs under a supervisor, whatever its options are", (line) => {
    expect(isSurelyGuarded(line.split(" "))).toBe(true);
  });

  test.each([
    ["query dir d/v"],
    ["build dir --server x"],
    ["build dir --server=x"],
    ["build dir --map-in processes"],
    ["build dir --map-in=threads"],
    ["build dir --source -"],
    ["build dir -s-"],
    ["build dir --source=-"],
    ["--help"],
    [""],
  ])("%s has to be parsed first", (line) => {
    expect(isSurelyGuarded(line.split(" "))).toBe(false);
  });
});
