// Mapping threads (piscina) under a watchdog. User code may loop or eat memory: each task that runs it beats a word in shared memory once
// per document or small batch of them; a beat that stands still for too long, or a process that grows too big, ends the thread. No timer
// is armed per document.

import { availableParallelism } from "node:os";
import type { MessagePort } from "node:worker_threads";

import { Piscina } from "piscina";

import { IndexerError, type IndexerErrorCode } from "../errors.js";
import { startFile } from "../start-file.js";
import type {
  CheckResult,
  CheckTask,
  EncodeTask,
  GroupSegments,
  MapResult,
  MapTask,
  MergeResult,
  MergeTask,
  PrepareTask,
  PreparedLines,
  ReduceTask,
  ScanResult,
  ScanTask,
  SyntaxTask,
  ThreadReply,
  ThreadTask,
} from "./types.js";

/**
 * V8 lets it grow to 48 MiB (three semi-spaces of 16) as long as a thread allocates, which a large build does longer than a small one.
 * What mapping allocates dies at once, in four as in sixteen.
 */
const YOUNG_GENERATION_MB = 12;
const SLOTS = 256;
const WATCH_INTERVAL_MS = 50;

/** Why a thread ended under its task. */
export type DeathReason = "timeout" | "memory" | "crash";

/** The thread died. `beat` is the number of documents or calls begun: the last of them is the suspect. */
export class ThreadDeath extends Error {
  constructor(
    readonly reason: DeathReason,
    readonly beat: number,
    message: string,
  ) {
    super(message);
  }
}

export interface ThreadPoolOptions {
  /** Default: the number of cores, at most 8. */
  readonly threads?: number;
  /** A document (or reduce call) that runs longer ends its thread. Default 5000 ms. */
  readonly timeoutMs?: number;
  /** JavaScript heap of a thread, in MiB. Default 512. */
  readonly heapMb?: number;
  /** Growth of the process, in MiB, that a single document may cause before its thread is ended. Default 1024. */
  readonly growthMb?: number;
  /** What the threads run. Default: `worker.ts`, or its bundle. */
  readonly program?: URL;
}

interface Watch {
  readonly slot: number;
  readonly abort: AbortController;
  beat: number;
  since: number;
  rss: number;
  verdict: DeathReason | undefined;
}

type Results = {
  map: MapResult;
  prepare: PreparedLines;
  encode: GroupSegments;
  scan: ScanResult;
  merge: MergeResult;
  reduce: string[][];
  check: CheckResult;
  syntax: undefined;
};

type Unslotted<T> = Omit<T, "heartbeat" | "slot">;

