// File sources with real files: cut anywhere, resumed anywhere, grown, replaced, cut short.

import {
  appendFileSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  ChangesFileSource,
  NdjsonSource,
  displaySeq,
  sameSource,
  type Chunk,
  type Source,
} from "../../../indexer/sources/index.js";
import { generateLines } from "../../bench/generator.js";
import { drain, ids, rejection, sliceChunk, temporaryFolder, withCode } from "./collect.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 30);

function fileOf(text: string, name = "data.ndjson"): string {
  const path = join(temporaryFolder(), name);
  writeFileSync(path, text);
  // Old enough that a change would show: a file just written never counts as unchanged.
  utimesSync(path, new Date(0), new Date(0));
  return path;
}

async function settled(): Promise<void> {
  // A file's signature holds once its last change is a clock tick old.
  await new Promise((resolve) => setTimeout(resolve, 80));
}

function row(seq: string, id: string, more = ""): string {
  return `{"seq":${seq},"id":"${id}","changes":[{"rev":"1-a"}],"doc":{"_id":"${id}"${more}}}\n`;
}

describe("a file of documents", () => {
  test("is delivered whole whatever the size of chunks, each line in one chunk", async () => {
    const lines = generateLines(40, { seed: 1 });
    const path = fileOf(`${lines.join("\n")}\n`);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 3000 }), async (chunkBytes) => {
        const source = new NdjsonSource(path);
        const { seen, chunks } = await drain(source, { chunkBytes });
        expect(seen.map((one) => one.doc)).toEqual(lines);
        let at = 0;
        for (const { data } of chunks) {
          const range = data as { start: number; end: number };
          expect(range.start).toBe(at);
          at = range.end;
        }
      }),
      { numRuns: RUNS },
    );
  });

  test("may lack the last line end, and may be empty", async () => {
    const path = fileOf('\ufeff{"_id":"a"}\n{"_id":"b"}');
    expect(ids((await drain(new NdjsonSource(path))).seen)).toEqual(["a", "b"]);
    const empty = new NdjsonSource(fileOf(""));
    expect((await drain(empty)).chunks).toEqual([]);
    expect(await empty.designDocuments()).toEqual([]);
    expect(await empty.extent(undefined)).toEqual({ bytes: 0 });
  });

  test("goes on from any chunk while it is the same file, and not after any change", async () => {
    const path = fileOf(`${generateLines(50, { seed: 2 }).join("\n")}\n`);
    await settled();
    const source = new NdjsonSource(path);
    const whole = await drain(source, { chunkBytes: 1000 });
    for (const [i, chunk] of whole.chunks.entries()) {
      expect(await source.resumable(chunk.lastSeq)).toBe(true);
      const rest = await drain(source, { since: chunk.lastSeq, chunkBytes: 1000 });
      expect(rest.chunks.map((one) => one.lastSeq)).toEqual(
        whole.chunks.slice(i + 1).map((one) => one.lastSeq),
      );
    }
    expect(whole.lastSeq).toBe(await source.latest());
    const middle = whole.chunks[2]?.lastSeq ?? "";
    appendFileSync(path, "\n");
    expect(await source.resumable(middle)).toBe(false);
    expect(await rejection(drain(source, { since: middle }))).toEqual(withCode("SOURCE_CHANGED"));
  });

  test("has the same latest sequence only while nothing changed, not even within a clock tick", async () => {
    const path = fileOf('{"_id":"a"}\n');
    await settled();
    const source = new NdjsonSource(path);
    const before = await source.latest();
    expect(await source.latest()).toBe(before);
    writeFileSync(path, '{"_id":"b"}\n');
    const just = await source.latest();
    expect(just).not.toBe(before);
    expect(await source.resumable(just)).toBe(false);
  });

  test("has a stamp that stays while nothing changes, and none that could lie", async () => {
    const path = fileOf('{"_id":"a"}\n');
    await settled();
    const source = new NdjsonSource(path);
    const before = source.stamp();
    expect(before).toBeDefined();
    expect(source.stamp()).toBe(before);
    writeFileSync(path, '{"_id":"b"}\n');
    expect(source.stamp()).not.toBe(before);
    rmSync(path);
    expect(source.stamp()).toBeUndefined();
  });

  test("is a snapshot that cannot be followed, and any file may follow it", async () => {
    const source = new NdjsonSource(fileOf('{"_id":"a"}\n'));
    expect(source.snapshot).toBe(true);
    expect(await rejection(drain(source, { until: "forever" }))).toEqual(withCode("SOURCE_USAGE"));
    const other = new NdjsonSource(fileOf('{"_id":"z"}\n'));
    expect((await source.identity()).id).toBe((await other.identity()).id);
  });

  test("names the line of a bad document in any chunk", async () => {
    const lines = generateLines(30, { seed: 3 });
    lines[24] = '{"_id":17}';
    const source = new NdjsonSource(fileOf(lines.join("\n")));
    for (const chunkBytes of [100, 2000, 100_000]) {
      const error = await rejection(drain(source, { chunkBytes }));
      expect(error).toEqual(withCode("SOURCE_MALFORMED"));
      expect((error as Error).message).toContain(
        'line 25: "_id" must be a non-empty string: {"_id":17}',
      );
    }
  });

  test("refuses a line beyond the limit, naming it", async () => {
    const path = fileOf(`{"_id":"a"}\n{"_id":"b","x":"${"y".repeat(40_000)}"}\n{"_id":"c"}\n`);
    const source = new NdjsonSource(path, { lineBytesMax: 1000 });
    for (const chunkBytes of [12, 20, 1_000_000]) {
      const error = await rejection(drain(source, { chunkBytes }));
      expect(error).toEqual(withCode("SOURCE_LINE_TOO_LONG"));
      expect((error as Error).message).toContain("line 2");
    }
  });

  test("says what is wrong with a file that is not there, a folder, a file that went away", async () => {
    const folder = temporaryFolder();
    const missing = new NdjsonSource(join(folder, "no.ndjson"));
    const attempts = [
      async () => drain(missing),
      async () => missing.latest(),
      async () => missing.identity(),
      async () => missing.designDocuments(),
    ];
    for (const attempt of attempts) {
      const error = await rejection(attempt());
      expect(error).toEqual(withCode("SOURCE_NOT_FOUND"));
      expect((error as Error).message).toContain("no.ndjson");
    }
    expect(await rejection(drain(new NdjsonSource(folder)))).toEqual(withCode("SOURCE_UNREADABLE"));
    const path = fileOf('{"_id":"a"}\n{"_id":"b"}\n');
    const chunks = new NdjsonSource(path).changes({ until: "now", chunkBytes: 1 });
    const first = (await chunks.next()).value as Chunk;
    renameSync(fileOf('{"_id":"x"}\n{"_id":"y"}\n'), path);
    expect(() => sliceChunk(first, new NdjsonSource(path))).toThrow(withCode("SOURCE_CHANGED"));
    rmSync(path);
    expect(await rejection(readRest(chunks))).toEqual(withCode("SOURCE_CHANGED"));
  });

  test("stops with an error when it is aborted: a drain that ends was complete", async () => {
    const path = fileOf(`${generateLines(10, { seed: 4 }).join("\n")}\n`);
    const abort = new AbortController();
    const chunks = new NdjsonSource(path).changes({
      until: "now",
      chunkBytes: 300,
      signal: abort.signal,
    });
    await chunks.next();
    abort.abort();
    expect(await rejection(chunks.next())).toEqual(withCode("INDEXER_ABORTED"));
  });
});

