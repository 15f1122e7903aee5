// A server in this process over documents in memory, for what needs odd limits or a look at the index.

import { MemorySource } from "../../../indexer/sources/index.js";
import { startServer, type HttpOptions, type RunningServer } from "../../../indexer/http/index.js";
import { ViewIndex } from "../../../indexer/view-index.js";
import { tempDir } from "../../helpers/temp-dir.js";
import { ask, type Answer, type AskOptions } from "./serving.js";

export interface Local {
  readonly source: MemorySource;
  readonly index: ViewIndex;
  readonly server: RunningServer;
  readonly warnings: string[];
  ask(path: string, options?: AskOptions): Promise<Answer>;
  view(query?: string, options?: AskOptions): Promise<Answer>;
  close(): Promise<void>;
}

export async function local(options: HttpOptions = {}): Promise<Local> {
  const source = new MemorySource();
  const index = await ViewIndex.open({ dir: tempDir(), source, mapIn: "threads", threads: 1 });
  const warnings: string[] = [];
  const server = await startServer({
    port: 0,
    ...options,
    index,
    onWarning: (message) => {
      warnings.push(message);
    },
  });
  const askHere = (path: string, how?: AskOptions): Promise<Answer> =>
    ask(`${server.url}${path}`, how);
  return {
    source,
    index,
    server,
    warnings,
    ask: askHere,
    view: (query = "", how) => askHere(`/db/_design/d/_view/v${query}`, how),
    close: async () => {
      await server.close();
      await index.close();
    },
  };
}
