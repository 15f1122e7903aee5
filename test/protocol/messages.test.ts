import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { isLogLine, parseReply } from "../../protocol/index.js";
import { looksLikeJson, mayBeSpecial, wellFormedEscapes } from "../../protocol/messages.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 200);
const bytes = (text: string): Uint8Array => Buffer.from(text);
const looks = (text: string): boolean => looksLikeJson(bytes(text), 0, bytes(text).length);
const special = (text: string): boolean => mayBeSpecial(bytes(text), 0, bytes(text).length);

describe("parseReply", () => {
  test.each([
    ['["log","hi"]', { kind: "log", text: "hi" }],
    [' [ "log" , "hi" ] \r', { kind: "log", text: "hi" }],
    ['["\\u006cog","hi"]', { kind: "log", text: "hi" }],
    ['["error","not_found","x"]', { kind: "error", id: "not_found", reason: "x" }],
    ['["error","TypeError",{}]', { kind: "error", id: "TypeError", reason: {} }],
    ['["error",5,null]', { kind: "error", id: "5", reason: null }],
    ['["fatal","k","r"]', { kind: "fatal", id: "k", reason: "r" }],
  ])("knows %s", (line, expected) => {
    expect(parseReply(bytes(line))).toEqual(expected);
  });

  test.each([
    "true",
    "1",
    "null",
    "[]",
    "[[]]",
    '["log",1]',
    '["log"]',
    '["log","a","b"]',
    '["error","x"]',
    '["error","a","b","c"]',
    '["fatal"]',
    '{"forbidden":"m"}',
    '["resp",{"body":"x"}]',
  ])("takes %s for an ordinary value", (line) => {
    expect(parseReply(bytes(line))).toEqual({ kind: "value", value: JSON.parse(line) as unknown });
  });

  test.each(["", " ", "hello", '["log"', "undefined", "[1,]", "{]"])(
    "refuses %p, showing it",
    (line) => {
      expect(() => parseReply(bytes(line))).toThrow(
        expect.objectContaining({ code: "PROTOCOL_BAD_LINE", line }),
      );
    },
  );

  test("shows only the beginning of a long bad line", () => {
    const caught = catchError(() => parseReply(bytes("x".repeat(100_000)))) as { line: string };
    expect(caught.line).toBe("x".repeat(200));
  });

  test("replaces unpaired surrogate escapes one for one, and keeps pairs", () => {
    const line = String.raw`["\udca5\ud83d","\ud83d\udca5","\\ud83d","\uD83Dx"]`;

    expect(parseReply(bytes(line))).toEqual({
      kind: "value",
      value: ["\ufffd\ufffd", "💥", "\\ud83d", "\ufffdx"],
    });
  });

  test("replaces surrogates as String.toWellFormed does", () => {
    const unit = fc.constantFrom("\\ud83d", "\\udca5", "\\u0061", "\\\\", '\\"', "a", "\\uDFFF");
    fc.assert(
      fc.property(fc.array(unit), (units) => {
        const json = `"${units.join("")}"`;
        const expected = Buffer.from(JSON.parse(json) as string).toString();
        expect(JSON.parse(wellFormedEscapes(json))).toBe(expected);
      }),
      { numRuns: RUNS },
    );
  });
});

describe("isLogLine", () => {
  test.each([
    ['["log","x"]', true],
    [' ["log", "x"]', true],
    ['["\\u006Cog","x"]', true],
    ['["log",1]', false],
    ['["logs","x"]', false],
    ['[["log","x"]]', false],
    ['["list","x"]', false],
    ['["error","a","b"]', false],
    ["true", false],
    ["", false],
  ])("%s: %p", (line, expected) => {
    expect(isLogLine(bytes(line))).toBe(expected);
  });
});

describe("looking at the edges of a line", () => {
  test("never takes JSON for something else", () => {
    const blank = fc.stringMatching(/^[ \t\r]{0,3}$/);
    fc.assert(
      fc.property(
        fc.jsonValue(),
        blank,
        blank,
        fc.nat({ max: 2 }),
        (value, before, after, indent) => {
          const json = JSON.stringify(value, undefined, indent).replaceAll("\n", " ");
          expect(looks(before + json + after)).toBe(true);
        },
      ),
      { numRuns: RUNS },
    );
  });

  test.each([
    "",
    " ",
    "[",
    "]",
    "{",
    '"',
    "[1",
    "{1]",
    "mapping a document",
    "truex",
    "01",
    "1.",
    "-",
    "[LOG] x",
  ])("sees that %p is no JSON", (line) => {
    expect(looks(line)).toBe(false);
  });

  test("never overlooks a log or fatal line", () => {
    const word = fc.constantFrom('"log"', '"fatal"', '"\\u006cog"', '"\\u0066atal"');
    const blank = fc.stringMatching(/^[ \t\r]{0,3}$/);
    fc.assert(
      fc.property(word, blank, blank, (name, first, second) => {
        expect(special(`${first}[${second}${name},"x"]`)).toBe(true);
      }),
      { numRuns: RUNS },
    );
    expect(special('[["log","x"]]')).toBe(false);
    expect(special('["error","x","y"]')).toBe(false);
    expect(special("[]")).toBe(false);
  });
});

function catchError(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
