// What encoder, decoder and the walks over encoded bytes promise each other.
import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import {
  ByteBuffer,
  decodeKey,
  encodeKeyText,
  groupPrefix,
  keyEnd,
  KeyEncoder,
} from "../../../indexer/collation/index.js";
import {
  addCollation,
  isCollationKnown,
  newestCollation,
} from "../../../indexer/collation/versions.js";
import * as table1 from "../../../indexer/collation/table-1.js";
import { canonicalJson } from "../../../indexer/json/index.js";
import { keyOf, printed, RUNS, trees, type Tree } from "./text.js";

const ASCII = Array.from({ length: 0x5f }, (_, i) => String.fromCharCode(0x20 + i));
const MIXED = [...ASCII, "\n", "\u0001", "é", "中", "😀", "\u0301", "𝔘"];

function encoded(encoder: KeyEncoder, json: string): { key: Uint8Array; end: number } {
  const sink = new ByteBuffer(4);
  const end = encoder.encode(Buffer.from(json), 0, sink);
  return { key: sink.take(), end };
}

describe.each(["root", "raw"] as const)("%s keys", (kind) => {
  const encoder = new KeyEncoder(kind);

  test("of printable ASCII, numbers and literals in any shape are exact: decoding gives the text back", () => {
    fc.assert(
      fc.property(trees(ASCII), (tree) => {
        const text = printed(tree);
        const { key } = encoded(encoder, text);
        expect(encoder.exact).toBe(true);
        expect(encoder.canonical).toBe(true);
        expect(decodeKey(kind, key)).toBe(text);
      }),
      { numRuns: RUNS },
    );
  });

  test("say truly whether they are exact", () => {
    fc.assert(
      fc.property(trees(MIXED), (tree) => {
        const text = printed(tree);
        const { key } = encoded(encoder, text);
        if (encoder.exact) expect(decodeKey(kind, key)).toBe(text);
      }),
      { numRuns: RUNS * 3 },
    );
  });

  test("of any way to write a number are exact only if the shortest one comes back", () => {
    const digits = fc.string({
      unit: fc.constantFrom(...Array.from("0123456789")),
      minLength: 1,
      maxLength: 20,
    });
    const whole = fc.oneof(
      fc.constant("0"),
      digits.map((d) => d.replace(/^0+(?=.)/, "")),
    );
    const exponent = fc.option(
      fc.tuple(fc.constantFrom("e", "E", "e+", "e-"), fc.integer({ min: 0, max: 330 })),
      { nil: undefined },
    );
    const numbers = fc
      .tuple(fc.constantFrom("", "-"), whole, fc.option(digits, { nil: undefined }), exponent)
      .map(
        ([sign, w, f, e]) => `${sign}${w}${f === undefined ? "" : `.${f}`}${e ? e.join("") : ""}`,
      );
    fc.assert(
      fc.property(numbers, (text) => {
        const { key, end } = encoded(encoder, text);
        expect(end).toBe(text.length);
        const value = Math.min(Math.max(Number(text), -Number.MAX_VALUE), Number.MAX_VALUE);
        expect(Number(decodeKey(kind, key))).toBe(value + 0);
        expect(encoder.exact).toBe(String(Number(text)) === text);
      }),
      { numRuns: RUNS * 3 },
    );
  });

  test("tell their own end, whatever follows", () => {
    fc.assert(
      fc.property(
        trees(MIXED),
        fc.uint8Array({ maxLength: 9 }),
        fc.nat(3),
        (tree, rest, before) => {
          const key = keyOf(kind, printed(tree));
          const bytes = Buffer.concat([new Uint8Array(before), key, rest]);
          expect(keyEnd(kind, bytes, before)).toBe(before + key.length);
          expect(decodeKey(kind, bytes, before)).toBe(decodeKey(kind, key));
        },
      ),
      { numRuns: RUNS * 2 },
    );
  });

  test("are never the beginning of another key", () => {
    fc.assert(
      fc.property(trees(MIXED), trees(MIXED), (a, b) => {
        const left = keyOf(kind, printed(a));
        const right = keyOf(kind, printed(b));
        if (left.length < right.length)
          expect(Buffer.compare(left, right.subarray(0, left.length))).not.toBe(0);
      }),
      { numRuns: RUNS * 2 },
    );
  });

  test("share a group's prefix exactly when CouchDB groups them", () => {
    const small = trees(["a", "b"]);
    const arrays = fc.oneof(
      fc.array(fc.constantFrom<Tree>(null, 1, "a", []), { maxLength: 4 }),
      small,
    );
    fc.assert(
      fc.property(arrays, arrays, fc.integer({ min: 1, max: 4 }), (a, b, level) => {
        const [left, right] = [a, b].map((tree) =>
          Buffer.concat([keyOf(kind, printed(tree)), Buffer.from("doc-1")]),
        );
        if (!left || !right) return;
        // As a reader of groups does: the group of the first key goes on while its first bytes do.
        const prefix = left.subarray(0, groupPrefix(kind, left, 0, level));
        const together = right.subarray(0, prefix.length).equals(prefix);
        const cut = (tree: Tree): string =>
          Array.isArray(tree) ? printed(tree.slice(0, level)) : printed(tree);
        expect(together).toBe(cut(a) === cut(b) && shownWhole(a, level) === shownWhole(b, level));
      }),
      { numRuns: RUNS * 3 },
    );
  });

  test("of one encoder do not depend on what it encoded before", () => {
    const texts = ['"\\ud800"', "[1,2", '{"a":1,"a":2}', '"ABC"', "nul", '"中\u0301"'];
    for (const before of texts) {
      try {
        encoded(encoder, before);
      } catch {
        // Malformed on purpose.
      }
      expect(encoded(encoder, '{"Ab":[1,"x"]}').key).toEqual(
        encoded(new KeyEncoder(kind), '{"Ab":[1,"x"]}').key,
      );
      expect([encoder.exact, encoder.canonical]).toEqual([true, true]);
    }
  });

  test("nest as deep as anybody likes", () => {
    const depth = 50_000;
    const text = `${'[{"a":'.repeat(depth)}1${"}]".repeat(depth)}`;
    const { key, end } = encoded(encoder, text);
    expect(end).toBe(text.length);
    expect(keyEnd(kind, key, 0)).toBe(key.length);
    expect(decodeKey(kind, key)).toBe(text);
    const loose = `${"[ ".repeat(depth)}${"]".repeat(depth)}`;
    expect(encoded(encoder, loose).key).toEqual(encoded(encoder, loose.replaceAll(" ", "")).key);
  });

  test("of text that is not canonical are those of the rewritten text", () => {
    const texts = [
      '"\\u0041"',
      "[ 1 ,\n2]",
      '{"a":1,"b":2,"a":3}',
      '"\\ud83d"',
      '"\\/"',
      '{"\\u0061":1,"a":2}',
      ' "x"',
      '{"a" : "\\u00e9"}',
    ];
    for (const text of texts) {
      const { key } = encoded(encoder, text);
      expect([text, encoder.canonical]).toEqual([text, false]);
      expect(key).toEqual(keyOf(kind, canonicalJson(text)));
    }
  });

  test("of invalid UTF-8 are those of U+FFFD", () => {
    const sink = new ByteBuffer();
    const end = encoder.encode(Uint8Array.of(0x22, 0x61, 0xed, 0xa0, 0x80, 0x22), 0, sink);
    expect(end).toBe(6);
    expect(sink.take()).toEqual(keyOf(kind, '"a\ufffd\ufffd\ufffd"'));
  });

  test.each([
    "",
    "[",
    "[1,]",
    '{"a"}',
    '{"a":}',
    "{1:2}",
    '"abc',
    '"\\x"',
    '"\u0001"',
    "01",
    "-",
    "1.",
    "1e",
    ".5",
    "+1",
    "nul",
    "tru",
    "[1 2]",
    "]",
    '"\\u12"',
    "{,}",
    '["a"',
  ])("of %j do not exist: the error says where, and the sink is as before", (text) => {
    const sink = new ByteBuffer();
    encoder.encode(Buffer.from("7"), 0, sink);
    const before = sink.take();
    expect(() => encoder.encode(Buffer.from(text), 0, sink)).toThrow(
      expect.objectContaining({ code: "JSON_MALFORMED" }),
    );
    expect(sink.take()).toEqual(before);
  });
});

