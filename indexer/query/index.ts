// Queries: from parameters to an answer in CouchDB's bytes. parseViewQuery → resolveViewQuery → runViewQuery.
export { ViewAnswer } from "./answer.js";
export { type CouchAnswer, type Row } from "./answer-types.js";
export { parseQueriesBody, parseViewBody, type ViewBody } from "./body.js";
export { type Step, type ViewContext } from "./context.js";
export { QueryError, type QueryErrorName } from "./errors.js";
export {
  PARAMETER_NAMES,
  parseQueryObject,
  parseViewQuery,
  requirePartition,
  type ParseOptions,
  type ViewQuery,
} from "./parameters.js";
export {
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
