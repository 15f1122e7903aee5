// The parameters of `POST …/queries` (VIEWS §18).

import { parseQueriesBody } from "./body.js";
import { QueryError } from "./errors.js";
import {
  applyBody,
  applyParameters,
  applyPath,
  defaultQuery,
  type ParseOptions,
  type ViewQuery,
} from "./parameters.js";

/**
 * Reads the queries of a body, one at a time as they are asked for. Parameters of the query string are defaults for each, except keys,
 * group and group_level.
 *
 * @throws QueryError at once for a body that holds no queries; later for the first parameter that cannot be read.
 */
export function parseViewQueries(
  params: Iterable<readonly [string, string]>,
  bodyText: string,
  options: ParseOptions = {},
): Iterable<ViewQuery> {
  const bodies = parseQueriesBody(bodyText);
  const defaults = defaultQuery();
  applyParameters(defaults, params);
  delete defaults.keys;
  delete defaults.group;
  delete defaults.groupLevel;
  return (function* () {
    for (const body of bodies) {
      // CouchDB has no clause for it either.
      if (!body) throw new QueryError(500, "unknown_error", "function_clause");
      const query = { ...defaults };
      applyBody(query, body);
      applyPath(query, options);
      yield query;
    }
  })();
}
