// The walk over members: lenient, but it must never find a member that is not there.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { memberText, withoutMembers } from "../../../indexer/sources/index.js";
import { RowSplitter } from "../../../indexer/sources/row-splitter.js";

describe("members of an object", () => {
  test("are found by name, the last of repeated ones, as written", () => {
    const text = Buffer.from(' {"a" : 1.50 ,"b":{"a":2},"a": [ 1 ],"\\u0061\\"":3}');
    expect(memberText(text, "a")).toBe("[ 1 ]");
    expect(memberText(text, "b")).toBe('{"a":2}');
    expect(memberText(text, 'a"')).toBe("3");
    expect(memberText(text, "c")).toBeUndefined();
  });

  test.each([
    "",
    "[1]",
    "{",
    '{"a"}',
    '{"a":}',
    '{"a":1',
    '{"a":1 "b":2}',
    '{"a" 1}',
    "{a:1}",
    '{"a":"x}',
    '{"a":[1}',
  ])("are not found in %j", (text) => {
    expect(memberText(Buffer.from(text), "a")).toBeUndefined();
  });

  test("can be left out", () => {
    const hidden = new Set(["_conflicts", "_local_seq"]);
    expect(withoutMembers('{"_id":"a","_conflicts":["x"],"n":1}', hidden)).toBe(
      '{"_id":"a","n":1}',
    );
    expect(withoutMembers('{"_conflicts":[]}', hidden)).toBe("{}");
    const same = '{ "text":"_conflicts" }';
    expect(withoutMembers(same, hidden)).toBe(same);
  });
});

describe("rows of an answer", () => {
  // As it comes back from text: there is no -0 in JSON that JavaScript prints.
  const json = fc
    .jsonValue({ maxDepth: 3 })
    .map((value) => JSON.parse(JSON.stringify(value)) as unknown);
  const row = fc.dictionary(fc.string(), json);

  function split(text: string, kind: "envelope" | "rows", sizes: readonly number[]): RowSplitter {
    const splitter = new RowSplitter(kind);
    const bytes = Buffer.from(text);
    for (let at = 0, i = 0; at < bytes.length; i++) {
      const size = sizes[i % sizes.length] ?? 1;
      splitter.push(Uint8Array.from(bytes.subarray(at, at + size)));
      at += size;
    }
    return splitter;
  }

  function linesOf(splitter: RowSplitter): unknown[] {
    const taken = splitter.take();
    if (!taken) return [];
    const lines = Buffer.from(taken.data).toString("utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(taken.count);
    expect(Buffer.from(taken.lastRow).toString("utf8")).toBe(lines.at(-1));
    return lines.map((line) => JSON.parse(line) as unknown);
  }

  test("come out whole, whatever the pieces and the line breaks, and what is around them apart", () => {
    fc.assert(
      fc.property(
        fc.array(row),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }),
        fc.integer({ min: 0, max: 2 }),
        (rows, sizes, indent) => {
          const text = JSON.stringify(
            { results: rows, last_seq: 'a"]}', pending: 3 },
            null,
            indent,
          );
          const splitter = split(text, "envelope", sizes);
          expect(linesOf(splitter)).toEqual(rows);
          expect(JSON.parse(splitter.envelope)).toEqual({
            results: [],
            last_seq: 'a"]}',
            pending: 3,
          });
        },
      ),
    );
  });

  test("come out one by one from a continuous feed", () => {
    fc.assert(
      fc.property(
        fc.array(row),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }),
        (rows, sizes) => {
          const text = rows.map((one) => `${JSON.stringify(one)}\n\n`).join("");
          expect(linesOf(split(text, "rows", sizes))).toEqual(rows);
        },
      ),
    );
  });

  test("can be taken as they come", () => {
    const splitter = new RowSplitter("rows");
    splitter.push(Buffer.from('{"a":1}\n{"b":'));
    expect(linesOf(splitter)).toEqual([{ a: 1 }]);
    expect(splitter.pendingBytes).toBe(5);
    expect(splitter.take()).toBeUndefined();
    splitter.push(Buffer.from('2}{"c":3}'));
    expect(linesOf(splitter)).toEqual([{ b: 2 }, { c: 3 }]);
  });
});
