// Documents of files by id and revision, and their design documents.

import { appendFileSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { ChangesFileSource, NdjsonSource } from "../../../indexer/sources/index.js";
import { LookupSegment } from "../../../indexer/sources/lookup-segment.js";
import { LookupTables } from "../../../indexer/sources/lookup-tables.js";
import { generateLines } from "../../bench/generator.js";
import { temporaryFolder } from "./collect.js";

function fileOf(text: string): string {
  const path = join(temporaryFolder(), "data.ndjson");
  writeFileSync(path, text);
  utimesSync(path, new Date(0), new Date(0));
  return path;
}

function change(id: string, rev: string, members: object, deleted = false): string {
  const doc = { _id: id, _rev: rev, ...(deleted ? { _deleted: true } : {}), ...members };
  const row = { seq: rev, id, changes: [{ rev }], ...(deleted ? { deleted } : {}), doc };
  return `${JSON.stringify(row)}\n`;
}

describe("documents of a file of documents", () => {
  test("come as their raw text, in the order asked, the last line of an id", async () => {
    const source = new NdjsonSource(
      fileOf(
        '{"_id":"a","n":1.0}\n{"_id":"b"}\r\n{"_id":"a","2":1,"1":2}\n{"_id":"gone","_deleted":true}\n',
      ),
    );
    expect(
      await source.documents([
        { id: "b" },
        { id: "nope" },
        { id: "a" },
        { id: "gone" },
        { id: "b" },
      ]),
    ).toEqual(['{"_id":"b"}', undefined, '{"_id":"a","2":1,"1":2}', undefined, '{"_id":"b"}']);
    await source.close();
  });

  test("are those of this moment: edits are seen", async () => {
    const path = fileOf('{"_id":"a","n":1}\n');
    const source = new NdjsonSource(path);
    expect(await source.documents([{ id: "a" }])).toEqual(['{"_id":"a","n":1}']);
    writeFileSync(path, '{"_id":"c"}\n{"_id":"a","n":2}\n');
    expect(await source.documents([{ id: "a" }, { id: "c" }])).toEqual([
      '{"_id":"a","n":2}',
      '{"_id":"c"}',
    ]);
  });

  test("carry the id that another member gave them", async () => {
    const source = new NdjsonSource(fileOf('{"sku":5,"x":1}\n'), { idField: "sku" });
    expect(await source.documents([{ id: "5" }])).toEqual(['{"sku":5,"x":1,"_id":"5"}']);
  });

  test("are found among many, and in a log as it grows", async () => {
    const lines = generateLines(3000, { seed: 5 });
    const path = fileOf(`${lines.slice(0, 1000).join("\n")}\n`);
    const source = new NdjsonSource(path, { append: true });
    const idOf = (line: string): string => (JSON.parse(line) as { _id: string })._id;
    for (let known = 1000; known <= 3000; known += 200) {
      const some = [0, 17, 999, known - 200, known - 1].map((i) => lines[i] ?? "");
      expect(await source.documents(some.map((line) => ({ id: idOf(line) })))).toEqual(some);
      appendFileSync(path, `${lines.slice(known, known + 200).join("\n")}\n`);
    }
    await source.close();
  });
});

describe("documents of a file of changes", () => {
  const text =
    change("a", "1-a", { n: 1 }) +
    change("a", "2-b", { n: 2, _conflicts: ["1-x"] }) +
    change("d", "1-d", { n: 1 }) +
    change("d", "2-d", {}, true) +
    '{"seq":9,"id":"e","changes":[{"rev":"3-e"}],"deleted":true}\n';

  test("are winners, or the revision asked for; a deleted revision is a stub", async () => {
    const source = new ChangesFileSource(fileOf(text));
    expect(
      await source.documents([
        { id: "a" },
        { id: "a", rev: "1-a" },
        { id: "a", rev: "9-z" },
        { id: "d" },
        { id: "d", rev: "1-d" },
        { id: "d", rev: "2-d" },
        { id: "e" },
        { id: "e", rev: "3-e" },
      ]),
    ).toEqual([
      '{"_id":"a","_rev":"2-b","n":2}',
      '{"_id":"a","_rev":"1-a","n":1}',
      undefined,
      undefined,
      '{"_id":"d","_rev":"1-d","n":1}',
      '{"_id":"d","_rev":"2-d","_deleted":true}',
      undefined,
      '{"_id":"e","_rev":"3-e","_deleted":true}',
    ]);
  });

  test("are told of as deleted to who asks for that", async () => {
    const source = new ChangesFileSource(fileOf(text));
    const asks = ["a", "d", "e", "none"].map((id) => ({ id, deleted: true }));
    expect(await source.documents(asks)).toEqual([
      '{"_id":"a","_rev":"2-b","n":2}',
      '{"_id":"d","_rev":"2-d","_deleted":true}',
      '{"_id":"e","_rev":"3-e","_deleted":true}',
      undefined,
    ]);
  });

  test("show conflicts only to who asks", async () => {
    const source = new ChangesFileSource(fileOf(text));
    expect(await source.documents([{ id: "a", conflicts: true }])).toEqual([
      '{"_id":"a","_rev":"2-b","n":2,"_conflicts":["1-x"]}',
    ]);
  });
});

describe("the lookup's side files", () => {
  test("serve the next process, follow growth, and are made again when the file is another", async () => {
    const folder = temporaryFolder();
    const path = join(temporaryFolder(), "data.ndjson");
    const lines = Array.from({ length: 60_010 }, (_, i) => `{"_id":"document-${i}"}`);
    writeFileSync(path, `${lines.slice(0, 60_000).join("\n")}\n`);
    const idOf = (line: string | undefined): string =>
      (JSON.parse(line ?? "") as { _id: string })._id;
    const asks = [0, 59_999].map((i) => ({ id: idOf(lines[i]) }));
    const expected = [lines[0], lines[59_999]];
    const first = new NdjsonSource(path, { append: true, lookupDir: folder });
    expect(await first.documents(asks)).toEqual(expected);
    await first.close();
    const files = readdirSync(folder);
    expect(files).toHaveLength(2);
    appendFileSync(path, `${lines.slice(60_000).join("\n")}\n`);
    const second = new NdjsonSource(path, { append: true, lookupDir: folder });
    expect(await second.documents([...asks, { id: idOf(lines[60_009]) }])).toEqual([
      ...expected,
      lines[60_009],
    ]);
    await second.close();
    expect(readdirSync(folder)).toEqual(files);
    writeFileSync(path, '{"_id":"x"}\n');
    const third = new NdjsonSource(path, { append: true, lookupDir: folder });
    expect(await third.documents([...asks, { id: "x" }])).toEqual([
      undefined,
      undefined,
      '{"_id":"x"}',
    ]);
    await third.close();
  });

  test("are nothing to rely on: damaged or missing ones are made again", async () => {
    const folder = temporaryFolder();
    const path = join(temporaryFolder(), "data.ndjson");
    const line = '{"_id":"document-7"}';
    const ask = { id: "document-7" };
    writeFileSync(
      path,
      Array.from({ length: 50_000 }, (_, i) => `{"_id":"document-${i}"}\n`).join(""),
    );
    for (const damage of [
      () => undefined,
      (file: string) => {
        writeFileSync(file, "{");
      },
      (file: string) => {
        writeFileSync(file, "");
      },
    ]) {
      for (const file of readdirSync(folder)) damage(join(folder, file));
      const source = new NdjsonSource(path, { append: true, lookupDir: folder });
      expect(await source.documents([ask])).toEqual([line]);
      await source.close();
    }
  });

  test("find every offset of a hash, last first, through any number of merges", () => {
    const hash = fc.oneof(fc.nat(5), fc.integer({ min: 0, max: 2 ** 32 - 1 }));
    fc.assert(
      fc.property(fc.array(fc.array(hash, { maxLength: 8 }), { maxLength: 80 }), (tables) => {
        const lookup = new LookupTables("test", undefined);
        const model = new Map<number, number[]>();
        let offset = 2 ** 40;
        for (const hashes of tables) {
          const start = offset;
          const offsets = hashes.map((one) => {
            model.set(one, [offset, ...(model.get(one) ?? [])]);
            return offset++;
          });
          const built = LookupSegment.build(
            start,
            offset,
            Uint32Array.from(hashes),
            Float64Array.from(offsets),
            hashes.length,
          );
          lookup.add(built);
        }
        for (const one of [0, 1, 5, 6, 2 ** 32 - 1, ...model.keys()]) {
          expect([...lookup.find(one)]).toEqual(model.get(one) ?? []);
        }
        lookup.close();
      }),
    );
  });

  test("find each of many entries in a merged file", () => {
    const folder = temporaryFolder();
    const count = 20_000;
    const hashes = Uint32Array.from({ length: count }, (_, i) => Math.imul(i, 0x9e3779b1));
    const segments = [0, 1].map((part) => {
      const offsets = Float64Array.from({ length: count }, (_, i) => part * count + i);
      return LookupSegment.build(part, part + 1, hashes, offsets, count);
    });
    const merged = LookupSegment.merge(segments, join(folder, "merged"));
    for (let i = 0; i < count; i += 7) {
      expect(merged.find(hashes[i] ?? 0)).toEqual([i, count + i]);
    }
    expect(merged.find(12_345)).toEqual([]);
    merged.close();
  });
});

describe("design documents of a file", () => {
  test("are found by id anywhere, the last line wins, a deletion removes", async () => {
    const path = fileOf(
      `${change("a", "1-a", { text: '"_design/fake' })}${change("_design/one", "1-a", { v: 1 })}` +
        change("_design/two", "1-b", {}) +
        change("_design/one", "2-c", { v: 2 }),
    );
    const source = new ChangesFileSource(path);
    const read = async (): Promise<string[][]> =>
      (await source.designDocuments()).map(({ id, rev, json }) => [id, rev, json]);
    expect(await read()).toEqual([
      ["_design/one", "2-c", '{"_id":"_design/one","_rev":"2-c","v":2}'],
      ["_design/two", "1-b", '{"_id":"_design/two","_rev":"1-b"}'],
    ]);
    appendFileSync(
      path,
      change("_design/two", "2-d", {}, true) + change("_design/zero", "1-z", {}),
    );
    expect((await read()).map(([id]) => id)).toEqual(["_design/one", "_design/zero"]);
  });

  test("of a snapshot are those of the file as it is, slashes escaped or not", async () => {
    const path = fileOf('{"_id":"_design\\/a"}\n{"_id":"x"}\n');
    const source = new NdjsonSource(path);
    expect((await source.designDocuments()).map((one) => one.id)).toEqual(["_design/a"]);
    writeFileSync(path, '{"x":1,"_id":"_design/b"}');
    expect((await source.designDocuments()).map((one) => one.id)).toEqual(["_design/b"]);
  });

  test("are found on both sides of a block's edge", async () => {
    const filler = `{"_id":"filler","x":"${"y".repeat(64 * 1024)}"}\n`;
    for (let shift = 0; shift < 12; shift++) {
      const before = filler.repeat(64).slice(0, 4 * 1024 * 1024 - shift);
      const text = `{"_id":"long","x":"${"z".repeat(before.length - 30)}"}\n{"_id":"_design/d"}\n${filler}`;
      const source = new NdjsonSource(fileOf(text));
      expect((await source.designDocuments()).map((one) => one.id)).toEqual(["_design/d"]);
    }
  });
});
