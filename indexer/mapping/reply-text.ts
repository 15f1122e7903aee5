// What is read of a reply as text: where its line ends, and what an error reply says.

import type { DocumentFailure } from "./types.js";

const LF = 0x0a;

/** Where the line that begins at `start` ends. */
export function lineEnd(src: Uint8Array, start: number): number {
  const end = src.indexOf(LF, start);
  return end < 0 ? src.length : end;
}

export function utf8(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
}

/** `["error", id, reason]` or `["fatal", …]` in place of rows: the whole document failed (PROTOCOL §14). */
export function errorReply(src: Uint8Array, start: number, end: number): DocumentFailure {
  const text = utf8(src, start, end);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    parsed = undefined;
  }
  const parts = Array.isArray(parsed) ? (parsed as unknown[]) : [];
  const [, error, reason] = parts;
  return {
    index: -1,
    kind: "error_reply",
    error: typeof error === "string" ? error : "unknown_error",
    reason:
      typeof reason === "string"
        ? reason
        : reason === undefined
          ? text.slice(0, 200)
          : JSON.stringify(reason),
  };
}
