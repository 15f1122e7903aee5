// What the parameters of a query mean together for one view: the semantic checks of VIEWS §8 in CouchDB's order, the range
// check of §9, and keys encoded into the bytes of the tree.

import { type Bytes } from "../../btree/index.js";
import { encodeKeyText, newestCollation } from "../collation/index.js";
import { type CollationKind } from "../reducers/index.js";
import { invalidJson, parseError } from "./errors.js";
import { sameTerm, tinyToZero } from "./json-slices.js";
import type { ParseOptions, ViewQuery } from "./parameters.js";
import { parseViewQueries } from "./queries-parameters.js";
import { startsBeforeEnd } from "./ranges.js";

/** What a query must know of its view before it runs. */
export interface ViewShape {
  readonly hasReduce: boolean;
  readonly collation: CollationKind;
  /** Version of the root order that the view's file is kept in, as far as known. Default the newest. */
  readonly collationVersion?: number;
  /** Rows are kept by partition, so that a query names one (VIEWS §19). */
  readonly partitioned?: boolean;
  /** `[query_server_config] query_limit` or `partition_query_limit`. Default none. */
  readonly limitMax?: number;
}

/** The keys of a query as they were asked for, as JSON texts. */
export interface KeyRequest {
  readonly startKey: string | undefined;
  readonly endKey: string | undefined;
  readonly keys: readonly string[] | undefined;
}

/** How a reduce groups its rows: not at all, by the whole key, or by the first elements of array keys. */
export type Grouping = "none" | "exact" | number;

/** A query that the view can answer. */
export interface ResolvedQuery {
  readonly kind: "map" | "reduce";
  readonly collation: CollationKind;
  /** Version of the root order that keys are encoded in; `inCollation` changes it. */
  readonly collationVersion: number;
  /** JSON texts of the keys that are encoded. */
  readonly texts: KeyRequest;
  /** Encoded; undefined for an open end. */
  readonly startKey: Bytes | undefined;
  readonly endKey: Bytes | undefined;
  /** Encoded, in list order; undefined without a list. Never of length 1. */
  readonly keys: readonly Bytes[] | undefined;
  /** UTF-8; undefined where the default holds. */
  readonly startDocId: Bytes | undefined;
  readonly endDocId: Bytes | undefined;
  readonly inclusiveEnd: boolean;
  readonly descending: boolean;
  readonly limit: number;
  readonly skip: number;
  readonly grouping: Grouping;
  readonly includeDocs: boolean;
  readonly conflicts: boolean;
  readonly attachments: boolean;
  readonly attEncodingInfo: boolean;
  readonly update: true | false | "lazy";
  readonly stable: boolean;
  readonly updateSeq: boolean;
  readonly sorted: boolean;
  readonly partition: string | undefined;
  readonly explain: boolean;
}

const utf8 = new TextEncoder();

function groupingOf(query: ViewQuery): Grouping {
  const { group, groupLevel } = query;
  if (group === false && groupLevel !== undefined && groupLevel > 0) {
    throw parseError("Can't specify group=false and group_level>0 at the same time");
  }
  if (groupLevel !== undefined) return groupLevel === 0 ? "none" : groupLevel;
  return group === true ? "exact" : "none";
}

function checkPartition(query: ViewQuery, view: ViewShape): void {
  if (view.partitioned === true && query.partition === undefined) {
    throw parseError("`partition` parameter is mandatory for queries to this view.");
  }
  if (view.partitioned !== true && query.partition !== undefined) {
    throw parseError("`partition` parameter is not supported in this design doc");
  }
}

function limitOf(query: ViewQuery, max = Infinity): number {
  if (query.limit === Infinity) return max;
  if (query.limit > max) throw parseError(`Limit is too large, must not exceed ${max}`);
  return query.limit;
}

function encoded(collation: CollationKind, version: number, json: string): Bytes {
  try {
    return encodeKeyText(collation, tinyToZero(json.trim()), version);
  } catch {
    // Parsing accepted it, so this is nesting beyond what can be encoded.
    throw invalidJson();
  }
}

/**
 * The checks that need neither the view's rows nor its keys: 1 to 12 of VIEWS §8, in CouchDB's order.
 *
 * @throws QueryError with the first that fails.
 */
