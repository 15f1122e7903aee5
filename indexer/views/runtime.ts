// Where map and reduce functions run: threads and view-server processes, made (and their modules loaded) when they are first needed.

import { availableParallelism } from "node:os";

import type { Mapper } from "../mapping/mapper.js";
import { ThreadMapper } from "../mapping/thread-mapper.js";
import { ThreadPool } from "../mapping/thread-pool.js";
import type { FunctionLimits, GroupConfig } from "../mapping/types.js";
import type { JsReduceRunner } from "../reducers/index.js";

export interface RuntimeOptions {
  /** `threads`: in this process, for functions that are trusted not to break it. `processes`: in view servers. */
  readonly mapIn: "threads" | "processes";
  /** Command line of a view server. Default: our own. */
  readonly server?: string | undefined;
  /** Threads, or view servers. Default: the number of cores, at most 8. */
  readonly threads?: number;
  /** A document or reduce call may take this long, in milliseconds. Default 5000. */
  readonly timeoutMs?: number;
  /** JavaScript heap of a thread or view server, in MiB. Default 512. */
  readonly heapMb?: number;
  /** Memory that mapping one document may take in all, in MiB. Default 1024. */
  readonly memoryMb?: number;
  /** What one document may bring forth; for our own view server only. */
  readonly limits?: FunctionLimits;
  /** Whether our own view server answers just as CouchDB's does. Default false. */
  readonly strict?: boolean;
}

type CompleteOptions = Required<Omit<RuntimeOptions, "server">> & {
  readonly server: string | undefined;
};

const THREADS_MAX = 8;

export class MappingRuntime {
  readonly #options: CompleteOptions;
  #threads: ThreadPool | undefined;
  #mapper: Promise<Mapper> | undefined;

  constructor(options: RuntimeOptions) {
    this.#options = {
      mapIn: options.mapIn,
      server: options.server,
      threads: options.threads ?? Math.min(availableParallelism(), THREADS_MAX),
      timeoutMs: options.timeoutMs ?? 5000,
      heapMb: options.heapMb ?? 512,
      memoryMb: options.memoryMb ?? 1024,
      limits: options.limits ?? {},
      strict: options.strict ?? false,
    };
  }

  get threads(): ThreadPool {
    const { threads, timeoutMs, heapMb, memoryMb } = this.#options;
    this.#threads ??= new ThreadPool({ threads, timeoutMs, heapMb, growthMb: memoryMb });
    return this.#threads;
  }

  mapper(): Promise<Mapper> {
    this.#mapper ??=
      this.#options.mapIn === "threads"
        ? Promise.resolve(new ThreadMapper(this.threads, this.#options.limits))
        : this.#processes();
    return this.#mapper;
  }

  /** Makes a mapper whose faults stay in child processes; undefined when `mapper` is one. */
  get isolated(): (() => Promise<Mapper>) | undefined {
    // Documents that a dead process was mapping are run again: none of them a third time, so each is answered before the next is sent.
    return this.#options.mapIn === "threads" ? () => this.#processes(1) : undefined;
  }

  /** Custom reduces of a group. The mapper is made at the first call. */
  reducer(config: GroupConfig): JsReduceRunner {
    let made: Promise<JsReduceRunner> | undefined;
    const runner = (): Promise<JsReduceRunner> =>
      (made ??= this.mapper().then((mapper) => mapper.reducer(config)));
    return {
      ours: this.#options.mapIn === "threads" || this.#options.server === undefined,
      reduce: async (sources, rows) => (await runner()).reduce(sources, rows),
      rereduce: async (source, values, context) =>
        (await runner()).rereduce(source, values, context),
      reduceBatch: async (sources, rows) => {
        const js = await runner();
        return (
          js.reduceBatch?.(sources, rows) ??
          Promise.all(rows.map(async (input) => js.reduce(sources, input)))
        );
      },
      rereduceBatch: async (source, values, context) => {
        const js = await runner();
        return (
          js.rereduceBatch?.(source, values, context) ??
          Promise.all(values.map(async (input) => js.rereduce(source, input, context)))
        );
      },
    };
  }

  async close(): Promise<void> {
    // One that could not be made was complained of when it was asked for.
    await (await this.#mapper?.catch(() => undefined))?.close();
    await this.#threads?.close();
  }

  async #processes(windowCommands?: number): Promise<Mapper> {
    const { ProcessMapper, ServerPool, ownServer, parseServerCommand } =
      await import("../mapping/processes.js");
    const { server, threads, timeoutMs, heapMb, memoryMb, limits, strict } = this.#options;
    const command =
      server === undefined ? ownServer(heapMb, strict, limits) : parseServerCommand(server);
    return new ProcessMapper(
      this.threads,
      new ServerPool(command, threads, {
        timeoutMs,
        memoryMb,
        ...(windowCommands === undefined ? {} : { windowCommands }),
      }),
    );
  }
}
