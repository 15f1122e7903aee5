// Cutting many documents down at once must do to each exactly what cutting it down by itself does.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { BlockProjection } from "../../../indexer/mapping/block-projection.js";
import { Projector } from "../../../indexer/mapping/projector.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 300);
const REFUSED = "refused";

/** As latin1, so that bytes that are no UTF-8 can be told apart. */
function oneByOne(documents: readonly Buffer[], names: readonly string[]): string[] {
  const projector = new Projector(new Set(names));
  return documents.map((document) => {
    const bytes = Buffer.concat([Buffer.from("x"), document, Buffer.from("\n{}")]);
    if (!projector.project(bytes, 1, 1 + document.length)) return REFUSED;
    const pieces: string[] = [];
    for (let k = 0; k < projector.count; k++)
      pieces.push(bytes.toString("latin1", projector.from[k], projector.to[k]));
    return `{${pieces.join(",")}}`;
  });
}

/** The same by the kernel; `between` stands between documents. */
function together(
  documents: readonly Buffer[],
  names: readonly string[],
  between = "\n",
): { readonly texts: string[]; readonly written: string; readonly ascii: boolean } {
  const projection = BlockProjection.create(new Set(names), { head: "<<", tail: ">" });
  if (!projection) throw new Error("there is no kernel: run `npm run build` first");
  const starts: number[] = [];
  const ends: number[] = [];
  const parts: Buffer[] = [];
  let at = 0;
  for (const document of documents) {
    parts.push(Buffer.from(between), document);
    starts.push(at + between.length);
    at += between.length + document.length;
    ends.push(at);
  }
  const done = projection.project(
    Buffer.concat(parts),
    Uint32Array.from(starts),
    Uint32Array.from(ends),
    Uint32Array.from(documents.keys()),
  );
  expect(done).toBe(documents.length);
  const written = projection.written.toString("latin1");
  const texts = documents.map((_, k) =>
    projection.start(k) === 0 ? REFUSED : written.slice(projection.start(k), projection.end(k)),
  );
  return { texts, written, ascii: projection.ascii };
}

const pieces = fc.constantFrom(
  ...'{}[],:" \t\n\\0123456789.-+eEaz'.split(""),
  '"a":',
  '"b":1,',
  '"\\u0061":2',
  "\\ud800",
  "\\u12",
  "true",
  "fals",
  "null",
  "é",
  "😀",
  "\u0000",
  "\u001f",
);
const named = fc.dictionary(
  fc.constantFrom("a", "b", "_id", "ä", "long name of a member", ""),
  fc.jsonValue(),
);
const documentTexts = fc.oneof(
  named.map((doc) => JSON.stringify(doc)),
  named.map((doc) => JSON.stringify(doc, undefined, 1).replaceAll("\n", "")),
  fc.array(pieces, { maxLength: 12 }).map((parts) => `{"a":${parts.join("")}}`),
  fc.array(pieces, { maxLength: 20 }).map((parts) => parts.join("")),
);
const documents = fc
  .tuple(documentTexts, fc.array(fc.tuple(fc.nat(), fc.nat({ max: 255 })), { maxLength: 3 }))
  .map(([text, edits]) => {
    const bytes = Buffer.from(text);
    for (const [at, byte] of edits) if (bytes.length > 0) bytes[at % bytes.length] = byte;
    return bytes;
  });
const wanted = fc.subarray(["a", "b", "_id", "ä", "long name of a member", "", "z"]);

describe("cutting documents down together", () => {
  test("does to any text, JSON or not, what is done to one by itself", () => {
    fc.assert(
      fc.property(
        fc.array(documents, { minLength: 1, maxLength: 12 }),
        wanted,
        fc.constantFrom("\n", "", ",", '"'),
        (texts, names, between) => {
          // Bytes behind a document must not matter: each is followed by another one, or by nothing.
          expect(together(texts, names, between).texts).toEqual(oneByOne(texts, names));
        },
      ),
      { numRuns: RUNS * 10 },
    );
  });

  test("writes documents one behind the other, and nothing of those it refuses", () => {
    const texts = ['{"a":1,"b":2}', '{"a":', "{}", '{"b":"é","a":[]}'].map((text) =>
      Buffer.from(text),
    );

    const { written, texts: each, ascii } = together(texts, ["a"]);

    expect(written).toBe('<<{"a":1}><<{}><<{"a":[]}>');
    expect(each).toEqual(['{"a":1}', REFUSED, "{}", '{"a":[]}']);
    expect(ascii).toBe(true);
  });

  test("says when something written is not ASCII", () => {
    expect(together([Buffer.from('{"b":1,"a":"ö"}')], ["a"]).ascii).toBe(false);
  });

  test.each([63, 64, 65, 66])("agrees on containers nested %d deep", (depth) => {
    for (const [open, close] of [
      ["[", "]"],
      ['{"x":', "}"],
    ] as const) {
      const text = Buffer.from(`{"a":${open.repeat(depth)}1${close.repeat(depth)},"b":2}`);

      expect(together([text], ["b"]).texts).toEqual(oneByOne([text], ["b"]));
    }
  });

  test.each([255, 256, 257])("agrees on %d wanted members of one name", (count) => {
    const text = Buffer.from(`{${Array.from({ length: count }, () => '"a":1').join(",")}}`);

    expect(together([text], ["a"]).texts).toEqual(oneByOne([text], ["a"]));
  });

  test("sees every byte of strings and numbers of any length at any place", () => {
    const texts: Buffer[] = [];
    for (const odd of ['"', "\\", "\u0000", "\u001f", "\u007f", "é", "\\u00e9", ".", "e", "x", "-"])
      for (let length = 0; length < 36; length += 5)
        for (let at = 0; at <= length; at++) {
          const head = "1".repeat(at);
          const tail = "2".repeat(length - at);
          texts.push(Buffer.from(`{"a":"${head}${odd}${tail}","b":1}`));
          texts.push(Buffer.from(`{"a":${head}${odd}${tail},"b":1}`));
        }

    for (let from = 0; from < texts.length; from += 500) {
      const part = texts.slice(from, from + 500);
      expect(together(part, ["b"]).texts).toEqual(oneByOne(part, ["b"]));
    }
  });

  test("takes as many documents as have room", () => {
    const names = new Set(["a"]);
    const projection = BlockProjection.create(names, { head: ",", tail: "" });
    const large = Buffer.from(`{"a":"${"x".repeat(100_000)}"}`);
    const bytes = Buffer.concat([large, large, large, large]);
    const starts = Uint32Array.from([0, 1, 2, 3].map((i) => i * large.length));
    const ends = starts.map((start) => start + large.length);

    expect(projection?.project(bytes, starts, ends, Uint32Array.of(0, 1, 2, 3))).toBe(2);
    expect(projection?.project(bytes, starts, ends, Uint32Array.of(0, 3))).toBe(1);
    expect(
      projection?.project(
        bytes,
        Uint32Array.of(0),
        Uint32Array.of(bytes.length),
        Uint32Array.of(0),
      ),
    ).toBe(0);
  });
});
