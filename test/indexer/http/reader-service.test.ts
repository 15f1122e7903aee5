// A reader process between the writer's answers and its notices: the two may arrive together, in one read of the channel.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

import { expect, test } from "@jest/globals";

import { ReaderService, type WriterLink } from "../../../indexer/http/reader-service.js";
import { FileStamp } from "../../../indexer/sources/index.js";
import { ViewIndex } from "../../../indexer/view-index.js";
import type { GroupPlace } from "../../../indexer/view-index.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const DESIGN = { _id: "_design/d", views: { v: { map: "function (doc) { emit(doc._id); }" } } };

test("what the writer told before it said that this holds no longer is not kept", async () => {
  const dir = tempDir();
  const feed = join(dir, "feed.ndjson");
  writeFileSync(feed, `${JSON.stringify({ _id: "a" })}\n`);
  const options = { dir: join(dir, "index"), source: feed, mapIn: "threads", threads: 1 } as const;
  await using writer = await ViewIndex.open({ ...options, designDocuments: [DESIGN] });
  await writer.update();
  await using reader = await ViewIndex.open({ dir: options.dir, readOnly: true });

  const file = { path: feed, snapshot: true };
  const stamp = new FileStamp(file).read();
  const found = { ...(await writer.findView("d", "v")), stamp };
  const place: GroupPlace = { ...(await writer.place(found, true)), stamp };
  const asked: ((place: GroupPlace) => void)[] = [];
  const link = {
    call: () => new Promise((resolve) => asked.push(resolve)),
  } as unknown as WriterLink;
  const service = new ReaderService(reader, link, file);
  const open = (): Promise<unknown> =>
    service.view(
      "d",
      "v",
      () => true,
      () => true,
    );

  const first = open();
  while (asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  asked[0]?.(place);
  service.forget();
  await first;

  const second = open();
  while (asked.length === 1) await new Promise((resolve) => setImmediate(resolve));
  asked[1]?.(place);
  await second;

  // Told after the notice, it holds as long as the source stays as it is.
  await open();
  expect(asked).toHaveLength(2);
});
