// A bounded set of view-server processes. Beside them a spare one is kept warm, so that a death costs no start-up.

import { IndexerError } from "../errors.js";
import type { ServerLease } from "./process-mapper.js";
import { ServerProcess, type ServerCommand, type ServerProcessOptions } from "./server-process.js";
import type { GroupConfig } from "./types.js";

export class ServerPool {
  /** Servers at work at once. */
  readonly size: number;
  /** They are ours: what they do with a function is known. */
  readonly own: boolean;
  readonly #command: ServerCommand;
  readonly #options: ServerProcessOptions;
  readonly #idle: ServerProcess[] = [];
  readonly #all = new Set<ServerProcess>();
  readonly #waiting: (() => void)[] = [];
  #spare: ServerProcess | undefined;
  #fence: boolean | undefined;
  #busy = 0;
  /** Pieces of work begun. */
  #uses = 0;
  #closed = false;

  constructor(command: ServerCommand, size: number, options: ServerProcessOptions) {
    this.#command = command;
    this.own = command.own;
    if (command.own) this.#fence = true;
    this.size = size;
    this.#options = options;
  }

  /** Lends a server that holds the group's functions to `work`. */
  async use<T>(
    config: GroupConfig,
    signal: AbortSignal | undefined,
    work: (lease: ServerLease) => Promise<T>,
  ): Promise<T> {
    while (this.#busy >= this.size)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#closed) throw new IndexerError("INDEXER_CLOSED", "the view servers were stopped");
    if (signal?.aborted) throw new IndexerError("INDEXER_ABORTED", "the call was aborted");
    this.#busy++;
    const lease = { server: this.#take() };
    // Work that is soon over is not to pay for another process.
    if (++this.#uses > this.size) this.#keepSpare();
    try {
      if (this.#fence === undefined) {
        this.#fence = await lease.server.knowsFence();
        if (!lease.server.usable) lease.server = this.#replace(lease.server);
      }
      await this.#configure(lease, config);
      return await work({
        fence: this.#fence,
        get server() {
          return lease.server;
        },
        replace: async () => {
          lease.server = this.#replace(lease.server);
          await this.#configure(lease, config);
        },
      });
    } finally {
      this.#busy--;
      // It may have been closed meanwhile.
      // eslint-disable-next-line @typescript-eslint/no-unnecessary-condition
      if (lease.server.usable && !this.#closed) this.#idle.push(lease.server);
      else this.#retire(lease.server);
      this.#waiting.shift()?.();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const resolve of this.#waiting.splice(0)) resolve();
    await Promise.all([...this.#all].map((server) => server.stop()));
    this.#all.clear();
  }

  /** One that died while it waited is only found out when it is asked. */
  async #configure(lease: { server: ServerProcess }, config: GroupConfig): Promise<void> {
    try {
      await lease.server.configure(config);
    } catch (error) {
      if ((error as Partial<IndexerError>).code !== "INDEXER_SERVER_EXITED") throw error;
      lease.server = this.#replace(lease.server);
      await lease.server.configure(config);
    }
  }

  #take(): ServerProcess {
    for (let server = this.#idle.pop(); server; server = this.#idle.pop()) {
      if (server.usable) return server;
      this.#retire(server);
    }
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare?.usable) return spare;
    if (spare) this.#retire(spare);
    return this.#start();
  }

  /** Another in the place of one that failed; the next is started at once. */
  #replace(server: ServerProcess): ServerProcess {
    this.#retire(server);
    const another = this.#take();
    this.#keepSpare();
    return another;
  }

  #keepSpare(): void {
    if (!this.#closed) this.#spare ??= this.#start();
  }

  #start(): ServerProcess {
    const server = new ServerProcess(this.#command, this.#options);
    this.#all.add(server);
    return server;
  }

  #retire(server: ServerProcess): void {
    if (this.#all.delete(server)) void server.stop();
  }
}
