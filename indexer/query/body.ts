// Bodies of POST requests (VIEWS §18): members kept as raw JSON text in the order written.

import { badRequest } from "./errors.js";
import { arrayElements, jsonKind, objectMembers } from "./json-slices.js";
import { assertJson } from "./json-text.js";

/** The members of a request body: names and raw JSON texts, in order. */
export interface ViewBody {
  readonly members: readonly (readonly [name: string, json: string])[];
}

function parseMembers(bodyText: string): ViewBody {
  assertJson(bodyText);
  if (jsonKind(bodyText) !== "object") throw badRequest("Request body must be a JSON object");
  return { members: objectMembers(bodyText) };
}

/**
 * The body of `POST …/_view/{view}`.
 *
 * @throws QueryError when it is not JSON, not an object, or has a `queries` member.
 */
export function parseViewBody(bodyText: string): ViewBody {
  const body = parseMembers(bodyText);
  for (const [name, json] of body.members) {
    if (name !== "queries") continue;
    if (jsonKind(json) !== "array") throw badRequest("`queries` member must be an array.");
    throw badRequest("The `queries` parameter is no longer supported at this endpoint");
  }
  return body;
}

/**
 * The queries of `POST …/_view/{view}/queries`, undefined for an entry that is not an object.
 *
 * @throws QueryError when the body is not an object or has no list of queries.
 */
export function parseQueriesBody(bodyText: string): (ViewBody | undefined)[] {
  const json = parseMembers(bodyText).members.find(([name]) => name === "queries")?.[1];
  if (json === undefined) throw badRequest("POST body must include `queries` parameter.");
  if (jsonKind(json) !== "array") throw badRequest("`queries` member must be an array.");
  return arrayElements(json).map((text) =>
    jsonKind(text) === "object" ? { members: objectMembers(text) } : undefined,
  );
}
