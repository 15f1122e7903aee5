// The parent's end of try-child.ts: asks one thing at a time, and starts the process anew when a function took it down or did not come
// back in time.

import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

import type { TryDeath } from "./try-child.js";
import type { TryFunctions, TryReply, TryRequest } from "./try-worker.js";

export interface TryProcessOptions {
  /** A call may take so long. */
  readonly timeoutMs: number;
  /** JavaScript heap in MiB. */
  readonly heapMb: number;
}

/** Functions have so long to be loaded, whatever the limit of a call. */
const LOAD_MS_MIN = 30_000;

const PROGRAM = fileURLToPath(new URL("./try-child.js", import.meta.url));

export class TryProcess {
  readonly #functions: TryFunctions;
  readonly #options: TryProcessOptions;
  #child: ChildProcess | undefined;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(functions: TryFunctions, options: TryProcessOptions) {
    this.#functions = functions;
    this.#options = options;
  }

  /** What does not compile. */
  async load(): Promise<Extract<TryReply, { kind: "load" }> | TryDeath> {
    this.#child ??= this.#start();
    return (await this.#ask({ kind: "load", functions: this.#functions })) as
      Extract<TryReply, { kind: "load" }> | TryDeath;
  }

  /** Requests are answered in order. A process that died is started again for the next one. */
  ask<R extends Exclude<TryRequest, { kind: "load" }>>(
    request: R,
  ): Promise<Extract<TryReply, { kind: R["kind"] extends "map" ? "map" : "reduce" }> | TryDeath> {
    const done = this.#queue.then(async () => {
      if (!this.#child) {
        const loaded = await this.load();
        if (loaded.kind === "death") return loaded;
      }
      return this.#ask(request);
    });
    this.#queue = done.catch(() => undefined);
    return done as Promise<never>;
  }

  close(): void {
    this.#child?.kill("SIGKILL");
    this.#child = undefined;
  }

  #start(): ChildProcess {
    const child = fork(PROGRAM, [String(this.#options.heapMb)], {
      execArgv: [],
      env: {},
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    child.on("error", () => undefined);
    return child;
  }

  async #ask(request: TryRequest): Promise<TryReply | TryDeath> {
    const child = this.#child;
    if (!child) throw new Error("viewmill bug: no process to ask");
    // A process that has just been started may take its time.
    const timeoutMs = Math.max(this.#options.timeoutMs, request.kind === "load" ? LOAD_MS_MIN : 0);
    const ended = new AbortController();
    const { signal } = ended;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<TryDeath>((resolve) => {
      timer = setTimeout(() => {
        resolve({ kind: "death", error: "timeout", reason: `took longer than ${timeoutMs} ms` });
      }, timeoutMs);
    });
    const reply = once(child, "message", { signal }).then(
      ([message]) => message as TryReply | TryDeath,
    );
    const exit = once(child, "exit", { signal }).then(([code, name]): TryDeath => ({
      kind: "death",
      error: "crash",
      reason: `took its process down (${name === null ? `exit code ${String(code)}` : String(name)}), as when memory runs out`,
    }));
    for (const promise of [reply, exit]) promise.catch(() => undefined);
    child.send(request);
    try {
      const answer = await Promise.race([reply, exit, late]);
      if (answer.kind === "death") this.close();
      return answer;
    } finally {
      clearTimeout(timer);
      ended.abort();
    }
  }
}
