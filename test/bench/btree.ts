// Speed and size of the storage engine on its own: bulk build, point lookups, scans, groups, batches. Run it with
// `npm run build && node dist/test/bench/btree.js [rows]` (default 1 000 000). One JSON line a result: wall and CPU time for
// each item, median of the runs. Rows are like a view's: 32-byte keys in groups of 20, 13-byte values.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  assembleForests,
  NodeCache,
  openBulkSink,
  type Reducer,
  Store,
  TreeBuilder,
  type TreeOp,
  type TreeReader,
} from "../../btree/index.js";
import { seededRandom } from "../btree/crash-storage.js";

const rows = Number(process.argv[2] ?? 1_000_000);
const KEY_BYTES = 32;
const VALUE_BYTES = 13;
const GROUP_BYTES = 11;
const STATE = new Uint8Array(8);

const random = seededRandom(1);
const counter: Reducer = { count: () => 1 };

/** Keys in order, end to end. */
const keys = Buffer.alloc(rows * KEY_BYTES);
for (let i = 0; i < rows; i++) {
  const group = String(Math.floor(i / 20)).padStart(10, "0");
  keys.write(`${group}|document-${String(i).padStart(12, "0")}`, i * KEY_BYTES, "latin1");
}
const value = new Uint8Array(VALUE_BYTES).fill(7);

function keyAt(i: number): Uint8Array {
  return new Uint8Array(keys.buffer, keys.byteOffset + i * KEY_BYTES, KEY_BYTES);
}

async function measure(
  name: string,
  items: number,
  runs: number,
  body: () => unknown,
  more: object = {},
): Promise<void> {
  const results: { wall: number; cpu: number }[] = [];
  for (let run = 0; run < runs; run++) {
    const cpu = process.cpuUsage();
    const start = performance.now();
    await body();
    const wall = performance.now() - start;
    const { user, system } = process.cpuUsage(cpu);
    results.push({ wall: (wall * 1000) / items, cpu: (user + system) / items });
  }
  results.sort((a, b) => a.wall - b.wall);
  const { wall, cpu } = results[results.length >> 1] ?? { wall: 0, cpu: 0 };
  console.log(
    JSON.stringify({
      name,
      items,
      microsecondsEach: round(wall),
      cpuMicrosecondsEach: round(cpu),
      ...more,
    }),
  );
}

function round(number: number): number {
  return Number(number.toPrecision(3));
}

function scan(reader: TreeReader): number {
  let sum = 0;
  for (const slice of reader.slices({}))
    for (let i = 0; i < slice.length; i++) sum += slice.value(i)[0] as number;
  return sum;
}

async function build(path: string, leafBytes: number): Promise<Store> {
  rmSync(path, { force: true });
  const store = await Store.create(path, { state: STATE, reducers: () => counter, leafBytes });
  const sink = openBulkSink(store.bulk(), { extentBytes: 0 });
  const builder = new TreeBuilder(sink, store.format, counter);
  for (let i = 0; i < rows; i++) {
    builder.add(keys, i * KEY_BYTES, (i + 1) * KEY_BYTES, value, 0, VALUE_BYTES);
  }
  const forest = await builder.finishPartition();
  sink.flush();
  sink.close();
  store.adopt(
    new Map([["t", await assembleForests(store.sink(), store.format, counter, [forest])]]),
    STATE,
  );
  await store.commit({ sync: true });
  return store;
}

async function batches(path: string): Promise<void> {
  let suffix = 33;
  for (const size of [100, 10_000, 100_000]) {
    const store = await Store.open(path, { mode: "write", reducers: () => counter });
    let written = 0;
    await measure(
      `batch of ${size} random rows, synced`,
      size,
      size > 10_000 ? 3 : size > 100 ? 7 : 99,
      async () => {
        const chosen = new Set<number>();
        while (chosen.size < size) chosen.add(Math.floor(random() * rows));
        const ops: TreeOp[] = Array.from(chosen)
          .sort((a, b) => a - b)
          .map((i) => ({ key: Uint8Array.from([...keyAt(i), suffix]), value }));
        suffix++;
        written = (await store.apply(new Map([["t", ops]]), Uint8Array.of(suffix))).bytesWritten;
        await store.commit({ sync: true });
      },
    );
    console.log(
      JSON.stringify({
        name: `bytes written by the last of them`,
        batch: size,
        bytesEach: round(written / size),
      }),
    );
    await store.close();
  }
}

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
try {
  const path = join(folder, "bench.vmx");
  await measure("bulk build, synced", rows, 3, async () => {
    await (await build(path, 4096)).close();
  });
  const fileBytes = statSync(path).size;
  console.log(
    JSON.stringify({
      name: "file",
      bytes: fileBytes,
      bytesEach: round(fileBytes / rows),
      valueBytes: VALUE_BYTES,
    }),
  );

  const store = await Store.open(path, {
    mode: "read",
    reducers: () => counter,
    cache: new NodeCache(256 * 1024 * 1024),
  });
  const reader = store.snapshot().tree("t");
  const sought = Array.from({ length: 100_000 }, () => keyAt(Math.floor(random() * rows)));
  await measure("get, random, nodes cached from the second run on", sought.length, 5, () => {
    for (const key of sought) reader.get(key);
  });
  await measure("full scan of values", rows, 5, () => scan(reader));
  const count = Math.ceil(rows / 20);
  for (const reverse of [false, true]) {
    await measure(`groups of 20 rows${reverse ? ", last first" : ""}`, count, 5, () => {
      for (const group of reader.groups({}, () => GROUP_BYTES, { reverse }))
        if (group.count !== 20) throw new Error("wrong group");
    });
  }
  await measure("scan of 100 rows", 2000, 5, () => {
    for (let n = 0; n < 2000; n++) {
      let left = 100;
      for (const slice of reader.slices({ gte: sought[n] })) {
        for (let i = 0; i < slice.length && left > 0; i++, left--) slice.value(i);
        if (left === 0) break;
      }
    }
  });
  await measure("rank", sought.length, 3, () => {
    for (const key of sought) reader.rank(key);
  });
  await store.close();
  await batches(path);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
