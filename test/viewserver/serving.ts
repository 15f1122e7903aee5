// A view server without a process: `serve` over bytes in memory, in any chunks; and the compiled program as a child.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { serve } from "../../viewserver/serve.js";
import { Session, type SessionOptions } from "../../viewserver/index.js";

export interface Served {
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number | string | null;
}

/** Fixtures are read from the source tree: jest runs in dist/. */
export function golden(name: string): unknown {
  const file = path.join(import.meta.dirname, "../../../test/fixtures/golden", name);
  return JSON.parse(readFileSync(file, "utf8"));
}

/** Feeds the chunks one read at a time, then the end. */
export function serveBytes(
  chunks: readonly Uint8Array[],
  options: SessionOptions = { mode: "stock" },
): Served {
  let stdout = "";
  let stderr = "";
  const decoder = new TextDecoder();
  let next = 0;
  let offset = 0;
  let now = 0;
  const exit = serve(new Session(options), {
    read(buffer, at, length) {
      while (next < chunks.length && offset >= (chunks[next] as Uint8Array).length) {
        next++;
        offset = 0;
      }
      const chunk = chunks[next];
      if (chunk === undefined) return 0;
      const n = Math.min(length, chunk.length - offset);
      buffer.set(chunk.subarray(offset, offset + n), at);
      offset += n;
      return n;
    },
    write(bytes) {
      stdout += decoder.decode(bytes, { stream: true });
      return true;
    },
    warn(text) {
      stderr += text + "\n";
    },
    now: () => now++,
  });
  return { stdout, stderr, exit };
}

export function serveLines(lines: readonly string[], options?: SessionOptions): Served {
  return serveBytes([Buffer.from(lines.map((l) => l + "\n").join(""))], options);
}

const MAIN = path.join(import.meta.dirname, "../../viewserver/main.js");

export interface Child {
  readonly args?: readonly string[];
  readonly nodeArgs?: readonly string[];
  readonly timeoutMs?: number;
}

/** The compiled program; killed after `timeoutMs`, which shows as exit "SIGKILL". */
export function runProgram(input: string | readonly Uint8Array[], o: Child = {}): Promise<Served> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [...(o.nodeArgs ?? []), MAIN, ...(o.args ?? [])], {
      env: {},
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    child.stdin.on("error", () => undefined);
    const timer = setTimeout(() => child.kill("SIGKILL"), o.timeoutMs ?? 20_000);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ stdout, stderr, exit: signal ?? code });
    });
    if (typeof input === "string") child.stdin.end(input);
    else {
      for (const chunk of input) child.stdin.write(chunk);
      child.stdin.end();
    }
  });
}

/** Reply lines, parsed. */
export function replies(stdout: string): unknown[] {
  const lines = stdout.split("\n");
  if (lines.pop() !== "") throw new Error("the last reply has no LF");
  return lines.map((line) => JSON.parse(line) as unknown);
}
