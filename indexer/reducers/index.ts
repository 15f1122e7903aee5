// Reduces of views: the built-ins, custom JavaScript reduces, and what view trees keep of both.

export type { CollationKind } from "../collation/index.js";
export { createViewReducer, type ViewReducerOptions } from "./reducer.js";
export { isBuiltIn, validateReduce } from "./spec.js";
export type {
  Awaitable,
  EvaluateOptions,
  JsReduceResult,
  JsReduceRunner,
  ReduceFailure,
  ReduceLimits,
  ReduceOutcome,
  ReduceOverflow,
  ReduceSpec,
  ViewReducer,
} from "./types.js";
