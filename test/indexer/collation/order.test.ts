// The order of keys: the facts of VIEWS §6, and any JSON against a naive comparator.
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { encodeKeyText, HIGHEST, LOWEST } from "../../../indexer/collation/index.js";
import { compareTrees, keyOf, printed, RUNS, stringKey, trees } from "./text.js";

const CHARACTERS = [
  ...Array.from('aAbBzZ09 _-"\\/.'),
  "é",
  "e\u0301",
  "ß",
  "æ",
  "日",
  "本",
  "ん",
  "ン",
  "한",
  "я",
  "😀",
  "\u0000",
  "\t",
  "\uffff",
  "\ufffe",
];

/** Asserts that the texts' keys ascend strictly. */
function ascends(kind: "root" | "raw", texts: readonly string[]): void {
  const keys = texts.map((text) => encodeKeyText(kind, text));
  for (let i = 1; i < keys.length; i++) {
    const order = Buffer.compare(keys[i - 1] as Uint8Array, keys[i] as Uint8Array);
    expect(`${texts[i - 1] ?? ""} ${order} ${texts[i] ?? ""}`).toBe(
      `${texts[i - 1] ?? ""} -1 ${texts[i] ?? ""}`,
    );
  }
}

describe.each(["root", "raw"] as const)("the %s order", (kind) => {
  test("is that of a naive comparator on JSON of any shape", () => {
    const tree = trees(CHARACTERS);
    fc.assert(
      fc.property(tree, tree, (a, b) => {
        const order = Buffer.compare(keyOf(kind, printed(a)), keyOf(kind, printed(b)));
        expect(order).toBe(compareTrees(kind, a, b));
      }),
      { numRuns: RUNS * 3 },
    );
  });

  test("is that of a naive comparator on arrays and objects that differ little", () => {
    const tree = trees(CHARACTERS);
    fc.assert(
      fc.property(
        fc.array(tree, { maxLength: 3 }),
        tree,
        tree,
        fc.array(tree, { maxLength: 2 }),
        (start, a, b, end) => {
          const left = [...start, a, ...end];
          const right = [...start, b, ...end];
          expect(Buffer.compare(keyOf(kind, printed(left)), keyOf(kind, printed(right)))).toBe(
            compareTrees(kind, left, right),
          );
          const object = { members: left.map((value, i) => [`m${i}`, value] as const) };
          const other = { members: right.map((value, i) => [`m${i}`, value] as const) };
          expect(Buffer.compare(keyOf(kind, printed(object)), keyOf(kind, printed(other)))).toBe(
            compareTrees(kind, object, other),
          );
        },
      ),
      { numRuns: RUNS },
    );
  });

  test("puts every key between LOWEST and HIGHEST", () => {
    fc.assert(
      fc.property(trees(CHARACTERS), (tree) => {
        const key = keyOf(kind, printed(tree));
        expect(Buffer.compare(LOWEST, key)).toBe(-1);
        expect(Buffer.compare(key, HIGHEST)).toBe(-1);
      }),
      { numRuns: RUNS },
    );
  });

  test("orders numbers by value, whatever their size", () => {
    const numbers = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      fc.integer(),
      fc.maxSafeInteger(),
      fc.integer({ min: -300, max: 300 }),
    );
    fc.assert(
      fc.property(numbers, numbers, (a, b) => {
        expect(Buffer.compare(keyOf(kind, JSON.stringify(a)), keyOf(kind, JSON.stringify(b)))).toBe(
          Math.sign(a - b) + 0,
        );
      }),
      { numRuns: RUNS * 10 },
    );
    ascends(kind, [
      "-1.7976931348623157e308",
      "-1e300",
      "-4294967296",
      "-2147483648",
      "-1.5",
      "-1",
      "-1e-5",
      "-5e-324",
      "0",
      "5e-324",
      "1e-5",
      "0.5",
      "1",
      "1.0000000000000002",
      "2",
      "2147483647",
      "2147483648",
      "4294967295",
      "9007199254740991",
      "1e21",
      "1.7976931348623157e308",
    ]);
  });

  test("does not see how a number is written", () => {
    for (const texts of [
      ["1", "1.0", "10e-1", "0.1E1"],
      ["0", "-0", "0.0", "-0.0e5"],
      ["1e999", "1.7976931348623157e308"],
      ["100", "1e2"],
      ["9007199254740993", "9007199254740992"],
    ]) {
      expect(
        new Set(texts.map((text) => Buffer.from(encodeKeyText(kind, text)).toString("hex"))).size,
      ).toBe(1);
    }
  });
});

