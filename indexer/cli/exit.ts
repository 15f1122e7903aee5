// Exit codes and how errors are told. Talk goes to stderr, results to stdout; with --json an error is also a JSON line on stdout.

import { CommanderError } from "commander";

/** Exit codes of the CLI (README). */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  tooManyErrors: 3,
  interrupted: 130,
} as const;

/** Bad usage that the argument parser cannot see. */
export class UsageError extends Error {}

const USAGE_CODES = new Set(["SOURCE_USAGE", "INDEXER_DDOC_UNREADABLE"]);

interface Told {
  readonly exit: number;
  readonly code: string;
  readonly message: string;
}

function tell(error: unknown): Told {
  const { name, code, message, reason, status } = error as {
    name?: string;
    code?: string;
    message?: string;
    reason?: string;
    status?: number;
  };
  if (error instanceof UsageError)
    return { exit: EXIT.usage, code: "USAGE", message: error.message };
  if (name === "QueryError")
    return {
      exit: status === 400 ? EXIT.usage : EXIT.failed,
      code: "QUERY",
      message: reason ?? message ?? "",
    };
  if (name === "TypeError" || name === "RangeError")
    return { exit: EXIT.usage, code: "USAGE", message: message ?? "" };
  if (code === "INDEXER_ABORTED")
    return {
      exit: EXIT.interrupted,
      code,
      message: "stopped; what was mapped until then is kept. Run the same command again to go on.",
    };
  if (code !== undefined)
    return { exit: USAGE_CODES.has(code) ? EXIT.usage : EXIT.failed, code, message: message ?? "" };
  return { exit: EXIT.failed, code: "INTERNAL", message: (error as Error).stack ?? String(error) };
}

/** Prints what went wrong and returns the exit code. */
export function report(error: unknown, json: boolean): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  const { exit, code, message } = tell(error);
  process.stderr.write(
    `viewmill: ${message}${code === "INTERNAL" || code === "USAGE" || code === "QUERY" ? "" : ` [${code}]`}\n`,
  );
  if (json) process.stdout.write(`${JSON.stringify({ error: code, reason: message })}\n`);
  return exit;
}
