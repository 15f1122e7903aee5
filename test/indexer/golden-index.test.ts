// An index directory that was written once and is never made again: format version 2 of its file, version 1 of its manifest and of the order
// of keys. Ids wait in the file's log. Every later version opens it, proves it and answers from it.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "@jest/globals";

import { ViewIndex } from "../../indexer/index.js";
import { answerText } from "../helpers/index-content.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const FIXTURE = fileURLToPath(new URL("../../../test/fixtures/format/v2/index", import.meta.url));

async function rows(index: ViewIndex, view: string, parameters: object = {}): Promise<unknown[]> {
  const text = await answerText(index, "golden", view, { ...parameters });
  return (JSON.parse(text) as { rows: unknown[] }).rows;
}

async function expectGolden(index: ViewIndex): Promise<void> {
  expect((await index.verify()).map(({ faults }) => faults)).toEqual([[]]);
  expect(await rows(index, "spent")).toEqual([
    { key: null, value: { sum: 1069.5, count: 38, min: -7, max: 58.5, sumsqr: 43478.75 } },
  ]);
  expect(await rows(index, "spent", { key: "user changed", reduce: false })).toEqual([
    { id: "doc-3", key: "user changed", value: -3 },
    { id: "doc-5", key: "user changed", value: -5 },
    { id: "doc-7", key: "user changed", value: -7 },
  ]);
  expect(await rows(index, "tags", { group_level: 1 })).toEqual([
    { key: ["ä"], value: 26 },
    { key: ["b"], value: 18 },
    { key: ["B"], value: 8 },
    { key: ["new"], value: 3 },
  ]);
  expect(await rows(index, "ids", { startkey: "doc-8", endkey: "doc-9\ufff0" })).toEqual([
    { id: "doc-8", key: "doc-8", value: null },
  ]);
  const errors: unknown[] = [];
  for await (const { id, view, reason } of index.errors()) errors.push({ id, view, reason });
  expect(errors).toEqual([{ id: "doc-33", view: "spent", reason: expect.stringContaining("bad") }]);
  expect((await index.info()).groups[0]).toMatchObject({ documents: 39, errors: 1 });
}

test("an index of format version 2 is proved, asked, and compacted", async () => {
  const dir = join(tempDir(), "index");
  cpSync(FIXTURE, dir, { recursive: true });
  const reader = await ViewIndex.open({ dir: FIXTURE, readOnly: true, threads: 1 });
  await expectGolden(reader);
  await reader.close();

  const index = await ViewIndex.open({ dir, offline: true, threads: 1 });
  await index.compact();
  await expectGolden(index);
  await index.close();
});
