// What two stock engines printed for the same lines: where they agree we answer the same, where they differ as one of them does.
import { describe, expect, test } from "@jest/globals";
import { golden, replies, runProgram, serveBytes, serveLines } from "./serving.js";

interface Answer {
  readonly replies: readonly unknown[];
  readonly exit: number;
}
interface Transcript {
  readonly name: string;
  readonly lines: readonly string[];
  readonly answers: { readonly spidermonkey: Answer; readonly quickjs: Answer };
}
interface Case {
  readonly id: string;
  readonly area: string;
  readonly protocol_lines?: readonly string[];
  readonly stdin?: string;
  readonly stdin_chunks?: readonly { readonly text?: string; readonly hex?: string }[];
  readonly stdin_js?: string;
  readonly expected?: { readonly stdout?: readonly string[]; readonly exit?: number };
}

/** Texts of exceptions are each engine's own: of a log line only that it is one counts, of an error its name. */
function shape(reply: unknown): unknown {
  if (!Array.isArray(reply)) return reply;
  const list = reply as unknown[];
  if (list[0] === "log") return ["log"];
  return list[0] === "error" ? ["error", list[1]] : list;
}

const transcripts = golden("protocol/transcripts.json") as Transcript[];

function check({ answers, lines }: Transcript, got: readonly unknown[], exit: unknown): void {
  const { spidermonkey, quickjs } = answers;
  const shapes = got.map(shape);
  const wanted = [spidermonkey, quickjs].map((a) => a.replies.map(shape));
  expect(wanted).toContainEqual(shapes);
  if (
    JSON.stringify(spidermonkey) === JSON.stringify(quickjs) &&
    !/error|raised/.test(JSON.stringify(spidermonkey))
  ) {
    expect(got).toEqual(spidermonkey.replies);
  }
  const badJson = lines.some((l) => l === '["map_doc"');
  expect(exit).toBe(badJson ? 1 : spidermonkey.exit);
}

describe("transcripts of two engines", () => {
  test.each(transcripts.map((t) => [t.name, t] as const))("%s", (_name, transcript) => {
    const { stdout, exit } = serveLines(transcript.lines);

    check(transcript, replies(stdout), exit);
  });

  test("the compiled program answers the same", async () => {
    for (let i = 0; i < transcripts.length; i += 8) {
      await Promise.all(
        transcripts.slice(i, i + 8).map(async (transcript) => {
          const { stdout, exit } = await runProgram(transcript.lines.map((l) => l + "\n").join(""));
          check(transcript, replies(stdout), exit);
        }),
      );
    }
  });
});

const cases = (golden("cases/cases.json") as Case[]).filter((c) => c.area === "protocol");

function chunksOf(c: Case): Uint8Array[] {
  if (c.stdin !== undefined) return [Buffer.from(c.stdin)];
  if (c.stdin_js !== undefined) return [Buffer.from((0, eval)(c.stdin_js) as string)];
  if (c.protocol_lines !== undefined)
    return [Buffer.from(c.protocol_lines.map((l) => l + "\n").join(""))];
  return (c.stdin_chunks ?? []).map((x) =>
    x.text === undefined ? Buffer.from(x.hex ?? "", "hex") : Buffer.from(x.text),
  );
}

function find(id: string): Case {
  const found = cases.find((c) => c.id === id);
  if (found === undefined) throw new Error(`no case ${id}`);
  return found;
}

function answer(
  id: string,
  mode: "stock" | "lenient" = "stock",
): { lines: unknown[]; exit: unknown; stderr: string } {
  const { stdout, exit, stderr } = serveBytes(chunksOf(find(id)), { mode });
  return { lines: replies(stdout), exit, stderr };
}

