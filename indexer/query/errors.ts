// The one error of this folder: a query that CouchDB refuses, with the status, name and reason it refuses it with.

export type QueryErrorName =
  "query_parse_error" | "bad_request" | "illegal_partition" | "unknown_error";

/** A query that cannot be asked. `status`, `error` and `reason` are what an HTTP client sees (VIEWS §8). */
export class QueryError extends Error {
  readonly code = "QUERY_INVALID";
  readonly status: number;
  readonly error: QueryErrorName;
  readonly reason: string;

  constructor(status: number, error: QueryErrorName, reason: string) {
    super(`${error}: ${reason}`);
    this.status = status;
    this.error = error;
    this.reason = reason;
  }
}
Object.defineProperty(QueryError.prototype, "name", { value: "QueryError" });

export function parseError(reason: string): QueryError {
  return new QueryError(400, "query_parse_error", reason);
}

export function badRequest(reason: string): QueryError {
  return new QueryError(400, "bad_request", reason);
}

/** A key, a body or a part of one that is not JSON. */
export function invalidJson(): QueryError {
  return badRequest("invalid UTF-8 JSON");
}
