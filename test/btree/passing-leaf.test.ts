// Large batches look at leaves in a buffer that is used again and again: nothing of one leaf may be left in what is taken from another.

import { expect, test } from "@jest/globals";
import { join } from "node:path";
import { NodeCache, Store, type TreeOp } from "../../btree/index.js";
import { PASSING_KEYS_MIN } from "../../btree/node-source.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const text = (n: number): Uint8Array => Buffer.from(`key-${String(n).padStart(8, "0")}`);

test.each([undefined, 256])(
  "large batches past the cache, in leaves of %s bytes, equal a map",
  async (leafBytes) => {
    const folder = tempDir();
    const store = await Store.create(join(folder, "t.vmx"), {
      state: new Uint8Array(0),
      ...(leafBytes === undefined ? {} : { leafBytes }),
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
    // Few keys of each leaf, some of them not there: looked up without a table of the leaf.
    const few = Array.from({ length: PASSING_KEYS_MIN + 500 }, (_, i) => i * 8);
    const sparse = few.flatMap((n) =>
      n % 3 === 0 ? [text(n), Buffer.from(`key-${n}~`)] : [text(n)],
    );
    const sorted = sparse.sort((a, b) => Buffer.compare(a, b));
    const sought = snapshot.tree("t").getMany(sorted);
    for (const [i, key] of sorted.entries()) {
      const name = Buffer.from(key).toString();
      const value = sought[i];
      expect([name, value && Buffer.from(value).toString()]).toEqual([
        name,
        name.endsWith("~") ? undefined : model.get(Number(name.slice(4))),
      ]);
    }
    snapshot.release();
    await store.close();
  },
);
