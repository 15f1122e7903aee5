// A process that commits batch after batch into the store named by its argument, and prints the number of each once it is
// acknowledged; odd ones without a sync. It is meant to be killed.

import { writeSync } from "node:fs";
import { Store, type TreeOp } from "../../btree/index.js";

const path = process.argv[2] ?? "";
const encoder = new TextEncoder();
const store = await Store.open(path, { mode: "write", reducers: () => ({ count: () => 1 }) });
for (let number = Number(new TextDecoder().decode(store.state)) + 1; ; number++) {
  const ops: TreeOp[] = [];
  for (let i = 0; i < 200; i++) {
    ops.push({
      key: encoder.encode(String(1000 + ((i * 7 + number) % 1000))),
      value: encoder.encode(`${number}`),
    });
  }
  const byKey = new Map(ops.map((op) => [new TextDecoder().decode(op.key), op]));
  const sorted = Array.from(byKey.keys())
    .sort()
    .map((key) => byKey.get(key) as TreeOp);
  await store.apply(
    new Map([
      ["a", sorted],
      ["b", sorted],
    ]),
    encoder.encode(String(number)),
  );
  await store.commit({ sync: number % 2 === 0 });
  writeSync(1, `${number}\n`);
}
