// Every protocol case, by a session in this process and by the compiled program, which is started as a process for each.

import { describe, expect, test } from "@jest/globals";

import { casesOf, caseOf, inputOf, type Case } from "../helpers/golden-cases.js";
import { replies, runProgram, serveBytes, type Served } from "../viewserver/serving.js";
import { protocolProperties, type Told } from "./protocol-properties.js";

/** Texts of exceptions are each engine's own: of a log line only that it is one counts, of an error its name. */
function shape(line: unknown): unknown {
  if (!Array.isArray(line)) return line;
  if (line[0] === "log") return ["log"];
  return line[0] === "error" ? ["error", line[1]] : (line as unknown[]);
}

function holds(one: Case, mode: Told["mode"], { stdout, exit, stderr }: Served): void {
  const lines = replies(stdout);
  const want = one.expected as { stdout?: string[]; exit?: number } | undefined;
  if (!want?.stdout) {
    const property = protocolProperties[one.id];
    if (!property) throw new Error(`nobody has told in code what must hold: ${one.id}`);
    property({ mode, lines, exit, stderr });
    return;
  }
  expect(lines.map(shape)).toEqual(want.stdout.map((line) => shape(JSON.parse(line))));
  expect(exit).toBe(want.exit);
}

/** Takes its process down. */
const DEADLY = new Set(["p-oom"]);
/** Where the two ways of answering differ; elsewhere the program is only started for the stock one. */
const DIFFERING = new Set(["p-invalid-json", "p-throw-null", "p-cyclic", "p-bigint"]);
const cases = casesOf("protocol").filter(({ id }) => !DEADLY.has(id));
const MODES = ["stock", "lenient"] as const;

test.each(cases.map((one) => [one.id, one] as const))("%s", (_id, one) => {
  for (const mode of MODES) holds(one, mode, serveBytes(inputOf(one), { mode }));
});

describe("the program", () => {
  test.each(cases.map((one) => [one.id, one] as const))("%s", async (_id, one) => {
    for (const mode of DIFFERING.has(one.id) ? MODES : (["stock"] as const)) {
      const args = mode === "lenient" ? ["--lenient"] : [];
      holds(one, mode, await runProgram(inputOf(one), { args }));
    }
  });

  test("p-oom: dies with a status of its own, or says that there is no memory; no stray reply", async () => {
    const [input] = inputOf(caseOf("p-oom"));
    // With so little memory as to fill it soon. The case's own function joins empty arrays, which V8 keeps as next to nothing.
    const eats = String(input).replace(
      'new Array(1e6).join(\\"xyz\\"+a.length)',
      "new Array(1e5).fill(a.length)",
    );
    expect(eats).not.toBe(String(input));
    const { stdout, exit } = await runProgram(eats, {
      nodeArgs: ["--max-old-space-size=32"],
      timeoutMs: 50_000,
    });

    const [first, second, ...more] = replies(stdout);
    expect([first, second]).toEqual([true, true]);
    if (more.length > 0) expect(more[0]).toEqual(["error", expect.any(String), expect.anything()]);
    else expect(["SIGKILL", 0, null]).not.toContain(exit);
  });
});