export function checkQuery(
  query: ViewQuery,
  hasReduce: boolean,
): Pick<ResolvedQuery, "kind" | "grouping"> {
  const grouping = groupingOf(query);
  const { keys } = query;
  if (!hasReduce && query.reduce === true) {
    throw parseError("Reduce is invalid for map-only views.");
  }
  const kind = hasReduce && query.reduce !== false ? "reduce" : "map";
  if (kind === "reduce" && grouping !== "exact" && keys !== undefined && keys !== "invalid") {
    throw parseError("Multi-key fetches for reduce views must use `group=true`");
  }
  if (keys === "invalid") throw parseError("`keys` must be an array of strings.");
  const ranged = query.startKey !== undefined || query.endKey !== undefined;
  if (keys !== undefined && keys.length > 0 && ranged) {
    throw parseError("`keys` is incompatible with `key`, `start_key` and `end_key`");
  }
  if (kind === "map" && grouping !== "none") {
    throw parseError("Invalid use of grouping on a map view.");
  }
  if (kind === "reduce") {
    if (query.includeDocs) throw parseError("`include_docs` is invalid for reduce");
    if (query.conflicts !== undefined) {
      throw parseError("`conflicts` is invalid for reduce views.");
    }
  }
  return { kind, grouping };
}

/**
 * Checks the query against its view.
 *
 * @throws QueryError with the first failing check of VIEWS §8 and §9.
 */
export function resolveViewQuery(query: ViewQuery, view: ViewShape): ResolvedQuery {
  const { kind, grouping } = checkQuery(query, view.hasReduce);
  const keys = query.keys === "invalid" ? undefined : query.keys;
  checkPartition(query, view);
  const limit = limitOf(query, view.limitMax);

  const range = {
    texts: { startKey: query.startKey, endKey: query.endKey, keys },
    startDocId: query.startKeyDocId === undefined ? undefined : utf8.encode(query.startKeyDocId),
    endDocId: query.endKeyDocId === undefined ? undefined : utf8.encode(query.endKeyDocId),
    descending: query.descending,
    collation: view.collation,
  };
  const {
    collationVersion,
    startKey,
    endKey,
    keys: encodedList,
  } = encodedKeys(range, view.collationVersion ?? newestCollation());
  // Name by name: to spread objects costs a lookup as much as to encode its key.
  return {
    kind,
    collation: range.collation,
    collationVersion,
    texts: range.texts,
    startKey,
    endKey,
    keys: encodedList,
    startDocId: range.startDocId,
    endDocId: range.endDocId,
    descending: range.descending,
    inclusiveEnd: query.inclusiveEnd,
    limit,
    skip: query.skip,
    grouping,
    includeDocs: query.includeDocs,
    conflicts: query.conflicts === true,
    attachments: query.attachments,
    attEncodingInfo: query.attEncodingInfo,
    update: query.update,
    stable: query.stable,
    updateSeq: query.updateSeq,
    sorted: query.sorted,
    partition: query.partition,
    explain: query.explain,
  };
}

type AskedRange = Pick<
  ResolvedQuery,
  "collation" | "texts" | "startDocId" | "endDocId" | "descending"
>;

type EncodedKeys = Pick<ResolvedQuery, "collationVersion" | "startKey" | "endKey" | "keys">;

/** @throws QueryError for a range in which nothing can lie (VIEWS §9). */
function encodedKeys(range: AskedRange, version: number): EncodedKeys {
  const { texts, collation, startDocId, endDocId, descending } = range;
  const encode = (json: string): Bytes => encoded(collation, version, json);
  const startKey = texts.startKey === undefined ? undefined : encode(texts.startKey);
  const endKey =
    texts.endKey === undefined
      ? undefined
      : texts.endKey === texts.startKey
        ? startKey
        : encode(texts.endKey);
  // The same key twice is never refused, and the usual case of a lookup.
  if (startKey && endKey && startKey !== endKey) {
    const same = sameTerm(texts.startKey ?? "", texts.endKey ?? "");
    if (
      !same &&
      startsBeforeEnd(startKey, startDocId, endKey, endDocId, descending) === descending
    ) {
      throw parseError(
        `No rows can match your key range, reverse your start_key and end_key or set descending=${String(!descending)}`,
      );
    }
  }
  return { collationVersion: version, startKey, endKey, keys: texts.keys?.map(encode) };
}

/**
 * The query for a file that is kept in this version of the root order: between a query's being read and its being run a compaction may
 * have renewed the file.
 *
 * @throws QueryError for a range in which nothing can lie in that order.
 */
export function inCollation(query: ResolvedQuery, version: number): ResolvedQuery {
  if (query.collationVersion === version) return query;
  return { ...query, ...encodedKeys(query, version) };
}

/**
 * The queries of `POST …/_view/{view}/queries`, all checked before the first is run. Parameters of the query string are
 * defaults for each, except keys, group and group_level (VIEWS §18).
 *
 * @throws QueryError for the first query that is wrong: then none is run.
 */
export function resolveViewQueries(
  params: Iterable<readonly [string, string]>,
  bodyText: string,
  view: ViewShape,
  options: ParseOptions = {},
): ResolvedQuery[] {
  return Array.from(parseViewQueries(params, bodyText, options), (query) =>
    resolveViewQuery(query, view),
  );
}