describe("faults that people met", () => {
  test.each(cases.filter((c) => c.expected?.stdout).map((c) => [c.id, c] as const))(
    "%s",
    (_id, c) => {
      const { stdout, exit } = serveBytes(chunksOf(c));

      expect(replies(stdout).map(shape)).toEqual(
        c.expected?.stdout?.map((l) => shape(JSON.parse(l))),
      );
      expect(exit).toBe(c.expected?.exit);
    },
  );

  test("a blank line ends the server in peace", () => {
    expect(answer("p-blank-line")).toEqual({ lines: [true], exit: 0, stderr: "" });
  });

  test("invalid JSON: the stock engines say nothing on stdout, the lenient server an error line; both a reason on stderr", () => {
    const stock = answer("p-invalid-json");
    const lenient = answer("p-invalid-json", "lenient");

    expect(stock.lines).toEqual([true]);
    expect(lenient.lines).toEqual([true, ["error", "invalid_json", expect.any(String)]]);
    for (const { exit, stderr } of [stock, lenient]) {
      expect(exit).toBe(1);
      expect(stderr).toContain('not JSON: ["map_doc", {bad');
    }
  });

  test("a line that is no array is an error, and the next one is answered", () => {
    expect(answer("p-not-an-array").lines).toEqual([true, ["error", "TypeError", {}], true]);
  });

  test("a function that does not compile takes no slot, and its error has line, column and text", () => {
    const { lines } = answer("p-add-fun-syntax");

    expect(lines).toEqual([
      true,
      ["error", "compilation_error", expect.any(String)],
      true,
      [[["a", 1]]],
    ]);
    expect((lines[1] as string[])[2]).toMatch(
      /line 1, column 21: function\(doc\)\{ emit\( \(function/,
    );
  });

  test("throw null fails the command as in the stock engines, and only its document when lenient", () => {
    expect(answer("p-throw-null").lines.slice(2)).toEqual([["error", "TypeError", {}], true]);
    expect(answer("p-throw-null", "lenient").lines.slice(2)).toEqual([
      ["log", expect.stringContaining("null")],
      [[]],
      true,
    ]);
  });

  test("a fatal array is answered, then the process ends without reading on", () => {
    expect(answer("p-throw-fatal-array")).toMatchObject({
      lines: [true, true, ["error", "my_key", "my reason"]],
      exit: 255,
    });
  });

  test.each(["p-cyclic", "p-bigint"])(
    "%s: an error line, or lenient a log with the document's id",
    (id) => {
      const stock = answer(id).lines;
      const lenient = answer(id, "lenient").lines;

      expect(stock[2]).toEqual(["error", "TypeError", {}]);
      expect(stock.at(-1)).toBe(true);
      expect(lenient.slice(2, 4)).toEqual([["log", expect.stringContaining("doc._id x")], [[]]]);
      expect(lenient.at(-1)).toBe(true);
    },
  );

  test("runaway recursion costs its own document", () => {
    expect(answer("p-recursion").lines.slice(2)).toEqual([
      ["log", expect.stringContaining("doc._id x")],
      [[]],
      [[[1, 1]]],
    ]);
  });

  test("bytes that are not UTF-8 become U+FFFD", () => {
    expect(answer("p-invalid-utf8-in").lines).toEqual([
      true,
      true,
      [[[4, "a\ufffd\ufffdb"]]],
      true,
    ]);
  });

  test("a reduce that gives nothing, NaN or throws is null in its place", () => {
    expect(answer("p-reduce-null-results").lines).toEqual([
      true,
      ["log", expect.any(String)],
      [true, [null, null, null, 1]],
    ]);
  });

  test("the reduce limit works with a host that names no numbers", () => {
    const { lines } = answer("p-reduce-limit-on");

    expect(lines[1]).toEqual([
      "error",
      "reduce_overflow_error",
      expect.stringContaining("input size: 10487 output size: 6193"),
    ]);
    expect(((lines[2] as [boolean, string[][]])[1][0] as string[]).length).toBe(20);
  });

  test.each(["p-lib-missing", "p-lib-reset-clears"])(
    "%s: the document is skipped with a log",
    (id) => {
      expect(answer(id).lines.map(shape)).toEqual(expect.arrayContaining([["log"], [[]]]));
    },
  );

  test("no global survives a reset", () => {
    expect(answer("p-globals-isolated-by-reset").lines.at(-1)).toEqual([[["undefined", 1]]]);
  });

  test("what a map function sees", () => {
    const seen = (answer("p-sandbox-globals").lines[2] as unknown[][][][])[0]?.[0]?.[0];

    expect(seen).toEqual([
      ...["undefined", "undefined", "undefined", "undefined", "object", "undefined", "undefined"],
      ...["function", "function", "undefined", "function", "function"],
    ]);
  });

  test("changed built-ins cannot forge a reply", () => {
    expect(answer("p-sandbox-tamper").lines).toEqual([true, true, [[["k", 1]]], [[["k", 1]]]]);
  });

  test("getRow in a map function throws, and the next command is answered", () => {
    expect(answer("p-getrow-in-map").lines.slice(2)).toEqual([
      ["log", expect.any(String)],
      [[]],
      true,
    ]);
  });

  test("a hundred thousand rows are one line", () => {
    const rows = (answer("p-many-emits").lines[2] as [number, null][][])[0];

    expect(rows).toEqual(Array.from({ length: 100_000 }, (_, i) => [i, null]));
  });

  test("an unknown design document ends the process", () => {
    expect(answer("p-ddoc-unknown")).toMatchObject({
      lines: [true, ["error", "query_protocol_error", "uncached design doc: _design/none"]],
      exit: 255,
    });
  });

  test("a function that the design document lacks is an error each time", () => {
    expect(answer("p-ddoc-missing-function").lines.map(shape)).toEqual([
      true,
      true,
      ["error", "TypeError"],
      ["error", "TypeError"],
      true,
    ]);
  });

  test("a map function that eats memory kills its own server, with no stray reply", async () => {
    // The recorded case joins empty arrays, for which V8 needs next to no memory; this one really eats.
    const bomb = "function(doc){ var a=[]; while(true) a.push(new Array(1e5).fill(a.length)); }";
    const lines = [
      '["reset"]',
      JSON.stringify(["add_fun", bomb]),
      '["map_doc",{"_id":"x"}]',
      '["reset"]',
    ];
    const { stdout, exit } = await runProgram(lines.map((l) => l + "\n").join(""), {
      nodeArgs: ["--max-old-space-size=32"],
      timeoutMs: 50_000,
    });

    expect(stdout).toBe("true\ntrue\n");
    expect(exit).not.toBe(0);
    expect(exit).not.toBe("SIGKILL");
  });
});
