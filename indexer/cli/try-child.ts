// The process in which `viewmill try` runs user functions: whatever they do, only this process suffers. They run in a thread of it, so that
// it can always hear that its parent is gone, and end. It passes requests in and replies out.

import { Worker } from "node:worker_threads";

import type { TryReply, TryRequest } from "./try-worker.js";

/** What took the functions down. */
export interface TryDeath {
  readonly kind: "death";
  readonly error: "timeout" | "memory" | "crash";
  readonly reason: string;
}

const heapMb = Number(process.argv[2]);
const worker = new Worker(new URL("./try-worker.js", import.meta.url), {
  resourceLimits: { maxOldGenerationSizeMb: heapMb },
});

worker.on("message", (reply: TryReply) => {
  process.send?.(reply);
});
worker.on("error", (error: NodeJS.ErrnoException) => {
  const memory = error.code === "ERR_WORKER_OUT_OF_MEMORY";
  const death: TryDeath = memory
    ? { kind: "death", error: "memory", reason: `took more than ${heapMb} MiB of JavaScript heap` }
    : { kind: "death", error: "crash", reason: error.message };
  process.send?.(death);
});
process.on("message", (request: TryRequest) => {
  worker.postMessage(request);
});
process.on("disconnect", () => {
  process.kill(process.pid, "SIGKILL");
});
