// Maps chunks in view servers that are processes of their own. Threads make the command lines and encode the replies; this thread only
// moves bytes. After a death the commands that were answered are kept, and the unanswered window is run again one command at a
// time: only a document that fails alone is guilty, and an innocent one is run twice at most.

import { ProtocolError, type BatchReply } from "../../protocol/index.js";
import { EXCEPTION_MARK } from "../../viewserver/index.js";
import { IndexerError } from "../errors.js";
import type { JsReduceResult, JsReduceRunner } from "../reducers/index.js";
import type { ChunkJob, ChunkResult, Mapper } from "./mapper.js";
import { parseReduceReply, reduceLine, rereduceLine } from "./reduce-task.js";
import { singleView } from "./single-view.js";
import type { ServerProcess } from "./server-process.js";
import type { ServerPool } from "./server-pool.js";
import type { ThreadPool } from "./thread-pool.js";
import {
  ALL_DOCUMENTS,
  type DocumentFailure,
  type GroupConfig,
  type GroupJob,
  type GroupSegments,
  type PreparedLines,
  type ViewFailure,
} from "./types.js";

const EXCEPTION = "function raised exception ";

export class ProcessMapper implements Mapper {
  readonly concurrency: number;
  readonly reducesInThreads = false;
  readonly #threads: ThreadPool;
  readonly #servers: ServerPool;

  constructor(threads: ThreadPool, servers: ServerPool) {
    this.#threads = threads;
    this.#servers = servers;
    this.concurrency = servers.size + 1;
  }

  async mapChunk(job: ChunkJob): Promise<ChunkResult> {
    const groups: GroupSegments[][] = [];
    let documents = 0;
    let designs = 0;
    for (const group of job.groups) {
      const { input, signal } = job;
      const prepared = await this.#threads.prepare(
        {
          kind: "prepare",
          input,
          group,
          select: job.select ?? ALL_DOCUMENTS,
          project: this.#servers.own,
        },
        signal,
      );
      documents = prepared.documents;
      designs = prepared.designs;
      groups.push([await this.#mapGroup(job, group, prepared)]);
    }
    return { groups, documents, designs };
  }

  reducer(config: GroupConfig): JsReduceRunner {
    return new ServerReducer(this.#servers, config);
  }

  async close(): Promise<void> {
    await this.#servers.close();
  }

  async #mapGroup(job: ChunkJob, group: GroupJob, prepared: PreparedLines): Promise<GroupSegments> {
    const run = new LineRun(prepared, group.config);
    if (prepared.mapped.length > 0)
      try {
        await this.#servers.use(group.config, job.signal, (lease) => run.run(lease));
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
        // Tells file and line.
        await this.#threads.syntax({ kind: "syntax", input: job.input, index: error.index });
        throw new IndexerError(
          "SOURCE_MALFORMED",
          `${job.input.label}: a document is not JSON: ${error.message}`,
          { file: job.input.label },
        );
      }
    const { lines: _lines, lineEnds: _ends, ...rest } = prepared;
    return this.#threads.encode(
      {
        kind: "encode",
        prepared: { ...rest, lines: new Uint8Array(0), lineEnds: new Uint32Array(0) },
        replies: run.replies(),
        failures: run.failures,
        viewFailures: run.viewFailures,
        group,
        ordinalBase: job.ordinalBase,
      },
      job.signal,
    );
  }
}

/** A server on loan. `replace` ends it and brings a fresh one, configured alike. */
export interface ServerLease {
  readonly server: ServerProcess;
  /** Whether the server knows the command that tells a surplus or missing reply at once. */
  readonly fence: boolean;
  replace(): Promise<void>;
}

/** All `map_doc` lines of one chunk and group on their way through one server after the other, if need be. */
class LineRun {
  readonly failures: DocumentFailure[] = [];
  readonly viewFailures: { index: number; failure: ViewFailure }[] = [];
  readonly #prepared: PreparedLines;
  readonly #config: GroupConfig;
  readonly #pieces: Uint8Array[] = [];
  /** Commands answered or given up. */
  #done = 0;
  /** The server that failed last. */
  #dead: ServerProcess | undefined;

  constructor(prepared: PreparedLines, config: GroupConfig) {
    this.#prepared = prepared;
    this.#config = config;
  }

