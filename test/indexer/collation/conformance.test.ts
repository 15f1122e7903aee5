// The official collation test of CLDR 41 for non-ignorable punctuation: strings in the order of the root collation. The strings are
// given to us in NFD, because CouchDB's collator runs with normalization off; badly ordered marks are a case of their own.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";
import { describe, expect, test } from "@jest/globals";
import { intl, stringKey } from "./text.js";

const FIXTURE = join(
  import.meta.dirname,
  "../../../../test/fixtures/collation-test-cldr-41.txt.br",
);

function testStrings(): string[] {
  const lines = brotliDecompressSync(readFileSync(FIXTURE)).toString("utf8").split("\n");
  return lines
    .filter((line) => /^[0-9A-F]/.test(line))
    .map((line) => String.fromCodePoint(...line.split(" ").map((hex) => parseInt(hex, 16))))
    .filter((text) => !/\p{Surrogate}/u.test(text)); // JSON texts hold no lone surrogates: they are U+FFFD by then
}

describe("CLDR's collation test", () => {
  const strings = testStrings();

  test("has all its lines", () => {
    expect(strings).toHaveLength(176_932);
  });

  test("never decreases, on every line", () => {
    const wrong: string[] = [];
    let previous = "";
    let previousKey = stringKey("");
    for (const text of strings) {
      const key = stringKey(text.normalize("NFD"));
      if (Buffer.compare(previousKey, key) > 0)
        wrong.push(`${JSON.stringify(previous)} > ${JSON.stringify(text)}`);
      previous = text;
      previousKey = key;
    }
    expect(wrong).toEqual([]);
  });

  test("decreases where this Node's own collator is used on fewer lines than its newer data can explain", () => {
    const wrong = strings.filter(
      (text, i) => i > 0 && intl.compare(strings[i - 1] as string, text) > 0,
    );
    expect(wrong.length).toBeLessThan(200);
  });
});
