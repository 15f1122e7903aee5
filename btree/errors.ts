// Every error the storage engine raises on purpose: one class, stable codes, each with what it means.
// Mistakes of the caller (a wrong option) are TypeError or RangeError and carry no code.

/** Code → when it is raised. Codes are stable within a major version; messages are not. */
export const BTREE_ERROR_CODES = {
  BTREE_NOT_FOUND: "the file does not exist",
  BTREE_EXISTS: "the file to be created exists",
  BTREE_NO_HEADER: "the file is no store, or none of its header slots is intact",
  BTREE_VERSION_UNSUPPORTED: "the file was written by a newer version of the format",
  BTREE_CORRUPT: "bytes read from the file are not what was written",
  BTREE_IO: "the system failed to read a file, or to write a run file",
  BTREE_BROKEN:
    "a write or sync failed earlier, so the handle refuses to go on until it is reopened",
  BTREE_NOT_OPEN: "the store is closed",
  BTREE_READ_ONLY: "the store was opened for reading",
  BTREE_BUSY: "another change of the store is under way",
  BTREE_KEY_ORDER: "keys were not handed over in strictly ascending order",
  BTREE_LIMIT: "a key, value or reduction exceeds what a file can hold",
} as const;

export type BtreeErrorCode = keyof typeof BTREE_ERROR_CODES;

/** Where it happened, as far as known. */
export interface BtreeErrorDetails {
  readonly file?: string | undefined;
  readonly offset?: number;
  readonly tree?: string;
  /** The format version found, for BTREE_VERSION_UNSUPPORTED. */
  readonly version?: number;
}

export class BtreeError extends Error {
  readonly code: BtreeErrorCode;
  readonly details: BtreeErrorDetails;
  readonly file: string | undefined;
  readonly offset: number | undefined;

  constructor(
    code: BtreeErrorCode,
    message: string,
    details: BtreeErrorDetails = {},
    options?: { cause?: unknown },
  ) {
    super(message, options);
    this.code = code;
    this.details = details;
    this.file = details.file;
    this.offset = details.offset;
  }
}
Object.defineProperty(BtreeError.prototype, "name", { value: "BtreeError" });

/** True for an error with one of this engine's codes, also after it crossed a thread. */
export function isBtreeError(error: unknown, code?: BtreeErrorCode): error is BtreeError {
  if (typeof error !== "object" || error === null || !("code" in error)) return false;
  const found = error.code;
  return code === undefined
    ? typeof found === "string" && found in BTREE_ERROR_CODES
    : found === code;
}

/** Damage found in `file` at `offset`: what is wrong, and what to do. */
export function corrupt(file: string | undefined, offset: number, what: string): BtreeError {
  return new BtreeError(
    "BTREE_CORRUPT",
    `${file ?? "store in memory"} is damaged at byte ${offset}: ${what}; verify the file, then rebuild it or restore a copy`,
    { file, offset },
  );
}

/** For our own bugs only. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`viewmill bug: ${message}`);
}
