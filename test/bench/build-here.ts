// A first build through the library, in a process of its own.
//
//   node dist/test/bench/build-here.js DIR FILE KIND THREADS threads|processes      prints {"ms":…,"mapMs":…}

import { ViewIndex } from "../../indexer/index.js";
import { designDocument, type Kind } from "./views.js";

const [dir = "", source = "", kind = "one", threads = "2", mapIn = "threads"] =
  process.argv.slice(2);
const began = performance.now();
let mapMs = 0;
const index = await ViewIndex.open({
  dir,
  source,
  designDocuments: [designDocument(kind as Kind)],
  threads: Number(threads),
  mapIn: mapIn === "processes" ? "processes" : "threads",
});
await index.update({
  onProgress: ({ phase }) => {
    if (phase === "map") mapMs = performance.now() - began;
  },
});
await index.close();
console.log(JSON.stringify({ ms: performance.now() - began, mapMs }));
