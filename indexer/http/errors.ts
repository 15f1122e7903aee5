// Errors as CouchDB answers them (VIEWS §8, §20): a status and `{"error":E,"reason":R}`.

import { IndexerError } from "../errors.js";
import { QueryError } from "../query/index.js";

export interface HttpError {
  readonly status: number;
  readonly error: string;
  readonly reason: string;
  /** The methods that a 405 would have allowed. */
  readonly allow?: string | undefined;
}

/** An error with a status of its own. */
export class RequestError extends Error implements HttpError {
  constructor(
    readonly status: number,
    readonly error: string,
    readonly reason: string,
    readonly allow?: string,
  ) {
    super(`${status} ${error}: ${reason}`);
  }
}

export function notFound(reason = "missing"): RequestError {
  return new RequestError(404, "not_found", reason);
}

export function methodNotAllowed(allowed: string): RequestError {
  return new RequestError(405, "method_not_allowed", `Only ${allowed} allowed`, allowed);
}

/** What fails of ours without CouchDB's words for it. */
const STATUS: Partial<Record<string, readonly [number, string]>> = {
  INDEXER_CLOSED: [503, "service_unavailable"],
  INDEXER_ABORTED: [503, "service_unavailable"],
  INDEXER_DDOC_INVALID: [400, "invalid_design_doc"],
  INDEXER_DDOC_COMPILATION: [400, "compilation_error"],
  SOURCE_UNREACHABLE: [502, "source_unreachable"],
  SOURCE_UNAUTHORIZED: [502, "source_unauthorized"],
  SOURCE_NOT_FOUND: [404, "not_found"],
};

export function toHttpError(error: unknown): HttpError {
  if (error instanceof RequestError || error instanceof QueryError) return error;
  if (error instanceof IndexerError) {
    const { status, error: name, reason } = error.details;
    const [known, word] = STATUS[error.code] ?? [500, error.code.toLowerCase()];
    return { status: status ?? known, error: name ?? word, reason: reason ?? error.message };
  }
  const { statusCode, code, message } = error as {
    statusCode?: number;
    code?: string;
    message?: string;
  };
  if (statusCode === 413)
    return { status: 413, error: "too_large", reason: "the request entity is too large" };
  if (statusCode === 415)
    return {
      status: 415,
      error: "bad_content_type",
      reason: "Content-Type must be application/json",
    };
  if (statusCode !== undefined && statusCode >= 400 && statusCode < 500)
    return { status: statusCode, error: "bad_request", reason: message ?? "bad request" };
  return {
    status: 500,
    error: code?.startsWith("BTREE_") ? code.toLowerCase() : "unknown_error",
    reason: message ?? String(error),
  };
}

export function errorBody({ error, reason }: HttpError): string {
  return `${JSON.stringify({ error, reason })}\n`;
}
