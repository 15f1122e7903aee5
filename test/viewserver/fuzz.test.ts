// Random, mutated and malicious lines. Whatever comes in: every command gets exactly one reply, in order, after its log lines; nothing else is
// ever printed; nothing is thrown out; and how the bytes are cut into chunks changes nothing.
import { describe, expect, test } from "@jest/globals";
import { Session } from "../../viewserver/index.js";
import { FUNCTIONS, LINES, Random, randomLine, randomValue, SEED } from "./fuzz-lines.js";
import { serveBytes } from "./serving.js";

test("every line gets exactly one reply, after its log lines, or ends the server", () => {
  const r = new Random(SEED);
  const fresh = (): Session => {
    const session = new Session({
      mode: "stock",
      rows: {
        read: () => r.of(['["list_end"]', '["list_row",{}]', undefined, "x"]),
        write: () => undefined,
      },
    });
    session.handle('["reset"]');
    session.handle(JSON.stringify(["add_fun", FUNCTIONS[0]]));
    session.handle(JSON.stringify(["add_fun", FUNCTIONS[1]]));
    return session;
  };
  const session = fresh();
  let exits = 0;
  for (let i = 0; i < LINES; i++) {
    const line = randomLine(r);
    const { output, exit } = session.handle(line);
    const lines = output.split("\n");
    if (lines.pop() !== "") throw new Error(`no LF at the end: ${line}`);
    const reply = lines.pop();
    const isJson = ((): boolean => {
      try {
        JSON.parse(line);
        return true;
      } catch {
        return false;
      }
    })();
    if (isJson !== (reply !== undefined))
      throw new Error(`line ${i}: ${line} was answered ${String(reply)}`);
    if (!isJson && exit === undefined) throw new Error(`line ${i} did not end the server: ${line}`);
    if (reply !== undefined) {
      const value = JSON.parse(reply) as unknown;
      if (Array.isArray(value) && value[0] === "log")
        throw new Error(`line ${i}: only logs for ${line}`);
      for (const log of lines) {
        const [name, text, ...rest] = JSON.parse(log) as unknown[];
        if (name !== "log" || typeof text !== "string" || rest.length > 0)
          throw new Error(`line ${i}: ${log} for ${line}`);
      }
    }
    // The program would end here; a session can go on, and must.
    if (exit !== undefined) exits++;
  }

  expect(exits).toBeGreaterThan(LINES / 50);
});

describe("chunks", () => {
  test("replies do not depend on where the input is cut", () => {
    const r = new Random(SEED + 1);
    for (let round = 0; round < 60; round++) {
      const lines = ['["reset"]', JSON.stringify(["add_fun", FUNCTIONS[1]])];
      for (let i = 0; i < 20; i++) lines.push(JSON.stringify(["map_doc", randomValue(r, 0)]));
      if (round % 3 === 0) lines.push(randomLine(r));
      let bytes = Buffer.from(lines.join("\n") + "\n");
      // Bytes that are no UTF-8, and sometimes half a line at the end.
      if (round % 2 === 0)
        for (let n = 0; n < 3; n++) bytes[bytes.indexOf("x") < 0 ? 9 : bytes.indexOf("x")] = 0xff;
      if (round % 5 === 0) bytes = bytes.subarray(0, bytes.length - r.below(30));
      const whole = serveBytes([bytes]);
      const chunks: Buffer[] = [];
      for (let at = 0; at < bytes.length;) {
        const n = 1 + r.below(r.of([1, 5, 300]));
        chunks.push(bytes.subarray(at, at + n));
        at += n;
      }

      expect(serveBytes(chunks)).toEqual(whole);
    }
  });

  test("half a line at the end is not answered and exits with 1", () => {
    expect(serveBytes([Buffer.from('["reset"]\n["reset"]')])).toMatchObject({
      stdout: "true\n",
      exit: 1,
    });
  });

  test("nothing at all exits with 0", () => {
    expect(serveBytes([])).toEqual({ stdout: "", stderr: "", exit: 0 });
  });
});
