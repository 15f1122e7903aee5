// Turns JSON text into collation keys. Canonical text, which is nearly all of it, is encoded in one pass over its bytes that finds
// its end and checks its form on the way; at the first byte out of form the pass gives up, the text is rewritten, and encoded
// again. No recursion: depth costs a few bytes a level.
import { canonicalJson, MemberNames, scanValue, syntax } from "../json/index.js";
import { invariant } from "../errors.js";
import { ByteBuffer, type ByteSink } from "./bytes.js";
import { NUMBER_BYTES_MAX, writeDouble, writeSmallInteger } from "./numbers.js";
import { RawStrings } from "./raw-strings.js";
import { RootStrings, writeRunsBefore } from "./root-strings.js";
import { ARRAY, END, LEVEL, RAW_TAGS, ROOT_TAGS, type CollationKind, type Tags } from "./tags.js";
import { collation, newestCollation, type Collation } from "./versions.js";

const {
  BACKSLASH,
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  DIGIT_0,
  DIGIT_9,
  DOT,
  MINUS,
  OPEN_ARRAY,
  OPEN_OBJECT,
  PLUS,
  QUOTE,
} = syntax;
const LOWER_E = 0x65;
const UPPER_E = 0x45;
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;

/** Any decimal number of so many digits is told apart by doubles. */
const EXACT_DIGITS = 15;
const POWERS_OF_TEN = Float64Array.from({ length: EXACT_DIGITS + 1 }, (_, i) => 10 ** i);

/** The pass met something that is not canonical JSON. */
const GAVE_UP = -1;

/** Encodes keys one after the other. Reusable, not re-entrant; keep one per thread and kind. */
export class KeyEncoder {
  readonly kind: CollationKind;
  #exact = true;
  #canonical = true;
  readonly #tags: Tags;
  readonly #names = new MemberNames();
  readonly #raw: RawStrings | undefined;
  readonly #collation: Collation;
  #root: RootStrings | undefined;
  /** For each open container whether it is an object. */
  #stack = new Uint8Array(32);
  /** Positions of upper-case letters in the string being written. */
  #upper = new Int32Array(64);

  /** `version`: of the root order; throws INDEXER_FORMAT_UNSUPPORTED for one that is not known. */
  constructor(kind: CollationKind, version: number = newestCollation()) {
    this.kind = kind;
    this.#collation = collation(version);
    this.#tags = kind === "root" ? ROOT_TAGS : RAW_TAGS;
    this.#raw = kind === "raw" ? new RawStrings() : undefined;
  }

  /** Whether `decodeKey` gives back the last key's canonical text; when false, the text must be kept beside the key. */
  get exact(): boolean {
    return this.#exact;
  }

  /** Whether the last key's text was canonical (see JsonScanner). */
  get canonical(): boolean {
    return this.#canonical;
  }

  /**
   * Appends the key of the JSON value that starts at `start` to `sink` and returns the index after the value in `src`.
   * Throws JSON_MALFORMED; the sink then holds what it held before.
   */
  encode(src: Uint8Array, start: number, sink: ByteSink): number {
    const used = sink.used;
    this.#exact = true;
    this.#canonical = true;
    const end = this.#value(src, start, sink);
    if (end !== GAVE_UP) return end;
    sink.used = used;
    this.#exact = true;
    return this.#rewritten(src, start, sink);
  }