  replies(): Uint8Array {
    const [only] = this.#pieces;
    if (this.#pieces.length === 1 && only) return only;
    const joined = Buffer.concat(this.#pieces);
    return new Uint8Array(joined);
  }

  async run(lease: ServerLease): Promise<void> {
    const count = this.#prepared.mapped.length;
    while (this.#done < count) {
      const failed = await this.#send(lease, count - this.#done);
      if (!failed) continue;
      const suspects =
        failed.code === "PROTOCOL_UNEXPECTED_REPLY"
          ? count - this.#done
          : Math.max(1, (failed.sent ?? 1) - (failed.answered ?? 0));
      await this.#oneByOne(lease, Math.min(suspects, count - this.#done));
    }
  }

  /** Runs the suspects alone, until the guilty one is found. */
  async #oneByOne(lease: ServerLease, suspects: number): Promise<void> {
    for (let i = 0; i < suspects; i++) {
      const failed = await this.#send(lease, 1);
      // A server that answered and then died did so after a fatal answer, which is recorded as the document's own.
      if (!failed || (failed.answered ?? 0) > 0) continue;
      const failure = await this.#blame(failed);
      this.failures.push({ ...failure, tree: await this.#guiltyView(lease, failure) });
      this.#done++;
      if (failed.code !== "PROTOCOL_UNEXPECTED_REPLY") return;
    }
  }

  /**
   * Which view a document fails in that took its server down: the first whose function alone does so too. Undefined where it takes
   * several of them together.
   */
  async #guiltyView(lease: ServerLease, failure: DocumentFailure): Promise<number | undefined> {
    const { maps } = this.#config;
    if (maps.length === 1 || failure.kind === "output") return undefined;
    const line = this.#prepared.lines.subarray(
      this.#start(this.#done),
      this.#start(this.#done + 1),
    );
    let guilty: number | undefined;
    for (let tree = 0; tree < maps.length && guilty === undefined; tree++) {
      try {
        await lease.server.configure(singleView(this.#config, tree));
        await lease.server.client.batch(line, 1);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        guilty = tree;
        await lease.replace();
      }
    }
    if (guilty === undefined) await lease.server.configure(this.#config);
    return guilty;
  }

  /** Sends the next `count` commands; returns why it ended early, with a fresh server on loan. */
  async #send(lease: ServerLease, count: number): Promise<ProtocolError | undefined> {
    const from = this.#start(this.#done);
    const to = this.#start(this.#done + count);
    const { lines, lineEnds } = this.#prepared;
    try {
      this.#keep(
        await lease.server.client.batch(lines.subarray(from, to), count, {
          fence: lease.fence,
          ...(count === lineEnds.length ? { lineEnds } : {}),
        }),
      );
      return undefined;
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      if (error.partial) this.#keep(error.partial);
      this.#dead = lease.server;
      await lease.replace();
      return error;
    }
  }

  #keep(reply: BatchReply): void {
    const answered = reply.lineStarts.length - 1;
    for (let i = 0; i < answered; i++) {
      const start = reply.lineStarts[i] as number;
      if (reply.replies[start + 1] === 0x22) this.#requireJson(this.#done + i);
    }
    const unnamed = new Map<number, ViewFailure[]>();
    for (const { index, text } of reply.logs) {
      const position = this.#prepared.mapped[this.#done + index];
      const failure = position === undefined ? undefined : this.#failureOf(text);
      if (position === undefined || !failure) continue;
      if (failure.tree < 0) unnamed.set(index, [...(unnamed.get(index) ?? []), failure]);
      else this.viewFailures.push({ index: position, failure });
    }
    for (const [index, failures] of unnamed) {
      const position = this.#prepared.mapped[this.#done + index] as number;
      const silent = index < answered ? silentViews(reply, index) : [];
      for (const [i, failure] of failures.entries()) {
        const tree = silent.length === failures.length ? (silent[i] ?? -1) : -1;
        this.viewFailures.push({ index: position, failure: { ...failure, tree } });
      }
    }
    if (answered > 0) this.#pieces.push(reply.replies);
    this.#done += answered;
  }

  /** What a log line says of a map function that threw. Our own server tells all; of others only the text is known. */
  #failureOf(text: string): ViewFailure | undefined {
    if (text.startsWith(EXCEPTION_MARK)) {
      const told = parseException(text.slice(EXCEPTION_MARK.length));
      if (told && told.tree < this.#config.maps.length) return told;
    }
    if (!text.startsWith(EXCEPTION)) return undefined;
    return {
      tree: this.#config.maps.length === 1 ? 0 : -1,
      kind: "exception",
      error: "exception",
      reason: text.slice(EXCEPTION.length),
    };
  }

  async #blame(failed: ProtocolError): Promise<DocumentFailure> {
    this.#requireJson(this.#done);
    const index = this.#prepared.mapped[this.#done] as number;
    const dead = this.#dead;
    const explained = await dead?.explain(failed);
    const reason = (explained as Error).message;
    const { stderr = "" } = explained instanceof IndexerError ? explained.details : {};
    if (dead?.outgrown || /out of memory|OOM|allocation failed/i.test(stderr))
      return { index, kind: "memory", error: "out_of_memory", reason };
    if (failed.code === "PROTOCOL_TIMEOUT")
      return { index, kind: "timeout", error: "timeout", reason };
    if (failed.code === "PROTOCOL_CLOSED")
      return { index, kind: "crash", error: "view_server_died", reason };
    return { index, kind: "output", error: "view_server_protocol", reason };
  }

