// Every error the view server raises to its caller: one class, stable codes. What user code throws is not among them: that is data
// (a log line, a reply), never an exception of ours.

/** Code → when it is raised. */
export const VIEWSERVER_ERROR_CODES = {
  VIEWSERVER_COMPILATION: "a function of a design document does not compile",
  VIEWSERVER_NOT_JSON: "a document or command that was handed in is not JSON",
  VIEWSERVER_DISPOSED: "the session was used after dispose()",
  VIEWSERVER_OUTPUT: "the replies cannot be written",
  VIEWSERVER_USAGE: "a command-line option is not known",
} as const;

export type ViewServerErrorCode = keyof typeof VIEWSERVER_ERROR_CODES;

export class ViewServerError extends Error {
  readonly code: ViewServerErrorCode;

  constructor(code: ViewServerErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}
Object.defineProperty(ViewServerError.prototype, "name", { value: "ViewServerError" });
