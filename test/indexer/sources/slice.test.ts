// Slicing is the one place that reads documents without parsing them: it must find exactly what JSON.parse would.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { Slices, sliceChanges, sliceDocuments } from "../../../indexer/sources/index.js";
import type { SliceOptions } from "../../../indexer/sources/index.js";
import { PlainLines } from "../../../indexer/sources/plain-lines.js";
import { SLICE_DESIGN } from "../../../indexer/sources/slices.js";
import { ids, seenOf, wellFormed, withCode, type Seen } from "./collect.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 200);
const ORIGIN = { label: "docs.ndjson", firstLine: 1 };

function documents(text: string | Uint8Array, options: SliceOptions = {}): Seen[] {
  const slices = new Slices();
  sliceDocuments(typeof text === "string" ? Buffer.from(text) : text, slices, options, ORIGIN);
  return seenOf(slices);
}

function changes(text: string): Seen[] {
  const slices = new Slices();
  sliceChanges(Buffer.from(text), slices, {}, ORIGIN);
  return seenOf(slices);
}

describe("slicing documents", () => {
  test("gives id and text of each line", () => {
    const seen = documents('{"_id":"a","n":1}\n{"_id":"b"}\n');
    expect(seen.map(({ id, doc, deleted }) => [id, doc, deleted])).toEqual([
      ["a", '{"_id":"a","n":1}', false],
      ["b", '{"_id":"b"}', false],
    ]);
  });

  test("takes CRLF, blank lines, a byte order mark and a last line without its end", () => {
    const text = '\ufeff{"_id":"a"}\r\n\r\n   \n\n{"_id":"b","x":1} \r\n  {"n":2,"_id":"c"}';
    const seen = documents(text);
    expect(ids(seen)).toEqual(["a", "b", "c"]);
    expect(seen.map((one) => one.doc)).toEqual([
      '{"_id":"a"}',
      '{"_id":"b","x":1}',
      '{"n":2,"_id":"c"}',
    ]);
  });

  test.each([
    ["not first", '{"a":{"_id":"no"},"_id":"yes"}'],
    ["twice: the last one counts", '{"_id":"no","x":1,"_id":"yes"}'],
    ["again in a nested object", '{"_id":"yes","x":{"_id":"no"}}'],
    ["again in a string", '{"_id":"yes","x":"\\"_id\\":\\"no\\""}'],
    ["spelled with an escape", '{"\\u005fid":"yes"}'],
    ["spelled with an escape, a second time", '{"_id":"no","\\u005fi\\u0064":"yes"}'],
    ["a value with escapes", '{"_id":"\\u0079e\\u0073"}'],
    ["with blanks around", ' { "_id" : "yes" , "x" : [ ] } '],
    ["after brackets in strings", '{"s":"}{][\\\\","_id":"yes"}'],
  ])("finds an _id that is %s", (_, line) => {
    expect(ids(documents(`${line}\n`))).toEqual(["yes"]);
    expect(ids(documents(`{"_id":"first"}\n${line}\n{"_id":"last"}`))).toEqual([
      "first",
      "yes",
      "last",
    ]);
  });

  test("decodes ids to UTF-8, lone surrogates to U+FFFD", () => {
    const seen = documents('{"_id":"é\\n\\ud83d\\ude00"}\n{"_id":"plain"}\n{"_id":"x\\ud800"}\n');
    expect(ids(seen)).toEqual(["é\n😀", "plain", "x\ufffd"]);
  });

  test("says which documents are deletions and which are designs, and leaves local ones out", () => {
    const slices = new Slices();
    const lines = [
      '{"_id":"a","_deleted":true}',
      '{"_id":"b","_deleted":false}',
      '{"_id":"c","x":{"_deleted":true}}',
      '{"_id":"_local/d"}',
      '{"_id":"_design/e"}',
      '{"_id":"f","\\u005fdeleted":true}',
      '{"_id":"_other"}',
    ];
    sliceDocuments(Buffer.from(lines.join("\n")), slices, {}, ORIGIN);
    const seen = seenOf(slices);
    expect(seen.map((one) => [one.id, one.deleted])).toEqual([
      ["a", true],
      ["b", false],
      ["c", false],
      ["_design/e", false],
      ["f", true],
      ["_other", false],
    ]);
    expect(Array.from(slices.flags.subarray(0, 6)).map((flags) => flags & SLICE_DESIGN)).toEqual([
      0,
      0,
      0,
      SLICE_DESIGN,
      0,
      0,
    ]);
  });

  test("takes the id from another member and puts it into the document", () => {
    const lines = '{"key":"k1","n":1}\n{"n":2,"key":17}\n{"_id":"old","key":"\\u00e9"}\n';
    const seen = documents(lines, { idField: "key" });
    expect(ids(seen)).toEqual(["k1", "17", "é"]);
    expect(seen.map((one) => (JSON.parse(one.doc) as { _id: string })._id)).toEqual([
      "k1",
      "17",
      "é",
    ]);
  });

  test("hashes by content: equal lines are equal wherever they lie, others are not", () => {
    const a = '{"_id":"a","text":"one"}';
    const [first, second, third] = documents(`${a}\n{"_id":"bbb"}\r\n  ${a}  \n`);
    expect(third?.hash).toBe(first?.hash);
    expect(second?.hash).not.toBe(first?.hash);
  });

  test.each([
    ["[1]", "not a JSON object"],
    ["null", "not a JSON object"],
    ['{"_id":"a"', "not a JSON object"],
    ['{"_id":"a"} x', "not a JSON object"],
    ['{"_id":"a"},', "not a JSON object"],
    ['{"a":1}', 'no "_id"'],
    ['{"_id":1}', "must be a non-empty string"],
    ['{"_id":""}', "must be a non-empty string"],
    ['{"_id":null,"x":1}', "must be a non-empty string"],
    ["\u0000\u0001", "not a JSON object"],
  ])("refuses the line %s", (line, problem) => {
    const act = (): unknown => documents(`{"_id":"ok"}\n\n${line}\n`);
    expect(act).toThrow(problem);
    expect(act).toThrow(/^docs\.ndjson, line 3: /);
    expect(act).toThrow(withCode("SOURCE_MALFORMED"));
  });

  test("shows the first 80 characters of a bad line, whole ones and printable", () => {
    const act = (): unknown => documents(`["\t${"é".repeat(300)}"]`);
    expect(act).toThrow(new RegExp(`: \\["·${"é".repeat(77)}$`));
  });

  test("refuses a line longer than the limit", () => {
    const act = (): unknown =>
      documents(`{"_id":"a"}\n{"_id":"${"b".repeat(100)}"}`, { lineBytesMax: 50 });
    expect(act).toThrow(withCode("SOURCE_LINE_TOO_LONG"));
    expect(act).toThrow(/line 2/);
  });

  test("finds what JSON.parse finds in any documents", () => {
    const name = fc.oneof(
      fc.constantFrom("_id", "_deleted", "id", "_rev", "doc", "\u005f", "_i"),
      fc.string({ unit: "grapheme" }),
    );
    const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constant(true), fc.string());
    const document = fc.array(fc.tuple(name, value), { maxLength: 6 });
    const spelled = fc.record({
      members: document,
      id: fc.string({ minLength: 1, unit: "grapheme" }),
      at: fc.nat(6),
      escape: fc.boolean(),
      blanks: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(spelled, { maxLength: 8 }), (list) => {
        const lines = list.map(({ members, id, at, escape, blanks }) => {
          const all = members.filter(([one]) => one !== "_id");
          const parts = all.map(([one, of]) => [JSON.stringify(one), JSON.stringify(of)]);
          parts.splice(at, 0, [escape ? '"\\u005F\\u0069d"' : '"_id"', JSON.stringify(id)]);
          const comma = blanks ? " , " : ",";
          return `{${parts.map(([one, of]) => `${one ?? ""}${blanks ? " : " : ":"}${of ?? ""}`).join(comma)}}`;
        });
        const expected = lines
          .map((line) => JSON.parse(line) as { _id: string; _deleted?: unknown })
          .filter((one) => !one._id.startsWith("_local/"));
        const seen = documents(lines.join("\n"));
        expect(ids(seen)).toEqual(expected.map((one) => wellFormed(one._id)));
        expect(seen.map((one) => one.deleted)).toEqual(
          expected.map((one) => one._deleted === true),
        );
        expect(seen.map((one) => JSON.parse(one.doc) as unknown)).toEqual(expected);
      }),
      { numRuns: RUNS },
    );
  });
});

