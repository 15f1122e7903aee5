// Runs the `viewmill` program as people do: as a process. Started detached, so that a whole tree of processes can be killed.

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import { afterAll } from "@jest/globals";

const running = new Set<CliRun>();

// What a failed test has left running.
afterAll(async () => {
  for (const run of running) await run.killTree();
});

/** The compiled program. */
export const PROGRAM = fileURLToPath(new URL("../../indexer/cli/main.js", import.meta.url));

export interface CliResult {
  readonly exit: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliOptions {
  readonly input?: string;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** A run of the program that may be watched and killed. */
export class CliRun {
  readonly child: ChildProcess;
  readonly ended: Promise<CliResult>;
  stdout = "";
  stderr = "";
  readonly #watchers = new Set<() => void>();
  #over = false;

  constructor(args: readonly string[], options: CliOptions = {}) {
    const child = spawn(process.execPath, [PROGRAM, ...args], {
      stdio: [options.input === undefined ? "ignore" : "pipe", "pipe", "pipe"],
      detached: true,
      cwd: options.cwd,
      env: { ...process.env, ...options.env },
    });
    this.child = child;
    running.add(this);
    if (options.input !== undefined) child.stdin?.end(options.input);
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.#tell();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.#tell();
    });
    this.ended = once(child, "close").then(([exit, signal]) => {
      this.#over = true;
      running.delete(this);
      this.#tell();
      return {
        exit: exit as number | null,
        signal: signal as NodeJS.Signals | null,
        stdout: this.stdout,
        stderr: this.stderr,
      };
    });
  }

  /** Complete JSON lines printed so far. */
  lines(): Record<string, unknown>[] {
    return jsonLines(this.stdout.slice(0, this.stdout.lastIndexOf("\n") + 1));
  }

  /** Resolves when `met` says so for what was printed so far; false when the program ended before. */
  async until(met: (run: CliRun) => boolean): Promise<boolean> {
    for (;;) {
      if (met(this)) return true;
      if (this.#over) return false;
      await new Promise<void>((resolve) => {
        this.#watchers.add(resolve);
      });
    }
  }

  /** Sends a signal to the program alone. */
  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Kills the program and all its children at one blow, and waits until it is gone. */
  async killTree(): Promise<void> {
    if (this.child.pid !== undefined)
      try {
        process.kill(-this.child.pid, "SIGKILL");
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
      }
    await this.ended;
  }

  #tell(): void {
    for (const resolve of [...this.#watchers]) {
      this.#watchers.delete(resolve);
      resolve();
    }
  }
}

/** Starts the program. */
export function startViewmill(args: readonly string[], options?: CliOptions): CliRun {
  return new CliRun(args, options);
}

/** Runs the program to its end. */
export function viewmill(args: readonly string[], options?: CliOptions): Promise<CliResult> {
  return new CliRun(args, options).ended;
}

/** Lines of stdout as JSON. */
export function jsonLines(stdout: string): Record<string, unknown>[] {
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** The last line of a build with --json. */
export interface BuildDone {
  readonly documents: number;
  readonly mapped: number;
  readonly unchanged: number;
  readonly deleted: number;
  readonly failed: number;
  readonly rows: number;
  readonly errors: number;
}

/** What a build with --json says at its end. */
export function buildDone(result: Pick<CliResult, "stdout" | "stderr">): BuildDone {
  const done = jsonLines(result.stdout).at(-1)?.["done"];
  if (done === undefined)
    throw new Error(`the build said nothing at its end: ${result.stdout}\n${result.stderr}`);
  return done as BuildDone;
}
