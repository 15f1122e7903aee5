// Readers beside a writer: latencies of key lookups and of 100-row ranges, alone and while updates of 10 000 changes run one after the other;
// and the updates alone and beside the reader. The reader is in the writer's process, then in one of its own. One JSON line a case.
//
//   node dist/test/bench/readers-writers.js [documents, default 200000] [seconds a case, default 5]

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { ViewIndex } from "../../indexer/index.js";
import { ChangesFeed } from "./changes-feed.js";
import { Random } from "./generator.js";
import { median, percentile } from "./numbers.js";
import { check, dataDirectory } from "./subject.js";
import { verifyOpen } from "./verify-index.js";
import { designDocument, expectedOf } from "./views.js";

const CHANGES = 10_000;

/** Asks until `done`, a turn of the event loop between two questions; latencies in µs. */
async function read(index: ViewIndex, done: () => boolean): Promise<number[]> {
  const random = new Random(8);
  const times: number[] = [];
  while (!done()) {
    const user = `u${random.below(1000)}`;
    const began = performance.now();
    const key = await index.query("one", "by_user", { key: user, update: "false" });
    check((await key.object()).rows.length <= 1, "a reduced key is one row");
    const range = await index.query("one", "by_user", {
      startkey: user,
      limit: 100,
      reduce: false,
      update: "false",
    });
    check((await range.object()).rows.length > 0, "a range of 100 rows");
    times.push(((performance.now() - began) * 1000) / 2);
    await nextTurn();
  }
  return times;
}

function print(
  name: string,
  seconds: number,
  reads: readonly number[],
  updates: readonly number[],
): void {
  const at = (share: number): number | undefined =>
    reads.length === 0 ? undefined : Number(percentile(reads, share).toPrecision(3));
  console.log(
    JSON.stringify({
      name,
      queriesASecond: reads.length === 0 ? undefined : Math.round((reads.length * 2) / seconds),
      p50Us: at(0.5),
      p99Us: at(0.99),
      p999Us: at(0.999),
      maxUs: at(1),
      updates: updates.length === 0 ? undefined : updates.length,
      msAnUpdate: updates.length === 0 ? undefined : Math.round(median(updates)),
    }),
  );
}

async function readInProcess(dir: string, ms: number): Promise<void> {
  const index = await ViewIndex.open({ dir, readOnly: true });
  const until = performance.now() + ms;
  const times = await read(index, () => performance.now() > until);
  await index.close();
  // A channel that is closed at once loses what it has not sent.
  process.send?.(times, () => {
    process.disconnect();
  });
}

async function main(documents: number, ms: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
  const feed = await ChangesFeed.create(dataDirectory(), join(folder, "feed.ndjson"), documents);
  const dir = join(folder, "index");
  const index = await ViewIndex.open({
    dir,
    source: `changes:${feed.path}`,
    designDocuments: [designDocument("one")],
    mapIn: "threads",
    threads: 2,
  });
  const write = async (done: () => boolean): Promise<number[]> => {
    const times: number[] = [];
    while (!done()) {
      feed.append(feed.make(CHANGES, "keys changed"));
      const began = performance.now();
      await index.update();
      times.push(performance.now() - began);
    }
    return times;
  };
  const timer = (): (() => boolean) => {
    const until = performance.now() + ms;
    return () => performance.now() > until;
  };
  const readElsewhere = async (): Promise<number[]> => {
    const child = fork(fileURLToPath(import.meta.url), ["read", dir, String(ms)]);
    const [times] = (await once(child, "message")) as [number[]];
    return times;
  };
  try {
    await index.update();
    await write(timer());
    print("reader alone, in the writer's process", ms / 1000, await read(index, timer()), []);
    print("writer alone", ms / 1000, [], await write(timer()));
    const [reads, updates] = await Promise.all([read(index, timer()), write(timer())]);
    print("both in one process", ms / 1000, reads, updates);
    print("reader alone, in a process of its own", ms / 1000, await readElsewhere(), []);
    const [elsewhere, beside] = await Promise.all([readElsewhere(), write(timer())]);
    print("both, in two processes", ms / 1000, elsewhere, beside);
    await verifyOpen(index, "one", expectedOf(feed.base, "one", feed.latest));
  } finally {
    await index.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

const [first, second, third] = process.argv.slice(2);
if (first === "read") await readInProcess(second ?? "", Number(third));
else await main(Number(first ?? 200_000), Number(second ?? 5) * 1000);
