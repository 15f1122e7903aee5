// Entry point of the mapping threads (piscina). Never throws on purpose: an error's class and code would be lost on the way.

import { IndexerError } from "../errors.js";
import { checkSources } from "./check-task.js";
import {
  reader,
  runEncodeTask,
  runMapTask,
  runPrepareTask,
  runScanTask,
  runSyntaxTask,
} from "./map-tasks.js";
import { MERGE_BUFFER_BYTES, runMergeTask } from "./merge-task.js";
import { runReduceTask } from "./reduce-task.js";
import type { ThreadReply, ThreadTask } from "./types.js";

function run(task: ThreadTask): unknown {
  switch (task.kind) {
    case "map":
      return runMapTask(task);
    case "prepare":
      return runPrepareTask(task);
    case "encode":
      return runEncodeTask(task);
    case "scan":
      return runScanTask(task);
    case "merge":
      return runMergeTask(task, () =>
        reader.lend(MERGE_BUFFER_BYTES).subarray(0, MERGE_BUFFER_BYTES),
      );
    case "reduce":
      return runReduceTask(task);
    case "syntax":
      runSyntaxTask(task);
      return undefined;
    case "check":
      return checkSources(task);
  }
}

function failure(error: unknown): ThreadReply<never> {
  const { name, code, message, details, stack } = error as Partial<IndexerError>;
  const ours = error instanceof IndexerError;
  return {
    ok: false,
    name: ours ? "IndexerError" : (name ?? "Error"),
    code: code ?? "",
    message: ours || code !== undefined ? (message ?? "") : (stack ?? message ?? String(error)),
    details: ours ? details : { ...(error as object) },
  };
}

/** Buffers that make up a whole ArrayBuffer are handed over, not copied. */
function collectBuffers(value: unknown, into: Set<ArrayBuffer>, depth = 0): void {
  if (typeof value !== "object" || value === null || depth > 6) return;
  if (ArrayBuffer.isView(value)) {
    const { buffer } = value;
    if (
      buffer instanceof ArrayBuffer &&
      buffer.byteLength > 0 &&
      value.byteLength === buffer.byteLength
    )
      into.add(buffer);
    return;
  }
  for (const member of Array.isArray(value) ? (value as unknown[]) : Object.values(value))
    collectBuffers(member, into, depth + 1);
}

export default async function work(task: ThreadTask): Promise<unknown> {
  let reply: ThreadReply<unknown>;
  try {
    reply = { ok: true, result: await run(task) };
  } catch (error) {
    reply = failure(error);
  }
  const buffers = new Set<ArrayBuffer>();
  collectBuffers(reply, buffers);
  if (buffers.size === 0) return reply;
  // Loaded when it is first needed: a first build hands nothing over.
  const { Piscina } = await import("piscina");
  // Piscina's type names its symbols by their private names.
  const movable: object = {
    get [Piscina.transferableSymbol](): readonly ArrayBuffer[] {
      return [...buffers];
    },
    get [Piscina.valueSymbol](): ThreadReply<unknown> {
      return reply;
    },
  };
  return Piscina.move(movable as Parameters<typeof Piscina.move>[0]);
}
