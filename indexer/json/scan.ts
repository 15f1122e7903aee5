// Finds where a JSON value ends without building it, and tells whether its text is canonical, in one pass over the bytes.
// Canonical: compact, strings escaped as JSON.stringify does, no lone surrogate, no repeated member name, valid UTF-8.
// Numbers count as canonical however they are written: `1.0` and integers beyond 2^53 are data, and are kept as they came.
// No recursion: depth costs four bytes a level.
import { MemberNames } from "./names.js";
import {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  DIGIT_0,
  DIGIT_9,
  DOT,
  hexValue,
  isBlank,
  malformed,
  MINUS,
  OPEN_ARRAY,
  OPEN_OBJECT,
  PLUS,
  QUOTE,
} from "./syntax.js";

/** Index after the JSON value that starts at `start` (blanks before it are skipped). Throws JSON_MALFORMED. */
export function scanValue(src: Uint8Array, start: number): number {
  return new JsonScanner().scan(src, start);
}

/** Reusable, not re-entrant. */
export class JsonScanner {
  /** Index after the last value scanned. */
  end = 0;
  /** Whether the last value's text was canonical. Valid after `scan` returned. */
  canonical = true;
  readonly #names = new MemberNames();
  #stack = new Uint8Array(64);

  /** Returns the index after the value at `start`; blanks before it are skipped and make it not canonical. Throws JSON_MALFORMED. */
  scan(src: Uint8Array, start: number): number {
    this.canonical = true;
    this.#names.reset();
    let depth = 0;
    let pos = start;
    for (;;) {
      // A value begins at pos.
      let c = src[pos];
      if (isBlank(c)) {
        pos = this.#blanks(src, pos);
        c = src[pos];
      }
      if (c === QUOTE) {
        pos = this.#string(src, pos, start);
      } else if (c === OPEN_OBJECT || c === OPEN_ARRAY) {
        if (depth === this.#stack.length) this.#growStack();
        this.#stack[depth++] = c;
        pos = this.#skip(src, pos + 1);
        if (c === OPEN_OBJECT) {
          this.#names.open();
          if (src[pos] !== CLOSE_OBJECT) {
            pos = this.#name(src, pos, start);
            continue;
          }
        } else if (src[pos] !== CLOSE_ARRAY) {
          continue;
        }
      } else if (c !== undefined && (c === MINUS || (c >= DIGIT_0 && c <= DIGIT_9))) {
        pos = number(src, pos, start);
      } else {
        pos = literal(src, pos, start);
      }
      // A value ended at pos (or an empty container is about to close).
      for (;;) {
        if (depth === 0) {
          this.end = pos;
          return pos;
        }
        pos = this.#skip(src, pos);
        const next = src[pos];
        const container = this.#stack[depth - 1];
        if (next === COMMA) {
          pos = this.#skip(src, pos + 1);
          if (container === OPEN_OBJECT) pos = this.#name(src, pos, start);
          break;
        }
        if (next === CLOSE_OBJECT && container === OPEN_OBJECT) {
          this.#names.close();
        } else if (next !== CLOSE_ARRAY || container !== OPEN_ARRAY) {
          throw malformed(
            next === undefined
              ? "it ends inside an array or object"
              : "a comma or a closing bracket is missing",
            pos - start,
          );
        }
        depth--;
        pos++;
      }
    }
  }

  /** A member name and its colon. */
  #name(src: Uint8Array, pos: number, start: number): number {
    if (src[pos] !== QUOTE) throw malformed("a member name is missing", pos - start);
    const end = this.#string(src, pos, start);
    if (this.#names.add(src, pos + 1, end - 1)) this.canonical = false;
    const colon = this.#skip(src, end);
    if (src[colon] !== COLON) throw malformed("a colon is missing", colon - start);
    return this.#skip(src, colon + 1);
  }

  /** Passes over a string; `pos` is at its opening quote. */
  #string(src: Uint8Array, pos: number, start: number): number {
    const length = src.length;
    let i = pos + 1;
    while (i < length) {
      const c = src[i] as number;
      if (c === QUOTE) return i + 1;
      if (c >= 0x20 && c < 0x80 && c !== BACKSLASH) {
        i++;
      } else if (c === BACKSLASH) {
        i = this.#escape(src, i, start);
      } else if (c >= 0x80) {
        const size = utf8Size(src, i);
        if (size === 0) {
          this.canonical = false;
          i++;
        } else {
          i += size;
        }
      } else {
        throw malformed("an unescaped control character in a string", i - start);
      }
    }
    throw malformed("it ends inside a string", length - start);
  }