/** Whether a group shows the whole key: then only equal keys share it. */
function shownWhole(tree: Tree, level: number): boolean {
  return !Array.isArray(tree) || tree.length < level || tree.length === 0;
}

test("a query key may have blanks around it and nothing else", () => {
  expect(encodeKeyText("root", ' \n["a", 1]\t')).toEqual(keyOf("root", '["a",1]'));
  expect(() => encodeKeyText("root", '"a" "b"')).toThrow(
    expect.objectContaining({ code: "JSON_MALFORMED" }),
  );
});

test.each([
  ["0.000001", true],
  ["-0.000001", true],
  ["0.0000001", false],
  ["1e-7", true],
  ["0.10", false],
  ["10.0", false],
  ["100000000000000000000", true],
  ["1e20", false],
  ["1e+21", true],
  ["1e21", false],
  ["123456789012345", true],
  ["1234567890123456", true],
  ["0.1234567890123456", true],
  ["0.12345678901234567890", false],
  ["-0", false],
  ["-0.0", false],
])("the number %s is exact: %j", (text, exact) => {
  for (const kind of ["root", "raw"] as const) {
    const encoder = new KeyEncoder(kind);
    encoded(encoder, text);
    expect(encoder.exact).toBe(exact);
  }
});

test("a damaged key is an error, never an endless loop", () => {
  for (const text of ['"AbC"', '[1,-2.5,"x"]', '{"a":{"B":"\\u0001"}}', "-123456789012"]) {
    for (const kind of ["root", "raw"] as const) {
      const key = keyOf(kind, text);
      for (let cut = 0; cut < key.length; cut++) {
        const part = key.slice(0, cut);
        // A cut may leave another key whole (a number in its last byte); what counts is that both return.
        for (const walk of [
          () => decodeKey(kind, part),
          () => keyEnd(kind, part, 0),
          () => groupPrefix(kind, part, 0, 2),
        ]) {
          try {
            walk();
          } catch (error) {
            expect(String(error)).toMatch(/no collation key/);
          }
        }
      }
    }
  }
});

