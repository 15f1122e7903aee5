// What an included document costs: from the document cache, from the file with the system's page cache warm, and with it dropped (needs root
// on Linux; left out elsewhere). One JSON line a case: percentiles of single requests in microseconds.
//
//   node dist/test/bench/document-cache.js [bytes a document, default 1200] [documents, default 20000]

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ViewIndex } from "../../indexer/index.js";
import { generateFile, Random } from "./generator.js";
import { readLines } from "./lines.js";
import { percentile } from "./numbers.js";
import { check } from "./subject.js";
import { designDocument } from "./views.js";

const docBytes = Number(process.argv[2] ?? 1200);
const count = Number(process.argv[3] ?? 20_000);
const REQUESTS = 20_000;
const COLD_REQUESTS = 300;

const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));

async function measure(
  name: string,
  index: ViewIndex,
  ids: readonly string[],
  requests: number,
  before: () => void = () => undefined,
): Promise<void> {
  const random = new Random(4);
  const times = new Array<number>(requests);
  for (let i = 0; i < requests; i++) {
    const id = random.pick(ids);
    before();
    const began = performance.now();
    const [text] = await index.documents([{ id }]);
    times[i] = (performance.now() - began) * 1000;
    check(text?.includes(id) === true, `document ${id} was not found`);
  }
  const at = (share: number): number => Number(percentile(times, share).toPrecision(3));
  console.log(
    JSON.stringify({
      name,
      docBytes,
      requests,
      p50: at(0.5),
      p93: at(0.93),
      p99: at(0.99),
      max: at(1),
    }),
  );
}

try {
  const path = join(folder, "documents.ndjson");
  await generateFile(path, count, { seed: 2, docBytes });
  const ids: string[] = [];
  for (const line of readLines(path)) ids.push(line.slice(8, 40));
  const open = (documentCacheBytes: number): Promise<ViewIndex> =>
    ViewIndex.open({
      dir: join(folder, "index"),
      source: path,
      designDocuments: [designDocument("one")],
      mapIn: "threads",
      documentCacheBytes,
    });
  // As many documents as the cache holds, so that every request is a hit.
  const few = ids.slice(0, Math.min(ids.length, 2000));
  const cached = await open(2 ** 30);
  for (const id of few) await cached.documents([{ id }]);
  await measure("warm-up", cached, few, REQUESTS);
  await measure("hit in the document cache", cached, few, REQUESTS);
  await cached.close();
  const uncached = await open(0);
  await uncached.documents([{ id: ids[0] ?? "" }]);
  await measure("read from the file, page cache warm", uncached, ids, REQUESTS);
  try {
    // Before each request: a read brings its neighbours along, and some hundred requests would have much of the file in memory.
    const drop = (): void => {
      writeFileSync("/proc/sys/vm/drop_caches", "1");
    };
    drop();
    await measure("read from the file, page cache dropped", uncached, ids, COLD_REQUESTS, drop);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error;
    console.log(
      JSON.stringify({ name: "page cache dropped", skipped: "the system does not allow it" }),
    );
  }
  await uncached.close();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
