// A process of a later release over the index in argv[2], whose source is the log argv[3]: renews the index, and adds documents to the log
// meanwhile when argv[4] is the number of the first. Says on stdout what it has come to, and in the end how much memory it took at most.

import { appendFileSync } from "node:fs";

import { ViewIndex } from "../../../indexer/index.js";
import { addLaterCollation } from "../../helpers/later-collation.js";

const [, , dir = "", log = "", first] = process.argv;
addLaterCollation();
const index = await ViewIndex.open({ dir, mapIn: "threads", threads: 1 });
let next = Number(first);
const updates: Promise<unknown>[] = [];
await index.compact(undefined, {
  onProgress: ({ phase, rows }) => {
    process.stdout.write(`${phase} ${rows}\n`);
    if (first === undefined) return;
    appendFileSync(log, `${JSON.stringify({ _id: `late-${next}`, name: `y${next}`, n: 1 })}\n`);
    next++;
    updates.push(index.update());
  },
});
process.stdout.write("renewed\n");
await Promise.all(updates);
await index.close();
process.stdout.write(`mebibytes ${Math.round(process.resourceUsage().maxRSS / 1024)}\n`);
