// Documents whose map function throws, loops, or eats memory, with threads and with processes: the build finishes, the documents are
// recorded, all others are indexed, and a document that was put right loses its record.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { ViewIndex } from "../../../indexer/index.js";
import { buildDone, jsonLines, viewmill } from "../../helpers/cli.js";
import { CountingServer } from "../../helpers/counting-server.js";
import { answerText } from "../../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const BOMBS: Readonly<Record<string, string>> = {
  throw: "throw new RangeError('boo');",
  "throw null": "throw null;",
  loop: "for (;;);",
  map: "var m = new Map(); for (var i = 0; ; i++) m.set(i, {a: i, b: 'x' + i});",
  split: "var s = 'ab'; while (s.length < 2e8) s += s; emit(s.split('').length, null);",
  parse: "var t = '[' + '[1,2,3,4],'.repeat(2e7) + '1]'; emit(JSON.parse(t).length, null);",
  typed:
    "var a = []; for (var j = 0; j < 64; j++) a.push(new Uint8Array(64 * 1024 * 1024).fill(1)); emit(a.length, null);",
  recursion: "(function f() { return f() + 1; })();",
};

const MAP = `function (doc) {
  switch (doc.bomb) {
${Object.entries(BOMBS)
  .map(([name, code]) => `    case ${JSON.stringify(name)}: ${code} break;`)
  .join("\n")}
  }
  emit(doc.k, null);
}`;
const DESIGN = { _id: "_design/b", views: { v: { map: MAP, reduce: "_count" } } };

const COUNT = 600;
/** Where each bomb is: some side by side, one first, one last. */
const PLACES: Readonly<Record<string, number>> = {
  throw: 0,
  loop: 100,
  map: 101,
  "throw null": 200,
  split: 250,
  parse: 350,
  typed: 450,
  recursion: COUNT - 1,
};

function documents(bombs: Readonly<Record<string, number>>): string {
  const kinds = new Map(Object.entries(bombs).map(([kind, place]) => [place, kind]));
  return Array.from({ length: COUNT }, (_, k) => {
    const bomb = kinds.get(k);
    return `${JSON.stringify({ _id: `doc-${String(k).padStart(4, "0")}`, k, ...(bomb === undefined ? {} : { bomb }) })}\n`;
  }).join("");
}

function idOf(place: number): string {
  return `doc-${String(place).padStart(4, "0")}`;
}

const LIMITS = ["--timeout", "1500", "--heap", "64", "--memory", "500", "--threads", "1"];

const root = tempDir();
const design = join(root, "design.json");
writeFileSync(design, JSON.stringify(DESIGN));

interface Told {
  readonly id: string;
  readonly designDocument: string;
  readonly view: string | null;
  readonly kind: string;
  readonly error: string;
  readonly reason: string;
}

async function errorsOf(dir: string): Promise<Told[]> {
  const { stdout } = await viewmill(["errors", dir, "--json"]);
  return jsonLines(stdout) as unknown as Told[];
}

async function keys(dir: string): Promise<number[]> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  try {
    const answer = JSON.parse(await answerText(index, "b", "v", { reduce: false })) as {
      rows: { key: number }[];
    };
    return answer.rows.map(({ key }) => key);
  } finally {
    await index.close();
  }
}

function allBut(places: readonly number[]): number[] {
  const bad = new Set(places);
  return Array.from({ length: COUNT }, (_, k) => k).filter((k) => !bad.has(k));
}