export class ThreadPool {
  readonly threads: number;
  readonly #pool: Piscina;
  readonly #timeoutMs: number;
  readonly #growthBytes: number;
  readonly #beats = new SharedArrayBuffer(SLOTS * 4);
  readonly #words = new Int32Array(this.#beats);
  readonly #free: number[] = Array.from({ length: SLOTS }, (_, i) => SLOTS - 1 - i);
  /** Tasks beyond these; more would only wait in the pool's queue. */
  readonly #waiting: ((slot: number) => void)[] = [];
  readonly #watches = new Set<Watch>();
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ThreadPoolOptions = {}) {
    this.threads = options.threads ?? Math.min(availableParallelism(), 8);
    this.#timeoutMs = options.timeoutMs ?? 5000;
    this.#growthBytes = (options.growthMb ?? 1024) * 2 ** 20;
    this.#pool = new Piscina({
      filename: (options.program ?? startFile("worker")).href,
      minThreads: 0,
      maxThreads: this.threads,
      idleTimeout: 30_000,
      resourceLimits: {
        maxOldGenerationSizeMb: options.heapMb ?? 512,
        maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
      },
      env: {},
    });
    // Told to nobody in particular: the answer to a task that was given up meanwhile, or the end of an idle thread. Whoever waits for a
    // task is told its own failure; without a listener these would end the process.
    this.#pool.on("error", () => undefined);
  }

  prepare(task: PrepareTask, signal?: AbortSignal): Promise<PreparedLines> {
    return this.#run(task, signal);
  }
  encode(task: EncodeTask, signal?: AbortSignal): Promise<GroupSegments> {
    return this.#run(task, signal);
  }
  scan(task: ScanTask, signal?: AbortSignal): Promise<ScanResult> {
    return this.#run(task, signal);
  }
  check(task: CheckTask, signal?: AbortSignal): Promise<CheckResult> {
    return this.#run(task, signal);
  }
  /** @throws IndexerError `SOURCE_MALFORMED` when the document is not JSON. */
  async syntax(task: SyntaxTask): Promise<void> {
    await this.#run(task);
  }
  /** @throws ThreadDeath when user code takes the thread down. */
  map(task: Unslotted<MapTask>, signal?: AbortSignal): Promise<MapResult> {
    return this.#watched((heartbeat, slot) => ({ ...task, heartbeat, slot }), signal);
  }
  /** @throws ThreadDeath when user code takes the thread down. */
  merge(task: Unslotted<MergeTask>, signal?: AbortSignal): Promise<MergeResult> {
    return this.#watched((heartbeat, slot) => ({ ...task, heartbeat, slot }), signal);
  }
  /** @throws ThreadDeath when user code takes the thread down. */
  reduce(task: Unslotted<ReduceTask>, signal?: AbortSignal): Promise<string[][]> {
    return this.#watched((heartbeat, slot) => ({ ...task, heartbeat, slot }), signal);
  }

  /** Starts all threads at once; else each starts with the first task that finds the others busy. They end when idle, as always. */
  start(): void {
    for (let i = this.#pool.threads.length; i < this.threads; i++)
      this.check({ kind: "check", sources: [] }).catch(() => undefined);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#timer);
    await this.#pool.destroy();
  }

  async #run<T extends ThreadTask>(task: T, signal?: AbortSignal): Promise<Results[T["kind"]]> {
    if (this.#closed) throw new IndexerError("INDEXER_CLOSED", "the mapping threads were closed");
    const transferList = transferables(task);
    const reply = (await this.#pool.run(task, {
      ...(signal ? { signal } : {}),
      ...(transferList.length > 0 ? { transferList } : {}),
    })) as ThreadReply<Results[T["kind"]]>;
    if (reply.ok) return reply.result;
    if (reply.name === "IndexerError")
      throw new IndexerError(reply.code as IndexerErrorCode, reply.message, reply.details ?? {});
    throw Object.assign(new Error(reply.message), { code: reply.code, details: reply.details });
  }

  async #watched<T extends MapTask | MergeTask | ReduceTask>(
    make: (heartbeat: SharedArrayBuffer, slot: number) => T,
    signal?: AbortSignal,
  ): Promise<Results[T["kind"]]> {
    const slot =
      this.#free.pop() ??
      (await new Promise<number>((resolve) => {
        this.#waiting.push(resolve);
      }));
    this.#words[slot] = 0;
    const abort = new AbortController();
    const onAbort = (): void => {
      abort.abort();
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) abort.abort();
    const watch: Watch = {
      slot,
      abort,
      beat: 0,
      since: performance.now(),
      rss: 0,
      verdict: undefined,
    };
    this.#watches.add(watch);
    this.#timer ??= setInterval(() => {
      this.#check();
    }, WATCH_INTERVAL_MS).unref();
    try {
      return await this.#run(make(this.#beats, slot), abort.signal);
    } catch (error) {
      if (signal?.aborted) throw new IndexerError("INDEXER_ABORTED", "the call was aborted");
      const death = this.#death(watch, error);
      throw death ?? error;
    } finally {
      signal?.removeEventListener("abort", onAbort);
      this.#watches.delete(watch);
      const next = this.#waiting.shift();
      if (next) next(slot);
      else this.#free.push(slot);
      if (this.#watches.size === 0) {
        clearInterval(this.#timer);
        this.#timer = undefined;
      }
    }
  }

  #death(watch: Watch, error: unknown): ThreadDeath | undefined {
    const beat = this.#words[watch.slot] as number;
    if (watch.verdict === "timeout")
      return new ThreadDeath("timeout", beat, `took longer than ${this.#timeoutMs} ms`);
    if (watch.verdict === "memory")
      return new ThreadDeath(
        "memory",
        beat,
        `made the process grow by more than ${this.#growthBytes / 2 ** 20} MiB`,
      );
    const { code, message } = error as { code?: string; message?: string };
    if (code === "ERR_WORKER_OUT_OF_MEMORY")
      return new ThreadDeath("memory", beat, "exhausted the JavaScript heap");
    if (message?.startsWith("worker exited")) return new ThreadDeath("crash", beat, message);
    return undefined;
  }

  /** A beat of 0 means that no user code runs in the task at the moment. */
  #check(): void {
    const now = performance.now();
    const rss = process.memoryUsage.rss();
    for (const watch of this.#watches) {
      const beat = this.#words[watch.slot] as number;
      if (beat !== watch.beat || beat === 0) {
        watch.beat = beat;
        watch.since = now;
        watch.rss = rss;
      } else if (watch.verdict === undefined) {
        if (now - watch.since > this.#timeoutMs) watch.verdict = "timeout";
        else if (rss - watch.rss > this.#growthBytes) watch.verdict = "memory";
        if (watch.verdict) watch.abort.abort();
      }
    }
  }
}

/** Buffers that need not be copied on the way in: the task's owner gives them away. */
function transferables(task: ThreadTask): (ArrayBuffer | MessagePort)[] {
  const list: (ArrayBuffer | MessagePort)[] = [];
  const add = (view: Uint8Array | Uint32Array | undefined): void => {
    if (
      view &&
      view.buffer instanceof ArrayBuffer &&
      view.byteLength === view.buffer.byteLength &&
      view.byteLength > 0
    )
      list.push(view.buffer);
  };
  if (task.kind === "encode") {
    add(task.replies);
    const { ids, idStart, idEnd, hashLow, hashHigh, verdicts, mapped } = task.prepared;
    for (const view of [ids, idStart, idEnd, hashLow, hashHigh, verdicts, mapped]) add(view);
  }
  if (task.kind === "merge" && task.reducePort) list.push(task.reducePort);
  if (task.kind === "map" && task.careful) list.push(task.careful.port);
  return list;
}