async function readRest(chunks: AsyncIterable<unknown>): Promise<number> {
  let count = 0;
  for await (const chunk of chunks) if (chunk) count++;
  return count;
}

const LOGS: readonly [string, (path: string) => Source, (id: string) => string][] = [
  [
    "documents with append",
    (path) => new NdjsonSource(path, { append: true }),
    (id) => `{"_id":"${id}"}\n`,
  ],
  ["changes", (path) => new ChangesFileSource(path), (id) => row('"1-x"', id)],
];

describe.each(LOGS)("a log of %s", (_, open, line) => {
  test("delivers from a sequence on what was appended since", async () => {
    const path = fileOf(line("a") + line("b"));
    const source = open(path);
    const first = await drain(source);
    expect(ids(first.seen)).toEqual(["a", "b"]);
    expect((await drain(source, { since: first.lastSeq })).seen).toEqual([]);
    appendFileSync(path, line("c") + line("a"));
    expect(await source.resumable(first.lastSeq ?? "")).toBe(true);
    const second = await drain(source, { since: first.lastSeq, chunkBytes: 1 });
    expect(ids(second.seen)).toEqual(["c", "a"]);
    expect(await source.latest()).toBe(second.lastSeq);
    expect(await source.extent(first.lastSeq)).toEqual({ bytes: 2 * line("a").length });
  });

  test("leaves an unfinished last line for later, and takes a finished one without its line end", async () => {
    const whole = line("b").trimEnd();
    const warnings: string[] = [];
    const path = fileOf(line("a") + whole.slice(0, -1));
    const source = open(path);
    const first = await drain(source);
    expect(ids(first.seen)).toEqual(["a"]);
    appendFileSync(path, whole.slice(-1));
    const second = await drain(source, { since: first.lastSeq });
    expect(ids(second.seen)).toEqual(["b"]);
    appendFileSync(path, `\n${line("c")}`);
    expect(ids((await drain(source, { since: second.lastSeq })).seen)).toEqual(["c"]);
    expect(warnings).toEqual([]);
  });

  test("does not go on in a file that was cut, edited before the place, or replaced", async () => {
    const text = Array.from({ length: 60 }, (_unused, i) => line(`document-${i}`)).join("");
    const sinceOf = async (source: Source): Promise<string> => (await drain(source)).lastSeq ?? "";
    const cut = fileOf(text);
    const cutSince = await sinceOf(open(cut));
    truncateSync(cut, 100);
    expect(await open(cut).resumable(cutSince)).toBe(false);
    expect(await rejection(drain(open(cut), { since: cutSince }))).toEqual(
      withCode("SOURCE_CHANGED"),
    );
    const edited = fileOf(text);
    const editedSince = await sinceOf(open(edited));
    writeFileSync(edited, text.replace("document-59", "document-95") + line("more"));
    expect(await open(edited).resumable(editedSince)).toBe(false);
    const replaced = fileOf(text);
    const replacedSince = await sinceOf(open(replaced));
    writeFileSync(replaced, text.replace("document-0", "document-9") + line("more"));
    expect(await open(replaced).resumable(replacedSince)).toBe(false);
    expect((await open(replaced).identity()).id).not.toBe((await open(cut).identity()).id);
  });

  test("keeps its identity while it grows", async () => {
    const path = fileOf(line("a"));
    const before = await open(path).identity();
    appendFileSync(path, line("b"));
    expect(await open(path).identity()).toEqual(before);
  });

  test("that was empty may be any log of its kind once it has a line, and not the other way round", async () => {
    const path = fileOf("");
    const empty = await open(path).identity();
    expect((await drain(open(path))).chunks).toEqual([]);
    const start = await open(path).latest();
    appendFileSync(path, line("a"));
    const filled = await open(path).identity();
    expect(filled.id).not.toBe(empty.id);
    expect([sameSource(empty, filled), sameSource(filled, empty)]).toEqual([true, false]);
    expect(sameSource(empty, { id: "couchdb:x", label: "x" })).toBe(false);
    expect(ids((await drain(open(path), { since: start })).seen)).toEqual(["a"]);
  });

  test("is followed: what is appended comes, until it is aborted", async () => {
    const path = fileOf(line("a"));
    const abort = new AbortController();
    const source = open(path);
    const feed = source.changes({ until: "forever", signal: abort.signal });
    const chunks = feed[Symbol.asyncIterator]();
    const seen: string[] = [];
    const take = async (): Promise<void> => {
      const next = await chunks.next();
      if (next.done !== true) seen.push(...ids(sliceChunk(next.value, source)));
    };
    await take();
    const waiting = take();
    appendFileSync(path, line("b").slice(0, 5));
    appendFileSync(path, line("b").slice(5) + line("c"));
    await waiting;
    if (seen.length < 3) await take();
    expect(seen).toEqual(["a", "b", "c"]);
    const last = rejection(take());
    abort.abort();
    expect(await last).toEqual(withCode("INDEXER_ABORTED"));
  });

  test("is not followed into another file of the same name", async () => {
    const path = fileOf(line("a"));
    const source = open(path);
    const chunks = source.changes({ until: "forever" })[Symbol.asyncIterator]();
    await chunks.next();
    const waiting = rejection(chunks.next());
    renameSync(fileOf(line("x")), path);
    expect(await waiting).toEqual(withCode("SOURCE_CHANGED"));
  });
});

