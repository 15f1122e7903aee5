// The database in memory behaves as a database does.

import { describe, expect, test } from "@jest/globals";
import { MemorySource } from "../../../indexer/sources/index.js";
import { drain, ids, rejection, sliceChunk, withCode } from "./collect.js";

describe("a database in memory", () => {
  test("delivers the latest state of each document in the order of writes", async () => {
    const source = new MemorySource();
    source.put({ _id: "a", n: 1 });
    source.put({ _id: "b" });
    const middle = source.put({ _id: "a", n: 2 });
    source.delete("b");
    const { seen, lastSeq } = await drain(source);
    expect(seen.map((one) => [one.id, one.deleted])).toEqual([
      ["a", false],
      ["b", true],
    ]);
    expect(lastSeq).toBe(await source.latest());
    expect(ids((await drain(source, { since: middle })).seen)).toEqual(["b"]);
    expect(ids((await drain(source, { chunkBytes: 1 })).seen)).toEqual(["a", "b"]);
    expect(await source.extent(middle)).toEqual({ changes: 1 });
    expect([await source.resumable(middle), await source.resumable("99")]).toEqual([true, false]);
  });

  test("gives revisions, and keeps raw text as it is", async () => {
    const source = new MemorySource();
    source.put('{"_id":"a","_rev":"3-x","10":1,"2":1.0}');
    source.put({ _id: "b" });
    source.put({ _id: "b", n: 1 });
    const [a, b, c] = await source.documents([{ id: "a" }, { id: "b" }, { id: "c" }]);
    expect(a).toBe('{"_id":"a","_rev":"3-x","10":1,"2":1.0}');
    expect(b).toMatch(/^\{"_id":"b","_rev":"2-[0-9a-f]{16}","n":1\}$/);
    expect(c).toBeUndefined();
    expect(
      await source.documents([
        { id: "a", rev: "3-x" },
        { id: "a", rev: "1-x" },
      ]),
    ).toEqual([a, undefined]);
  });

  test("shows design documents, deleted ones not", async () => {
    const source = new MemorySource();
    source.put({ _id: "_design/b" });
    source.put({ _id: "_design/a", _rev: "1-a" });
    source.delete("_design/b");
    expect(await source.designDocuments()).toEqual([
      { id: "_design/a", rev: "1-a", json: '{"_id":"_design/a","_rev":"1-a"}' },
    ]);
  });

  test("tells purges, which leave no row; a document that was written again is not among them", async () => {
    const source = new MemorySource();
    for (const _id of ["a", "b", "c"]) source.put({ _id });
    const before = await source.latest();
    const { purgeSeq } = await source.purges(undefined);
    source.purge("a");
    source.purge("b");
    source.put({ _id: "b" });
    expect(ids((await drain(source, { since: before })).seen)).toEqual(["b"]);
    expect(await source.purges(purgeSeq)).toMatchObject({ ids: ["a"], reset: false });
    expect(await source.purges((await source.purges(purgeSeq)).purgeSeq)).toMatchObject({
      ids: [],
    });
  });

  test("takes rows of a feed as they are", async () => {
    const source = new MemorySource();
    source.putRow({
      id: "a",
      changes: [{ rev: "1-a" }],
      doc: { _id: "a", _rev: "1-a", _conflicts: ["1-b"] },
    });
    source.putRow({ id: "b", changes: [{ rev: "2-b" }], deleted: true });
    const { seen } = await drain(source);
    expect(seen.map((one) => one.doc)).toEqual([
      '{"_id":"a","_rev":"1-a","_conflicts":["1-b"]}',
      '{"_id":"b","_rev":"2-b","_deleted":true}',
    ]);
    expect(await source.documents([{ id: "a" }, { id: "b" }, { id: "b", rev: "2-b" }])).toEqual([
      '{"_id":"a","_rev":"1-a"}',
      undefined,
      '{"_id":"b","_rev":"2-b","_deleted":true}',
    ]);
  });

  test("is followed until it is aborted", async () => {
    const source = new MemorySource();
    const abort = new AbortController();
    const feed = source.changes({ until: "forever", signal: abort.signal })[Symbol.asyncIterator]();
    const take = async (): Promise<string[]> => {
      const next = await feed.next();
      return next.done === true ? [] : ids(sliceChunk(next.value, source));
    };
    const first = take();
    source.put({ _id: "a" });
    expect(await first).toEqual(["a"]);
    source.put({ _id: "b" });
    source.put({ _id: "c" });
    expect(await take()).toEqual(["b", "c"]);
    const last = rejection(take());
    abort.abort();
    expect(await last).toEqual(withCode("INDEXER_ABORTED"));
  });

  test("refuses a document without an id", () => {
    const source = new MemorySource();
    expect(() => source.put('{"n":1}')).toThrow(withCode("SOURCE_MALFORMED"));
    expect(() => source.put("nonsense")).toThrow(withCode("SOURCE_MALFORMED"));
  });
});
