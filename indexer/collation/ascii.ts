// The fast path's tables: what printable ASCII becomes, and back. Both are derived from the generated table.
import { ASCII_PRIMARIES } from "./table-data.js";

export { ASCII_UPPER_TERTIARY } from "./table-data.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Byte of JSON string → primary weight. 0 for whatever needs a closer look: quote, backslash, upper case, controls, bytes >= 0x80. */
export const ASCII_PRIMARY = new Uint8Array(256);
/** Primary weight byte → ASCII character. */
export const ASCII_OF_PRIMARY = new Uint8Array(256);

for (let c = 0x20; c < 0x7f; c++) {
  const primary = primaryOf(c);
  if (primary === 0) continue;
  ASCII_OF_PRIMARY[primary] = c;
  if (c !== QUOTE && c !== BACKSLASH) ASCII_PRIMARY[c] = primary;
}
/** The two characters that JSON escapes. */
export const QUOTE_PRIMARY = primaryOf(QUOTE);
export const BACKSLASH_PRIMARY = primaryOf(BACKSLASH);

function primaryOf(c: number): number {
  return parseInt(ASCII_PRIMARIES.slice(c * 2, c * 2 + 2), 16);
}
