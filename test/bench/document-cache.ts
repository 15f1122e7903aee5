// What an included document costs: from the document cache, from the file with the system's page cache warm, and with it dropped (needs root
// on Linux; left out elsewhere). One JSON line a case: percentiles in microseconds a document. Of lone requests each is a document, and asks
// the source whether it has changed; a query asks that once for a batch of rows, and each of its requests is the mean of a batch. What a query
// pays in all for its documents is told by the same query without them; a document's text is not copied until it is sent.
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
const ROWS = 100;
const QUERIES = 1000;

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
  tell(name, times);
}

/** @param times - microseconds a document. */
function tell(name: string, times: number[]): void {
  const at = (share: number): number => Number(percentile(times, share).toPrecision(3));
  console.log(
    JSON.stringify({
      name,
      docBytes,
      requests: times.length,
      p50: at(0.5),
      p93: at(0.93),
      p99: at(0.99),
      max: at(1),
    }),
  );
}

/** Microseconds a row of queries for `ROWS` rows, which were asked for before. */
async function queryTimes(index: ViewIndex, includeDocs: boolean): Promise<number[]> {
  const parameters = { reduce: false, limit: ROWS, include_docs: includeDocs };
  const times: number[] = [];
  for (let i = -QUERIES; i < QUERIES; i++) {
    const began = performance.now();
    const answer = await index.query("one", "by_user", parameters);
    let rows = 0;
    for await (const page of answer.pages()) rows += page.length;
    if (i >= 0) times.push(((performance.now() - began) * 1000) / rows);
    check(rows === ROWS, `${rows} rows`);
  }
  return times;
}

/** Requests of as many documents as a query asks for at once. */
async function batchTimes(index: ViewIndex, ids: readonly string[]): Promise<number[]> {
  const random = new Random(5);
  const times: number[] = [];
  for (let i = -QUERIES; i < QUERIES; i++) {
    const requests = Array.from({ length: ROWS }, () => ({ id: random.pick(ids) }));
    const began = performance.now();
    const texts = await index.documents(requests);
    if (i >= 0) times.push(((performance.now() - began) * 1000) / ROWS);
    check(!texts.includes(undefined), "a document was not found");
  }
  return times;
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
  await measure(
    "hit in the document cache, alone, with the question to the source",
    cached,
    few,
    REQUESTS,
  );
  tell(`hit in the document cache, ${ROWS} at a time`, await batchTimes(cached, few));
  await cached.update();
  const plain = await queryTimes(cached, false);
  tell(`row of a query, ${ROWS} rows`, plain);
  const withDocuments = await queryTimes(cached, true);
  tell(`row of a query with its document from the cache, ${ROWS} rows`, withDocuments);
  const usual = percentile(plain, 0.5);
  tell(
    "what the document adds to a row of a query",
    withDocuments.map((time) => time - usual),
  );
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