describe.each(["threads", "processes"])("bombs, mapped in %s", (mapIn) => {
  test("are recorded with document, view and error; everything else is indexed; put right, they are forgotten", async () => {
    const dir = join(root, mapIn);
    const source = join(root, `${mapIn}.ndjson`);
    writeFileSync(source, documents(PLACES));
    const args = [
      "build",
      dir,
      "--source",
      source,
      "--ddoc",
      design,
      "--json",
      "--map-in",
      mapIn,
      ...LIMITS,
    ];
    const first = await viewmill([...args, "--max-errors", "0"]);
    expect({ exit: first.exit, stderr: first.stderr }).toEqual({
      exit: 3,
      stderr: expect.any(String),
    });
    expect(buildDone(first).errors).toBe(Object.keys(PLACES).length);
    expect(await keys(dir)).toEqual(allBut(Object.values(PLACES)));
    const told = await errorsOf(dir);
    expect(told.map(({ id }) => id)).toEqual(Object.values(PLACES).map(idOf));
    for (const { designDocument, view, error, reason } of told) {
      expect({ designDocument, view }).toEqual({ designDocument: "_design/b", view: "v" });
      expect(error).not.toBe("");
      expect(reason).not.toBe("");
    }
    const kinds = new Map(told.map((one) => [one.id, one.kind]));
    expect(kinds.get(idOf(PLACES["throw"] ?? -1))).toBe("exception");
    expect(kinds.get(idOf(PLACES["loop"] ?? -1))).toBe("timeout");
    expect(kinds.get(idOf(PLACES["recursion"] ?? -1))).toBe("exception");
    expect(told[0]).toMatchObject({ error: "RangeError", reason: "boo" });
    const table = await viewmill(["errors", dir, "b"]);
    expect(table.stdout).toMatch(/doc-0000 +b\/v +exception +RangeError +boo/);
    // Failed documents are not tried again while they stay the same, and count all the same.
    const again = await viewmill([...args, "--max-errors", String(told.length - 1)]);
    expect(again.exit).toBe(3);
    expect(buildDone(again)).toMatchObject({ mapped: 0, errors: told.length });
    expect(await viewmill([...args, "--max-errors", String(told.length)])).toMatchObject({
      exit: 0,
    });
    const { loop: _loop, typed: _typed, ...rest } = PLACES;
    writeFileSync(source, documents(rest));
    const fixed = await viewmill(args);
    expect(fixed.exit).toBe(0);
    expect(buildDone(fixed)).toMatchObject({ mapped: 2, errors: Object.keys(rest).length });
    expect(await keys(dir)).toEqual(allBut(Object.values(rest)));
    expect((await errorsOf(dir)).map(({ id }) => id)).toEqual(Object.values(rest).map(idOf));
    // Gone documents take their records along.
    writeFileSync(source, documents({}));
    expect(buildDone(await viewmill(args))).toMatchObject({ errors: 0 });
    expect(await keys(dir)).toEqual(allBut([]));
  });
});