/** Each line as a chunk of its own, without a line end: one that is never noted together with others. */
function oneByOne(lines: readonly Buffer[]): Seen[] {
  return lines.flatMap((line) => documents(line));
}

function joined(lines: readonly Buffer[]): Buffer {
  return Buffer.concat(lines.flatMap((line) => [line, Buffer.from("\n")]));
}

describe("slicing many documents at once", () => {
  test("is there", () => {
    expect(new PlainLines("documents").begin(Buffer.from('{"_id":"a"}\n'))).toBe(true);
  });

  test("finds in any lines, plain or not, what is found in each by itself", () => {
    const id = fc.oneof(
      fc.string({ minLength: 1 }),
      fc.constantFrom("_design/x", "_local/x", "_x", "é", "\ud800", '"', "\\", "x".repeat(40)),
    );
    const rest = fc.constantFrom(
      "",
      ',"a":1',
      ',"_deleted":true',
      ',"_deleted":1',
      ',"\\u005fdeleted":true',
      ',"\\u00e9":"\\\\u0061"',
      ',"_rev":"1-a","_i":{"_id":"x"}',
      ',"_id":"again"',
      `,"text":"${"_ \\\\ é ".repeat(20)}"`,
      `,"a_id":"_d","_":"${"y".repeat(31)}"`,
      ',"\ud83d\ude00":"\ufffd"',
    );
    const line = fc
      .record({
        id,
        rest: fc.array(rest, { maxLength: 3 }),
        end: fc.constantFrom("}", "} ", "}\r"),
        start: fc.constantFrom("{", "{", " {", '{"first":0,'),
        // Bytes that make the id no UTF-8.
        broken: fc.boolean(),
        blank: fc.integer({ min: 0, max: 9 }),
      })
      .map((made) => {
        if (made.blank === 0) return Buffer.from("  ");
        const head = Buffer.from(`${made.start}"_id":"`);
        const tail = JSON.stringify(made.id).slice(1) + made.rest.join("") + made.end;
        return Buffer.concat([head, Buffer.from(made.broken ? [0xff] : []), Buffer.from(tail)]);
      });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
        expect(documents(joined(lines))).toEqual(oneByOne(lines));
      }),
      { numRuns: RUNS * 5 },
    );
  });

  test("is not put out by lines of any length, nor by how many they are", () => {
    const lengths = [...Array(5000).keys()].map((i) => (i * 7919) % 97);
    for (const long of [250_000, 262_143, 262_144, 262_145, 600_000])
      lengths.splice(long % 977, 0, long);
    const lines = lengths.map((length, i) =>
      Buffer.from(`{"_id":"${i}","x":"${"x".repeat(length)}"}`),
    );

    expect(documents(joined(lines))).toEqual(oneByOne(lines));
  });

  test("is given up in a chunk of lines that are not plain, and not in one that has some", () => {
    const odd = Buffer.from('{"a":1,"_id":"odd"}');
    const plain = Buffer.from('{"_id":"plain"}');
    const lines = [...Array(100).keys()].map((i) => (i % 30 === 29 ? plain : odd));

    expect(documents(joined(lines))).toEqual(oneByOne(lines));
  });

  test("keeps ids apart from the chunk once one of them was spelled with an escape", () => {
    const lines = ['{"_id":"a"}', '{"_id":"\\u0062"}', '{"_id":"c"}', '{"_id":"d"}'];

    expect(ids(documents(lines.join("\n")))).toEqual(["a", "b", "c", "d"]);
  });
});

