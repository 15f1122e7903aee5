// Collation keys of the root order, as indexer/collation/encoder.ts makes them, for what can be told from them again: null, booleans, ordinary
// numbers, strings of printable ASCII, arrays of all that.

import { at } from "./json";

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const MINUS: u32 = 0x2d;
const DOT: u32 = 0x2e;
const ZERO: u32 = 0x30;
const OPEN_BRACKET: u32 = 0x5b;
const BACKSLASH: u32 = 0x5c;
const CLOSE_BRACKET: u32 = 0x5d;

// indexer/collation/tags.ts
const END: u32 = 0x00;
const LEVEL: u32 = 0x01;
const NULL: u32 = 0x02;
const FALSE: u32 = 0x03;
const TRUE: u32 = 0x04;
const NUMBER_ZERO: u32 = 0x52;
const NUMBER_FIRST: u32 = 0x10;
const NUMBER_LAST: u32 = 0x94;
const STRING: u32 = 0xa0;
const ARRAY: u32 = 0xb0;

// indexer/collation/numbers.ts
const EXPONENT_MIN: i32 = -11;
const EXPONENT_MAX: i32 = 52;
const POSITIVE_ONE: u32 = NUMBER_ZERO + 2 + 11;

// indexer/collation/root-strings.ts
const RUN_LIMIT: u32 = 0x80;
const RUN_MAX: u32 = RUN_LIMIT - 2;

const DEPTH_MAX: i32 = 16;
const UPPERS_MAX: u32 = 256;
/** Any decimal number of so many digits is told apart by doubles. */
const EXACT_DIGITS: u32 = 15;

/** Positions of upper-case letters in the string that is written, u16. */
const uppers = memory.data(256 * 2, 16);
const powersOfTen = memory.data<f64>([
  1, 10, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
]);

/** Primary weight of each byte: 0 for all but printable ASCII without upper case, quote and backslash. */
let primaries: usize = 0;
let quotePrimary: u32 = 0;
let backslashPrimary: u32 = 0;
let upperTertiary: u32 = 0;

/** Where the last key ends. */
let q: usize = 0;

/** The order's table, 256 bytes, and three weights. */
export function setRootOrder(table: usize, quote: u32, backslash: u32, upper: u32): void {
  primaries = table;
  quotePrimary = quote;
  backslashPrimary = backslash;
  upperTertiary = upper;
}

/** Writes the key of the JSON value at `p` to `to`; returns the place after the value, 0 when it is not one of those. */
export function pastKey(p: usize, to: usize): usize {
  q = to;
  return pastValue(p, 0);
}

export function keyEnd(): usize {
  return q;
}

function put(byte: u32): void {
  store<u8>(q++, byte);
}

function pastValue(p: usize, depth: i32): usize {
  const first = at(p);
  if (first == QUOTE) return pastString(p + 1);
  if (first == OPEN_BRACKET) return depth < DEPTH_MAX ? pastArray(p + 1, depth + 1) : 0;
  if (first == 0x6e) return pastLiteral(p, 0x6c6c756e, NULL);
  if (first == 0x74) return pastLiteral(p, 0x65757274, TRUE);
  if (first == 0x66) return pastLiteral(p + 1, 0x65736c61, FALSE);
  return pastNumber(p);
}

function pastLiteral(p: usize, word: u32, tag: u32): usize {
  if (load<u32>(p) != word) return 0;
  put(tag);
  return p + 4;
}

function pastArray(p: usize, depth: i32): usize {
  put(ARRAY);
  if (at(p) == CLOSE_BRACKET) {
    put(END);
    return p + 1;
  }
  while (true) {
    p = pastValue(p, depth);
    if (p == 0) return 0;
    const next = at(p++);
    if (next == CLOSE_BRACKET) {
      put(END);
      return p;
    }
    if (next != COMMA) return 0;
  }
}

/** `p` is behind the opening quote. */
function pastString(p: usize): usize {
  put(STRING);
  const start = q;
  let count: u32 = 0;
  while (true) {
    const c = at(p++);
    const primary = load<u8>(primaries + c);
    if (primary != 0) {
      put(primary);
    } else if (c == QUOTE) {
      break;
    } else if (c - 0x41 <= 25) {
      if (count == UPPERS_MAX) return 0;
      store<u16>(uppers + ((<usize>count) << 1), <u16>(q - start));
      count++;
      put(load<u8>(primaries + (c | 0x20)));
    } else if (c == BACKSLASH && (at(p) == QUOTE || at(p) == BACKSLASH)) {
      put(at(p++) == QUOTE ? quotePrimary : backslashPrimary);
    } else {
      return 0;
    }
  }
  if (count > 0) putUppers(count);
  put(END);
  return p;
}

/** The second (empty) and third level of a string with upper-case letters. */
function putUppers(count: u32): void {
  put(LEVEL);
  put(LEVEL);
  let next: u32 = 0;
  for (let k: u32 = 0; k < count; k++) {
    const position = <u32>load<u16>(uppers + ((<usize>k) << 1));
    let run = position - next;
    while (run > RUN_MAX) {
      put(RUN_LIMIT - RUN_MAX);
      run -= RUN_MAX;
    }
    if (run > 0) put(RUN_LIMIT - run);
    put(upperTertiary);
    next = position + 1;
  }
}

/** As JavaScript prints it, without an exponent, of no more digits than are exact in a double. */
function pastNumber(p: usize): usize {
  const negative = at(p) == MINUS;
  if (negative) p++;
  const first = p;
  let magnitude: u64 = 0;
  let digit = at(p) - ZERO;
  while (digit <= 9) {
    magnitude = magnitude * 10 + digit;
    digit = at(++p) - ZERO;
  }
  const whole = <u32>(p - first);
  if (whole == 0 || whole > EXACT_DIGITS || (whole > 1 && at(first) == ZERO)) return 0;
  let fraction: u32 = 0;
  if (at(p) == DOT) {
    const point = p;
    digit = at(++p) - ZERO;
    while (digit <= 9) {
      magnitude = magnitude * 10 + digit;
      digit = at(++p) - ZERO;
    }
    fraction = <u32>(p - point - 1);
    if (fraction == 0 || whole + fraction > EXACT_DIGITS || at(p - 1) == ZERO) return 0;
  }
  if ((at(p) | 0x20) == 0x65) return 0;
  let value = <f64>magnitude;
  // Rounded as the decimal number is: both are exact.
  if (fraction > 0) {
    value /= load<f64>(powersOfTen + ((<usize>fraction) << 3));
    if (value < 1e-6) return 0;
  } else if (magnitude == 0 && negative) {
    return 0;
  }
  putDouble(value, negative);
  return p;
}

function putDouble(value: f64, negative: bool): void {
  if (value == 0) {
    put(NUMBER_ZERO);
    return;
  }
  let rest = reinterpret<u64>(value);
  const exponent = <i32>(rest >> 52) - 1023;
  let tag: u32;
  if (exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX) {
    tag = POSITIVE_ONE + exponent;
    rest <<= 12;
  } else {
    tag = NUMBER_ZERO + 1;
    rest <<= 1;
  }
  const flip: u32 = negative ? 0xff : 0;
  put(negative ? NUMBER_FIRST + NUMBER_LAST - tag : tag);
  do {
    const group = (<u32>(rest >> 57)) << 1;
    rest <<= 7;
    put((rest == 0 ? group : group | 1) ^ flip);
  } while (rest != 0);
}
