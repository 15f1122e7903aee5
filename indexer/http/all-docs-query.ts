// What is asked of `_all_docs`: the parameters of a view without a reduce, and the ways in which the list differs from one.

import {
  arrayElements,
  assertJson,
  badRequest,
  checkQuery,
  jsonKind,
  parseError,
  parseViewBody,
  parseViewQueries,
  parseViewQuery,
  type ParseOptions,
  type ViewQuery,
} from "../query/index.js";

export interface ListQuery extends Omit<ViewQuery, "keys"> {
  /** JSON texts. */
  readonly keys: readonly string[] | undefined;
}

/** Where the list is asked for. */
export interface ListPlace extends ParseOptions {
  /** Whether the database is partitioned. */
  readonly partitioned: boolean;
}

type Pairs = readonly (readonly [string, string])[];

const isOther = ([name]: readonly [string, string]): boolean => name !== "keys";

/**
 * Reads the parameters, and checks them as those of a view without a reduce. `keys` of the query string wins over that of the body; a
 * list of one is a list here, which tells of what is not there.
 *
 * @param bodyText - of a POST.
 * @throws QueryError 400.
 */
export function listQuery(pairs: Pairs, bodyText: string | undefined, place: ListPlace): ListQuery {
  const body = bodyText === undefined ? undefined : parseViewBody(bodyText);
  const posted = body?.members.findLast(([name]) => name === "keys")?.[1];
  const asked = pairs.findLast(([name]) => name === "keys")?.[1];
  if (posted !== undefined && posted !== "null" && jsonKind(posted) !== "array")
    throw badRequest("`keys` body member must be an array.");
  if (asked !== undefined) {
    assertJson(asked);
    if (jsonKind(asked) !== "array") throw badRequest("`keys` parameter must be an array.");
  }
  const text = asked ?? (posted === "null" ? undefined : posted);
  const parsed = parseViewQuery(
    pairs.filter(isOther),
    body && { members: body.members.filter(isOther) },
    place,
  );
  return checked({ ...parsed, keys: text === undefined ? undefined : arrayElements(text) }, place);
}

/**
 * The queries of `POST …/_all_docs/queries`, all checked before the first is run. Here a list of one key is that key, as in views.
 * @throws QueryError.
 */
export function listQueries(pairs: Pairs, bodyText: string, place: ListPlace): ListQuery[] {
  return Array.from(parseViewQueries(pairs, bodyText, place), (query) => {
    if (query.keys === "invalid") throw parseError("`keys` must be an array of strings.");
    return checked({ ...query, keys: query.keys }, place);
  });
}

function checked(query: ListQuery, { partitioned }: ListPlace): ListQuery {
  const { keys, ...others } = query;
  checkQuery(keys ? { ...others, keys } : others, false);
  if (query.partition === undefined) return query;
  if (!partitioned) throw parseError("`partition` parameter is not supported on this db");
  return inPartition(query, query.partition);
}

/** Ids of a partition lie between these two. */
export function partitionBounds(partition: string): [first: string, last: string] {
  return [`${partition}:`, `${partition};`];
}

/** The part of the range that lies in the partition. */
function inPartition(query: ListQuery, partition: string): ListQuery {
  const { descending } = query;
  const bounds = partitionBounds(partition);
  const [first, last] = descending ? bounds.reverse() : bounds;
  const inner = (id: string | undefined, bound = "", higher: boolean): string => {
    if (id === undefined) return bound;
    return Buffer.compare(Buffer.from(id), Buffer.from(bound)) > 0 === higher ? id : bound;
  };
  return {
    ...query,
    startKey: JSON.stringify(inner(boundOf(query.startKey), first, !descending)),
    endKey: JSON.stringify(inner(boundOf(query.endKey), last, descending)),
  };
}

/** The id that a key is; undefined for what is no string and so no id. */
export function idOf(key: string): string | undefined {
  const value = JSON.parse(key) as unknown;
  return typeof value === "string" ? value : undefined;
}

/** An end of a range; CouchDB takes one that is no string for none. */
export function boundOf(key: string | undefined): string | undefined {
  return key === undefined ? undefined : idOf(key);
}
