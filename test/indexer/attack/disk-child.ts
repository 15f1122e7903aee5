// A process that goes on after a full disk: index files cannot be written for a while, then they can again. Prints what each step came to.

import fs, { appendFileSync, readlinkSync, writeFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { join } from "node:path";

const [, , dir = ""] = process.argv;
let full = false;
const { writeSync } = fs;
fs.writeSync = ((fd: number, data: NodeJS.ArrayBufferView, ...rest: never[]): number => {
  if (full && readlinkSync(`/proc/self/fd/${fd}`).endsWith(".vmx"))
    throw Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" });
  return writeSync(fd, data as Uint8Array, ...rest);
}) as typeof fs.writeSync;
syncBuiltinESMExports();

const { ViewIndex } = await import("../../../indexer/index.js");

const feed = join(dir, "feed.ndjson");
const row = (n: number): string =>
  `{"seq":${n},"id":"k${n}","changes":[],"doc":{"_id":"k${n}","n":${n}}}\n`;
writeFileSync(feed, row(1));
const index = await ViewIndex.open({
  dir: join(dir, "index"),
  source: `changes:${feed}`,
  mapIn: "threads",
  threads: 1,
  designDocuments: [
    {
      _id: "_design/d",
      views: { n: { map: "function (doc) { emit(doc.n, 1) }", reduce: "_count" } },
    },
  ],
});
await index.update();
const steps: unknown[] = [];
appendFileSync(feed, row(2));
full = true;
await index.update().catch((error: unknown) => steps.push((error as { code?: string }).code));
const told = async (update: boolean): Promise<unknown> =>
  (await (await index.query("d", "n", { update })).object()).rows.map(
    (r) => (r as { value?: unknown }).value,
  );
steps.push(await told(false));
full = false;
steps.push(await told(true));
await index.close();
process.stdout.write(JSON.stringify(steps));
