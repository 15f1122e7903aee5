// The floor: one thread reads the file, parses each line and calls the map functions; the rows are counted and dropped.
//
//   node dist/test/bench/floor.js FILE KIND       prints {"ms":…,"rows":…}

import { closeSync, openSync, readSync } from "node:fs";

import { KINDS, type Kind } from "./views.js";

type Map = (doc: unknown) => void;

const [path = "", kind = "one"] = process.argv.slice(2);
const began = performance.now();
let rows = 0;
const emit = (): void => {
  rows++;
};
const maps = Object.values(KINDS[kind as Kind]).map(
  // The functions are this bench's own.
  // eslint-disable-next-line @typescript-eslint/no-implied-eval
  ({ map }) => (new Function("emit", `return (${map})`) as (emitter: typeof emit) => Map)(emit),
);
const file = openSync(path, "r");
const buffer = Buffer.allocUnsafe(4 << 20);
let carried = Buffer.alloc(0);
for (;;) {
  const read = readSync(file, buffer, 0, buffer.length, null);
  if (read === 0) break;
  const lastLf = buffer.lastIndexOf(0x0a, read - 1);
  if (lastLf < 0) {
    carried = Buffer.concat([carried, buffer.subarray(0, read)]);
    continue;
  }
  const text =
    carried.length > 0
      ? Buffer.concat([carried, buffer.subarray(0, lastLf + 1)]).toString()
      : buffer.toString("utf8", 0, lastLf + 1);
  carried = Buffer.from(buffer.subarray(lastLf + 1, read));
  for (let start = 0; ;) {
    const end = text.indexOf("\n", start);
    if (end < 0) break;
    const doc: unknown = JSON.parse(text.slice(start, end));
    for (const map of maps) map(doc);
    start = end + 1;
  }
}
closeSync(file);
console.log(JSON.stringify({ ms: performance.now() - began, rows }));
