// Reads functions without running them, to tell an author what is wrong and where.

import { syntaxFault } from "../../viewserver/index.js";
import type { CheckResult, CheckTask } from "./types.js";

export function checkSources(task: CheckTask): CheckResult {
  const faults: CheckResult["faults"][number][] = [];
  for (const [index, source] of task.sources.entries()) {
    const fault = syntaxFault(source);
    if (fault)
      faults.push({
        index,
        message: fault.message,
        line: fault.line,
        column: fault.column,
        sourceLine: fault.sourceLine,
      });
  }
  return { faults };
}
