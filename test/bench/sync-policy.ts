// What durability costs: the same rows applied in batches of 10 000, in random order, synced with every batch, once a second,
// at the end. `npm run build && node dist/test/bench/sync-policy.js [rows]`, default 500 000. One JSON line a policy.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Store, type TreeOp } from "../../btree/index.js";
import { compareBytes } from "../../btree/bytes.js";
import { seededRandom } from "../btree/crash-storage.js";

const rows = Number(process.argv[2] ?? 500_000);
const BATCH_ROWS = 10_000;
const encoder = new TextEncoder();

function batchesOf(): TreeOp[][] {
  const random = seededRandom(9);
  const batches: TreeOp[][] = [];
  for (let first = 0; first < rows; first += BATCH_ROWS) {
    const ops = Array.from({ length: Math.min(BATCH_ROWS, rows - first) }, (_, i) => ({
      key: encoder.encode(
        `${String(Math.floor(random() * 1e9)).padStart(9, "0")}|document-${String(first + i).padStart(9, "0")}`,
      ),
      value: encoder.encode(String(i)),
    }));
    batches.push(ops.sort((a, b) => compareBytes(a.key, b.key)));
  }
  return batches;
}

const policies: readonly (readonly [string, (sinceSync: number, last: boolean) => boolean])[] = [
  ["at the end", (_sinceSync, last) => last],
  ["once a second", (sinceSync, last) => last || sinceSync >= 1000],
  ["every batch", () => true],
];

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
try {
  const batches = batchesOf();
  let fastest = Number.POSITIVE_INFINITY;
  for (const [name, due] of [...policies.slice(0, 1), ...policies]) {
    const store = await Store.create(join(folder, `${Math.random()}.vmx`), {
      state: new Uint8Array(0),
      reducers: () => ({ count: () => 1 }),
    });
    const start = performance.now();
    let synced = start;
    let syncs = 0;
    for (const [n, ops] of batches.entries()) {
      await store.apply(new Map([["t", ops]]), encoder.encode(String(n)));
      const sync = due(performance.now() - synced, n === batches.length - 1);
      await store.commit({ sync });
      if (!sync) continue;
      synced = performance.now();
      syncs++;
    }
    const seconds = (performance.now() - start) / 1000;
    const fileBytes = store.stats().fileBytes;
    await store.close();
    fastest = Math.min(fastest, seconds);
    console.log(
      JSON.stringify({
        synced: name,
        rows,
        seconds: Number(seconds.toPrecision(3)),
        syncs,
        ratio: Number((seconds / fastest).toPrecision(3)),
        fileBytes,
      }),
    );
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
