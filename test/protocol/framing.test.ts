import { describe, expect, test } from "@jest/globals";
import fc from "fast-check";
import { LineSplitter, ProtocolError } from "../../protocol/index.js";
import { lineEnds } from "../../protocol/framing.js";

const RUNS = Number(process.env["TEST_RUNS"] ?? 200);

/** Every line and the unfinished rest, fetched one at a time. */
function split(chunks: readonly Uint8Array[], lineBytesMax?: number): string[] {
  const splitter = new LineSplitter(lineBytesMax === undefined ? {} : { lineBytesMax });
  const lines: string[] = [];
  for (const chunk of chunks) {
    splitter.push(chunk);
    for (let line = splitter.next(); line; line = splitter.next()) lines.push(decode(line));
  }
  const rest = splitter.end();
  if (rest) lines.push(`${decode(rest)}…`);
  return lines;
}

/** The same through blocks of at most `linesMax`, all chunks pushed first. */
function splitBlocks(chunks: readonly Uint8Array[], linesMax: number): string[] {
  const splitter = new LineSplitter();
  const ends = new Uint32Array(linesMax);
  const lines: string[] = [];
  for (const chunk of chunks) splitter.push(chunk);
  for (let block = splitter.nextBlock(ends); block; block = splitter.nextBlock(ends)) {
    for (let index = 0; index < splitter.blockLines; index++) {
      const line = block.subarray(index === 0 ? 0 : ends[index - 1], ends[index]);
      expect(line.at(-1)).toBe(10);
      lines.push(decode(line.subarray(0, line.length - 1)));
    }
    expect(ends[splitter.blockLines - 1]).toBe(block.length);
  }
  const rest = splitter.end();
  if (rest) lines.push(`${decode(rest)}…`);
  return lines;
}

function decode(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("utf8");
}

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const sorted = places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b);
  const edges = [0, ...sorted, bytes.length];
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
}

function tooLong(run: () => unknown): void {
  expect(run).toThrow(expect.objectContaining({ code: "PROTOCOL_LINE_TOO_LONG" }));
}

describe("LineSplitter", () => {
  test("gives the same lines for any division into chunks, inside UTF-8 sequences too", () => {
    const text = fc.string({ unit: "binary" }).map((line) => line.replaceAll("\n", ""));
    fc.assert(
      fc.property(
        fc.array(text, { maxLength: 20 }),
        text,
        fc.array(fc.nat({ max: 10_000 }), { maxLength: 40 }),
        fc.integer({ min: 1, max: 7 }),
        (lines, rest, places, linesMax) => {
          const bytes = Buffer.from(lines.map((line) => `${line}\n`).join("") + rest);
          const expected = rest === "" ? lines : [...lines, `${rest}…`];
          const chunks = cut(bytes, places);
          const wellFormed = expected.map((line) => decode(Buffer.from(line)));

          expect(split(chunks)).toEqual(wellFormed);
          expect(splitBlocks(chunks, linesMax)).toEqual(wellFormed);
        },
      ),
      { numRuns: RUNS },
    );
  });

  test("gives the same lines byte by byte", () => {
    const bytes = Buffer.from('["é",1]\n\n["😀"]\r\nhalf');

    const lines = split(cut(bytes, [...bytes.keys()]));

    expect(lines).toEqual(['["é",1]', "", '["😀"]\r', "half…"]);
  });

  test("hands out whole lines without copying them", () => {
    const splitter = new LineSplitter();
    const chunk = new Uint8Array(Buffer.from("one\ntwo\n"));

    splitter.push(chunk);

    expect(splitter.next()?.buffer).toBe(chunk.buffer);
    expect(splitter.next()?.buffer).toBe(chunk.buffer);
    expect(splitter.next()).toBeUndefined();
  });

  test("keeps lines valid after later pushes", () => {
    const splitter = new LineSplitter();
    const lines: Uint8Array[] = [];

    for (let index = 0; index < 50; index++) {
      splitter.push(Buffer.from(`${index}a\n${index}`));
      splitter.push(Buffer.from("b"));
      splitter.push(Buffer.from("c\n"));
      for (let line = splitter.next(); line; line = splitter.next()) lines.push(line);
    }

    expect(lines.map(decode)).toEqual(
      Array.from({ length: 50 }, (_, index) => [`${index}a`, `${index}bc`]).flat(),
    );
  });

  test("gathers a line of 64 MiB that comes in pieces of 512 bytes", () => {
    // Re-scanning or re-copying the unfinished line for each piece would take hours.
    const splitter = new LineSplitter();
    const piece = Buffer.alloc(512, "x");
    for (let count = 0; count < 131_072; count++) {
      splitter.push(piece);
      if (splitter.next()) throw new Error("a line without its end");
    }

    splitter.push(Buffer.from("\n"));

    expect(splitter.next()?.length).toBe(64 << 20);
    expect(splitter.end()).toBeUndefined();
  });

  test("knows how much of a line is unfinished, and is empty after end", () => {
    const splitter = new LineSplitter();
    splitter.push(Buffer.from("a\nbcd"));
    expect(decode(splitter.next() ?? new Uint8Array())).toBe("a");
    expect(splitter.next()).toBeUndefined();

    expect(splitter.unfinishedBytes).toBe(3);
    expect(decode(splitter.end() ?? new Uint8Array())).toBe("bcd");
    expect(splitter.unfinishedBytes).toBe(0);
    splitter.push(Buffer.from("e\n"));
    expect(decode(splitter.next() ?? new Uint8Array())).toBe("e");
  });

  test.each([
    ["in one chunk", ["abcdef\n"]],
    ["with its end in a later chunk", ["abc", "def\n"]],
    ["in three chunks", ["abc", "d", "ef\n"]],
    ["before its end has come", ["ok\nabc", "def"]],
  ])("refuses a line over the limit %s, and everything after it", (_, texts) => {
    const chunks = texts.map((text) => Buffer.from(text));
    expect(split(chunks, 6).length).toBeGreaterThan(0);

    tooLong(() => split(chunks, 5));
    const splitter = new LineSplitter({ lineBytesMax: 5 });
    tooLong(() => {
      for (const chunk of [...chunks, Buffer.from("\n")]) {
        splitter.push(chunk);
        while (splitter.next());
      }
    });
    splitter.push(Buffer.from("x\n"));
    tooLong(() => splitter.next());
  });

  test("names the limit in its error", () => {
    const splitter = new LineSplitter({ lineBytesMax: 10 });
    splitter.push(Buffer.alloc(11, "x"));

    expect(() => splitter.next()).toThrow(ProtocolError);
    expect(() => splitter.next()).toThrow(/exceeds the limit of 10.*lineBytesMax/);
  });

  test.each([0, -1, 1.5, NaN])("refuses %p as a limit", (lineBytesMax) => {
    expect(() => new LineSplitter({ lineBytesMax })).toThrow(RangeError);
  });
});

describe("lineEnds", () => {
  test("finds the end of each line", () => {
    expect([...lineEnds(Buffer.from("a\nbc\n"), 2)]).toEqual([2, 5]);
    expect([...lineEnds(new Uint8Array(), 0)]).toEqual([]);
  });

  test.each([
    ["a missing line", "a\n", 2],
    ["an unfinished line", "a\nb", 2],
    ["a surplus line", "a\nb\n", 1],
    ["bytes after the last line", "a\nb", 1],
    ["an empty line", "a\n\n", 2],
  ])("refuses %s", (_, text, count) => {
    expect(() => lineEnds(Buffer.from(text), count)).toThrow(TypeError);
  });
});
