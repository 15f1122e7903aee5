// Compacts the index in argv[2] for ever, adding documents to the log argv[3] meanwhile, and says on stdout what it has come to, until it
// is killed. Argv[4] is the number of the next document.

import { appendFileSync } from "node:fs";

import { ViewIndex } from "../../../indexer/index.js";

const [, , dir = "", log = "", first = "0"] = process.argv;
const index = await ViewIndex.open({ dir, mapIn: "threads", threads: 1 });
let next = Number(first);
for (;;) {
  appendFileSync(log, `${JSON.stringify({ _id: `late-${next}`, group: next % 10, n: 1 })}\n`);
  next++;
  await Promise.all([
    index.update(),
    index.compact(undefined, {
      onProgress: ({ rows }) => process.stdout.write(`copied ${rows}\n`),
    }),
  ]);
  process.stdout.write(`compacted ${next}\n`);
}
