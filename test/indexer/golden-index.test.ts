// Index directories that were written once and are never made again: format version 2 of the file, version 1 of the manifest and of the order
// of keys. Ids wait in the file's log. `index` is of format 1 of the group, `index-2` of format 2: its id entries hold dropped rows. Every later
// version opens them, proves them and answers from them.

import { cpSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, expect, test } from "@jest/globals";

import { ViewIndex } from "../../indexer/index.js";
import { answerText } from "../helpers/index-content.js";
import { downgrade, EQUAL_ONCE, IGNORED_ONCE, upgrade } from "../helpers/later-collation.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();
afterEach(downgrade);

const FIXTURES = fileURLToPath(new URL("../../../test/fixtures/format/v2/", import.meta.url));
const FIXTURE = join(FIXTURES, "index");

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

/** Keys and sums of the view of `index-2`. */
async function words(index: ViewIndex): Promise<unknown> {
  expect((await index.verify()).map(({ faults }) => faults)).toEqual([[]]);
  const all = (await rows(index, "words", { group: true })) as { key: string; value: number }[];
  expect(await rows(index, "raw")).toEqual([{ key: null, value: 23 }]);
  return all.map(({ key, value }) => [key, value]);
}

test("an index with dropped rows is proved, asked without them, compacted with them, and renewed to have them back", async () => {
  const dir = join(tempDir(), "index");
  cpSync(join(FIXTURES, "index-2"), dir, { recursive: true });
  const [parts, whole] = EQUAL_ONCE;
  const kept = [
    [IGNORED_ONCE, 7],
    [`d${IGNORED_ONCE}`, 22],
    [whole, 315],
    ["plain", 26],
  ];
  const before = await ViewIndex.open({ dir, offline: true, threads: 1 });
  expect(await words(before)).toEqual(kept);
  await before.compact();
  expect(await words(before)).toEqual(kept);
  await before.close();

  upgrade();
  const index = await ViewIndex.open({ dir, offline: true, threads: 1 });
  expect(await words(index)).toEqual(kept);
  await index.compact();
  expect(await words(index)).toEqual([
    ["", 8],
    ["d", 22],
    [IGNORED_ONCE, 7],
    [`d${IGNORED_ONCE}`, 22],
    [parts, 33],
    [whole, 315],
    ["plain", 26],
  ]);
  await index.close();
});

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
