// Queries: from parameters to an answer in CouchDB's bytes. parseViewQuery → resolveViewQuery → runViewQuery.
export { ViewAnswer } from "./answer.js";
export { type CouchAnswer, type Row } from "./answer-types.js";
export { parseQueriesBody, parseViewBody, type ViewBody } from "./body.js";
export { arrayElements, jsonKind } from "./json-slices.js";
export { type Step, type ViewContext } from "./context.js";
export { badRequest, parseError, QueryError, type QueryErrorName } from "./errors.js";
export { assertJson } from "./json-text.js";
export { parseViewQueries } from "./queries-parameters.js";
export {
  JSON_PARAMETERS,
  PARAMETER_NAMES,
  parseQueryObject,
  parseViewQuery,
  requirePartition,
  type ParseOptions,
  type ViewQuery,
} from "./parameters.js";
export {
  checkQuery,
  inCollation,
  resolveViewQueries,
  resolveViewQuery,
  type Grouping,
  type ResolvedQuery,
  type ViewShape,
} from "./resolve.js";
export { queriesText } from "./queries-text.js";
export { runViewQuery, type RunOptions } from "./run.js";
export { QueryStats, type QueryCost, type QueryPhase } from "./stats.js";
