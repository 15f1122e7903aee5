// The view server's public names.
export { Session, type HandleResult, type LogLine, type ReduceReply } from "./session.js";
export { EXCEPTION_MARK, type RowExchange, type SessionOptions } from "./options.js";
export { syntaxFault, visibleMembers } from "./inspect.js";
export type { CompileError } from "./source.js";
export { VIEWSERVER_ERROR_CODES, ViewServerError, type ViewServerErrorCode } from "./errors.js";