  #rewritten(src: Uint8Array, start: number, sink: ByteSink): number {
    const end = scanValue(src, start);
    const text = Buffer.from(src.buffer, src.byteOffset + start, end - start).toString("utf8");
    const canonical = Buffer.from(canonicalJson(text), "utf8");
    const reached = this.#value(canonical, 0, sink);
    invariant(reached === canonical.length, "canonical JSON could not be encoded");
    this.#canonical = false;
    return end;
  }

  #value(src: Uint8Array, start: number, sink: ByteSink): number {
    const first = src[start];
    if (first === QUOTE) return this.#string(src, start, sink);
    if (first === OPEN_ARRAY || first === OPEN_OBJECT) return this.#compound(src, start, sink);
    return this.#scalar(src, start, sink);
  }

  #compound(src: Uint8Array, start: number, sink: ByteSink): number {
    this.#names.reset();
    let depth = 0;
    let pos = start;
    for (;;) {
      const c = src[pos];
      if (c === QUOTE) {
        pos = this.#string(src, pos, sink);
        if (pos === GAVE_UP) return GAVE_UP;
      } else if (c === OPEN_ARRAY || c === OPEN_OBJECT) {
        sink.ensure(1);
        const isObject = c === OPEN_OBJECT;
        sink.bytes[sink.used++] = isObject ? this.#tags.OBJECT : ARRAY;
        if (depth === this.#stack.length) this.#growStack();
        this.#stack[depth++] = isObject ? 1 : 0;
        pos++;
        if (isObject) {
          this.#names.open();
          if (src[pos] !== CLOSE_OBJECT) {
            pos = this.#name(src, pos, sink);
            if (pos === GAVE_UP) return GAVE_UP;
            continue;
          }
        } else if (src[pos] !== CLOSE_ARRAY) {
          continue;
        }
      } else {
        pos = this.#scalar(src, pos, sink);
        if (pos === GAVE_UP) return GAVE_UP;
      }
      // A value ended at pos (or an empty container is about to close).
      for (;;) {
        const next = src[pos++];
        const inObject = this.#stack[depth - 1] === 1;
        if (next === COMMA) {
          if (!inObject) break;
          pos = this.#name(src, pos, sink);
          if (pos === GAVE_UP) return GAVE_UP;
          break;
        }
        if (next !== (inObject ? CLOSE_OBJECT : CLOSE_ARRAY)) return GAVE_UP;
        sink.ensure(1);
        sink.bytes[sink.used++] = END;
        if (inObject) this.#names.close();
        if (--depth === 0) return pos;
      }
    }
  }

  #name(src: Uint8Array, pos: number, sink: ByteSink): number {
    if (src[pos] !== QUOTE) return GAVE_UP;
    const end = this.#string(src, pos, sink);
    if (end === GAVE_UP || src[end] !== COLON || this.#names.add(src, pos + 1, end - 1))
      return GAVE_UP;
    return end + 1;
  }

  /** A number or a literal. */
  #scalar(src: Uint8Array, pos: number, sink: ByteSink): number {
    sink.ensure(NUMBER_BYTES_MAX);
    const negative = src[pos] === MINUS;
    const first = negative ? pos + 1 : pos;
    let digit = (src[first] ?? 0) - DIGIT_0;
    if (digit < 0 || digit > 9) return negative ? GAVE_UP : this.#literal(src, pos, sink);
    // Nine digits fit in a small integer, fifteen are exact in a double.
    let value = digit;
    let i = first + 1;
    digit = (src[i] ?? 0) - DIGIT_0;
    if (value !== 0) {
      while (digit >= 0 && digit <= 9 && i - first < 9) {
        value = value * 10 + digit;
        digit = (src[++i] ?? 0) - DIGIT_0;
      }
    }
    const small = digit < 0 || digit > 9;
    if (
      small &&
      digit !== DOT - DIGIT_0 &&
      digit !== LOWER_E - DIGIT_0 &&
      digit !== UPPER_E - DIGIT_0
    ) {
      if (negative && value === 0) this.#exact = false;
      writeSmallInteger(negative ? -value : value, sink);
      return i;
    }
    return this.#longNumber(src, pos, sink);
  }

  /** More than nine digits, a fraction or an exponent. */
  #longNumber(src: Uint8Array, pos: number, sink: ByteSink): number {
    const negative = src[pos] === MINUS;
    const first = negative ? pos + 1 : pos;
    // Up to fifteen digits are exact in a double, and dividing them by a power of ten rounds as the decimal number does.
    let magnitude = 0;
    let i = first;
    let c = src[i] ?? 0;
    while (c >= DIGIT_0 && c <= DIGIT_9) {
      magnitude = magnitude * 10 + (c - DIGIT_0);
      c = src[++i] ?? 0;
    }
    const whole = i - first;
    let digits = whole;
    if (c === DOT) {
      c = src[++i] ?? 0;
      while (c >= DIGIT_0 && c <= DIGIT_9) {
        magnitude = magnitude * 10 + (c - DIGIT_0);
        digits++;
        c = src[++i] ?? 0;
      }
      if (digits === whole) return GAVE_UP;
    }
    if (
      digits <= EXACT_DIGITS &&
      c !== LOWER_E &&
      c !== UPPER_E &&
      (whole === 1 || src[first] !== DIGIT_0)
    ) {
      const fraction = digits - whole;
      const value = fraction === 0 ? magnitude : magnitude / (POWERS_OF_TEN[fraction] as number);
      // As JavaScript prints it: no zero at the end of a fraction, no exponent from 1e-6 up.
      if (fraction > 0 && (src[i - 1] === DIGIT_0 || value < 1e-6)) this.#exact = false;
      writeDouble(negative ? -value : value, sink);
      return i;
    }
    while (
      (c >= DIGIT_0 && c <= DIGIT_9) ||
      c === DOT ||
      c === PLUS ||
      c === MINUS ||
      c === LOWER_E ||
      c === UPPER_E
    )
      c = src[++i] ?? 0;
    let text = "";
    for (let k = pos; k < i; k++) text += String.fromCharCode(src[k] as number);
    if (!NUMBER.test(text)) return GAVE_UP;
    const value = Number(text);
    if (String(value) !== text) this.#exact = false;
    writeDouble(value, sink);
    return i;
  }

  #literal(src: Uint8Array, pos: number, sink: ByteSink): number {
    const a = src[pos];
    const b = src[pos + 1];
    const c = src[pos + 2];
    const d = src[pos + 3];
    let tag: number;
    let end = pos + 4;
    if (a === 0x6e && b === 0x75 && c === 0x6c && d === 0x6c) tag = this.#tags.NULL;
    else if (a === 0x74 && b === 0x72 && c === 0x75 && d === 0x65) tag = this.#tags.TRUE;
    else if (a === 0x66 && b === 0x61 && c === 0x6c && d === 0x73 && src[end] === 0x65) {
      tag = this.#tags.FALSE;
      end++;
    } else return GAVE_UP;
    sink.bytes[sink.used++] = tag;
    return end;
  }

  #string(src: Uint8Array, pos: number, sink: ByteSink): number {
    return this.#raw ? this.#raw.write(src, pos, sink) : this.#rootString(src, pos, sink);
  }

  /** Printable ASCII here; from the first other character on, everything through RootStrings. */
  #rootString(src: Uint8Array, pos: number, sink: ByteSink): number {
    const primaries = this.#collation.asciiPrimary;
    const start = sink.used;
    sink.ensure(32);
    let bytes = sink.bytes;
    let at = start;
    bytes[at++] = ROOT_TAGS.STRING;
    let uppers = 0;
    let i = pos + 1;
    // One byte of room is kept for END, so that the loop needs to watch only one index.
    let limit = Math.min(src.length, i + bytes.length - at - 1);
    for (;;) {
      while (i < limit) {
        const primary = primaries[src[i] as number] as number;
        if (primary === 0) break;
        bytes[at++] = primary;
        i++;
      }
      if (i >= limit) {
        if (i >= src.length) return GAVE_UP;
        sink.used = at;
        sink.ensure(64);
        bytes = sink.bytes;
        limit = Math.min(src.length, i + bytes.length - at - 1);
        continue;
      }
      const c = src[i] as number;
      if (c === QUOTE) break;
      if (c >= 0x41 && c <= 0x5a) {
        if (uppers === this.#upper.length) this.#growUpper();
        this.#upper[uppers++] = at - start - 1;
        bytes[at++] = primaries[c | 0x20] as number;
        i++;
      } else if (c === BACKSLASH && (src[i + 1] === QUOTE || src[i + 1] === BACKSLASH)) {
        bytes[at++] =
          src[i + 1] === QUOTE ? this.#collation.quotePrimary : this.#collation.backslashPrimary;
        i += 2;
      } else {
        // Whatever comes beyond printable ASCII cannot be told from its bytes.
        sink.used = start;
        this.#exact = false;
        this.#root ??= new RootStrings(this.#collation.table);
        return this.#root.write(src, pos, sink);
      }
    }
    sink.used = at;
    if (uppers > 0) this.#writeUppers(uppers, sink);
    sink.ensure(1);
    sink.bytes[sink.used++] = END;
    return i + 1;
  }

  /** The second (empty) and third level of a string with upper-case letters. */
  #writeUppers(count: number, sink: ByteSink): void {
    const upper = this.#collation.upperTertiary;
    sink.ensure(2);
    sink.bytes[sink.used++] = LEVEL;
    sink.bytes[sink.used++] = LEVEL;
    let next = 0;
    for (let k = 0; k < count; k++) {
      const at = this.#upper[k] as number;
      writeRunsBefore(at - next, sink);
      sink.bytes[sink.used++] = upper;
      next = at + 1;
    }
  }

  #growStack(): void {
    const bigger = new Uint8Array(this.#stack.length * 2);
    bigger.set(this.#stack);
    this.#stack = bigger;
  }

  #growUpper(): void {
    const bigger = new Int32Array(this.#upper.length * 2);
    bigger.set(this.#upper);
    this.#upper = bigger;
  }
}

const encoders: Readonly<Record<CollationKind, (KeyEncoder | undefined)[]>> = { root: [], raw: [] };

/** Keys of queries are put together in one place: their encoding neither waits nor nests. */
let shared = new ByteBuffer();
/** One huge key does not make it huge for good. */
const SHARED_BYTES_MAX = 64 * 1024;
/** Up to so many bytes a loop is cheaper than a call, and a typed array lies in the heap. */
const SHORT = 64;

/** The key of one JSON text (blanks around it are allowed), as a query needs it. Throws JSON_MALFORMED. */
export function encodeKeyText(
  kind: CollationKind,
  json: string | Uint8Array,
  version: number = newestCollation(),
): Uint8Array {
  const encoder = (encoders[kind][version] ??= new KeyEncoder(kind, version));
  const src = typeof json === "string" ? utf8Of(json) : json;
  if (shared.bytes.length > SHARED_BYTES_MAX) shared = new ByteBuffer();
  const sink = shared;
  sink.clear();
  let end = encoder.encode(src, 0, sink);
  while (end < src.length && syntax.isBlank(src[end])) end++;
  if (end < src.length) throw syntax.malformed("something follows the value", end);
  return sink.used <= SHORT ? shortCopy(sink) : sink.take();
}

function utf8Of(text: string): Uint8Array {
  const { length } = text;
  if (length > SHORT) return Buffer.from(text, "utf8");
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return Buffer.from(text, "utf8");
    bytes[i] = code;
  }
  return bytes;
}

function shortCopy({ bytes, used }: ByteBuffer): Uint8Array {
  const copy = new Uint8Array(used);
  for (let i = 0; i < used; i++) copy[i] = bytes[i] as number;
  return copy;
}
