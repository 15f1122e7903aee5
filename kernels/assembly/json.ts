// Passes over JSON values in memory. As strict as a parser, and stricter where a text is out of the ordinary: blanks other than spaces and
// nesting beyond DEPTH_MAX end the walk. Strings and digits are looked at 16 bytes at a time, so 16 bytes behind a text must be
// readable; what stands there must end any value (a zero does).

const QUOTE: u32 = 0x22;
const COMMA: u32 = 0x2c;
const MINUS: u32 = 0x2d;
const DOT: u32 = 0x2e;
const ZERO: u32 = 0x30;
const COLON: u32 = 0x3a;
const BACKSLASH: u32 = 0x5c;
const OPEN_BRACKET: u32 = 0x5b;
const CLOSE_BRACKET: u32 = 0x5d;
const OPEN_BRACE: u32 = 0x7b;
const CLOSE_BRACE: u32 = 0x7d;
const SPACE: u32 = 0x20;

const DEPTH_MAX: i32 = 64;

/** The byte at `p`. */
export function at(p: usize): u32 {
  return <u32>load<u8>(p);
}

/** The first place from `p` on that has no space. */
export function pastBlanks(p: usize): usize {
  while (at(p) == SPACE) p++;
  return p;
}

/** The first quote, backslash or control character from `p` on. */
export function plainEnd(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    const special = v128.or(
      v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c))),
      i8x16.lt_u(bytes, i8x16.splat(0x20)),
    );
    const mask = i8x16.bitmask(special);
    if (mask != 0) return p + ctz(mask);
    p += 16;
  }
}

/** The place after the value that begins at `p`; 0 when there is none. `depth`: containers around it. */
export function pastValue(p: usize, depth: i32): usize {
  const first = at(p);
  if (first == QUOTE) return pastString(p + 1);
  if (first == OPEN_BRACE) return depth < DEPTH_MAX ? pastObject(p + 1, depth + 1) : 0;
  if (first == OPEN_BRACKET) return depth < DEPTH_MAX ? pastArray(p + 1, depth + 1) : 0;
  if (first == 0x74) return load<u32>(p) == 0x65757274 ? p + 4 : 0;
  if (first == 0x6e) return load<u32>(p) == 0x6c6c756e ? p + 4 : 0;
  if (first == 0x66) return load<u32>(p + 1) == 0x65736c61 ? p + 5 : 0;
  return pastNumber(p);
}

/** `p` is behind the opening quote. */
function pastString(p: usize): usize {
  while (true) {
    p = plainEnd(p);
    const c = at(p);
    if (c == QUOTE) return p + 1;
    if (c != BACKSLASH) return 0;
    const escaped = at(p + 1);
    if (isShortEscape(escaped)) p += 2;
    else if (escaped == 0x75 && isHex(p + 2)) p += 6;
    else return 0;
  }
}

/** One of "\/bfnrt. */
function isShortEscape(c: u32): bool {
  return (
    c == QUOTE ||
    c == BACKSLASH ||
    c == 0x2f ||
    c == 0x62 ||
    c == 0x66 ||
    c == 0x6e ||
    c == 0x72 ||
    c == 0x74
  );
}

function isHex(p: usize): bool {
  for (let i: usize = 0; i < 4; i++) {
    const c = at(p + i);
    if (c - 0x30 > 9 && (c | 0x20) - 0x61 > 5) return false;
  }
  return true;
}

function pastNumber(p: usize): usize {
  if (at(p) == MINUS) p++;
  if (at(p) == ZERO) {
    p++;
  } else {
    const end = pastDigits(p);
    if (end == p) return 0;
    p = end;
  }
  if (at(p) == DOT) {
    const end = pastDigits(p + 1);
    if (end == p + 1) return 0;
    p = end;
  }
  if ((at(p) | 0x20) == 0x65) {
    p++;
    const sign = at(p);
    if (sign == 0x2b || sign == MINUS) p++;
    const end = pastDigits(p);
    if (end == p) return 0;
    p = end;
  }
  return p;
}

function pastDigits(p: usize): usize {
  while (true) {
    const values = i8x16.sub(v128.load(p), i8x16.splat(0x30));
    const mask = i8x16.bitmask(i8x16.gt_u(values, i8x16.splat(9)));
    if (mask != 0) return p + ctz(mask);
    p += 16;
  }
}

