// Finding the end of JSON values, judging their form, and rewriting them.
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { canonicalJson, CodePoints, JsonScanner, scanValue } from "../../../indexer/json/index.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 1000);
const malformedError = expect.objectContaining({ code: "JSON_MALFORMED" });

function judged(text: string): boolean {
  const scanner = new JsonScanner();
  const src = Buffer.from(text);
  expect(scanner.scan(src, 0)).toBe(src.length);
  expect(scanner.end).toBe(src.length);
  return scanner.canonical;
}

describe("scanning", () => {
  test("finds the end of whatever JSON.stringify prints and calls it canonical", () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ stringUnit: "binary" }),
        fc.constantFrom("", ",", "]", "\n", " x"),
        (value, rest) => {
          const text = JSON.stringify(value);
          const scanner = new JsonScanner();
          const end = scanner.scan(Buffer.from(`..${text}${rest}`), 2);
          expect(end).toBe(2 + Buffer.byteLength(text));
          expect(scanner.canonical).toBe(!/\\ud[89a-f]|\p{Surrogate}/u.test(text));
        },
      ),
      { numRuns: RUNS * 2 },
    );
  });

  test.each([
    ["[1, 2]"],
    [" 1"],
    ['{"a" :1}'],
    ["[\n]"],
    ['"\\u0041"'],
    ['"\\u000a"'],
    ['"\\u001F"'],
    ['"\\/"'],
    ['"\\ud800"'],
    ['"\\ud83d\\ude00"'],
    ['{"a":1,"b":2,"a":3}'],
    ['[{"x":{"y":1,"y":2}}]'],
    [`{${Array.from({ length: 50 }, (_, i) => `"name-${i % 49}":${i}`).join(",")}}`],
  ])("%s is not canonical", (text) => {
    expect(judged(text)).toBe(false);
  });

  test.each([
    ['"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\"'],
    ["1.0"],
    ["12345678901234567890123"],
    ["1E5"],
    ['"\u2028\u007f/é😀"'],
    ['[{"a":1},{"a":2},{"a":{"a":3}}]'],
    [`{${Array.from({ length: 200 }, (_, i) => `"name-${i}":{"name-${i}":1}`).join(",")}}`],
  ])("%s is canonical", (text) => {
    expect(judged(text)).toBe(true);
  });

  test("text that is not UTF-8 is not canonical", () => {
    for (const bytes of [
      [0x80],
      [0xc3],
      [0xc0, 0x80],
      [0xed, 0xa0, 0x80],
      [0xf5, 0x80, 0x80, 0x80],
      [0xe2, 0x82],
      [0xf0, 0x80, 0x80, 0x80],
    ]) {
      const scanner = new JsonScanner();
      scanner.scan(Uint8Array.of(0x22, ...bytes, 0x22), 0);
      expect(scanner.canonical).toBe(false);
    }
  });

  test("a scanner is as new after an error or a deep value", () => {
    const scanner = new JsonScanner();
    expect(() => scanner.scan(Buffer.from('{"a":1,"a":'), 0)).toThrow(malformedError);
    scanner.scan(Buffer.from('{"a":1}'), 0);
    expect(scanner.canonical).toBe(true);
    const deep = Buffer.from(`${"[".repeat(500_000)}${"]".repeat(500_000)}`);
    expect(scanner.scan(deep, 0)).toBe(deep.length);
  });
});

const BROKEN = [
  "",
  " ",
  "[",
  "{",
  "[1",
  "[1,",
  "[1,]",
  "[,1]",
  '{"a"',
  '{"a":',
  '{"a":1',
  '{"a":1,',
  '{"a":1,}',
  "{a:1}",
  '{"a" 1}',
  '"',
  '"a',
  '"\\',
  '"\\x"',
  '"\\u00g0"',
  '"\\u00',
  '"\n"',
  "01",
  "-",
  "-a",
  "1.",
  "1.e1",
  "1e",
  "1e+",
  ".1",
  "+1",
  "nul",
  "truE",
  "falsy",
  "undefined",
  "NaN",
  "[1}",
  '{"a":1]',
  "[1 2]",
];

