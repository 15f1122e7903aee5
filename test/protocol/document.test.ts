// PROTOCOL.md is true: its transcripts are what our server says, its table of errors is the code's.

import { describe, expect, test } from "@jest/globals";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { PROTOCOL_ERROR_CODES, parseReply } from "../../protocol/index.js";

// Tests run in dist/test/protocol; the document is in the source tree.
const DOCUMENT = readFileSync(new URL("../../../protocol/PROTOCOL.md", import.meta.url), "utf8");
const SERVER = fileURLToPath(new URL("../../viewserver/main.js", import.meta.url));

interface Transcript {
  readonly title: string;
  readonly input: string;
  readonly replies: readonly string[];
  readonly exit: number;
}

const transcripts = [...DOCUMENT.matchAll(/^```transcript\n([^]*?)^```$/gm)].map(
  (match): Transcript => {
    const lines = (match[1] ?? "").trimEnd().split("\n");
    const after = (mark: string): string[] =>
      lines.filter((line) => line.startsWith(mark)).map((line) => line.slice(mark.length));
    const sent = after("→ ");
    return {
      title: sent.at(-1)?.slice(0, 60) ?? "",
      input: sent.map((line) => `${line}\n`).join(""),
      replies: after("← "),
      exit: Number(after("exit ")[0] ?? 0),
    };
  },
);

describe("PROTOCOL.md", () => {
  test("has transcripts", () => {
    expect(transcripts.length).toBeGreaterThan(10);
  });

  test.each(transcripts)(
    "tells what the server answers to $title",
    async ({ input, replies, exit }) => {
      const [output, status] = await run([], input);

      expect(output).toBe(replies.map((line) => `${line}\n`).join(""));
      for (const line of replies) parseReply(Buffer.from(line));
      expect(status).toEqual([exit, null]);
    },
  );

  test.each([
    ["a line that is not JSON", [], '["reset"\n["reset"]\n', "", 1],
    ["the same, lenient", ["--lenient"], '["reset"\n', '["error","invalid_json",', 1],
    ["a last line without LF", [], '["reset"]\n["reset"]', "true\n", 1],
    ["an empty line", [], '["reset"]\n\n["reset"]\n', "true\n", 0],
    ["a named function", [], '["add_fun","function f(d){}"]\n', '["error","compilation_error",', 0],
    ["the same, lenient", ["--lenient"], '["add_fun","function f(d){}"]\n', "true\n", 0],
  ])("is right about what the server does with %s", async (_, flags, input, beginning, exit) => {
    const [output, status] = await run(flags, input);

    if (beginning === "") expect(output).toBe("");
    expect(output.startsWith(beginning)).toBe(true);
    expect(status).toEqual([exit, null]);
  });

  test("lists exactly the error codes there are, with their meaning", () => {
    const rows = [...DOCUMENT.matchAll(/^\| `(PROTOCOL_[A-Z_]+)` *\| (.*?) *\|$/gm)];

    expect(Object.fromEntries(rows.map((row) => [row[1], row[2]]))).toEqual(PROTOCOL_ERROR_CODES);
  });

  test("names the files there are", () => {
    const named = [...DOCUMENT.matchAll(/`([a-z-]+\.ts)`/g)].map((match) => match[1] ?? "");

    expect(named.length).toBeGreaterThan(8);
    for (const file of named) readFileSync(new URL(`../../../protocol/${file}`, import.meta.url));
  });
});

/** What the server prints, and its exit code and signal. */
async function run(flags: readonly string[], input: string): Promise<[string, unknown[]]> {
  const child = spawn(process.execPath, [SERVER, ...flags], { stdio: ["pipe", "pipe", "ignore"] });
  const exited = once(child, "exit");
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  return [await text(child.stdout), await exited];
}
