// Limits on what one document may bring forth: the document is recorded, the others are indexed.

import { describe, expect, test } from "@jest/globals";

import { MemorySource } from "../../indexer/sources/index.js";
import { ViewIndex } from "../../indexer/view-index.js";
import { removeTempDirs, tempDir } from "../helpers/temp-dir.js";

removeTempDirs();

const DDOC = {
  _id: "_design/d",
  views: { v: { map: "function (doc) { for (var i = 0; i < doc.n; i++) emit(i, doc.text) }" } },
};

describe.each(["threads", "processes"] as const)("mapping in %s", (mapIn) => {
  test.each([
    ["emit_limit", { rowsMax: 10 }],
    ["output_limit", { outputCharsMax: 200 }],
  ])("%s stops a document that emits too much", async (name, limits) => {
    const source = new MemorySource();
    source.put({ _id: "few", n: 2, text: "x" });
    source.put({ _id: "many", n: 100, text: "x" });
    const index = await ViewIndex.open({
      dir: tempDir(),
      source,
      designDocuments: [DDOC],
      mapIn,
      limits,
      threads: 1,
    });

    await index.update();

    const errors: string[] = [];
    for await (const { id, reason } of index.errors()) errors.push(`${id}: ${reason}`);
    expect(errors).toHaveLength(1);
    expect(errors[0]).toContain("many");
    expect(errors[0]).toContain(name);
    expect((await (await index.query("d", "v")).object()).rows).toHaveLength(2);
    await index.close();
  });
});
