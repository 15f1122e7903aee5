// `viewmill serve`: the HTTP server over an index directory.

import { readerThreads, startReaders, startServer, type HttpOptions } from "../http/index.js";
import type { ViewIndexOptions } from "../options.js";
import { ViewIndex } from "../view-index.js";
import { indexOptions } from "./commands.js";
import { EXIT, UsageError } from "./exit.js";
import type { CommonFlags } from "./flags.js";
import { keepPort, keptPort } from "./supervisor.js";

export interface ServeFlags extends CommonFlags {
  readonly port?: number;
  readonly host?: string;
  readonly db?: string;
  readonly user?: string;
  readonly bodyMax?: number;
  readonly maxRequests?: number;
  readonly stall?: number;
  readonly workers?: number;
}

function httpOptions(flags: ServeFlags): HttpOptions {
  return {
    ...(flags.port === undefined ? {} : { port: flags.port }),
    ...(flags.host === undefined ? {} : { host: flags.host }),
    ...(flags.db === undefined ? {} : { db: flags.db }),
    ...(flags.user === undefined ? {} : { user: flags.user }),
    ...(flags.bodyMax === undefined ? {} : { bodyBytesMax: flags.bodyMax }),
    ...(flags.maxRequests === undefined ? {} : { requestsMax: flags.maxRequests }),
    ...(flags.stall === undefined ? {} : { stallMs: flags.stall }),
  };
}

/** What of the index's options matters to a process that reads. */
function readingOptions(
  options: ViewIndexOptions,
  workers: number,
): Parameters<typeof startReaders>[0]["reading"] {
  const {
    dir,
    cacheBytes,
    mapIn = "processes",
    server,
    timeoutMs,
    heapMb,
    memoryMb,
    strict,
  } = options;
  return {
    dir,
    mapIn,
    threads: readerThreads(workers),
    ...(cacheBytes === undefined ? {} : { cacheBytes }),
    ...(server === undefined ? {} : { server }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(heapMb === undefined ? {} : { heapMb }),
    ...(memoryMb === undefined ? {} : { memoryMb }),
    ...(strict === undefined ? {} : { strict }),
  };
}

/** An address that cannot be had is a matter of flags. */
async function listening<T>({ host, port }: ServeFlags, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    const why = /EADDRINUSE|EADDRNOTAVAIL|EACCES/.exec((error as Error).message)?.[0];
    if (error instanceof TypeError) throw new UsageError(error.message);
    if (why === undefined) throw error;
    const reason =
      why === "EADDRINUSE"
        ? "the port is in use"
        : why === "EACCES"
          ? "permission denied"
          : "not an address of this machine";
    throw new UsageError(`cannot listen on ${host ?? "127.0.0.1"}:${port ?? 5984}: ${reason}`);
  }
}

/** With port 0 the child that takes a dead one's place takes its port, too: clients know no other. */
function placeOf(flags: ServeFlags): ServeFlags {
  const kept = flags.port === 0 ? keptPort() : undefined;
  return kept === undefined ? flags : { ...flags, port: kept };
}

export async function serve(dir: string, given: ServeFlags): Promise<number> {
  const flags = placeOf(given);
  const { workers } = flags;
  if (workers === 0)
    throw new UsageError(
      "--workers takes at least 1; leave it out to answer from the process that writes",
    );
  const options = await indexOptions(dir, flags);
  const index = await ViewIndex.open(options);
  const onWarning = (message: string): void => {
    if (!flags.quiet) process.stderr.write(`viewmill: ${message}\n`);
  };
  try {
    const server = await listening(flags, () =>
      workers === undefined
        ? startServer({ ...httpOptions(flags), index, onWarning })
        : startReaders({
            ...httpOptions(flags),
            index,
            onWarning,
            workers,
            reading: readingOptions(options, workers),
          }),
    );
    const known = keptPort();
    keepPort(Number(new URL(server.url).port));
    // Who waits for the line reads it once.
    if (flags.json && known === undefined)
      process.stdout.write(`${JSON.stringify({ listening: server.url })}\n`);
    else if (!flags.json && !flags.quiet)
      process.stderr.write(`viewmill: listening on ${server.url}/${flags.db ?? "db"}\n`);
    await new Promise<void>((resolve) => {
      process.once("SIGINT", resolve);
      process.once("SIGTERM", resolve);
    });
    await server.close();
    return EXIT.done;
  } finally {
    await index.close();
  }
}
