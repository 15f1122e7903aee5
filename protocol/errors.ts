// Every error the protocol layer raises on purpose: one class, stable codes, each with what it means. Messages are for people and
// may change; codes are stable within a major version. Decide by `code`, not by instanceof, for what crossed a thread or process.

/** Code → when it is raised. */
export const PROTOCOL_ERROR_CODES = {
  PROTOCOL_BAD_LINE: "the peer sent a line that is not a JSON value",
  PROTOCOL_BAD_REPLY: "the peer's reply has another shape than the command asks for",
  PROTOCOL_BATCH_TOO_LARGE: "the replies to one batch exceed the limit",
  PROTOCOL_CLOSED: "the connection ended, or was closed by its owner, before the answer came",
  PROTOCOL_ERROR_REPLY: "the peer answered with an error line",
  PROTOCOL_LINE_TOO_LONG: "a line exceeds the limit",
  PROTOCOL_LOG_FLOOD: "the log lines of one command exceed the limit",
  PROTOCOL_TIMEOUT: "no byte came in time while a command was unanswered",
  PROTOCOL_UNEXPECTED_REPLY: "the peer sent more or fewer replies than it got commands",
} as const;

/** Stable within a major version; what each means stands in PROTOCOL_ERROR_CODES. */
export type ProtocolErrorCode = keyof typeof PROTOCOL_ERROR_CODES;

/** A log line and the command of the batch (counted from 0) that was the oldest unanswered one when it came. */
export interface BatchLog {
  readonly index: number;
  readonly text: string;
}

/** The raw replies to a batch of commands, or to the first commands of one that failed. */
export interface BatchReply {
  /**
   * The reply lines in the order of their commands, each with its LF; log lines are taken out. The view covers its whole
   * ArrayBuffer, so that the buffer may be transferred to a thread.
   */
  readonly replies: Uint8Array;
  /** Reply `i` is `replies[lineStarts[i] … lineStarts[i + 1] - 1)`, without its LF. One entry more than there are replies. */
  readonly lineStarts: Uint32Array;
  readonly logs: readonly BatchLog[];
}

/** What is known about the failure; which fields are set depends on the code. */
export interface ProtocolErrorDetails {
  /** How many of the call's commands have a trustworthy answer; all before the first that has none. */
  readonly answered?: number;
  /** How many of the call's commands the peer may have seen; those after it are innocent of any death. */
  readonly sent?: number;
  /** What was answered, when a batch fails. */
  readonly partial?: BatchReply;
  /** The beginning of the oldest unanswered command, if the peer may have seen it. */
  readonly command?: string;
  /** First and second argument of an error line. */
  readonly id?: string;
  readonly reason?: unknown;
  /** The error line was a "fatal" one: the peer asked to be stopped. */
  readonly fatal?: boolean;
  /** The beginning of the offending line. */
  readonly line?: string;
  /** Where in a value the fault is, e.g. `reply[0][3]`. */
  readonly path?: string;
}

/** An operating error of the protocol layer. */
export class ProtocolError extends Error {
  readonly code: ProtocolErrorCode;
  readonly answered: number | undefined;
  readonly sent: number | undefined;
  readonly partial: BatchReply | undefined;
  readonly command: string | undefined;
  readonly id: string | undefined;
  readonly reason: unknown;
  readonly fatal: boolean;
  readonly line: string | undefined;
  readonly path: string | undefined;

  constructor(
    code: ProtocolErrorCode,
    message: string,
    details: ProtocolErrorDetails = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = code;
    this.answered = details.answered;
    this.sent = details.sent;
    this.partial = details.partial;
    this.command = details.command;
    this.id = details.id;
    this.reason = details.reason;
    this.fatal = details.fatal ?? false;
    this.line = details.line;
    this.path = details.path;
  }
}
Object.defineProperty(ProtocolError.prototype, "name", { value: "ProtocolError" });

/**
 * The failure of a connection as one pending call sees it: what `error` knows, and that call's own details.
 */
export function failureFor(error: ProtocolError, own: ProtocolErrorDetails): ProtocolError {
  const { id, reason, fatal, line } = error;
  const known = {
    ...(id === undefined ? {} : { id, reason, fatal }),
    ...(line === undefined ? {} : { line }),
  };
  const message =
    own.command === undefined ? error.message : `${error.message}; unanswered: ${own.command}`;
  return new ProtocolError(error.code, message, { ...known, ...own }, { cause: error });
}

/** For our own bugs only. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`viewmill bug: ${message}`);
}