  /** Where the line of a command begins. */
  #start(command: number): number {
    return command === 0 ? 0 : (this.#prepared.lineEnds[command - 1] as number);
  }

  /** A document that is not JSON is the source's fault. */
  #requireJson(command: number): void {
    const from = this.#start(command);
    const to = this.#start(command + 1);
    try {
      JSON.parse(Buffer.from(this.#prepared.lines.subarray(from, to)).toString("utf8"));
    } catch (cause) {
      throw new NotJson(this.#prepared.mapped[command] as number, (cause as Error).message);
    }
  }
}

/** The document at this position of its chunk is not JSON. */
class NotJson extends Error {
  constructor(
    readonly index: number,
    message: string,
  ) {
    super(message);
  }
}

/** User code may print such a line too: nothing in it is taken on trust. */
function parseException(json: string): ViewFailure | undefined {
  let told: Readonly<Record<string, unknown>>;
  try {
    told = Object(JSON.parse(json)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const { fn, name, message, stack } = told;
  if (
    !Number.isInteger(fn) ||
    (fn as number) < 0 ||
    typeof name !== "string" ||
    typeof message !== "string"
  )
    return undefined;
  return {
    tree: fn as number,
    kind: "exception",
    error: name,
    reason: message,
    ...(typeof stack === "string" ? { stack } : {}),
  };
}

/** The functions that have no rows in a reply. One that threw has none (PROTOCOL §3), and functions run in their order. */
function silentViews(reply: BatchReply, index: number): number[] {
  const [start, end] = [reply.lineStarts[index] as number, reply.lineStarts[index + 1] as number];
  let rows: unknown;
  try {
    rows = JSON.parse(Buffer.from(reply.replies.subarray(start, end)).toString("utf8"));
  } catch {
    return [];
  }
  if (!Array.isArray(rows)) return [];
  return rows.flatMap((list, i) => (Array.isArray(list) && list.length === 0 ? [i] : []));
}

/** Reduces in view-server processes. A call that takes its server down fails alone. */
class ServerReducer implements JsReduceRunner {
  readonly ours: boolean;
  readonly #servers: ServerPool;
  readonly #config: GroupConfig;

  constructor(servers: ServerPool, config: GroupConfig) {
    this.ours = servers.own;
    this.#servers = servers;
    this.#config = config;
  }

  reduce(sources: readonly string[], rows: string): Promise<readonly JsReduceResult[]> {
    return this.#call(`${reduceLine(sources, rows)}\n`, sources.length);
  }

  async rereduce(source: string, values: string, context?: string): Promise<JsReduceResult> {
    const [result] = await this.#call(`${rereduceLine(source, values, context)}\n`, 1);
    return result ?? "null";
  }

  #call(line: string, count: number): Promise<readonly JsReduceResult[]> {
    return this.#servers.use(this.#config, undefined, async (lease) => {
      try {
        const { replies } = await lease.server.client.batch(Buffer.from(line), 1);
        return parseReduceReply(Buffer.from(replies).toString("utf8"), count);
      } catch (error) {
        if (!(error instanceof ProtocolError)) throw error;
        const dead = lease.server;
        await lease.replace();
        const { message } = (await dead.explain(error)) as Error;
        const failure = { error: "os_process_error", reason: message };
        return Array.from({ length: count }, () => failure);
      }
    });
  }
}
