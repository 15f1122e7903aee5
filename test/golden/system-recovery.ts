// System cases about crashes and damage: each builds the situation for real.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { expect } from "@jest/globals";

import { MappingRuntime, ViewIndex } from "../../indexer/index.js";
import { buildDone, viewmill } from "../helpers/cli.js";
import { indexFile } from "../helpers/index-content.js";
import { tempDir } from "../helpers/temp-dir.js";
import { Feed, numbered } from "./system-feed.js";
import { DESIGN, FIFTY, groupsOf, numbers, RUNS, SMALL, writeDesign } from "./system-index.js";

async function truncateAnywhere(): Promise<void> {
  const dir = tempDir();
  const feed = new Feed(join(dir, "feed.ndjson"));
  feed.write(numbered(2000, (i) => ({ _id: `n${i}`, k: i % 50 })));
  const runtime = new MappingRuntime({
    mapIn: "threads",
    server: undefined,
    threads: 1,
    timeoutMs: 5000,
    heapMb: 512,
    memoryMb: 1024,
  });
  const built = await ViewIndex.open({
    ...SMALL,
    runtime,
    dir: join(dir, "index"),
    source: feed.source,
    designDocuments: [DESIGN],
  });
  await built.update();
  await built.close();
  const file = indexFile(join(dir, "index"));
  const size = statSync(file).size;
  const next = numbers(1);
  const recovered = new Set<number>();
  for (let run = 0; run < 20 * RUNS; run++) {
    // Half of the cuts near the end, where the last commits are.
    const length = Math.floor(run % 2 === 0 ? size * next() : size - 6000 * next());
    const copy = join(dir, "copy");
    cpSync(join(dir, "index"), copy, { recursive: true });
    truncateSync(join(copy, basename(file)), length);
    const index = await ViewIndex.open({ ...SMALL, runtime, dir: copy, source: feed.source });
    const seq = Number((await index.info()).groups[0]?.updateSeq ?? 0);
    const { mapped } = await index.update();
    const groups = await groupsOf(index);
    await index.close();
    rmSync(copy, { recursive: true });
    recovered.add(seq);

    expect([length, mapped]).toEqual([length, 2000 - seq]);
    expect(groups).toEqual(FIFTY.map((key) => ({ key, value: 40 })));
  }
  await runtime.close();
  // Both ways back were taken: to an earlier commit, and to nothing.
  expect(recovered.has(0)).toBe(true);
  expect(recovered.size).toBeGreaterThan(1);
}

const CHILD = fileURLToPath(new URL("./system-feeds-child.js", import.meta.url));

async function killAnywhere(): Promise<void> {
  const dir = tempDir();
  const place = join(dir, "index");
  const feed = new Feed(join(dir, "feed.ndjson"));
  const design = writeDesign(dir);
  const next = numbers(2);
  let before = 0;
  for (let round = 0; round < 5 * RUNS; round++) {
    const write = (count: number): void => {
      feed.write(
        numbered(count, () => {
          const _id = `doc-${Math.floor(next() * 300)}`;
          const n = feed.written.length;
          return next() < 0.2 ? { _id, _deleted: true } : { _id, k: n % 10, n };
        }),
      );
    };
    write(1500);
    const child = spawn(process.execPath, [CHILD, place, feed.source, design], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(child, "exit");
    // Within the first update, or in one of those after it; what it works on grows until it is killed.
    let updates = Math.floor(next() * 4);
    for await (const _line of createInterface({ input: child.stdout })) {
      write(300);
      if (updates-- > 0) continue;
      const delay = setTimeout(() => child.kill("SIGKILL"), 1 + next() * 200);
      await exited;
      clearTimeout(delay);
    }
    expect(child.signalCode).toBe("SIGKILL");

    const index = await ViewIndex.open({ ...SMALL, dir: place, source: feed.source });
    const seq = Number((await index.info()).groups[0]?.updateSeq ?? 0);
    expect(seq).toBeGreaterThanOrEqual(before);
    before = seq;
    const want = [...feed.stateAt(seq).values()].map(({ _id, n }) => `${_id} ${String(n)}`).sort();
    const { rows } = await (await index.query("d", "rows", { update: false })).object();
    expect(rows.map(({ id, value }) => `${String(id)} ${String(value)}`).sort()).toEqual(want);
    await index.close();
  }
  expect(before).toBeGreaterThan(0);
}

async function corruptFile(): Promise<void> {
  const dir = tempDir();
  const place = join(dir, "index");
  const feed = new Feed(join(dir, "feed.ndjson"));
  feed.write(numbered(3000, (i) => ({ _id: `n${i}`, k: i % 50 })));
  const build = ["build", place, "--source", feed.source, "--ddoc", writeDesign(dir), "--json"];
  const first = await viewmill(build);
  expect([first.exit, first.stderr]).toEqual([0, ""]);
  const file = indexFile(place);
  const bytes = readFileSync(file);
  for (let at = 20_000; at < bytes.length; at += 9000) bytes[at] = (bytes[at] as number) ^ 0xff;
  writeFileSync(file, bytes);
  // As a killed compaction leaves it.
  const leftover = file.replace(".1.vmx", ".2.vmx");
  writeFileSync(leftover, bytes.subarray(0, 30_000));

  const verified = await viewmill(["verify", place, "--json"]);
  const { ok, files } = JSON.parse(verified.stdout) as {
    ok: boolean;
    files: { file: string; faults: { offset: number; what: string }[] }[];
  };
  expect([verified.exit, ok]).toEqual([1, false]);
  expect(files[0]?.file).toBe(file);
  expect(files[0]?.faults.length).toBeGreaterThan(1);
  for (const { offset, what } of files[0]?.faults ?? []) {
    expect(offset).toBeGreaterThan(0);
    expect(what).not.toBe("");
  }

  rmSync(file);
  const again = await viewmill(build);
  expect(again.exit).toBe(0);
  expect(buildDone(again).mapped).toBe(3000);
  expect((await viewmill(["verify", place])).exit).toBe(0);
  // While it was the only file it was kept, for a person to look at.
  expect((await viewmill(["compact", place])).exit).toBe(0);
  expect(readdirSync(place).filter((name) => name.endsWith(".vmx"))).toHaveLength(1);
  const index = await ViewIndex.open({ dir: place, readOnly: true });
  expect(await groupsOf(index)).toEqual(FIFTY.map((key) => ({ key, value: 60 })));
  await index.close();
}

export const recoveryProcedures: Readonly<Record<string, () => Promise<void>>> = {
  "sys-truncate-any-offset": truncateAnywhere,
  "sys-kill-9-loop": killAnywhere,
  "sys-corrupt-file-recovery-command": corruptFile,
};
