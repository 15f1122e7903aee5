// A stream that ends, spooled and then read like a file.

import { createReadStream, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { describe, expect, test } from "@jest/globals";
import { StdinSource } from "../../../indexer/sources/index.js";
import { generateLines } from "../../bench/generator.js";
import { drain, ids, rejection, temporaryFolder, withCode } from "./collect.js";

describe("documents from a stream", () => {
  test("are a snapshot, whatever the pieces they come in", async () => {
    const spoolDir = temporaryFolder();
    const lines = generateLines(200, { seed: 9 });
    const file = join(temporaryFolder(), "in.ndjson");
    writeFileSync(file, lines.join("\n"));
    const input = createReadStream(file, { highWaterMark: 777 });
    const source = new StdinSource({ input, spoolDir });
    expect(source.snapshot).toBe(true);
    const { seen } = await drain(source, { chunkBytes: 5000 });
    expect(seen.map((one) => one.doc)).toEqual(lines);
    expect((await drain(source)).seen).toHaveLength(200);
    expect(await source.documents([{ id: ids(seen)[7] ?? "" }])).toEqual([lines[7]]);
    expect(await source.identity()).toEqual({ id: "documents", label: "stdin" });
    await source.close();
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test("are named stdin in errors, not by the temporary file", async () => {
    const input = Readable.from([Buffer.from('{"_id":"a"}\nnonsense\n')]);
    const source = new StdinSource({ input, spoolDir: temporaryFolder() });
    expect(await rejection(drain(source))).toEqual(withCode("SOURCE_MALFORMED"));
    await source.close();
  });

  test("may fail or be aborted: nothing is left behind", async () => {
    const spoolDir = temporaryFolder();
    const broken = new PassThrough();
    const source = new StdinSource({ input: broken, spoolDir });
    const failing = rejection(drain(source));
    broken.destroy(new Error("the pipe broke"));
    expect(await failing).toEqual(withCode("SOURCE_UNREADABLE"));
    await source.close();
    const abort = new AbortController();
    const endless = new StdinSource({ input: new PassThrough(), spoolDir, signal: abort.signal });
    const waiting = rejection(drain(endless));
    abort.abort();
    expect(await waiting).toEqual(withCode("INDEXER_ABORTED"));
    await endless.close();
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test("of a process that was killed are cleared away by the next one", async () => {
    const spoolDir = temporaryFolder();
    // No process has this number: it is beyond Linux's largest.
    const orphan = join(spoolDir, "viewmill-stdin-99999999-abc.ndjson");
    const ours = join(spoolDir, `viewmill-stdin-${process.pid}-abc.ndjson`);
    writeFileSync(orphan, "x");
    writeFileSync(ours, "x");
    const source = new StdinSource({ input: Readable.from([]), spoolDir });
    expect([existsSync(orphan), existsSync(ours)]).toEqual([false, true]);
    await source.close();
  });
});
