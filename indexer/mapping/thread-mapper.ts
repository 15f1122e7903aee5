// Maps chunks in threads. The heartbeat names the batch at which a thread died. Its documents are run one by one then, and the heartbeat
// names the one at which that thread dies; that document is run once more, alone, in a fresh thread, and is guilty only if it fails
// there too. The documents before it are run again, those after it for the first time.

import { IndexerError } from "../errors.js";
import type { JsReduceResult, JsReduceRunner } from "../reducers/index.js";
import type { ChunkJob, ChunkResult, Mapper } from "./mapper.js";
import { singleView } from "./single-view.js";
import { ThreadDeath, type ThreadPool } from "./thread-pool.js";
import {
  ALL_DOCUMENTS,
  BATCH_DOCUMENTS_MAX,
  type DocumentFailure,
  type GroupConfig,
  type FunctionLimits,
  type MapResult,
  type ReduceRequest,
} from "./types.js";

/** A document's death as an error record. */
export function deathFailure(
  index: number,
  death: Pick<ThreadDeath, "reason" | "message">,
): DocumentFailure {
  const error = { timeout: "timeout", memory: "out_of_memory", crash: "view_server_died" }[
    death.reason
  ];
  return { index, kind: death.reason, error, reason: `The document ${death.message}` };
}

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
    const parts: MapResult[] = [];
    const { from, to } = job.select ?? ALL_DOCUMENTS;
    await this.#range(job, from, to, parts, false);
    return {
      groups: job.groups.map((_, g) => parts.flatMap((part) => part.groups[g] ?? [])),
      documents: parts[0]?.documents ?? 0,
      designs: parts[0]?.designs ?? 0,
    };
  }

  reducer(config: GroupConfig): JsReduceRunner {
    return new PooledReducer(this.#pool, config);
  }

  /** The pool belongs to whoever made it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #range(
    job: ChunkJob,
    from: number,
    to: number,
    parts: MapResult[],
    apart: boolean,
  ): Promise<void> {
    try {
      parts.push(await this.#map(job, from, to, apart, []));
      return;
    } catch (error) {
      if (!(error instanceof ThreadDeath)) throw error;
      if (error.beat < 0)
        throw new IndexerError(
          "INDEXER_DDOC_COMPILATION",
          `a map function ${error.message} while it was compiled`,
          { status: 400, error: "compilation_error", reason: `Compilation ${error.message}` },
          { cause: error },
        );
      const suspect = error.beat - 1;
      // Died outside user code, or on a document that is already set aside: not something a document can be blamed for.
      if (suspect < from) throw error;
      if (suspect > from) await this.#range(job, from, suspect, parts, apart);
      const end = apart ? suspect + 1 : Math.min(to, suspect + BATCH_DOCUMENTS_MAX);
      if (apart) await this.#alone(job, suspect, parts);
      else await this.#range(job, suspect, end, parts, true);
      if (end < to) await this.#range(job, end, to, parts, apart);
    }
  }

  async #alone(job: ChunkJob, index: number, parts: MapResult[]): Promise<void> {
    let death: ThreadDeath;
    try {
      parts.push(await this.#map(job, index, index + 1, true, []));
      return;
    } catch (error) {
      if (!(error instanceof ThreadDeath)) throw error;
      death = error;
    }
    const { groups } = job;
    if (groups.length === 1) {
      const failure = { ...deathFailure(index, death), tree: await this.#guiltyView(job, index) };
      parts.push(await this.#map(job, index, index + 1, true, [failure]));
      return;
    }
    // One group's function is guilty; the others get their rows.
    const each: MapResult[] = [];
    for (const group of groups) await this.#alone({ ...job, groups: [group] }, index, each);
    parts.push({
      groups: each.flatMap((part) => part.groups),
      documents: each[0]?.documents ?? 0,
      designs: each[0]?.designs ?? 0,
    });
  }

  /** The first view of the job's group whose function alone ends a thread at this document. */
  async #guiltyView(job: ChunkJob, index: number): Promise<number | undefined> {
    const [group] = job.groups;
    const views = group?.config.maps.length ?? 0;
    if (!group || views === 1) return undefined;
    for (let tree = 0; tree < views; tree++) {
      const config = singleView(group.config, tree);
      const groups = [{ config, output: { kind: "memory" as const }, known: undefined }];
      try {
        await this.#map({ ...job, groups }, index, index + 1, true, []);
      } catch (error) {
        if (!(error instanceof ThreadDeath)) throw error;
        return tree;
      }
    }
    return undefined;
  }

  #map(
    job: ChunkJob,
    from: number,
    to: number,
    apart: boolean,
    failures: readonly DocumentFailure[],
  ): Promise<MapResult> {
    const { input, groups, ordinalBase, signal } = job;
    // A run file holds the segments of one part; the others get names of their own.
    const named = groups.map((group) =>
      group.output.kind === "run" && from > 0
        ? { ...group, output: { kind: "run" as const, path: `${group.output.path}.${from}` } }
        : group,
    );
    return this.#pool.map(
      {
        kind: "map",
        input,
        groups: named,
        select: { from, to },
        apart,
        failures,
        ordinalBase,
        mapLimits: this.#limits,
      },
      signal,
    );
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
