// The words of the protocol: what the host may say, what a server may answer, and how a reply line is told from a log line.
// Which command does what is described in PROTOCOL.md; nothing here interprets a document or a row.

import { ProtocolError } from "./errors.js";

/** A JSON value as `JSON.parse` makes it. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [member: string]: JsonValue };

// ---- host → server ----

/** Limits that the host announces with `reset`; a missing member means no limit of that kind. */
export interface ResetConfig {
  /** true: a reduction that does not shrink is an error; "log": it is only logged. */
  readonly reduce_limit?: boolean | "log";
  /** Output length in characters below which a reduction never overflows; CouchDB sends 5000. */
  readonly reduce_limit_threshold?: number;
  /** Overflow needs output × ratio > input; CouchDB sends 2.0. */
  readonly reduce_limit_ratio?: number;
  /** Milliseconds; for the server's information, the host enforces it. */
  readonly timeout?: number;
}

/** Forget map functions and library. Reply: `true`. */
export type ResetCommand = readonly ["reset"] | readonly ["reset", ResetConfig];
/** The CommonJS tree for the map functions added afterwards. Reply: `true`. */
export type AddLibCommand = readonly ["add_lib", JsonValue];
/** Compile a map function and append it. Reply: `true`. */
export type AddFunCommand = readonly ["add_fun", string];
/** Map one document. Reply: per function the array of `[key, value]` pairs it emitted. */
export type MapDocCommand = readonly ["map_doc", JsonValue];
/** A row as `reduce` gets it. */
export type ReduceRow = readonly [readonly [key: JsonValue, docId: string], value: JsonValue];
/** Reduce rows by several functions. Reply: `[true, [result per function]]`. The last member is context for messages. */
export type ReduceCommand =
  | readonly ["reduce", readonly string[], readonly ReduceRow[]]
  | readonly ["reduce", readonly string[], readonly ReduceRow[], string];
/** Combine reductions. Reply: `[true, [result per function]]`. */
export type RereduceCommand =
  | readonly ["rereduce", readonly string[], readonly JsonValue[]]
  | readonly ["rereduce", readonly string[], readonly JsonValue[], string];
/** Teach a design document. Reply: `true`. */
export type DdocNewCommand = readonly ["ddoc", "new", string, JsonValue];
/** Call a function of a taught design document. The reply depends on the first member of the path. */
export type DdocCallCommand = readonly [
  "ddoc",
  string,
  readonly [DdocFunctionKind, ...string[]],
  readonly JsonValue[],
];
/** What the path of a `ddoc` call may begin with. */
export type DdocFunctionKind =
  "shows" | "lists" | "filters" | "views" | "updates" | "validate_doc_update" | "rewrites";
/** The next row, inside a running list function. Reply: `["chunks", …]` or `["end", …]`. */
export type ListRowCommand = readonly ["list_row", JsonValue];
/** No more rows. Reply: `["end", chunks]`. */
export type ListEndCommand = readonly ["list_end"];

/** Every command a host may send. */
export type HostCommand =
  | ResetCommand
  | AddLibCommand
  | AddFunCommand
  | MapDocCommand
  | ReduceCommand
  | RereduceCommand
  | DdocNewCommand
  | DdocCallCommand
  | ListRowCommand
  | ListEndCommand;

// ---- server → host ----

/** A message for the host's log; belongs to the oldest unanswered command, any number before its reply. */
export interface LogReply {
  readonly kind: "log";
  readonly text: string;
}
/** `["error", id, reason]`: the command failed, the server lives on (unless it exits by itself). */
export interface ErrorReply {
  readonly kind: "error";
  readonly id: string;
  readonly reason: unknown;
}
/** `["fatal", id, reason]`: the command failed, and the server asks to be stopped. */
export interface FatalReply {
  readonly kind: "fatal";
  readonly id: string;
  readonly reason: unknown;
}
/** Any other value: the command's answer. */
export interface ValueReply {
  readonly kind: "value";
  readonly value: unknown;
}

/** A line of the server, told apart as CouchDB does: by the first member of an array, and exactly the right arity. */
export type ServerReply = LogReply | ErrorReply | FatalReply | ValueReply;

/**
 * Parses a line of the server.
 *
 * `["log", x]` with a text, `["error", id, reason]` and `["fatal", id, reason]` count as such only with exactly that arity;
 * `["error","x"]` or `["log",1]` are ordinary values, as for CouchDB. An unpaired surrogate written as an escape becomes U+FFFD.
 *
 * @throws ProtocolError PROTOCOL_BAD_LINE if the line is no JSON value.
 */
