// A CouchDB over HTTP, from the program: built, brought up to date, followed; with what real servers do in between.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";

import { buildDone, startViewmill, viewmill, type CliRun } from "../../helpers/cli.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";
import { CouchFixture } from "../sources/couch-fixture.js";

removeTempDirs();

const DESIGN = {
  _id: "_design/d",
  views: { by_kind: { map: "function (doc) { emit(doc.kind, doc.n); }", reduce: "_sum" } },
};

let couch: CouchFixture;
let root: string;
let dir: string;
let design: string;

beforeEach(async () => {
  couch = new CouchFixture();
  await couch.start();
  root = tempDir();
  dir = join(root, "index");
  design = join(root, "design.json");
  writeFileSync(design, JSON.stringify(DESIGN));
});

afterEach(async () => {
  await couch.stop();
});

function put(i: number, revision = 1, n = i): void {
  couch.put({ _id: `doc-${i}`, _rev: `${revision}-r`, kind: i % 3, n });
}

async function sums(): Promise<Record<string, number>> {
  const { stdout } = await viewmill(["query", dir, "d/by_kind", "--group", "--json"]);
  const { rows } = JSON.parse(stdout) as { rows: { key: number; value: number }[] };
  return Object.fromEntries(rows.map(({ key, value }) => [key, value]));
}

async function build(...more: string[]): Promise<ReturnType<typeof buildDone>> {
  const result = await viewmill([
    "build",
    dir,
    "--source",
    couch.url("reader:secret@"),
    "--ddoc",
    design,
    "--json",
    ...more,
  ]);
  expect({ exit: result.exit, stderr: result.stderr }).toEqual({
    exit: 0,
    stderr: expect.any(String),
  });
  return buildDone(result);
}

describe("a database", () => {
  test("is read with a password, brought up to date, and only what changed is mapped", async () => {
    couch.auth = { user: "reader", password: "secret" };
    for (let i = 0; i < 30; i++) put(i);
    expect(await build()).toMatchObject({ mapped: 30 });
    expect(await sums()).toEqual({ 0: 135, 1: 145, 2: 155 });
    put(3, 2, 1000);
    couch.put({ _id: "doc-4", _rev: "2-r", _deleted: true });
    put(30);
    expect(await build()).toMatchObject({ mapped: 2, deleted: 1 });
    expect(await sums()).toEqual({ 0: 135 - 3 + 1000 + 30, 1: 141, 2: 155 });
    expect(await build()).toMatchObject({ mapped: 0 });
  });

  test("whose feed rewinds, breaks off and fails for a while gives the same", async () => {
    for (let i = 0; i < 50; i++) put(i);
    couch.trouble = { breakFeed: { times: 2, rows: 7 }, fail: { times: 1, status: 503 } };
    expect((await build()).rows).toBeGreaterThanOrEqual(50);
    couch.trouble = { rewind: 20 };
    put(1, 2, 500);
    expect(await build()).toMatchObject({ mapped: 1 });
    let expected = 0;
    for (let i = 0; i < 50; i += 3) expected += i;
    expect((await sums())[0]).toBe(expected);
    expect((await sums())[1]).toBe(
      Array.from({ length: 50 }, (_, i) => i)
        .filter((i) => i % 3 === 1)
        .reduce((a, b) => a + b) -
        1 +
        500,
    );
  });

  test("that was deleted and made again under the same URL is noticed", async () => {
    for (let i = 0; i < 5; i++) put(i);
    await build();
    couch.instanceStart = "1800000000";
    const result = await viewmill(["build", dir, "--source", couch.url()]);
    expect(result).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/--rebuild.*INDEXER_SOURCE_CHANGED/),
    });
    expect(await build("--rebuild")).toMatchObject({ mapped: 5 });
  });

  test("brings its own design documents, in their latest state", async () => {
    for (let i = 0; i < 6; i++) put(i);
    couch.put({ ...DESIGN, _rev: "1-r" });
    const args = ["build", dir, "--source", couch.url(), "--json"];
    expect(buildDone(await viewmill(args))).toMatchObject({ mapped: 6 });
    expect(await sums()).toEqual({ 0: 3, 1: 5, 2: 7 });
    couch.put({
      _id: "_design/d",
      _rev: "2-r",
      views: { by_kind: { map: "function (doc) { emit(doc.kind, 1); }", reduce: "_sum" } },
    });
    expect(buildDone(await viewmill(args))).toMatchObject({ mapped: 6 });
    expect(await sums()).toEqual({ 0: 2, 1: 2, 2: 2 });
  });
});

describe("following a database", () => {
  /** How many documents the program has said it took. */
  function documents(run: CliRun): number {
    return (run.lines().at(-1)?.["progress"] as { documents: number } | undefined)?.documents ?? 0;
  }

  test("picks up each change, across lost connections, until it is stopped", async () => {
    for (let i = 0; i < 10; i++) put(i);
    const run = startViewmill([
      "follow",
      dir,
      "--source",
      couch.url(),
      "--ddoc",
      design,
      "--json",
      "--progress-interval",
      "0",
    ]);
    expect(await run.until((r) => documents(r) >= 10)).toBe(true);
    let lines = run.lines().length;
    const another = async (change: () => void): Promise<void> => {
      change();
      expect(await run.until((r) => r.lines().length > lines)).toBe(true);
      lines = run.lines().length;
    };
    await another(() => {
      put(10);
    });
    const { port } = couch;
    await couch.stop();
    put(0, 2, 300);
    await another(() => void couch.start(port));
    await another(() => {
      couch.put({ _id: "doc-9", _rev: "2-r", _deleted: true });
    });
    run.signal("SIGINT");
    expect(await run.ended).toMatchObject({ exit: 0 });
    expect(await sums()).toEqual({ 0: 3 + 6 + 300, 1: 1 + 4 + 7 + 10, 2: 2 + 5 + 8 });
    expect(await build()).toMatchObject({ mapped: 0 });
  });
});
