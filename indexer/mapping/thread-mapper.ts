// Maps chunks in threads. A chunk that its thread died of is mapped once more, carefully (careful-mapping.ts).

import type { JsReduceResult, JsReduceRunner } from "../reducers/index.js";
import { CarefulMapping } from "./careful-mapping.js";
import type { ChunkJob, ChunkResult, Mapper } from "./mapper.js";
import { ThreadDeath, type ThreadPool } from "./thread-pool.js";
import {
  ALL_DOCUMENTS,
  type FunctionLimits,
  type GroupConfig,
  type MapResult,
  type ReduceRequest,
} from "./types.js";

export class ThreadMapper implements Mapper {
  readonly concurrency: number;
  readonly reducesInThreads = true;
  readonly #pool: ThreadPool;
  readonly #limits: FunctionLimits;

  constructor(pool: ThreadPool, limits: FunctionLimits = {}) {
    this.#pool = pool;
    this.#limits = limits;
    this.concurrency = pool.threads + 1;
  }

  async mapChunk(job: ChunkJob): Promise<ChunkResult> {
    const { groups, documents, designs } = await this.#map(job);
    return { groups: groups.map((segments) => [segments]), documents, designs };
  }

  reducer(config: GroupConfig): JsReduceRunner {
    return new PooledReducer(this.#pool, config);
  }

  /** The pool belongs to whoever made it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #map(job: ChunkJob): Promise<MapResult> {
    const { input, groups, ordinalBase, signal } = job;
    const task = {
      kind: "map",
      input,
      groups,
      select: job.select ?? ALL_DOCUMENTS,
      ordinalBase,
      mapLimits: this.#limits,
    } as const;
    try {
      return await this.#pool.map(task, signal);
    } catch (error) {
      if (!(error instanceof ThreadDeath)) throw error;
      return new CarefulMapping(this.#pool, task, signal).run(error);
    }
  }
}

/** Reduces in pool threads. A call that takes its thread down fails alone. */
class PooledReducer implements JsReduceRunner {
  readonly ours = true;
  readonly #pool: ThreadPool;
  readonly #config: GroupConfig;

  constructor(pool: ThreadPool, config: GroupConfig) {
    this.#pool = pool;
    this.#config = config;
  }

  async reduce(sources: readonly string[], rows: string): Promise<readonly JsReduceResult[]> {
    const [results] = await this.#run([{ rereduce: false, sources, input: rows, context: "" }]);
    return results ?? [];
  }

  async rereduce(source: string, values: string, context = ""): Promise<JsReduceResult> {
    const [results] = await this.#run([
      { rereduce: true, sources: [source], input: values, context },
    ]);
    return results?.[0] ?? "null";
  }

  reduceBatch(
    sources: readonly string[],
    rows: readonly string[],
  ): Promise<readonly (readonly JsReduceResult[])[]> {
    return this.#run(rows.map((input) => ({ rereduce: false, sources, input, context: "" })));
  }

  async rereduceBatch(
    source: string,
    values: readonly string[],
    context = "",
  ): Promise<readonly JsReduceResult[]> {
    const results = await this.#run(
      values.map((input) => ({ rereduce: true, sources: [source], input, context })),
    );
    return results.map(([result]) => result ?? "null");
  }

  async #run(requests: readonly ReduceRequest[]): Promise<readonly (readonly JsReduceResult[])[]> {
    try {
      return await this.#pool.reduce({ kind: "reduce", requests, limits: this.#config.limits });
    } catch (error) {
      if (!(error instanceof ThreadDeath)) throw error;
      if (requests.length > 1) {
        const each: (readonly JsReduceResult[])[] = [];
        for (const request of requests) each.push(...(await this.#run([request])));
        return each;
      }
      const failure = { error: error.reason, reason: `The reduce function ${error.message}` };
      return requests.map(({ sources }) => sources.map(() => failure));
    }
  }
}
