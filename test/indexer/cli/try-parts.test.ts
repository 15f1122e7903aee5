// What `viewmill try` is made of: places in an author's files, and small streams of JSON lines.

import { join } from "node:path";

import { describe, expect, test } from "@jest/globals";

import { loadDesignFile } from "../../../indexer/cli/design-files.js";
import { readObjects } from "../../../indexer/cli/try-ndjson.js";
import { codeFrame, SourceOrigins } from "../../../indexer/cli/try-origins.js";
import { removeTempDirs } from "../../helpers/temp-dir.js";
import { shop } from "./shop.js";

removeTempDirs();

describe("origins", () => {
  test("bundles do not depend on the current folder", async () => {
    const dir = shop();
    const before = process.cwd();
    const here = await loadDesignFile(join(dir, "shop"));
    try {
      process.chdir(dir);
      expect(await loadDesignFile("shop")).toEqual(here);
    } finally {
      process.chdir(before);
    }
  });

  test("every statement of a bundle leads to its own line", async () => {
    const dir = shop();
    const origins = new SourceOrigins();
    const design = (await loadDesignFile(join(dir, "shop"), origins)) as {
      views: { by_day: { map: string } };
    };
    const { map } = design.views.by_day;
    const lines = map.split("\n");
    const at = (text: string): string => {
      const line = lines.findIndex((candidate) => candidate.includes(text));
      const place = origins.locate(map, line + 1, (lines[line] ?? "").indexOf(text) + 1);
      return `${place?.file.split(/[\\/]/).at(-1) ?? ""}:${place?.line ?? 0}:${place?.column ?? 0} ${place?.text?.trim() ?? ""}`;
    };
    expect(at("log(")).toBe('map.ts:6:3 log("seen " + doc._id);');
    expect(at("emit(")).toBe("map.ts:7:3 emit(dayOf(doc), doc.total);");
    expect(at("return at.day")).toBe("day.ts:5:3 return at.day.slice(0, 10);");
    expect(origins.locate("function () {}", 1, 1)).toBeUndefined();
  });

  test("frames keep tabs and cut long lines", () => {
    expect(codeFrame({ line: 12, column: 3, text: "\t\tx();" })).toEqual([
      "12 | \t\tx();",
      "   | \t\t^",
    ]);
    const long = codeFrame({ line: 1, column: 500, text: `${"y".repeat(499)}x${"z".repeat(500)}` });
    expect(long[0]?.length).toBeLessThan(200);
    expect(long[0]?.[long[1]?.indexOf("^") ?? 0]).toBe("x");
  });
});

describe("small NDJSON streams", () => {
  async function* chunks(text: string, size: number): AsyncGenerator<Uint8Array> {
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; at += size) {
      await Promise.resolve();
      yield bytes.subarray(at, at + size);
    }
  }

  test.each([1, 3, 1000])("are read whole in chunks of %d bytes", async (size) => {
    const text = '{"a":"é"}\r\n\n  \n{"b":null}\n{"c":[1]}';
    expect(await readObjects(chunks(text, size), "here")).toEqual([
      { a: "é" },
      { b: null },
      { c: [1] },
    ]);
  });

  test("are read no further than asked", async () => {
    async function* endless(): AsyncGenerator<string> {
      for (let i = 0; ; i++) {
        await Promise.resolve();
        yield `{"i":${i}}\n`;
      }
    }
    expect(await readObjects(endless(), "here", 3)).toEqual([{ i: 0 }, { i: 1 }, { i: 2 }]);
  });

  test.each([
    ["null", '{"a":1}\nnull\n{"a":2}\n', "here, line 2: expected a JSON object: null"],
    ["an array", "\n[1]\n", "here, line 2: expected a JSON object: [1]"],
    ["half an object", '{"a":\n{"a":2}\n', 'here, line 1: not JSON: {"a":'],
    [
      "a line without end",
      `{"a":"${"x".repeat(2 ** 20)}`,
      "here, line 1: longer than 1048576 bytes",
    ],
  ])("refuse %s with the line", async (_name, text, message) => {
    await expect(readObjects(chunks(text, 65_536), "here")).rejects.toThrow(message);
  });
});
