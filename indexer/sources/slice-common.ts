// What slicing documents and slicing changes share: ids, deletions, and the small searches both lean on.

import { isUtf8 } from "node:buffer";

import { malformedLine, type LineOrigin } from "./line-errors.js";
import { decodeString } from "./member-scan.js";
import { SLICE_DESIGN, type Slices } from "./slices.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const UNDERSCORE = 0x5f;
const DESIGN = Buffer.from("_design/");
const LOCAL = Buffer.from("_local/");
const ASCII_ESCAPE = Buffer.from("\\u00");
const TRUE = Buffer.from("true");

/** Is what stands in a string's quotes another text than these bytes: are there escapes, or is it no UTF-8 and must be mended? */
export function needsDecoding(bytes: Uint8Array, start: number, end: number): boolean {
  let high = 0;
  for (let p = start; p < end; p++) {
    if (bytes[p] === BACKSLASH) return true;
    high |= bytes[p] as number;
  }
  return high >= 0x80 && !isUtf8(bytes.subarray(start, end));
}

/**
 * The next `\\u00XX` that spells a character a member name of ours has: `"\\u005fid"` is `"_id"` too. Rare, so the place is
 * found once and kept while the lines before it pass by. Escapes of other characters (`\\u00e9`) do not count.
 */
export class AsciiEscapes {
  readonly #bytes: Buffer;
  #next = -1;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** The first at or after `start`; the buffer's length when there is none. `start` must not decrease. */
  notBefore(start: number): number {
    if (this.#next >= start) return this.#next;
    const bytes = this.#bytes;
    let p = bytes.indexOf(ASCII_ESCAPE, start);
    while (p >= 0) {
      const digit = bytes[p + ASCII_ESCAPE.length] as number;
      if (digit >= 0x35 && digit <= 0x37) break;
      p = bytes.indexOf(ASCII_ESCAPE, p + ASCII_ESCAPE.length);
    }
    this.#next = p < 0 ? bytes.length : p;
    return this.#next;
  }
}

/** Where a byte comes next. What lies between is searched once, however many ranges without it are asked for. */
export class NextByte {
  readonly #bytes: Buffer;
  readonly #byte: number;
  #next = -1;

  constructor(bytes: Buffer, byte: number) {
    this.#bytes = bytes;
    this.#byte = byte;
  }

  /** The first at or after `start`; the buffer's length when there is none. `start` must not decrease. */
  notBefore(start: number): number {
    if (this.#next >= start) return this.#next;
    const found = this.#bytes.indexOf(this.#byte, start);
    return (this.#next = found < 0 ? this.#bytes.length : found);
  }
}

/** Notes the id of document `count`. False when it is not a usable id. */
export function placeId(
  bytes: Buffer,
  start: number,
  end: number,
  out: Slices,
  stringOnly: boolean,
): boolean {
  if (bytes[start] !== QUOTE) {
    const first = bytes[start] as number;
    const number = first === 0x2d || (first >= 0x30 && first <= 0x39);
    if (stringOnly || !number) return false;
    out.putId(bytes.subarray(start, end));
    return true;
  }
  if (end - start < 3) return false;
  if (needsDecoding(bytes, start, end)) {
    const id = decodeString(bytes, start, end);
    if (id === undefined) return false;
    out.putId(Buffer.from(id));
  } else if (out.idsCopied) {
    out.putId(bytes.subarray(start + 1, end - 1));
  } else {
    out.idStart[out.count] = start + 1;
    out.idEnd[out.count] = end - 1;
  }
  return true;
}

/** SLICE_DESIGN or 0 for the id of document `i`; -1 for a `_local/` document, which no view ever sees. */
export function idFlags(out: Slices, i: number): number {
  const start = out.idStart[i] as number;
  if (out.ids[start] !== UNDERSCORE) return 0;
  const end = out.idEnd[i] as number;
  if (beginsWith(out.ids, start, end, DESIGN)) return SLICE_DESIGN;
  return beginsWith(out.ids, start, end, LOCAL) ? -1 : 0;
}

function beginsWith(bytes: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) if (bytes[start + i] !== prefix[i]) return false;
  return true;
}

/** Is the value in the range `true`? */
export function isTrue(bytes: Uint8Array, start: number, end: number): boolean {
  return end - start === TRUE.length && beginsWith(bytes, start, end, TRUE);
}

/** Does the buffer begin with a UTF-8 byte order mark? */
export function startsWithMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/** The error for a line beyond the limit. */
export function tooLong(
  data: Uint8Array,
  lineStart: number,
  end: number,
  limit: number,
  origin: LineOrigin,
): Error {
  const problem = `the line has more than ${limit} bytes (--line-max, lineBytesMax, allows more)`;
  return malformedLine(data, lineStart, end, problem, origin, "SOURCE_LINE_TOO_LONG");
}
