// Commands that can be stopped at any moment and leave everything as it was.

import { EXIT } from "./exit.js";

/** Runs `work` with a signal that SIGINT and SIGTERM fire; a stop is told in `work`'s own words. */
export async function stoppable(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
  const abort = new AbortController();
  const stop = (): void => {
    abort.abort();
  };
  process.once("SIGINT", stop);
  process.once("SIGTERM", stop);
  try {
    return await work(abort.signal);
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    if (code !== "INDEXER_ABORTED" || !abort.signal.aborted) throw error;
    process.stderr.write(`viewmill: ${message ?? ""} [${code}]\n`);
    return EXIT.interrupted;
  } finally {
    process.off("SIGINT", stop);
    process.off("SIGTERM", stop);
  }
}
