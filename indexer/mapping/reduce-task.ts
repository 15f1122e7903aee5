// Custom JavaScript reduces in a mapping thread's own session.

import { scanValue } from "../json/index.js";
import type { JsReduceResult, JsReduceRunner } from "../reducers/index.js";
import { reduceSession } from "./session-cache.js";
import type { ReduceLimits, ReduceTask } from "./types.js";

/** Beats once for each call, so that the watchdog sees one that does not come back. */
export function sessionReducer(
  limits: ReduceLimits,
  beats: Int32Array,
  slot: number,
): JsReduceRunner {
  const session = reduceSession();
  let calls = 0;
  const config = JSON.stringify([
    "reset",
    {
      reduce_limit: limits.reduceLimit,
      reduce_limit_threshold: limits.threshold,
      reduce_limit_ratio: limits.ratio,
    },
  ]);
  session.handle(config);
  const watched = (reply: () => string, count: number): JsReduceResult[] => {
    beats[slot] = ++calls;
    const output = reply();
    beats[slot] = 0;
    session.takeLogs();
    return parseReduceReply(output, count);
  };
  const call = (line: string, count: number): JsReduceResult[] =>
    watched(() => session.handle(line).output, count);
  return {
    ours: true,
    reduce: (sources, rows) => call(reduceLine(sources, rows), sources.length),
    reduceValues: (sources, values) =>
      watched(() => session.reduceValues(sources, values), sources.length),
    rereduce: (source, values, context) => {
      const [result] = call(rereduceLine(source, values, context), 1);
      return result ?? "null";
    },
  };
}

/** The command of PROTOCOL §4, without LF. */
export function reduceLine(sources: readonly string[], rows: string): string {
  return `["reduce",${JSON.stringify(sources)},${rows},""]`;
}

export function rereduceLine(source: string, values: string, context = ""): string {
  return `["rereduce",${JSON.stringify([source])},${values},${JSON.stringify(context)}]`;
}

/**
 * Results of a `reduce` or `rereduce` reply: the raw text of each, or what went wrong for all of them.
 * @param output - the lines the server printed; log lines come before the reply.
 */
export function parseReduceReply(output: string, count: number): JsReduceResult[] {
  const line = output.trimEnd().split("\n").at(-1) ?? "";
  if (line.startsWith(RESULTS)) return sliceResults(Buffer.from(line));
  const reply: unknown = JSON.parse(line);
  if (Array.isArray(reply)) {
    const [head, second, third] = reply as unknown[];
    if (head === true && Array.isArray(second))
      return (second as unknown[]).map((value) => JSON.stringify(value));
    if (head === "error" || head === "fatal") {
      const error = typeof second === "string" ? second : "unknown_error";
      const reason = typeof third === "string" ? third : JSON.stringify(third ?? null);
      const result: JsReduceResult =
        error === "reduce_overflow_error" ? { overflow: reason } : { error, reason };
      return Array.from({ length: count }, () => result);
    }
  }
  return Array.from({ length: count }, () => ({
    error: "view_server_protocol",
    reason: `unexpected reply to a reduce: ${line.slice(0, 200)}`,
  }));
}

const RESULTS = "[true,[";

/** The raw texts of the results, so that they stay as the server printed them. */
function sliceResults(line: Buffer): JsReduceResult[] {
  const results: string[] = [];
  let pos = RESULTS.length;
  while (line[pos] !== CLOSE && pos < line.length) {
    const end = scanValue(line, pos);
    results.push(line.toString("utf8", pos, end));
    pos = line[end] === COMMA ? end + 1 : end;
  }
  return results;
}

const COMMA = 0x2c;
const CLOSE = 0x5d;

export function runReduceTask(task: ReduceTask): JsReduceResult[][] {
  const runner = sessionReducer(task.limits, new Int32Array(task.heartbeat), task.slot);
  return task.requests.map(({ rereduce, sources, input, context }) =>
    rereduce
      ? sources.map((source) => runner.rereduce(source, input, context) as JsReduceResult)
      : [...(runner.reduce(sources, input) as readonly JsReduceResult[])],
  );
}
