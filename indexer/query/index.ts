// Queries: from parameters to an answer in CouchDB's bytes. parseViewQuery → resolveViewQuery → runViewQuery.
export { ViewAnswer, queriesText, type CouchAnswer, type Row } from "./answer.js";
export { parseQueriesBody, parseViewBody, viewBodyOf, type ViewBody } from "./body.js";
export { type Step, type ViewContext } from "./context.js";
export { QueryError, type QueryErrorName } from "./errors.js";
export {
  PARAMETER_NAMES,
  parseViewQuery,
  requirePartition,
  type ParseOptions,
  type ViewQuery,
} from "./parameters.js";
export {
  resolveViewQueries,
  resolveViewQuery,
  type Grouping,
  type ResolvedQuery,
  type ViewShape,
} from "./resolve.js";
export { runViewQuery, type RunOptions } from "./run.js";
export { QueryStats, type QueryCost, type QueryPhase } from "./stats.js";