describe("slicing many rows at once", () => {
  const sliced = (data: Buffer): { seen: Seen[]; lastSeq: string | undefined } => {
    const slices = new Slices();
    sliceChanges(data, slices, {}, ORIGIN);
    return { seen: seenOf(slices), lastSeq: slices.lastSeq };
  };

  test("finds in any rows, plain or not, what is found in each by itself", () => {
    const seq = fc.constantFrom("1", '"7-x"', '"7\\"x"', "null", "[1,2]", "-1", '"é"');
    const id = fc.constantFrom(
      "a",
      "_design/x",
      "_local/x",
      "_x",
      "é",
      "\ud800",
      '"',
      "x".repeat(40),
    );
    const doc = fc.constantFrom(
      '{"_id":"a","n":{"doc":[1,2,{"x":"]}"}]}}',
      '{"_id":"a","_deleted":true}',
      '{"_id":"a","\\u005fdeleted":true}',
      '{"_id":"a","t":"\\u00e9_d\\\\"}',
      '{"_id":"a" ,\t"n":01}',
      `{"_id":"a","_d":"${"y".repeat(300)}"}`,
      "{}",
      "null",
    );
    const line = fc
      .record({
        seq,
        id,
        doc,
        changes: fc.constantFrom('[{"rev":"1-a"}]', "[]", '[{"rev":"1-]"}]', "[ ]"),
        deleted: fc.constantFrom("", "", ',"deleted":true', ',"deleted":false'),
        end: fc.constantFrom("}", "},", "}\r", "} ", ',"x":1}'),
        blank: fc.integer({ min: 0, max: 9 }),
      })
      .map((made) =>
        Buffer.from(
          made.blank === 0
            ? '{"results":['
            : `{"seq":${made.seq},"id":${JSON.stringify(made.id)},"changes":${made.changes}${made.deleted},"doc":${made.doc}${made.end}`,
        ),
      );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
        const each = lines.map(sliced);
        expect(sliced(joined(lines))).toEqual({
          seen: each.flatMap(({ seen }) => seen),
          lastSeq: each.findLast(({ lastSeq }) => lastSeq !== undefined)?.lastSeq,
        });
      }),
      { numRuns: RUNS * 5 },
    );
  });

  test("notes plain rows, however long", () => {
    const lines = [...Array(3000).keys()].map((i) =>
      Buffer.from(
        `{"seq":${i},"id":"d${i}","changes":[{"rev":"1-a"}],"doc":{"_id":"d${i}","x":"${"x".repeat(i % 977 === 0 ? 262_000 + i : i % 97)}"}}`,
      ),
    );
    expect(sliced(joined(lines)).seen).toEqual(lines.flatMap((line) => sliced(line).seen));

    const plain = new PlainLines("rows");
    const data = joined(lines.slice(1, 900));
    expect(plain.begin(data)).toBe(true);
    const slices = new Slices();
    slices.begin(data);
    expect(plain.add(0, slices)).toBe(data.length);
    expect(slices.count).toBe(899);
  });
});

