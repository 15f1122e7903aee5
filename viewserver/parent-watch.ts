// A server whose host was killed notices at its next read; one that is inside a function that never ends would run for ever. So a small
// thread looks whether the host is still there, and ends the process when it is not. Starting it costs half as much as starting the
// server; so that is done at once only for functions that are not known to end (endless.ts), and for others when the server has
// worked so long that the price no longer shows: a proof that is wrong must not be all that stands between a function and running for ever.
import type { Worker } from "node:worker_threads";

const INTERVAL_MS = 1000;
/** Age of a server that is watched whatever its functions are. */
export const WATCHED_AGE_MS = 5000;

/** Runs in the thread. A process whose parent died gets another one, where the system does that; elsewhere the parent can be asked for. */
const WATCH = `
const { workerData: { parent, intervalMs } } = require("node:worker_threads");
const gone = () => {
  if (process.ppid !== parent) return true;
  try {
    process.kill(parent, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
};
setInterval(() => {
  if (gone()) process.kill(process.pid, "SIGKILL");
}, intervalMs);
`;

/** Ends this process when `parent`, the process that started it, is gone. Costs a thread that sleeps. */
export function endWithParent(parent: number): void {
  // Loaded only here: most servers never need it.
  const threads = process.getBuiltinModule("node:worker_threads");
  let worker: Worker;
  try {
    worker = new threads.Worker(WATCH, {
      eval: true,
      env: {},
      execArgv: [],
      workerData: { parent, intervalMs: INTERVAL_MS },
      resourceLimits: { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 },
    });
  } catch {
    // Node's permission flag may forbid threads. Without this one the server does all the same.
    return;
  }
  worker.on("error", () => undefined);
  worker.unref();
}

/** Starts a watch once: at `mayNotEnd`, or when told of an age at which it is due. */
export class ParentWatch {
  readonly #start: () => void;
  #started = false;

  constructor(start: () => void) {
    this.#start = start;
  }

  mayNotEnd(): void {
    if (this.#started) return;
    this.#started = true;
    this.#start();
  }

  /** `ageMs`: how long the process has been there. */
  aged(ageMs: number): void {
    if (ageMs >= WATCHED_AGE_MS) this.mayNotEnd();
  }
}
