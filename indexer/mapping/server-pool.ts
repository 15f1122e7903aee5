// A bounded set of view-server processes. A replacement is kept warm, so that a death costs no start-up.

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
    try {
      if (this.#fence === undefined) {
        this.#fence = await lease.server.knowsFence();
        if (!lease.server.usable) {
          this.#retire(lease.server);
          lease.server = this.#take();
        }
      }
      await lease.server.configure(config);
      return await work({
        fence: this.#fence,
        get server() {
          return lease.server;
        },
        replace: async () => {
          this.#retire(lease.server);
          lease.server = this.#take();
          await lease.server.configure(config);
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

  #take(): ServerProcess {
    for (let server = this.#idle.pop(); server; server = this.#idle.pop()) {
      if (server.usable) return server;
      this.#retire(server);
    }
    const warm = this.#spare?.usable ? this.#spare : this.#start();
    this.#spare = undefined;
    return warm;
  }

  #start(): ServerProcess {
    const server = new ServerProcess(this.#command, this.#options);
    this.#all.add(server);
    return server;
  }

  #retire(server: ServerProcess): void {
    if (!this.#all.delete(server)) return;
    void server.stop();
    if (!this.#closed) this.#spare ??= this.#start();
  }
}
