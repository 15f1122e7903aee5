// A document cut down to some members must parse to exactly these, and nothing that JSON.parse refuses may be let through.

import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";

import { Projector } from "../../../indexer/mapping/projector.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 500);

/** The cut text, or undefined when it is left to the parser. */
function cut(text: string, names: readonly string[]): string | undefined {
  const bytes = Buffer.from(`x${text}\n{"next":1}`);
  const end = 1 + Buffer.byteLength(text);
  const projector = new Projector(new Set(names));
  if (!projector.project(bytes, 1, end)) return undefined;
  const pieces: string[] = [];
  for (let i = 0; i < projector.count; i++)
    pieces.push(bytes.toString("utf8", projector.from[i], projector.to[i]));
  return `{${pieces.join(",")}}`;
}

function pick(doc: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(doc).filter(([name]) => names.includes(name)));
}

describe("cutting a document down", () => {
  test.each([
    ['{"a":1,"b":2}', ["b"], '{"b":2}'],
    [
      '{"a":1,"b":{"a":[1,2,{"b":"}"}]},"c":"x"}',
      ["b", "c"],
      '{"b":{"a":[1,2,{"b":"}"}]},"c":"x"}',
    ],
    ['{ "a" : [ 1 , 2 ] , "b" : null }', ["a"], '{"a" : [ 1 , 2 ]}'],
    ['{"a":1,"a":2}', ["a"], '{"a":1,"a":2}'],
    ["{}", ["a"], "{}"],
    ['{"ä":"é\\u00e9\\n","b":-1.5e+3}', ["ä"], '{"ä":"é\\u00e9\\n"}'],
    ['{"ab":1,"b":2}', ["a"], "{}"],
  ])("%s", (text, names, want) => {
    expect(cut(text, names)).toBe(want);
  });

  test.each([
    "",
    "[]",
    '{"a":1',
    '{"a":1}}',
    '{"a":01}',
    '{"a":1.}',
    '{"a":.5}',
    '{"a":+1}',
    '{"a":-}',
    '{"a":1e}',
    '{"a":tru}',
    '{"a":nul1}',
    '{"a":"\\x"}',
    '{"a":"\\u12g4"}',
    '{"a":"\t"}',
    '{"a":[1,]}',
    '{"a":{"b":1,}}',
    '{"a":1,}',
    '{"a" 1}',
    "{a:1}",
    '{"a":1 "b":2}',
    '{"a":"x}',
    '{"\\u0061":1}',
    `{"a":${"[".repeat(100)}${"]".repeat(100)}}`,
  ])("leaves %s to the parser", (text) => {
    expect(cut(text, ["a", "z"])).toBeUndefined();
  });

  test("sees every character of a string, wherever it stands", () => {
    const faults: string[] = [];
    for (const odd of [
      '"',
      "\\",
      "\u0000",
      "\t",
      "\u001f",
      " ",
      "!",
      "\u007f",
      "é",
      "[",
      "]",
      "\ud83d\ude00",
    ])
      for (let length = 0; length < 14; length++)
        for (let at = 0; at <= length; at++) {
          const content = "x".repeat(at) + odd + "y".repeat(length - at);
          const text = `{"a":"${content}","b":1}`;
          let isJson = true;
          try {
            JSON.parse(text);
          } catch {
            isJson = false;
          }
          if (cut(text, ["b"]) !== (isJson ? '{"b":1}' : undefined)) faults.push(text);
        }

    expect(faults).toEqual([]);
  });

  test("gives the wanted members of any document", () => {
    const documents = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 6 });
    fc.assert(
      fc.property(documents, fc.array(fc.nat()), fc.boolean(), (doc, choice, spaced) => {
        const names = Object.keys(doc).filter((_, i) => choice.includes(i));
        const text = spaced ? JSON.stringify(doc).replaceAll('":', '": ') : JSON.stringify(doc);
        if (spaced && JSON.stringify(JSON.parse(text)) !== JSON.stringify(doc)) return;
        const projected = cut(text, names);
        if (projected === undefined) return;
        expect(JSON.parse(projected)).toEqual(
          pick(JSON.parse(text) as Record<string, unknown>, names),
        );
      }),
      { numRuns: RUNS },
    );
  });

  test("lets nothing through that is not JSON", () => {
    const documents = fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 4 });
    const edit = fc.record({
      at: fc.nat(),
      remove: fc.nat(3),
      insert: fc.string({ maxLength: 3 }),
    });
    fc.assert(
      fc.property(documents, fc.array(edit, { minLength: 1, maxLength: 3 }), (doc, edits) => {
        let text = JSON.stringify(doc);
        for (const { at, remove, insert } of edits) {
          const p = at % (text.length + 1);
          text = text.slice(0, p) + insert + text.slice(p + remove);
        }
        if (text.includes("\n")) return;
        const projected = cut(text, ["a", ...Object.keys(doc).slice(0, 2)]);
        if (projected === undefined) return;
        const whole = JSON.parse(text) as Record<string, unknown>;
        expect(JSON.parse(projected)).toEqual(pick(whole, ["a", ...Object.keys(doc).slice(0, 2)]));
      }),
      { numRuns: RUNS * 4 },
    );
  });
});
