// Keys that collate equally and are not the same (VIEWS §6): each row shows its own, whichever comes first.

import { afterAll, beforeAll, expect, test } from "@jest/globals";

import { MemorySource, ViewIndex } from "../../../indexer/index.js";
import { removeTempDirs, tempDir } from "../../helpers/temp-dir.js";

removeTempDirs();

const KEYS = ["ab", "a\u0000b", "ab", "a\u0001b", "a\u0000b", "ab", "\u0000ab"];
let index: ViewIndex;

beforeAll(async () => {
  const source = new MemorySource("equal");
  for (const [n, key] of KEYS.entries()) source.put({ _id: `doc-${n}`, key });
  const views = { v: { map: "(doc) => emit(doc.key, 1)", reduce: "_count" } };
  index = await ViewIndex.open({
    dir: tempDir(),
    source,
    mapIn: "threads",
    threads: 1,
    designDocuments: [{ _id: "_design/d", views }],
  });
});

afterAll(() => index.close());

test.each([{}, { key: "ab" }, { startkey: "aa" }, { keys: ["ab"] }])(
  "of the rows of %j",
  async (parameters) => {
    const asked = { ...parameters, reduce: false };
    const { rows } = await (await index.query("d", "v", asked)).object();
    expect(rows.map(({ key }) => key)).toEqual(KEYS);
    const iterated: unknown[] = [];
    for await (const { key } of (await index.query("d", "v", asked)).rows()) iterated.push(key);
    expect(iterated).toEqual(KEYS);
    let text = "";
    for await (const part of (await index.query("d", "v", asked)).text()) text += part;
    const told = JSON.parse(text) as { rows: { key: unknown }[] };
    expect(told.rows.map(({ key }) => key)).toEqual(KEYS);
  },
);
