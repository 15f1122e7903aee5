// What a session answers, and the texts of its replies that are made outside of the realms.
import { EXCEPTION_MARK } from "./options.js";
import { compileErrorText, type CompileError } from "./source.js";

/** Output and exceptions of user functions, in order. */
export type LogLine =
  | {
      readonly kind: "log";
      /** Number of the map or reduce function, in the order added; -1 for others. */
      readonly fn: number;
      readonly text: string;
    }
  | {
      readonly kind: "exception";
      readonly fn: number;
      /** The text of the protocol's log line. */
      readonly text: string;
      readonly name: string;
      readonly message: string;
      /** Frames of the user's code, innermost first, one a line: `at name (line:column)`. Missing when it could not be found. */
      readonly stack?: string;
      readonly docId?: string;
    };

export interface HandleResult {
  /** Reply lines, log lines first, each with LF. */
  readonly output: string;
  /** Set when the process must end with this code once the output is written. */
  readonly exit?: number;
}

export interface ReduceReply {
  /** JSON texts, one for each source; `null` for a function that threw. Empty when there is an `error`. */
  readonly results: readonly string[];
  /** The whole call failed: `reduce_overflow_error`, `compilation_error`, `map_runtime_error`, … */
  readonly error?: { readonly id: string; readonly reason: string };
}

export const NO_LOGS: readonly LogLine[] = [];

export function jsonLogLine(line: LogLine): string {
  const text = line.kind === "exception" ? EXCEPTION_MARK + JSON.stringify(line) : line.text;
  return `${JSON.stringify(["log", text])}\n`;
}

export function codeSizeOf(sources: readonly unknown[]): number {
  let size = 0;
  for (const source of sources) size += typeof source === "string" ? source.length : 0;
  return size;
}

export function compilationReply(error: CompileError, source: string): string {
  return JSON.stringify(["error", "compilation_error", `${compileErrorText(error)} (${source})`]);
}

export function failedReduce(reply: string): ReduceReply {
  const [, id, reason] = JSON.parse(reply) as [string, unknown, unknown];
  const text = typeof reason === "string" ? reason : JSON.stringify(reason);
  return { results: [], error: { id: String(id), reason: text } };
}
