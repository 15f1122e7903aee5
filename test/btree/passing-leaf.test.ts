// Large batches look at leaves in a buffer that is used again and again: nothing of one leaf may be left in what is taken from another.

import { expect, test } from "@jest/globals";
import { join } from "node:path";
import { NodeCache, Store, type TreeOp } from "../../btree/index.js";
import { PASSING_KEYS_MIN } from "../../btree/node-source.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const text = (n: number): Uint8Array => Buffer.from(`key-${String(n).padStart(8, "0")}`);

test("large batches of reads and writes, past the cache, equal a map", async () => {
  const folder = tempDir();
  const store = await Store.create(join(folder, "t.vmx"), {
    state: new Uint8Array(0),
    reducers: () => ({ count: () => 1 }),
    // Holds next to nothing.
    cache: new NodeCache(10_000),
  });
  const model = new Map<number, string>();
  const size = PASSING_KEYS_MIN * 3;
  for (let round = 0; round < 4; round++) {
    const ops: TreeOp[] = [];
    for (let n = 0; n < size * 4; n++) {
      if ((n * 7 + round * 3) % 4 !== 0) continue;
      const removed = (n + round) % 5 === 0;
      // Some values lie out of line.
      const value = n % 500 === 0 ? `${round}-${n}`.repeat(200) : `${round}-${n}`;
      if (removed) model.delete(n);
      else model.set(n, value);
      ops.push({ key: text(n), value: removed ? undefined : Buffer.from(value) });
    }
    expect(ops.length).toBeGreaterThan(PASSING_KEYS_MIN);
    await store.apply(new Map([["t", ops]]), Uint8Array.of(round));
    await store.commit({ sync: false });
  }
  const numbers = Array.from({ length: size * 4 }, (_, n) => n);
  const snapshot = store.snapshot();
  const found = snapshot.tree("t").getMany(numbers.map(text));
  expect(found.map((value) => value && Buffer.from(value).toString())).toEqual(
    numbers.map((n) => model.get(n)),
  );
  snapshot.release();
  await store.close();
});