test.each(BROKEN)("%j is refused by scanner and rewriter, as by JSON.parse", (text) => {
  expect(() => JSON.parse(text) as unknown).toThrow(SyntaxError);
  expect(() => scanValue(Buffer.from(text), 0)).toThrow(malformedError);
  expect(() => canonicalJson(text)).toThrow(malformedError);
});

describe("rewriting", () => {
  test("leaves canonical text alone and makes any other text canonical, with the same meaning", () => {
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: "binary" }), fc.nat(3), (value, indent) => {
        const compact = JSON.stringify(value);
        const text = JSON.stringify(value, undefined, indent);
        const rewritten = canonicalJson(text);
        expect(judged(rewritten)).toBe(true);
        if (judged(compact)) expect(rewritten).toBe(compact);
        expect(canonicalJson(rewritten)).toBe(rewritten);
        const clean = (s: string): string => s.replace(/\p{Surrogate}/gu, "\ufffd");
        if (judged(compact)) expect(JSON.parse(rewritten)).toEqual(JSON.parse(clean(text)));
      }),
      { numRuns: RUNS },
    );
  });

  test.each([
    [' { "a" : [ 1 , true , null ] } ', '{"a":[1,true,null]}'],
    ['"\\u0041\\/\\u00e9\\u000a\\u0001"', '"A/é\\n\\u0001"'],
    ['"\\ud83d\\ude00"', '"😀"'],
    ['"\\udca5\\ud83d"', '"\ufffd\ufffd"'],
    ['"x\\ud83dy"', '"x\ufffdy"'],
    ['"\ud83d"', '"\ufffd"'],
    ['{"b":1,"1":2}', '{"b":1,"1":2}'],
    ['{"__proto__":1,"a":{"__proto__":2}}', '{"__proto__":1,"a":{"__proto__":2}}'],
    ["[1.0,-0,1E5,12345678901234567890]", "[1.0,-0,1E5,12345678901234567890]"],
    ['{"a":1,"b":2,"a":3}', '{"b":2,"a":3}'],
    ['{"a":{"x":1},"\\u0061":{"x":2,"x":3}}', '{"a":{"x":3}}'],
    ['{"a":1,"a":2,"a":3,"b":4,"b":5}', '{"a":3,"b":5}'],
    ["[]", "[]"],
    ["{ }", "{}"],
  ])("%s becomes %s", (text, expected) => {
    expect(canonicalJson(text)).toBe(expected);
    expect(judged(expected)).toBe(true);
  });

  test("long strings and deep values need no stack", () => {
    const long = `"${"\\u00e9x".repeat(300_000)}"`;
    expect(canonicalJson(long)).toBe(`"${"éx".repeat(300_000)}"`);
    const depth = 100_000;
    expect(canonicalJson(`${"[ ".repeat(depth)}${"]".repeat(depth)}`)).toBe(
      `${"[".repeat(depth)}${"]".repeat(depth)}`,
    );
    expect(() => canonicalJson("1 2")).toThrow(malformedError);
  });
});

test("the code points of canonical strings are those JSON.parse gives, and others are declined", () => {
  const points = new CodePoints();
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
      const src = Buffer.from(`${JSON.stringify(text)},`);
      const end = points.read(src, 0);
      if (/\p{Surrogate}/u.test(text)) {
        expect(end).toBe(-1);
        return;
      }
      expect(end).toBe(src.length - 1);
      expect(String.fromCodePoint(...points.points.subarray(0, points.length))).toBe(text);
    }),
    { numRuns: RUNS },
  );
  for (const text of ['"\\u0041"', '"\\/"', '"a', '"\\u00', '"\t"'])
    expect(points.read(Buffer.from(text), 0)).toBe(-1);
});