function pastArray(p: usize, depth: i32): usize {
  p = pastBlanks(p);
  if (at(p) == CLOSE_BRACKET) return p + 1;
  while (true) {
    p = pastValue(p, depth);
    if (p == 0) return 0;
    p = pastBlanks(p);
    const next = at(p++);
    if (next == CLOSE_BRACKET) return p;
    if (next != COMMA) return 0;
    p = pastBlanks(p);
  }
}

function pastObject(p: usize, depth: i32): usize {
  p = pastBlanks(p);
  if (at(p) == CLOSE_BRACE) return p + 1;
  while (true) {
    if (at(p) != QUOTE) return 0;
    p = pastString(p + 1);
    if (p == 0) return 0;
    p = pastBlanks(p);
    if (at(p) != COLON) return 0;
    p = pastValue(pastBlanks(p + 1), depth);
    if (p == 0) return 0;
    p = pastBlanks(p);
    const next = at(p++);
    if (next == CLOSE_BRACE) return p;
    if (next != COMMA) return 0;
    p = pastBlanks(p);
  }
}

/** Names of the objects that are open, two addresses each, and how many. */
const names = memory.data(64 * 8, 16);
const NAMES_MAX: u32 = 64;
let nameCount: u32 = 0;

/**
 * The place after the value that begins at `p` when it is canonical (indexer/json/scan.ts) and ASCII without escapes; 0 when that cannot be said.
 */
export function pastCanonical(p: usize): usize {
  nameCount = 0;
  return pastCanonicalValue(p, 0);
}

function pastCanonicalValue(p: usize, depth: i32): usize {
  const first = at(p);
  if (first == QUOTE) return pastAscii(p + 1);
  if (first == OPEN_BRACE) return depth < DEPTH_MAX ? pastCanonicalObject(p + 1, depth + 1) : 0;
  if (first == OPEN_BRACKET) return depth < DEPTH_MAX ? pastCanonicalArray(p + 1, depth + 1) : 0;
  return pastValue(p, depth);
}

/** Behind the string's closing quote; `p` is behind the opening one. */
function pastAscii(p: usize): usize {
  while (true) {
    const bytes = v128.load(p);
    // Signed: bytes from 0x80 on are below all others.
    const special = v128.or(
      v128.or(i8x16.eq(bytes, i8x16.splat(0x22)), i8x16.eq(bytes, i8x16.splat(0x5c))),
      i8x16.lt_s(bytes, i8x16.splat(0x20)),
    );
    const mask = i8x16.bitmask(special);
    if (mask != 0) {
      p += ctz(mask);
      return at(p) == QUOTE ? p + 1 : 0;
    }
    p += 16;
  }
}

function pastCanonicalArray(p: usize, depth: i32): usize {
  if (at(p) == CLOSE_BRACKET) return p + 1;
  while (true) {
    p = pastCanonicalValue(p, depth);
    if (p == 0) return 0;
    const next = at(p++);
    if (next == CLOSE_BRACKET) return p;
    if (next != COMMA) return 0;
  }
}

function pastCanonicalObject(p: usize, depth: i32): usize {
  if (at(p) == CLOSE_BRACE) return p + 1;
  const outer = nameCount;
  while (true) {
    if (at(p) != QUOTE) return 0;
    const name = p + 1;
    p = pastAscii(name);
    if (p == 0 || at(p) != COLON || !addName(outer, name, p - 1)) return 0;
    p = pastCanonicalValue(p + 1, depth);
    if (p == 0) return 0;
    const next = at(p++);
    if (next == CLOSE_BRACE) {
      nameCount = outer;
      return p;
    }
    if (next != COMMA) return 0;
  }
}

/** False when the object whose names begin at `outer` has this one, or there are too many. */
function addName(outer: u32, start: usize, end: usize): bool {
  if (nameCount == NAMES_MAX) return false;
  for (let i = outer; i < nameCount; i++) {
    const other = <usize>load<u32>(names + ((<usize>i) << 3));
    const otherEnd = <usize>load<u32>(names + ((<usize>i) << 3), 4);
    if (otherEnd - other != end - start) continue;
    let k: usize = 0;
    while (start + k < end && load<u8>(start + k) == load<u8>(other + k)) k++;
    if (start + k == end) return false;
  }
  store<u32>(names + ((<usize>nameCount) << 3), <u32>start);
  store<u32>(names + ((<usize>nameCount) << 3), <u32>end, 4);
  nameCount++;
  return true;
}
