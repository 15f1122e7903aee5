// Compaction: a tree that random updates have hollowed out is copied, caught up with, and verified.
//
//   node dist/test/bench/compaction.js [rows] [updated share, 0 to 1]
//
// Prints one JSON line: µs a row by wall clock and processor time, and bytes of the file before and after.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  assembleForests,
  Compaction,
  type Reducer,
  Store,
  TreeBuilder,
  type TreeOp,
  verifyStore,
} from "../../btree/index.js";
import { seededRandom } from "../helpers/run-model.js";

const rows = Number(process.argv[2] ?? 1_000_000);
const share = Number(process.argv[3] ?? 0.1);
const BATCH = 10_000;

const reducers = (): Reducer => ({ count: () => 1 });
const state = new Uint8Array(0);

function keyOf(row: number): Uint8Array {
  return Buffer.from(`${String(row).padStart(12, "0")}0123456789abcdef0123456789abcdef`, "latin1");
}

async function timed(work: () => Promise<void>): Promise<{ wall: number; cpu: number }> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  await work();
  const wall = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  const per = (milliseconds: number): number => Number(((milliseconds * 1000) / rows).toFixed(3));
  return { wall: per(wall), cpu: per((user + system) / 1000) };
}

async function bulkLoad(store: Store): Promise<void> {
  const builder = new TreeBuilder(store.sink(), store.format, reducers());
  const value = Buffer.from("12");
  for (let row = 0; row < rows; row++) {
    const key = keyOf(row);
    builder.add(key, 0, key.length, value, 0, value.length);
  }
  const forest = await builder.finishPartition();
  const root = await assembleForests(store.sink(), store.format, reducers(), [forest]);
  store.adopt(new Map([["rows", root]]), state);
  await store.commit({ sync: true });
}

/** Replaces rows at random; every third is removed. */
async function update(store: Store): Promise<void> {
  const random = seededRandom(1);
  for (let done = 0; done < rows * share; done += BATCH) {
    const chosen = new Set(Array.from({ length: BATCH }, () => random() % rows));
    const ops: TreeOp[] = [...chosen]
      .sort((a, b) => a - b)
      .map((row, i) => ({
        key: keyOf(row),
        value: i % 3 === 0 ? undefined : Buffer.from(`u${done}`),
      }));
    await store.apply(new Map([["rows", ops]]), state);
    await store.commit({ sync: false });
  }
}

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
try {
  const before = join(folder, "before.vmx");
  const after = join(folder, "after.vmx");
  const source = await Store.create(before, { state, reducers });
  await bulkLoad(source);
  const bytesLoaded = statSync(before).size;
  const updated = await timed(() => update(source));
  const target = await Store.create(after, { state, reducers });
  const compaction = new Compaction(source, target, { reducers });
  const copied = await timed(async () => {
    await compaction.copy();
    await compaction.catchUp();
    await target.commit({ sync: true });
  });
  let faults = 0;
  const verified = await timed(async () => {
    faults = (await verifyStore(after, { reducers })).faults.length;
  });
  console.log(
    JSON.stringify({
      bench: "compaction",
      node: process.version,
      rows,
      bytes: { loaded: bytesLoaded, before: statSync(before).size, after: statSync(after).size },
      microsecondsARow: { update: updated, compact: copied, verify: verified },
      faults,
      rssBytes: process.memoryUsage().rss,
    }),
  );
  compaction.close();
  await source.close();
  await target.close();
} finally {
  rmSync(folder, { recursive: true });
}