describe("a file of changes", () => {
  test("shows the last row's own sequence, as it was written", async () => {
    const text =
      row('"1-a,b"', "a") + row('[2,"x"]', "b") + row('"3-c"', "c") + '{"last_seq":"3-c"}\n';
    const source = new ChangesFileSource(fileOf(text));
    const { chunks } = await drain(source, { chunkBytes: 1 });
    expect(chunks.map((chunk) => displaySeq(chunk.lastSeq))).toEqual([
      '"1-a,b"',
      '[2,"x"]',
      '"3-c"',
      '"3-c"',
    ]);
    expect(displaySeq(await source.latest())).toBe('"3-c"');
    expect(displaySeq('"12-from-couch"')).toBe('"12-from-couch"');
    expect(displaySeq("12")).toBe("12");
  });

  test("finds a sequence that comes after a long document", async () => {
    const long = `{"id":"a","doc":{"_id":"a","x":"${"y".repeat(50_000)}"},"seq":"9-z"}\n`;
    const source = new ChangesFileSource(fileOf(long));
    expect(displaySeq((await drain(source)).lastSeq ?? "")).toBe('"9-z"');
  });

  test("warns of a last line that is not finished", async () => {
    const warnings: string[] = [];
    const path = fileOf(`${row("1", "a")}{"seq":2,"id"`);
    const source = new ChangesFileSource(path, { onWarning: (message) => warnings.push(message) });
    await drain(source);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("not finished");
  });
});
