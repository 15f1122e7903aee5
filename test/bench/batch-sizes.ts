// What a minimum for bulk insertions buys: the same changes, indexed in updates of 100, 1000, 10 000, … at a time, and in one update with
// growing minimums. One JSON line a case.
//
//   node dist/test/bench/batch-sizes.js [documents, default 200000] [changes, default 100000]

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ViewIndex } from "../../indexer/index.js";
import { ChangesFeed, type Change } from "./changes-feed.js";
import { measureHere } from "./process-tree.js";
import { dataDirectory } from "./subject.js";
import { verifyOpen } from "./verify-index.js";
import { designDocument, expectedOf } from "./views.js";

const documents = Number(process.argv[2] ?? 200_000);
const changes = Number(process.argv[3] ?? 100_000);

async function run(name: string, changesAnUpdate: number, minDocuments: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "viewmill-bench-"));
  const feed = await ChangesFeed.create(dataDirectory(), join(folder, "feed.ndjson"), documents);
  const index = await ViewIndex.open({
    dir: join(folder, "index"),
    source: `changes:${feed.path}`,
    designDocuments: [designDocument("one")],
    mapIn: "threads",
    threads: 2,
    minDocuments,
    minBytes: 2 ** 40,
  });
  try {
    await index.update();
    const file = (await index.info()).groups[0]?.file ?? "";
    const before = statSync(file).size;
    const made: Change[] = feed.make(changes, "keys changed");
    const { wallMs, cpuMs } = await measureHere(async () => {
      for (let from = 0; from < made.length; from += changesAnUpdate) {
        feed.append(made.slice(from, from + changesAnUpdate));
        await index.update();
      }
    });
    const written = statSync(file).size - before;
    await verifyOpen(index, "one", expectedOf(feed.base, "one", feed.latest));
    console.log(
      JSON.stringify({
        name,
        changes,
        usAChange: Math.round((wallMs * 1000) / changes),
        cpuUsAChange: Math.round((cpuMs * 1000) / changes),
        bytesWrittenAChange: Math.round(written / changes),
        fileMB: Math.round((before + written) / 1e6),
      }),
    );
  } finally {
    await index.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

for (const size of [100, 1000, 10_000])
  if (size <= changes) await run(`updates of ${size}, synced each`, size, 1);
for (const least of [1, 20_000, 50_000, 100_000])
  if (least <= changes) await run(`one update, minimum ${least} documents`, changes, least);
