// The view server's public names.
export { Session } from "./session.js";
export type { HandleResult, LogLine, ReduceReply } from "./results.js";
export { EXCEPTION_MARK, type RowExchange, type SessionOptions } from "./options.js";
export { readsKeys, syntaxFault, visibleMembers } from "./inspect.js";
export type { CompileError } from "./source.js";
export { VIEWSERVER_ERROR_CODES, ViewServerError, type ViewServerErrorCode } from "./errors.js";