test("keys are as short as the layout promises", () => {
  const bytes = (text: string): number => encodeKeyText("root", text).length;
  expect([
    bytes("null"),
    bytes("0"),
    bytes("1"),
    bytes("255"),
    bytes("2025"),
    bytes("9007199254740991"),
  ]).toEqual([1, 1, 2, 2, 3, 9]);
  expect(bytes('"user-12345"')).toBe(12);
  expect(bytes('["user-12345",2024]')).toBe(16);
});

test("an index of an older version is read in its own order, one of an unknown version not at all", () => {
  const reversed = Buffer.from(table1.ASCII_PRIMARIES, "hex");
  const a = reversed[0x61] as number;
  reversed[0x61] = reversed[0x7a] as number;
  reversed[0x7a] = a;
  const takeBack = addCollation(77, { ...table1, ASCII_PRIMARIES: reversed.toString("hex") });
  expect(newestCollation()).toBe(77);
  const other = encodeKeyText("root", '"a-z"', 77);
  expect(Buffer.compare(other, encodeKeyText("root", '"z"', 77))).toBe(1);
  expect(decodeKey("root", other, 0, other.length, 77)).toBe('"a-z"');
  expect(decodeKey("root", encodeKeyText("root", '"a-z"', 1), 0, undefined, 1)).toBe('"a-z"');
  takeBack();
  expect(newestCollation()).toBe(1);
  expect(isCollationKnown(77)).toBe(false);
  expect(() => new KeyEncoder("root", 2)).toThrow(
    expect.objectContaining({ code: "INDEXER_FORMAT_UNSUPPORTED" }),
  );
});
