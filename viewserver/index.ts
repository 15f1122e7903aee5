// The view server's public names.
export { Session, type HandleResult, type LogLine, type ReduceReply } from "./session.js";
export type { RowExchange, SessionOptions } from "./options.js";
export type { CompileError } from "./source.js";
export { VIEWSERVER_ERROR_CODES, ViewServerError, type ViewServerErrorCode } from "./errors.js";