describe("bombs", () => {
  test("make an innocent document run twice at most", async () => {
    const source = join(root, "counted.ndjson");
    writeFileSync(source, documents({ throw: 0, loop: 100, map: 101, typed: 450 }));
    const server = new CountingServer(join(root, "mapped"));
    const args = [
      "build",
      join(root, "counted"),
      "--source",
      source,
      "--ddoc",
      design,
      "--json",
      "--server",
      server.command,
      ...LIMITS,
    ];
    const result = await viewmill(args);
    expect(result.exit).toBe(0);
    expect(buildDone(result).errors).toBe(4);
    const counts = server.take();
    expect(counts.size).toBe(COUNT);
    const guilty = new Set([100, 101, 450].map(idOf));
    expect([...counts].filter(([id, count]) => !guilty.has(id) && count > 2)).toEqual([]);
  });

  test("of one design document cost another one nothing", async () => {
    const source = join(root, "two.ndjson");
    writeFileSync(source, documents({ loop: 7, throw: 9 }));
    const other = join(root, "other.json");
    writeFileSync(
      other,
      JSON.stringify({
        _id: "_design/o",
        views: {
          all: { map: "function (doc) { emit(doc._id, doc.bomb || null); }", reduce: "_count" },
        },
      }),
    );
    for (const mapIn of ["threads", "processes"]) {
      const dir = join(root, `two-${mapIn}`);
      const result = await viewmill([
        "build",
        dir,
        "--source",
        source,
        "--ddoc",
        design,
        other,
        "--json",
        "--map-in",
        mapIn,
        ...LIMITS,
      ]);
      expect(result.exit).toBe(0);
      expect((await errorsOf(dir)).map(({ id, designDocument }) => [designDocument, id])).toEqual([
        ["_design/b", idOf(7)],
        ["_design/b", idOf(9)],
      ]);
      const asked = await viewmill(["query", dir, "o/all", "--json"]);
      expect(asked.stdout).toContain(`"value":${COUNT}`);
    }
  });

  test("in several views name the view that threw, with threads and with processes", async () => {
    const source = join(root, "views.ndjson");
    writeFileSync(source, `{"_id":"a","k":1}\n{"_id":"b","k":2}\n`);
    const views = {
      good: { map: "function (doc) { emit(doc.k, null); }" },
      bad: {
        map: "function (doc) { if (doc.k === 2) throw new TypeError('two'); emit(doc.k, null); }",
      },
      worse: { map: "function (doc) { doc.none.such; emit(doc.k, null); }" },
    };
    const several = join(root, "several.json");
    writeFileSync(several, JSON.stringify({ _id: "_design/s", views }));
    for (const mapIn of ["threads", "processes"]) {
      const dir = join(root, `views-${mapIn}`);
      const args = [
        "build",
        dir,
        "--source",
        source,
        "--ddoc",
        several,
        "--quiet",
        "--map-in",
        mapIn,
        "--threads",
        "1",
      ];
      // Documents are counted, not records.
      expect(await viewmill([...args, "--max-errors", "2"])).toMatchObject({
        exit: 0,
        stdout: "",
        stderr: "",
      });
      expect(await viewmill([...args, "--max-errors", "1"])).toMatchObject({
        exit: 3,
        stdout: "",
        stderr: "",
      });
      const told = (await errorsOf(dir)).map(({ id, view, error, kind }) => [
        id,
        view,
        error,
        kind,
      ]);
      expect(told.sort()).toEqual([
        ["a", "worse", "TypeError", "exception"],
        ["b", "bad", "TypeError", "exception"],
        ["b", "worse", "TypeError", "exception"],
      ]);
    }
  });

  test.each(["threads", "processes"])(
    "in one of several views name it, mapped in %s",
    async (mapIn) => {
      const source = join(root, `guilty-${mapIn}.ndjson`);
      writeFileSync(
        source,
        '{"_id":"a","k":1}\n{"_id":"loop","k":2}\n{"_id":"m"}\n{"_id":"memory","k":3}\n{"_id":"z"}\n',
      );
      const views = {
        first: { map: "function (doc) { emit(doc._id, 1); }" },
        loops: { map: "function (doc) { while (doc.k === 2) ; emit(doc._id, 2); }" },
        grows: {
          map: "function (doc) { var a = []; while (doc.k === 3) a.push(new Array(1e5).fill(a)); emit(doc._id, 3); }",
        },
        last: { map: "function (doc) { emit(doc._id, 4); }" },
      };
      const guilty = join(root, "guilty.json");
      writeFileSync(guilty, JSON.stringify({ _id: "_design/g", views }));
      const dir = join(root, `guilty-${mapIn}`);
      const result = await viewmill([
        ...["build", dir, "--source", source, "--ddoc", guilty, "--quiet", "--map-in", mapIn],
        ...LIMITS,
      ]);
      expect(result.exit).toBe(0);
      const told = (await errorsOf(dir)).map(({ id, view, kind }) => [id, view, kind]);

      expect(told.sort()).toEqual([
        ["loop", "loops", "timeout"],
        ["memory", "grows", "memory"],
      ]);
    },
  );

  test.each(["threads", "processes"])(
    "of memory outside of the JavaScript heap are held by its limit, mapped in %s",
    async (mapIn) => {
      const source = join(root, `outside-${mapIn}.ndjson`);
      writeFileSync(source, documents({ typed: 5 }));
      const dir = join(root, `outside-${mapIn}`);
      const result = await viewmill([
        ...["build", dir, "--source", source, "--ddoc", design, "--quiet", "--map-in", mapIn],
        ...["--timeout", "60000", "--heap", "512", "--memory", "300", "--threads", "1"],
      ]);

      expect(result.exit).toBe(0);
      expect(await errorsOf(dir)).toMatchObject([{ id: idOf(5), view: "v", kind: "memory" }]);
      expect(await keys(dir)).toEqual(allBut([5]));
    },
  );

  test("that abort the whole process: the supervisor starts it again, and the guilty document is found in a process of its own", async () => {
    const source = join(root, "abort.ndjson");
    // A table that cannot grow within the heap ends the process, though the limit was a thread's.
    writeFileSync(source, documents({ map: 300 }));
    const dir = join(root, "abort");
    const args = [
      "build",
      dir,
      "--source",
      source,
      "--ddoc",
      design,
      "--json",
      "--timeout",
      "60000",
      "--heap",
      "64",
      "--memory",
      "100000",
      "--threads",
      "1",
    ];
    const result = await viewmill(args);
    expect(result.exit).toBe(0);
    expect(result.stderr).toContain(
      "the indexer died (SIGABRT); going on from its last checkpoint, carefully.",
    );
    expect(buildDone(result).errors).toBe(1);
    expect(await keys(dir)).toEqual(allBut([300]));
    expect(await errorsOf(dir)).toMatchObject([{ id: idOf(300), view: "v", kind: "memory" }]);
  });
});
