// Several processes that answer, beside this one that writes: node:cluster hands out the connections of one port, in turn. Processes and
// not threads, because a thread cannot be given a connection.

import cluster, { type Worker } from "node:cluster";
import { createServer, type AddressInfo } from "node:net";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";

import type { StampedFile } from "../sources/index.js";
import { startFile } from "../start-file.js";
import type { ViewIndex } from "../view-index.js";
import { toHttpError } from "./errors.js";
import {
  Gathering,
  type Call,
  type FromReader,
  type ReaderStart,
  type Reply,
  type ToReader,
  type WriterCalls,
} from "./messages.js";
import { addCounters, type Counters } from "./metrics.js";
import { checkHost, type HttpOptions, type RunningServer } from "./server.js";
import { LocalService } from "./service.js";

export interface ReadersOptions extends HttpOptions {
  /** Opened for writing. */
  readonly index: ViewIndex;
  /** How many processes answer; at least 1. */
  readonly workers: number;
  /** How they open the index. */
  readonly reading: ReaderStart["index"];
  readonly onWarning: (message: string) => void;
}

/** Longer than an answering process gives its own clients. */
const GRACE_MS = 12_000;
/** A process that has not counted by then is left out. */
const COUNT_MS = 1000;
/** A process that ran for so long was well. */
const WELL_MS = 60_000;
/** Longest wait before another is started in the place of one that died. */
const AGAIN_MS_MAX = 30_000;

interface Reader {
  readonly worker: Worker;
  readonly name: string;
  readonly began: number;
  readonly outgoing: Gathering<Reply>;
  counted: ((counters: Counters) => void) | undefined;
}

/**
 * Starts the answering processes.
 * @throws TypeError when it would bind beyond loopback without a user; Error when one of them cannot start.
 */
export async function startReaders(options: ReadersOptions): Promise<RunningServer> {
  checkHost(options);
  const readers = new Readers(options);
  try {
    return { url: await readers.start(), close: () => readers.close() };
  } catch (error) {
    await readers.close();
    throw error;
  }
}

class Readers {
  readonly #options: ReadersOptions;
  readonly #calls: WriterCalls;
  readonly #readers = new Set<Reader>();
  #port = 0;
  #listening = false;
  #stamped: StampedFile | undefined;
  #round = 0;
  #deaths = 0;
  #closing = false;

  constructor(options: ReadersOptions) {
    this.#options = options;
    const { index, onWarning } = options;
    const local = new LocalService(
      index,
      () => this.#count(),
      onWarning,
      () => {
        for (const { worker } of this.#readers)
          if (worker.isConnected())
            worker.send({ kind: "moved" } satisfies ToReader, () => undefined);
      },
    );
    this.#calls = {
      place: async (ddoc, view, update) => index.place(await index.findView(ddoc, view), update),
      documents: (requests) => local.documents(requests),
      designDocument: (name) => local.designDocument(name),
      database: () => local.database(),
      documentPage: (query) => local.documentPage(query),
      info: (look) => local.info(look),
      pending: (design) => local.pending(design),
      compactions: () => local.compactions(),
      compact: (design) => local.compact(design),
      cleanup: () => local.cleanup(),
      metrics: () => local.metrics(),
    };
  }