export function parseReply(line: Uint8Array): ServerReply {
  const text = decodeLine(line);
  let value: unknown;
  try {
    value = JSON.parse(wellFormedEscapes(text));
  } catch (error) {
    throw badLine(line, error);
  }
  if (Array.isArray(value)) {
    const head: unknown = value[0];
    if (head === "log" && value.length === 2 && typeof value[1] === "string") {
      return { kind: "log", text: value[1] };
    }
    if ((head === "error" || head === "fatal") && value.length === 3) {
      const id: unknown = value[1];
      return { kind: head, id: typeof id === "string" ? id : JSON.stringify(id), reason: value[2] };
    }
  }
  return { kind: "value", value };
}

/**
 * Whether a line is `["log", text]`. Looks at the first bytes only, unless they leave a doubt: then the line is parsed.
 * @throws ProtocolError PROTOCOL_BAD_LINE for a line that begins like a log line and is no JSON value.
 */
export function isLogLine(line: Uint8Array): boolean {
  return mayBeSpecial(line, 0, line.length) && parseReply(line).kind === "log";
}

/**
 * Whether `bytes[start … end)` may be a "log" or "fatal" line, judged by its first bytes: an array whose first member begins
 * with `"l`, `"f` or an escape. Never false for one that is; a true asks for a parse.
 */
export function mayBeSpecial(bytes: Uint8Array, start: number, end: number): boolean {
  let at = skipBlanks(bytes, start, end);
  if (bytes[at] !== OPEN_BRACKET) return false;
  at = skipBlanks(bytes, at + 1, end);
  if (bytes[at] !== QUOTE) return false;
  const first = bytes[at + 1];
  return first === LOWER_L || first === LOWER_F || first === BACKSLASH;
}

/**
 * Whether `bytes[start … end)` looks like one JSON value from outside: a first byte that may begin one, and the last byte that
 * this beginning asks for. It is what tells a program's stray `print` from a reply without a parse.
 */
export function looksLikeJson(bytes: Uint8Array, start: number, end: number): boolean {
  const first = skipBlanks(bytes, start, end);
  let last = end - 1;
  while (last > first && isBlank(bytes[last])) last--;
  if (first >= end) return false;
  switch (bytes[first] as number) {
    case OPEN_BRACKET:
      return last > first && bytes[last] === CLOSE_BRACKET;
    case OPEN_BRACE:
      return last > first && bytes[last] === CLOSE_BRACE;
    case QUOTE:
      return last > first && bytes[last] === QUOTE;
    default:
      return SCALAR.test(Buffer.from(bytes.subarray(first, last + 1)).toString("latin1"));
  }
}

const SCALAR = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LOWER_L = 0x6c;
const LOWER_F = 0x66;

function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d;
}

function skipBlanks(bytes: Uint8Array, start: number, end: number): number {
  let at = start;
  while (at < end && isBlank(bytes[at])) at++;
  return at;
}

/** Characters of an offending line that an error shows. */
const EXCERPT_CHARACTERS = 200;

export function badLine(line: Uint8Array, cause?: unknown): ProtocolError {
  const excerpt = decodeLine(line.subarray(0, 4 * EXCERPT_CHARACTERS)).slice(0, EXCERPT_CHARACTERS);
  return new ProtocolError(
    "PROTOCOL_BAD_LINE",
    `the view server printed a line that is not JSON (does it print to stdout by itself?): ${excerpt}`,
    { line: excerpt },
    cause === undefined ? {} : { cause },
  );
}

function decodeLine(line: Uint8Array): string {
  return Buffer.from(line.buffer, line.byteOffset, line.byteLength).toString("utf8");
}

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;
const ESCAPES =
  /\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u[dD][89a-fA-F][0-9a-fA-F]{2}|[^])/g;

/**
 * Every escape of an unpaired surrogate becomes an escaped U+FFFD, one for one; all else stays as it is (CouchDB's rule for what
 * a server printed).
 */
export function wellFormedEscapes(json: string): string {
  if (!SURROGATE_ESCAPE.test(json)) return json;
  return json.replace(ESCAPES, (escape, high: string | undefined) =>
    high === undefined && /^\\u[dD][89a-fA-F]/.test(escape) ? "\\ufffd" : escape,
  );
}