describe("the facts of the root order", () => {
  test("types", () => {
    ascends("root", [
      "null",
      "false",
      "true",
      "-1e9",
      "0",
      "1e9",
      '""',
      '"a"',
      '"\uffff"',
      "[]",
      "[null]",
      "[[]]",
      "[{}]",
      "{}",
      '{"":null}',
      '{"a":1}',
    ]);
  });

  test("arrays and objects: element by element, prefix first, members as written", () => {
    ascends("root", ["[]", "[1]", "[1,null]", "[1,2]", '["a"]', '["a","b"]', '["a",{}]', '["b"]']);
    ascends("root", [
      "{}",
      '{"a":1}',
      '{"a":1,"b":2}',
      '{"a":2}',
      '{"b":2}',
      '{"b":2,"a":1}',
      '{"b":2,"c":2}',
    ]);
    ascends("root", ['{"1":2,"b":1}', '{"b":1,"1":2}']);
  });

  test("ASCII", () => {
    const order = [
      ...Array.from("_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789"),
      ...Array.from("aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ"),
    ];
    const blanks = ["\t", "\n", "\v", "\f", "\r", "\u0085", "\u2028", "\u2029", " "];
    ascends(
      "root",
      [...blanks, ...order].map((c) => JSON.stringify(c)),
    );
  });

  test.each([
    ["a", "A", "aa", "b", "B"],
    ["aB", "Ab"],
    ["a", "á", "b"],
    ["cote", "coté", "côte"],
    ["role", "rôle", "role2"],
    ["ss", "ß"],
    ["ae", "æ"],
    ["a", "ª"],
    ["a", "ａ"],
    ["i", "ı"],
    ["10", "9"],
    ["a b", "a-b", "ab"],
    ["_design", "a"],
    ["z", "中", "\ufff0", "\u{10ffff}", "\ufffd", "\uffff"],
    ["\ufffe", "\t", "a"],
    ["abc", "abcd", "abc\ufff0", "abd"],
    ["ぁ", "あ", "ァ", "ア", "い"],
    ["wa", "Wa", "wA".concat("a")],
  ])("%j ascend", (...texts: string[]) => {
    ascends(
      "root",
      texts.map((text) => JSON.stringify(text)),
    );
  });

  test.each([
    ["", "\u0000", "\u200b", "\u007f"],
    ["a", "a\u0000"],
    ["é", "e\u0301"],
    ["한", "\u1112\u1161\u11ab"],
    ["Å", "\u212b", "A\u030a"],
  ])("%j are equal", (...texts: string[]) => {
    for (const text of texts) expect(stringKey(text)).toEqual(stringKey(texts[0] as string));
  });

  test("long runs of common weights keep their order", () => {
    const lengths = [0, 1, 2, 125, 126, 127, 128, 251, 252, 253, 254, 400];
    for (const last of ["A", "á"]) {
      // The earlier the mark or capital comes, the higher; without one is lowest.
      const texts = lengths.map((n) => `${"a".repeat(n)}${last}${"a".repeat(400 - n)}`);
      ascends(
        "root",
        ["a".repeat(401), ...texts.reverse()].map((text) => JSON.stringify(text)),
      );
    }
  });
});

test("the raw order's facts", () => {
  ascends(
    "raw",
    [
      "-1",
      "0",
      "1e9",
      "false",
      "null",
      "true",
      "{}",
      '{"a":1}',
      '{"b":0}',
      "[]",
      "[0]",
      "[[]]",
      '""',
      '"\u0000"',
      '"\u0000a"',
      '"\u0001"',
      '"A"',
      '"B"',
      '"a"',
      '"a\u0000"',
      '"aa"',
      '"é"',
      '"\uffff"',
      '"😀"',
    ].map((t) =>
      JSON.stringify(
        JSON.parse(
          t.replace(
            /[\u0000-\u001f]/g,
            (c) => `\\u00${c.charCodeAt(0).toString(16).padStart(2, "0")}`,
          ),
        ),
      ),
    ),
  );
});
