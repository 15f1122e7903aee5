// From names to sources.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, test } from "@jest/globals";
import {
  ChangesFileSource,
  CouchSource,
  NdjsonSource,
  StdinSource,
  openSource,
} from "../../../indexer/sources/index.js";
import { rejection, temporaryFolder, withCode } from "./collect.js";

describe("the name of a source", () => {
  test("decides its kind", async () => {
    const cwd = temporaryFolder();
    writeFileSync(join(cwd, "a.ndjson"), '{"_id":"a"}\n');
    const file = await openSource("a.ndjson", { cwd });
    expect(file).toBeInstanceOf(NdjsonSource);
    expect(file.snapshot).toBe(true);
    expect((await file.identity()).label).toBe(join(cwd, "a.ndjson"));
    expect((await openSource("a.ndjson", { cwd, append: true })).snapshot).toBe(false);
    expect(await openSource("changes:a.ndjson", { cwd })).toBeInstanceOf(ChangesFileSource);
    expect(await openSource("http://localhost:5984/db")).toBeInstanceOf(CouchSource);
    const stdin = await openSource("-", { input: Readable.from([]), spoolDir: cwd });
    expect(stdin).toBeInstanceOf(StdinSource);
    await stdin.close();
  });

  test.each([
    ["", {}],
    ["changes:", {}],
    ["pouchdb:", {}],
    ["-", { append: true }],
    ["changes:a", { append: true }],
    ["http://localhost/db", { idField: "x" }],
    ["changes:a", { idField: "x" }],
    ["http://localhost/", {}],
  ])("%j with %j makes no sense", async (spec, options) => {
    expect(await rejection(openSource(spec, options))).toEqual(withCode("SOURCE_USAGE"));
  });

  test("pouchdb: says how to install the package when it is not there", async () => {
    const error = await rejection(openSource("pouchdb:some/path"));
    expect(error).toEqual(withCode("SOURCE_USAGE"));
    expect((error as Error).message).toContain("npm install pouchdb");
  });
});