  async start(): Promise<string> {
    cluster.setupPrimary({
      exec: fileURLToPath(startFile("reader")),
      args: [],
      serialization: "advanced",
    });
    const { host, port = 5984, index } = this.#options;
    this.#stamped = (await index.source()).stamped;
    // All must name the same port to share it, also one that is started later in another's place.
    this.#port = port === 0 ? await freePort(host) : port;
    const url = await this.#begin("1");
    this.#listening = true;
    for (let i = 2; i <= this.#options.workers; i++) await this.#begin(String(i));
    return url;
  }

  #begin(name: string): Promise<string> {
    const worker = cluster.fork();
    const say = (message: ToReader): void => {
      if (worker.isConnected()) worker.send(message, () => undefined);
    };
    const reader: Reader = {
      worker,
      name,
      began: performance.now(),
      outgoing: new Gathering((replies) => {
        say({ kind: "replies", replies });
      }),
      counted: undefined,
    };
    this.#readers.add(reader);
    const { index, workers, reading, onWarning, ...http } = this.#options;
    return new Promise<string>((resolve, reject) => {
      worker.on("message", (message: FromReader) => {
        if (message.kind === "ready")
          say({
            kind: "start",
            start: {
              name,
              http: { ...http, port: this.#port },
              stamped: this.#stamped,
              index: reading,
            },
          });
        else if (message.kind === "calls")
          for (const call of message.calls) void this.#answer(reader, call);
        else if (message.kind === "counters") reader.counted?.(message.counters);
        else if (message.kind === "warning") onWarning(message.message);
        else if (message.kind === "listening") resolve(message.url);
        else reject(new Error(message.message));
      });
      worker.once("exit", () => {
        this.#readers.delete(reader);
        const how = worker.process.signalCode ?? String(worker.process.exitCode);
        reject(new Error(`an answering process ended before it listened (${how})`));
        if (!this.#closing && this.#listening) this.#again(reader, how);
      });
    });
  }

  #again({ name, began }: Reader, how: string): void {
    const { onWarning } = this.#options;
    // One that dies again and again is given time between its deaths.
    this.#deaths = performance.now() - began > WELL_MS ? 0 : this.#deaths + 1;
    const delay = this.#deaths === 0 ? 0 : Math.min(AGAIN_MS_MAX, 50 * 2 ** this.#deaths);
    onWarning(`answering process ${name} died (${how}); starting another`);
    const timer = setTimeout(() => {
      if (this.#closing) return;
      this.#begin(name).catch((error: unknown) => {
        onWarning((error as Error).message);
      });
    }, delay);
    timer.unref();
  }

  async #answer(reader: Reader, { id, name, args }: Call): Promise<void> {
    try {
      const calls = this.#calls as unknown as Record<
        string,
        (...args: readonly unknown[]) => Promise<unknown>
      >;
      reader.outgoing.add({ id, value: await calls[name]?.(...args) });
    } catch (error) {
      const { status, error: word, reason } = toHttpError(error);
      reader.outgoing.add({ id, error: { status, error: word, reason } });
    }
  }

  /** What all of them have counted. */
  async #count(): Promise<Counters> {
    const round = ++this.#round;
    const counts = [...this.#readers].map(
      (reader) =>
        new Promise<Counters | undefined>((resolve) => {
          const timer = setTimeout(() => {
            resolve(undefined);
          }, COUNT_MS);
          reader.counted = (counters) => {
            clearTimeout(timer);
            resolve(counters);
          };
          if (reader.worker.isConnected())
            reader.worker.send({ kind: "count", round } satisfies ToReader);
        }),
    );
    return addCounters((await Promise.all(counts)).filter((one) => one !== undefined));
  }

  async close(): Promise<void> {
    this.#closing = true;
    await Promise.all(
      [...this.#readers].map(
        ({ worker }) =>
          new Promise<void>((resolve) => {
            const timer = setTimeout(() => worker.process.kill("SIGKILL"), GRACE_MS);
            worker.once("exit", () => {
              clearTimeout(timer);
              resolve();
            });
            if (worker.isConnected()) worker.send({ kind: "close" } satisfies ToReader);
            else worker.process.kill("SIGKILL");
          }),
      ),
    );
  }
}

async function freePort(host = "127.0.0.1"): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once("error", reject);
    probe.listen(0, host, resolve);
  });
  const { port } = probe.address() as AddressInfo;
  await new Promise<void>((resolve) => {
    probe.close(() => {
      resolve();
    });
  });
  return port;
}

/** Threads that one of several answering processes may use for custom reduces. */
export function readerThreads(workers: number): number {
  return Math.max(1, Math.floor(availableParallelism() / workers));
}