describe("slicing changes", () => {
  test("gives id, document, deletion and the last sequence", () => {
    const slices = new Slices();
    const text =
      '{"seq":"1-x","id":"a","changes":[{"rev":"1-a"}],"doc":{"_id":"a","n":{"doc":1}}}\n' +
      '{"seq":"2-y","id":"b","changes":[{"rev":"2-b"}],"deleted":true,"doc":{"_id":"b","_deleted":true}}\n';
    sliceChanges(Buffer.from(text), slices, {}, ORIGIN);
    expect(seenOf(slices).map(({ id, deleted, doc }) => [id, deleted, doc])).toEqual([
      ["a", false, '{"_id":"a","n":{"doc":1}}'],
      ["b", true, '{"_id":"b","_deleted":true}'],
    ]);
    expect(slices.lastSeq).toBe('"2-y"');
  });

  test("does not care for the order of members, blanks, or members it does not know", () => {
    const row = (members: string): string => `{${members}}\n`;
    const seen = changes(
      row('"doc":{"_id":"a","x":"}"},"id":"a","seq":7') +
        row(
          ' "x":{"y":[1,{"doc":{}}]} , "id" : "b" , "doc" : {"_id":"b"} , "deleted" : false , "z":"}}" ',
        ) +
        row('"id":"c","deleted":true') +
        row('"\\u0069d":"d","doc":{"_id":"d","_deleted":true}') +
        row('"id":"e","doc":null'),
    );
    expect(seen.map((one) => [one.id, one.deleted, one.doc])).toEqual([
      ["a", false, '{"_id":"a","x":"}"}'],
      ["b", false, '{"_id":"b"}'],
      ["c", true, ""],
      ["d", true, '{"_id":"d","_deleted":true}'],
      ["e", true, ""],
    ]);
  });

  test("takes what comes after the document of a row that begins as CouchDB's do", () => {
    const row = (id: string, after: string): string =>
      `{"seq":"12345-abcdefghijklmnop","id":"${id}","changes":[{"rev":"1-abc"}],"doc":{"_id":"${id}"}${after}}\n`;
    const seen = changes(
      row("a", ',"deleted":true') +
        row("b", ',"x":{"doc":{}}') +
        row("c", "") +
        row("d", ',"x":{}'),
    );
    expect(seen.map((one) => [one.id, one.deleted, one.doc])).toEqual([
      ["a", true, '{"_id":"a"}'],
      ["b", false, '{"_id":"b"}'],
      ["c", false, '{"_id":"c"}'],
      ["d", false, '{"_id":"d"}'],
    ]);
  });

  test("passes over what surrounds the rows of a saved answer", () => {
    const text =
      '{"results":[\n{"seq":1,"id":"a","changes":[],"doc":{"_id":"a"}},\r\n' +
      '{"seq":2,"id":"b","changes":[],"doc":{"_id":"b"}}\n],\n"last_seq":2,"pending":0}\n';
    expect(ids(changes(text))).toEqual(["a", "b"]);
    expect(ids(changes('{"last_seq":"5-x","pending":0}\n'))).toEqual([]);
  });

  test("leaves local documents out and knows design documents", () => {
    const seen = changes(
      '{"seq":1,"id":"_local/a","changes":[],"doc":{"_id":"_local/a"}}\n' +
        '{"seq":2,"id":"_design/b","changes":[],"doc":{"_id":"_design/b"}}\n',
    );
    expect(ids(seen)).toEqual(["_design/b"]);
  });

  test.each([
    ['{"seq":1,"doc":{}}', 'no "id"'],
    ['{"seq":1,"id":"a","changes":[]}', "include_docs"],
    ['{"seq":1,"id":5,"doc":{}}', "non-empty string"],
    ['{"seq":1,"id":"a","doc":{}', "not a row"],
    ['{"seq":1,"id":"a","doc":{}}}', "not a row"],
    ["garbage", "not a row"],
  ])("refuses the row %s", (line, problem) => {
    expect(() => changes(`${line}\n`)).toThrow(problem);
  });

  test("finds what JSON.parse finds in any rows", () => {
    const row = fc.record(
      {
        seq: fc.oneof(fc.string(), fc.nat()),
        id: fc.string({ minLength: 1 }).map((id) => `x${id}`),
        changes: fc.constant([{ rev: "1-a" }]),
        deleted: fc.boolean(),
        doc: fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
        more: fc.jsonValue({ maxDepth: 2 }),
      },
      { requiredKeys: ["id", "doc"] },
    );
    const shuffled = row.chain((one) =>
      fc.shuffledSubarray(Object.entries(one), { minLength: Object.keys(one).length }),
    );
    fc.assert(
      fc.property(fc.array(shuffled, { maxLength: 6 }), fc.boolean(), (rows, pretty) => {
        const texts = rows.map((entries) => {
          const text = JSON.stringify(Object.fromEntries(entries), null, pretty ? 1 : 0);
          return text.replaceAll("\n", " ");
        });
        const slices = new Slices();
        sliceChanges(Buffer.from(texts.join("\n")), slices, {}, ORIGIN);
        const parsed = texts.map((text) => JSON.parse(text) as Record<string, unknown>);
        const seen = seenOf(slices);
        expect(ids(seen)).toEqual(parsed.map((one) => wellFormed(String(one["id"]))));
        expect(seen.map((one) => JSON.parse(one.doc) as unknown)).toEqual(
          parsed.map((one) => one["doc"]),
        );
        expect(seen.map((one) => one.deleted)).toEqual(
          parsed.map(
            (one) =>
              one["deleted"] === true || (one["doc"] as { _deleted?: unknown })._deleted === true,
          ),
        );
      }),
      { numRuns: RUNS },
    );
  });
});
