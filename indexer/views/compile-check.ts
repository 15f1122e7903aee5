// Looks at the functions of a design document before they are used: a fault is told with view, line and column, and nothing is half built.

import { IndexerError } from "../errors.js";
import type { ThreadPool } from "../mapping/thread-pool.js";
import type { DesignDocument } from "./design-document.js";

export class CompileCheck {
  readonly #threads: () => ThreadPool;
  /** Signatures of groups that passed. */
  readonly #passed = new Set<string>();

  constructor(threads: () => ThreadPool) {
    this.#threads = threads;
  }

  /**
   * Reads each function once for each signature; nothing of it is run.
   * @throws IndexerError INDEXER_DDOC_COMPILATION naming view, message, line and column; INDEXER_DDOC_INVALID for a language we have no
   * view server for.
   */
  async require(design: DesignDocument): Promise<void> {
    const { signature, trees, language } = design.group;
    if (this.#passed.has(signature)) return;
    if (language !== "javascript")
      throw new IndexerError(
        "INDEXER_DDOC_INVALID",
        `${design.id}: there is no view server for language ${language}; name one with --server`,
        {
          status: 500,
          error: "unknown_query_language",
          reason: language,
        },
      );
    const functions = trees.flatMap((tree) => [
      {
        kind: "map",
        view: [...tree.mapOnly, ...tree.reduces.map(({ name }) => name)].at(-1) ?? "",
        source: tree.map,
      },
      ...tree.reduces
        .filter(({ source }) => !source.startsWith("_"))
        .map(({ name, source }) => ({ kind: "reduce", view: name, source })),
    ]);
    const { faults } = await this.#threads().check({
      kind: "check",
      sources: functions.map(({ source }) => source),
    });
    const [fault] = faults;
    if (fault) {
      const { kind, view } = functions[fault.index] ?? { kind: "map", view: "" };
      const place =
        fault.line === undefined ? "" : ` (line ${fault.line}, column ${fault.column ?? 0})`;
      const shown = fault.sourceLine === undefined ? "" : `\n  ${fault.sourceLine}`;
      const reason = `Compilation of the ${kind} function in the '${view}' view failed: ${fault.message}`;
      throw new IndexerError(
        "INDEXER_DDOC_COMPILATION",
        `${design.id}: ${reason}${place}${shown}`,
        {
          view,
          status: 400,
          error: "compilation_error",
          reason,
          ...(fault.line === undefined ? {} : { line: fault.line }),
        },
      );
    }
    this.#passed.add(signature);
  }
}
