// The error for a function that a view server refused, wherever the server runs.

import { IndexerError } from "../errors.js";
import type { GroupConfig } from "./types.js";

/** The error for a map function that a view server refused. */
export function compilationError(config: GroupConfig, tree: number, reply: unknown): IndexerError {
  const text = Array.isArray(reply) ? String(reply[2]) : JSON.stringify(reply);
  const view = config.labels[tree] ?? String(tree);
  const reason = `Compilation of the map function in the '${view}' view failed: ${text}`;
  return new IndexerError("INDEXER_DDOC_COMPILATION", reason, {
    view,
    status: 400,
    error: "compilation_error",
    reason,
  });
}
