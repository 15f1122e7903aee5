// Maps a chunk that its thread died of. Documents go in one by one, and each answer is told at once, so that it outlives the thread: when that
// dies again, the document at hand is run once more, alone, in a fresh thread, and is guilty only if it fails there too; what was
// answered is not asked again. So an innocent document is run twice at most: by the first attempt, and by this one.

import { receiveMessageOnPort, type MessagePort } from "node:worker_threads";

import { IndexerError } from "../errors.js";
import { singleView } from "./single-view.js";
import { ThreadDeath, type ThreadPool } from "./thread-pool.js";
import type {
  CarefulNews,
  DocumentAnswer,
  DocumentFailure,
  GroupJob,
  MapResult,
  MapTask,
  SettledDocuments,
} from "./types.js";

/** A chunk's task, as the first attempt was given it. */
type ChunkTask = Omit<MapTask, "heartbeat" | "slot" | "careful">;

interface Settled extends SettledDocuments {
  readonly answers: Map<number, DocumentAnswer>;
  readonly failures: Map<number, DocumentFailure>;
}

/** What an attempt came to. */
interface Attempt {
  /** Undefined when it ended with its thread. */
  readonly result: MapResult | undefined;
  readonly death: ThreadDeath | undefined;
  /** Answers by group, and the group at hand. */
  readonly answers: readonly ReadonlyMap<number, DocumentAnswer>[];
  readonly group: number;
}

const ERRORS = { timeout: "timeout", memory: "out_of_memory", crash: "view_server_died" } as const;

/** A document's death as an error record. */
export function deathFailure(
  index: number,
  death: Pick<ThreadDeath, "reason" | "message">,
): DocumentFailure {
  const { reason, message } = death;
  return { index, kind: reason, error: ERRORS[reason], reason: `The document ${message}` };
}

export class CarefulMapping {
  readonly #pool: Pick<ThreadPool, "map">;
  readonly #task: ChunkTask;
  readonly #signal: AbortSignal | undefined;
  readonly #settled: readonly Settled[];

  constructor(pool: Pick<ThreadPool, "map">, task: ChunkTask, signal: AbortSignal | undefined) {
    this.#pool = pool;
    this.#task = task;
    this.#signal = signal;
    this.#settled = task.groups.map(nothingSettled);
  }

  /** @param first - how the first attempt ended. */
  async run(first: ThreadDeath): Promise<MapResult> {
    requireDocument(first);
    for (;;) {
      const { result, death, answers, group } = await this.#attempt(this.#task, this.#settled);
      for (const [g, told] of answers.entries())
        for (const [index, answer] of told) this.#settled[g]?.answers.set(index, answer);
      if (result) return result;
      requireDocument(death);
      const settled = await this.#suspect(group, death.beat - 1);
      // It was none that died outside of user code; and each attempt must leave less to the next.
      if (!settled && answers.every(({ size }) => size === 0)) throw death;
    }
  }

  /** Runs the document at which the thread died alone; false when it is settled already. */
  async #suspect(group: number, index: number): Promise<boolean> {
    const job = this.#task.groups[group];
    const settled = this.#settled[group];
    if (!job || !settled || settled.answers.has(index) || settled.failures.has(index)) return false;
    const { death, answers } = await this.#alone(job, index);
    const answer = answers[0]?.get(index);
    if (answer) settled.answers.set(index, answer);
    else if (death)
      settled.failures.set(index, {
        ...deathFailure(index, death),
        tree: await this.#guiltyView(job, index),
      });
    return answer !== undefined || death !== undefined;
  }

  /** The first view of the group whose function alone ends a thread at this document. */
  async #guiltyView(job: GroupJob, index: number): Promise<number | undefined> {
    const views = job.config.maps.length;
    if (views === 1) return undefined;
    for (let tree = 0; tree < views; tree++) {
      const { death } = await this.#alone({ ...job, config: singleView(job.config, tree) }, index);
      if (death) return tree;
    }
    return undefined;
  }

  #alone(job: GroupJob, index: number): Promise<Attempt> {
    const groups = [{ ...job, output: { kind: "memory" }, known: undefined }] as const;
    const select = { from: index, to: index + 1 };
    return this.#attempt({ ...this.#task, groups, select }, groups.map(nothingSettled));
  }

  async #attempt(task: ChunkTask, settled: readonly Settled[]): Promise<Attempt> {
    const { port1, port2 } = new MessageChannel();
    try {
      const careful = { port: port2, settled };
      const result = await this.#pool.map({ ...task, careful }, this.#signal);
      return { result, death: undefined, ...toldTo(port1, task.groups.length) };
    } catch (error) {
      if (!(error instanceof ThreadDeath)) throw error;
      return { result: undefined, death: error, ...toldTo(port1, task.groups.length) };
    } finally {
      port1.close();
    }
  }
}

/** All that was told so far. It has arrived: it was sent before the thread answered or died. */
function toldTo(port: MessagePort, groups: number): Pick<Attempt, "answers" | "group"> {
  const answers = Array.from({ length: groups }, () => new Map<number, DocumentAnswer>());
  let group = 0;
  for (let told = receiveMessageOnPort(port); told; told = receiveMessageOnPort(port)) {
    const news = told.message as CarefulNews;
    if ("group" in news) group = news.group;
    else answers[group]?.set(news.index, news.answer);
  }
  return { answers, group };
}

function nothingSettled(): Settled {
  return { answers: new Map(), failures: new Map() };
}

/** A thread that died while functions were compiled, or outside of them, died of no document. */
function requireDocument(death: ThreadDeath | undefined): asserts death is ThreadDeath {
  if (!death) throw new Error("viewmill bug: an attempt without an end");
  if (death.beat < 0)
    throw new IndexerError(
      "INDEXER_DDOC_COMPILATION",
      `a map function ${death.message} while it was compiled`,
      { status: 400, error: "compilation_error", reason: `Compilation ${death.message}` },
      { cause: death },
    );
  if (death.beat === 0) throw death;
}
