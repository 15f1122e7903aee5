// Random lines through the real program, whose host goes away or does not read: it ends by itself, and what it wrote until then is the
// beginning of what it had to say.
import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "@jest/globals";
import { Session } from "../../viewserver/index.js";
import { FUNCTIONS, LINES, Random, randomLine, SEED } from "./fuzz-lines.js";

const MAIN = path.join(import.meta.dirname, "../../viewserver/main.js");
const ROUNDS = Math.max(4, Math.round(LINES / 10_000));
const LINES_A_ROUND = 300;

interface Talk {
  readonly input: string;
  /** All that the program has to say to it. */
  readonly output: string;
}

/** Random lines that end no server, and their replies. */
function talk(r: Random, lines: number): Talk {
  const session = new Session({ mode: "stock", tracesMax: 0 });
  let input = "";
  let output = "";
  const say = (line: string): void => {
    const reply = session.handle(line);
    if (reply.exit !== undefined) throw new Error(`this ends the server: ${line}`);
    input += `${line}\n`;
    output += reply.output;
  };
  say('["reset"]');
  say(JSON.stringify(["add_fun", FUNCTIONS[1]]));
  // A line that would end a server changes a session's state no more than one that was never said.
  const rehearsal = new Session({ mode: "stock", tracesMax: 0 });
  for (let n = 0; n < lines;) {
    const line = randomLine(r);
    if (line.trim() === "" || rehearsal.handle(line).exit !== undefined) continue;
    try {
      say(line);
    } catch {
      // Ended by what came before it: the talk is over.
      return talk(r, lines);
    }
    n++;
  }
  return { input, output };
}

function start(): ChildProcessWithoutNullStreams {
  const child = spawn(process.execPath, [MAIN], { env: {} });
  for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.on("error", () => undefined);
  return child;
}

async function end(child: ChildProcessWithoutNullStreams): Promise<unknown[]> {
  return child.exitCode === null && child.signalCode === null
    ? once(child, "exit")
    : [child.exitCode, child.signalCode];
}

/** Reads until so many bytes came, and no more. */
async function read(child: ChildProcessWithoutNullStreams, bytes: number): Promise<string> {
  let got = Buffer.alloc(0);
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    got = Buffer.concat([got, chunk as Buffer]);
    if (got.length >= bytes) break;
  }
  return got.toString("latin1");
}

const asRead = (text: string): string => Buffer.from(text).toString("latin1");

test("a reader that closes its pipe anywhere ends the server, also when the writer stays", async () => {
  const r = new Random(SEED + 2);
  for (let round = 0; round < ROUNDS; round++) {
    const { input, output } = talk(r, LINES_A_ROUND);
    const child = start();
    child.stdin.write(input);
    const got = await read(child, r.below(Buffer.byteLength(output)));
    child.stdout.destroy();
    // A server that has said all it had to say meets the closed pipe when it says more.
    child.stdin.write('["reset"]\n'.repeat(1000));
    const ended = await end(child);
    child.stdin.destroy();

    expect(asRead(output).startsWith(got)).toBe(true);
    expect(ended).toEqual([0, null]);
  }
});

test("a writer that closes its pipe anywhere gets the replies to all whole lines", async () => {
  const r = new Random(SEED + 3);
  for (let round = 0; round < ROUNDS; round++) {
    const { input, output } = talk(r, LINES_A_ROUND);
    const bytes = Buffer.from(input);
    const cut = r.below(bytes.length);
    const child = start();
    child.stdin.end(bytes.subarray(0, cut));
    const got = await read(child, Infinity);
    const [code, signal] = await end(child);

    expect(signal).toBeNull();
    expect(code).toBe(cut === 0 || bytes[cut - 1] === 10 ? 0 : 1);
    expect(asRead(output).startsWith(got)).toBe(true);
    expect(got === "" || got.endsWith("\n")).toBe(true);
  }
});

test("nobody who hears why it ends does not keep it from ending", async () => {
  const r = new Random(SEED + 4);
  const { input, output } = talk(r, LINES_A_ROUND);
  const child = start();
  child.stderr.destroy();
  child.stdin.write(`${input}no JSON\n`);
  const got = await read(child, Infinity);

  expect(await end(child)).toEqual([1, null]);
  expect(got).toBe(asRead(output));
});

describe("a reader that never reads", () => {
  const REPEATS = 100;

  /** A server that stands still because nobody takes its replies; `input` is far more than pipes hold. */
  async function stalled(input: string): Promise<ChildProcessWithoutNullStreams> {
    const child = start();
    child.stdin.write(input);
    const ticks = (): string => {
      try {
        const stat = readFileSync(`/proc/${String(child.pid)}/stat`, "utf8");
        return stat.slice(stat.lastIndexOf(")")).split(" ").slice(11, 13).join();
      } catch {
        return "unknown";
      }
    };
    let still = 0;
    for (let last = ""; still < 30;) {
      await setTimeout(20);
      const now = ticks();
      still = now === last && now !== "0,0" ? still + 1 : 0;
      last = now;
    }
    return child;
  }

  test("stops the server and its writer, costs no memory, and gets every reply when it reads at last", async () => {
    const r = new Random(SEED + 5);
    const { input, output } = talk(r, LINES_A_ROUND);
    // Said again from the start, so that the replies are the same again.
    const all = input.repeat(REPEATS);
    const child = await stalled(all);

    expect(child.exitCode).toBeNull();
    expect(child.stdin.writableLength).toBeGreaterThan(0);
    const status = readStatus(child.pid);
    if (status !== undefined) expect(status).toBeLessThan(250 * 1024);

    child.stdin.end();
    const got = await read(child, Infinity);
    expect(await end(child)).toEqual([0, null]);
    expect(got === asRead(output.repeat(REPEATS))).toBe(true);
  });

  test("and goes away ends the server", async () => {
    const r = new Random(SEED + 6);
    const child = await stalled(talk(r, LINES_A_ROUND).input.repeat(REPEATS));
    child.stdout.destroy();

    expect(await end(child)).toEqual([0, null]);
    child.stdin.destroy();
  });
});

/** Peak resident memory in KiB, where the system tells. */
function readStatus(pid: number | undefined): number | undefined {
  try {
    const kib = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${String(pid)}/status`, "utf8"))?.[1];
    return kib === undefined ? undefined : Number(kib);
  } catch {
    return undefined;
  }
}