  #escape(src: Uint8Array, pos: number, start: number): number {
    const c = src[pos + 1];
    switch (c) {
      case QUOTE:
      case BACKSLASH:
      case 0x62: // b
      case 0x66: // f
      case 0x6e: // n
      case 0x72: // r
      case 0x74: // t
        return pos + 2;
      case 0x2f: // slash
        this.canonical = false;
        return pos + 2;
      case 0x75: // u
        break;
      case undefined:
      default:
        throw malformed("an unknown escape", pos - start);
    }
    for (let i = pos + 2; i < pos + 6; i++) {
      if (i >= src.length || hexValue(src[i] as number) < 0)
        throw malformed("a broken \\u escape", pos - start);
    }
    if (!isCanonicalControlEscape(src, pos)) this.canonical = false;
    return pos + 6;
  }

  #skip(src: Uint8Array, pos: number): number {
    return isBlank(src[pos]) ? this.#blanks(src, pos) : pos;
  }

  #blanks(src: Uint8Array, pos: number): number {
    this.canonical = false;
    let i = pos + 1;
    while (isBlank(src[i])) i++;
    return i;
  }

  #growStack(): void {
    const bigger = new Uint8Array(this.#stack.length * 2);
    bigger.set(this.#stack);
    this.#stack = bigger;
  }
}

/** Whether the valid `\uXXXX` at `pos` is one that JSON.stringify prints: lower-case hex of a control character without a short escape. */
export function isCanonicalControlEscape(src: Uint8Array, pos: number): boolean {
  if (src[pos + 2] !== DIGIT_0 || src[pos + 3] !== DIGIT_0) return false;
  const high = src[pos + 4];
  const low = src[pos + 5] as number;
  if (low >= 0x41 && low <= 0x46) return false;
  if (high === 0x31) return true;
  if (high !== DIGIT_0) return false;
  // \b \t \n \f \r are 08 09 0a 0c 0d.
  return low !== 0x38 && low !== 0x39 && low !== 0x61 && low !== 0x63 && low !== 0x64;
}

/** Bytes of the well-formed UTF-8 sequence that starts at `pos` with a byte >= 0x80; 0 when it is not well-formed. */
export function utf8Size(src: Uint8Array, pos: number): number {
  const a = src[pos] as number;
  const b = src[pos + 1] ?? 0;
  if ((b & 0xc0) !== 0x80 || a < 0xc2) return 0;
  if (a < 0xe0) return 2;
  if (((src[pos + 2] ?? 0) & 0xc0) !== 0x80) return 0;
  if (a < 0xf0) {
    if (a === 0xe0 && b < 0xa0) return 0;
    return a === 0xed && b >= 0xa0 ? 0 : 3;
  }
  if (((src[pos + 3] ?? 0) & 0xc0) !== 0x80) return 0;
  if (a > 0xf4 || (a === 0xf0 && b < 0x90) || (a === 0xf4 && b >= 0x90)) return 0;
  return 4;
}

function isDigit(c: number | undefined): boolean {
  return c !== undefined && c >= DIGIT_0 && c <= DIGIT_9;
}

function digits(src: Uint8Array, pos: number, start: number): number {
  if (!isDigit(src[pos])) throw malformed("a digit is missing", pos - start);
  let i = pos + 1;
  while (isDigit(src[i])) i++;
  return i;
}

function number(src: Uint8Array, pos: number, start: number): number {
  let i = src[pos] === MINUS ? pos + 1 : pos;
  if (src[i] === DIGIT_0) {
    i++;
    if (isDigit(src[i])) throw malformed("a number with a leading zero", pos - start);
  } else {
    i = digits(src, i, start);
  }
  if (src[i] === DOT) i = digits(src, i + 1, start);
  const e = src[i];
  if (e === 0x65 || e === 0x45) {
    const sign = src[i + 1];
    i = digits(src, sign === PLUS || sign === MINUS ? i + 2 : i + 1, start);
  }
  return i;
}

function literal(src: Uint8Array, pos: number, start: number): number {
  const a = src[pos];
  const b = src[pos + 1];
  const c = src[pos + 2];
  const d = src[pos + 3];
  if (a === 0x6e && b === 0x75 && c === 0x6c && d === 0x6c) return pos + 4;
  if (a === 0x74 && b === 0x72 && c === 0x75 && d === 0x65) return pos + 4;
  if (a === 0x66 && b === 0x61 && c === 0x6c && d === 0x73 && src[pos + 4] === 0x65) return pos + 5;
  throw malformed(a === undefined ? "a value is missing" : "this begins no value", pos - start);
}
