// Errors of run files. They are intermediate: whatever is wrong with one, the remedy is to build again from the last checkpoint
// that does not need it.

import { BtreeError } from "../errors.js";

/** A damaged piece of a run file. */
export function damaged(file: string, offset: number, what: string): BtreeError {
  return new BtreeError(
    "BTREE_CORRUPT",
    `run file ${file} ${what} (offset ${offset}); delete the build's run files and build again`,
    { file, offset },
  );
}

/** A run file of a later release. */
export function newerVersion(file: string, version: number): BtreeError {
  return new BtreeError(
    "BTREE_VERSION_UNSUPPORTED",
    `run file ${file} has format version ${version}, this release reads version 1; continue the build with the release that began it, or delete its run files`,
    { file, version },
  );
}

/** A call of the operating system that failed. */
export function runIoError(file: string, what: string, cause?: unknown): BtreeError {
  const reason = cause === undefined ? "" : `: ${messageOf(cause)}`;
  return new BtreeError(
    "BTREE_IO",
    `run file ${file} ${what}${reason}; see that the disk is well and has room, then continue the build`,
    { file },
    { cause },
  );
}

function messageOf(cause: unknown): string {
  return typeof cause === "object" && cause !== null && "message" in cause
    ? String(cause.message)
    : String(cause);
}
