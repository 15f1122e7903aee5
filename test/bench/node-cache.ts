// What a node costs: from the cache, from the file with the system's page cache warm, and with it dropped (needs root on
// Linux; skipped elsewhere). `npm run build && node dist/test/bench/node-cache.js [rows]`, default 1 000 000. One JSON line a
// case: percentiles in microseconds of single lookups of random leaves, the clock's own cost (about 0.05) included.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assembleForests, NodeCache, Store, TreeBuilder } from "../../btree/index.js";
import { saltSeed } from "../../btree/checksum.js";
import { FileStorage } from "../../btree/file-storage.js";
import { NodeSource } from "../../btree/node-source.js";
import { seededRandom } from "../btree/crash-storage.js";

const rows = Number(process.argv[2] ?? 1_000_000);
const LOOKUPS = 50_000;
const random = seededRandom(3);
const counter = { count: () => 1 };

interface Place {
  readonly offset: number;
  readonly size: number;
}

async function build(path: string): Promise<{ salt: Uint8Array; leaves: Place[] }> {
  const store = await Store.create(path, { state: new Uint8Array(0), reducers: () => counter });
  const builder = new TreeBuilder(store.sink(), store.format, counter);
  const encoder = new TextEncoder();
  const value = new Uint8Array(13);
  for (let i = 0; i < rows; i++) {
    const key = encoder.encode(
      `${String(Math.floor(i / 20)).padStart(10, "0")}|document-${String(i).padStart(12, "0")}`,
    );
    builder.add(key, 0, key.length, value, 0, value.length);
  }
  const root = await assembleForests(store.sink(), store.format, counter, [
    await builder.finishPartition(),
  ]);
  store.adopt(new Map([["t", root]]), new Uint8Array(1));
  await store.commit({ sync: true });
  const leaves: Place[] = [];
  if (root !== undefined) {
    const source = new NodeSource(path, store.sink(), saltSeed(store.format.salt), undefined);
    collect(source, root.offset, root.size, root.height, leaves);
  }
  await store.close();
  return { salt: store.format.salt, leaves };
}

function collect(
  source: NodeSource,
  offset: number,
  size: number,
  height: number,
  leaves: Place[],
): void {
  if (height === 0) {
    leaves.push({ offset, size });
    return;
  }
  const node = source.inner(offset, size, height);
  for (let i = 0; i < node.count; i++)
    collect(source, node.offset(i), node.size(i), height - 1, leaves);
}

function measure(
  name: string,
  source: NodeSource,
  leaves: readonly Place[],
  lookups: number,
  before?: () => void,
): void {
  const times = new Float64Array(lookups);
  for (let n = 0; n < lookups; n++) {
    const { offset, size } = leaves[Math.floor(random() * leaves.length)] as Place;
    before?.();
    const start = process.hrtime.bigint();
    source.leaf(offset, size);
    times[n] = Number(process.hrtime.bigint() - start) / 1000;
  }
  times.sort();
  const at = (share: number): number =>
    Number((times[Math.floor(share * (lookups - 1))] as number).toPrecision(3));
  console.log(
    JSON.stringify({ name, lookups, p50: at(0.5), p93: at(0.93), p99: at(0.99), max: at(1) }),
  );
}

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
try {
  const path = join(folder, "cache.vmx");
  const { salt, leaves } = await build(path);
  const open = (cache: NodeCache | undefined): NodeSource =>
    new NodeSource(path, FileStorage.open(path, "read"), saltSeed(salt), cache);

  const cached = open(new NodeCache(1024 ** 3));
  for (const { offset, size } of leaves) cached.leaf(offset, size);
  measure("warm-up", cached, leaves, LOOKUPS);
  measure("hit in the node cache", cached, leaves, LOOKUPS);
  measure("read, verified and decoded, page cache warm", open(undefined), leaves, LOOKUPS);
  try {
    // Before each lookup: a read brings its neighbours along, and some hundred lookups would have the whole file in memory.
    const drop = (): void => {
      writeFileSync("/proc/sys/vm/drop_caches", "1");
    };
    drop();
    measure("read, verified and decoded, page cache dropped", open(undefined), leaves, 300, drop);
  } catch {
    console.log(
      JSON.stringify({ name: "page cache dropped", skipped: "the system does not allow it" }),
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
