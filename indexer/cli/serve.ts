// `viewmill serve`: the HTTP server over an index directory.

import { startServer } from "../http/index.js";
import { ViewIndex } from "../view-index.js";
import { indexOptions } from "./commands.js";
import { EXIT } from "./exit.js";
import type { CommonFlags } from "./flags.js";

export interface ServeFlags extends CommonFlags {
  readonly port?: number;
  readonly host?: string;
  readonly db?: string;
  readonly user?: string;
  readonly bodyMax?: number;
  readonly maxRequests?: number;
}

export async function serve(dir: string, flags: ServeFlags): Promise<number> {
  const index = await ViewIndex.open(await indexOptions(dir, flags));
  try {
    const server = await startServer({
      index,
      onWarning: (message) => {
        if (!flags.quiet) process.stderr.write(`viewmill: ${message}\n`);
      },
      ...(flags.port === undefined ? {} : { port: flags.port }),
      ...(flags.host === undefined ? {} : { host: flags.host }),
      ...(flags.db === undefined ? {} : { db: flags.db }),
      ...(flags.user === undefined ? {} : { user: flags.user }),
      ...(flags.bodyMax === undefined ? {} : { bodyBytesMax: flags.bodyMax }),
      ...(flags.maxRequests === undefined ? {} : { requestsMax: flags.maxRequests }),
    });
    if (flags.json) process.stdout.write(`${JSON.stringify({ listening: server.url })}\n`);
    else if (!flags.quiet) process.stderr.write(`viewmill: listening on ${server.url}/${flags.db ?? "db"}\n`);
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
