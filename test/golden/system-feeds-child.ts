// Updates the index in argv[2] from the source argv[3] for ever, and says so each time, until it is killed. With argv[4] "hold" it
// updates once and keeps the directory open.

import { readFileSync } from "node:fs";

import { ViewIndex } from "../../indexer/index.js";

const [, , dir = "", source = "", designFile = "", what = ""] = process.argv;
const index = await ViewIndex.open({
  dir,
  source,
  designDocuments: [readFileSync(designFile, "utf8")],
  mapIn: "threads",
  threads: 1,
  chunkBytes: 4000,
  minDocuments: 20,
});
process.stdout.write("open\n");
do {
  await index.update();
  process.stdout.write("updated\n");
} while (what !== "hold");
process.stdin.resume();
