// A failed reduction: stored in-band beside good ones, thrown when a query's range contains it.

import { IndexerError } from "../errors.js";
import type { ReduceFailure } from "./types.js";

/** The error of a query whose range holds a failed reduction. */
export function reduceFailed(failure: ReduceFailure): IndexerError {
  return new IndexerError(
    "INDEXER_REDUCE_FAILED",
    `A reduce failed for rows in the range of this query: ${failure.reason}. Fix what the map function emits, or narrow the range.`,
    { status: 500, error: failure.error, reason: failure.reason },
  );
}

/** A failure as bytes of a part. */
export function encodeFailure(failure: ReduceFailure): string {
  return JSON.stringify([failure.error, failure.reason]);
}

/** What `encodeFailure` wrote. */
export function decodeFailure(text: string): ReduceFailure {
  const [error, reason] = JSON.parse(text) as [string, string];
  return { error, reason };
}
